//! The data model every room of inferoscope shares.
//!
//! A capture is a set of flat tables on one host clock (`i64` nanoseconds since the Unix epoch), a manifest that says
//! where each row came from, and the vocabulary ([`signals`]) that all importers speak and all checks read.
//! This crate owns the schema and its storage; it knows no file format but its own and draws no conclusion.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod clock_events;
pub mod content_hash;
pub mod ids;
pub mod issues;
pub mod labels;
pub mod manifest;
pub mod names;
pub mod redact;
pub mod settings;
pub mod signals;
pub mod store;
pub mod tables;
pub mod text_time;
pub mod units;

mod capture;
mod coded;
mod columns;
mod reorder;

pub use crate::capture::Capture;
pub use crate::coded::{Coded, Values};
pub use crate::ids::{Name, SourceIdx};
pub use crate::issues::Severity;
pub use crate::manifest::{ClockAlignment, Manifest, Source, Subject};
pub use crate::names::Names;
pub use crate::signals::{Signal, SignalId};
pub use crate::tables::*;
