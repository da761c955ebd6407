//! The verdict and the findings as slices over the window they are about: what they say stands in their details.

use std::io;

use analysis::contract::{Finding, Report, Role};

use super::lanes::Scene;
use super::sink::{Detail, Sink, Slice, Text};
use crate::clean;

/// Writes them. The report's window counts where it knows one, else that of what is drawn.
pub(super) fn write<S: Sink>(report: &Report, first_ns: i64, last_ns: i64, scene: &mut Scene<S>) -> io::Result<()> {
    let window = &report.window;
    let (start_ns, end_ns) = if window.end_ns > window.start_ns { (window.start_ns, window.end_ns) } else { (first_ns, last_ns) };
    // A report of figures alone may have another window than the events.
    let overlaps = start_ns <= last_ns && end_ns >= first_ns;
    let (start_ns, end_ns) = if overlaps { (start_ns, end_ns) } else { (first_ns, last_ns) };
    let group = scene.group(None, "inferoscope")?;
    let verdict = scene.row(group, 1, "verdict");
    let sentence = clean::line(&report.verdict.sentence);
    let title = verdict_title(report);
    let details = [
        ("sentence", Detail::Text(Text::once(&sentence))),
        ("confidence", Detail::Number(report.verdict.confidence)),
        ("would be wrong if", Detail::Text(Text::once(&report.verdict.falsified_by))),
        ("next", Detail::Text(Text::once(&report.next))),
    ];
    let slice = Slice { name: Text::once(&title), category: "verdict", details: &details, flow_out: 0, flow_in: 0 };
    scene.slice(verdict, start_ns, end_ns, &slice)?;
    for (at, finding) in report.findings.iter().enumerate() {
        let row = scene.row(group, at as u32 + 2, &format!("finding: {}", finding.check));
        write_finding(finding, |slice| scene.slice(row, start_ns, end_ns, slice))?;
    }
    Ok(())
}

fn verdict_title(report: &Report) -> String {
    let verdict = &report.verdict;
    match (verdict.layer, &verdict.check) {
        (Some(layer), Some(check)) => format!("{}: {check}", layer.as_str()),
        (Some(layer), None) => layer.as_str().to_string(),
        _ => match verdict.status {
            analysis::contract::Status::Healthy => "healthy".to_string(),
            _ => "insufficient evidence".to_string(),
        },
    }
}

fn write_finding(finding: &Finding, put: impl FnOnce(&Slice<'_>) -> io::Result<()>) -> io::Result<()> {
    let role = match finding.role {
        Role::Cause => "cause",
        Role::Contributes => "contributes",
        Role::TrueNotCause => "true, not the cause",
        Role::Limit => "limit",
        Role::Context => "context",
    };
    let summary = clean::line(&finding.summary);
    let evidence: Vec<String> =
        finding.evidence.iter().map(|row| format!("{} {} {} ({})", row.signal, row.value, row.unit, row.from)).collect();
    let changes: Vec<&str> = finding.hypotheses.iter().map(|stated| stated.change.instruction.as_str()).collect();
    let (evidence, changes) = (clean::line(&evidence.join("; ")), clean::line(&changes.join("; ")));
    let mut details = vec![
        ("summary", Detail::Text(Text::once(&summary))),
        ("layer", Detail::Text(Text::once(finding.layer.as_str()))),
        ("role", Detail::Text(Text::once(role))),
        ("evidence", Detail::Text(Text::once(&evidence))),
        ("change", Detail::Text(Text::once(&changes))),
    ];
    details.extend(finding.explained.map(|share| ("explained", Detail::Number(share))));
    put(&Slice { name: Text::once(&finding.check), category: "finding", details: &details, flow_out: 0, flow_in: 0 })
}
