//! The simulator from outside: properties, faults as mechanisms, recorded runs and traces.
#![allow(clippy::unwrap_used)]

mod beside;
mod faults;
mod properties;
mod scheduler;
mod traces;
mod vllm_runs;
