//! A screen of labelled lines: width, wrapping, hanging indent and, if asked, color.
//!
//! Every text passes [`clean`](crate::clean) on its way in; escape sequences are added after that, so the only ones on the
//! screen are ours. Color repeats what the words say and is never needed to read them.

use super::TerminalOptions;
use crate::{clean, wrap};

/// Width of the label column.
pub(crate) const LABEL: usize = 8;

/// How a text stands out where color is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// As the terminal writes.
    Plain,
    /// Bold.
    Strong,
    /// Dim: labels, remarks.
    Faint,
    /// Bold red: a verdict.
    Bad,
    /// Bold yellow: doubt.
    Doubt,
    /// Bold green: healthy, confirmed.
    Good,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "1",
            Self::Faint => "2",
            Self::Bad => "1;31",
            Self::Doubt => "1;33",
            Self::Good => "1;32",
        }
    }
}

/// Lines under construction.
pub(crate) struct Screen {
    options: TerminalOptions,
    lines: Vec<String>,
}

impl Screen {
    pub(crate) fn new(options: TerminalOptions) -> Self {
        Self { options, lines: Vec::new() }
    }

    /// Columns of a line.
    pub(crate) fn width(&self) -> usize {
        self.options.columns()
    }

    /// Whether block characters may be used.
    pub(crate) fn blocks(&self) -> bool {
        self.options.blocks
    }

    /// An empty line, unless the screen is empty or already ends in one.
    pub(crate) fn blank(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(String::new());
        }
    }

    /// One line of pieces laid out by the caller.
    pub(crate) fn row(&mut self, pieces: &[(&str, Style)]) {
        let mut row: String = pieces.iter().map(|(text, style)| self.paint(text, *style)).collect();
        row.truncate(row.trim_end().len());
        self.lines.push(row);
    }

    /// Text over the whole width.
    pub(crate) fn text(&mut self, text: &str, style: Style) {
        for line in wrap::wrap(&clean::line(text), self.width()) {
            let painted = self.paint(&line, style);
            self.lines.push(painted);
        }
    }

    /// A remark under a table, indented.
    pub(crate) fn remark(&mut self, indent: usize, text: &str) {
        for line in wrap::wrap(&clean::line(text), self.width() - indent) {
            self.row(&[(&" ".repeat(indent), Style::Plain), (&line, Style::Faint)]);
        }
    }

    /// A label, and text beside it.
    pub(crate) fn labelled(&mut self, label: &str, text: &str, style: Style) {
        let lines = wrap::wrap(&clean::line(text), self.width() - LABEL);
        self.hang(label, &lines, style);
    }

    /// A label, and items beside it that stay whole.
    pub(crate) fn items<'a>(&mut self, label: &str, items: impl Iterator<Item = &'a str>, separator: &str) {
        let cleaned: Vec<String> = items.map(clean::line).filter(|item| !item.is_empty()).collect();
        let lines = wrap::flow(cleaned.iter().map(String::as_str), separator, self.width() - LABEL);
        self.hang(label, &lines, Style::Plain);
    }

    /// A label, and a command or a sentence about one.
    pub(crate) fn command(&mut self, label: &str, command: &str) {
        let cleaned = clean::line(command);
        let width = self.width() - LABEL;
        let lines = if wrap::is_command(&cleaned) { wrap::command(&cleaned, width) } else { wrap::wrap(&cleaned, width) };
        self.hang(label, &lines, Style::Strong);
    }

    /// A label, and lines laid out by the caller; nothing where there are none.
    pub(crate) fn hang(&mut self, label: &str, lines: &[String], style: Style) {
        for (at, line) in lines.iter().enumerate() {
            let label = format!("{:<LABEL$}", if at == 0 { label } else { "" });
            self.row(&[(&label, Style::Faint), (line, style)]);
        }
    }

    /// The finished text.
    pub(crate) fn finish(mut self) -> String {
        while self.lines.last().is_some_and(String::is_empty) {
            self.lines.pop();
        }
        let text = self.lines.iter().fold(String::new(), |text, line| text + line + "\n");
        // A terminal without block characters may be one without any but ASCII.
        if self.options.blocks { text } else { text.replace('µ', "u") }
    }

    fn paint(&self, text: &str, style: Style) -> String {
        if !self.options.color || style == Style::Plain || text.trim().is_empty() {
            return text.to_owned();
        }
        let bare = text.trim_end();
        format!("\u{1b}[{}m{bare}\u{1b}[0m{}", style.code(), &text[bare.len()..])
    }
}
