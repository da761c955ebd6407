//! What to do: the change with its expectation, the fixes that gain nothing, the limits ahead, or the recording that decides.

use analysis::contract::{Hypothesis, Prediction, Report, Role};

use super::screen::{LABEL, Screen, Style};
use crate::wrap::{self, NO_BREAK};
use crate::{clean, figures, phrases};

/// Changes on the screen besides the first.
const OTHER_CHANGES: usize = 2;
/// Width of the label of an expectation, space included.
const EXPECTED: usize = "throughput  ".len();
/// Cleared checks with their margins on the screen.
const MARGINS: usize = 4;
/// Rows of past predictions on the screen.
const TRACK_RECORDS: usize = 3;
/// Predictions on the screen.
const PREDICTIONS: usize = 6;

/// The advice of a localized report: `do` to `undo if`.
pub(super) fn write(screen: &mut Screen, report: &Report) {
    let Some(first) = phrases::advice(report) else {
        write_limits(screen, report);
        return;
    };
    write_change(screen, "do", first);
    write_expectation(screen, first);
    write_track_record(screen, report);
    for other in phrases::cause(report).iter().flat_map(|cause| &cause.hypotheses).skip(1).take(OTHER_CHANGES) {
        write_change(screen, "or", other);
    }
    if first.throughput.is_empty() {
        write_limits(screen, report);
    }
    write_remedies(screen, report);
    screen.labelled("undo if", &clean::short(&first.undo_if, phrases::PHRASE_LIMIT), Style::Plain);
}

fn write_change(screen: &mut Screen, label: &str, advice: &Hypothesis) {
    let present = match phrases::present(&advice.change) {
        present if present.is_empty() => present,
        present => format!("{NO_BREAK} ({present})"),
    };
    let takes = match phrases::interruption(&advice.change) {
        takes if takes.is_empty() => takes,
        takes => format!("; {takes}"),
    };
    let line = format!("{}{present}{takes}", phrases::change(&advice.change));
    screen.labelled(label, &line, if label == "do" { Style::Strong } else { Style::Plain });
}

/// The predictions in two columns where they fit, and what becomes of the throughput.
fn write_expectation(screen: &mut Screen, advice: &Hypothesis) {
    let shown = &advice.predictions[..advice.predictions.len().min(PREDICTIONS)];
    let room = screen.width() - LABEL;
    let mut lines = two_columns(shown, room).unwrap_or_else(|| one_column(shown, room));
    let throughput = clean::short(&advice.throughput, phrases::PHRASE_LIMIT);
    for (at, line) in wrap::wrap(&throughput, room - EXPECTED).iter().enumerate() {
        lines.push(format!("{:<EXPECTED$}{line}", if at == 0 { "throughput" } else { "" }));
    }
    screen.hang("expect", &lines, Style::Plain);
}

/// How past predictions of the same kind came out, where any was verified.
fn write_track_record(screen: &mut Screen, report: &Report) {
    let counted = |count: u64, word: &str| (count > 0).then(|| format!("{count} {word}"));
    let rows: Vec<String> = report
        .trust
        .track_record
        .iter()
        .take(TRACK_RECORDS)
        .map(|row| {
            let names = [&row.check, &row.engine, &row.engine_version].map(|name| clean::name(name, phrases::NAME_LIMIT));
            let outcomes = [
                counted(row.confirmed, "confirmed"),
                counted(row.refuted, "refuted"),
                counted(row.inconclusive, "inconclusive"),
                counted(row.not_comparable, "not comparable"),
            ];
            let outcomes: Vec<String> = outcomes.into_iter().flatten().collect();
            let inside = if row.with_interval == 0 {
                String::new()
            } else {
                format!("; measured inside the interval {} of {} times", row.inside, row.with_interval)
            };
            format!("{}: {} verified, {}{inside}", names.join(" ").trim_end(), row.verified, outcomes.join(", "))
        })
        .collect();
    for (at, row) in rows.iter().enumerate() {
        screen.labelled(if at == 0 { "so far" } else { "" }, row, Style::Plain);
    }
}

