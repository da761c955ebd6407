//! Traces in CSV: the header says which format it is and where its columns are.

use super::super::time_text::{datetime_ns, decimal_ns};
use super::{Fault, Format, Record, RecordReader};

/// Where one format keeps what.
struct Columns {
    format: Format,
    arrival: &'static str,
    clock: Clock,
    prompt: &'static str,
    output: &'static str,
    session: Option<&'static str>,
}

#[derive(Clone, Copy)]
enum Clock {
    Date,
    Seconds,
    Nanoseconds,
}

const KNOWN: [Columns; 3] = [
    Columns {
        format: Format::Azure,
        arrival: "TIMESTAMP",
        clock: Clock::Date,
        prompt: "ContextTokens",
        output: "GeneratedTokens",
        session: None,
    },
    Columns {
        format: Format::BurstGpt,
        arrival: "Timestamp",
        clock: Clock::Seconds,
        prompt: "Request tokens",
        output: "Response tokens",
        session: Some("Session ID"),
    },
    Columns {
        format: Format::Lengths,
        arrival: "arrival_time_ns",
        clock: Clock::Nanoseconds,
        prompt: "input_toks",
        output: "output_toks",
        session: None,
    },
];

/// Reads records by the places that the header gave.
pub(super) struct CsvLines {
    columns: &'static Columns,
    arrival: usize,
    prompt: usize,
    output: usize,
    session: Option<usize>,
}

/// The format whose columns are all in this header.
pub(super) fn open(header: &str) -> Option<(Format, CsvLines)> {
    static COLUMNS: [Columns; 3] = KNOWN;
    let names: Vec<&str> = header.split(',').map(|name| name.trim().trim_matches('"')).collect();
    let place = |wanted: &str| names.iter().position(|name| *name == wanted);
    COLUMNS.iter().find_map(|columns| {
        let (arrival, prompt, output) = (place(columns.arrival)?, place(columns.prompt)?, place(columns.output)?);
        Some((columns.format, CsvLines { columns, arrival, prompt, output, session: columns.session.and_then(place) }))
    })
}

impl RecordReader for CsvLines {
    fn record(&mut self, line: &str, record: &mut Record) -> Result<(), Fault> {
        let cell = |at: usize| line.split(',').nth(at).map(|cell| cell.trim().trim_matches('"'));
        let tokens = |at: usize, field| {
            let text = cell(at).unwrap_or_default();
            // Some tools write whole numbers as floats.
            let whole = text.strip_suffix(".0").unwrap_or(text);
            whole.parse::<i64>().map_err(|_| (field, "a whole number of tokens", text.to_string()))
        };
        let time = cell(self.arrival).unwrap_or_default();
        let (parsed, expected) = match self.columns.clock {
            Clock::Date => (datetime_ns(time), "a date and time like `2023-11-16 18:17:03.97`"),
            Clock::Seconds => (decimal_ns(time, 1_000_000_000), "seconds"),
            Clock::Nanoseconds => (decimal_ns(time, 1), "nanoseconds"),
        };
        record.arrival_ns = parsed.ok_or_else(|| (self.columns.arrival, expected, time.to_string()))?;
        record.prompt_tokens = tokens(self.prompt, self.columns.prompt)?;
        record.output_tokens = tokens(self.output, self.columns.output)?;
        record.session = self.session.and_then(cell).and_then(|text| text.parse().ok()).unwrap_or(0);
        record.blocks.clear();
        Ok(())
    }
}
