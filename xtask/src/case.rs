//! `cargo xtask case new`: a folder under `cases/` from a folder of evidence, with a `case.toml` to fill in.

use std::fs;
use std::path::{Path, PathBuf};

use analysis::checks::CHECKS;
use anyhow::{Context as _, bail, ensure};

use crate::workspace::root;

/// Largest case that belongs into the repository.
const MAX_CASE_BYTES: u64 = 5 << 20;

/// Folders that hold cases of no failure mode.
const WITHOUT_CHECK: [&str; 2] = ["healthy", "damaged"];

/// Makes `cases/<check>/<name>/`.
pub(crate) fn new(name: &str, check: &str, from: &Path) -> anyhow::Result<()> {
    let layer = CHECKS.iter().find(|known| known.id == check).map(|known| known.layer.as_str());
    ensure!(
        layer.is_some() || WITHOUT_CHECK.contains(&check),
        "no failure mode is called `{check}`; `inferoscope explain` lists them, `healthy` and `damaged` are folders of their own"
    );
    let folder = make(&root().join("cases"), name, check, layer.unwrap_or_default(), from)?;
    println!("made {}", folder.display());
    println!("next: fill in case.toml, then UPDATE_EXPECT=1 cargo test -p cli, then read expected.txt");
    Ok(())
}

fn make(cases: &Path, name: &str, check: &str, layer: &str, from: &Path) -> anyhow::Result<PathBuf> {
    let is_word = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_';
    ensure!(!name.is_empty() && name.chars().all(is_word), "expected a name of a-z, 0-9 and _, found `{name}`");
    let folder = cases.join(check).join(name);
    ensure!(!folder.exists(), "`{}` exists already", folder.display());
    let artifacts = regular_files(from)?;
    fs::create_dir_all(folder.join("artifacts"))?;
    for path in &artifacts {
        let target = folder.join("artifacts").join(path.file_name().unwrap_or_default());
        fs::copy(path, &target).with_context(|| format!("could not copy `{}`", path.display()))?;
    }
    fs::write(folder.join("case.toml"), template(check, layer))?;
    Ok(folder)
}

/// The files right in `from`; folders and special files have no place in a case.
fn regular_files(from: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (mut files, mut total) = (Vec::new(), 0);
    for entry in fs::read_dir(from).with_context(|| format!("could not list `{}`", from.display()))? {
        let entry = entry?;
        if !entry.file_type()?.is_file() {
            bail!("`{}` is not a plain file", entry.path().display());
        }
        total += entry.metadata()?.len();
        files.push(entry.path());
    }
    ensure!(!files.is_empty(), "`{}` holds no file", from.display());
    ensure!(total <= MAX_CASE_BYTES, "{total} bytes are too many for the repository, {MAX_CASE_BYTES} are the most; compress or shorten");
    files.sort();
    Ok(files)
}

fn template(check: &str, layer: &str) -> String {
    let (expected, named) = match check {
        "healthy" => ("healthy", String::new()),
        "damaged" => ("insufficient", String::new()),
        _ => ("found", format!("layer = \"{layer}\"\ncheck = \"{check}\"\n")),
    };
    format!(
        "# What happened, in one line.\n\
         story = \"\"\n\
         # recorded, trace, report, simulated or typed\n\
         provenance = \"\"\n\
         # Where the artifacts come from, and under which license.\n\
         source = \"\"\n\
         # found, healthy or insufficient\n\
         expected = \"{expected}\"\n\
         {named}\
         # Other answers that are as right.\n\
         also_acceptable = []\n\
         # The same system with the problem fixed: \"{check}/..._fixed\".\n\
         # twin = \"\"\n\
         # Failure mode this case could be mistaken for.\n\
         # look_alike_of = \"\"\n\
         # What the user said, and evidence from when all was well.\n\
         # symptom = \"\"\n\
         # baseline = \"\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_evidence_becomes_a_case() {
        let folder = tempfile::tempdir().unwrap();
        let (cases, evidence) = (folder.path().join("cases"), folder.path().join("evidence"));
        fs::create_dir(&evidence).unwrap();
        assert!(make(&cases, "seats_32", "batch_cap_reached", "scheduling", &evidence).is_err(), "an empty folder");
        fs::write(evidence.join("metrics.prom"), "x 1\n").unwrap();
        let made = make(&cases, "seats_32", "batch_cap_reached", "scheduling", &evidence).unwrap();
        assert_eq!(fs::read_to_string(made.join("artifacts/metrics.prom")).unwrap(), "x 1\n");
        let table: toml::Table = fs::read_to_string(made.join("case.toml")).unwrap().parse().unwrap();
        assert_eq!((table["expected"].as_str(), table["check"].as_str()), (Some("found"), Some("batch_cap_reached")));
        assert!(make(&cases, "seats_32", "batch_cap_reached", "scheduling", &evidence).is_err(), "it exists");
        assert!(make(&cases, "../up", "batch_cap_reached", "scheduling", &evidence).is_err(), "a path as name");
    }
}
