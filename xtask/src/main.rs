//! The project's own tool: `cargo xtask <verb>`. Runs the tests, generates pages, keeps the house tidy, measures.
//!
//! It installs nothing and needs nothing but cargo, git and, for the score, python3.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a tool for people at a terminal
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bench;
mod case;
mod cases;
#[cfg(test)]
mod edges;
mod fuzz;
mod generate;
#[cfg(test)]
mod licenses;
mod test;
mod tidy;
#[cfg(test)]
mod vocabulary;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <verb>

  test                                    everything that must hold before a change is merged
  gen [--check]                           write the generated pages, or say which are stale
  tidy                                    hold the sources against the style guide
  bench                                   measure against the budgets
  bench traces                            read large profiler captures, beside the peers that are installed
  bench load                              load clients on a server with known timing, beside the peers that are installed
  fuzz [--seconds N] [TARGET ...]         every fuzz target for a minute, with cargo-fuzz
  case new NAME --check CHECK --from DIR  make a case out of a folder of evidence
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        ["test"] => test::run(),
        ["gen"] => generate::write(),
        ["gen", "--check"] => generate::check(),
        ["tidy"] => tidy::run(),
        ["bench"] => bench::run(),
        ["bench", "traces"] => bench::traces(),
        ["bench", "load"] => bench::load(),
        ["fuzz", ref rest @ ..] => fuzz::run(rest),
        ["case", "new", name, "--check", check, "--from", folder] => case::new(name, check, folder.as_ref()),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
