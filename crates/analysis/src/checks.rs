//! Every failure mode, one file each. A new one is a file, a `mod` line and a list entry.

mod batch_cap_reached;
mod dp_lockstep;
mod expensive_draft;
mod expensive_verification;
mod expert_imbalance;
mod exposed_communication;
mod kv_thrash;
mod low_acceptance;
mod needless_sharding;
mod overload;
mod overlong_draft;
mod pd_imbalance;
mod pipeline_bubbles;
mod proxy_buffering;
mod replica_imbalance;
mod scattered_prefix_routing;
mod slow_interconnect;
mod speculation_at_large_batch;
mod straggler_rank;

use crate::check::Check;

/// All checks. Order does not matter: ranks decide.
pub const CHECKS: &[Check] = &[
    batch_cap_reached::CHECK,
    dp_lockstep::CHECK,
    expensive_draft::CHECK,
    expensive_verification::CHECK,
    expert_imbalance::CHECK,
    exposed_communication::CHECK,
    kv_thrash::CHECK,
    low_acceptance::CHECK,
    needless_sharding::CHECK,
    overload::CHECK,
    overlong_draft::CHECK,
    pd_imbalance::CHECK,
    pipeline_bubbles::CHECK,
    proxy_buffering::CHECK,
    replica_imbalance::CHECK,
    scattered_prefix_routing::CHECK,
    slow_interconnect::CHECK,
    speculation_at_large_batch::CHECK,
    straggler_rank::CHECK,
];

/// A check by id.
pub fn find(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id == id)
}
