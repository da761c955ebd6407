//! Every failure mode, one file each. A new one is a file, a `mod` line and a list entry.

mod bandwidth_bound_decode;
mod batch_cap_reached;
mod clock_throttling;
mod compute_bound_prefill;
mod graph_fallback;
mod graph_padding;
mod host_link_bound;
mod idle_tensor_cores;
mod kv_thrash;
mod launch_bound_steps;
mod low_acceptance;
mod low_occupancy_kernels;
mod mismatched_attention_backend;
mod mismatched_gemm_backend;
mod misread_utilization;
mod overload;
mod proxy_buffering;
mod recompilation_stalls;
mod remote_numa_memory;
mod unexpected_copies;
mod unexpected_syncs;
mod unfused_elementwise;
mod unfused_small_kernels;

use crate::check::Check;

/// All checks. Order does not matter: ranks decide.
pub const CHECKS: &[Check] = &[
    bandwidth_bound_decode::CHECK,
    batch_cap_reached::CHECK,
    clock_throttling::CHECK,
    compute_bound_prefill::CHECK,
    graph_fallback::CHECK,
    graph_padding::CHECK,
    host_link_bound::CHECK,
    idle_tensor_cores::CHECK,
    kv_thrash::CHECK,
    launch_bound_steps::CHECK,
    low_acceptance::CHECK,
    low_occupancy_kernels::CHECK,
    mismatched_attention_backend::CHECK,
    mismatched_gemm_backend::CHECK,
    misread_utilization::CHECK,
    overload::CHECK,
    proxy_buffering::CHECK,
    recompilation_stalls::CHECK,
    remote_numa_memory::CHECK,
    unexpected_copies::CHECK,
    unexpected_syncs::CHECK,
    unfused_elementwise::CHECK,
    unfused_small_kernels::CHECK,
];

/// A check by id.
pub fn find(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id == id)
}
