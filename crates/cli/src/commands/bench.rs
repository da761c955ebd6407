//! `inferoscope bench`: what the host at hand can do, and which findings that confirms or refutes.

mod answers;
mod keep;

use std::path::{Path, PathBuf};
use std::time::Duration;

use analysis::contract::{Outcome, REPORT_SCHEMA, Report};
use analysis::probes::{self, Judgment, Probe};
use anyhow::{Context as _, bail};
use capture::labels;
use clap::builder::PossibleValuesParser;
use live::bench::{self, Bench, OPERATORS, Plan, Shapes, Stage};

use crate::exit::Exit;
use crate::progress::Progress;
use crate::{destination, out, quantity};

/// Measure what this host can do, one operator at a time
///
/// Measures memory, matrix products at a model's shapes, attention over a cache, launches, the host link and all-reduce: on
/// the first NVIDIA GPU where this program was built with the feature `cuda`, else on the CPU. Each figure is the median of
/// repetitions with its quartiles, beside the data sheet's.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 measured; with --confirm: 0 confirmed, 1 a finding is refuted, 3 nothing decided, \
                        4 another device; 2 could not run")]
pub(crate) struct Args {
    /// Model whose matrices and cache are used: a name, or its config.json
    #[arg(long, value_name = "MODEL", default_value = "Llama-3.1-8B")]
    model: String,

    /// Sequences that decode together
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,

    /// Tokens that each of them holds
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    context: u32,

    /// Tokens of a prompt
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    prompt: u32,

    /// Time for all operators together
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = quantity::duration)]
    seconds: Duration,

    /// Operators to run [default: all]
    #[arg(long, value_name = "OPERATOR", value_delimiter = ',', value_parser = PossibleValuesParser::new(OPERATORS))]
    only: Vec<String>,

    /// Measure the CPU even where there is a GPU
    #[arg(long)]
    cpu: bool,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    /// Keep the figures in this capture, which is made or added to; diagnose leans on them
    #[arg(long, value_name = "X.capture")]
    capture: Option<PathBuf>,

    /// A report of this host, written by diagnose --json: say which of its findings the figures confirm or refute
    #[arg(long, value_name = "REPORT.json")]
    confirm: Option<PathBuf>,
}

/// Measures and prints.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let report = args.confirm.as_deref().map(read_report).transpose()?;
    if let Some(path) = &args.capture {
        destination::check_capture(path, &args.confirm.iter().map(|path| path.clone().into_os_string()).collect::<Vec<_>>())?;
    }
    let plan = Plan {
        shapes: shapes(&args.model)?,
        batch: args.batch,
        context: args.context,
        prompt: args.prompt,
        budget: args.seconds,
        only: args.only.clone(),
        on_cpu: args.cpu,
    };
    let progress = Progress::new();
    let show = |stage: Stage| progress.show(&format!("measuring {}", stage.operator), stage.done as u64, stage.total as u64);
    let measured = bench::run(&plan, &show);
    drop(progress);
    let judged = report.as_ref().map(|report| judge(report, &measured));
    out::print(&if args.json {
        answers::document(&measured, &plan, judged.as_ref())
    } else {
        answers::table(&measured, &plan, judged.as_ref())
    })?;
    if let Some(path) = &args.capture {
        keep::write(&measured, path)?;
    }
    Ok(judged.map_or(Exit::Done, |judged| exit_of(&judged)))
}

/// What the figures say about a report.
enum Judged {
    /// The report is about another device.
    OtherDevice(String),
    /// Finding by finding.
    Findings(Vec<Judgment>),
}

fn judge(report: &Report, measured: &Bench) -> Judged {
    if let Some(why) = keep::other_device(&report.subject.gpu, measured) {
        return Judged::OtherDevice(why);
    }
    let probe = |row: &bench::Measured| {
        let pairs: Vec<(&str, &str)> = row.labels.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let labels = labels::canonical(&pairs);
        let signal = if labels.is_empty() { row.signal.to_string() } else { format!("{}{{{labels}}}", row.signal) };
        Probe { signal, value: row.value.median, data_sheet: row.data_sheet }
    };
    Judged::Findings(probes::judge(report, &measured.rows.iter().map(probe).collect::<Vec<_>>()))
}

fn exit_of(judged: &Judged) -> Exit {
    let Judged::Findings(judgments) = judged else { return Exit::NotComparable };
    let has = |outcome: Outcome| judgments.iter().any(|judgment| judgment.outcome == outcome);
    if has(Outcome::Refuted) {
        Exit::Refuted
    } else if has(Outcome::Confirmed) {
        Exit::Confirmed
    } else {
        Exit::Inconclusive
    }
}

fn read_report(path: &Path) -> anyhow::Result<Report> {
    let bytes = std::fs::read(path).with_context(|| format!("could not read the report `{}`", path.display()))?;
    let report: Report = serde_json::from_slice(&bytes)
        .with_context(|| format!("expected a report written by diagnose --json in `{}`, found something else", path.display()))?;
    if report.schema != REPORT_SCHEMA {
        bail!("expected a report of schema `{REPORT_SCHEMA}`, found `{}` in `{}`", report.schema, path.display());
    }
    Ok(report)
}

/// A name of the table, or a `config.json`.
fn shapes(text: &str) -> anyhow::Result<Shapes> {
    let path = Path::new(text);
    if path.is_file() {
        let config = std::fs::read_to_string(path).with_context(|| format!("could not read `{}`", path.display()))?;
        let name = path.parent().and_then(Path::file_name).unwrap_or(path.as_os_str()).to_string_lossy();
        return Shapes::from_config(&name, &config).map_err(|why| anyhow::anyhow!("`{}` is no model's config.json: {why}", path.display()));
    }
    match model::models::find(text) {
        Some(model) => Ok(Shapes::from(model)),
        None => bail!("no model of the table is called `{text}`; name another, or its config.json"),
    }
}
