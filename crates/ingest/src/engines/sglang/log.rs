//! SGLang's log: the scheduler's lines per batch, start-up, retractions.
//!
//! `Decode batch` comes every `decode_log_interval` (40) steps, `Prefill batch` once per batch. The rank stands in the
//! line's prefix (`TP0`, `DP1 TP2`): ranks of one data-parallel rank repeat one another, so lines of tensor-parallel or
//! pipeline rank 0 count and, with data parallelism, each `DPn` is an engine of its own.

use crate::builder::Builder;
use crate::engines::log::{
    LogLines, LogState, Message, count, dump, dump_graph_sizes, known, list_after, log, log_labels, number_after, overrule, word_after,
};
use crate::engines::sglang::flags;
use crate::literal;

/// See [`LogLines`].
pub(super) const LOG: LogLines = LogLines {
    signs: &[
        "#running-req: ",
        "server_args=",
        "max_total_num_tokens=",
        "sglang.srt",
        "sglang/srt",
        "#retracted_reqs: ",
        "apture target decode CUDA graph",
        "Capture cuda graph b",
    ],
    lines: &[
        known("Decode batch", batch),
        known("Prefill batch", batch),
        known("#retracted_reqs: ", retracted),
        known("server_args=", server_args),
        known("max_total_num_tokens=", limits),
        known("Capture", capture),
        known("KV Cache is allocated", kv_allocated),
        known("Load weight end", weights_loaded),
        known("Load weight begin", weights_begin),
        known("ttention backend", attention_backend),
        known("ready to roll", ready),
        known("Overlap scheduler is disabled", no_overlap),
        known("overlap schedule is disabled", no_overlap),
        known("is using nccl==", nccl),
        known("chedule conservativeness", conservativeness),
    ],
};

/// Rank prefix as (engine, leads): only the first tensor-parallel and pipeline rank of a data-parallel rank counts.
fn place_of<'a>(message: &Message<'a>) -> (&'a str, bool) {
    let mut engine = "0";
    let mut leads = true;
    let has_dp = message.rank.split(' ').any(|part| part.starts_with("DP"));
    for part in message.rank.split(' ') {
        if let Some(rank) = part.strip_prefix("DP") {
            engine = rank;
        } else if let Some(rank) = part.strip_prefix("TP").or_else(|| part.strip_prefix("PP")) {
            // With data-parallel attention the leader of a rank has a TP number of its own; only its leader logs.
            leads &= has_dp || rank == "0";
        }
    }
    (engine, leads)
}

/// Fields of a batch line: text before the number, field name, signal, factor to the base unit.
const FIELDS: &[(&str, &str, &str, f64)] = &[
    ("#running-req: ", "running", "engine.running", 1.0),
    ("#queue-req: ", "waiting", "engine.waiting", 1.0),
    ("token usage: ", "kv_usage_frac", "kv.usage", 1.0),
    ("full token usage: ", "kv_usage_frac", "kv.usage", 1.0),
    ("swa token usage: ", "kv_usage_frac", "kv.usage", 1.0),
    ("mamba usage: ", "kv_usage_frac", "kv.usage", 1.0),
    ("gen throughput (token/s): ", "output_tokens_per_s", "server.throughput.output", 1.0),
    ("input throughput (token/s): ", "prompt_tokens_per_s", "server.throughput.prompt", 1.0),
    ("accept len: ", "acceptance_length", "spec.acceptance_length", 1.0),
    ("accept rate: ", "acceptance_frac", "spec.acceptance_rate", 1.0),
    ("#new-seq: ", "new_seqs", "", 1.0),
    ("#new-token: ", "new_tokens", "", 1.0),
    ("#cached-token: ", "cached_tokens", "", 1.0),
    ("#pending-token: ", "pending_tokens", "", 1.0),
    ("#transfer-req: ", "transfers", "", 1.0),
    ("#retracted-req: ", "retracted", "", 1.0),
    ("fwd occupancy: ", "forward_frac", "", 0.01),
];

