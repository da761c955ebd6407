//! One file per verb; here only which one runs.

pub(crate) mod bench;
pub(crate) mod capture;
pub(crate) mod completions;
pub(crate) mod diagnose;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod ledger;
pub(crate) mod load;
pub(crate) mod model;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod round;
pub(crate) mod signals;
pub(crate) mod simulate_engine;
pub(crate) mod tap;
pub(crate) mod triage;
pub(crate) mod verify;
pub(crate) mod watch;
pub(crate) mod whatif;

use crate::args::{Args, Command};
use crate::exit::Exit;
use crate::screen::Screen;

/// Runs the verb the user asked for.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let screen = Screen::of_stdout(args.color);
    match &args.command {
        Command::Diagnose(args) => diagnose::run(args, &screen),
        Command::Capture(args) => capture::run(args),
        Command::Verify(args) => verify::run(args, &screen),
        Command::Whatif(args) => whatif::run(args, &screen),
        Command::Plan(args) => plan::run(args, &screen),
        Command::Triage(args) => triage::run(args, &screen),
        Command::Ledger(args) => ledger::run(args),
        Command::Model(args) => model::run(args),
        Command::Record(args) => record::run(args),
        Command::Tap(args) => tap::run(args),
        Command::Watch(args) => watch::run(args, &screen),
        Command::Bench(args) => bench::run(args),
        Command::Load(args) => load::run(args),
        Command::Loop(args) => round::run(args, &screen),
        Command::SimulateEngine(args) => simulate_engine::run(args),
        Command::Export(args) => export::run(args),
        Command::Explain(args) => explain::run(args, &screen),
        Command::Signals(args) => signals::run(args),
        Command::Completions(args) => completions::run(args),
    }
}
