//! The parts below the account: path, findings, limits, unknown, cleared, trust, subject, issues.

use analysis::contract::{Finding, Report};

use super::write::{Page, code, text};
use crate::{figures, phrases};

pub(super) fn write_path(page: &mut Page, report: &Report) {
    if report.path.is_empty() {
        return;
    }
    page.heading(2, "Path");
    for (at, step) in report.path.iter().enumerate() {
        let because = if step.because.is_empty() { String::new() } else { format!(": {}", text(&step.because)) };
        let out = step.eliminates.map(|layer| format!(" (rules out {})", layer.as_str())).unwrap_or_default();
        page.step(at + 1, &format!("{} **{}**{because}{out}", text(&step.question), text(&step.answer)));
    }
}

pub(super) fn write_findings(page: &mut Page, report: &Report) {
    if report.findings.is_empty() {
        return;
    }
    page.heading(2, "Findings");
    for finding in &report.findings {
        page.heading(3, &format!("{}, {}: {}", code(&finding.check), finding.layer.as_str(), phrases::role(finding)));
        page.paragraph(&format!("{} {}", phrases::sentence(&text(&finding.summary)), standing(finding)));
        let rows = finding
            .evidence
            .iter()
            .map(|evidence| vec![code(&evidence.signal), text(&figures::quantity(evidence.value, &evidence.unit)), text(&evidence.from)]);
        page.table(&["evidence", "value >", "from"], rows.collect());
    }
}

/// What it costs, how sure its share is, on what the check was ever validated.
fn standing(finding: &Finding) -> String {
    let cost = finding.cost.as_ref().map(|cost| format!("Costs {}.", text(&figures::quantity(cost.value, &cost.unit))));
    let range = finding.explained_range.map(|range| format!("Owns {}.", figures::share_range(range)));
    let provenance = (!finding.provenance.is_empty()).then(|| format!("Validated on: {}.", text(&finding.provenance)));
    [cost, range, provenance].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

pub(super) fn write_limits(page: &mut Page, report: &Report) {
    let rows =
        report.limits.iter().map(|limit| vec![text(&limit.what), text(&figures::quantity(limit.value, &limit.unit)), text(&limit.from)]);
    page.section(2, "Limits of this server", &["what binds", "at >", "from"], rows.collect());
    if let Some(rate) = phrases::present_rate(report).filter(|_| !report.limits.is_empty()) {
        page.paragraph(&format!("Now: {}.", figures::quantity(rate, "request/s")));
    }
}

pub(super) fn write_unknown(page: &mut Page, report: &Report) {
    if report.unknown.is_empty() && report.subject.not_established.is_empty() {
        return;
    }
    page.heading(2, "Unknown");
    for item in &report.subject.not_established {
        page.item(&text(item));
    }
    for recording in phrases::recordings(report) {
        for unknown in recording.decides {
            let bound = match phrases::could_own(unknown) {
                bound if bound.is_empty() => "nothing bounds what it owns".to_owned(),
                bound => format!("could own {bound}"),
            };
            let missing = if unknown.missing.is_empty() {
                String::new()
            } else {
                format!("; needs {}", unknown.missing.iter().map(|signal| code(signal)).collect::<Vec<_>>().join(", "))
            };
            page.item(&format!("{}: {}{missing}", code(&unknown.check), text(&bound)));
        }
        if !recording.command.is_empty() {
            let cost = if recording.cost.is_empty() { String::new() } else { format!(" (costs {})", text(recording.cost)) };
            page.paragraph(&format!("Recorded with{cost}:"));
            page.command(recording.command);
        }
    }
}

pub(super) fn write_cleared(page: &mut Page, report: &Report) {
    let rows = report.cleared.iter().map(|cleared| {
        let margin = cleared.margin.iter().map(|(name, value)| format!("{} {}", text(name), figures::number(*value)));
        vec![code(&cleared.check), text(&cleared.because), margin.collect::<Vec<_>>().join(", ")]
    });
    page.section(2, "Looked at and clear", &["check", "because", "margin"], rows.collect());
}

pub(super) fn write_trust(page: &mut Page, report: &Report) {
    let mut items = phrases::trust(report);
    if !report.verdict.confidence_because.is_empty() {
        items.push(format!("confidence {}: {}", phrases::confidence(report.verdict.confidence), report.verdict.confidence_because));
    }
    if items.is_empty() {
        return;
    }
    page.heading(2, "Trust");
    for item in items {
        page.item(&text(&item));
    }
}

pub(super) fn write_subject(page: &mut Page, report: &Report) {
    let subject = &report.subject;
    let rows = subject.configuration.iter().map(|setting| vec![code(&setting.key), code(&setting.value), text(&setting.from)]);
    page.section(2, "Configuration", &["setting", "value", "from"], rows.collect());
    let rows = subject.sources.iter().map(|source| {
        let damaged = if source.damaged { "in part" } else { "whole" };
        vec![code(&source.name), text(&source.format), figures::count(source.rows), damaged.to_owned()]
    });
    page.section(2, "Sources", &["source", "read as", "rows >", "read"], rows.collect());
}

pub(super) fn write_issues(page: &mut Page, report: &Report) {
    let rows = phrases::issues_by_severity(report).into_iter().map(|issue| {
        vec![
            text(&issue.severity),
            code(&issue.code),
            text(&phrases::place(issue)),
            figures::quantity(issue.count as f64, "count"),
            text(&issue.sentence),
        ]
    });
    page.section(2, "Issues of the input", &["severity", "code", "place", "count >", "what it means"], rows.collect());
    if !report.next.is_empty() {
        page.heading(2, "Next");
        page.command(&report.next);
    }
}
