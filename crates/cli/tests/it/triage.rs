//! `triage`: an answers file per symptom, and the dialog on plain lines.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use analysis::contract::Report;

use crate::program::{self, Run};

fn files() -> Vec<PathBuf> {
    let folder = program::root().join("crates/cli/tests/it/triage");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn report(run: &Run) -> Report {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr))
}

#[test]
fn every_symptom_has_its_answers_and_its_end() {
    assert_eq!(files().len(), analysis::triage::ORDERS.len());
    for file in files() {
        let symptom = file.file_stem().unwrap().to_str().unwrap().to_string();
        let told = program::run(["triage".as_ref(), "--answers".as_ref(), file.as_os_str()]);
        let judged = report(&program::run(["triage".as_ref(), "--json".as_ref(), "--answers".as_ref(), file.as_os_str()]));
        assert_eq!((judged.symptom.id.as_str(), judged.symptom.stated), (symptom.as_str(), true));
        assert!(judged.issues.iter().all(|issue| issue.severity != "error"), "{symptom}: {:?}", judged.issues);
        let text = fs::read_to_string(&file).unwrap();
        let expected = text.strip_prefix("# expect: ").unwrap().split([',', '\n']).next().unwrap();
        let asked = told.stdout.lines().next().unwrap();
        assert!(asked.contains(&format!("path of {symptom}")), "{asked}");
        if expected == "any" {
            // Which check owns it is for the checks to say; the path must have used the answers.
            let answered = judged.path.iter().filter(|step| step.answer != "cannot tell").count();
            assert!(answered >= 2, "{symptom}: {:?}", judged.path);
        } else {
            assert_eq!((judged.verdict.check.as_deref(), told.code), (Some(expected), 1), "{symptom}: {}", told.stdout);
            assert!(asked.contains("; settled by `"), "{asked}");
        }
        let is_settled = analysis::triage::is_settled(&judged);
        assert_eq!(told.stdout.contains("What would decide most"), !is_settled, "{symptom}: {}", told.stdout);
    }
}

#[test]
fn the_answers_become_observations_that_diagnose_takes() {
    let folder = tempfile::tempdir().unwrap();
    for file in files() {
        let written = folder.path().join(file.file_name().unwrap()).with_extension("observations.toml");
        let args = ["triage".as_ref(), "--json".as_ref(), "--answers".as_ref(), file.as_os_str(), "-o".as_ref(), written.as_os_str()];
        let (triage, diagnosis) =
            (report(&program::run(args)), program::run(["diagnose".as_ref(), "--json".as_ref(), written.as_os_str()]));
        let diagnosis = report(&diagnosis);
        assert_eq!(triage.verdict.check, diagnosis.verdict.check, "{}", file.display());
        // Of two runs of which neither tells anything `diagnose` shows the first, triage the one that was asked about.
        if !fs::read_to_string(&written).unwrap().contains("name = \"before\"") {
            assert_eq!(triage.verdict, diagnosis.verdict, "{}", file.display());
        }
        // What was written may be written again, what somebody else wrote may not.
        assert_ne!(program::run(args).code, 2);
        fs::write(&written, "mine").unwrap();
        assert_eq!((program::run(args).code, fs::read_to_string(&written).unwrap().as_str()), (2, "mine"));
    }
}

#[test]
fn a_wrong_answer_names_file_question_and_what_was_expected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("answers.toml");
    for (text, complaint) in [
        ("symptom = \"high_ttft\"\nserver_ttft = 2.5\n", "server_ttft: expected a unit, as in `250 ms`, found `2.5`"),
        ("symptom = \"high_ttft\"\nserver_tfft = \"2 s\"\n", "no question is called `server_tfft`; the nearest is `server_ttft`"),
        ("symptom = \"high_ttft\"\nkv_usage = \"130 %\"\n", "kv_usage: expected 0 to 1 or percent"),
        ("symptom = \"high_ttft\"\nengine = [1]\n", "engine: expected a number, a word or yes and no, found array"),
        ("server_ttft = \"2 s\"\n", "expected `symptom = \"...\"` or --symptom, found neither"),
        ("symptom = \"slow\"\n", "`slow` is no symptom"),
        ("symptom = \"high_ttft\"\n= 3\n", "line 2: expected `question = answer`"),
    ] {
        fs::write(&path, text).unwrap();
        let run = program::run([Path::new("triage"), Path::new("--answers"), &path]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{text}");
        assert!(run.stderr.contains(complaint) && run.stderr.contains("answers.toml"), "{text}: {}", run.stderr);
    }
}

fn dialog(args: &[&str], typed: &str) -> Run {
    let mut child =
        program::command().arg("triage").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A program that has heard enough closes its end first.
    let _ = child.stdin.take().unwrap().write_all(typed.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn a_person_is_asked_can_ask_back_and_is_told_when_it_is_settled() {
    let typed = "9\nhigh_ttft\n?\nvllm\n2.51\nback\nsglang\n2.51 s\n12.8 ms\n250\n-\n-\n-\n2.40 s\n70 ms\n9 %\n0\n-\n-\n32\n32\n22.6\nno\n";
    let run = dialog(&[], typed);
    assert_eq!((run.code, run.stderr.as_str()), (1, ""), "{}", run.stdout);
    for part in [
        "Expected a number from 1 to 8",
        "why: names of metrics and flags differ between engines",
        "expected a unit, as in `250 ms`, found `2.51`",
        "to find out: a load client beside the users",
        "Not known, and how to find out:",
        "SCHEDULING  batch_cap_reached",
    ] {
        assert!(run.stdout.contains(part), "{part}\n{}", run.stdout);
    }
    assert_eq!(run.stdout.matches("Which engine serves the model?").count(), 2, "back asks again");
}

#[test]
fn the_end_of_the_input_ends_the_questions() {
    let run = dialog(&["--symptom", "tail_spikes"], "vllm\n20 ms");
    assert_eq!((run.code, run.stderr.as_str()), (3, ""), "{}", run.stdout);
    assert!(run.stdout.contains("What would decide most"), "{}", run.stdout);
    assert_eq!(dialog(&[], "").code, 3);
}

#[test]
fn a_line_of_any_length_or_content_is_an_answer_or_none() {
    let long = "7".repeat(100_000);
    let run = dialog(&["--symptom", "high_ttft"], &format!("{long}\n\u{1b}[31m\u{0}\n\nvllm\ndone\n"));
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert!(!run.stdout.contains('\u{1b}'), "{}", run.stdout.escape_debug());
}
