//! A prediction as text: figure by figure, then what binds before and after, what it rests on and what was refused.

use analysis::whatif::{Predicted, Range, WhatIf};

use super::terminal::TerminalOptions;
use super::terminal::screen::{Screen, Style};
use crate::{clean, figures, phrases};

/// Space between columns.
const GAP: &str = "  ";

/// A prediction on a terminal.
pub fn render(answer: &WhatIf, options: TerminalOptions) -> String {
    let mut screen = Screen::new(options);
    for change in &answer.changes {
        let title = format!("{} {} -> {}", clean::name(&change.key, 40), clean::name(&change.from, 40), clean::name(&change.to, 40));
        screen.row(&[
            ("WHAT IF", Style::Strong),
            (GAP, Style::Plain),
            (&title, Style::Strong),
            (&format!("   ({})", change.from_source), Style::Faint),
        ]);
    }
    let moved = if answer.binding_before == answer.binding_after {
        format!("limited by {}, before and after", answer.binding_before)
    } else {
        format!("limited by {} before, by {} after", answer.binding_before, answer.binding_after)
    };
    screen.text(&moved, if answer.saturated { Style::Bad } else { Style::Plain });
    if let Some((before, after)) = answer.ceiling_before.zip(answer.ceiling_after) {
        let rate = |range: Range| figures::quantity(range.mid, "request/s");
        let span = figures::range([after.low, after.high], "request/s");
        screen.text(&format!("serves at most {} before, {} ({span}) after", rate(before), rate(after)), Style::Plain);
    }
    screen.blank();
    write_figures(&mut screen, answer);
    screen.blank();
    let shown = |(name, ratio): &(String, f64)| format!("{name} as {ratio:.2} of the measured");
    let fidelity: Vec<String> = answer.fidelity.iter().map(shown).collect();
    screen.items(
        "basis",
        [format!("simulation of {} requests, prediction by {}", answer.requests, answer.tier)].iter().map(String::as_str),
        "; ",
    );
    screen.items("repeats", fidelity.iter().map(String::as_str), ", ");
    for (title, lines) in [("read", &answer.measured), ("assumed", &answer.assumed), ("mind", &answer.warnings)] {
        let lines: Vec<String> = lines.iter().map(|line| clean::short(line, phrases::SENTENCE_LIMIT)).collect();
        screen.items(title, lines.iter().map(String::as_str), "; ");
    }
    screen.finish()
}

fn label(name: &str) -> String {
    match name.split_once('.') {
        Some(("throughput", what)) => format!("{what} throughput"),
        Some((metric, statistic)) => format!("{} {statistic}", if metric == "e2e" { "E2E".to_owned() } else { metric.to_uppercase() }),
        None => name.to_owned(),
    }
}

fn cells(figure: &Predicted) -> [String; 4] {
    let quantity = |value: f64| figures::quantity(value, &figure.unit);
    let before = figure.measured.map_or_else(|| format!("{} (simulated)", quantity(figure.simulated)), quantity);
    let span = |range: Range| figures::range([range.low, range.high], &figure.unit);
    let after = figure.value.map_or_else(|| "refused".to_owned(), |value| format!("{} ({})", quantity(value.mid), span(value)));
    let ratio = figure.ratio.map_or_else(String::new, |ratio| format!("x {:.2} ({:.2} to {:.2})", ratio.mid, ratio.low, ratio.high));
    [label(&figure.name), before, after, ratio]
}

fn write_figures(screen: &mut Screen, answer: &WhatIf) {
    const HEAD: [&str; 4] = ["", "now", "then, nine times out of ten", "ratio"];
    let rows: Vec<([String; 4], &Predicted)> = answer.metrics.iter().map(|figure| (cells(figure), figure)).collect();
    let widths: [usize; 4] =
        std::array::from_fn(|at| rows.iter().map(|(cells, _)| clean::columns(&cells[at])).chain([HEAD[at].len()]).max().unwrap_or(0));
    let line = |cells: &[String; 4]| -> String {
        let padded = |at: usize| format!("{}{}", cells[at], " ".repeat(widths[at].saturating_sub(clean::columns(&cells[at]))));
        (0..4).map(padded).collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    };
    screen.row(&[(&line(&HEAD.map(str::to_owned)), Style::Faint)]);
    for (cells, figure) in &rows {
        let style = match figure.ratio {
            Some(ratio) if better(figure, ratio.high, ratio.low) => Style::Good,
            Some(ratio) if better(figure, 2.0 - ratio.low, 2.0 - ratio.high) => Style::Bad,
            _ => Style::Plain,
        };
        screen.row(&[(&line(cells), style)]);
        if let Some(why) = &figure.refused {
            screen.remark(4, &clean::short(why, phrases::SENTENCE_LIMIT));
        }
    }
}

/// True when the whole range lies on the good side: below 1 for times, above for throughput.
fn better(figure: &Predicted, high: f64, low: f64) -> bool {
    if figure.unit == "s" { high < 1.0 } else { low > 1.0 }
}
