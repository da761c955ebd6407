//! A plan as Markdown: complete, in the order of the screen.

use analysis::plan::document::{Action, Plan, Predicted, Ranged};

use super::{load, needs, subject, tables, word};
use crate::views::markdown::write::{Page, text};
use crate::{figures, phrases};

/// A plan as GitHub Markdown.
pub fn render(plan: &Plan) -> String {
    let mut page = Page::default();
    page.heading(1, &format!("{}: {}", word(plan.verdict.status).0, text(&subject(plan))));
    page.paragraph(&phrases::sentence(&text(&plan.verdict.sentence)));
    page.paragraph(&text(&load(plan)));
    write_predictions(&mut page, plan);
    write_actions(&mut page, "Do first", &plan.first);
    write_actions(&mut page, "Do not", &plan.not);
    if let Some(smallest) = &plan.smallest {
        page.paragraph(&text(&needs(plan, smallest.gpu_count, &smallest.layout)));
    }
    for (at, step) in plan.steps.iter().enumerate() {
        page.heading(2, &format!("{}. {}: {}", at + 1, text(&step.step), text(&step.question)));
        page.paragraph(&phrases::sentence(&text(&step.answer)));
        let rows = step.figures.iter().map(|figure| vec![text(&figure.name), tables::value(figure)]).collect();
        page.table(&["figure", "value >"], rows);
        for table in &step.tables {
            page.paragraph(&format!("**{}**", text(&table.title)));
            let head: Vec<String> = table
                .columns
                .iter()
                .map(|column| if column.unit == "text" { text(&column.name) } else { format!("{} >", text(&column.name)) })
                .collect();
            let head: Vec<&str> = head.iter().map(String::as_str).collect();
            let row = |row: &Vec<_>| row.iter().zip(&table.columns).map(|(cell, column)| text(&tables::cell(cell, column))).collect();
            page.table(&head, table.rows.iter().map(row).collect());
        }
        step.notes.iter().for_each(|note| page.paragraph(&text(note)));
    }
    page.heading(2, "Assumed, simulated, read");
    page.item(&format!("model: {}", text(&plan.subject.model_source)));
    plan.assumptions.iter().for_each(|assumption| page.item(&text(assumption)));
    page.finish()
}

/// Before and after side by side.
fn write_predictions(page: &mut Page, plan: &Plan) {
    let both: Vec<(&str, &Predicted)> = [("as given", plan.now.as_ref()), ("after", plan.after.as_ref())]
        .into_iter()
        .filter_map(|(name, predicted)| predicted.map(|predicted| (name, predicted)))
        .collect();
    let ranged = |value: Option<Ranged>, unit: &str| {
        value.map_or_else(
            || "no number".to_owned(),
            |value| format!("{} ({})", figures::quantity(value.mid, unit), figures::range([value.low, value.high], unit)),
        )
    };
    let rows = both.iter().map(|(name, p)| {
        vec![
            format!("{name}: {}", text(&p.layout)),
            ranged(Some(p.tpot_s), "s"),
            ranged(p.ttft_s, "s"),
            ranged(Some(p.capacity_per_s), "request/s"),
            ranged(p.goodput_per_s, "request/s"),
            figures::quantity(p.requests_fit, "request"),
            p.cost_per_million_tokens.map_or_else(String::new, |cost| figures::number(cost.mid)),
            p.tier.clone(),
        ]
    });
    let head = ["deployment", "TPOT >", "TTFT mean >", "could serve >", "goodput >", "fit >", "USD per million tokens >", "rests on"];
    page.section(2, "Predicted", &head, rows.collect());
}

fn write_actions(page: &mut Page, title: &str, actions: &[Action]) {
    if actions.is_empty() {
        return;
    }
    page.heading(2, title);
    for (at, action) in actions.iter().enumerate() {
        let flag = action.flag.as_ref().map_or_else(String::new, |flag| format!(" ({})", text(flag)));
        let risk = action.risk.as_ref().map_or_else(String::new, |risk| format!(" Risk: {}.", text(risk)));
        let moved =
            action.after.as_ref().map_or_else(String::new, |after| format!(" {}.", super::moved(action.before.as_ref(), after).join("; ")));
        page.step(at + 1, &format!("**{}**{flag}: {}.{}{risk}", text(&action.what), text(&action.why), text(&moved)));
    }
}
