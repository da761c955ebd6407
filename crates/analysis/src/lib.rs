//! Capture in, diagnosis out. Pure: no clock, file, socket, thread or randomness; the same capture gives the same
//! report, byte for byte.

pub mod contract;
pub mod evidence;
pub mod phase;
pub mod arbiter;
pub mod claims;
pub mod gates;
pub mod ledger;
pub mod timeline;
