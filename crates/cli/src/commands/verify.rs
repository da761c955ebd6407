//! `inferoscope verify`: did the change do what was predicted?

use std::ffi::OsString;
use std::slice;

use analysis::DiagnoseOptions;
use anyhow::bail;
use capture::Capture;
use report::views;

use crate::evidence::{self, Pace};
use crate::exit::Exit;
use crate::out;
use crate::screen::Screen;

/// Hold a prediction against what happened
///
/// Diagnoses BEFORE, takes the predictions of its hypothesis and compares them with AFTER, one by one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 confirmed, 1 refuted, 3 inconclusive, 4 not comparable, 2 could not run")]
pub(crate) struct Args {
    /// Evidence from before the change: a file, folder, capture or address
    before: OsString,

    /// Evidence from after the change
    after: OsString,

    /// Hypothesis of the BEFORE report to test [default: its first]
    #[arg(long, value_name = "ID")]
    hypothesis: Option<String>,

    /// Print the outcome as one JSON document
    #[arg(long)]
    json: bool,

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
    Ok(verification.outcome.into())
}

/// A hypothesis nobody stated cannot be tested; said before AFTER is read.
fn refuse_unknown(id: &str, before: &Capture) -> anyhow::Result<()> {
    let report = analysis::diagnose(before, &DiagnoseOptions::default());
    let known: Vec<&str> = report.findings.iter().flat_map(|finding| &finding.hypotheses).map(|stated| stated.id.as_str()).collect();
    if known.contains(&id) {
        return Ok(());
    }
    let known = if known.is_empty() { "it states none".to_string() } else { format!("it states {}", known.join(", ")) };
    bail!("the report of BEFORE has no hypothesis `{id}`; {known}")
}
