//! A load client that knows its own error: sends requests to an OpenAI-compatible server on schedule and stamps what comes.
//!
//! Times are taken in the socket ([`crate::http`]); chunks of several tokens, roles, reasoning and usage are told apart
//! (`event`). Latency counts from when a request was due and from when it was sent, so that a client that falls behind
//! hides nothing. [`Health`] says how far it fell behind: where that is not small against what was measured, the figures are
//! called *client-limited*. Needs no tokenizer; a `tokenizer.json` at hand makes lengths exact and counts what the server does
//! not tell ([`Tokenizer`]). Text is made, counted and dropped, never kept.
//!
//! Left out: several load processes at once, images and audio, conversations whose next turn repeats the last answer, several
//! requests at a time on one connection, tokenizers from a hub.

mod aiperf;
mod attempt;
mod body;
mod event;
mod figures;
mod health;
mod keep;
mod outputs;
mod pacer;
mod prompt;
mod run;
mod said;
mod sweep;
mod target;
mod tokenizer;

pub use crate::http::HttpVersion;
pub use aiperf::aiperf_jsonl;
pub use attempt::{Attempt, Counting, Ending, Piece};
pub use body::{Api, Dialect};
pub use figures::{Disagreement, Figures, Slo, Spread, Weighted};
pub use health::Health;
pub use keep::{FORMAT, into_capture};
pub use outputs::{csv, json, table, vllm_bench_json};
pub use run::{LoadError, LoadRun, Plan, Schedule, Seen, run};
pub use sweep::{Axis, Level, Sweep, SweepPlan, sweep};
pub(crate) use target::SIMULATED_OWNER;
pub use target::{Target, TargetError, ask};
pub use tokenizer::{Tokenizer, TokenizerError};
