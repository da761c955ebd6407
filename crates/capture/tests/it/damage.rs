//! Damaged and crafted files: told, never trusted, never the end of the process.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use capture::{Capture, store};
use expect_test::{Expect, expect};
use proptest::prelude::*;

use crate::allocations::peak_of;
use crate::sample::{Random, assert_same, canonical, files, issues, piece};

/// A capture and its files.
type Written = (Capture, Vec<(String, Vec<u8>)>);

/// Two row groups of samples, and a few rows of everything else; written once.
fn large() -> &'static Written {
    static LARGE: OnceLock<Written> = OnceLock::new();
    LARGE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = canonical(3, 20);
        capture.tables.samples = capture::Samples::default();
        capture.tables.issues = capture::Issues::default();
        capture.merge(piece(0, 300_000));
        capture.canonicalize();
        store::write(&capture, &dir.path().join("a")).unwrap();
        (capture, files(&dir.path().join("a")))
    })
}

/// Damages a file of a capture, opens it, and shows the issues; returns how many samples are left.
fn check(name: &str, change: impl FnOnce(&mut Vec<u8>), expected: &Expect) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let (capture, all) = large();
    for (file, bytes) in all {
        fs::write(dir.path().join(file), bytes).unwrap();
    }
    let mut bytes = fs::read(dir.path().join(name)).unwrap();
    change(&mut bytes);
    fs::write(dir.path().join(name), bytes).unwrap();
    let found = store::open(dir.path()).unwrap();
    expected.assert_eq(&without_sizes(&issues(&found)));
    for ((table, rows), (_, written)) in found.tables.row_counts().into_iter().zip(capture.tables.row_counts()) {
        assert!(rows == written || name.starts_with(table) || table == "issues", "{table}: {rows} of {written}");
        assert_eq!(found.manifest.row_counts[table], rows as u64);
    }
    found.tables.samples.value.len()
}

/// How many bytes a file takes is zstd's business.
fn without_sizes(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let is_size = |at: usize| {
        let next = words.get(at + 1).is_some_and(|word| word.starts_with("bytes"));
        next || at > 0 && matches!(words[at - 1], "byte" | "found")
    };
    let masked = |(at, word): (usize, &&str)| match word.trim_start_matches(|digit: char| digit.is_ascii_digit()) {
        rest if is_size(at) && rest.len() < word.len() => format!("#{rest}"),
        _ => (*word).to_string(),
    };
    words.iter().enumerate().map(masked).collect::<Vec<String>>().join(" ")
}

