//! llama.cpp's metric families.
//!
//! Traps: `prompt_tokens_total` left cached tokens out from 2026 on (its help text says so, and
//! `prompt_tokens_cached_total` exists since then); before it held what was evaluated as well, so it is read as computed
//! tokens. `n_busy_slots_per_decode` is a mean since the start: the mean of a window is the difference of
//! `mean x engine.steps` over the difference of `engine.steps`. `prompt_tokens_seconds` and `predicted_tokens_seconds`
//! are rates since the start, in spite of their names, and are left out. `kv_cache_usage_ratio` exists in old builds only.

use crate::engines::metric::Metric;

/// Families without their prefix and suffix.
pub(super) const METRICS: &[Metric] = &[
    Metric::gauge("requests_processing", "engine.running"),
    Metric::gauge("requests_deferred", "engine.waiting"),
    Metric::gauge("kv_cache_usage_ratio", "kv.usage").max(),
    Metric::counter("prompt_tokens", "server.computed_tokens_total").also("kv.prefix_queries"),
    Metric::counter("prompt_tokens_cached", "kv.prefix_hits").also("kv.prefix_queries"),
    Metric::counter("tokens_predicted", "server.output_tokens_total"),
    Metric::counter("prompt_seconds", "engine.forward_time").tags(&[("category", "prefill")]),
    Metric::counter("tokens_predicted_seconds", "engine.forward_time").tags(&[("category", "decode")]),
    Metric::counter("n_decode", "engine.steps"),
    Metric::gauge("n_busy_slots_per_decode", "engine.step_seqs.mean").max(),
    Metric::counter("spec_decode_num_draft_tokens", "spec.draft_tokens"),
    Metric::counter("spec_decode_num_accepted_tokens", "spec.accepted_tokens"),
];
