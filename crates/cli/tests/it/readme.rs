//! What the README tells people to type must work.

use std::fs;

use crate::program;

/// The fenced block of this language that holds `word`.
fn block(language: &str, word: &str) -> String {
    let readme = fs::read_to_string(program::root().join("README.md")).unwrap();
    let fence = format!("```{language}\n");
    let mut blocks = readme.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.find(|block| block.contains(word)).unwrap().to_string()
}

#[test]
fn the_typed_numbers_give_a_verdict() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("observations.toml"), block("toml", "observations/1")).unwrap();
    let run = program::run(["diagnose".as_ref(), "--json".as_ref(), folder.path().as_os_str()]);
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, report["verdict"]["check"].as_str()), (1, Some("batch_cap_reached")), "{}", run.stderr);
}

#[test]
fn every_verb_in_the_table_exists() {
    let readme = fs::read_to_string(program::root().join("README.md")).unwrap();
    let verbs: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix("| `inferoscope ")).collect();
    assert!(verbs.len() >= 6, "{verbs:?}");
    for verb in verbs {
        let name = verb.split([' ', '`']).next().unwrap();
        assert_eq!(program::run([name, "--help"]).code, 0, "{name}");
    }
}

#[test]
fn the_answers_settle_a_triage() {
    let folder = tempfile::tempdir().unwrap();
    let answers = folder.path().join("answers.toml");
    fs::write(&answers, block("toml", "server_ttft")).unwrap();
    let run = program::run(["triage".as_ref(), "--answers".as_ref(), answers.as_os_str()]);
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("settled by `"), "{}", run.stdout);
}
