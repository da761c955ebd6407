//! `inferoscope ledger`: how past predictions came out.

use std::path::PathBuf;

use analysis::contract::TrackRecord;
use report::clean;
use serde_json::json;

use crate::exit::Exit;
use crate::ledger_file::{self, LedgerArgs};
use crate::out;

/// Show how past predictions came out
///
/// Per failure mode, engine and version: how many predictions were verified, how they came out, and how often the
/// measured value fell inside the predicted interval. `verify` keeps the outcomes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 done, 2 could not run")]
pub(crate) struct Args {
    /// Only predictions of this failure mode
    #[arg(long, value_name = "CHECK")]
    check: Option<String>,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    /// File to read [default: inferoscope/ledger.jsonl in $XDG_DATA_HOME or ~/.local/share]
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
}

/// Prints the counts.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let file = args.ledger.clone().or_else(ledger_file::default_path);
    let ledger = LedgerArgs::named(file.clone()).read()?;
    let rows = ledger.summary(args.check.as_deref());
    let text = if args.json {
        format!("{:#}\n", json!({ "schema": "inferoscope.ledger_summary/1", "rows": rows, "damaged_lines": ledger.damaged }))
    } else if rows.is_empty() {
        let place = file.map_or_else(|| "nowhere".to_string(), |path| path.display().to_string());
        format!("no prediction has been verified yet ({})\n", clean::line(&place))
    } else {
        table(&rows)
    };
    out::print(&text)?;
    Ok(Exit::Done)
}

const HEAD: [&str; 8] = ["check", "engine", "version", "verified", "confirmed", "refuted", "inconclusive", "inside the interval"];

fn table(rows: &[TrackRecord]) -> String {
    let cells: Vec<[String; 8]> = std::iter::once(HEAD.map(str::to_string)).chain(rows.iter().map(cells)).collect();
    let width = |at: usize| cells.iter().map(|row| clean::columns(&row[at])).max().unwrap_or(0);
    let widths: [usize; 8] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &cells {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[at].saturating_sub(clean::columns(cell)));
            // Names from the left, counts to the right.
            let (first, second) = if (3..7).contains(&at) { (pad.as_str(), cell.as_str()) } else { (cell.as_str(), pad.as_str()) };
            line.extend([first, second, "  "]);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let apart: u64 = rows.iter().map(|row| row.not_comparable).sum();
    if apart > 0 {
        text.push_str(&format!("\n{apart} verified with runs that cannot be compared; they count only as verified\n"));
    }
    text
}

fn cells(row: &TrackRecord) -> [String; 8] {
    let name = |text: &str| if text.is_empty() { "-".to_string() } else { clean::name(text, 40) };
    let inside = if row.with_interval == 0 { "-".to_string() } else { format!("{} of {}", row.inside, row.with_interval) };
    let count = |value: u64| value.to_string();
    [
        name(&row.check),
        name(&row.engine),
        name(&row.engine_version),
        count(row.verified),
        count(row.confirmed),
        count(row.refuted),
        count(row.inconclusive),
        inside,
    ]
}