#[test]
fn a_flipped_bit_costs_a_row_group() {
    let left = check(
        "samples.parquet",
        |bytes| bytes[1000] ^= 4,
        &expect![[r#"
            warning damaged_table samples.parquet [row group 0] x262144: 262144 rows are left out: expected the # bytes before byte # as they were written, found other bytes (SHA-256 differs).
        "#]],
    );
    assert_eq!(left, 300_000 - 262_144);
}

#[test]
fn a_truncated_file_costs_a_table() {
    let left = check(
        "samples.parquet",
        |bytes| bytes.truncate(bytes.len() - 1),
        &expect![[r#"
            error damaged_table samples.parquet [] x300000: Nothing of this table could be read: expected a file of # bytes, found #.
        "#]],
    );
    assert_eq!(left, 0);
    check(
        "requests.parquet",
        Vec::clear,
        &expect![[r#"
            error damaged_table requests.parquet [] x19: Nothing of this table could be read: expected a file of # bytes, found #.
        "#]],
    );
}

#[test]
fn a_flipped_bit_in_the_footer_costs_a_table() {
    let flip = |bytes: &mut Vec<u8>| {
        let at = bytes.len() - 30;
        bytes[at] ^= 1;
    };
    check(
        "steps.parquet",
        flip,
        &expect![[r#"
            error damaged_table steps.parquet [] x15: Nothing of this table could be read: expected the # bytes before byte # as they were written, found other bytes (SHA-256 differs).
        "#]],
    );
}

#[test]
fn damaged_names_cost_nothing() {
    let left = check(
        "names.parquet",
        |bytes| bytes[10] ^= 1,
        &expect![[r#"
        note damaged_table names.parquet [] x1: The order of interned text is lost; the text itself stands in the tables.
    "#]],
    );
    assert_eq!(left, 300_000);
}

#[test]
fn more_bytes_at_the_end_cost_nothing() {
    let left = check("samples.parquet", |bytes| bytes.extend(b"appended by mistake"), &expect![""]);
    assert_eq!(left, 300_000);
}

#[test]
fn a_missing_file_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    store::write(&piece(0, 10), &path).unwrap();
    fs::remove_file(path.join("samples.parquet")).unwrap();
    expect![[r#"
        error damaged_table samples.parquet [] x10: Nothing of this table could be read: expected a file, found none.
    "#]]
    .assert_eq(&issues(&store::open(&path).unwrap()));
}

/// A capture of ten samples whose manifest `change` has changed, in a folder that is dropped with it.
fn with_manifest(change: impl FnOnce(&mut serde_json::Value)) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    store::write(&piece(0, 10), &path).unwrap();
    let manifest = path.join("manifest.json");
    let mut json = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    change(&mut json);
    fs::write(&manifest, json.to_string()).unwrap();
    (dir, path)
}

/// Tables beside a manifest are a capture whatever became of the manifest: it is told, not read as something else.
#[test]
fn a_capture_with_a_damaged_manifest_stays_a_capture() {
    let told = |content: &[u8]| {
        let (_dir, path) = with_manifest(|_| ());
        fs::write(path.join("manifest.json"), content).unwrap();
        assert!(store::is_capture(&path));
        assert!(matches!(store::write(&piece(0, 3), &path), Err(store::StoreError::DamagedManifest { .. })));
        let error = store::open(&path).unwrap_err();
        assert!(matches!(error, store::StoreError::DamagedManifest { .. }), "{error}");
        error.to_string().replace(path.to_str().unwrap(), "CAPTURE") + "\n"
    };
    expect![[r#"
        `CAPTURE/manifest.json` is damaged: expected a JSON object with `kind` and `schema_version`, found EOF while parsing a value at line 1 column 0
        `CAPTURE/manifest.json` is damaged: expected a JSON object with `kind` and `schema_version`, found expected value at line 1 column 1
        `CAPTURE/manifest.json` is damaged: expected a manifest of kind `inferoscope.capture` beside the tables, found a manifest of kind ``
        `CAPTURE/manifest.json` is damaged: expected a manifest of kind `inferoscope.capture` beside the tables, found a manifest of kind ``
        `CAPTURE/manifest.json` is damaged: expected a manifest of kind `inferoscope.capture` beside the tables, found a manifest of kind `inferoscope.captvre`
    "#]]
    .assert_eq(&[&b""[..], b"\0\0", b"[]", b"{}", br#"{"kind": "inferoscope.captvre"}"#].map(told).concat());

    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("manifest.json"), "{}").unwrap();
    assert!(!store::is_capture(dir.path()), "no tables: anybody's manifest");
    fs::create_dir(dir.path().join("segments")).unwrap();
    assert!(store::is_capture(dir.path()));
}

/// Nothing vouches for these tables, which is told.
#[test]
fn tables_without_hashes_are_told() {
    let none = |json: &mut serde_json::Value| json["blocks"] = serde_json::json!({});
    let one_lacks = |json: &mut serde_json::Value| drop(json["blocks"].as_object_mut().unwrap().remove("samples.parquet"));
    for (change, told) in
        [(none as fn(&mut serde_json::Value), "names.parquet, runs.parquet, samples.parquet"), (one_lacks, "samples.parquet")]
    {
        let (_dir, path) = with_manifest(change);
        let found = store::open(&path).unwrap();
        assert_eq!(found.tables.samples.value.len(), 10);
        let count = told.split(", ").count();
        let expected = format!(
            "warning unverified_table manifest.json [blocks] x{count}: Expected the hashes of every table, found none for {told}: changes to them go unseen.\n"
        );
        assert_eq!(issues(&found), expected);
    }
}

/// Opening one of these would wait for a writer that never comes, or read without end.
#[cfg(unix)]
#[test]
fn pipes_and_devices_in_a_capture_are_not_opened() {
    let pipe = |path: &Path| {
        fs::remove_file(path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    let (_dir, path) = with_manifest(|json| json["blocks"] = serde_json::json!({}));
    pipe(&path.join("samples.parquet"));
    fs::remove_file(path.join("names.parquet")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", path.join("names.parquet")).unwrap();
    expect![[r#"
        error damaged_table samples.parquet [] x0: Nothing of this table could be read: expected a regular file, found a pipe, socket or device.
        error missing_rows samples.parquet [] x10: Expected 10 rows by the manifest, found 0.
        note damaged_table names.parquet [] x1: The order of interned text is lost; the text itself stands in the tables.
        warning unverified_table manifest.json [blocks] x3: Expected the hashes of every table, found none for names.parquet, runs.parquet, samples.parquet: changes to them go unseen.
    "#]]
    .assert_eq(&issues(&store::open(&path).unwrap()));
    pipe(&path.join("manifest.json"));
    let error = store::open(&path).unwrap_err().to_string();
    assert!(error.ends_with("manifest.json` is damaged: expected a regular file, found a pipe, socket or device"), "{error}");
}

/// Sources the manifest does not list are pointed at one that says so.
#[test]
fn unknown_sources_are_named_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let mut capture = piece(0, 10);
    capture.tables.samples.source_idx[3] = capture::SourceIdx(u32::MAX);
    store::write(&capture, &path).unwrap();
    let found = store::open(&path).unwrap();
    expect![[r#"
        warning unknown_source samples.parquet [source_idx] x1: Expected sources the manifest lists, found 1 rows of others.
    "#]]
    .assert_eq(&issues(&found));
    let sources: Vec<&str> =
        found.tables.samples.source_idx.iter().map(|source| found.manifest.sources[source.0 as usize].name.as_str()).collect();
    assert_eq!(sources.iter().filter(|name| **name == "(unknown)").count(), 1);
}

/// A change to a file: bits flipped, a part overwritten or removed, the end cut off.
pub(crate) fn change(bytes: &mut Vec<u8>, seed: u64) {
    let random = &mut Random(seed);
    for _ in 0..=random.below(3) {
        if bytes.is_empty() {
            return;
        }
        // The interesting bytes are in the footer and in page headers.
        let near_end = bytes.len().saturating_sub(1 + random.below(600.min(bytes.len())));
        let at = if random.below(2) == 0 { near_end } else { random.below(bytes.len()) };
        let end = (at + 1 + random.below(8)).min(bytes.len());
        match random.below(6) {
            0 | 1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = [0, 0xff, 0x7f, 0x80][random.below(4)],
            3 => bytes[at..end].iter_mut().for_each(|byte| *byte = random.next() as u8),
            4 => drop(bytes.drain(at..end)),
            _ => bytes.truncate(at),
        }
    }
}

/// A few captures and their files, written once.
fn prepared(seed: u64) -> &'static Written {
    static PREPARED: OnceLock<Vec<Written>> = OnceLock::new();
    let prepare = |seed| {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = canonical(seed, 40);
        capture.tables.issues = capture::Issues::default();
        capture.canonicalize();
        store::write(&capture, &dir.path().join("a")).unwrap();
        (capture, files(&dir.path().join("a")))
    };
    let all = PREPARED.get_or_init(|| (0..4).map(prepare).collect());
    &all[seed as usize % all.len()]
}

/// Lays out the files of a capture, one of them changed; returns its name.
fn lay_out(path: &Path, all: &[(String, Vec<u8>)], file: usize, seed: u64) -> String {
    fs::create_dir(path).unwrap();
    for (at, (name, bytes)) in all.iter().enumerate() {
        let mut bytes = bytes.clone();
        if at == file % all.len() {
            change(&mut bytes, seed);
        }
        fs::write(path.join(name), bytes).unwrap();
    }
    all[file % all.len()].0.clone()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever happens to one file by accident: what is read is what was written, and what is not read is told.
    #[test]
    fn damage_never_passes_for_evidence(seed: u64, file: usize) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.capture");
        let (capture, all) = prepared(seed);
        let name = lay_out(&path, all, file, seed);
        let opened = store::open(&path);
        if name == "manifest.json" {
            return Ok(()); // nothing vouches for the manifest; that it is survived is the test below
        }
        let mut found = opened.unwrap();
        let told = issues(&found);
        if told.is_empty() {
            assert_same(&found, capture);
            return Ok(());
        }
        prop_assert!(told.contains(&name), "{}", told);
        let lost = name.trim_end_matches(".parquet");
        found.tables.issues = capture::Issues::default();
        for ((table, rows), (_, written)) in found.tables.row_counts().into_iter().zip(capture.tables.row_counts()) {
            prop_assert_eq!(rows, if table == lost { 0 } else { written }, "{}", table); // one row group: all or nothing
        }
    }

    /// A crafted capture brings no hashes: the decoders see every change. No panic, no absurd memory.
    #[test]
    fn crafted_files_are_survived(seed: u64, file: usize) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.capture");
        let (_, all) = prepared(seed);
        let mut all = all.clone();
        let manifest = all.iter_mut().find(|(name, _)| name == "manifest.json").unwrap();
        let mut json: serde_json::Value = serde_json::from_slice(&manifest.1).unwrap();
        json.as_object_mut().unwrap().remove("blocks");
        manifest.1 = json.to_string().into_bytes();
        lay_out(&path, &all, file, seed);
        let (peak, found) = peak_of(|| store::open(&path));
        prop_assert!(peak < 400 << 20, "{} bytes", peak);
        if let Ok(mut found) = found {
            found.canonicalize(); // walks every column by its rows and every index
            let sources = found.manifest.sources.len().max(1);
            prop_assert!(found.tables.samples.source_idx.iter().all(|source| (source.0 as usize) < sources));
        }
    }
}
