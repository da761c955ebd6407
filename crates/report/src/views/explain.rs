//! A check's manual page on a terminal.
//!
//! Pages are the doc comments of checks: headings, paragraphs, lists, code and small tables. That much of Markdown is read;
//! anything else is shown as written. Headings stand at the margin and text below them is indented, as in a manual.

use super::terminal::TerminalOptions;
use super::terminal::screen::{Screen, Style};
use crate::{clean, wrap};

/// Columns before text.
const INDENT: usize = 4;

/// Renders a page written in Markdown.
pub fn render(page: &str, options: TerminalOptions) -> String {
    let mut screen = Screen::new(options);
    let mut block = Block::default();
    let mut in_code = false;
    for line in clean::block(page).lines() {
        let bare = line.trim();
        if bare.starts_with("```") {
            block.flush(&mut screen);
            in_code = !in_code;
            screen.blank();
        } else if in_code {
            screen.row(&[(&format!("{:indent$}{}", "", line.trim_end(), indent = INDENT * 2), Style::Plain)]);
        } else if let Some(heading) = heading(bare) {
            block.flush(&mut screen);
            screen.blank();
            screen.text(&inline(heading), Style::Strong);
        } else if bare.is_empty() {
            block.flush(&mut screen);
            screen.blank();
        } else if bare.starts_with('|') {
            if !block.text.is_empty() {
                block.flush(&mut screen);
            }
            block.rows.push(cells(bare));
        } else if let Some((mark, text)) = item(bare) {
            block.flush(&mut screen);
            let depth = line.len() - line.trim_start().len();
            block.start(depth.min(12), mark, text);
        } else {
            if !block.rows.is_empty() {
                block.flush(&mut screen);
            }
            block.text.push(' ');
            block.text.push_str(bare);
        }
    }
    block.flush(&mut screen);
    screen.finish()
}

/// Lines read so far that belong together: a paragraph, a list item or a table.
#[derive(Default)]
struct Block {
    depth: usize,
    mark: String,
    text: String,
    rows: Vec<Vec<String>>,
}

impl Block {
    fn start(&mut self, depth: usize, mark: &str, text: &str) {
        self.depth = depth;
        mark.clone_into(&mut self.mark);
        text.clone_into(&mut self.text);
    }

    fn flush(&mut self, screen: &mut Screen) {
        let block = std::mem::take(self);
        write_table(screen, &block.rows);
        let mark = if block.mark.is_empty() { String::new() } else { format!("{} ", block.mark) };
        let hang = INDENT + block.depth + clean::columns(&mark);
        let lines = wrap::wrap(&clean::line(&inline(&block.text)), screen.width().saturating_sub(hang));
        for (at, line) in lines.iter().enumerate() {
            let lead = if at == 0 { format!("{:indent$}{mark}", "", indent = INDENT + block.depth) } else { " ".repeat(hang) };
            screen.row(&[(&lead, Style::Plain), (line, Style::Plain)]);
        }
    }
}

/// A heading's text.
fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    ((1..=6).contains(&level) && text.starts_with(' ')).then(|| text.trim())
}

/// A list item's mark and text: `-`, `*` and numbers.
fn item(line: &str) -> Option<(&str, &str)> {
    if let Some(text) = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")) {
        return Some(("-", text));
    }
    let (number, text) = line.split_once(". ")?;
    (!number.is_empty() && number.len() <= 3 && number.bytes().all(|byte| byte.is_ascii_digit())).then_some((&line[..=number.len()], text))
}

/// Inline marks removed: bold stars, and links as `text (address)`. Backticks stay, they mark what is typed.
fn inline(text: &str) -> String {
    let text = text.replace("**", "");
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after_open)) = rest.split_once('[') {
        plain.push_str(before);
        let Some((label, after)) = after_open.split_once(']') else {
            plain.push('[');
            rest = after_open;
            continue;
        };
        match after.strip_prefix('(').and_then(|address| address.split_once(')')) {
            Some((address, behind)) => {
                plain.push_str(label);
                if label != address {
                    plain.extend([" (", address, ")"]);
                }
                rest = behind;
            }
            None if label.starts_with('`') && label.ends_with('`') => {
                plain.push_str(label);
                rest = after;
            }
            None => {
                plain.push('[');
                rest = after_open;
            }
        }
    }
    plain.push_str(rest);
    plain
}

fn cells(line: &str) -> Vec<String> {
    line.trim_matches('|').split('|').map(|cell| inline(cell.trim())).collect()
}

/// A table with aligned columns; where it is too wide, row by row with the column's name before each cell.
fn write_table(screen: &mut Screen, rows: &[Vec<String>]) {
    let rows: Vec<&Vec<String>> =
        rows.iter().filter(|row| !row.iter().all(|cell| !cell.is_empty() && cell.bytes().all(|byte| b"-: ".contains(&byte)))).collect();
    let Some(head) = rows.first() else { return };
    let columns = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let widths: Vec<usize> =
        (0..columns).map(|at| rows.iter().filter_map(|row| row.get(at)).map(|cell| clean::columns(cell)).max().unwrap_or(0)).collect();
    if INDENT + widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1) <= screen.width() {
        for (at, row) in rows.iter().enumerate() {
            let padded = |(cell, width): (&String, &usize)| format!("{cell}{}", " ".repeat(width - clean::columns(cell)));
            let line = row.iter().zip(&widths).map(padded).collect::<Vec<_>>().join("  ");
            screen.row(&[("    ", Style::Plain), (&line, if at == 0 { Style::Faint } else { Style::Plain })]);
        }
        return;
    }
    for row in &rows[1..] {
        let named: Vec<String> = row
            .iter()
            .enumerate()
            .filter(|(_, cell)| !cell.is_empty())
            .map(|(at, cell)| match head.get(at).map(String::as_str) {
                None | Some("") => cell.clone(),
                Some(name) => format!("{name}: {cell}"),
            })
            .collect();
        for (at, line) in wrap::wrap(&named.join("; "), screen.width() - INDENT - 2).iter().enumerate() {
            screen.row(&[(if at == 0 { "    - " } else { "      " }, Style::Plain), (line, Style::Plain)]);
        }
    }
}