/// `Decode batch, #running-req: 67, #token: 88120, token usage: 0.12, cuda graph: True, gen throughput (token/s): 3012.4,
/// #queue-req: 0`. The start of each part must match, so that `full token usage` is not read as `token usage`.
fn batch(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    if !message.text.contains("#running-req: ") && !message.text.contains("#new-seq: ") {
        return false;
    }
    let (engine, leads) = place_of(message);
    if !leads {
        return true;
    }
    let is_decode = message.text.contains("Decode batch");
    let own = log_labels(builder, engine, &[]);
    let mut values: Vec<(&str, &str, f64)> = Vec::new();
    let mut graph = None;
    for part in message.text.split(", ").flat_map(|part| part.split(". ")) {
        graph = graph.or(part.strip_prefix("cuda graph: ").map(|word| word.starts_with("True")));
        let Some((start, name, signal, scale)) = FIELDS.iter().find(|(start, ..)| part.starts_with(start)) else { continue };
        let Some(value) = number_after(part, start).map(|value| value * scale).filter(|value| *value >= 0.0) else { continue };
        // The fullest kind of layer decides whether a request is let in.
        match values.iter_mut().find(|(known, ..)| known == name) {
            Some(known) => known.2 = known.2.max(value),
            None => values.push((name, signal, value)),
        }
    }
    for &(_, signal, value) in values.iter().filter(|(_, signal, _)| !signal.is_empty()) {
        builder.sample(message.t_ns, signal, &own, value);
    }
    if !is_decode {
        prompt_tokens(message, &values, &own, state, builder);
    }
    if let Some(is_graph) = graph {
        let labels = log_labels(builder, engine, &[("mode", if is_graph { "graph" } else { "eager" })]);
        count(message, state, builder, "engine.graph_steps", &labels, 1.0);
    }
    let mut fields = vec![("engine", engine.to_string())];
    fields.extend(values.iter().map(|(name, _, value)| (*name, format!("{value}"))));
    fields.extend(graph.map(|is_graph| ("graph", is_graph.to_string())));
    log(message, builder, if is_decode { "periodic" } else { "prefill" }, &fields);
    true
}

/// What prefill computed and what it found in the cache, so far.
fn prompt_tokens(message: &Message<'_>, values: &[(&str, &str, f64)], own: &str, state: &mut LogState, builder: &mut Builder<'_>) {
    let of = |name: &str| values.iter().find(|(known, ..)| *known == name).map(|(.., value)| *value);
    let (Some(computed), Some(cached)) = (of("new_tokens"), of("cached_tokens")) else { return };
    for (signal, by) in [("server.computed_tokens_total", computed), ("kv.prefix_queries", computed + cached), ("kv.prefix_hits", cached)] {
        count(message, state, builder, signal, own, by);
    }
}

/// `KV cache pool is full. Retract requests. #retracted_reqs: 2, ...`; before: `Decode out of memory happened. ...`.
fn retracted(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(retracted) = number_after(message.text, "#retracted_reqs: ").filter(|count| *count >= 0.0) else { return false };
    let (engine, leads) = place_of(message);
    if !leads {
        return true;
    }
    let own = log_labels(builder, engine, &[]);
    count(message, state, builder, "kv.preemptions", &own, retracted);
    let mut fields = vec![("mode", "RETRACT".to_string()), ("count", format!("{retracted}"))];
    fields.extend(number_after(message.text, "#new_token_ratio: ").map(|ratio| ("new_token_ratio", format!("{ratio}"))));
    log(message, builder, "preemption", &fields);
    true
}

/// `server_args=ServerArgs(model_path='m', ...)` or a dict: the settings in effect, all of them.
fn server_args(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some((_, dump_text)) = message.text.split_once("server_args=") else { return false };
    state.start_up_seen = true;
    let mut settings = 0;
    for (key, value) in literal::pairs(dump_text.trim()) {
        let plain = literal::plain(value);
        match key {
            "served_model_name" | "model_path" if plain != "none" => {
                let model = crate::secrets::redact(&plain).into_owned();
                let subject = &mut builder.capture.manifest.subject;
                if key == "served_model_name" || subject.model.is_empty() {
                    subject.model = model;
                }
            }
            _ => {}
        }
        if plain == "none" || !flags::is_of_interest(key) {
            continue;
        }
        settings += 1;
        let mut found = Vec::new();
        flags::add(key, value, &mut found);
        for setting in found {
            dump(message, builder, &setting.key, &setting.value);
        }
    }
    log(message, builder, "config", &[("count", settings.to_string())]);
    settings > 0
}

/// `max_total_num_tokens=2980168, chunked_prefill_size=4096, max_prefill_tokens=16384, max_running_requests=4096,
/// context_len=32768, available_gpu_mem=6.95 GB`: what memory allowed in the end, per data-parallel rank.
fn limits(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(tokens) = number_after(message.text, "max_total_num_tokens=").filter(|tokens| *tokens >= 0.0) else { return false };
    let (engine, leads) = place_of(message);
    if !leads {
        return true;
    }
    builder.sample(message.t_ns, "kv.capacity", &log_labels(builder, engine, &[]), tokens);
    let mut found = Vec::new();
    for (part, field) in [
        ("chunked_prefill_size=", "chunked_prefill_size"),
        ("max_prefill_tokens=", "max_prefill_tokens"),
        ("max_running_requests=", "max_running_requests"),
        ("context_len=", "context_length"),
    ] {
        if let Some(value) = number_after(message.text, part) {
            flags::add(field, &format!("{value}"), &mut found);
        }
    }
    for setting in found {
        overrule(message, builder, &setting.key, &setting.value);
    }
    let mut fields = vec![("tokens", format!("{tokens}"))];
    fields.extend(number_after(message.text, "available_gpu_mem=").map(|gib| ("free_gib", format!("{gib}"))));
    log(message, builder, "kv_capacity", &fields);
    true
}

