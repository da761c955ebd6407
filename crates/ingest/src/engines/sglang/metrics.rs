//! SGLang's metric families, 0.4 to 0.5.23.
//!
//! Traps: every scheduler rank may export (`tp_rank`, `pp_rank`, `moe_ep_rank`; with data-parallel attention `dp_rank`
//! too). Ranks of one `dp_rank` tell the same, so one of them counts and only `dp_rank` tells engines apart; what is
//! split otherwise (`is_streaming`, `mode`) is added up. `token_usage` is a
//! ratio; hybrid models have one per kind of layer, the fullest counts. `cache_hit_rate` is of the last prefill batch
//! only: hits are taken from the totals where they are exported. `kv_transfer_*` are in ms and MB, memory in GiB.
//!
//! Renames: `num_running` in some gateways' documents is `num_running_reqs`; `time_per_output_token_seconds` became
//! `inter_token_latency_seconds`; `func_latency_seconds`, `eplb_*`, storage and encoder families explain no time of a
//! request here and are left out, as are the pools of single layer kinds.

use crate::engines::Info;
use crate::engines::metric::{Metric, SeriesLabels, label};

fn is(labels: &SeriesLabels, key: &str, values: &[&str]) -> bool {
    values.contains(&label(labels, key))
}

fn is_compute(labels: &SeriesLabels) -> bool {
    is(labels, "mode", &["prefill_compute"])
}

fn is_cache(labels: &SeriesLabels) -> bool {
    is(labels, "mode", &["prefill_cache"])
}

fn is_prefill(labels: &SeriesLabels) -> bool {
    is(labels, "stage", &["prefill_forward"])
}

fn is_decode(labels: &SeriesLabels) -> bool {
    is(labels, "stage", &["decode_forward"])
}

fn is_completion(labels: &SeriesLabels) -> bool {
    let endpoint = label(labels, "endpoint");
    endpoint.ends_with("/completions") || matches!(endpoint, "/generate" | "/v1/messages" | "/v1/responses")
}

/// Bytes in a GiB and a MiB.
const GIB: f64 = 1_073_741_824.0;
const MIB: f64 = 1_048_576.0;

