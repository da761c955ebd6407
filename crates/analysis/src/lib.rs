//! Capture in, diagnosis out. Pure: no clock, file, socket, thread or randomness; the same capture gives the same
//! report, byte for byte.

pub mod contract;
