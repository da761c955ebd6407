//! A verification as text: the outcome first, then prediction by prediction, then what was changed and compared.

use analysis::contract::{DeviceMovement, MovedPart, Outcome, PredictionOutcome, Verification};

use super::terminal::TerminalOptions;
use super::terminal::screen::{Screen, Style};
use crate::{clean, figures, phrases};

/// Space between columns of the table.
const GAP: &str = "  ";

/// A verification on a terminal.
pub fn render(verification: &Verification, options: TerminalOptions) -> String {
    let mut screen = Screen::new(options);
    write_verdict(&mut screen, verification);
    screen.blank();
    write_predictions(&mut screen, &verification.predictions);
    screen.blank();
    write_devices(&mut screen, &verification.devices);
    let changed: Vec<String> = verification.changed.iter().map(changed).collect();
    screen.items("changed", changed.iter().map(String::as_str), "; ");
    let compared: Vec<String> = verification.comparability.iter().map(|item| clean::short(item, phrases::PHRASE_LIMIT)).collect();
    screen.items("checked", compared.iter().map(String::as_str), "; ");
    screen.finish()
}

/// Parts of a unit on the screen.
const PARTS: usize = 4;

/// What moved on each device per unit of work.
fn write_devices(screen: &mut Screen, devices: &[DeviceMovement]) {
    for device in devices {
        let [before, after] = device.mean_s;
        let growth = if before > 0.0 { format!(" ({:+.1} %)", 100.0 * (after / before - 1.0)) } else { String::new() };
        let title = format!(
            "device {}, per unit of work ({}): {} -> {}{growth}",
            clean::name(&device.device, 20),
            clean::short(&device.unit, phrases::NAME_LIMIT),
            figures::seconds(before),
            figures::seconds(after)
        );
        screen.text(&title, Style::Plain);
        let mut rows: Vec<&MovedPart> = device.rows.iter().filter(|row| row.before_s != row.after_s).collect();
        rows.sort_by(|a, b| (b.after_s - b.before_s).abs().total_cmp(&(a.after_s - a.before_s).abs()));
        for row in rows.into_iter().take(PARTS) {
            let what = clean::short(&row.what, phrases::NAME_LIMIT);
            screen.remark(2, &format!("{what}: {} -> {}", figures::seconds(row.before_s), figures::seconds(row.after_s)));
        }
    }
    if !devices.is_empty() {
        screen.blank();
    }
}

/// The word for an outcome.
pub(crate) fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Confirmed => "confirmed",
        Outcome::Refuted => "refuted",
        Outcome::Inconclusive => "inconclusive",
        Outcome::NotComparable => "not comparable",
    }
}

fn style(outcome: Outcome) -> Style {
    match outcome {
        Outcome::Confirmed => Style::Good,
        Outcome::Refuted => Style::Bad,
        Outcome::Inconclusive | Outcome::NotComparable => Style::Doubt,
    }
}

fn write_verdict(screen: &mut Screen, verification: &Verification) {
    let confirmed = verification.predictions.iter().filter(|row| row.outcome == Outcome::Confirmed).count();
    let counted = match verification.predictions.len() {
        0 => "no prediction to test".to_owned(),
        1 => format!("{confirmed} of 1 prediction confirmed"),
        all => format!("{confirmed} of {all} predictions confirmed"),
    };
    let outcome = word(verification.outcome).to_uppercase();
    let hypothesis = match verification.hypothesis.as_str() {
        "" | "none" => "no hypothesis".to_owned(),
        hypothesis => format!("hypothesis {}", clean::name(hypothesis, 20)),
    };
    screen.row(&[
        (&outcome, style(verification.outcome)),
        (GAP, Style::Plain),
        (&hypothesis, Style::Strong),
        (&format!("   {counted}"), Style::Plain),
    ]);
    screen.text(&phrases::sentence(&clean::short(&verification.why, phrases::SENTENCE_LIMIT)), Style::Plain);
}

/// One prediction in cells.
struct Row {
    cells: [String; 6],
    outcome: Outcome,
    why: String,
}

fn row(predicted: &PredictionOutcome) -> Row {
    let prediction = &predicted.prediction;
    let words = phrases::predicted(prediction);
    // Before and after in one unit and precision: the after side is written as an interval without width.
    let measured = figures::movement(predicted.before, predicted.after.map(|after| [after, after]), &prediction.unit);
    let part = match phrases::part(prediction) {
        "" => String::new(),
        part => format!(" ({part})"),
    };
    Row {
        cells: [
            clean::name(&words.label, 28),
            measured.from.unwrap_or_else(|| "-".to_owned()),
            measured.to.unwrap_or_else(|| "-".to_owned()),
            words.to,
            predicted.ratio_interval.map_or_else(|| "-".to_owned(), figures::ratio_range),
            format!("{}{part}", word(predicted.outcome)),
        ],
        outcome: predicted.outcome,
        why: phrases::sentence(&clean::short(&predicted.why, phrases::PHRASE_LIMIT)),
    }
}

/// The table; one paragraph per prediction where it does not fit.
fn write_predictions(screen: &mut Screen, predictions: &[PredictionOutcome]) {
    const HEAD: [&str; 6] = ["prediction", "before", "after", "predicted", "after/before", "outcome"];
    let rows: Vec<Row> = predictions.iter().map(row).collect();
    if rows.is_empty() {
        return;
    }
    let width_of = |at: usize| rows.iter().map(|row| clean::columns(&row.cells[at])).chain([HEAD[at].len()]).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width_of);
    let fits = widths.iter().sum::<usize>() + GAP.len() * 5 <= screen.width();
    if fits {
        screen.row(&[(&aligned(&HEAD.map(str::to_owned), &widths), Style::Faint), (HEAD[5], Style::Faint)]);
    }
    for row in &rows {
        if fits {
            screen.row(&[(&aligned(&row.cells, &widths), Style::Plain), (&row.cells[5], style(row.outcome))]);
        } else {
            let [label, before, after, to, ratio, outcome] = &row.cells;
            screen.text(&format!("{label}: {before} -> {after}, predicted {to}, after/before {ratio}: {outcome}"), Style::Plain);
        }
        if row.outcome != Outcome::Confirmed && !row.why.is_empty() {
            screen.remark(4, &row.why);
        }
    }
}

/// The first five cells: names and predictions from the left, measured figures to the right.
fn aligned(cells: &[String; 6], widths: &[usize; 6]) -> String {
    let mut line = String::new();
    for (at, cell) in cells.iter().enumerate().take(5) {
        let pad = " ".repeat(widths[at].saturating_sub(clean::columns(cell)));
        let (first, second) = if matches!(at, 0 | 3) { (cell, &pad) } else { (&pad, cell) };
        line.extend([first, second, GAP]);
    }
    line
}

fn changed(setting: &analysis::contract::ChangedSetting) -> String {
    let value = |text: &str| if text.is_empty() { "unset".to_owned() } else { clean::name(text, phrases::NAME_LIMIT) };
    format!("{} {} -> {}", clean::name(&setting.key, phrases::NAME_LIMIT), value(&setting.before), value(&setting.after))
}
