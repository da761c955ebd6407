//! TensorRT-LLM (`trtllm-serve`) and its Triton backend: Prometheus text at `/prometheus/metrics`, the iteration log.
//!
//! `/metrics` of `trtllm-serve` is a JSON list of iterations, not Prometheus text; it is empty unless
//! `enable_iter_perf_stats` is set.

mod flags;
mod log;
mod metrics;

use crate::engines::{DefaultsQuery, Engine};

/// See [`Engine`].
pub(crate) const ENGINE: Engine = Engine {
    id: "tensorrt-llm",
    aliases: &["trt-llm", "trtllm", "tensorrtllm", "trtllm-serve"],
    is_gateway: false,
    metrics: metrics::METRICS,
    prefixes: &["trtllm_", "trtllm:"],
    core_label: "engine",
    rank_labels: &[],
    info: |_, _| None,
    is_command: flags::is_command,
    flags: flags::settings,
    defaults,
    log: Some(&log::LOG),
};

/// The Triton backend: gauges whose labels say which of them they are.
pub(crate) const TRITON: Engine = {
    let mut engine = Engine::of_metrics("tensorrt-llm", &["nv_trt_llm_"], metrics::TRITON);
    engine.core_label = "version";
    engine
};

/// What `trtllm-serve` does when nobody says, from 0.18 on (read in its options and `BuildConfig`).
fn defaults(query: &DefaultsQuery<'_>) -> Vec<(&'static str, String)> {
    let mut parts = query.version.trim_start_matches('v').split('.').map(|part| part.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor))) = (parts.next(), parts.next()) else { return Vec::new() };
    if (major, minor) < (0, 18) || major > 2 {
        return Vec::new();
    }
    let mut found = vec![
        ("config.tensor_parallel", "1".to_string()),
        ("config.pipeline_parallel", "1".to_string()),
        ("config.max_num_seqs", "2048".to_string()),
        ("config.max_num_batched_tokens", "8192".to_string()),
        ("config.gpu_memory_utilization", "0.9".to_string()),
        ("config.capacity_policy", "GUARANTEED_NO_EVICT".to_string()),
        ("config.chunked_prefill", "false".to_string()),
    ];
    found.retain(|(key, _)| !query.stated.contains_key(*key));
    found
}
