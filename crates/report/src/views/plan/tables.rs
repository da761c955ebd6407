//! The six steps with all their figures and tables, on a terminal.

use analysis::plan::document::{Cell, Column, Figure, Plan, Table};

use super::{clean, figures};
use crate::views::terminal::screen::{Screen, Style};
use crate::{phrases, wrap};

/// Space between columns.
const GAP: &str = "  ";

pub(super) fn write(screen: &mut Screen, plan: &Plan) {
    for (at, step) in plan.steps.iter().enumerate() {
        screen.blank();
        screen.text(&format!("{}. {}: {}", at + 1, step.step, step.question), Style::Strong);
        screen.text(&phrases::sentence(&clean::short(&step.answer, phrases::SENTENCE_LIMIT)), Style::Plain);
        for figure in &step.figures {
            screen.remark(2, &format!("{}: {}", clean::short(&figure.name, phrases::PHRASE_LIMIT), value(figure)));
        }
        for table in &step.tables {
            screen.blank();
            write_table(screen, table);
        }
        for note in &step.notes {
            screen.remark(2, &clean::short(note, phrases::SENTENCE_LIMIT));
        }
    }
    screen.blank();
    screen.text("Not to do", Style::Strong);
    for action in &plan.not {
        let text = format!("{}: {}", clean::short(&action.what, phrases::PHRASE_LIMIT), clean::short(&action.why, phrases::PHRASE_LIMIT));
        screen.remark(2, &text);
        if let Some(after) = &action.after {
            screen.remark(6, &super::moved(action.before.as_ref(), after).join("; "));
        }
    }
    screen.blank();
    screen.text("Assumed, simulated, read", Style::Strong);
    screen.remark(2, &format!("model: {}", clean::short(&plan.subject.model_source, phrases::PHRASE_LIMIT)));
    for assumption in &plan.assumptions {
        screen.remark(2, &clean::short(assumption, phrases::SENTENCE_LIMIT));
    }
}

/// A figure with its range.
pub(super) fn value(figure: &Figure) -> String {
    let mid = figures::quantity(figure.value, &figure.unit);
    match figure.range {
        Some(range) if range[0] != range[1] => format!("{mid} ({})", figures::range(range, &figure.unit)),
        _ => mid,
    }
}

/// A cell in its column's unit.
pub(super) fn cell(cell: &Cell, column: &Column) -> String {
    match cell {
        Cell::Number(value) => figures::quantity(*value, &column.unit),
        Cell::Text(text) => clean::short(text, phrases::PHRASE_LIMIT),
        Cell::Empty(()) => String::new(),
    }
}

/// Rows under their heads where they fit; else each row as its first cell and the rest beside their names.
fn write_table(screen: &mut Screen, table: &Table) {
    screen.remark(2, &table.title);
    let rows: Vec<Vec<String>> =
        table.rows.iter().map(|row| row.iter().zip(&table.columns).map(|(one, column)| cell(one, column)).collect()).collect();
    let head: Vec<String> = table.columns.iter().map(|column| clean::line(&column.name)).collect();
    let width_of = |at: usize| {
        rows.iter().filter_map(|row: &Vec<String>| row.get(at)).chain(head.get(at)).map(|text| clean::columns(text)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width_of).collect();
    let all: usize = widths.iter().sum::<usize>() + GAP.len() * (widths.len() + 1);
    if all > screen.width() {
        write_rows(screen, &head, &rows);
        return;
    }
    for (at, row) in std::iter::once(&head).chain(&rows).enumerate() {
        let mut line = GAP.to_owned();
        for ((text, width), column) in row.iter().zip(&widths).zip(&table.columns) {
            let space = " ".repeat(width - clean::columns(text));
            line.push_str(&if column.unit == "text" { format!("{text}{space}") } else { format!("{space}{text}") });
            line.push_str(GAP);
        }
        screen.row(&[(line.trim_end(), if at == 0 { Style::Faint } else { Style::Plain })]);
    }
}

fn write_rows(screen: &mut Screen, head: &[String], rows: &[Vec<String>]) {
    for row in rows {
        let Some((first, rest)) = row.split_first() else { continue };
        let cells: Vec<String> = rest
            .iter()
            .zip(&head[1..])
            .filter(|(text, _)| !text.is_empty())
            .map(|(text, name)| if name.starts_with("what") { text.clone() } else { format!("{name} {text}") })
            .collect();
        for line in wrap::wrap(first, screen.width() - 4) {
            screen.row(&[(&format!("    {line}"), Style::Plain)]);
        }
        for line in wrap::flow(cells.iter().map(String::as_str), "; ", screen.width() - 8) {
            screen.row(&[(&format!("        {line}"), Style::Plain)]);
        }
    }
}
