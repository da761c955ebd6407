//! `inferoscope signals`: the vocabulary, as a table or as JSON.

use capture::signals::{SIGNALS, STATISTICS, Signal};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::out;

/// Print every signal that can be measured, with unit and meaning
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Prints the vocabulary.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let text = if args.json { document() } else { table() };
    out::print(&text)?;
    Ok(Exit::Done)
}

fn document() -> String {
    let row = |signal: &Signal| {
        json!({
            "name": signal.name,
            "unit": signal.unit.as_str(),
            "dimension": signal.dimension.as_str(),
            "kind": signal.kind.as_str(),
            "derived": signal.derived,
            "labels": signal.labels,
            "meaning": signal.meaning,
        })
    };
    let rows: Vec<Value> = SIGNALS.iter().map(row).collect();
    format!("{:#}\n", json!({ "schema": "inferoscope.signals/1", "statistics": STATISTICS, "signals": rows }))
}

fn table() -> String {
    let width = |cell: fn(&Signal) -> &'static str| SIGNALS.iter().map(|signal| cell(signal).len()).max().unwrap_or(0);
    let (name, unit, dimension) = (width(|s| s.name), width(|s| s.unit.as_str()), width(|s| s.dimension.as_str()));
    let mut text = format!("{:name$}  {:unit$}  {:dimension$}  meaning\n", "signal", "unit", "dimension");
    for signal in SIGNALS {
        let (unit_text, dimension_text) = (signal.unit.as_str(), signal.dimension.as_str());
        text.push_str(&format!("{:name$}  {unit_text:unit$}  {dimension_text:dimension$}  {}\n", signal.name, signal.meaning));
    }
    text.push_str(&format!("\nA name may end in a statistic: {}\n", STATISTICS.join(", ")));
    text
}
