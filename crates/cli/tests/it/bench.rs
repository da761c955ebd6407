//! `bench` on the CPU of whoever runs the tests: that there are figures, never how large.

use std::fs;

use expect_test::expect;

use crate::outputs::{evidence, in_folder, names};

const QUICK: [&str; 5] = ["bench", "--cpu", "--seconds", "200ms", "--json"];

/// A report with one finding about memory bandwidth on a CPU: `bytes` per step of 100 ms.
fn report(folder: &std::path::Path, bytes: f64) {
    let run = in_folder(folder, &["diagnose", "--json", "--exit-zero", "metrics.prom"]);
    let mut report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    report["subject"]["gpu"] = "CPU".into();
    let row = |signal: &str, value: f64, unit: &str| serde_json::json!({ "signal": signal, "value": value, "unit": unit, "from": "typed" });
    report["findings"] = serde_json::json!([{
        "check": "bandwidth_bound_decode", "layer": "hardware", "role": "limit", "explained": null, "explained_range": null, "cost": null,
        "summary": "", "provenance": "typed", "hypotheses": [],
        "evidence": [row("bytes per step", bytes, "byte"), row("step time", 0.1, "s")],
    }]);
    fs::write(folder.join("report.json"), report.to_string()).unwrap();
}

#[test]
fn figures_are_measured_and_kept() {
    let folder = evidence();
    let run = in_folder(folder.path(), &[&QUICK[..], &["--only", "read,wake,link", "--capture", "bench.capture"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((document["schema"].as_str(), document["backend"].as_str()), (Some("inferoscope.bench/1"), Some("cpu")));
    let signals: Vec<&str> = document["rows"].as_array().unwrap().iter().map(|row| row["signal"].as_str().unwrap()).collect();
    assert_eq!(signals, ["host.dram_bandwidth_sustained", "host.thread_wake"]);
    assert_eq!(document["skipped"][0]["operator"], "link");
    // The capture is evidence like any other.
    let run = in_folder(folder.path(), &["export", "bench.capture", "--csv", "tables"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let samples = fs::read_to_string(folder.path().join("tables/samples.csv")).unwrap();
    assert!(samples.contains("host.dram_bandwidth_sustained") && samples.contains("inferoscope bench"), "{samples}");
}

#[test]
fn a_report_is_confirmed_or_refuted() {
    let folder = evidence();
    // No CPU reads at 10 kB/s only, and none at 100 TB/s.
    for (bytes, code, outcome) in [(1e3, 1, "refuted"), (1e13, 3, "inconclusive")] {
        report(folder.path(), bytes);
        let run = in_folder(folder.path(), &[&QUICK[..], &["--only", "read", "--confirm", "report.json"]].concat());
        let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!((run.code, document["findings"][0]["outcome"].as_str()), (code, Some(outcome)), "{run:?}");
    }
}

#[test]
fn what_cannot_be_is_said_before_anything_is_measured() {
    let folder = evidence();
    fs::write(folder.path().join("config.json"), "{\"hidden_size\": 8}").unwrap();
    fs::write(folder.path().join("report.json"), "{}").unwrap();
    let check = |args: &[&str], expected: &expect_test::Expect| {
        let run = in_folder(folder.path(), &[&["bench"], args].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""));
        expected.assert_eq(&run.stderr);
    };
    check(
        &["--model", "abacus-1b"],
        &expect![[r#"
        error: no model of the table is called `abacus-1b`; name another, or its config.json
    "#]],
    );
    check(
        &["--model", "config.json"],
        &expect![[r#"
        error: `config.json` is no model's config.json: expected `num_attention_heads`, found none
    "#]],
    );
    check(
        &["--confirm", "report.json"],
        &expect![[r#"
        error: expected a report written by diagnose --json in `report.json`, found something else
          cause: missing field `schema` at line 1 column 2
    "#]],
    );
    check(
        &["--capture", "metrics.prom"],
        &expect![[r#"
        error: `metrics.prom` exists and is not a capture, so it is not overwritten
    "#]],
    );
    assert_eq!(names(folder.path()), ["config.json", "metrics.prom", "report.json"]);
}