/// Pairs side by side; `None` when they do not fit or there are too few to need it.
fn two_columns(predictions: &[Prediction], room: usize) -> Option<Vec<String>> {
    let left: Vec<&Prediction> = predictions.iter().step_by(2).collect();
    let left_lines = aligned(&left);
    let wide = left_lines.iter().map(|line| clean::columns(line)).max()?;
    let mut lines = Vec::new();
    for (at, line) in left_lines.iter().enumerate() {
        let Some(right) = predictions.get(2 * at + 1) else {
            lines.push(line.clone());
            continue;
        };
        let mut words = phrases::predicted(right);
        let other = phrases::predicted(left[at]).label;
        if let (Some((first, rest)), Some((other_first, _))) = (words.label.split_once(' '), other.split_once(' '))
            && first == other_first
        {
            words.label = rest.to_owned();
        }
        let right = format!("{} {}", words.label, arrow(&words.from, &words.to));
        let pad = wide - clean::columns(line);
        lines.push(format!("{line}{}   {right}", " ".repeat(pad)));
    }
    lines.iter().all(|line| clean::columns(line) <= room).then_some(lines)
}

fn one_column(predictions: &[Prediction], room: usize) -> Vec<String> {
    let lines = aligned(&predictions.iter().collect::<Vec<_>>());
    lines.into_iter().flat_map(|line| if clean::columns(&line) <= room { vec![line] } else { wrap::wrap(&line, room) }).collect()
}

/// `TTFT mean   2.51 s  -> 0.10..0.20 s`, labels and arrows under one another.
fn aligned(predictions: &[&Prediction]) -> Vec<String> {
    let words: Vec<_> = predictions.iter().map(|prediction| phrases::predicted(prediction)).collect();
    let label = words.iter().map(|words| clean::columns(&words.label)).max().unwrap_or(0).max(EXPECTED - 2);
    let from = words.iter().map(|words| clean::columns(&words.from)).max().unwrap_or(0);
    words
        .iter()
        .map(|words| {
            let pad = |text: &str, width: usize| format!("{text}{}", " ".repeat(width.saturating_sub(clean::columns(text))));
            let from = if words.from.is_empty() { String::new() } else { pad(&words.from, from) };
            format!("{}  {}", pad(&words.label, label), arrow(&from, &words.to))
        })
        .collect()
}

fn arrow(from: &str, to: &str) -> String {
    match (from.is_empty(), to.starts_with(|first: char| first.is_ascii_digit() || first == '-')) {
        (true, _) => to.to_owned(),
        (false, true) => format!("{from} -> {to}"),
        (false, false) => format!("{}, {to}", from.trim_end()),
    }
}

/// Which popular fixes gain nothing here, and which would work at a price.
fn write_remedies(screen: &mut Screen, report: &Report) {
    let futile: Vec<String> =
        phrases::remedies(report, "no_gain").iter().map(|remedy| clean::short(&remedy.fix, phrases::NAME_LIMIT)).collect();
    screen.items("no gain", futile.iter().map(String::as_str), ", ");
    let dearer: Vec<String> = phrases::remedies(report, "also_works")
        .iter()
        .map(|remedy| match clean::short(&remedy.price, phrases::NAME_LIMIT) {
            price if price.is_empty() => clean::short(&remedy.fix, phrases::NAME_LIMIT),
            price => format!("{} ({price})", clean::short(&remedy.fix, phrases::NAME_LIMIT)),
        })
        .collect();
    if dearer.is_empty() {
        return;
    }
    let free = phrases::remedies(report, "first_choice").iter().any(|remedy| remedy.price.starts_with("free flag"));
    let works = if dearer.len() == 1 { "works too" } else { "work too" };
    screen.labelled("dearer", &format!("{} {works}{}", dearer.join(", "), if free { "; the flag is free" } else { "" }), Style::Plain);
}

/// The ceilings of this server, lowest first, with the distance from the present rate.
fn write_limits(screen: &mut Screen, report: &Report) {
    let now = phrases::present_rate(report);
    let mut items: Vec<String> = Vec::new();
    if let Some(rate) = now.filter(|_| report.limits.iter().any(|limit| limit.unit == "request/s")) {
        items.push(format!("now {}", figures::quantity(rate, "request/s")));
    }
    for (at, limit) in report.limits.iter().enumerate() {
        let distance = match now {
            Some(rate) if at == 0 && limit.unit == "request/s" => format!(", {} now", figures::quantity(limit.value / rate, "factor")),
            _ => String::new(),
        };
        items.push(format!(
            "{} ({}{distance})",
            figures::quantity(limit.value, &limit.unit),
            clean::short(&limit.what, phrases::NAME_LIMIT)
        ));
    }
    if !report.limits.is_empty() {
        screen.items("limits", items.iter().map(String::as_str), " -> ");
    }
}

