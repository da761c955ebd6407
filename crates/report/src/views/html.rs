//! One self-contained page: the diagnosis with charts, for a browser, a printer or an attachment.
//!
//! Inline CSS and SVG only: no script, no font, no request leaves the page, and its content policy says so. Positions in
//! charts are percentages, so the page reads at 400 px as at 1,200 px. Every string is escaped by [`build::Html`], the only
//! type a page takes.

mod advice;
mod bars;
mod build;
mod curves;
mod details;
mod hero;
mod time;

use analysis::contract::{Report, Status};

use self::build::{Html, PAGE_HEAD, element, page};
pub use self::curves::Curve;
use crate::phrases;

/// True if a file that starts with `head` is a page [`render`] made; its first kilobyte is enough.
pub fn is_page(head: &[u8]) -> bool {
    head.starts_with(PAGE_HEAD.as_bytes())
}

/// A diagnosis as a page. A report holds no time series: `curves` are drawn beside it, in the order given.
pub fn render(report: &Report, curves: &[Curve]) -> String {
    let headline = phrases::headline(report);
    let title = format!("{} {}: inferoscope", headline.word, headline.name);
    let sections = [
        hero::section(report),
        advice::section(report),
        time::section(report),
        time::limits(report),
        advice::remedies(report),
        curves::section(curves, report.window.onset_ns),
        details::path(report),
        details::findings(report),
        details::unknown(report),
        details::cleared(report),
        details::trust(report),
        details::subject(report),
        details::issues(report),
        details::footer(report),
    ];
    let tone = match report.verdict.status {
        Status::Localized => "bad",
        Status::Healthy => "good",
        Status::InsufficientEvidence => "doubt",
    };
    page(&title, &element("main", tone, &Html::join(sections)))
}