/// Families without their prefix and suffix.
pub(super) const METRICS: &[Metric] = &[
    Metric::gauge("num_running_reqs", "engine.running"),
    Metric::gauge("num_queue_reqs", "engine.waiting"),
    Metric::gauge("num_grammar_queue_reqs", "engine.grammar_waiting"),
    Metric::gauge("num_prefill_bootstrap_queue_reqs", "kv.fetch_waiting").tags(&[("stage", "prefill_bootstrap")]),
    Metric::gauge("num_prefill_inflight_queue_reqs", "kv.fetch_waiting").tags(&[("stage", "prefill_inflight")]),
    Metric::gauge("num_decode_prealloc_queue_reqs", "kv.fetch_waiting").tags(&[("stage", "decode_prealloc")]),
    Metric::gauge("num_decode_transfer_queue_reqs", "kv.fetch_waiting").tags(&[("stage", "decode_transfer")]),
    Metric::gauge("token_usage", "kv.usage").max(),
    Metric::gauge("full_token_usage", "kv.usage").max(),
    Metric::gauge("swa_token_usage", "kv.usage").max(),
    Metric::gauge("mamba_usage", "kv.usage").max(),
    Metric::gauge("max_total_num_tokens", "kv.capacity").max(),
    Metric::gauge("page_size", "kv.block_size").max(),
    Metric::gauge("kv_available_tokens", "kv.free"),
    Metric::gauge("kv_evictable_tokens", "kv.evictable"),
    Metric::gauge("kv_cache_memory_usage_gb", "kv.capacity_bytes").scale(GIB),
    Metric::gauge("weight_memory_usage_gb", "model.weight_bytes").scale(GIB),
    Metric::counter("num_retracted_requests", "kv.preemptions"),
    Metric::gauge("num_retracted_reqs", "engine.swapped"),
    Metric::counter("evicted_tokens", "kv.evictions"),
    Metric::counter("realtime_tokens", "server.computed_tokens_total").only(is_compute).also("kv.prefix_queries"),
    Metric::counter("realtime_tokens", "kv.prefix_hits").only(is_cache).also("kv.prefix_queries"),
    Metric::counter("cached_tokens", "server.cached_tokens_total").labels(&[("cache_source", "source")]),
    Metric::gauge("cache_hit_rate", "kv.prefix_hit_ratio").max(),
    Metric::counter("prompt_tokens", "server.prompt_tokens_total"),
    Metric::counter("generation_tokens", "server.output_tokens_total"),
    Metric::gauge("gen_throughput", "server.throughput.output").max(),
    Metric::counter("num_requests", "server.finished"),
    Metric::counter("num_aborted_requests", "server.aborted"),
    Metric::counter("http_requests", "server.http_requests").only(is_completion),
    Metric::histogram("time_to_first_token_seconds", "server.ttft"),
    Metric::histogram("inter_token_latency_seconds", "server.itl"),
    Metric::histogram("time_per_output_token_seconds", "server.itl").fallback(),
    Metric::histogram("request_time_per_output_token_seconds", "server.tpot"),
    Metric::histogram("e2e_request_latency_seconds", "server.e2e"),
    Metric::histogram("queue_time_seconds", "server.queue_time"),
    Metric::histogram("per_stage_req_latency_seconds", "server.prefill_time").only(is_prefill),
    Metric::histogram("per_stage_req_latency_seconds", "server.decode_time").only(is_decode),
    Metric::histogram("grammar_compilation_time_seconds", "server.grammar_time"),
    Metric::histogram("prompt_tokens_histogram", "server.prompt_tokens"),
    Metric::histogram("uncached_prompt_tokens_histogram", "server.computed_tokens"),
    Metric::histogram("generation_tokens_histogram", "server.output_tokens"),
    Metric::counter("spec_verify_calls", "spec.drafts"),
    Metric::gauge("spec_accept_length", "spec.acceptance_length").max(),
    Metric::gauge("spec_accept_rate", "spec.acceptance_rate").max(),
    Metric::counter("cuda_graph_passes", "engine.graph_steps").labels(&[("mode", "mode")]),
    Metric::counter("forward_execution_seconds", "engine.forward_time").labels(&[("category", "category")]),
    Metric::counter("scheduler_idle_seconds", "engine.idle_time"),
    Metric::counter("scheduler_stage_seconds", "engine.scheduler_time").labels(&[("category", "category")]),
    Metric::counter("estimated_flops_per_gpu", "engine.flops"),
    Metric::counter("estimated_read_bytes_per_gpu", "engine.read_bytes"),
    Metric::counter("estimated_write_bytes_per_gpu", "engine.write_bytes"),
    Metric::histogram("kv_transfer_latency_ms", "kv.transfer_time").scale(1e-3),
    Metric::histogram("kv_transfer_total_mb", "kv.transfer_bytes").scale(MIB),
    Metric::counter("num_transfer_failed_reqs", "kv.transfer_failures"),
    Metric::counter("num_bootstrap_failed_reqs", "kv.transfer_failures").tags(&[("reason", "bootstrap")]),
    Metric::gauge("lora_pool_slots_used", "engine.adapters_loaded"),
];

/// `cache_config_info` has the page size in a label.
pub(super) fn info(name: &str, labels: &SeriesLabels) -> Option<Info> {
    if name != "cache_config_info" {
        return None;
    }
    let mut info = Info::default();
    let page = label(labels, "page_size");
    if let Some(size) = page.parse::<f64>().ok().filter(|size| size.is_finite() && *size > 0.0) {
        info.settings.push(("config.block_size".to_string(), page.to_string()));
        info.samples.push(("kv.block_size", size));
        let pages = label(labels, "num_pages").parse::<f64>().ok().filter(|pages| pages.is_finite() && *pages > 0.0);
        info.samples.extend(pages.map(|pages| ("kv.capacity", pages * size)));
    }
    Some(info)
}
