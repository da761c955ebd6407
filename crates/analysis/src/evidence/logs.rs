//! What the logs of one arm say apart from gauges and settings: kinds of lines, how often, and the fields of the first few.

use std::collections::BTreeMap;

use capture::Capture;

/// Lines of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// Lines seen.
    pub count: usize,
    /// Fields (`key=value`, separated by spaces) of the first few different ones.
    pub fields: Vec<String>,
    /// How often each field that is true or false stood in them: `graph=false`.
    pub flags: BTreeMap<String, usize>,
    /// Line of the first.
    pub line: u32,
}

/// More different lines of a kind say nothing new.
const KEPT: usize = 8;

/// Reads the kinds of lines of one arm; the order of the table decides nothing.
pub(super) fn read(capture: &Capture, run_idx: u32) -> BTreeMap<String, Logged> {
    let mut logged: BTreeMap<String, Logged> = BTreeMap::new();
    let mut rows: Vec<(&str, u32, &str)> = Vec::new();
    for row in capture.tables.logs.rows().filter(|row| row.run_idx == run_idx) {
        rows.push((capture.text(row.kind), row.line, capture.text(row.fields)));
    }
    rows.sort_unstable();
    for (kind, line, fields) in rows {
        if !logged.contains_key(kind) {
            logged.insert(kind.to_string(), Logged { line, ..Logged::default() });
        }
        let Some(known) = logged.get_mut(kind) else { continue };
        known.count += 1;
        for flag in fields.split(' ').filter(|field| field.ends_with("=true") || field.ends_with("=false")) {
            *known.flags.entry(flag.to_string()).or_default() += 1;
        }
        if known.fields.len() < KEPT && !known.fields.iter().any(|other| other == fields) {
            known.fields.push(fields.to_string());
        }
    }
    logged
}
