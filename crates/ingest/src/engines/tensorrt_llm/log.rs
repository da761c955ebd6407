//! TensorRT-LLM's log: the line per iteration (`print_iter_log: true`), limits, policies.
//!
//! An iteration's `host_step_time` is the wall time of the loop, `prev_device_step_time` the device's part of the step
//! before: where the first is far above the second the host is the limit. Every rank prints; rank 0 counts.

use crate::builder::Builder;
use crate::engines::log::{
    Iteration, LogLines, LogState, Message, add_step, dump, dump_graph_sizes, known, list_after, log, log_labels, number_after, word_after,
};
use crate::engines::tensorrt_llm::flags;
use crate::literal;

/// See [`LogLines`].
pub(super) const LOG: LogLines = LogLines {
    signs: &["[TRT-LLM]", "[TensorRT-LLM]", "tensorrt_llm", "host_step_time = "],
    lines: &[
        known("host_step_time = ", iteration),
        known("Capacity Scheduler Policy", policy),
        known("capacity_scheduler_policy", policy),
        known("paged KV cache", kv_capacity),
        known("maxNumSequences: ", limits),
        known("maxBatchSize: ", limits),
        known("maxNumTokens: ", limits),
        known("max_seq_len", arguments),
        known("LLM Args", arguments),
        known("TensorRT-LLM version: ", version),
        known("TensorRT LLM version: ", version),
        known("CUDA graph warmup", graphs),
        known("Run generation only CUDA graph", graphs),
        known("cuda_graph_batch_sizes", graphs),
    ],
};

/// `iter = 5559, global_rank = 0, rank = 0, ..., host_step_time = 50.5ms, prev_device_step_time = 48.0ms, timestamp = ...,
/// num_scheduled_requests: 3, states = {'num_ctx_requests': 2, 'num_ctx_tokens': 16384, 'num_generation_tokens': 1}`.
fn iteration(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let text = message.text;
    let Some(host_ms) = number_after(text, "host_step_time = ").filter(|ms| (0.0..=1e9).contains(ms)) else { return false };
    let is_first = !text.contains("global_rank = ") || number_after(text, "global_rank = ") == Some(0.0);
    if !is_first || matches!(message.rank, rank if !rank.is_empty() && rank != "0") {
        return true;
    }
    let own = log_labels(builder, "0", &[]);
    builder.sample(message.t_ns, "engine.host_step_time", &own, host_ms * 1e-3);
    if let Some(device_ms) = number_after(text, "prev_device_step_time = ").filter(|ms| (0.0..=1e9).contains(ms)) {
        builder.sample(message.t_ns, "engine.device_step_time", &own, device_ms * 1e-3);
    }
    let scheduled = number_after(text, "num_scheduled_requests: ").or_else(|| number_after(text, "num_scheduled_requests = "));
    if let Some(scheduled) = scheduled.filter(|count| *count >= 0.0) {
        builder.sample(message.t_ns, "engine.running", &own, scheduled);
    }
    if let Some(usage) = number_after(text, "kv_cache_util = ").filter(|usage| (0.0..=1.0).contains(usage)) {
        builder.sample(message.t_ns, "kv.usage", &own, usage);
    }
    let count = |part: &str| number_after(text, part).filter(|count| (0.0..1e12).contains(count)).map(|count| count as i64);
    let prefill_tokens = count("'num_ctx_tokens': ");
    let decode_seqs = match (scheduled, count("'num_ctx_requests': ")) {
        (Some(scheduled), Some(prompts)) => Some((scheduled as i64).saturating_sub(prompts).max(0)),
        _ => count("'num_generation_tokens': "),
    };
    let cached_tokens = count("'cached_kv_tokens': ");
    add_step(message, Iteration { elapsed_ns: (host_ms * 1e6) as i64, prefill_tokens, decode_seqs, cached_tokens }, state, builder);
    true
}

const POLICIES: &[&str] = &["GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"];

/// `[TensorRT-LLM][INFO] Capacity Scheduler Policy: GUARANTEED_NO_EVICT`, or the policy inside a dump.
fn policy(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(name) = POLICIES.iter().find(|name| message.text.contains(*name)) else { return false };
    dump(message, builder, "config.capacity_policy", name);
    log(message, builder, "capacity_policy", &[("name", (*name).to_string())]);
    if message.text.contains("max_seq_len") {
        arguments(message, state, builder);
    }
    true
}

/// `[MemUsageChange] Allocated 12.00 GiB for max tokens in paged KV cache (123456).`, or
/// `Max tokens in paged KV cache: 123456. Allocating ...`.
fn kv_capacity(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let tokens = number_after(message.text, "paged KV cache (").or_else(|| number_after(message.text, "tokens in paged KV cache: "));
    let Some(tokens) = tokens.filter(|tokens| *tokens > 0.0) else { return false };
    let own = log_labels(builder, "0", &[]);
    builder.sample(message.t_ns, "kv.capacity", &own, tokens);
    let mut fields = vec![("tokens", format!("{tokens}"))];
    if let Some(gib) = number_after(message.text, "Allocated ").filter(|gib| *gib > 0.0 && message.text.contains("GiB")) {
        builder.sample(message.t_ns, "kv.capacity_bytes", &own, gib * 1_073_741_824.0);
        fields.push(("gib", format!("{gib}")));
    }
    log(message, builder, "kv_capacity", &fields);
    true
}

/// `TRTGptModel maxNumSequences: 64`.
fn limits(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    state.start_up_seen = true;
    let mut is_known = false;
    for (part, key) in [
        ("maxBatchSize: ", "config.max_num_seqs"),
        ("maxNumTokens: ", "config.max_num_batched_tokens"),
        ("maxNumSequences: ", "config.max_num_sequences"),
    ] {
        if let Some(value) = number_after(message.text, part).filter(|value| *value >= 1.0) {
            dump(message, builder, key, &format!("{value}"));
            is_known = true;
        }
    }
    is_known
}

/// A dump of the arguments on one line: `LLM Args: ... max_batch_size=64 max_seq_len=4096 kv_cache_config=KvCacheConfig(...)`.
fn arguments(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(open) = message.text.find(['(', '{']).filter(|_| message.text.contains('=') || message.text.contains(':')) else {
        return false;
    };
    let mut count = 0;
    for (key, value) in literal::pairs(&message.text[open..]) {
        if !flags::is_of_interest(key) || literal::plain(value) == "none" {
            continue;
        }
        let mut found = Vec::new();
        flags::add(key, value, &mut found);
        count += found.len();
        for setting in found {
            dump(message, builder, &setting.key, &setting.value);
        }
    }
    state.start_up_seen |= count > 0;
    count > 0
}

fn version(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(version) =
        word_after(message.text, "version: ").filter(|word| word.len() < 30 && word.starts_with(|c: char| c.is_ascii_digit()))
    else {
        return false;
    };
    state.start_up_seen = true;
    builder.capture.manifest.subject.engine_version = version.to_string();
    log(message, builder, "banner", &[("version", version.to_string())]);
    true
}

/// `Creating CUDA graph instances for 8 batch sizes.`, `cuda_graph_batch_sizes: [1, 2, 4]`.
fn graphs(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let list = ["batch_sizes: ", "batch_sizes=", "batch sizes "].iter().find_map(|part| list_after(message.text, part));
    if let Some(list) = list {
        dump_graph_sizes(message, builder, list);
    }
    list.is_some()
}
