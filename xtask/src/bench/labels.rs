//! Labelled evidence for the tables of `cargo xtask bench`: our own cases, and the recordings and reports beside the
//! project where they are.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;
use toml::Table;

use crate::cases;
use crate::workspace::{program, root, stdout_of};

/// One labelled folder of evidence.
#[derive(Clone, Debug, Default)]
pub(super) struct Labelled {
    /// What it is called in a table.
    pub(super) name: String,
    /// Report or recording it belongs to: what is left out together.
    pub(super) group: String,
    pub(super) artifacts: PathBuf,
    /// `found`, `healthy` or `insufficient`.
    pub(super) expected: String,
    pub(super) layer: String,
    /// Failure modes that are right answers.
    pub(super) checks: Vec<String>,
    /// Id of the other arm of a recorded pair.
    pub(super) pair: String,
    /// `fault`, `fix`, `repeat` or `plain`.
    pub(super) pair_role: String,
}

/// Folders beside the project that hold labelled evidence.
const BESIDE: [&str; 2] = ["../shared/cases", "../shared/corpus/vllm-cpu"];

/// Recordings and reports beside the project; empty where there are none.
pub(super) fn beside() -> anyhow::Result<Vec<Labelled>> {
    let mut found = Vec::new();
    for folder in BESIDE {
        collect(&root().join(folder), &mut found)?;
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn collect(folder: &Path, found: &mut Vec<Labelled>) -> anyhow::Result<()> {
    let label = folder.join("label.toml");
    if label.is_file() {
        found.push(parse(folder, &label).with_context(|| format!("could not read `{}`", label.display()))?);
        return Ok(());
    }
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, found)?;
        }
    }
    Ok(())
}

fn parse(folder: &Path, label: &Path) -> anyhow::Result<Labelled> {
    let table: Table = fs::read_to_string(label)?.parse()?;
    let text = |key: &str| table.get(key).and_then(toml::Value::as_str).unwrap_or_default().to_string();
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let list = table.get("also_acceptable").and_then(toml::Value::as_array).into_iter().flatten();
    let checks = std::iter::once(text("check")).chain(list.filter_map(|value| value.as_str().map(str::to_string)));
    let pair = text("pair");
    let mut members = [name.clone(), pair.clone()];
    members.sort();
    Ok(Labelled {
        group: if pair.is_empty() { name.clone() } else { members.join("+") },
        artifacts: folder.join("artifacts"),
        expected: Some(text("expected")).filter(|text| !text.is_empty()).unwrap_or_else(|| "found".into()),
        layer: text("layer"),
        checks: checks.filter(|check| !check.is_empty()).collect(),
        pair_role: text("pair_role"),
        name,
        pair,
    })
}

/// Our own cases that come from recordings or reports.
pub(super) fn own() -> anyhow::Result<Vec<Labelled>> {
    let folder = root().join("cases");
    let own = cases::read(&folder)?.into_iter().map(|case| {
        let name = case.folder.strip_prefix(&folder).unwrap_or(&case.folder).display().to_string();
        Labelled {
            group: name.trim_end_matches("_fixed").to_string(),
            name,
            artifacts: case.artifacts,
            expected: case.expected,
            layer: case.layer,
            checks: vec![case.check],
            ..Labelled::default()
        }
    });
    Ok(own.collect())
}

/// The report on one folder.
pub(super) fn diagnose(binary: &Path, artifacts: &Path) -> anyhow::Result<Value> {
    let binary = binary.to_str().context("the program's path is not UTF-8")?;
    let folder = artifacts.to_str().context("a path of evidence is not UTF-8")?;
    let text = stdout_of(&mut program(binary, &["diagnose", "--json", "--exit-zero", folder]))?;
    serde_json::from_str(&text).with_context(|| format!("`{folder}` gave no report"))
}
