//! The reliability table: how often a verdict of each printed confidence is right, and what the others would have said of
//! it with its own report or recording left out.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::labels::{Labelled, diagnose};

/// One verdict that names something.
struct Verdict {
    group: String,
    confidence: f64,
    right: bool,
}

/// Prints the table over all labelled evidence.
pub(super) fn print(binary: &Path, labelled: &[Labelled]) -> anyhow::Result<()> {
    let mut verdicts = Vec::new();
    for case in labelled {
        let report = diagnose(binary, &case.artifacts)?;
        verdicts.extend(judge(case, &report));
    }
    println!("\nreliability: {} labelled folders, {} verdicts that name a layer or call it healthy", labelled.len(), verdicts.len());
    println!("{:>10}{:>10}{:>8}{:>10}{:>26}", "printed", "verdicts", "right", "rate", "rate without its group");
    let mut bins: BTreeMap<u32, Vec<&Verdict>> = BTreeMap::new();
    for verdict in &verdicts {
        bins.entry((verdict.confidence * 100.0).round() as u32).or_default().push(verdict);
    }
    for (bin, members) in bins.iter().rev() {
        let right = members.iter().filter(|verdict| verdict.right).count();
        let (lowest, highest) = left_out(members);
        println!(
            "{:>10.2}{:>10}{:>8}{:>10.2}{:>26}",
            f64::from(*bin) / 100.0,
            members.len(),
            right,
            right as f64 / members.len() as f64,
            format!("{lowest:.2} to {highest:.2}")
        );
    }
    println!("nothing is printed above 0.75 before a bin holds 50 verdicts of which 46 are right");
    Ok(())
}

/// A verdict that says something, and whether it is right; none for "not enough evidence".
fn judge(case: &Labelled, report: &Value) -> Option<Verdict> {
    let text = |key: &str| report.pointer(&format!("/verdict/{key}")).and_then(Value::as_str).unwrap_or_default();
    let answer = match text("status") {
        "localized" => text("check"),
        "healthy" => "healthy",
        _ => return None,
    };
    let is_limit = |check: &String| {
        let rows = report.get("findings").and_then(Value::as_array).into_iter().flatten();
        rows.into_iter().any(|row| row["role"] == "limit" && row["check"] == check.as_str())
    };
    let right = match case.expected.as_str() {
        "found" if answer == "healthy" => case.checks.iter().any(is_limit),
        "found" => text("layer") == case.layer || case.checks.iter().any(|check| check == answer),
        "healthy" => answer == "healthy" || case.checks.iter().any(|check| check == answer),
        _ => false,
    };
    let confidence = report.pointer("/verdict/confidence").and_then(Value::as_f64)?;
    Some(Verdict { group: case.group.clone(), confidence, right })
}

/// Lowest and highest rate of a bin with one group left out.
fn left_out(members: &[&Verdict]) -> (f64, f64) {
    let rate = |without: &str| {
        let rest: Vec<_> = members.iter().filter(|verdict| verdict.group != without).collect();
        let right = rest.iter().filter(|verdict| verdict.right).count();
        if rest.is_empty() { f64::NAN } else { right as f64 / rest.len() as f64 }
    };
    let rates: Vec<f64> = members.iter().map(|verdict| rate(&verdict.group)).filter(|rate| rate.is_finite()).collect();
    (rates.iter().copied().fold(f64::INFINITY, f64::min), rates.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}
