//! Command lines: what is refused, what the small verbs print.

use analysis::checks::CHECKS;
use expect_test::{Expect, expect};

use crate::program::{self, Run};

/// Exit code, then stderr or, when that is empty, stdout.
fn check(args: &[&str], expected: &Expect) {
    let Run { code, stdout, stderr } = program::run(args);
    expected.assert_eq(&format!("{code}\n{}", if stderr.is_empty() { stdout } else { stderr }));
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    for args in [
        &[][..],
        &["diagnose"],
        &["dignose", "x"],
        &["diagnose", "x", "--width", "7"],
        &["diagnose", "x", "--json", "--markdown"],
        &["diagnose", "x", "--window", "30"],
        &["verify", "before"],
        &["capture", "x"],
        &["completions", "tcsh"],
    ] {
        let run = program::run(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.contains("Usage") || run.stderr.contains("--help"), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn a_misspelled_symptom_is_answered_with_the_right_one() {
    let run = program::run(["diagnose", "x", "--symptom", "high_tftt"]);
    assert!(run.code == 2 && run.stderr.contains("a similar value exists: 'high_ttft'"), "{}", run.stderr);
}

#[test]
fn a_misspelled_limit_is_answered_with_the_nearest_signal() {
    check(
        &["diagnose", "x", "--slo", "client.tttf.p99=1s"],
        &expect![[r#"
            2
            error: invalid value 'client.tttf.p99=1s' for '--slo <LIMITS>': no signal is called `client.tttf.p99`; the nearest is `client.ttft.p99`

            For more information, try '--help'.
        "#]],
    );
}

#[test]
fn other_schemes_are_refused_with_the_reason() {
    check(
        &["diagnose", "ftp://ada:lace@host:8000"],
        &expect![[r#"
            2
            error: expected an address that starts with `http://` or `https://`, found `ftp://`
        "#]],
    );
}

#[test]
fn explain_lists_every_failure_mode_and_shows_each_page() {
    let list = program::run(["explain"]);
    assert_eq!(list.code, 0);
    for check in CHECKS {
        assert!(list.stdout.contains(&format!("  {} ", check.id)), "{} is not listed", check.id);
        let page = program::run(["explain", check.id]);
        assert_eq!(page.code, 0);
        assert!(page.stdout.trim_start().starts_with(check.id), "{}", page.stdout);
    }
}

#[test]
fn explain_names_the_nearest_failure_mode() {
    let check = &CHECKS[0];
    let misspelled = format!("{}x", check.id.replace('_', "-"));
    let run = program::run(["explain", &misspelled]);
    let message = format!("error: no failure mode is called `{misspelled}`; the nearest is `{}`\n", check.id);
    assert_eq!((run.code, run.stderr), (2, message));
}

#[test]
fn signals_prints_each_signal_once_in_both_forms() {
    let table = program::run(["signals"]).stdout;
    let document: serde_json::Value = serde_json::from_str(&program::run(["signals", "--json"]).stdout).unwrap();
    let rows = document["signals"].as_array().unwrap();
    assert_eq!(rows.len(), capture::signals::SIGNALS.len());
    for row in rows {
        let name = format!("{} ", row["name"].as_str().unwrap());
        assert_eq!(table.lines().filter(|line| line.starts_with(&name)).count(), 1, "{name}");
    }
}

#[test]
fn completions_know_the_verbs() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = program::run(["completions", shell]);
        assert!(run.code == 0 && run.stdout.contains("diagnose"), "{shell}");
    }
}
