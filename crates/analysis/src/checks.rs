//! Every failure mode, one file each. A new one is a file, a `mod` line and a list entry.

mod adapter_slots_full;
mod admission_queue;
mod bandwidth_bound_decode;
mod batch_cap_reached;
mod client_bound;
mod clock_throttling;
mod compute_bound_prefill;
mod config_drift;
mod connection_cap;
mod connection_churn;
mod cpu_starvation;
mod dp_lockstep;
mod expensive_draft;
mod expensive_verification;
mod expert_imbalance;
mod exposed_communication;
mod graph_fallback;
mod graph_padding;
mod host_bound_engine;
mod host_link_bound;
mod idle_tensor_cores;
mod ipc_backlog;
mod kv_capacity_short;
mod kv_fragmentation;
mod kv_offload_stall;
mod kv_over_reservation;
mod kv_thrash;
mod launch_bound_steps;
mod long_requests_block_short;
mod low_acceptance;
mod low_occupancy_kernels;
mod mismatched_attention_backend;
mod mismatched_gemm_backend;
mod misread_utilization;
mod missed_prefix_reuse;
mod needless_sharding;
mod overload;
mod overlong_draft;
mod pd_imbalance;
mod pipeline_bubbles;
mod prefill_blocks_decode;
mod proxy_buffering;
mod recompilation_stalls;
mod remote_numa_memory;
mod replica_imbalance;
mod retry_storm;
mod scattered_prefix_routing;
mod slow_detokenization;
mod slow_interconnect;
mod slow_request_transfer;
mod slow_tokenization;
mod speculation_at_large_batch;
mod static_batching;
mod straggler_rank;
mod stream_bursts;
mod structured_output_stall;
mod token_budget_reached;
mod underfed_engine;
mod unexpected_copies;
mod unexpected_syncs;
mod unfused_elementwise;
mod unfused_small_kernels;

use crate::check::Check;

/// All checks. Order does not matter: ranks decide.
pub const CHECKS: &[Check] = &[
    adapter_slots_full::CHECK,
    admission_queue::CHECK,
    bandwidth_bound_decode::CHECK,
    batch_cap_reached::CHECK,
    client_bound::CHECK,
    clock_throttling::CHECK,
    compute_bound_prefill::CHECK,
    config_drift::CHECK,
    connection_cap::CHECK,
    connection_churn::CHECK,
    cpu_starvation::CHECK,
    dp_lockstep::CHECK,
    expensive_draft::CHECK,
    expensive_verification::CHECK,
    expert_imbalance::CHECK,
    exposed_communication::CHECK,
    graph_fallback::CHECK,
    graph_padding::CHECK,
    host_bound_engine::CHECK,
    host_link_bound::CHECK,
    idle_tensor_cores::CHECK,
    ipc_backlog::CHECK,
    kv_capacity_short::CHECK,
    kv_fragmentation::CHECK,
    kv_offload_stall::CHECK,
    kv_over_reservation::CHECK,
    kv_thrash::CHECK,
    launch_bound_steps::CHECK,
    long_requests_block_short::CHECK,
    low_acceptance::CHECK,
    low_occupancy_kernels::CHECK,
    mismatched_attention_backend::CHECK,
    mismatched_gemm_backend::CHECK,
    misread_utilization::CHECK,
    missed_prefix_reuse::CHECK,
    needless_sharding::CHECK,
    overload::CHECK,
    overlong_draft::CHECK,
    pd_imbalance::CHECK,
    pipeline_bubbles::CHECK,
    prefill_blocks_decode::CHECK,
    proxy_buffering::CHECK,
    recompilation_stalls::CHECK,
    remote_numa_memory::CHECK,
    replica_imbalance::CHECK,
    retry_storm::CHECK,
    scattered_prefix_routing::CHECK,
    slow_detokenization::CHECK,
    slow_interconnect::CHECK,
    slow_request_transfer::CHECK,
    slow_tokenization::CHECK,
    speculation_at_large_batch::CHECK,
    static_batching::CHECK,
    straggler_rank::CHECK,
    stream_bursts::CHECK,
    structured_output_stall::CHECK,
    token_budget_reached::CHECK,
    underfed_engine::CHECK,
    unexpected_copies::CHECK,
    unexpected_syncs::CHECK,
    unfused_elementwise::CHECK,
    unfused_small_kernels::CHECK,
];

/// A check by id.
pub fn find(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id == id)
}