/// `Capture cuda graph bs [1, 2, 4]`, `Capture cuda graph begin`, `Capture target decode CUDA graph begin. ..., bs=[1, 2]`,
/// `Capture cuda graph end. Time elapsed: 5.20 s. mem usage=1.20 GB`. Of several kinds of graph the target's decode counts.
fn capture(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let text = message.text;
    if !text.to_ascii_lowercase().contains("cuda graph") || text.contains("failed") {
        return false;
    }
    if !place_of(message).1 {
        return true;
    }
    let is_decode = !["draft", "prefill", "extend"].iter().any(|kind| text.contains(kind));
    let list = ["bs=", "graph bs "].iter().find_map(|part| list_after(text, part));
    if let Some(list) = list.filter(|_| is_decode) {
        dump_graph_sizes(message, builder, list);
    }
    if let Some(backend) = word_after(text, "backend=").filter(|name| is_decode && name.len() < 40) {
        dump(message, builder, "config.graph_mode", backend);
    }
    let took = number_after(text, "elapsed=").or_else(|| number_after(text, "Time elapsed: "));
    if let Some(took) = took {
        let mut fields = vec![("seconds", format!("{took}"))];
        fields.extend(number_after(text, "mem usage=").map(|gib| ("gib", format!("{gib}"))));
        log(message, builder, "graphs_captured", &fields);
    }
    list.is_some() || took.is_some() || text.contains("begin")
}

/// `KV Cache is allocated. #tokens: 2980168, K size: 15.50 GB, V size: 15.50 GB`.
fn kv_allocated(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(tokens) = number_after(message.text, "#tokens: ").filter(|tokens| *tokens >= 0.0) else { return false };
    let (engine, leads) = place_of(message);
    if !leads {
        return true;
    }
    let own = log_labels(builder, engine, &[]);
    builder.sample(message.t_ns, "kv.capacity", &own, tokens);
    let sizes = ["K size: ", "V size: ", "KV size: "].iter().filter_map(|part| size_after(message.text, part));
    let gib: f64 = sizes.sum();
    let mut fields = vec![("tokens", format!("{tokens}"))];
    if gib > 0.0 {
        builder.sample(message.t_ns, "kv.capacity_bytes", &own, gib * 1_073_741_824.0);
        fields.push(("gib", format!("{gib}")));
    }
    log(message, builder, "kv_capacity", &fields);
    true
}

/// A size of its own name: `V size` is no part of `KV size`.
fn size_after(text: &str, part: &str) -> Option<f64> {
    let at = text.find(part)?;
    let is_own = !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
    number_after(&text[at..], part).filter(|gib| is_own && *gib >= 0.0)
}

fn weights_loaded(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    if place_of(message).1 {
        let mut fields = Vec::new();
        fields.extend(number_after(message.text, "elapsed=").map(|took| ("seconds", format!("{took}"))));
        fields.extend(number_after(message.text, "mem usage=").map(|gib| ("gib", format!("{gib}"))));
        log(message, builder, "weights_loaded", &fields);
    }
    true
}

fn weights_begin(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    state.start_up_seen = true;
    if place_of(message).1 {
        log(message, builder, "weights_loading", &[]);
    }
    true
}

/// `Attention backend not set. Use flashinfer backend by default.`
fn attention_backend(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(name) = word_after(message.text, "Use ").or_else(|| word_after(message.text, "Using ")) else { return false };
    let is_named = message.text.contains(&format!("{name} backend")) || message.text.contains(&format!("{name} attention backend"));
    if name.len() > 40 || !is_named {
        return false;
    }
    dump(message, builder, "config.attention_backend", name);
    true
}

fn ready(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    log(message, builder, "engine_initialized", &[]);
    true
}

fn no_overlap(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    overrule(message, builder, "config.async_scheduling", "false");
    log(message, builder, "async_scheduling_off", &[]);
    true
}

fn nccl(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(version) = word_after(message.text, "nccl==").filter(|version| version.len() < 20) else { return false };
    log(message, builder, "nccl", &[("version", version.to_string())]);
    true
}

fn conservativeness(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    log(message, builder, "schedule_conservativeness", &[]);
    true
}
