//! Scores the predictions against a table of measured runs, and says how long it took.
//!
//! `cargo run --release -p model --example evaluate -- RUNS.csv`

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("expected the path of a table of runs")?;
    let text = std::fs::read_to_string(path)?;
    let start = Instant::now();
    let runs = model::evaluation::read(&text)?;
    let scores = model::evaluation::evaluate(&runs);
    print!("{}", model::evaluation::text(&scores));
    println!("\n{} rows in {:.2} s", scores.row_count, start.elapsed().as_secs_f64());
    Ok(())
}
