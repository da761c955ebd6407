//! `inferoscope triage`: questions in, verdict out, for people who have no files.
//!
//! The questions and their order are `analysis::triage`'s; each answer becomes typed evidence, read by the ordinary
//! importer and judged by the ordinary diagnosis.

mod answers_file;
mod dialog;

use std::path::{Path, PathBuf};

use analysis::contract::Report;
use analysis::triage::{Arm, Triage, is_settled, recording};
use analysis::{DiagnoseOptions, diagnose};
use anyhow::bail;
use clap::builder::PossibleValuesParser;
use report::{clean, views};

use crate::exit::Exit;
use crate::screen::Screen;
use crate::{atomic_file, out};

/// Ask for what the verdict needs, step by step
///
/// Follows the decision path of a symptom: each question says which command obtains the answer, and after each answer the
/// diagnosis decides whether something is settled. `?` explains a question, `-` means not known, `back` goes back,
/// `done` ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 healthy, 1 localized, 2 could not run, 3 evidence insufficient")]
pub(crate) struct Args {
    /// What is slow; asked for when not given
    #[arg(long, value_name = "SYMPTOM", value_parser = symptoms())]
    symptom: Option<String>,

    /// Take the answers from a TOML file, `question = answer`, and ask nothing
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,

    /// Also write the answers as an observations file, which diagnose takes; replaces only such a file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print the report as one JSON document, without the dialog
    #[arg(long, requires = "answers")]
    json: bool,
}

fn symptoms() -> PossibleValuesParser {
    PossibleValuesParser::new(analysis::triage::ORDERS.iter().map(|order| order.symptom))
}

/// Asks, and prints the verdict.
pub(crate) fn run(args: &Args, screen: &Screen) -> anyhow::Result<Exit> {
    args.output.as_deref().map_or(Ok(()), check_output)?;
    let ended = match &args.answers {
        Some(path) => answers_file::walk(path, args.symptom.as_deref())?,
        None => dialog::walk(args.symptom.as_deref())?,
    };
    let Some(triage) = ended.triage else { return Ok(Exit::Insufficient) };
    if let Some(path) = &args.output {
        check_output(path)?;
        atomic_file::write(path, triage.observations().as_bytes())?;
    }
    let report = judge(&triage);
    let text = if args.json {
        views::json::render(&report)
    } else {
        let told = views::terminal::render(&report, screen.options(None));
        format!("{}{told}{}", ended.told, next_recording(&report, args.output.as_deref()))
    };
    out::print(&text)?;
    Ok(report.verdict.status.into())
}

/// How asking ended.
struct Ended {
    /// The answers; `None` when not even the symptom was said.
    triage: Option<Triage>,
    /// What to say before the verdict.
    told: String,
}

/// What the answers so far amount to: the run as it is now, against the one before where there are answers about it.
fn judge(triage: &Triage) -> Report {
    let typed = |text: String| ingest::read_bytes("observations.toml", text.as_bytes(), &ingest::Options::default());
    let now = triage.observations_of(Arm::Now).map(typed).unwrap_or_default();
    let before = triage.observations_of(Arm::Before).map(typed);
    diagnose(&now, &DiagnoseOptions { baseline: before.as_ref(), ..DiagnoseOptions::default() })
}

/// Where nothing is settled, the one recording that would decide most.
fn next_recording(report: &Report, output: Option<&Path>) -> String {
    let mut text = String::new();
    if !is_settled(report)
        && let Some((question, command)) = recording(report)
    {
        text.push_str(&format!("\nWhat would decide most: {}\n  {}\n", clean::line(&question), clean::line(&command)));
    }
    if let Some(path) = output {
        text.push_str(&format!("\nanswers written to {}\n", clean::line(&path.display().to_string())));
    }
    text
}

/// What every file of ours begins with.
const FIRST_LINE: &str = "schema = \"inferoscope.observations/1\"";

/// Refuses to write over anything but observations.
fn check_output(path: &Path) -> anyhow::Result<()> {
    match std::fs::read(path) {
        Ok(bytes) if bytes.is_empty() || bytes.starts_with(FIRST_LINE.as_bytes()) => Ok(()),
        Ok(_) => bail!("`{}` exists and does not begin as observations do, so it is not overwritten", path.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(anyhow::Error::new(error).context(format!("could not look at `{}`", path.display()))),
    }
}
