//! Where a capture may be written, what it replaces, and what cannot be opened.

use std::fs;
use std::path::Path;

use capture::store::{self, StoreError};
use expect_test::{Expect, expect};

use crate::sample::{assert_same, canonical, piece};

/// What a user reads, with the temporary directory left out.
fn check(result: Result<impl std::fmt::Debug, StoreError>, root: &Path, expected: &Expect) {
    let text = result.unwrap_err().to_string();
    expected.assert_eq(&text.replace(root.to_str().unwrap(), "ROOT"));
}

#[test]
fn only_captures_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let capture = canonical(1, 5);

    fs::create_dir(root.join("home")).unwrap();
    fs::write(root.join("home/thesis.txt"), "years of work").unwrap();
    check(
        store::write(&capture, &root.join("home")),
        root,
        &expect![
            "`ROOT/home` is not a capture: expected a directory with a `manifest.json` of kind `inferoscope.capture`, found a directory without a manifest"
        ],
    );
    fs::write(root.join("home/manifest.json"), r#"{"name": "a web app"}"#).unwrap();
    check(
        store::write(&capture, &root.join("home")),
        root,
        &expect![
            "`ROOT/home` is not a capture: expected a directory with a `manifest.json` of kind `inferoscope.capture`, found a manifest of kind ``"
        ],
    );
    fs::write(root.join("file"), "text").unwrap();
    check(
        store::write(&capture, &root.join("file")),
        root,
        &expect!["`ROOT/file` is not a capture: expected a directory with a `manifest.json` of kind `inferoscope.capture`, found a file"],
    );
    check(
        store::write(&capture, &root.join("missing/a.capture")),
        root,
        &expect!["could not create `ROOT/missing/a.capture`: No such file or directory (os error 2)"],
    );
    check(
        store::Writer::create(&root.join("home")),
        root,
        &expect![
            "`ROOT/home` is not a capture: expected a directory with a `manifest.json` of kind `inferoscope.capture`, found a manifest of kind ``"
        ],
    );
    assert_eq!(fs::read_to_string(root.join("home/thesis.txt")).unwrap(), "years of work");

    fs::create_dir(root.join("empty")).unwrap();
    store::write(&capture, &root.join("empty")).unwrap();
    assert_same(&store::open(&root.join("empty")).unwrap(), &capture);
}

#[test]
fn a_capture_is_replaced_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    for seed in 1..4 {
        let capture = canonical(seed, 20);
        store::write(&capture, &path).unwrap();
        assert_same(&store::open(&path).unwrap(), &capture);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else stays");
}

/// Killed between moving the old capture aside and the new one in: the old one is still what is opened.
#[test]
fn a_capture_moved_aside_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let (old, new) = (canonical(1, 20), canonical(2, 20));
    store::write(&old, &path).unwrap();
    fs::rename(&path, dir.path().join(".a.capture.old-4711-0")).unwrap();
    fs::create_dir(dir.path().join(".a.capture.tmp-4711-1")).unwrap();
    assert!(store::is_capture(&path));
    assert_same(&store::open(&path).unwrap(), &old);
    store::write(&new, &path).unwrap();
    assert_same(&store::open(&path).unwrap(), &new);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "what the killed process left is gone");
}

/// Whoever loses is told so in these words, and what stands there in the end is one of the two.
#[test]
fn of_two_that_write_at_once_the_loser_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let both = [canonical(1, 20), canonical(2, 20)];
    let write_often = |capture: &capture::Capture| {
        (0..25).filter_map(|_| store::write(capture, &path).err()).map(|error| error.to_string()).collect::<Vec<_>>()
    };
    let errors: Vec<String> = std::thread::scope(|scope| {
        let writers: Vec<_> = both.iter().map(|capture| scope.spawn(move || write_often(capture))).collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    for error in errors {
        let expected = format!("`{}` is being written by another process: wait for it to finish, or stop it", path.display());
        assert_eq!(error, expected);
    }
    let found = format!("{:?}", store::open(&path).unwrap().tables);
    assert!(both.iter().any(|capture| format!("{:?}", capture.tables) == found));
    store::write(&both[0], &path).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else stays");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    check(
        store::open(&root.join("missing")),
        root,
        &expect![
            "`ROOT/missing` is not a capture: expected a directory with a `manifest.json` of kind `inferoscope.capture`, found nothing at this path"
        ],
    );
    check(
        store::open(root),
        root,
        &expect![
            "`ROOT` is not a capture: expected a directory with a `manifest.json` of kind `inferoscope.capture`, found a directory without a manifest"
        ],
    );
    let path = root.join("a.capture");
    store::write(&piece(0, 3), &path).unwrap();
    let manifest = path.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();

    fs::write(&manifest, text.replace("\"schema_version\": 1", "\"schema_version\": 7")).unwrap();
    check(
        store::open(&path),
        root,
        &expect!["`ROOT/a.capture` has capture schema 7, this build reads up to 1: open it with a newer inferoscope"],
    );
    assert!(store::is_capture(&path), "too new to read, but not to be taken for something else");
    check(
        store::write(&piece(0, 3), &path),
        root,
        &expect!["`ROOT/a.capture` has capture schema 7, this build reads up to 1: open it with a newer inferoscope"],
    );
    fs::write(&manifest, &text[..text.len() / 2]).unwrap();
    check(
        store::open(&path),
        root,
        &expect![
            "`ROOT/a.capture/manifest.json` is damaged: expected a JSON object with `kind` and `schema_version`, found EOF while parsing an object at line 52 column 3"
        ],
    );
    fs::write(&manifest, text.replace("\"sources\": [", "\"sources\": [7,")).unwrap();
    check(
        store::open(&path),
        root,
        &expect![
            "`ROOT/a.capture/manifest.json` is damaged: expected the fields of a capture manifest, found invalid type: integer `7`, expected struct Source at line 92 column 1"
        ],
    );
    assert!(!store::is_capture(root));
}

/// Not even root may write everywhere.
#[test]
fn missing_permission_is_told_apart() {
    let error = store::write(&piece(0, 3), Path::new("/sys/a.capture")).unwrap_err();
    assert!(matches!(error, StoreError::Permission { .. }), "{error}");
}
