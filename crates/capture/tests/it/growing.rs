//! Captures that are still being written.

use std::fs;
use std::path::Path;

use capture::store::{self, StoreError, Writer};
use capture::{Capture, Source};
use expect_test::expect;

use crate::sample::{assert_same, issues, piece, random};

fn segments(path: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(path.join("segments")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn segments_close_by_time_and_by_rows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let mut writer = Writer::create(&path).unwrap();
    for first in (0..2500).step_by(100) {
        writer.append(piece(first, 100)).unwrap(); // 0.1 s each
    }
    assert_eq!(segments(&path), ["000000", "000001"], "one a second");
    let mut many = piece(2500, 1);
    for _ in 0..70_000 {
        let row = many.tables.samples.row(0);
        many.tables.samples.push(row);
    }
    writer.append(many).unwrap();
    assert_eq!(segments(&path), ["000000", "000001", "000002"], "full");
    writer.flush().unwrap();
    assert_eq!(segments(&path).len(), 3, "nothing to close");
    let open = store::open(&path).unwrap();
    assert_eq!(open.tables.samples.value.len(), 2500 + 70_001);
    assert_eq!(issues(&open), "", "its writer is alive");
    writer.finish().unwrap();
    assert!(!path.join("segments").exists());
    assert_same(&store::open(&path).unwrap(), &open);
}

#[test]
fn the_last_segments_are_read_with_the_settings_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let mut writer = Writer::create(&path).unwrap();
    for first in 0..20 {
        let mut piece = piece(first * 10, 10);
        if first == 0 {
            let (key, value) = (piece.intern("config.max_num_seqs"), piece.intern("2"));
            piece.tables.settings.push(capture::Setting { key, value, ..capture::Setting::default() });
        }
        writer.append(piece).unwrap();
        writer.flush().unwrap();
    }
    assert!(store::is_growing(&path));
    let recent = store::open_recent(&path, 3).unwrap();
    let all = store::open(&path).unwrap();
    assert_eq!((recent.tables.samples.value.len(), all.tables.samples.value.len()), (30, 200));
    assert_eq!(recent.tables.samples.t_ns, all.tables.samples.t_ns[170..]);
    assert_eq!(recent.tables.settings.key.len(), all.tables.settings.key.len());
    assert_eq!(issues(&recent), "");
    assert_same(&store::open_recent(&path, 99).unwrap(), &all);
    writer.finish().unwrap();
    assert!(!store::is_growing(&path));
    assert_same(&store::open_recent(&path, 3).unwrap(), &store::open(&path).unwrap());
}

#[test]
fn pieces_of_one_source_are_one_source() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let mut writer = Writer::create(&path).unwrap();
    for first in 0..5 {
        let mut piece = piece(first * 10, 10);
        piece.manifest.sources[0].row_count = 10;
        piece.manifest.sources[0].byte_count = 1000;
        writer.append(piece).unwrap();
        writer.flush().unwrap();
    }
    writer.finish().unwrap();
    let capture = store::open(&path).unwrap();
    let source = Source { name: "http://engine/metrics".into(), format: "prometheus".into(), ..Source::default() };
    assert_eq!(capture.manifest.sources, [Source { byte_count: 5000, row_count: 50, ..source }]);
    assert_eq!(capture.tables.runs.name.len(), 1);
}

/// However a recording is cut into segments, the finished capture is the same.
#[test]
fn cuts_do_not_show() {
    let dir = tempfile::tempdir().unwrap();
    let mut whole = Capture::new();
    let (one, two) = (dir.path().join("one.capture"), dir.path().join("two.capture"));
    let (mut often, mut once) = (Writer::create(&one).unwrap(), Writer::create(&two).unwrap());
    for seed in 0..6 {
        let mut piece = random(seed, 10);
        piece.canonicalize();
        whole.extend(piece.clone());
        often.append(piece.clone()).unwrap();
        often.flush().unwrap();
        once.append(piece).unwrap();
    }
    often.finish().unwrap();
    once.finish().unwrap();
    whole.canonicalize();
    assert_same(&store::open(&one).unwrap(), &whole);
    assert_eq!(crate::sample::files(&one), crate::sample::files(&two));
}

