//! What an answer is never written over: evidence, and files of somebody else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use expect_test::{Expect, expect};

use crate::outputs::{IDLE, evidence, in_folder, names};

/// Demands a refusal with these words that leaves the folder as it was.
fn check(folder: &Path, args: &[&str], expected: &Expect) {
    let before = names(folder);
    let run = in_folder(folder, args);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
    expected.assert_eq(&run.stderr);
    assert_eq!(names(folder), before);
    assert_eq!(fs::read_to_string(folder.join("metrics.prom")).unwrap(), IDLE);
}

#[test]
fn a_page_never_replaces_evidence_or_a_file_of_somebody_else() {
    let folder = evidence();
    fs::write(folder.path().join("server.log"), "INFO 1\n").unwrap();
    fs::write(folder.path().join("index.html"), "<!doctype html>\n<title>a home page</title>\n").unwrap();
    fs::create_dir(folder.path().join("run")).unwrap();
    check(
        folder.path(),
        &["diagnose", "server.log", "--html", "metrics.prom"],
        &expect![[r#"
            error: `metrics.prom` exists and is not a page this program wrote, so it is not overwritten; name another file or remove it
        "#]],
    );
    check(
        folder.path(),
        &["diagnose", "server.log", "--baseline", "metrics.prom", "--html", "metrics.prom"],
        &expect![[r#"
            error: `metrics.prom` is one of the inputs, so it is not overwritten; name another file
        "#]],
    );
    check(
        folder.path(),
        &["diagnose", "metrics.prom", "--html", "index.html"],
        &expect![[r#"
            error: `index.html` exists and is not a page this program wrote, so it is not overwritten; name another file or remove it
        "#]],
    );
    check(
        folder.path(),
        &["diagnose", ".", "--html", "run/new.html"],
        &expect![[r#"
            error: `run/new.html` lies inside the input `.`, where the next run would read it; name a place outside it
        "#]],
    );
    check(
        folder.path(),
        &["diagnose", "metrics.prom", "--html", "run"],
        &expect![[r#"
            error: `run` is a folder; name a file in it to write the page to
        "#]],
    );
}

/// Refused before an input is even looked for.
#[test]
fn a_page_is_refused_before_anything_is_read() {
    let folder = evidence();
    let run = in_folder(folder.path(), &["diagnose", "nothing.prom", "--html", "metrics.prom"]);
    assert!(run.code == 2 && run.stderr.contains("`metrics.prom` exists"), "{run:?}");
}

/// Told before a window is spent on it.
#[test]
fn a_place_that_cannot_be_is_refused() {
    let folder = evidence();
    symlink("nowhere.html", folder.path().join("lost.html")).unwrap();
    check(
        folder.path(),
        &["diagnose", "metrics.prom", "--html", "lost.html"],
        &expect![[r#"
            error: `lost.html` is a symbolic link that leads nowhere, so it is not written; name the place itself
        "#]],
    );
    check(
        folder.path(),
        &["capture", "metrics.prom", "-o", "missing/run.capture"],
        &expect![[r#"
            error: `missing/run.capture` cannot be written: there is no folder `missing`; make it first
        "#]],
    );
}

#[test]
fn a_page_replaces_a_page_and_an_empty_file() {
    let folder = evidence();
    fs::write(folder.path().join("report.html"), "").unwrap();
    for _ in 0..2 {
        let run = in_folder(folder.path(), &["diagnose", "--exit-zero", "metrics.prom", "--html", "report.html"]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    }
    assert!(fs::read_to_string(folder.path().join("report.html")).unwrap().ends_with("</html>\n"));
}

#[test]
fn a_capture_is_never_written_into_its_own_input() {
    let folder = evidence();
    check(
        folder.path(),
        &["capture", ".", "-o", "run.capture"],
        &expect![[r#"
            error: `run.capture` lies inside the input `.`, where the next run would read it; name a place outside it
        "#]],
    );
    assert_eq!(in_folder(folder.path(), &["capture", "metrics.prom", "-o", "run.capture"]).code, 0);
    check(
        folder.path(),
        &["capture", "run.capture", "metrics.prom", "-o", "run.capture"],
        &expect![[r#"
            error: `run.capture` is one of the inputs, so it is not overwritten; name another file
        "#]],
    );
}

#[test]
fn a_capture_is_written_through_a_link() {
    let folder = evidence();
    fs::create_dir(folder.path().join("old")).unwrap();
    assert_eq!(in_folder(folder.path(), &["capture", "metrics.prom", "-o", "old/run.capture"]).code, 0);
    symlink("old/run.capture", folder.path().join("latest.capture")).unwrap();
    symlink("nowhere.capture", folder.path().join("lost.capture")).unwrap();
    fs::write(folder.path().join("old/run.capture/names.parquet"), "stale").unwrap();
    assert_eq!(in_folder(folder.path(), &["capture", "metrics.prom", "-o", "latest.capture"]).code, 0);
    assert!(folder.path().join("latest.capture").is_symlink());
    assert_ne!(fs::read(folder.path().join("old/run.capture/names.parquet")).unwrap(), b"stale");
    assert_eq!(names(&folder.path().join("old")), ["run.capture"]);
    check(
        folder.path(),
        &["capture", "metrics.prom", "-o", "lost.capture"],
        &expect![[r#"
            error: `lost.capture` exists and is not a capture, so it is not overwritten
        "#]],
    );
}
