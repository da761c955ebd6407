//! Serving physics in closed form: what a device, a model and a load allow.
//!
//! Every function is pure and total: the same numbers give the same answer, hostile numbers give `None`, an error or a
//! finite figure, never a panic. Tables (devices, models, collectives) are JSON files beside the code that name their
//! sources. What is measured on the user's own system ([`step_law`]) beats what is computed from tables ([`roofline`]),
//! which is a bound and never a forecast. This crate leaves out simulation, input formats and judgement.
//!
//! Units: seconds, bytes, tokens and FLOP as `f64`; GB are 1e9 bytes; peaks are dense, never sparse.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod batching;
pub mod calibration;
pub mod chunked_prefill;
pub mod client;
pub mod collectives;
pub mod concurrency;
pub mod deployment;
pub mod disaggregation;
pub mod evaluation;
pub mod experts;
pub mod fragmentation;
pub mod fuzz;
pub mod hardware;
pub mod memory;
pub mod models;
pub mod prediction;
pub mod prefix_reuse;
pub mod queueing;
pub mod readers;
pub mod roofline;
pub mod speculation;
pub mod step_law;
pub mod step_time;

mod words;