#[test]
fn one_writer_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let mut writer = Writer::create(&path).unwrap();
    writer.append(piece(0, 5)).unwrap();
    writer.flush().unwrap();
    assert!(matches!(Writer::create(&path), Err(StoreError::Exists { .. })));
    assert!(matches!(Writer::resume(&path), Err(StoreError::Busy { .. })));
    assert!(matches!(store::compact(&path), Err(StoreError::Busy { .. })));
    assert!(matches!(store::write(&piece(0, 1), &path), Err(StoreError::Busy { .. })));
    drop(writer);

    let mut writer = Writer::resume(&path).unwrap();
    writer.append(piece(5, 5)).unwrap();
    writer.finish().unwrap();
    assert_eq!(store::open(&path).unwrap().tables.samples.value.len(), 10);
    assert!(matches!(Writer::resume(&path), Err(StoreError::Exists { .. })));
}

#[test]
fn an_abandoned_recording_opens_and_compacts_to_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let mut writer = Writer::create(&path).unwrap();
    for first in 0..3 {
        writer.append(piece(first * 10, 10)).unwrap();
        writer.flush().unwrap();
    }
    drop(writer);
    fs::create_dir(path.join("segments/000003.tmp")).unwrap();
    let open = store::open(&path).unwrap();
    expect![[r#"
        note unfinished_recording segments [] x1: The recording ended without being finished; up to a second before its end may be missing.
    "#]]
    .assert_eq(&issues(&open));
    store::compact(&path).unwrap();
    assert_same(&store::open(&path).unwrap(), &open);
    let files = crate::sample::files(&path);
    store::compact(&path).unwrap();
    assert_eq!(crate::sample::files(&path), files, "compacting again changes nothing");
}

#[test]
fn a_lost_segment_loses_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let mut writer = Writer::create(&path).unwrap();
    for first in 0..6 {
        writer.append(piece(first * 10, 10)).unwrap();
        writer.flush().unwrap();
    }
    drop(writer);
    fs::remove_dir_all(path.join("segments/000001")).unwrap();
    fs::write(path.join("segments/000002/manifest.json"), "{").unwrap();
    fs::remove_file(path.join("segments/000003/manifest.json")).unwrap();
    fs::remove_file(path.join("segments/000004/samples.parquet")).unwrap();
    let open = store::open(&path).unwrap();
    let values: Vec<i64> = open.tables.samples.value.iter().map(|value| *value as i64).collect();
    assert_eq!(values, (0..10).chain(50..60).collect::<Vec<i64>>());
    expect![[r#"
        error damaged_segment segments/000002 [] x1: Nothing of this segment could be read: `segments/000002/manifest.json` is damaged: expected a JSON object with `kind` and `schema_version`, found EOF while parsing an object at line 1 column 1.
        error damaged_segment segments/000003 [] x1: Nothing of this segment could be read: `segments/000003` is not a capture: expected a directory with a `manifest.json` of kind `inferoscope.capture`, found a directory without a manifest.
        error damaged_table segments/000004/samples.parquet [] x10: Nothing of this table could be read: expected a file, found none.
        note unfinished_recording segments [] x1: The recording ended without being finished; up to a second before its end may be missing.
        warning missing_segment segments [000001] x1: Expected segment 000001 after the one before, found 000002.
    "#]].assert_eq(&issues(&open));
    store::compact(&path).unwrap();
    assert_same(&store::open(&path).unwrap(), &open);
}

/// A segment this build cannot read must not be thrown away by a compaction.
#[test]
fn what_may_be_sound_is_not_compacted_away() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let mut writer = Writer::create(&path).unwrap();
    writer.append(piece(0, 10)).unwrap();
    writer.flush().unwrap();
    let manifest = path.join("segments/000000/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"schema_version\": 1", "\"schema_version\": 2")).unwrap();
    assert!(matches!(writer.finish(), Err(StoreError::Unreadable { .. })));
    fs::write(&manifest, text).unwrap();
    store::compact(&path).unwrap();
    assert_eq!(store::open(&path).unwrap().tables.samples.value.len(), 10);
}

/// A full disk costs nothing that was appended, once there is room again.
#[test]
fn rows_wait_until_they_can_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let mut writer = Writer::create(&path).unwrap();
    writer.append(piece(0, 10)).unwrap();
    fs::write(path.join("segments/000000"), "in the way").unwrap();
    assert!(writer.flush().is_err());
    writer.append(piece(10, 10)).unwrap();
    assert_eq!(segments(&path), ["000000"], "no half segment stays");
    fs::remove_file(path.join("segments/000000")).unwrap();
    writer.finish().unwrap();
    assert_eq!(store::open(&path).unwrap().tables.samples.value.len(), 20);
}
