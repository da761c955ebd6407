//! Artifacts to a capture: reads what engineers have (scrapes, logs, results, typed numbers) into [`capture::Capture`].
//!
//! [`read`] takes files, folders and captures; [`read_bytes`], [`read_scrapes`] and [`Stored`] serve what is in memory. Types are
//! told by content. One file per format in `formats/`, one per engine in `engines/`. Nothing is guessed silently: damage
//! is read up to and told in the `issues` table, secrets never enter, and neither does prompt or generated text.
//! Conclusions about what the numbers mean are left to analysis.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod builder;
mod captures;
mod civil;
mod clock_join;
mod clocks;
mod duplicates;
mod engines;
mod error;
mod finish;
mod formats;
pub mod fuzz;
mod input;
mod json;
mod literal;
mod naming;
mod number;
mod options;
mod read;
mod replica_join;
mod replicas;
mod secrets;
mod shell;
mod sqlite;
mod stored;
mod walk;

pub use crate::error::IngestError;
pub use crate::formats::stack_parts::looks::{LookedAt, ThreadFrame, ThreadLooks, ThreadState};
pub use crate::options::{Options, Progress};
pub use crate::read::{LogLines, Scrape, ScrapeReader, read, read_beside, read_bytes, read_log_lines, read_scrapes};
pub use crate::secrets::redact_command;
pub use crate::shell::{assignment, words as command_words};
pub use crate::stored::{AnswerError, Stored, StoredNames, read_names};

/// Ids of the file formats that are read, as in `Source::format`.
pub fn format_ids() -> impl Iterator<Item = &'static str> {
    formats::FORMATS.iter().map(|format| format.id)
}

/// Ids of the engines and gateways that are known; one may come twice.
pub fn engine_ids() -> impl Iterator<Item = &'static str> {
    engines::ENGINES.iter().map(|engine| engine.id)
}
