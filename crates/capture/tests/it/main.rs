//! Tests of the capture on disk: what is written is what is read, and whatever happens to the files is told.

#![allow(clippy::unwrap_used)]
#![allow(clippy::needless_raw_string_hashes)] // expect-test writes snapshots so

mod allocations;
mod damage;
mod extra;
mod foreign;
mod growing;
mod place;
mod round_trip;
mod sample;
