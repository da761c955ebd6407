//! Capture in, diagnosis out. Pure: no clock, file, socket, thread or randomness; the same capture gives the same
//! report, byte for byte.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod account;
pub mod advice;
pub mod arbiter;
pub mod arms;
pub mod change;
pub mod check;
pub mod checks;
pub mod claims;
pub mod confidence;
pub mod connections;
pub mod contract;
pub mod contrast;
pub mod decode_bound;
pub mod diagnose;
pub mod drafting;
pub mod evidence;
pub mod flags;
pub mod floors;
mod forms;
pub mod gates;
pub mod guards;
pub mod hardware_bound;
pub mod law;
pub mod ledger;
pub mod limits;
pub mod load;
pub mod members;
pub mod onset;
pub mod pace;
pub mod paths;
pub mod phase;
pub mod precedence;
pub mod predict;
mod present;
pub mod readings;
pub mod record;
pub mod remedy;
pub mod runqueue;
pub mod seats;
pub mod settlement;
pub mod sharding;
pub mod situation;
pub mod slo;
pub mod stats;
pub mod symptom;
pub mod text_work;
pub mod timeline;
pub mod track_record;
pub mod triage;
pub mod verdict;
pub mod words;

pub use crate::diagnose::{DiagnoseOptions, diagnose};
pub mod verify;

pub use crate::verify::verify;
