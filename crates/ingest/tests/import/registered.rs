//! `tests/data/samples.toml`: every format and engine has a sample that is recognized, or says that it has none.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use capture::Capture;

use crate::shown::{data, import};

fn rows(list: &str) -> Vec<toml::Table> {
    let text = std::fs::read_to_string(data("samples.toml")).unwrap();
    let table: toml::Table = text.parse().unwrap();
    table[list].as_array().unwrap().iter().map(|row| row.as_table().unwrap().clone()).collect()
}

fn text<'r>(row: &'r toml::Table, key: &str) -> &'r str {
    row.get(key).and_then(toml::Value::as_str).unwrap_or_default()
}

fn path(row: &toml::Table) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(text(row, "file"))
}

/// The engine, or the gateway in front of it.
fn engines(capture: &Capture) -> Vec<String> {
    let settings = &capture.tables.settings;
    let gateways = settings.key.iter().zip(&settings.value).filter(|(key, _)| capture.text(**key) == "config.gateway");
    let mut found: Vec<String> = gateways.map(|(_, value)| capture.text(*value).to_string()).collect();
    found.push(capture.manifest.subject.engine.clone());
    found
}

#[test]
fn every_sample_is_recognized_as_what_it_is() {
    for row in rows("sample") {
        let file = text(&row, "file");
        assert!(["recorded", "made"].contains(&text(&row, "provenance")), "{file}");
        let capture = import(&[path(&row)]);
        let formats: Vec<&str> = capture.manifest.sources.iter().map(|source| source.format.as_str()).collect();
        assert_eq!(formats, [text(&row, "format")], "{file}");
        if row.contains_key("engine") {
            assert!(["metrics", "log", "command"].contains(&text(&row, "what")), "{file}");
            let found = engines(&capture);
            assert!(found.iter().any(|engine| engine == text(&row, "engine")), "{file}: {found:?}");
        }
    }
}

#[test]
fn every_format_and_engine_has_a_row() {
    let told = |list: &str, key: &str| -> BTreeSet<String> {
        rows(list).iter().map(|row| text(row, key).to_string()).filter(|name| !name.is_empty()).collect()
    };
    let (formats, engines) = (told("sample", "format"), told("sample", "engine"));
    let (no_format, no_engine) = (told("without", "format"), told("without", "engine"));
    assert!(formats.is_disjoint(&no_format) && engines.is_disjoint(&no_engine), "a sample and none at once");
    let all = |ids: BTreeSet<String>, without: BTreeSet<String>| -> BTreeSet<String> { ids.union(&without).cloned().collect() };
    assert_eq!(all(formats, no_format), ingest::format_ids().map(str::to_string).collect());
    assert_eq!(all(engines, no_engine), ingest::engine_ids().map(str::to_string).collect());
}
