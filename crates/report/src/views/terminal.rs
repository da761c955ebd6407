//! The first screen: what an engineer needs at three in the morning, in that order.
//!
//! Verdict, advice, expectation, what gains nothing, when to undo; where the time went; the path, what else is true, what is
//! unknown, why to trust it, what to run next. Healthy, undecided and layer-only reports have the same order with other
//! lines. What does not fit is in the page and the document; nothing is cut silently.

mod account;
mod advice;
mod devices;
mod notes;
pub(crate) mod screen;
mod verdict;

use analysis::contract::{Report, Status};

use self::screen::Screen;
use crate::phrases;

/// How the text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalOptions {
    /// Columns; what is asked for is held between 40 and 120.
    pub width: usize,
    /// Whether escape sequences for color may be used.
    pub color: bool,
    /// Whether bars are drawn with block characters rather than `#`.
    pub blocks: bool,
}

impl TerminalOptions {
    /// Columns a line may take.
    pub(crate) fn columns(self) -> usize {
        self.width.clamp(40, 120)
    }
}

impl Default for TerminalOptions {
    fn default() -> Self {
        Self { width: 80, color: false, blocks: false }
    }
}

/// A diagnosis as the first screen.
pub fn render(report: &Report, options: TerminalOptions) -> String {
    let mut screen = Screen::new(options);
    verdict::write(&mut screen, report);
    screen.blank();
    match report.verdict.status {
        Status::Localized => {
            advice::write(&mut screen, report);
            if report.verdict.check.is_none() {
                advice::write_what_decides(&mut screen, report);
            }
            if phrases::advice(report).is_none() {
                advice::write_falsifier(&mut screen, report);
            }
        }
        Status::Healthy => advice::write_distance(&mut screen, report),
        Status::InsufficientEvidence => advice::write_what_decides(&mut screen, report),
    }
    screen.blank();
    account::write(&mut screen, report);
    notes::write(&mut screen, report);
    screen.finish()
}
