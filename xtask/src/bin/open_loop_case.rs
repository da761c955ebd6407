//! Writes the simulated case `open_loop_32` and its twin: `cargo run -p xtask --bin open_loop_case -- cases/batch_cap_reached`.
#![allow(clippy::print_stdout)]

use std::path::PathBuf;

#[path = "../open_loop.rs"]
mod open_loop;

fn main() -> std::io::Result<()> {
    let dir = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("cases/batch_cap_reached"), PathBuf::from);
    open_loop::generate(&dir)?;
    print!("{}", open_loop::figures());
    Ok(())
}
