//! `verify` on every recorded pair: fault to fix, fix to fault, each against itself, and healthy runs against each other.

use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use super::labels::Labelled;
use crate::workspace::{program, root};

/// Prints an outcome per pair and the count of healthy pairs that were taken for a change.
pub(super) fn print(binary: &Path, labelled: &[Labelled]) -> anyhow::Result<()> {
    println!("\n{:<16}{:>16}{:>16}{:>16}", "recorded pair", "fault to fix", "fix to fault", "with itself");
    for fault in labelled.iter().filter(|case| case.pair_role == "fault") {
        let Some(fix) = labelled.iter().find(|case| case.name == fault.pair) else { continue };
        let outcome = |before: &Labelled, after: &Labelled| verify(binary, before, after);
        let name = format!("{} {}", fault.name, fix.name);
        println!("{name:<16}{:>16}{:>16}{:>16}", outcome(fault, fix)?, outcome(fix, fault)?, outcome(fault, fault)?);
    }
    let healthy: Vec<&Labelled> = labelled.iter().filter(|case| case.expected == "healthy" && !case.pair.is_empty()).collect();
    let (mut pairs, mut confirmed) = (0, Vec::new());
    for (at, before) in healthy.iter().enumerate() {
        for after in healthy.iter().skip(at + 1).take(4) {
            pairs += 1;
            if verify(binary, before, after)? == "confirmed" {
                confirmed.push(format!("{} {}", before.name, after.name));
            }
        }
    }
    println!("{pairs} pairs of healthy runs: {} confirmed {}", confirmed.len(), confirmed.join(", "));
    Ok(())
}

fn verify(binary: &Path, before: &Labelled, after: &Labelled) -> anyhow::Result<String> {
    let path = |case: &Labelled| case.artifacts.to_str().map(str::to_string).context("a path of evidence is not UTF-8");
    let binary = binary.to_str().context("the program's path is not UTF-8")?;
    let (before, after) = (path(before)?, path(after)?);
    let output = program(binary, &["verify", "--json", &before, &after]).current_dir(root()).output()?;
    let report: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("`verify {before} {after}` gave no report"))?;
    Ok(report["outcome"].as_str().unwrap_or("none").to_string())
}
