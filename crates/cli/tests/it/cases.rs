//! Every folder under `cases/`: the verdict `case.toml` demands, and every check's answer as `expected.txt` has it.
//!
//! `UPDATE_EXPECT=1 cargo test -p cli` rewrites `expected.txt`; it cannot hide a wrong verdict.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use analysis::contract::{Report, Status};

use crate::case::{Case, answers};
use crate::program;

/// All cases, in alphabetical order.
pub(crate) fn all() -> Vec<Case> {
    let mut folders = Vec::new();
    find(&program::root().join("cases"), &mut folders);
    folders.sort();
    folders.iter().map(|folder| Case::load(folder)).collect()
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    if folder.join("case.toml").is_file() {
        found.push(folder.to_path_buf());
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, found);
        }
    }
}

/// Applies `judge` to all cases on all cores; returns the complaints in order of the cases.
pub(crate) fn complaints(cases: &[Case], judge: impl Fn(&Case) -> Result<(), String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut told = Vec::new();
        while let Some(at) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&at| at < cases.len()) {
            if let Err(complaint) = judge(&cases[at]) {
                told.push((at, format!("{}: {complaint}", cases[at].name())));
            }
        }
        told
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut told: Vec<(usize, String)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    told.sort();
    told.into_iter().map(|(_, complaint)| complaint).collect()
}

fn check(case: &Case) -> Result<(), String> {
    for (field, text) in [("story", &case.story), ("provenance", &case.provenance), ("source", &case.source)] {
        if text.trim().is_empty() || text.contains('\n') {
            return Err(format!("`{field}` must be one line of text"));
        }
    }
    let run = case.diagnose(&[case.artifacts()]);
    let report: Report = serde_json::from_str(&run.stdout).map_err(|error| format!("no report ({error}): {}", run.stderr))?;
    let promised = match report.verdict.status {
        Status::Healthy => 0,
        Status::Localized => 1,
        Status::InsufficientEvidence => 3,
    };
    if run.code != promised {
        return Err(format!("exit code {}, expected {promised} for {:?}", run.code, report.verdict.status));
    }
    case.judge(&report)?;
    compare(&case.folder.join("expected.txt"), &answers(&report))
}

/// Compares with the file, or rewrites it.
fn compare(path: &Path, found: &str) -> Result<(), String> {
    if std::env::var_os("UPDATE_EXPECT").is_some_and(|value| value == "1") {
        fs::write(path, found).unwrap();
        return Ok(());
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    if expected == found {
        return Ok(());
    }
    let gone = expected.lines().filter(|line| !found.lines().any(|other| other == *line)).map(|line| format!("\n  - {line}"));
    let new = found.lines().filter(|line| !expected.lines().any(|other| other == *line)).map(|line| format!("\n  + {line}"));
    Err(format!("answers differ from expected.txt{}", gone.chain(new).collect::<String>()))
}

#[test]
fn every_case_gets_its_verdict_and_its_answers() {
    let cases = all();
    assert!(!cases.is_empty(), "no case under cases/");
    let complaints = complaints(&cases, check);
    assert!(complaints.is_empty(), "{} of {} cases differ\n{}", complaints.len(), cases.len(), complaints.join("\n"));
}

#[test]
fn twins_exist_and_know_each_other() {
    let cases = all();
    for case in cases.iter().filter(|case| !case.twin.is_empty()) {
        let twin = cases.iter().find(|other| other.name() == case.twin);
        assert_eq!(twin.map(|twin| twin.twin.as_str()), Some(case.name().as_str()), "twin `{}` of {}", case.twin, case.name());
        let answers = fs::read_to_string(twin.unwrap().folder.join("expected.txt")).unwrap_or_default();
        let answer = answers.lines().find_map(|line| line.strip_prefix(case.check.as_str())).map(str::trim);
        // What is repaired of one problem may show the next one, which then stands in the first one's folder.
        let is_next = twin.unwrap().expected == crate::case::Expected::Found && !case.name().starts_with(&format!("{}/", case.check));
        let is_fault = case.expected == crate::case::Expected::Found && !is_next;
        assert!(!is_fault || answer == Some("clear"), "{} is {answer:?} in its fixed twin `{}`", case.check, case.twin);
    }
}

/// The evidence of a case by its name (`batch_cap_reached/recorded`).
pub(crate) fn artifacts(name: &str) -> PathBuf {
    all().into_iter().find(|case| case.name() == name).unwrap_or_else(|| panic!("no case `{name}`")).artifacts()
}
