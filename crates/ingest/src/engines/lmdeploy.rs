//! LMDeploy: metrics (`--enable-metrics`) and flags of `lmdeploy serve api_server`.
//!
//! Two queues: the engine's (`num_requests_waiting`) and the API's (`num_api_requests_waiting`).

use crate::engines::Engine;
use crate::engines::flags::{FlagMap, as_is, behind};
use crate::engines::metric::Metric;

/// See [`Engine`].
pub(crate) const ENGINE: Engine = {
    let mut engine = Engine::of_metrics("lmdeploy", &["lmdeploy:"], METRICS);
    engine.is_command = |line| MAP.is_command(line);
    engine.flags = |words| MAP.settings(words);
    engine
};

const METRICS: &[Metric] = &[
    Metric::gauge("num_requests_running", "engine.running"),
    Metric::gauge("num_requests_waiting", "engine.waiting"),
    Metric::gauge("num_api_requests_waiting", "engine.waiting").tags(&[("reason", "api")]),
    Metric::gauge("gpu_cache_usage_perc", "kv.usage").max(),
    Metric::gauge("prefix_cache_hit_rate", "kv.prefix_hit_ratio").max(),
    Metric::counter("prompt_tokens", "server.prompt_tokens_total").also("kv.prefix_queries"),
    Metric::counter("cached_tokens", "kv.prefix_hits"),
    Metric::counter("generation_tokens", "server.output_tokens_total"),
    Metric::histogram("time_to_first_token_seconds", "server.ttft"),
    Metric::histogram("iter_token_latency", "server.itl"),
    Metric::histogram("time_per_output_token_seconds", "server.tpot"),
    Metric::histogram("e2e_request_latency_seconds", "server.e2e"),
    Metric::histogram("request_queue_time_seconds", "server.queue_time"),
    Metric::histogram("request_prefill_time_seconds", "server.prefill_time"),
    Metric::histogram("request_decode_time_seconds", "server.decode_time"),
    Metric::histogram("request_inference_time_seconds", "server.inference_time"),
    Metric::histogram("iteration_tokens_total", "engine.step_tokens"),
    Metric::counter("spec_decode_num_draft_tokens", "spec.draft_tokens"),
    Metric::counter("spec_decode_num_accepted_tokens", "spec.accepted_tokens"),
    Metric::gauge("num_requests_succeeded", "server.finished"),
    Metric::gauge("num_requests_failed", "server.finished").tags(&[("finish", "error")]),
];

const MAP: FlagMap = FlagMap {
    keys: &[
        ("model_path", "model"),
        ("tp", "tensor_parallel"),
        ("dp", "data_parallel"),
        ("max_batch_size", "max_num_seqs"),
        ("session_len", "max_model_len"),
        ("cache_max_entry_count", "gpu_memory_utilization"),
        ("cache_block_seq_len", "block_size"),
        ("max_prefill_token_num", "max_num_batched_tokens"),
        ("quant_policy", "kv_dtype"),
        ("enable_prefix_caching", "prefix_caching"),
        ("eager_mode", "enforce_eager"),
    ],
    opposites: &[],
    short: &[],
    switches: &["eager_mode"],
    nested: &[],
    in_base_unit: as_is,
    start: |words| {
        let is_lmdeploy = words.iter().any(|word| word == "lmdeploy" || word.ends_with("/lmdeploy"));
        behind(words, |word| word == "api_server").filter(|_| is_lmdeploy)
    },
    model_first: true,
};
