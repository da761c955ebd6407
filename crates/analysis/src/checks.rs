//! Every failure mode, one file each. A new one is a file, a `mod` line and a list entry.

mod admission_queue;
mod batch_cap_reached;
mod client_bound;
mod config_drift;
mod connection_cap;
mod connection_churn;
mod dp_lockstep;
mod expensive_draft;
mod expensive_verification;
mod expert_imbalance;
mod exposed_communication;
mod ipc_backlog;
mod kv_thrash;
mod low_acceptance;
mod needless_sharding;
mod overload;
mod overlong_draft;
mod pd_imbalance;
mod pipeline_bubbles;
mod proxy_buffering;
mod replica_imbalance;
mod retry_storm;
mod scattered_prefix_routing;
mod slow_detokenization;
mod slow_interconnect;
mod slow_request_transfer;
mod slow_tokenization;
mod speculation_at_large_batch;
mod straggler_rank;
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
    dp_lockstep::CHECK,
    expensive_draft::CHECK,
    expensive_verification::CHECK,
    expert_imbalance::CHECK,
    exposed_communication::CHECK,
    ipc_backlog::CHECK,
    kv_thrash::CHECK,
    low_acceptance::CHECK,
    needless_sharding::CHECK,
    overload::CHECK,
    overlong_draft::CHECK,
    pd_imbalance::CHECK,
    pipeline_bubbles::CHECK,
    proxy_buffering::CHECK,
    replica_imbalance::CHECK,
    retry_storm::CHECK,
    scattered_prefix_routing::CHECK,
    slow_detokenization::CHECK,
    slow_interconnect::CHECK,
    slow_request_transfer::CHECK,
    slow_tokenization::CHECK,
    speculation_at_large_batch::CHECK,
    straggler_rank::CHECK,
    stream_bursts::CHECK,
];

/// A check by id.
pub fn find(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id == id)
}
