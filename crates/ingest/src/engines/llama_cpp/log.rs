//! llama.cpp's log: what each slot found in its cache and computed, timings per request, loading.
//!
//! Requests carry no time but the log's: `prompt eval time` becomes `server.prefill_time` and the tokens computed,
//! `eval time` the decode time and tokens made. A slot's `in cache / to process` (and, in newer builds, the prompt's
//! length against the tokens computed) becomes `server.cached_tokens` and `server.prompt_tokens`.

use crate::builder::Builder;
use crate::engines::log::{LogLines, LogState, Message, count, dump, known, log, log_labels, number_after, word_after};

/// See [`LogLines`].
pub(super) const LOG: LogLines = LogLines {
    signs: &[
        "llama_model_loader:",
        "llama_model_load",
        "llama_context:",
        "llama_kv_cache",
        "llama_new_context",
        "llama_init_from_model",
        "llm_load_tensors:",
        "load_tensors:",
        "slot update_slots",
        "slot launch_slot_",
        "slot print_timing",
        "tokens | to process: ",
        " : kv cache rm - ",
        "update_slots: all slots are idle",
    ],
    lines: &[
        known("prompt eval time =", prompt_eval),
        known("eval time =", eval),
        known("in cache: ", in_cache),
        known("n_prompt_tokens = ", new_prompt),
        known("task.n_tokens = ", new_prompt),
        known("draft acceptance", drafts),
        known("graphs reused = ", graphs),
        known("defer", deferred),
        known("n_slots = ", slots),
        known("layers to GPU", offloaded),
        known("n_seq_max", context),
        known("n_ctx_per_seq", context),
        known("n_ctx_seq", context),
        known("n_batch", context),
        known("n_ubatch", context),
        known("flash_attn", context),
        known("llama_kv_cache", kv_size),
        known("KV self size", kv_size),
        known("prompt caching is disabled", no_prompt_cache),
        known("cache_prompt", cache_prompt),
        known("n_threads = ", threads),
        known("build: ", build),
        known("model loaded", ready),
    ],
};

/// Adds one request's value, with the label of the log.
fn per_request(message: &Message<'_>, builder: &mut Builder<'_>, values: &[(&str, f64)]) {
    let own = log_labels(builder, "0", &[]);
    for &(signal, value) in values.iter().filter(|(_, value)| value.is_finite() && *value >= 0.0) {
        builder.sample(message.t_ns, signal, &own, value);
    }
}

fn grow(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>, by: &[(&str, f64)]) {
    let own = log_labels(builder, "0", &[]);
    for &(signal, by) in by {
        count(message, state, builder, signal, &own, by);
    }
}

/// `8000.12 ms /   809 tokens` behind the equals sign.
fn milliseconds_and_tokens(text: &str) -> Option<(f64, f64)> {
    let rest = text.split("time =").nth(1)?;
    let took = rest.split(" ms").next()?.trim().parse::<f64>().ok().filter(|took| took.is_finite() && *took >= 0.0)?;
    let tokens = number_after(rest, " ms /").filter(|tokens| *tokens >= 0.0)?;
    Some((took, tokens))
}

/// `slot print_timing: id 0 | task 1 | prompt eval time = 8000.12 ms / 809 tokens (9.89 ms per token, 101.12 tokens per second)`.
fn prompt_eval(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some((took, tokens)) = milliseconds_and_tokens(message.text) else { return false };
    per_request(message, builder, &[("server.prefill_time", took * 1e-3), ("server.computed_tokens", tokens)]);
    grow(message, state, builder, &[("server.computed_tokens_total", tokens)]);
    log(message, builder, "prompt_evaluated", &[("seconds", format!("{}", (took * 1e3).round() / 1e6)), ("tokens", format!("{tokens}"))]);
    true
}

