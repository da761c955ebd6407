//! The views of a diagnosis: one document in, text or a page out.
//!
//! Every view is a pure function of [`analysis::contract::Report`] (or `Verification`): it adds no judgment of its own, it
//! only chooses words, order and figures. Nothing here prints, reads files or looks at a clock; `cli` and `serve` do.
//!
//! A report repeats names that came from metrics, logs and command lines, so every view treats each string as hostile:
//! control characters never reach a terminal, markup never reaches a page.
// `UPDATE_EXPECT=1` writes raw strings with hashes whether they need them or not.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::needless_raw_string_hashes))]

pub mod clean;
pub mod clock;
mod device_words;
pub mod exports;
pub mod figures;
mod phrases;
pub mod views;
pub mod wrap;
