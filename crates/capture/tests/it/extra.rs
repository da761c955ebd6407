//! Files beside the tables.

use std::fs;
use std::path::Path;

use capture::store::{self, Extra, get_extra, put_extra};
use expect_test::expect;

use crate::sample::{canonical, piece};

fn found(path: &Path, name: &str) -> (String, bool) {
    let Extra { bytes, is_stale } = get_extra(path, name).unwrap().unwrap();
    (String::from_utf8(bytes).unwrap(), is_stale)
}

#[test]
fn extra_files_know_the_capture_they_were_made_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let mut writer = store::Writer::create(&path).unwrap();
    put_extra(&path, "ledger.json", b"{}").unwrap();
    assert_eq!(found(&path, "ledger.json"), ("{}".into(), false));
    assert_eq!(get_extra(&path, "tiles").unwrap(), None);

    writer.append(piece(0, 10)).unwrap();
    writer.finish().unwrap();
    assert_eq!(found(&path, "ledger.json"), ("{}".into(), true), "kept, and known to be older");
    put_extra(&path, "ledger.json", b"").unwrap();
    assert_eq!(found(&path, "ledger.json"), (String::new(), false));

    store::write(&canonical(1, 5), &path).unwrap();
    assert_eq!(found(&path, "ledger.json"), (String::new(), true));
    fs::write(path.join("extra/by-hand"), "no first line").unwrap();
    assert_eq!(found(&path, "by-hand"), ("no first line".into(), true));
}

#[test]
fn names_cannot_leave_the_capture() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    store::write(&piece(0, 1), &path).unwrap();
    for name in ["", "..", ".hidden", "a/b", "../manifest.json", "a\\b", "-rf", "ä", &"x".repeat(101)] {
        assert!(matches!(put_extra(&path, name, b""), Err(store::StoreError::ExtraName { .. })), "{name}");
        assert!(get_extra(&path, name).is_err(), "{name}");
    }
    let error = put_extra(&path, "../a", b"").unwrap_err().to_string();
    expect!["`../a` cannot name an extra file: expected 1 to 100 letters, digits, `.`, `_` or `-`, starting with a letter, a digit or `_`"]
        .assert_eq(&error);
}
