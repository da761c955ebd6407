//! What a reader sees: every view on hand-written reports, as text.

mod explain;
mod fixtures;
mod json;
mod markdown;
mod terminal;
mod verify;
