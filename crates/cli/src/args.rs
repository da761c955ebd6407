//! The command line: one variant per verb, options all verbs share.

use clap::{Parser, Subcommand};

use crate::commands::{
    bench, capture, completions, diagnose, explain, export, ledger, load, model, plan, record, round, signals, simulate_engine, tap,
    triage, verify, watch, whatif,
};
use crate::screen::ColorChoice;

/// Tells why LLM serving is slow, and proves it
///
/// Evidence goes in (metrics scrapes, logs, benchmark results, numbers typed by hand, a live server); a verdict comes
/// out: which layer, which failure mode, what to change, and which counter will move by how much.
#[derive(Debug, Parser)]
#[command(name = "inferoscope", version, max_term_width = 100)]
pub(crate) struct Args {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Color the screen; auto: when stdout is a terminal, NO_COLOR is unset and TERM is not dumb
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    pub(crate) color: ColorChoice,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Diagnose(diagnose::Args),
    Capture(capture::Args),
    Verify(verify::Args),
    Whatif(whatif::Args),
    Plan(plan::Args),
    Triage(triage::Args),
    Ledger(ledger::Args),
    Export(export::Args),
    Model(model::Args),
    Record(record::Args),
    Tap(tap::Args),
    Watch(watch::Args),
    Bench(bench::Args),
    Load(Box<load::Args>),
    Loop(Box<round::Args>),
    SimulateEngine(simulate_engine::Args),
    Explain(explain::Args),
    Signals(signals::Args),
    Completions(completions::Args),
}
