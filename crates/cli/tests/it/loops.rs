//! `inferoscope loop` on the simulated engine: a real process, started, measured, changed by a flag, measured again.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program;

/// A port that was free a moment ago.
fn port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// The words of a loop around the simulated engine with `engine` flags.
fn words(port: u16, engine: &str, out: &Path, rest: &[&str]) -> Vec<String> {
    let start = format!("{} simulate-engine --port {port} {engine}", env!("CARGO_BIN_EXE_inferoscope"));
    let url = format!("http://127.0.0.1:{port}");
    let own = ["loop", "--start", &start, "--url", &url, "--out", &out.display().to_string()].map(str::to_string);
    own.into_iter().chain(rest.iter().map(ToString::to_string)).collect()
}

fn is_listening(port: u16) -> bool {
    std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
}

const LOAD: [&str; 10] =
    ["--users", "16", "--ramp-up", "5s", "--duration", "9s", "--prompt-tokens", "200~0.3", "--output-tokens", "40~0.3"];

#[test]
fn few_seats_are_found_raised_by_their_flag_and_the_prediction_comes_true() {
    let folder = tempfile::tempdir().unwrap();
    let (port, out) = (port(), folder.path().join("round"));
    let run = program::run(words(port, "--max-num-seqs 4", &out, &[&LOAD[..], &["--yes", "--json"]].concat()));
    assert!(matches!(run.code, 0 | 3), "{run:?}");
    let round: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&round["schema"], &round["ended"]), (&"inferoscope.loop/1".into(), &"verified".into()));
    let before = &round["before"]["report"]["verdict"];
    assert_eq!((&before["layer"], &before["check"]), (&"scheduling".into(), &"batch_cap_reached".into()), "{before}");
    let command = round["change"]["command"].as_str().unwrap();
    assert!(command.contains("--max-num-seqs") && !command.contains("--max-num-seqs 4"), "{command}");
    let rows = round["verification"]["predictions"].as_array().unwrap();
    let primary = rows.iter().find(|row| row["prediction"]["primary"] == true).unwrap();
    assert_eq!(primary["outcome"], "confirmed", "{primary}");
    assert_ne!(round["verification"]["outcome"], "refuted");
    assert!(round["after"]["load"]["requests_per_s"].as_f64() > round["before"]["load"]["requests_per_s"].as_f64());
    assert!(!is_listening(port), "the server runs on");

    // The folder is evidence of its own: the same verification by the verb.
    let places = ["before", "after"].map(|run| out.join(run).display().to_string());
    let again = program::run(["verify", &places[0], &places[1], "--json"]);
    assert_eq!(again.code, run.code, "{again:?}");
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["predictions"], round["verification"]["predictions"]);
    assert!(out.join("loop.json").is_file() && out.join("before/server.log").is_file());
}

#[test]
fn without_consent_nothing_is_changed_and_what_would_be_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (port, out) = (port(), folder.path().join("round"));
    let run = program::run(words(port, "--max-num-seqs 4", &out, &LOAD));
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stdout.contains("CHANGE  --max-num-seqs ") && run.stdout.contains("Not made"), "{}", run.stdout);
    assert!(!out.join("after").exists());
}

#[test]
fn what_nobody_proposed_is_measured_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (port, out) = (port(), folder.path().join("round"));
    let load = ["--users", "4", "--duration", "6s", "--prompt-tokens", "200~0.3", "--output-tokens", "40~0.3"];
    let rest = [&load[..], &["--change", "--max-num-batched-tokens=1024", "--yes", "--json"]].concat();
    let run = program::run(words(port, "", &out, &rest));
    assert!(matches!(run.code, 0 | 1 | 3), "{run:?}");
    let round: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&round["ended"], &round["change"]["hypothesis"]), (&"verified".into(), &"none".into()));
    let changed = &round["verification"]["changed"];
    assert_eq!(changed[0]["key"], "config.max_num_batched_tokens", "{changed}");
    assert_ne!(round["verification"]["outcome"], "confirmed", "a smaller budget makes nothing faster: {}", round["verification"]);
}

#[test]
fn a_server_that_dies_is_told_with_the_end_of_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("round");
    let run = program::run(words(port(), "--fault no-such-fault=1", &out, &["--duration", "1s"]));
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("before it answered") && run.stderr.contains("no-such-fault"), "{}", run.stderr);
    let again = program::run(words(port(), "", &out, &["--duration", "1s"]));
    assert!(again.code == 2 && again.stderr.contains("is not empty"), "{}", again.stderr);
    let shell = program::run(["loop", "--start", "a | b", "--url", "http://127.0.0.1:1"]);
    assert!(shell.code == 2 && shell.stderr.contains("needs a shell"), "{}", shell.stderr);
}

/// A loop whose server answers and whose load runs, sent the signal. Returns how it ended.
fn signalled(signal: &str, port: u16) -> i32 {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program::command();
    command.args(words(port, "", &folder.path().join("round"), &["--duration", "100s"])).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let started = Instant::now();
    while !is_listening(port) || started.elapsed() < Duration::from_secs(4) {
        assert!(started.elapsed() < Duration::from_secs(60), "it did not start");
        std::thread::sleep(Duration::from_millis(50));
    }
    let killed = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    program::wait(&mut child)
}

#[test]
fn an_interrupt_ends_the_server_too() {
    let port = port();
    assert_eq!(signalled("-INT", port), 2);
    assert!(!is_listening(port), "the server runs on");
}

#[test]
fn a_kill_ends_the_server_too() {
    let port = port();
    signalled("-KILL", port);
    let killed = Instant::now();
    while is_listening(port) {
        assert!(killed.elapsed() < Duration::from_secs(20), "the server runs on");
        std::thread::sleep(Duration::from_millis(50));
    }
}
