//! A load on the simulated engine, diagnosed: faults are found where they are, and none where there is none.
//!
//! Everything is real but the engine: two processes, sockets, a capture on disk. The machine may be busy, so that a client that
//! calls itself limited is believed; what must never come out is another layer of the engine.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::program;

struct Engine {
    child: Child,
    url: String,
}

impl Engine {
    fn start(args: &[&str]) -> Self {
        let mut command = program::command();
        command.args(["simulate-engine", "--port", "0"]).args(args).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        assert!(line.starts_with("# simulated engine on http://127.0.0.1:"), "{line}");
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().trim_end_matches(',').to_string();
        // Somebody has to read the log, or the engine would stand still when the pipe is full.
        std::thread::spawn(move || stdout.lines().count());
        Self { child, url }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The result of the load and the report of the diagnosis.
fn load_and_diagnose(engine: &[&str], load: &[&str]) -> (Value, Value) {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("load.capture").display().to_string();
    let engine = Engine::start(engine);
    let args = [&["load", &engine.url, "--out", &capture, "--json"], load].concat();
    let run = program::run(&args);
    assert!(matches!(run.code, 0 | 3), "{run:?}");
    let load: Value = serde_json::from_str(&run.stdout).unwrap();
    drop(engine);
    let run = program::run(["diagnose", &capture, "--json", "--exit-zero"]);
    assert_eq!(run.code, 0, "{run:?}");
    (load, serde_json::from_str(&run.stdout).unwrap())
}

fn layer(report: &Value) -> &str {
    assert_eq!(report["verdict"]["status"], "localized", "{}", report["verdict"]);
    report["verdict"]["layer"].as_str().unwrap_or_default()
}

const SHORT: [&str; 6] = ["--duration", "8s", "--prompt-tokens", "200~0.3", "--output-tokens", "40~0.3"];

/// Users come one after the other: only a batch that varied tells what one more seat would cost.
#[test]
fn few_seats_are_found_in_scheduling() {
    let args = ["--users", "16", "--ramp-up", "6s", "--duration", "13s", "--prompt-tokens", "200~0.3", "--output-tokens", "40~0.3"];
    let (load, report) = load_and_diagnose(&["--fault", "low-batch-cap=1"], &args);
    assert_eq!((&load["simulated"], &load["requests"]["failed"]), (&true.into(), &0.into()));
    assert_eq!(layer(&report), "scheduling", "{}", report["verdict"]);
    assert_eq!(report["subject"]["provenance"], "simulated");
}

#[test]
fn a_small_cache_is_found_in_memory() {
    let args = ["--users", "24", "--duration", "10s", "--prompt-tokens", "800~0.3", "--output-tokens", "60~0.3"];
    let (_, report) = load_and_diagnose(&["--fault", "small-kv=1"], &args);
    assert_eq!(layer(&report), "memory", "{}", report["verdict"]);
}

#[test]
fn a_slow_gateway_is_found_outside_the_engine() {
    let (load, report) = load_and_diagnose(&["--fault", "gateway-delay=0.5"], &[&SHORT[..], &["--users", "4"]].concat());
    assert!(load["ttft"]["p50_s"].as_f64().unwrap() > 0.5);
    assert_eq!(layer(&report), "application", "{}", report["verdict"]);
}

#[test]
fn a_balancer_that_loves_one_replica_is_found() {
    let engine = ["--fault", "replica-imbalance=1", "--max-num-seqs", "8"];
    let (_, report) = load_and_diagnose(&engine, &[&SHORT[..], &["--users", "24"]].concat());
    assert_eq!(layer(&report), "parallelism", "{}", report["verdict"]);
}

/// How late a busy machine wakes the simulated server is told nowhere: then it cannot be called healthy either. In simulated time
/// it must be (`faults.rs`).
#[test]
fn nothing_wrong_is_no_layer_of_the_engine() {
    let args = ["--users", "6", "--duration", "8s", "--prompt-tokens", "300~0.3", "--output-tokens", "120~0.3"];
    let (_, report) = load_and_diagnose(&[], &args);
    let (status, layer) = (report["verdict"]["status"].as_str().unwrap(), report["verdict"]["layer"].as_str().unwrap_or_default());
    assert!(status == "healthy" || status == "insufficient_evidence" || layer == "application", "{}", report["verdict"]);
}

/// Stops and continues a process again and again: what a quota on its CPU does. It runs a third of the time.
fn throttle(child: &mut Child) {
    let signal = |name: &str, id: u32| {
        let _ = std::process::Command::new("kill").args([name, &id.to_string()]).stderr(Stdio::null()).status();
    };
    while child.try_wait().unwrap().is_none() {
        signal("-STOP", child.id());
        std::thread::sleep(std::time::Duration::from_millis(80));
        signal("-CONT", child.id());
        std::thread::sleep(std::time::Duration::from_millis(40));
    }
}

/// The server is well; the client gets no CPU for two thirds of the time. Neither may the server be blamed nor called healthy.
#[test]
fn a_client_without_cpu_is_told_as_the_limit() {
    for (metrics, expected) in [(None, "client_bound"), (Some("--no-metrics"), "")] {
        let folder = tempfile::tempdir().unwrap();
        let capture = folder.path().join("load.capture").display().to_string();
        let engine = Engine::start(&[]);
        let args = ["load", &engine.url, "--out", &capture, "--users", "8", "--duration", "6s", "--prompt-tokens", "100"];
        let rest = ["--output-tokens", "20~0.3"].into_iter().chain(metrics);
        let mut load = program::command();
        let mut child = load.args(args.into_iter().chain(rest)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        throttle(&mut child);
        assert_eq!(program::wait(&mut child), 3, "the client knows");
        let run = program::run(["diagnose", &capture, "--json", "--exit-zero"]);
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        let verdict = &report["verdict"];
        assert!(verdict["sentence"].as_str().unwrap().to_lowercase().contains("client-limited"), "{verdict}");
        assert_ne!(verdict["status"], "healthy");
        assert!(verdict["check"].as_str().is_none_or(|check| check == expected), "{verdict}");
        assert!(verdict["layer"].as_str().is_none_or(|layer| layer == "application"), "{verdict}");
    }
}

#[test]
fn other_machines_need_a_token() {
    let run = program::run(["simulate-engine", "--listen", "0.0.0.0", "--port", "0"]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("expected a token"), "{}", run.stderr);
}

/// A recorded load is sent again: the same lengths at the same distances.
#[test]
fn a_capture_is_replayed_and_a_trace_too() {
    let folder = tempfile::tempdir().unwrap();
    let [first, csv, bench] = ["first.capture", "rows.csv", "bench.json"].map(|name| folder.path().join(name).display().to_string());
    let engine = Engine::start(&[]);
    let args = ["load", &engine.url, "--rate", "20", "--requests", "20", "--output-tokens", "5~0.5", "--prompt-tokens", "30~0.5"];
    let run = program::run(args.iter().copied().chain(["--out", &first, "--no-metrics", "--csv", &csv, "--vllm-json", &bench]));
    assert!(matches!(run.code, 0 | 3), "{run:?}");
    let again = program::run(["load", &engine.url, "--replay", &first, "--json"]);
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["requests"]["completed"], 20, "{again}");
    let lines = std::fs::read_to_string(&csv).unwrap();
    let told: u64 = lines.lines().skip(1).map(|line| line.split(',').nth(19).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(again["tokens"]["output"], told, "as many output tokens as were recorded");
    // The result in the other tool's form is read as that tool's.
    let report = program::run(["diagnose", &bench, "--json", "--exit-zero"]);
    assert_eq!(report.code, 0, "{report:?}");
    let trace = folder.path().join("mooncake.jsonl").display().to_string();
    let line = |ms: u32, ids: &str| format!(r#"{{"timestamp":{ms},"input_length":1100,"output_length":3,"hash_ids":[{ids}]}}"#);
    std::fs::write(&trace, [line(0, "1,2,3"), line(300, "1,2,4"), line(600, "1,2,5")].join("\n")).unwrap();
    let replayed = program::run(["load", &engine.url, "--replay", &trace, "--json", "--api", "completions"]);
    let replayed: Value = serde_json::from_str(&replayed.stdout).unwrap();
    // Two blocks of 512 tokens are common to all three.
    assert_eq!((&replayed["tokens"]["cached"], &replayed["tokens"]["prompt"]), (&2048.into(), &3300.into()), "{replayed}");
}

#[test]
fn a_sweep_finds_the_load_that_keeps_the_limits() {
    let engine = Engine::start(&["--max-num-seqs", "4"]);
    let args =
        ["--sweep", "users", "--up-to", "32", "--slo", "ttft=400ms", "--requests", "40", "--prompt-tokens", "100", "--output-tokens", "12"];
    let run = program::run(["load", engine.url.as_str(), "--json"].iter().chain(&args));
    assert_eq!(run.code, 0, "{run:?}");
    let sweep: Value = serde_json::from_str(&run.stdout).unwrap();
    let levels = sweep["levels"].as_array().unwrap();
    let is_limited = levels.iter().any(|level| !level["client_limited"].as_array().unwrap().is_empty());
    assert!(levels.len() >= 4 || is_limited, "{}", sweep["ended"]);
    // Four seats: eight users already wait, a throughput beyond that of four there cannot be.
    let best = sweep["highest_that_keeps_limits"].as_f64();
    assert!(best.is_some_and(|best| best >= 4.0) || is_limited, "{sweep}");
}
