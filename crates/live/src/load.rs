//! A load client that knows its own error: sends requests to an OpenAI-compatible server on schedule and stamps what comes.
//!
//! Times are taken in the socket ([`crate::http`]); chunks of several tokens, roles, reasoning and usage are told apart
//! (`event`). Latency counts from when a request was due and from when it was sent, so that a client that falls behind
//! hides nothing. [`Health`] says how far it fell behind: where that is not small against what was measured, the figures are
//! called *client-limited*. Needs no tokenizer; text is made and dropped, never kept.
//!
//! Left out: several load processes at once, images and audio, conversations whose next turn repeats the last answer.

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
mod sweep;
mod target;

pub use crate::http::HttpVersion;
pub use aiperf::aiperf_jsonl;
pub use attempt::{Attempt, Counting, Ending, Piece};
pub use body::{Api, Dialect};
pub use figures::{Figures, Slo, Spread, Weighted};
pub use health::Health;
pub use keep::{FORMAT, into_capture};
pub use outputs::{csv, json, table, vllm_bench_json};
pub use run::{LoadError, LoadRun, Plan, Schedule, Seen, run};
pub use sweep::{Axis, Level, Sweep, SweepPlan, sweep};
pub(crate) use target::SIMULATED_OWNER;
pub use target::{Target, TargetError, ask};
