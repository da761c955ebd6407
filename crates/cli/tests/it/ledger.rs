//! The ledger: `verify` keeps outcomes, `ledger` counts them, `diagnose` shows them beside predictions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::{cases, program};

fn observations(folder: &Path, name: &str, queue: &str, running: u32, seats: u32) -> PathBuf {
    let text = format!(
        "schema = \"inferoscope.observations/1\"\n[subject]\nengine = \"vllm\"\nengine_version = \"0.33.0\"\n[[run]]\nflags = \"--max-num-seqs {seats}\"\n[run.signals]\n\
         \"server.ttft.mean\" = \"2.5 s\"\n\"server.queue_time.mean\" = \"{queue}\"\n\"engine.running.max\" = {running}\n\"engine.waiting.mean\" = 22\n\"kv.usage.max\" = \"9 %\"\n"
    );
    let path = folder.join(name).join("observations.toml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

fn rows(ledger: &Path) -> Vec<Value> {
    let run = program::run(["ledger".as_ref(), "--json".as_ref(), "--ledger".as_ref(), ledger.as_os_str()]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    document["rows"].as_array().unwrap().clone()
}

fn verify(before: &Path, after: &Path, ledger: &Path) -> program::Run {
    program::run([Path::new("verify"), before, after, Path::new("--ledger"), ledger])
}

/// The recorded pair behind most tests here.
fn pair() -> (PathBuf, PathBuf) {
    (cases::artifacts("batch_cap_reached/recorded"), cases::artifacts("batch_cap_reached/recorded_fixed"))
}

#[test]
fn a_verification_is_kept_counted_once_and_shown_beside_the_next_prediction() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("own/ledger.jsonl");
    let (before, after) = pair();
    let first = verify(&before, &after, &ledger);
    assert_eq!(first.stderr, "");
    // The same evidence as a capture is the same pair.
    let packed = folder.path().join("before.capture");
    assert_eq!(program::run([Path::new("capture"), &before, Path::new("-o"), &packed]).code, 0);
    assert_eq!(verify(&packed, &after, &ledger).code, first.code);
    let rows = rows(&ledger);
    assert_eq!(rows.len(), 1, "{rows:?}");
    let row = &rows[0];
    assert_eq!((row["check"].as_str(), row["verified"].as_u64()), (Some("batch_cap_reached"), Some(1)));
    assert_eq!(row["confirmed"].as_u64(), Some(u64::from(first.code == 0)));

    let with = program::run([Path::new("diagnose"), &before, Path::new("--ledger"), &ledger]);
    assert!(with.stdout.contains("so far  batch_cap_reached vllm"), "{}", with.stdout);
    let without = program::run([Path::new("diagnose"), &before, Path::new("--no-ledger")]);
    assert!(!without.stdout.contains("so far"), "{}", without.stdout);
    let json = program::run([Path::new("diagnose"), &before, Path::new("--json"), Path::new("--ledger"), &ledger]);
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(report["trust"]["track_record"][0]["verified"].as_u64(), Some(1));
}

#[test]
fn the_default_place_is_the_users_data() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (observations(folder.path(), "a", "2.4 s", 32, 32), observations(folder.path(), "b", "0.1 s", 40, 64));
    let run = |args: &[&std::ffi::OsStr]| program::finish(program::command().env("XDG_DATA_HOME", folder.path()).args(args));
    run(&["verify".as_ref(), before.as_os_str(), after.as_os_str(), "--no-ledger".as_ref()]);
    assert!(!folder.path().join("inferoscope").exists());
    assert!(run(&["ledger".as_ref()]).stdout.starts_with("no prediction has been verified yet"));
    run(&["verify".as_ref(), before.as_os_str(), after.as_os_str()]);
    assert!(folder.path().join("inferoscope/ledger.jsonl").is_file());
    let shown = run(&["ledger".as_ref()]).stdout;
    assert!(shown.starts_with("check") && shown.contains("batch_cap_reached  vllm    0.33.0"), "{shown}");
    assert_eq!(run(&["ledger".as_ref(), "--check".as_ref(), "kv_thrash".as_ref()]).stdout.lines().count(), 1);
}

#[test]
fn a_damaged_line_costs_itself_and_a_foreign_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger.jsonl");
    let after = observations(folder.path(), "after", "0.1 s", 40, 64);
    verify(&observations(folder.path(), "one", "2.4 s", 32, 32), &after, &ledger);
    let whole = fs::read_to_string(&ledger).unwrap();
    fs::write(&ledger, format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
    let run = verify(&observations(folder.path(), "two", "2.3 s", 32, 32), &after, &ledger);
    assert!(run.stderr.contains("1 line of ledger") && run.stderr.contains("line 2"), "{}", run.stderr);
    assert_eq!(rows(&ledger)[0]["verified"].as_u64(), Some(2));

    let foreign = folder.path().join("thesis.txt");
    fs::write(&foreign, "all my work\n").unwrap();
    let run = verify(&observations(folder.path(), "one", "2.4 s", 32, 32), &after, &foreign);
    assert_eq!((run.code, fs::read_to_string(&foreign).unwrap().as_str()), (2, "all my work\n"), "{}", run.stderr);
}

#[test]
fn eight_runs_append_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger.jsonl");
    let after = observations(folder.path(), "after", "0.1 s", 40, 64);
    let spawned: Vec<_> = (0..8)
        .map(|at| {
            let before = observations(folder.path(), &format!("before{at}"), &format!("2.{at}1 s"), 32, 32);
            let mut command = program::command();
            command.args([Path::new("verify"), &before, &after, Path::new("--ledger"), &ledger]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in spawned {
        assert!(matches!(program::wait(&mut child), 0 | 1 | 3 | 4));
    }
    let lines: Vec<Value> =
        fs::read_to_string(&ledger).unwrap().lines().map(|line| serde_json::from_str(line).expect("a whole line")).collect();
    assert_eq!(lines.len(), 8);
    assert_eq!(rows(&ledger)[0]["verified"].as_u64(), Some(8));
}
