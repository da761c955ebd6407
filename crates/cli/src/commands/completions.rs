//! `inferoscope completions`: what a shell needs to complete the command line.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::exit::Exit;
use crate::out;

/// Print shell completions
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shell to complete for
    shell: Shell,
}

/// Prints the completion script.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::args::Args::command(), "inferoscope", &mut script);
    out::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
