//! One engine replica, iteration by iteration, after vLLM's V1 scheduler.
//!
//! A step first serves running requests (one token each, plus drafts), then prompts that are partly computed, then admits
//! waiting ones while seats, token budget and KV blocks last. A running request that finds no block preempts the one
//! admitted last (under [`crate::config::Policy::Priority`] the least important), whose blocks stay findable until they
//! are reused; a step that preempted admits nobody. Steps in which nothing can change but the context of each sequence are
//! taken in one go ([`replica::Replica::run_until`]).
//!
//! Where we are simpler than vLLM: blocks of generated tokens are findable only by the request that made them; of two
//! requests that compute the same blocks at the same time the later keeps private copies of the rest of its prompt;
//! decoding requests are served before partly computed prompts whatever their place in the running list.

pub mod observe;
pub(crate) mod pool;
pub(crate) mod replica;
mod sequence;
mod stream;
mod waiting;
