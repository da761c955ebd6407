//! Pieces of a Markdown page, and the escaping of what goes into them.

use crate::{clean, phrases};

/// A page under construction.
#[derive(Default)]
pub(crate) struct Page {
    text: String,
    in_list: bool,
}

impl Page {
    pub(crate) fn heading(&mut self, level: usize, title: &str) {
        self.open();
        self.put(&format!("{} {title}\n", "#".repeat(level)));
    }

    /// A paragraph; nothing where it is empty.
    pub(crate) fn paragraph(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.open();
            self.put(&format!("{}\n", text.trim()));
        }
    }

    /// A list item.
    pub(crate) fn item(&mut self, text: &str) {
        self.listed("-", text);
    }

    /// A numbered item.
    pub(crate) fn step(&mut self, number: usize, text: &str) {
        self.listed(&format!("{number}."), text);
    }

    /// A command in a fence of its own.
    pub(crate) fn command(&mut self, command: &str) {
        let command = clean::line(command);
        let fence = if command.contains("```") { "`````" } else { "```" };
        self.open();
        self.put(&format!("{fence}sh\n{command}\n{fence}\n"));
    }

    /// A table; nothing where it has no rows. A column whose name ends in `>` is aligned to the right.
    pub(crate) fn table(&mut self, head: &[&str], rows: Vec<Vec<String>>) {
        if rows.is_empty() {
            return;
        }
        self.open();
        let names: Vec<&str> = head.iter().map(|name| name.trim_end_matches(" >")).collect();
        let rules: Vec<&str> = head.iter().map(|name| if name.ends_with('>') { "--:" } else { "---" }).collect();
        self.put(&format!("| {} |\n|{}|\n", names.join(" | "), rules.join("|")));
        let more = rows.len().saturating_sub(phrases::ROW_LIMIT);
        for row in rows.into_iter().take(phrases::ROW_LIMIT) {
            self.put(&format!("| {} |\n", row.join(" | ")));
        }
        self.paragraph(&phrases::more_rows(more));
    }

    /// A heading with a table; nothing where it has no rows.
    pub(crate) fn section(&mut self, level: usize, title: &str, head: &[&str], rows: Vec<Vec<String>>) {
        if !rows.is_empty() {
            self.heading(level, title);
            self.table(head, rows);
        }
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }

    fn listed(&mut self, mark: &str, text: &str) {
        if !self.in_list {
            self.open();
        }
        self.in_list = true;
        self.put(&format!("{mark} {text}\n"));
    }

    fn put(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// An empty line before a new block.
    fn open(&mut self) {
        self.in_list = false;
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }
}

/// Prose from outside, escaped.
pub(crate) fn text(text: &str) -> String {
    let mut escaped = String::new();
    let cleaned = clean::short(text, phrases::SENTENCE_LIMIT);
    let mut before = ' ';
    for (at, sign) in cleaned.char_indices() {
        let next = cleaned[at + sign.len_utf8()..].chars().next().unwrap_or(' ');
        match sign {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '@' => escaped.push_str("&#64;"),
            '\\' | '`' | '*' | '[' | ']' | '|' | '~' => escaped.extend(['\\', sign]),
            '_' if !(before.is_alphanumeric() && next.is_alphanumeric()) => escaped.push_str("\\_"),
            '#' if at == 0 || next.is_ascii_digit() => escaped.push_str("&#35;"),
            _ => escaped.push(sign),
        }
        before = sign;
    }
    // `2.51 s -> 0.10 s` is ours as often as theirs, and an arrow opens no markup.
    escaped.replace("-&gt;", "->")
}

/// A name or a setting as a code span.
pub(crate) fn code(text: &str) -> String {
    let cleaned = clean::short(text, phrases::PHRASE_LIMIT).replace('`', "'").replace('|', "\\|");
    if cleaned.is_empty() { cleaned } else { format!("`{cleaned}`") }
}
