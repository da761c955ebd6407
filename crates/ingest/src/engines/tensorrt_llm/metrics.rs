//! Metric families of TensorRT-LLM.
//!
//! Traps: the prefix cache is counted in blocks (brought to tokens by the block size in the same scrape); a paused
//! request is one that was pushed out, and the gauge tells how many are out now, never how often; the histograms of
//! queue, decode and e2e start at 0.3 s like vLLM's.

use crate::engines::metric::{Metric, SeriesLabels, label};

/// Families without their prefix and suffix.
pub(super) const METRICS: &[Metric] = &[
    Metric::gauge("num_requests_running", "engine.running"),
    Metric::gauge("num_requests_waiting", "engine.waiting"),
    Metric::gauge("num_paused_requests", "engine.swapped"),
    Metric::gauge("kv_cache_utilization", "kv.usage").max(),
    Metric::gauge("kv_cache_max_blocks", "kv.capacity_blocks"),
    Metric::gauge("kv_cache_tokens_per_block", "kv.block_size").max(),
    Metric::counter("kv_cache_reused_blocks", "kv.block_hits").also("kv.block_queries"),
    Metric::counter("kv_cache_missed_blocks", "kv.block_queries"),
    Metric::gauge("kv_cache_hit_rate", "kv.prefix_hit_ratio").max(),
    Metric::counter("kv_cache_onboard_bytes", "kv.transfer_bytes").tags(&[("mode", "load")]),
    Metric::counter("kv_cache_offload_bytes", "kv.transfer_bytes").tags(&[("mode", "store")]),
    Metric::counter("prompt_tokens", "server.prompt_tokens_total"),
    Metric::counter("prompt_cached_tokens", "server.cached_tokens_total"),
    Metric::counter("generation_tokens", "server.output_tokens_total"),
    Metric::counter("request_success", "server.finished").labels(&[("finished_reason", "finish")]),
    Metric::counter("request_error", "server.finished").tags(&[("finish", "error")]),
    Metric::histogram("time_to_first_token_seconds", "server.ttft"),
    Metric::histogram("time_per_output_token_seconds", "server.tpot"),
    Metric::histogram("e2e_request_latency_seconds", "server.e2e"),
    Metric::histogram("request_queue_time_seconds", "server.queue_time"),
    Metric::histogram("request_prefill_time_seconds", "server.prefill_time"),
    Metric::histogram("request_decode_time_seconds", "server.decode_time"),
    Metric::histogram("request_inference_time_seconds", "server.inference_time"),
    Metric::gauge("iteration_latency_seconds", "engine.step_time").max(),
    Metric::gauge("scheduled_batch_size", "engine.step_seqs"),
    Metric::counter("spec_decode_num_draft_tokens", "spec.draft_tokens"),
    Metric::counter("spec_decode_num_accepted_tokens", "spec.accepted_tokens"),
];

fn is_type(labels: &SeriesLabels, key: &str, value: &str) -> bool {
    label(labels, key) == value
}

/// The Triton backend's families: one gauge per label value.
pub(super) const TRITON: &[Metric] = &[
    Metric::gauge("request_metrics", "engine.running").only(|labels| is_type(labels, "request_type", "scheduled")),
    Metric::gauge("request_metrics", "engine.waiting").only(|labels| is_type(labels, "request_type", "waiting")),
    Metric::gauge("kv_cache_block_metrics", "kv.usage").only(|labels| is_type(labels, "kv_cache_block_type", "fraction")).max(),
    Metric::gauge("kv_cache_block_metrics", "kv.capacity_blocks").only(|labels| is_type(labels, "kv_cache_block_type", "max")),
    Metric::gauge("kv_cache_block_metrics", "kv.block_size").only(|labels| is_type(labels, "kv_cache_block_type", "tokens_per")).max(),
];
