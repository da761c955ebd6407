//! Properties of attribution on synthetic ledgers and captures.
#![allow(clippy::unwrap_used)]

mod arbiter;
mod attribution;
mod synthetic;
mod verify;
