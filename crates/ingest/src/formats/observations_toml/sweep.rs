//! `[[run.sweep]]`: a table over one varied thing, one row a point.
//!
//! The varied signal is the first key of the rows when it is something one sets or chooses; text that a row is about
//! (`client.class`) becomes a label of the row's values.

use capture::Point;
use capture::signals::{Dimension, resolve};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Reader, in_order};

/// Signals that name what a row is about, beside loads and settings.
const VARIED: &[&str] = &[
    "client.class",
    "client.run_index",
    "client.elapsed",
    "engine.stage",
    "engine.running",
    "kernel.name",
    "proc.rank",
    "server.prompt_tokens",
    "server.output_tokens",
    "spec.draft_tokens",
];

/// Text signals and the label they become.
const TEXT_LABELS: &[(&str, &str)] = &[("client.class", "class"), ("kernel.name", "kernel")];

/// The label that text in a sweep row becomes; a setting that is text and varies is the row's `mode`.
fn text_label(name: &str) -> Option<&'static str> {
    let known = TEXT_LABELS.iter().find(|(signal, _)| *signal == name).map(|(_, label)| *label);
    known.or_else(|| name.starts_with("config.").then_some("mode"))
}

fn is_varied(written: &str) -> bool {
    let name = written.split('{').next().unwrap_or_default();
    let dimension = resolve(name).map(|resolved| resolved.signal.dimension);
    VARIED.contains(&name) || matches!(dimension, Some(Dimension::Workload | Dimension::Setting))
}

impl Reader<'_, '_> {
    pub(super) fn sweep(&mut self, run: &DeTable<'_>) {
        let Some(sweep) = run.get("sweep") else { return };
        let rows: Vec<&DeTable<'_>> = match sweep.get_ref() {
            DeValue::Array(list) => list.iter().filter_map(|row| row.get_ref().as_table()).collect(),
            DeValue::Table(row) => vec![row],
            other => {
                let found = other.type_str();
                return self.error("wrong_type", sweep.span().start, format!("expected rows `[[run.sweep]]`, found {found}"));
            }
        };
        let varied = rows.iter().find_map(|row| first_key(row)).filter(|key| is_varied(key));
        if let Some(varied) = &varied {
            let name = self.builder.intern(varied.split('{').next().unwrap_or_default());
            if let Some(last) = self.builder.capture.tables.runs.varied_signal.last_mut() {
                *last = name;
            }
        }
        for (point_idx, row) in (0..).zip(rows) {
            self.sweep_row(point_idx, row, varied.as_deref());
        }
    }

    fn sweep_row(&mut self, point_idx: i32, row: &DeTable<'_>, varied: Option<&str>) {
        let own = varied.and_then(|varied| row.get(varied));
        // A row without a number for the varied signal is known by its position.
        let varied_value =
            own.and_then(|value| Self::number_value(varied.unwrap_or_default(), value.get_ref())).unwrap_or(f64::from(point_idx));
        self.builder.capture.tables.points.push(Point { run_idx: self.run_idx, point_idx, varied_value, start_ns: None, end_ns: None });
        let mut labels = Vec::new();
        let mut values: Vec<(&str, usize, &Spanned<DeValue<'_>>)> = Vec::new();
        for (key, value) in in_order(row) {
            let written: &str = key.get_ref();
            match Self::text_value(written, value.get_ref()) {
                Some((name, text)) => match text_label(&name) {
                    Some(label) => labels.push((label.to_string(), text)),
                    None => {
                        self.warn("text_in_sweep", key.span().start, format!("`{name}` is text and varies over the sweep; it is left out"));
                    }
                },
                None => values.push((written, key.span().start, value)),
            }
        }
        for (written, at, value) in values {
            self.signal(written, at, value, point_idx, &labels);
        }
        self.check_pairs();
    }
}

fn first_key(row: &DeTable<'_>) -> Option<String> {
    in_order(row).first().map(|(key, _)| key.get_ref().to_string())
}
