//! What a user hands over, and the capture that comes of it.
//!
//! Fixtures are trimmed recordings of a real vLLM (0.32.0, CPU) and short texts made after the log formats of older
//! versions; damage is done here, so that each test shows what is wrong with its input.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod damage;
mod device_traces;
mod engines;
mod evidence;
mod fuzz;
mod hostile;
mod load_results;
mod load_results_damaged;
mod logs;
mod nsys;
mod observations;
mod one_server;
mod order;
mod registered;
mod secrets;
mod sets;
mod shown;
mod spans;
mod stacks;
mod telemetry;
mod text_metrics;
mod traces;
mod traces_damaged;