/// What would prove the verdict wrong, and who is next.
pub(super) fn write_falsifier(screen: &mut Screen, report: &Report) {
    let falsifier = clean::short(&report.verdict.falsified_by, phrases::PHRASE_LIMIT);
    if falsifier.is_empty() {
        return;
    }
    let next = report.verdict.next_suspect.as_deref().map(|next| format!("; then {}", clean::name(next, phrases::NAME_LIMIT)));
    screen.labelled("unless", &format!("{falsifier}{}", next.unwrap_or_default()), Style::Plain);
}

/// A healthy report: what was looked at, how far the limits are, what comes first when load grows.
pub(super) fn write_distance(screen: &mut Screen, report: &Report) {
    let mut looked = Vec::new();
    if let Some(size) = &report.symptom.size {
        let against = report.symptom.reference.as_ref().map(|reference| {
            format!(
                " against {} ({})",
                figures::quantity(reference.value, &reference.unit),
                clean::name(&reference.from, phrases::NAME_LIMIT)
            )
        });
        let signal = clean::name(&size.signal, phrases::NAME_LIMIT);
        looked.push(format!("{signal} {}{}", figures::quantity(size.value, &size.unit), against.unwrap_or_default()));
    }
    let checks = report.cleared.len() as u64;
    looked.push(format!("{} {} clear", figures::count(checks), if checks == 1 { "check" } else { "checks" }));
    if !report.unknown.is_empty() {
        looked.push(format!("{} cannot tell", figures::count(report.unknown.len() as u64)));
    }
    screen.items("looked", looked.iter().map(String::as_str), "; ");
    for limit in report.findings.iter().filter(|finding| finding.role == Role::Limit).take(2) {
        screen.labelled("bound", &format!("{}: a limit, not a fault", clean::short(&limit.summary, phrases::PHRASE_LIMIT)), Style::Plain);
    }
    write_limits(screen, report);
    let told = report.cleared.iter().filter(|cleared| !cleared.because.is_empty()).take(MARGINS);
    for (at, cleared) in told.enumerate() {
        let because = clean::short(&cleared.because, phrases::PHRASE_LIMIT);
        let line = format!("{}: {because}", clean::name(&cleared.check, phrases::NAME_LIMIT));
        screen.labelled(if at == 0 { "margins" } else { "" }, &line, Style::Plain);
    }
    write_falsifier(screen, report);
}

/// The recording that would decide most, with its command and cost; for a known layer also the candidates in it.
pub(super) fn write_what_decides(screen: &mut Screen, report: &Report) {
    let candidates: Vec<String> = report
        .findings
        .iter()
        .filter(|finding| phrases::is_candidate(report, finding))
        .map(|finding| {
            let share = finding.explained.map(|share| format!(" {}", figures::share(share))).unwrap_or_default();
            format!("{}{share}", clean::name(&finding.check, phrases::NAME_LIMIT))
        })
        .collect();
    screen.items(if candidates.len() == 1 { "likely" } else { "between" }, candidates.iter().map(String::as_str), ", ");
    let Some(decisive) = phrases::decisive(report) else { return };
    let bound = phrases::at_stake(report, decisive);
    let missing: Vec<String> = decisive.missing.iter().take(6).map(|signal| clean::name(signal, phrases::NAME_LIMIT)).collect();
    let missing = if missing.is_empty() { String::new() } else { format!("; needs {}", missing.join(", ")) };
    screen.labelled("decides", &format!("{}: {bound}{missing}", clean::name(&decisive.check, phrases::NAME_LIMIT)), Style::Plain);
    screen.command("record", &decisive.record_with);
    if !decisive.record_cost.is_empty() {
        screen.labelled("costs", &clean::short(&decisive.record_cost, phrases::PHRASE_LIMIT), Style::Plain);
    }
}
