//! Properties of attribution on synthetic ledgers and captures.
#![allow(clippy::unwrap_used, clippy::cast_possible_wrap)]

mod arbiter;
mod attribution;
mod device;
mod paths;
mod plan;
mod synthetic;
mod verify;
