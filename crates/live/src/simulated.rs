//! An OpenAI-compatible server whose answers are timed by the scheduler simulation: something to try the other verbs on.
//!
//! Requests come over real sockets; when each token leaves is decided by [`simulate::online`], a step at a time, with the
//! clock of this machine. The metrics page has vLLM's names and the log its lines, both fed by what the simulation did.
//! A fault is a mechanism that is set up differently ([`Fault`]): nothing ever edits a figure. Everything says that it is
//! simulated: the model list's owner, the first line of the metrics, the first lines of the log.
//!
//! Left out: aborts (an answer nobody reads is made to its end), tokenizers (a word is a token), sampling (answers are words
//! without meaning, always of the length asked for), more than one address.

mod answer;
mod books;
mod fault;
mod flags;
mod log;
mod metrics;
mod prompt;
mod rehearsal;
mod server;

pub use fault::{Fault, FaultError, Setup};
pub use flags::Flags;
pub use rehearsal::Rehearsal;
pub use server::{ServeConfig, ServeError, Server};
