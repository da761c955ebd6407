//! Exports, decoded again by a reader of their own: what another tool will see.

#![allow(clippy::unwrap_used)]

mod decode;
mod scene;
mod traces;
