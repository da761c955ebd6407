//! vLLM's metric families, old and new names.
//!
//! Renames: `gpu_cache_usage_perc` -> `kv_cache_usage_perc` and `gpu_prefix_cache_*` -> `prefix_cache_*` (deprecated
//! 0.9, gone by 0.33), `time_per_output_token_seconds` -> `inter_token_latency_seconds` (0.10.2; both are gaps between
//! tokens, `request_time_per_output_token_seconds` is the mean per request). V0 counted drafts in gauges.
//!
//! Traps: `iteration_tokens_total` is a histogram in spite of its name; `..._perc` is a ratio, joined by its largest;
//! the histograms of queue, prefill, decode and e2e start at 0.3 s; `prompt_tokens_cached_by_source` repeats what
//! `prompt_tokens_by_source` counts, by tier, and has a signal of its own so that nobody adds the two.
//!
//! Left out: totals that repeat others (`prompt_tokens_cached`), parameters of requests (`request_params_*`), and what
//! explains no time of a text request (`engine_sleep_state`, `watermark_requests`, `mm_cache_*`, descriptor counts).

use crate::engines::Info;
use crate::engines::metric::{Metric, SeriesLabels, label};

fn is_computed(labels: &SeriesLabels) -> bool {
    label(labels, "source") == "local_compute"
}

fn is_cached(labels: &SeriesLabels) -> bool {
    !matches!(label(labels, "source"), "" | "local_compute")
}

/// Families without their prefix and suffix.
pub(super) const METRICS: &[Metric] = &[
    Metric::gauge("num_requests_running", "engine.running"),
    Metric::gauge("num_requests_waiting", "engine.waiting"),
    Metric::gauge("num_requests_waiting_by_reason", "engine.waiting").labels(&[("reason", "reason")]),
    Metric::gauge("num_requests_swapped", "engine.swapped"),
    Metric::gauge("num_requests_kv_fetch_by_stage", "kv.fetch_waiting").labels(&[("stage", "stage")]),
    Metric::gauge("kv_cache_usage_perc", "kv.usage").max(),
    Metric::gauge("gpu_cache_usage_perc", "kv.usage").max().fallback(),
    Metric::counter("num_preemptions", "kv.preemptions"),
    Metric::counter("prefix_cache_queries", "kv.prefix_queries"),
    Metric::counter("prefix_cache_hits", "kv.prefix_hits"),
    Metric::counter("gpu_prefix_cache_queries", "kv.prefix_queries").fallback(),
    Metric::counter("gpu_prefix_cache_hits", "kv.prefix_hits").fallback(),
    Metric::counter("external_prefix_cache_queries", "kv.external_queries"),
    Metric::counter("external_prefix_cache_hits", "kv.external_hits"),
    Metric::gauge("gpu_prefix_cache_hit_rate", "kv.prefix_hit_ratio").max(),
    Metric::counter("prompt_tokens", "server.prompt_tokens_total"),
    Metric::counter("prompt_tokens_by_source", "server.computed_tokens_total").only(is_computed),
    Metric::counter("prompt_tokens_by_source", "server.cached_tokens_total").only(is_cached).labels(&[("source", "source")]),
    Metric::counter("prompt_tokens_cached_by_source", "kv.tier_hits").labels(&[("source", "source")]),
    Metric::counter("generation_tokens", "server.output_tokens_total"),
    Metric::counter("request_success", "server.finished").labels(&[("finished_reason", "finish")]),
    Metric::counter("admission_rejections", "server.rejected").labels(&[("reason", "reason")]),
    Metric::counter("corrupted_requests", "server.corrupted"),
    Metric::histogram("time_to_first_token_seconds", "server.ttft"),
    Metric::histogram("inter_token_latency_seconds", "server.itl"),
    Metric::histogram("time_per_output_token_seconds", "server.itl").fallback(),
    Metric::histogram("request_time_per_output_token_seconds", "server.tpot"),
    Metric::histogram("e2e_request_latency_seconds", "server.e2e"),
    Metric::histogram("request_queue_time_seconds", "server.queue_time"),
    Metric::histogram("time_in_queue_requests", "server.queue_time").fallback(),
    Metric::histogram("request_prefill_time_seconds", "server.prefill_time"),
    Metric::histogram("request_decode_time_seconds", "server.decode_time"),
    Metric::histogram("request_inference_time_seconds", "server.inference_time"),
    Metric::histogram("request_prompt_tokens", "server.prompt_tokens"),
    Metric::histogram("request_generation_tokens", "server.output_tokens"),
    Metric::histogram("request_prefill_kv_computed_tokens", "server.computed_tokens"),
    Metric::histogram("request_num_preemptions", "server.request_preemptions"),
    Metric::histogram("iteration_tokens_total", "engine.step_tokens"),
    Metric::counter("spec_decode_num_drafts", "spec.drafts"),
    Metric::counter("spec_decode_num_draft_tokens", "spec.draft_tokens"),
    Metric::counter("spec_decode_num_accepted_tokens", "spec.accepted_tokens"),
    Metric::counter("spec_decode_num_accepted_tokens_per_pos", "spec.accepted_at_position").labels(&[("position", "position")]),
    Metric::gauge("spec_decode_draft_acceptance_rate", "spec.acceptance_rate").max(),
    Metric::histogram("nixl_xfer_time_seconds", "kv.transfer_time"),
    Metric::histogram("nixl_bytes_transferred", "kv.transfer_bytes"),
    Metric::counter("nixl_num_failed_transfers", "kv.transfer_failures"),
    Metric::counter("nixl_num_kv_expired_reqs", "kv.transfer_failures").tags(&[("reason", "expired")]),
    Metric::histogram("mooncake_xfer_time_seconds", "kv.transfer_time").tags(&[("source", "mooncake")]),
    Metric::histogram("mooncake_bytes_transferred", "kv.transfer_bytes").tags(&[("source", "mooncake")]),
    Metric::counter("mooncake_num_failed_transfers", "kv.transfer_failures").tags(&[("source", "mooncake")]),
    Metric::counter("mooncake_num_failed_recvs", "kv.transfer_failures").tags(&[("source", "mooncake"), ("reason", "receive")]),
    Metric::counter("mooncake_num_kv_expired_reqs", "kv.transfer_failures").tags(&[("source", "mooncake"), ("reason", "expired")]),
    Metric::histogram("mooncake_store_operation_time_seconds", "kv.transfer_time").tags(&[("source", "mooncake_store")]),
    Metric::histogram("kv_offload_load_time", "kv.transfer_time").tags(&[("mode", "load"), ("source", "offload")]),
    Metric::histogram("kv_offload_store_time", "kv.transfer_time").tags(&[("mode", "store"), ("source", "offload")]),
    Metric::counter("kv_offload_load_bytes", "kv.transfer_bytes").tags(&[("mode", "load"), ("source", "offload")]),
    Metric::counter("kv_offload_store_bytes", "kv.transfer_bytes").tags(&[("mode", "store"), ("source", "offload")]),
    Metric::histogram("kv_block_lifetime_seconds", "kv.block_lifetime"),
    Metric::histogram("kv_block_idle_before_evict_seconds", "kv.block_idle"),
    Metric::histogram("kv_block_reuse_gap_seconds", "kv.block_reuse_gap"),
    Metric::counter("estimated_flops_per_gpu", "engine.flops"),
    Metric::counter("estimated_read_bytes_per_gpu", "engine.read_bytes"),
    Metric::counter("estimated_write_bytes_per_gpu", "engine.write_bytes"),
];

