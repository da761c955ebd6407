//! The twin test: what a verdict owns against what the fix really removed. It is the ground truth of `explained`.
//!
//! Blame is not gain: a fix may move the wait elsewhere, so the table is printed, not asserted.

use std::path::Path;

use anyhow::Context as _;

use super::labels::diagnose;
use crate::cases;
use crate::workspace::root;

/// Prints a row per pair of a found case and its fixed twin.
pub(super) fn print(binary: &Path) -> anyhow::Result<()> {
    println!("\n{:<44}{:>8}{:>14}{:>14}", "twin test", "owned", "TTFT removed", "e2e removed");
    let folder = root().join("cases");
    let cases = cases::read(&folder)?;
    for case in cases.iter().filter(|case| case.expected == "found" && !case.twin.is_empty()) {
        let twin = cases.iter().find(|other| other.folder == folder.join(&case.twin));
        let twin = twin.with_context(|| format!("`{}` names the twin `{}`, which is no case", case.folder.display(), case.twin))?;
        let (fault, fix) = (diagnose(binary, &case.artifacts)?, diagnose(binary, &twin.artifacts)?);
        let owned = fault.pointer("/verdict/explained").and_then(serde_json::Value::as_f64);
        let removed = |value: fn(&serde_json::Value) -> Option<f64>| Some(1.0 - value(&fix)? / value(&fault).filter(|s| *s > 0.0)?);
        let name = case.folder.strip_prefix(&folder).unwrap_or(&case.folder).display().to_string();
        println!("{:<44}{:>8}{:>14}{:>14}", name, show(owned), show(removed(first_token_s)), show(removed(whole_s)));
    }
    println!("owned is a share of the excess; removed is 1 - fix / fault of the mean. Equal where the fix repairs and the floor is small.");
    Ok(())
}

fn show(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{share:.2}"))
}

fn whole_s(report: &serde_json::Value) -> Option<f64> {
    report.pointer("/accounts/request_mean_s")?.as_f64()
}

/// Mean time to first token: the whole less decoding.
fn first_token_s(report: &serde_json::Value) -> Option<f64> {
    let parts = report.pointer("/accounts/request")?.as_array()?;
    let decode: f64 = parts.iter().filter(|part| part["part"] == "decode").filter_map(|part| part["mean_s"].as_f64()).sum();
    Some(whole_s(report)? - decode)
}
