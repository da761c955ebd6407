//! `inferoscope model`: the model of the hardware held against measured runs.

use std::path::PathBuf;

use anyhow::{Context as _, bail};

use crate::exit::Exit;
use crate::out;

/// Hold the predictions against measured runs
///
/// Reads a table of measured runs (one row per model, device, engine, batch and lengths, with TTFT and TPOT) and scores the
/// predictions on it: each model is predicted by coefficients that were fitted without it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 done, 2 could not run")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Print errors, signs and coverage by kind of model, and every row that was left out with its reason
    Evaluate {
        /// CSV with the columns of aiconfigurator's published runs
        file: PathBuf,
    },
}

/// Scores and prints.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let Verb::Evaluate { file } = &args.verb;
    let bytes = std::fs::metadata(file).with_context(|| format!("could not read `{}`", file.display()))?.len();
    if bytes > model::evaluation::MOST_BYTES as u64 {
        bail!("expected at most {} bytes in `{}`, found {bytes}", model::evaluation::MOST_BYTES, file.display());
    }
    let text = std::fs::read_to_string(file).with_context(|| format!("could not read `{}`", file.display()))?;
    let runs = model::evaluation::read(&text).with_context(|| format!("could not read `{}`", file.display()))?;
    out::print(&model::evaluation::text(&model::evaluation::evaluate(&runs)))?;
    Ok(Exit::Done)
}
