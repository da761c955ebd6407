//! What a reader sees: every view on hand-written reports, as text.
// `UPDATE_EXPECT=1` writes raw strings with hashes whether they need them or not.
#![allow(clippy::unwrap_used, clippy::needless_raw_string_hashes)]

mod explain;
mod fixtures;
mod html;
mod json;
mod markdown;
mod registry;
mod terminal;
mod verify;
