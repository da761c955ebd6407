//! The program `inferoscope`: reads the command line, lets the other crates work, writes what they found.
//!
//! Nothing is decided here but where evidence comes from, where answers go and the exit code ([`exit`]).

mod args;
mod atomic_file;
mod commands;
mod curves;
mod destination;
mod evidence;
mod exit;
mod out;
mod progress;
mod quantity;
mod screen;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::Args;

fn main() -> ExitCode {
    let args = Args::parse();
    exit::code_of(commands::run(&args))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        crate::args::Args::command().debug_assert();
    }
}
