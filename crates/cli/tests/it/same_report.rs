//! The same evidence gives the same report, byte for byte: in any order of arguments, as folder or as files, raw or as
//! a capture.

use std::fs;
use std::path::{Path, PathBuf};

use crate::case::Case;
use crate::{cases, program};

/// A few cases of different kinds; all of them would say no more and take long.
fn some_cases() -> Vec<Case> {
    let mut several: Vec<Case> = cases::all().into_iter().filter(|case| files(&case.artifacts()).len() > 1).collect();
    assert!(!several.is_empty(), "no case has more than one artifact");
    let step = several.len().div_ceil(5);
    let mut at = 0;
    several.retain(|_| {
        at += 1;
        (at - 1) % step == 0
    });
    several
}

/// The artifacts of a case; a case may be about a single file.
fn files(folder: &Path) -> Vec<PathBuf> {
    if folder.is_file() {
        return vec![folder.to_path_buf()];
    }
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn same(expected: &str, found: &str) -> Result<(), String> {
    if expected == found {
        return Ok(());
    }
    let mut pairs = expected.lines().zip(found.lines());
    let differing = pairs.find(|(one, other)| one != other);
    Err(format!("the reports differ, first in {differing:?}"))
}

#[test]
fn the_order_of_files_does_not_matter() {
    let complaints = cases::complaints(&some_cases(), |case| {
        let mut files = files(&case.artifacts());
        let first = case.diagnose(&files);
        files.reverse();
        same(&first.stdout, &case.diagnose(&files).stdout)?;
        let half = files.len() / 2;
        files.rotate_left(half);
        same(&first.stdout, &case.diagnose(&files).stdout)?;
        if first.stdout.is_empty() { Err(first.stderr) } else { Ok(()) }
    });
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_capture_gives_the_report_of_what_went_into_it() {
    let complaints = cases::complaints(&some_cases(), |case| {
        let folder = tempfile::tempdir().unwrap();
        let capture = folder.path().join("run.capture");
        let made = program::run(["capture".as_ref(), case.artifacts().as_os_str(), "-o".as_ref(), capture.as_os_str()]);
        if made.code != 0 {
            return Err(made.stderr);
        }
        let raw = case.diagnose(&[case.artifacts()]);
        same(&raw.stdout, &case.diagnose(std::slice::from_ref(&capture)).stdout)
    });
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
