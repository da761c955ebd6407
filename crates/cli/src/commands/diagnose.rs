//! `inferoscope diagnose`: evidence in, verdict out.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use analysis::{DiagnoseOptions, diagnose, symptom};
use clap::builder::PossibleValuesParser;
use report::views;

use crate::evidence::{self, Pace};
use crate::exit::Exit;
use crate::ledger_file::LedgerArgs;
use crate::screen::{MAX_WIDTH, MIN_WIDTH, Screen};
use crate::stored::StoredArgs;
use crate::{atomic_file, curves, destination, out, quantity};

/// Say what makes serving slow
///
/// Reads the evidence, accounts for the time, and prints the verdict first. Inputs are recognized by content and mixed
/// freely.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 healthy, 1 localized, 2 could not run, 3 evidence insufficient")]
pub(crate) struct Args {
    /// Files, folders, captures, or http:// addresses (/metrics is added where there is no path)
    #[arg(required_unless_present = "prometheus", value_name = "INPUT")]
    inputs: Vec<OsString>,

    /// What is slow, when you know it
    #[arg(long, value_name = "SYMPTOM", value_parser = symptoms())]
    symptom: Option<String>,

    /// What counts as slow: ttft=500ms,tpot.p95=50ms; a mean, or a percentile
    #[arg(long, value_name = "LIMITS", value_parser = limits)]
    slo: Option<Limits>,

    /// Evidence of the same server when it was well
    #[arg(long, value_name = "INPUT", num_args = 1..)]
    baseline: Vec<OsString>,

    /// Print the report as one JSON document
    #[arg(long, conflicts_with = "markdown")]
    json: bool,

    /// Print the report as Markdown
    #[arg(long)]
    markdown: bool,

    /// Also write the report as one HTML file; replaces only such a report, not inside an input
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Columns of the screen [default: 80, or the terminal's where it is narrower]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(MIN_WIDTH as i64..=MAX_WIDTH as i64))]
    width: Option<u16>,

    /// Exit with 0 whatever the verdict; 2 stays for what could not run
    #[arg(long)]
    exit_zero: bool,

    #[command(flatten)]
    ledger: LedgerArgs,

    #[command(flatten)]
    pace: Pace,

    #[command(flatten)]
    stored: StoredArgs,
}

/// Symptoms a user can state, the absence of one among them.
fn symptoms() -> PossibleValuesParser {
    PossibleValuesParser::new(symptom::IDS)
}

/// `--slo`, read.
#[derive(Clone, Debug, Default)]
struct Limits(BTreeMap<String, f64>);

fn limits(text: &str) -> Result<Limits, String> {
    quantity::limits(text).map(Limits)
}

/// Diagnoses and prints.
pub(crate) fn run(args: &Args, screen: &Screen) -> anyhow::Result<Exit> {
    let check_page = |path: &Path| destination::check_page(path, args.inputs.iter().chain(&args.baseline));
    args.html.as_deref().map_or(Ok(()), check_page)?;
    let capture = evidence::read_with(&args.inputs, args.pace, &args.stored)?;
    let baseline = if args.baseline.is_empty() { None } else { Some(evidence::read(&args.baseline, args.pace)?) };
    let slo = args.slo.clone().unwrap_or_default().0;
    let options = DiagnoseOptions { symptom: args.symptom.clone(), slo, baseline: baseline.as_ref() };
    let mut report = diagnose(&capture, &options);
    report.trust.track_record = args.ledger.read()?.beside(&report);
    let text = if args.json {
        views::json::render(&report)
    } else if args.markdown {
        views::markdown::render(&report)
    } else {
        views::terminal::render(&report, screen.options(args.width.map(usize::from)))
    };
    out::print(&text)?;
    if let Some(path) = &args.html {
        check_page(path)?; // a window is long enough for something else to appear there
        atomic_file::write(path, views::html::render(&report, &curves::of(&capture)).as_bytes())?;
    }
    Ok(if args.exit_zero { Exit::Done } else { report.verdict.status.into() })
}
