//! vLLM's recurring lines: the scheduler's every 10 s, speculation's, and the opt-in line per iteration.

use crate::builder::Builder;
use crate::engines::log::{Iteration, add_step};

use super::{Known, LogState, Message, known, log, log_labels, number_after, word_after};

/// Recurring messages.
pub(super) const LINES: &[Known] = &[
    known("Running: ", scheduler),
    known("SpecDecoding metrics: ", speculation),
    known("Iteration(", iteration),
    known("is preempted by PreemptionMode", preempted),
    known("Prefix cache hit rate: GPU: ", prefix_rate),
    known("MFU: ", mfu),
    known("KV Transfer metrics: ", transfers),
];

/// Fields of the scheduler line: text before the number, field name, factor to the base unit.
const FIELDS: &[(&str, &str, f64)] = &[
    ("Avg prompt throughput: ", "prompt_tokens_per_s", 1.0),
    ("Avg generation throughput: ", "output_tokens_per_s", 1.0),
    ("Running: ", "running", 1.0),
    ("Swapped: ", "swapped", 1.0),
    ("Pending: ", "waiting", 1.0),
    ("Waiting: ", "waiting", 1.0),
    ("Deferred: ", "deferred", 1.0),
    ("Preemptions: ", "preemptions", 1.0),
    ("Prefix cache hit rate: ", "prefix_hit_frac", 0.01),
    ("External prefix cache hit rate: ", "external_prefix_hit_frac", 0.01),
    ("MM cache hit rate: ", "mm_hit_frac", 0.01),
];

/// `Engine 000: Avg prompt throughput: 131.6 tokens/s, ..., Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, ...`.
fn scheduler(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let text = message.text;
    if !text.contains(" reqs") {
        return false;
    }
    let engine = engine_of(text);
    let mut fields = vec![("engine", engine.clone())];
    for part in text.split(", ") {
        let part = part.strip_prefix("Engine ").and_then(|rest| rest.split_once(": ")).map_or(part, |(_, rest)| rest);
        if let Some((_, name, scale)) = FIELDS.iter().find(|(start, ..)| part.starts_with(start))
            && let Some(value) = number_after(part, ": ")
        {
            fields.push((name, format!("{}", (value * scale * 1e9).round() / 1e9)));
        } else if part.contains("KV cache usage: ") && !is_swap_usage(part, text) {
            fields.extend(number_after(part, "usage: ").map(|value| ("kv_usage_frac", format!("{}", (value * 1e7).round() / 1e9))));
        }
    }
    let own = log_labels(builder, &engine, &[]);
    let deferred = log_labels(builder, &engine, &[("reason", "deferred")]);
    for (name, text) in &fields {
        let Ok(value) = text.parse::<f64>() else { continue };
        match *name {
            "running" => builder.sample(message.t_ns, "engine.running", &own, value),
            "waiting" => builder.sample(message.t_ns, "engine.waiting", &own, value),
            "swapped" => builder.sample(message.t_ns, "engine.swapped", &own, value),
            "deferred" => builder.sample(message.t_ns, "engine.waiting", &deferred, value),
            "kv_usage_frac" => builder.sample(message.t_ns, "kv.usage", &own, value),
            "prefix_hit_frac" => builder.sample(message.t_ns, "kv.prefix_hit_ratio", &own, value),
            "prompt_tokens_per_s" => builder.sample(message.t_ns, "server.throughput.prompt", &own, value),
            "output_tokens_per_s" => builder.sample(message.t_ns, "server.throughput.output", &own, value),
            "preemptions" => {
                state.preemptions += value;
                builder.sample(message.t_ns, "kv.preemptions", &own, state.preemptions);
            }
            _ => {}
        }
    }
    log(message, builder, "periodic", &fields);
    true
}

/// V0 prints the usage of the CPU swap space beside that of the GPU.
fn is_swap_usage(part: &str, text: &str) -> bool {
    part.starts_with("CPU KV cache usage") && text.contains("GPU KV cache usage")
}

/// `Engine 003: ` -> `3`.
pub(super) fn engine_of(text: &str) -> String {
    let Some(rest) = text.split("Engine ").nth(1) else { return "0".to_string() };
    let digits = &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
    let number = digits.trim_start_matches('0');
    if number.is_empty() { "0".to_string() } else { number.to_string() }
}

