//! Every failure mode, one file each. A new one is a file, a `mod` line and a list entry.

mod adapter_slots_full;
mod batch_cap_reached;
mod cpu_starvation;
mod host_bound_engine;
mod kv_capacity_short;
mod kv_fragmentation;
mod kv_offload_stall;
mod kv_over_reservation;
mod kv_thrash;
mod long_requests_block_short;
mod low_acceptance;
mod missed_prefix_reuse;
mod overload;
mod prefill_blocks_decode;
mod proxy_buffering;
mod static_batching;
mod structured_output_stall;
mod token_budget_reached;
mod underfed_engine;

use crate::check::Check;

/// All checks. Order does not matter: ranks decide.
pub const CHECKS: &[Check] = &[
    adapter_slots_full::CHECK,
    batch_cap_reached::CHECK,
    cpu_starvation::CHECK,
    host_bound_engine::CHECK,
    kv_capacity_short::CHECK,
    kv_fragmentation::CHECK,
    kv_offload_stall::CHECK,
    kv_over_reservation::CHECK,
    kv_thrash::CHECK,
    long_requests_block_short::CHECK,
    low_acceptance::CHECK,
    missed_prefix_reuse::CHECK,
    overload::CHECK,
    prefill_blocks_decode::CHECK,
    proxy_buffering::CHECK,
    static_batching::CHECK,
    structured_output_stall::CHECK,
    token_budget_reached::CHECK,
    underfed_engine::CHECK,
];

/// A check by id.
pub fn find(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id == id)
}
