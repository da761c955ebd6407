//! The verdict line, the sentence, and what must be known before believing them.

use analysis::contract::{Report, Status};

use super::screen::{Screen, Style};
use crate::{clean, phrases};

pub(super) fn write(screen: &mut Screen, report: &Report) {
    let headline = phrases::headline(report);
    let style = match report.verdict.status {
        Status::Localized => Style::Bad,
        Status::Healthy => Style::Good,
        Status::InsufficientEvidence => Style::Doubt,
    };
    let head = clean::columns(&headline.word) + 2 + clean::columns(&headline.name);
    if head + 3 + clean::columns(&headline.claim) <= screen.width() {
        screen.row(&[
            (&headline.word, style),
            ("  ", Style::Plain),
            (&headline.name, Style::Strong),
            ("   ", Style::Plain),
            (&headline.claim, Style::Plain),
        ]);
    } else {
        if head <= screen.width() {
            screen.row(&[(&headline.word, style), ("  ", Style::Plain), (&headline.name, Style::Strong)]);
        } else {
            screen.text(&headline.word, style);
            screen.text(&headline.name, Style::Strong);
        }
        screen.text(&headline.claim, Style::Plain);
    }
    let sentence = phrases::sentence(&clean::short(&report.verdict.sentence, phrases::SENTENCE_LIMIT));
    screen.text(&format!("{sentence} {}", phrases::since(report)), Style::Plain);
    for caveat in phrases::caveats(report) {
        screen.text(&caveat, Style::Doubt);
    }
}
