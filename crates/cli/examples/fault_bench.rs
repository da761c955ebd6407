//! Every fault of the simulated engine, drawn by seed: how often a strong one is found and its mending confirmed, how often a
//! weak one is left alone. All figures are simulated.
//!
//! `cargo run --release -p cli --example fault_bench [-- FAULT] [-v] [--draws N]`

#![allow(clippy::print_stdout, clippy::unwrap_used)]

#[path = "../tests/support/fault_draws.rs"]
mod fault_draws;

use analysis::contract::Outcome;
use fault_draws::{Drawn, KINDS, draw};

/// Of the draws of a fault, one in so many is weak.
const WEAK_IN: u64 = 3;

/// Prompts hold up streams with the default budget as well: no budget of this fault is harmless, and none is drawn weak.
const ALWAYS: &str = "prefill-blocking";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_wordy = words.iter().any(|word| word == "-v");
    let number = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1)?.parse::<u64>().ok());
    let (draws, seconds) = (number("--draws").unwrap_or(20), number("--seconds").unwrap_or(60));
    let only = words.first().filter(|word| !word.starts_with('-'));
    println!("{:18}{:>8}{:>8}{:>8}{:>11}{:>8}{:>12}{:>8}", "fault", "strong", "layer", "check", "confirmed", "weak", "left alone", "wrong");
    for kind in KINDS.iter().filter(|kind| only.is_none_or(|only| only == kind.name)) {
        let drawn: Vec<Drawn> =
            (0..draws).filter_map(|seed| draw(kind, seed, kind.name == ALWAYS || seed % WEAK_IN != 0, seconds)).collect();
        if is_wordy {
            drawn.iter().for_each(show);
        }
        let count = |is: &dyn Fn(&Drawn) -> bool| drawn.iter().filter(|draw| is(draw)).count();
        println!(
            "{:18}{:>8}{:>8}{:>8}{:>11}{:>8}{:>12}{:>8}",
            kind.name,
            count(&|draw| draw.is_strong),
            count(&|draw| draw.is_strong && draw.is_localized()),
            count(&|draw| draw.is_strong && draw.is_named()),
            count(&|draw| draw.is_strong && draw.is_localized() && draw.verified == Outcome::Confirmed),
            count(&|draw| !draw.is_strong),
            count(&|draw| !draw.is_strong && draw.is_left_alone()),
            count(&Drawn::is_wrong),
        );
    }
}

fn show(draw: &Drawn) {
    let gains = draw.gains.map(|gain| format!("{:.0}", 100.0 * gain)).join("/");
    println!(
        "  {} {:.4} gains {gains} % -> {} | {:?} {}",
        if draw.is_strong { "strong" } else { "weak  " },
        draw.strength,
        draw.told(),
        draw.verified,
        draw.why
    );
    println!("      {}", draw.report.verdict.sentence);
    for cleared in draw.report.cleared.iter().filter(|cleared| draw.is_strong && draw.kind.checks.contains(&cleared.check.as_str())) {
        println!("      {} clear: {}", cleared.check, cleared.because);
    }
    for unknown in draw.report.unknown.iter().filter(|unknown| draw.is_strong && draw.kind.checks.contains(&unknown.check.as_str())) {
        println!("      {} unknown: {}", unknown.check, unknown.because);
    }
}
