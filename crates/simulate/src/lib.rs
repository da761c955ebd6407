//! A serving engine in simulated time: requests in, per-request times and the gate that held them out.
//!
//! The closed forms of `model` say where a system settles; this crate says what happens on the way there: which request
//! waits for a seat, for KV blocks or for the token budget, which one is preempted, when its tokens reach the caller. One
//! engine iteration is one step of the simulation, scheduled after the rules of vLLM's V1 scheduler
//! ([`engine`]); how long a step takes is a [`cost::StepCost`] that the caller brings, fitted on a run
//! ([`replay::calibrate`]) or from a roofline. [`workload`] reads published traces and generates loads.
//!
//! The crate is pure: no clock, file, socket or thread, randomness by seed. Time is `i64` nanoseconds. The same input
//! gives the same outcome, and a run of identical decode steps taken in one go ends exactly as step by step.
//!
//! Left out: generated tokens as prefixes of later turns (traces do not name their blocks), lock step between
//! data-parallel ranks, pipeline bubbles, LoRA, multimodal encoders, KV offload to host memory.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod config;
pub mod cost;
pub mod engine;
pub mod histogram;
pub mod online;
pub mod outcome;
pub mod replay;
pub mod rng;
pub mod system;
pub mod verdict;
pub mod workload;

pub use config::{ConfigError, EngineConfig, SystemConfig};
pub use outcome::{Outcome, Row};
pub use system::{simulate, simulate_with};
pub use workload::{Request, Workload};
