//! The second half of `docs/validation.md`: on what each file format and engine is tested, from `samples.toml` of `ingest`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use toml::{Table, Value};

const SAMPLES: &str = "crates/ingest/tests/data/samples.toml";
/// What an engine is read from.
const KINDS: [&str; 3] = ["metrics", "log", "command"];

/// Tables by format and by engine.
pub(super) fn section(root: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(root.join(SAMPLES)).with_context(|| format!("could not read `{SAMPLES}`"))?;
    let samples: Table = text.parse().with_context(|| format!("could not read `{SAMPLES}`"))?;
    render(&samples)
}

fn render(samples: &Table) -> anyhow::Result<String> {
    let mut page = String::from("\n## On what formats and engines are tested\n\n");
    page.push_str("*Recorded* files were written by the tool itself, *made* ones by hand in its form after its source or documentation;\n");
    page.push_str("with *none* only the table of names stands behind it. A made sample cannot show that a tool writes what we read.\n\n");
    page.push_str("| file format | samples |\n|---|---|\n");
    let formats: BTreeSet<&str> = ids(samples, "format");
    for format in formats {
        writeln!(page, "| `{format}` | {} |", counted(samples, |row| text(row, "format") == format))?;
    }
    page.push_str("\n| engine or gateway | metrics | log | command line |\n|---|---|---|---|\n");
    for engine in ids(samples, "engine") {
        let of = |kind: &str| counted(samples, |row| text(row, "engine") == engine && text(row, "what") == kind);
        writeln!(page, "| {engine} | {} |", KINDS.map(of).join(" | "))?;
    }
    Ok(page)
}

fn rows<'s>(samples: &'s Table, list: &str) -> impl Iterator<Item = &'s Table> {
    samples.get(list).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}

fn text<'r>(row: &'r Table, key: &str) -> &'r str {
    row.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn ids<'s>(samples: &'s Table, key: &str) -> BTreeSet<&'s str> {
    rows(samples, "sample").chain(rows(samples, "without")).map(|row| text(row, key)).filter(|id| !id.is_empty()).collect()
}

/// `2 recorded, 1 made`, or `none`.
fn counted(samples: &Table, is_meant: impl Fn(&Table) -> bool) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows(samples, "sample").filter(|row| is_meant(row)) {
        *counts.entry(text(row, "provenance")).or_default() += 1;
    }
    let told: Vec<String> = ["recorded", "made"].into_iter().filter_map(|known| Some(format!("{} {known}", counts.get(known)?))).collect();
    if told.is_empty() { "none".into() } else { told.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_sample_says_so() {
        let samples: Table = "[[sample]]\nformat = \"f\"\nengine = \"e\"\nwhat = \"log\"\nprovenance = \"made\"\n[[sample]]\nformat = \"f\"\nprovenance = \"recorded\"\n[[without]]\nengine = \"g\"\n"
            .parse()
            .unwrap();
        let page = render(&samples).unwrap();
        assert!(page.contains("| `f` | 1 recorded, 1 made |\n"), "{page}");
        assert!(page.contains("| e | none | 1 made | none |\n| g | none | none | none |\n"), "{page}");
    }
}