fn eval(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some((took, tokens)) = milliseconds_and_tokens(message.text) else { return false };
    let mut values = vec![("server.decode_time", took * 1e-3), ("server.output_tokens", tokens)];
    if tokens >= 1.0 {
        values.push(("server.tpot", took * 1e-3 / tokens));
    }
    per_request(message, builder, &values);
    grow(message, state, builder, &[("server.output_tokens_total", tokens)]);
    log(message, builder, "evaluated", &[("seconds", format!("{}", (took * 1e3).round() / 1e6)), ("tokens", format!("{tokens}"))]);
    true
}

/// `slot 0 : in cache: 0 tokens | to process: 809 tokens`.
fn in_cache(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let (Some(cached), Some(computed)) = (number_after(message.text, "in cache: "), number_after(message.text, "to process: ")) else {
        return false;
    };
    prompt(message, cached + computed, cached, state, builder);
    true
}

/// `new prompt, n_ctx_slot = 4096, n_keep = 0, n_prompt_tokens = 809` (`task.n_tokens` in newer builds); with
/// `n_past = 736` or `n_cached` behind it what the slot keeps is known as well.
fn new_prompt(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    if !message.text.contains("new prompt") && !message.text.contains("prompt tokenized") {
        return false;
    }
    let tokens = number_after(message.text, "n_prompt_tokens = ").or_else(|| number_after(message.text, "task.n_tokens = "));
    let Some(tokens) = tokens.filter(|tokens| *tokens >= 0.0) else { return false };
    match number_after(message.text, "n_past = ") {
        Some(cached) => prompt(message, tokens, cached, state, builder),
        None => per_request(message, builder, &[("server.prompt_tokens", tokens)]),
    }
    true
}

fn prompt(message: &Message<'_>, tokens: f64, cached: f64, state: &mut LogState, builder: &mut Builder<'_>) {
    per_request(message, builder, &[("server.prompt_tokens", tokens), ("server.cached_tokens", cached)]);
    grow(message, state, builder, &[("kv.prefix_queries", tokens), ("kv.prefix_hits", cached)]);
    log(message, builder, "prompt", &[("tokens", format!("{tokens}")), ("cached", format!("{cached}"))]);
}

/// `draft acceptance rate = 0.57576 (171 accepted / 297 generated)`.
fn drafts(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let inside = message.text.split('(').nth(1).unwrap_or_default();
    let accepted = inside.split(" accepted").next().and_then(|text| text.trim().parse::<f64>().ok());
    let (Some(accepted), Some(drafted)) = (accepted, number_after(inside, "accepted /")) else { return false };
    grow(message, state, builder, &[("spec.accepted_tokens", accepted), ("spec.draft_tokens", drafted)]);
    if let Some(length) = number_after(message.text, "mean len = ").filter(|length| *length >= 0.0) {
        per_request(message, builder, &[("spec.acceptance_length", length)]);
    }
    true
}

/// `graphs reused = 97`: since the server's start.
fn graphs(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(reused) = number_after(message.text, "graphs reused = ") else { return false };
    log(message, builder, "graphs_reused", &[("count", format!("{reused}"))]);
    true
}

/// `no slot is available, defer task`: a request that found every slot taken.
fn deferred(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    if !message.text.contains("slot") || !message.text.contains("task") {
        return false;
    }
    log(message, builder, "deferred", &[]);
    true
}

fn slots(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(count) = number_after(message.text, "n_slots = ").filter(|count| *count >= 1.0) else { return false };
    state.start_up_seen = true;
    dump(message, builder, "config.max_num_seqs", &format!("{count}"));
    true
}

/// `load_tensors: offloaded 33/33 layers to GPU`.
fn offloaded(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some((done, all)) = word_after(message.text, "offloaded ").and_then(|word| word.split_once('/')) else { return false };
    let (Ok(done), Ok(all)) = (done.parse::<u32>(), all.parse::<u32>()) else { return false };
    state.start_up_seen = true;
    dump(message, builder, "config.offloaded_layers", &done.to_string());
    dump(message, builder, "config.layers", &all.to_string());
    builder.sample(message.t_ns, "model.offloaded_layers", &log_labels(builder, "0", &[]), f64::from(done));
    log(message, builder, "offloaded", &[("layers", done.to_string()), ("of", all.to_string())]);
    true
}

