//! Where answers go: one document on stdout, files whole or not at all, quiet when nobody reads.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::program;

/// A little evidence: two scrapes of an idle server.
pub(crate) const IDLE: &str = "\
# SCRAPE ts=1796036992.000 dur=0.010
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 0.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 0.0
# SCRAPE ts=1796036993.000 dur=0.010
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 0.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 0.0
";

/// A fresh folder that holds `metrics.prom`.
pub(crate) fn evidence() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("metrics.prom"), IDLE).unwrap();
    folder
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub(crate) fn in_folder(folder: &Path, args: &[&str]) -> program::Run {
    program::finish(program::command().current_dir(folder).args(args))
}

#[test]
fn json_is_one_document_and_nothing_else() {
    let folder = evidence();
    let run = in_folder(folder.path(), &["diagnose", "--json", "metrics.prom"]);
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["schema"], "inferoscope.report/1");
    assert_eq!(run.stderr, "");
}

#[test]
fn exit_zero_hides_the_verdict_but_no_failure() {
    let folder = evidence();
    assert_eq!(in_folder(folder.path(), &["diagnose", "--exit-zero", "metrics.prom"]).code, 0);
    assert_eq!(in_folder(folder.path(), &["diagnose", "--exit-zero", "nothing.prom"]).code, 2);
}

#[test]
fn the_screen_has_no_color_in_a_pipe_and_no_line_beyond_80() {
    let folder = evidence();
    let plain = in_folder(folder.path(), &["diagnose", "metrics.prom"]).stdout;
    assert!(!plain.contains('\u{1b}'), "{plain}");
    let long: Vec<&str> = plain.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(long.is_empty(), "{long:?}");
    assert!(in_folder(folder.path(), &["diagnose", "--color", "always", "metrics.prom"]).stdout.contains('\u{1b}'));
}

#[test]
fn html_is_written_beside_the_screen() {
    let folder = evidence();
    let run = in_folder(folder.path(), &["diagnose", "metrics.prom", "--html", "report.html"]);
    assert!(run.code != 2 && !run.stdout.is_empty(), "{run:?}");
    assert!(fs::read_to_string(folder.path().join("report.html")).unwrap().contains("<html"));
    assert_eq!(names(folder.path()), ["metrics.prom", "report.html"]);
}

#[test]
fn a_capture_replaces_a_capture_and_nothing_else() {
    let folder = evidence();
    let make = |output| in_folder(folder.path(), &["capture", "metrics.prom", "-o", output]);
    assert_eq!(make("run.capture").code, 0);
    assert_eq!(make("run.capture").code, 0);
    assert_eq!(names(folder.path()), ["metrics.prom", "run.capture"]);
    let refused = make("metrics.prom");
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    assert_eq!(refused.stderr, "error: `metrics.prom` exists and is not a capture, so it is not overwritten\n");
    assert_eq!(fs::read_to_string(folder.path().join("metrics.prom")).unwrap(), IDLE);
    fs::create_dir(folder.path().join("notes")).unwrap();
    assert_eq!(make("notes").code, 2);
}

/// Runs the program where no file may hold a byte: what a full disk looks like to it.
fn on_a_full_disk(folder: &Path, args: &[&str]) -> program::Run {
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(folder).args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_inferoscope")]).args(args);
    program::finish(&mut shell)
}

#[test]
fn a_full_disk_leaves_no_half_report() {
    let folder = evidence();
    let run = on_a_full_disk(folder.path(), &["diagnose", "metrics.prom", "--html", "report.html"]);
    assert!(run.code == 2 && run.stderr.starts_with("error: could not write `report.html`"), "{run:?}");
    assert_eq!(names(folder.path()), ["metrics.prom"]);
}

#[test]
fn a_full_disk_leaves_no_half_capture() {
    let folder = evidence();
    let run = on_a_full_disk(folder.path(), &["capture", "metrics.prom", "-o", "run.capture"]);
    assert!(run.code == 2 && run.stderr.starts_with("error: could not write capture `run.capture`"), "{run:?}");
    assert_eq!(names(folder.path()), ["metrics.prom"]);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = evidence();
    for args in [&["signals"][..], &["explain"], &["completions", "bash"], &["diagnose", "--exit-zero", "metrics.prom"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = program::command();
        let mut child = command.current_dir(folder.path()).args(args).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let code = program::wait(&mut child);
        let stderr = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        assert_eq!((code, stderr.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
fn a_full_stdout_is_an_error() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = program::command().arg("signals").stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(program::wait(&mut child), 2);
    let stderr = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert!(stderr.starts_with("error: could not write to stdout\n  cause: No space left on device"), "{stderr}");
}