/// Series that say things in labels: `cache_config_info` and `lora_requests_info`.
pub(super) fn info(name: &str, labels: &SeriesLabels) -> Option<Info> {
    match name {
        "cache_config_info" => Some(cache_config(labels)),
        "lora_requests_info" => Some(adapters(labels)),
        _ => None,
    }
}

/// LoRA slots, and the adapters that run and wait, as lists of names. Each combination of names is a series of its own,
/// whose value is the time at which it was last true; an exporter that keeps old ones repeats them, so the settings are
/// sure and the counts are the latest combination's at best.
fn adapters(labels: &SeriesLabels) -> Info {
    let count = |key: &str| label(labels, key).split(',').filter(|name| !name.trim().is_empty()).count() as f64;
    let mut info = Info::default();
    let slots = label(labels, "max_lora");
    if !matches!(slots, "" | "0" | "None") {
        info.settings.push(("config.max_adapters".to_string(), slots.to_string()));
        info.settings.push(("config.lora".to_string(), "true".to_string()));
        info.samples.push(("engine.adapters_loaded", count("running_lora_adapters")));
        info.samples.push(("engine.adapter_waiting", count("waiting_lora_adapters")));
    }
    info
}

/// The KV cache as the engine set it up.
fn cache_config(labels: &SeriesLabels) -> Info {
    let mut info = Info::default();
    let known = |key: &str| Some(label(labels, key)).filter(|value| !matches!(*value, "" | "None"));
    for (wire, key) in [
        ("block_size", "config.block_size"),
        ("num_gpu_blocks", "config.num_gpu_blocks"),
        ("gpu_memory_utilization", "config.gpu_memory_utilization"),
        ("cache_dtype", "config.kv_dtype"),
        ("enable_prefix_caching", "config.prefix_caching"),
        ("num_gpu_blocks_override", "config.num_gpu_blocks_override"),
        ("kv_cache_memory_bytes", "config.kv_cache_memory_bytes"),
        ("swap_space_bytes", "config.swap_space"),
        ("sliding_window", "config.sliding_window"),
        ("kv_offloading_size", "config.kv_offload_gib"),
        ("kv_offloading_backend", "config.kv_offload_backend"),
    ] {
        if let Some(value) = known(wire) {
            info.settings.push((key.to_string(), crate::engines::flags::plain_value(value)));
        }
    }
    let number = |key: &str| known(key).and_then(|value| value.parse::<f64>().ok()).filter(|value| value.is_finite() && *value > 0.0);
    if let Some(block) = number("block_size") {
        info.samples.push(("kv.block_size", block));
        if let Some(blocks) = number("num_gpu_blocks") {
            info.samples.push(("kv.capacity", blocks * block));
        }
    }
    info
}
