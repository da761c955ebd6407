//! Text Generation Inference: `/metrics`, the launcher's flags, the router's line per request.

mod log;

use crate::engines::flags::{FlagMap, as_is, behind, is_program};
use crate::engines::metric::{Metric, SeriesLabels, label};
use crate::engines::{DefaultsQuery, Engine};

/// See [`Engine`].
pub(crate) const ENGINE: Engine = Engine {
    id: "tgi",
    aliases: &["text-generation-inference", "huggingface-tgi"],
    is_gateway: false,
    metrics: METRICS,
    prefixes: &["tgi_"],
    core_label: "engine",
    rank_labels: &[],
    info: |_, _| None,
    is_command: |line| MAP.is_command(line),
    flags: |words| MAP.settings(words),
    defaults,
    log: Some(&log::LOG),
};

fn is_prefill(labels: &SeriesLabels) -> bool {
    label(labels, "method") == "prefill"
}

fn is_decode(labels: &SeriesLabels) -> bool {
    label(labels, "method") == "decode"
}

/// Families without prefix. `tgi_batch_forward_duration` is the time of one forward pass; `tgi_request_skipped_tokens`
/// is tokens accepted from drafts per request. There is no time to first token and no KV usage: nothing stands in.
const METRICS: &[Metric] = &[
    Metric::gauge("batch_current_size", "engine.running"),
    Metric::gauge("queue_size", "engine.waiting"),
    Metric::gauge("batch_max_total_tokens", "kv.capacity"),
    Metric::counter("request_success", "server.finished"),
    Metric::counter("request_failure", "server.rejected").labels(&[("err", "reason")]),
    Metric::histogram("request_duration", "server.e2e"),
    Metric::histogram("request_queue_duration", "server.queue_time"),
    Metric::histogram("request_inference_duration", "server.inference_time"),
    Metric::histogram("request_validation_duration", "server.tokenize_time"),
    Metric::histogram("request_mean_time_per_token_duration", "server.tpot"),
    Metric::histogram("request_input_length", "server.prompt_tokens"),
    Metric::histogram("request_generated_tokens", "server.output_tokens"),
    Metric::histogram("request_skipped_tokens", "spec.accepted_tokens"),
    Metric::histogram("batch_forward_duration", "engine.step_time").only(is_prefill).tags(&[("phase", "prefill")]),
    Metric::histogram("batch_forward_duration", "engine.step_time").only(is_decode).tags(&[("phase", "decode")]),
    Metric::histogram("batch_next_size", "engine.step_seqs"),
    Metric::counter("batch_inference_count", "engine.steps"),
];

/// Flag and `config.` name.
const KEYS: &[(&str, &str)] = &[
    ("model_id", "model"),
    ("num_shard", "tensor_parallel"),
    ("max_batch_size", "max_num_seqs"),
    ("max_batch_prefill_tokens", "max_num_batched_tokens"),
    ("max_total_tokens", "max_model_len"),
    ("cuda_memory_fraction", "gpu_memory_utilization"),
    ("cuda_graphs", "graph_sizes"),
    ("quantize", "quantization"),
    ("kv_cache_dtype", "kv_dtype"),
    ("speculate", "speculative_tokens"),
];

/// See [`FlagMap`].
const MAP: FlagMap = FlagMap {
    keys: KEYS,
    opposites: &[],
    short: &[],
    switches: &["trust_remote_code", "json_output"],
    nested: &[],
    in_base_unit: as_is,
    start: |words| {
        behind(words, |word| is_program(word, "text-generation-launcher") || word.contains("huggingface/text-generation-inference"))
    },
    model_first: false,
};

/// What the launcher does when nobody says. Token limits are computed from the device and stand in its log.
fn defaults(query: &DefaultsQuery<'_>) -> Vec<(&'static str, String)> {
    let is_known = matches!(query.version.trim_start_matches('v').split('.').next(), Some("2" | "3"));
    let mut found = Vec::new();
    if is_known {
        found.push(("config.gpu_memory_utilization", "1.0".to_string()));
        found.push(("config.max_concurrent_requests", "128".to_string()));
    }
    found.retain(|(key, _)| !query.stated.contains_key(*key));
    found
}
