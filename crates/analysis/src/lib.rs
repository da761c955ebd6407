//! Capture in, diagnosis out. Pure: no clock, file, socket, thread or randomness; the same capture gives the same
//! report, byte for byte.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod account;
pub mod arbiter;
pub mod arms;
pub mod check;
pub mod checks;
pub mod claims;
pub mod clocks;
pub mod confidence;
pub mod context_slope;
pub mod contract;
pub mod contrast;
pub mod decode_bound;
pub mod device_step;
pub mod diagnose;
pub mod evidence;
pub mod flags;
pub mod floors;
pub mod gates;
pub mod graphs;
pub mod guards;
pub mod hardware_bound;
pub mod kernel_time;
pub mod launches;
pub mod law;
pub mod ledger;
pub mod limits;
pub mod load;
pub mod paths;
pub mod phase;
pub mod precedence;
pub mod predict;
pub mod prefill_rate;
mod present;
pub mod record;
pub mod record_device;
pub mod remedy;
pub mod seats;
pub mod settlement;
pub mod situation;
pub mod stats;
pub mod symptom;
pub mod timeline;
pub mod verdict;
pub mod words;

pub use crate::diagnose::{DiagnoseOptions, diagnose};
pub mod verify;

pub use crate::verify::verify;
