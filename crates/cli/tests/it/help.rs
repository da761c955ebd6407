//! The help text of every verb.

use expect_test::{ExpectFile, expect_file};

use crate::program;

fn check(verb: &[&str], expected: &ExpectFile) {
    let run = program::run(verb.iter().chain(&["--help"]));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    expected.assert_eq(&run.stdout);
}

#[test]
fn of_the_program() {
    check(&[], &expect_file!["help/inferoscope.txt"]);
}

#[test]
fn of_diagnose() {
    check(&["diagnose"], &expect_file!["help/diagnose.txt"]);
}

#[test]
fn of_capture() {
    check(&["capture"], &expect_file!["help/capture.txt"]);
}

#[test]
fn of_verify() {
    check(&["verify"], &expect_file!["help/verify.txt"]);
}

#[test]
fn of_whatif() {
    check(&["whatif"], &expect_file!["help/whatif.txt"]);
}

#[test]
fn of_model() {
    check(&["model"], &expect_file!["help/model.txt"]);
}

#[test]
fn of_explain() {
    check(&["explain"], &expect_file!["help/explain.txt"]);
}

#[test]
fn of_signals() {
    check(&["signals"], &expect_file!["help/signals.txt"]);
}

#[test]
fn of_completions() {
    check(&["completions"], &expect_file!["help/completions.txt"]);
}

#[test]
fn of_triage() {
    check(&["triage"], &expect_file!["help/triage.txt"]);
}

#[test]
fn of_ledger() {
    check(&["ledger"], &expect_file!["help/ledger.txt"]);
}

#[test]
fn of_export() {
    check(&["export"], &expect_file!["help/export.txt"]);
}

#[test]
fn of_bench() {
    check(&["bench"], &expect_file!["help/bench.txt"]);
}

#[test]
fn of_plan() {
    check(&["plan"], &expect_file!["help/plan.txt"]);
}

#[test]
fn of_load() {
    check(&["load"], &expect_file!["help/load.txt"]);
}

#[test]
fn of_simulate_engine() {
    check(&["simulate-engine"], &expect_file!["help/simulate-engine.txt"]);
}

#[test]
fn of_record() {
    check(&["record"], &expect_file!["help/record.txt"]);
}

#[test]
fn of_tap() {
    check(&["tap"], &expect_file!["help/tap.txt"]);
}

#[test]
fn of_watch() {
    check(&["watch"], &expect_file!["help/watch.txt"]);
}

#[test]
fn of_loop() {
    check(&["loop"], &expect_file!["help/loop.txt"]);
}