/// `llama_context: n_batch       = 2048` and the like, one per line.
const CONTEXT: &[(&str, &str)] = &[
    ("n_seq_max", "config.max_num_seqs"),
    ("n_ctx_per_seq", "config.max_model_len"),
    ("n_ctx_seq", "config.max_model_len"),
    ("n_batch", "config.max_num_batched_tokens"),
    ("n_ubatch", "config.ubatch_size"),
    ("flash_attn", "config.flash_attention"),
];

fn context(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    if !["llama_context:", "llama_new_context", "llama_init"].iter().any(|part| message.text.contains(part)) {
        return false;
    }
    let Some((left, value)) = message.text.split_once('=') else { return false };
    let name = left.split_whitespace().last().unwrap_or_default();
    let Some((_, key)) = CONTEXT.iter().find(|(known, _)| *known == name) else { return false };
    state.start_up_seen = true;
    let value = value.split_whitespace().next().unwrap_or_default();
    if value.is_empty() || value.len() > 20 || value.parse::<u64>().is_err() && *key != "config.flash_attention" {
        return false;
    }
    dump(message, builder, key, value);
    true
}

/// `llama_kv_cache: size = 512.00 MiB (4096 cells, 32 layers, 4/4 seqs), K (f16): 256.00 MiB, V (f16): 256.00 MiB`.
fn kv_size(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let text = message.text;
    let mib = number_after(text, " size = ").or_else(|| number_after(text, "self size  =")).filter(|mib| *mib > 0.0);
    let Some(mib) = mib.filter(|_| text.contains(" MiB")) else { return false };
    let own = log_labels(builder, "0", &[]);
    builder.sample(message.t_ns, "kv.capacity_bytes", &own, mib * 1_048_576.0);
    let cells = text.split('(').nth(1).and_then(|inside| inside.split(" cells").next()).and_then(|text| text.trim().parse::<f64>().ok());
    let mut fields = vec![("mib", format!("{mib}"))];
    if let Some(cells) = cells.filter(|cells| *cells > 0.0 && cells.is_finite()) {
        builder.sample(message.t_ns, "kv.capacity", &own, cells);
        fields.push(("tokens", format!("{cells}")));
    }
    let dtype = text.split("K (").nth(1).and_then(|rest| rest.split(')').next()).filter(|dtype| dtype.len() < 10);
    if let Some(dtype) = dtype {
        dump(message, builder, "config.kv_dtype", dtype);
    }
    log(message, builder, "kv_capacity", &fields);
    true
}

fn no_prompt_cache(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    dump(message, builder, "config.prefix_caching", "false");
    true
}

/// `cache_prompt: false`, `cache_prompt = 1` in a dump of parameters.
fn cache_prompt(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let rest = message.text.split("cache_prompt").nth(1).unwrap_or_default();
    let value = rest.trim_start_matches(['"', ' ', ':', '=']).split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let is_on = match value {
        "true" | "1" => "true",
        "false" | "0" => "false",
        _ => return false,
    };
    dump(message, builder, "config.prefix_caching", is_on);
    true
}

/// `system_info: n_threads = 8 (n_threads_batch = 8) / 16 | ...`.
fn threads(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(count) = number_after(message.text, "n_threads = ").filter(|count| *count >= 1.0) else { return false };
    dump(message, builder, "config.threads", &format!("{count}"));
    true
}

/// `build: 4567 (abcdef0) with cc ...`.
fn build(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(number) = word_after(message.text, "build: ").filter(|word| word.len() < 9 && word.bytes().all(|byte| byte.is_ascii_digit()))
    else {
        return false;
    };
    state.start_up_seen = true;
    builder.capture.manifest.subject.engine_version = number.to_string();
    log(message, builder, "banner", &[("version", number.to_string())]);
    true
}

fn ready(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    log(message, builder, "engine_initialized", &[]);
    true
}
