//! Below the account: the path walked, what else is true, what is unknown, why to trust it, input issues, what to run next.

use analysis::contract::{Report, Role, Status};

use super::screen::{Screen, Style};
use crate::{clean, figures, phrases};

/// Other findings on the screen.
const OTHERS: usize = 3;
/// Characters of a note.
const NOTE_LIMIT: usize = 100;
/// Checks that could not tell, by name.
const UNKNOWNS: usize = 3;

pub(super) fn write(screen: &mut Screen, report: &Report) {
    let steps: Vec<String> = report.path.iter().map(step).collect();
    screen.items("path", steps.iter().map(String::as_str), ". ");
    write_others(screen, report);
    let unknown = unknown(report);
    screen.items("unknown", unknown.iter().map(String::as_str), "; ");
    let trust = phrases::trust(report);
    screen.items("trust", trust.iter().map(String::as_str), "; ");
    write_issues(screen, report);
    if !report.next.is_empty() {
        screen.command("next", &report.next);
    }
}

/// A step in a few words, without its final stop.
fn step(step: &analysis::contract::PathStep) -> String {
    let short = if step.short.is_empty() { format!("{} {}", step.question, step.answer) } else { step.short.clone() };
    clean::short(short.trim_end_matches('.'), phrases::PHRASE_LIMIT)
}

/// Findings beside the cause.
fn write_others(screen: &mut Screen, report: &Report) {
    let cause = phrases::cause(report);
    let healthy = report.verdict.status == Status::Healthy;
    let others: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| !cause.is_some_and(|cause| std::ptr::eq(cause, *finding)) && !phrases::is_candidate(report, finding))
        .filter(|finding| !(healthy && finding.role == Role::Limit))
        // What costs nothing stands in the long forms; on the screen it would only distract from the cause.
        .filter(|finding| cause.is_none() || finding.role != Role::Context || finding.explained.is_some())
        .collect();
    for (at, finding) in others.iter().take(OTHERS).enumerate() {
        let summary = if finding.summary.is_empty() { &finding.check } else { &finding.summary };
        let summary = clean::short(summary.trim_end_matches('.'), phrases::PHRASE_LIMIT);
        let line = match finding.role {
            Role::Context => summary,
            _ => format!("{summary}: {}", phrases::role(finding)),
        };
        screen.labelled(if at == 0 { "also" } else { "" }, &line, Style::Plain);
    }
    if others.len() > OTHERS {
        screen.labelled("", &format!("and {} more findings", others.len() - OTHERS), Style::Faint);
    }
}

/// What could not be established, and the checks that could not tell with the most they could own.
fn unknown(report: &Report) -> Vec<String> {
    let mut items: Vec<String> =
        report.subject.not_established.iter().take(2).map(|item| clean::short(item, phrases::PHRASE_LIMIT)).collect();
    let said_above = phrases::decisive(report).filter(|_| report.verdict.check.is_none() && report.verdict.status != Status::Healthy);
    let unknown: Vec<_> = phrases::unknown_by_size(report).into_iter().filter(|unknown| Some(*unknown) != said_above).collect();
    let material = |share: Option<f64>| share.is_some_and(|share| share >= 0.01);
    let bounded: Vec<_> = unknown.iter().filter(|unknown| unknown.could_own_share.is_some() || unknown.could_own.is_some()).collect();
    let named = bounded.iter().take_while(|unknown| material(unknown.could_own_share)).take(UNKNOWNS).count();
    for unknown in &bounded[..named] {
        let share = unknown.could_own_share.map(figures::share).unwrap_or_default();
        items.push(format!("{}, at most {share}", clean::name(&unknown.check, phrases::NAME_LIMIT)));
    }
    if let Some(next) = bounded.get(named) {
        items.push(rest(bounded.len() - named, named > 0, next.could_own_share));
    }
    match unknown.len() - bounded.len() {
        0 => {}
        1 => items.push(format!("{}, without a bound", clean::name(&unknown[unknown.len() - 1].check, phrases::NAME_LIMIT))),
        unbounded => items.push(format!("{unbounded} checks without a bound")),
    }
    items
}

/// `4 more, under 1 % each`.
fn rest(count: usize, more: bool, largest: Option<f64>) -> String {
    let counted = match (count, more) {
        (_, true) => format!("{count} more"),
        (1, false) => "1 check".to_owned(),
        _ => format!("{count} checks"),
    };
    let bound = match largest {
        None => return counted,
        Some(share) if share < 0.005 => "under 1 %".to_owned(),
        Some(share) => format!("at most {}", figures::share(share)),
    };
    format!("{counted}, {bound}{}", if count > 1 { " each" } else { "" })
}

/// How many issues the input had, and the worst. Notes lose nothing: one is shown in short.
fn write_issues(screen: &mut Screen, report: &Report) {
    let issues = phrases::issues_by_severity(report);
    let Some(worst) = issues.first() else { return };
    let (noun, limit) = if worst.severity == "note" { ("note", NOTE_LIMIT) } else { ("issue", phrases::PHRASE_LIMIT) };
    let counted = match issues.len() {
        1 => format!("1 {noun}"),
        count => format!("{} {noun}s; worst", figures::count(count as u64)),
    };
    let counted = counted.replace("notes; worst", "notes; first");
    let severity = if noun == "note" { String::new() } else { format!(" {}", clean::name(&worst.severity, 12)) };
    let place = match phrases::place(worst) {
        place if place.is_empty() => place,
        place => format!(" in {place}"),
    };
    let sentence = clean::short(worst.sentence.trim_end_matches('.'), limit);
    let times = if worst.count > 1 { format!(" ({} times)", figures::count(worst.count.unsigned_abs())) } else { String::new() };
    let style = if worst.severity == "error" { Style::Doubt } else { Style::Plain };
    screen.labelled("input", &format!("{counted}:{severity}{place}: {sentence}{times}"), style);
}
