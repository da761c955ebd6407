//! `inferoscope verify`: did the change do what was predicted?

use std::ffi::OsString;
use std::slice;
use std::time::{SystemTime, UNIX_EPOCH};

use analysis::contract::Verification;
use analysis::verify::NO_HYPOTHESIS;
use analysis::{DiagnoseOptions, track_record};
use anyhow::bail;
use capture::Capture;
use report::views;

use crate::evidence::{self, Pace};
use crate::exit::Exit;
use crate::ledger_file::LedgerArgs;
use crate::out;
use crate::screen::Screen;

/// Hold a prediction against what happened
///
/// Diagnoses BEFORE, takes the predictions of its hypothesis and compares them with AFTER, one by one. The outcome is kept
/// in a ledger on this machine (`inferoscope ledger`), which later predictions are shown beside.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 confirmed, 1 refuted, 3 inconclusive, 4 not comparable, 2 could not run")]
pub(crate) struct Args {
    /// Evidence from before the change: a file, folder, capture or address
    before: OsString,

    /// Evidence from after the change
    after: OsString,

    /// Hypothesis of the BEFORE report to test, or none for a change of your own [default: its first]
    #[arg(long, value_name = "ID")]
    hypothesis: Option<String>,

    /// Print the outcome as one JSON document
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    ledger: LedgerArgs,

    #[command(flatten)]
    pace: Pace,
}

/// Verifies and prints.
pub(crate) fn run(args: &Args, screen: &Screen) -> anyhow::Result<Exit> {
    let before = evidence::read(slice::from_ref(&args.before), args.pace)?;
    if let Some(id) = &args.hypothesis {
        refuse_unknown(id, &before)?;
    }
    let after = evidence::read(slice::from_ref(&args.after), args.pace)?;
    let verification = analysis::verify(&before, &after, args.hypothesis.as_deref());
    let text = if args.json {
        views::json::render_verification(&verification)
    } else {
        views::verify::render(&verification, screen.options(None))
    };
    out::print(&text)?;
    keep(&args.ledger, &before, &after, &verification)?;
    Ok(verification.outcome.into())
}

/// Keeps how the prediction came out, unless no ledger is wanted.
pub(crate) fn keep(ledger: &LedgerArgs, before: &Capture, after: &Capture, verification: &Verification) -> anyhow::Result<()> {
    if ledger.path().is_some()
        && let Some(entry) = track_record::entry(before, after, verification, now_ns())
    {
        ledger.append(&entry)?;
    }
    Ok(())
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// A hypothesis nobody stated cannot be tested; said before AFTER is read.
fn refuse_unknown(id: &str, before: &Capture) -> anyhow::Result<()> {
    let report = analysis::diagnose(before, &DiagnoseOptions::default());
    let known: Vec<&str> = report.findings.iter().flat_map(|finding| &finding.hypotheses).map(|stated| stated.id.as_str()).collect();
    if id == NO_HYPOTHESIS || known.contains(&id) {
        return Ok(());
    }
    let known = if known.is_empty() { "it states none".to_string() } else { format!("it states {}", known.join(", ")) };
    bail!("the report of BEFORE has no hypothesis `{id}`; {known}")
}