/// `SpecDecoding metrics: Mean acceptance length: .., Accepted: .. tokens, Drafted: .. tokens, Per-position acceptance rate: ..`.
fn speculation(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let text = message.text;
    let (Some(accepted), Some(drafted)) = (number_after(text, "Accepted: "), number_after(text, "Drafted: ")) else { return false };
    state.accepted_tokens += accepted;
    state.draft_tokens += drafted;
    let own = log_labels(builder, "0", &[]);
    let mut fields = vec![("accepted_tokens", format!("{accepted}")), ("draft_tokens", format!("{drafted}"))];
    if let Some(length) = number_after(text, "Mean acceptance length: ") {
        builder.sample(message.t_ns, "spec.acceptance_length", &own, length);
        fields.push(("acceptance_length", format!("{length}")));
    }
    if drafted > 0.0 {
        builder.sample(message.t_ns, "spec.acceptance_rate", &own, accepted / drafted);
    }
    builder.sample(message.t_ns, "spec.draft_tokens", &own, state.draft_tokens);
    builder.sample(message.t_ns, "spec.accepted_tokens", &own, state.accepted_tokens);
    if let Some(rest) = text.split("Per-position acceptance rate: ").nth(1) {
        let rates: Vec<&str> = rest.split(", ").take_while(|rate| rate.parse::<f64>().is_ok()).collect();
        fields.push(("position_acceptance", rates.join(",")));
    }
    log(message, builder, "speculation", &fields);
    true
}

/// `Engine 000: Iteration(12): 1 context requests, 80 context tokens, 3 generation requests, 3 generation tokens,
/// iteration elapsed time: 12.3 ms`. The log has whole seconds: steps are laid end to end within their second.
fn iteration(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let text = message.text;
    let Some(elapsed_ms) = number_after(text, "elapsed time: ") else { return false };
    let part = |end: &str| {
        let part = text.split([',', ':']).map(str::trim).find_map(|part| part.strip_suffix(end))?;
        part.trim().parse::<i64>().ok()
    };
    let (prefill, decode) = (part(" context tokens"), part(" generation requests"));
    let elapsed_ns = (elapsed_ms * 1e6) as i64;
    add_step(message, Iteration { elapsed_ns, prefill_tokens: prefill, decode_seqs: decode, cached_tokens: None }, state, builder);
    true
}

/// V0: "Prefix cache hit rate: GPU: 12.50%, CPU: 0.00%".
fn prefix_rate(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(percent) = number_after(message.text, "hit rate: GPU: ").filter(|percent| (0.0..=100.0).contains(percent)) else {
        return false;
    };
    builder.sample(message.t_ns, "kv.prefix_hit_ratio", &log_labels(builder, "0", &[]), percent / 100.0);
    true
}

/// V0: "Sequence group X is preempted by PreemptionMode.RECOMPUTE mode because ... total_num_cumulative_preemption=N".
fn preempted(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let mode = word_after(message.text, "PreemptionMode.").unwrap_or_default().to_string();
    // V0 writes the line for every fiftieth preemption only, with the total so far.
    let total = number_after(message.text, "total_num_cumulative_preemption=").unwrap_or(state.preemptions + 1.0);
    state.preemptions = total;
    builder.sample(message.t_ns, "kv.preemptions", &log_labels(builder, "0", &[]), total);
    log(message, builder, "preemption", &[("mode", mode), ("total", format!("{total}"))]);
    true
}

/// `Engine 000: MFU: 12.3 TF/s/device 456.7 GB/s/device` (with `--enable-mfu-metrics`): what the model's arithmetic and
/// bytes come to, estimated by vLLM.
fn mfu(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let rest = message.text.split("MFU: ").nth(1).unwrap_or_default();
    let before = |unit: &str| rest.split(unit).next().filter(|_| rest.contains(unit))?.split_whitespace().last()?.parse::<f64>().ok();
    let (Some(tera), Some(giga)) = (before(" TF/s"), before(" GB/s")) else { return false };
    builder.sample(message.t_ns, "kernel.dram_bytes", &log_labels(builder, &engine_of(message.text), &[]), giga * 1e9);
    log(message, builder, "mfu", &[("tflops_per_s", format!("{tera}")), ("gb_per_s", format!("{giga}"))]);
    true
}

/// `KV Transfer metrics: Num successful transfers=4, Avg xfer time (ms)=1.2, ...`: keys differ by connector.
fn transfers(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let rest = message.text.split("KV Transfer metrics: ").nth(1).unwrap_or_default();
    let own = log_labels(builder, &engine_of(message.text), &[]);
    let mut fields: Vec<(String, String)> = Vec::new();
    for (key, value) in rest.split(", ").filter_map(|part| part.split_once('=')).take(24) {
        let Some(value) = value.trim().parse::<f64>().ok().filter(|value| value.is_finite()) else { continue };
        let key = key.trim().to_ascii_lowercase();
        if key == "avg xfer time (ms)" {
            builder.sample(message.t_ns, "kv.transfer_time.mean", &own, value * 1e-3);
        }
        let plain: String = key.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
        fields.push((plain, format!("{value}")));
    }
    let fields: Vec<(&str, String)> = fields.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    log(message, builder, "kv_transfer", &fields);
    true
}
