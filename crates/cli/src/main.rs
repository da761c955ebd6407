//! The program `inferoscope`: reads the command line, lets the other crates work, writes what they found.
//!
//! Nothing is decided here but where evidence comes from, where answers go and the exit code ([`exit`]).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod args;
mod atomic_file;
mod commands;
mod curves;
mod destination;
mod evidence;
mod exit;
mod ledger_file;
mod out;
mod progress;
mod quantity;
mod screen;
mod stored;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::Args;

fn main() -> ExitCode {
    let args = Args::try_parse().unwrap_or_else(|refusal| refuse(&refusal));
    exit::code_of(commands::run(&args))
}

/// Tells what is wrong with the command line, or prints the help that was asked for. A refusal repeats arguments, so it is
/// made again from clean ones.
fn refuse(refusal: &clap::Error) -> ! {
    let clean = |arg: OsString| {
        let text = arg.to_string_lossy();
        let is_clean = report::clean::block(&text) == text && !text.contains('\n');
        if is_clean { arg } else { report::clean::line(&text).into() }
    };
    match Args::try_parse_from(std::env::args_os().map(clean)) {
        Err(repeated) => repeated.exit(),
        Ok(_) => clap::Error::raw(refusal.kind(), "expected arguments without control characters\n").exit(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        crate::args::Args::command().debug_assert();
    }
}
