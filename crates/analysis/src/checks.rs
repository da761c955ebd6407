//! Every failure mode, one file each. A new one is a file, a `mod` line and a list entry.

mod admission_queue;
mod batch_cap_reached;
mod client_bound;
mod config_drift;
mod connection_cap;
mod connection_churn;
mod ipc_backlog;
mod kv_thrash;
mod low_acceptance;
mod overload;
mod proxy_buffering;
mod retry_storm;
mod slow_detokenization;
mod slow_request_transfer;
mod slow_tokenization;
mod stream_bursts;

use crate::check::Check;

/// All checks. Order does not matter: ranks decide.
pub const CHECKS: &[Check] = &[
    admission_queue::CHECK,
    batch_cap_reached::CHECK,
    client_bound::CHECK,
    config_drift::CHECK,
    connection_cap::CHECK,
    connection_churn::CHECK,
    ipc_backlog::CHECK,
    kv_thrash::CHECK,
    low_acceptance::CHECK,
    overload::CHECK,
    proxy_buffering::CHECK,
    retry_storm::CHECK,
    slow_detokenization::CHECK,
    slow_request_transfer::CHECK,
    slow_tokenization::CHECK,
    stream_bursts::CHECK,
];

/// A check by id.
pub fn find(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id == id)
}
