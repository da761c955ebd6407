//! Every failure mode, one file each. A new one is a file, a `mod` line and a list entry.

mod admission_queue;
mod batch_cap_reached;
mod connection_cap;
mod kv_thrash;
mod low_acceptance;
mod overload;
mod proxy_buffering;

use crate::check::Check;

/// All checks. Order does not matter: ranks decide.
pub const CHECKS: &[Check] = &[
    admission_queue::CHECK,
    batch_cap_reached::CHECK,
    connection_cap::CHECK,
    kv_thrash::CHECK,
    low_acceptance::CHECK,
    overload::CHECK,
    proxy_buffering::CHECK,
];

/// A check by id.
pub fn find(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id == id)
}
