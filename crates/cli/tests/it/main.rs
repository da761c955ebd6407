//! What a user of the program sees: verdicts of the cases, exit codes, help, bad input, order of inputs, output files.

#![allow(clippy::unwrap_used)]

mod addresses;
mod bad_input;
mod bench;
mod case;
mod cases;
mod commands;
mod destinations;
mod exports;
#[allow(dead_code)] // the bench prints more of a draw
#[path = "../support/fault_draws.rs"]
mod fault_draws;
mod faults;
mod first_screen;
mod help;
mod ledger;
mod live;
mod loops;
mod outputs;
mod plan;
mod program;
mod prometheus;
mod readme;
mod recording;
mod redact;
mod same_report;
mod slo;
mod triage;
mod verify;
mod whatif;
