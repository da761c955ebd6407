//! The list of views. One more view is one file below and one line here.

pub mod explain;
pub mod html;
pub mod json;
pub mod markdown;
pub mod metrics;
pub mod plan;
pub mod round;
pub mod terminal;
pub mod verify;
pub mod whatif;

use analysis::contract::Report;

use self::html::Curve;
use self::terminal::TerminalOptions;

/// What the views of a diagnosis take besides the report itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct ViewOptions<'a> {
    /// For text on a terminal.
    pub terminal: TerminalOptions,
    /// Time series for pages; a report holds none.
    pub curves: &'a [Curve],
}

/// One way to show a diagnosis.
#[derive(Clone, Copy)]
pub struct View {
    /// The word a user types.
    pub id: &'static str,
    /// What it is, one line.
    pub summary: &'static str,
    /// Ending of a file that holds it, without the dot.
    pub extension: &'static str,
    /// Renders it.
    pub render: fn(&Report, &ViewOptions<'_>) -> String,
}

/// All views of a diagnosis.
pub const VIEWS: &[View] = &[
    View {
        id: "terminal",
        summary: "the first screen: verdict, advice, where the time went",
        extension: "txt",
        render: |report, options| terminal::render(report, options.terminal),
    },
    View { id: "json", summary: "the whole document, for tools", extension: "json", render: |report, _| json::render(report) },
    View { id: "markdown", summary: "a text to paste into an issue", extension: "md", render: |report, _| markdown::render(report) },
    View {
        id: "html",
        summary: "one self-contained page with charts",
        extension: "html",
        render: |report, options| html::render(report, options.curves),
    },
];

/// The view with this id.
pub fn find(id: &str) -> Option<&'static View> {
    VIEWS.iter().find(|view| view.id == id)
}
