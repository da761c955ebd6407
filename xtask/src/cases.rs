//! The cases below `cases/`: what each `case.toml` says of its folder, read in one place for every verb that counts or pairs them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use toml::{Table, Value};

/// One case; words that its `case.toml` leaves out are empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Case {
    /// Where it lies.
    pub(crate) folder: PathBuf,
    /// `found`, `healthy` or `insufficient`.
    pub(crate) expected: String,
    /// The layer that must be named.
    pub(crate) layer: String,
    /// The failure mode that must be found.
    pub(crate) check: String,
    /// Where its evidence comes from: `recorded`, `simulated`, `typed` and so on.
    pub(crate) provenance: String,
    /// Folder of the same system fixed, below `cases/`.
    pub(crate) twin: String,
    /// The failure mode it must not be taken for.
    pub(crate) look_alike_of: String,
    /// Folder or file of its evidence.
    pub(crate) artifacts: PathBuf,
}

/// Failure modes that explain nothing by themselves: no verdict names them.
const CONTEXT_ONLY: &[&str] = &["underfed_engine", "misread_utilization", "config_drift"];

impl Case {
    /// True for a case that shows this failure mode. What is context only is never the verdict: its case names it beside
    /// whatever the verdict is.
    pub(crate) fn finds(&self, check: &str) -> bool {
        self.check == check && (self.expected == "found" || CONTEXT_ONLY.contains(&check))
    }

    /// As what `answers`, the text of its `expected.txt`, has this failure mode found: `cause`, `context` and so on.
    pub(crate) fn role(answers: &str, check: &str) -> Option<String> {
        let rest = answers.lines().find_map(|line| line.strip_prefix(check).filter(|rest| rest.starts_with(' ')))?;
        rest.trim_start().strip_prefix("found ")?.split(' ').next().map(str::to_string)
    }

    /// The answers that the program gives today; empty where none were written yet.
    pub(crate) fn answers(&self) -> String {
        fs::read_to_string(self.folder.join("expected.txt")).unwrap_or_default()
    }
}

/// Every case below `folder`, in path order; none where there is no such folder.
pub(crate) fn read(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    collect(folder, &mut cases)?;
    cases.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(cases)
}

fn collect(folder: &Path, cases: &mut Vec<Case>) -> anyhow::Result<()> {
    let path = folder.join("case.toml");
    if path.is_file() {
        cases.push(parse(folder, &path).with_context(|| format!("could not read `{}`", path.display()))?);
        return Ok(());
    }
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, cases)?;
        }
    }
    Ok(())
}

fn parse(folder: &Path, path: &Path) -> anyhow::Result<Case> {
    let table: Table = fs::read_to_string(path)?.parse()?;
    let text = |key: &str| table.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
    Ok(Case {
        folder: folder.to_path_buf(),
        expected: text("expected"),
        layer: text("layer"),
        check: text("check"),
        provenance: text("provenance"),
        twin: text("twin"),
        look_alike_of: text("look_alike_of"),
        artifacts: folder.join(table.get("artifacts").and_then(Value::as_str).unwrap_or("artifacts")),
    })
}
