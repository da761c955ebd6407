//! TGI's log: one line per finished request, and the launcher's decisions.
//!
//! Durations are Rust's debug text: `1.2s`, `35.4ms`, `12.3µs`.

use crate::builder::Builder;
use crate::engines::log::{
    LogLines, LogState, Message, dump, dump_graph_sizes, known, list_after, log, log_labels, number_after, word_after,
};

/// See [`LogLines`].
pub(super) const LOG: LogLines = LogLines {
    signs: &["text_generation_launcher", "text_generation_router", "time_per_token=\"", "validation_time=\""],
    lines: &[
        known("inference_time=\"", request),
        known("max batch total tokens to ", capacity),
        known("max_batch_prefill_tokens", prefill_tokens),
        known("Using attention ", attention),
        known("Cuda Graphs are enabled for sizes", graphs),
        known("Sharding model on ", shards),
        known("Connected", ready),
        known("ExllamaV2", slow_kernel),
    ],
};

/// Parts of a request's line and what they become.
const PARTS: &[(&str, &str)] = &[
    ("total_time=\"", "server.e2e"),
    ("validation_time=\"", "server.tokenize_time"),
    ("queue_time=\"", "server.queue_time"),
    ("inference_time=\"", "server.inference_time"),
    ("time_per_token=\"", "server.tpot"),
];

/// Seconds of a duration as Rust prints it.
fn seconds(text: &str) -> Option<f64> {
    let text = text.split('"').next()?;
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let value: f64 = text[..end].parse().ok()?;
    let scale = match &text[end..] {
        "s" => 1.0,
        "ms" => 1e-3,
        "µs" | "us" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    };
    Some(value * scale).filter(|value| value.is_finite())
}

/// `generate_stream{...}: ...: Success total_time="1.2s" validation_time="..." queue_time="..." inference_time="..."
/// time_per_token="..." seed="None"`. The parameters in front hold nothing a user wrote, but none of them is read.
fn request(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let own = log_labels(builder, "0", &[]);
    let mut count = 0;
    for (part, signal) in PARTS {
        let value = message.text.rfind(part).and_then(|at| seconds(&message.text[at + part.len()..]));
        if let Some(value) = value {
            builder.sample(message.t_ns, signal, &own, value);
            count += 1;
        }
    }
    count > 0
}

/// `Setting max batch total tokens to 51200`.
fn capacity(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(tokens) = number_after(message.text, "total tokens to ").filter(|tokens| *tokens > 0.0) else { return false };
    builder.sample(message.t_ns, "kv.capacity", &log_labels(builder, "0", &[]), tokens);
    log(message, builder, "kv_capacity", &[("tokens", format!("{tokens}"))]);
    true
}

/// ``Default `max_batch_prefill_tokens` to 4096``.
fn prefill_tokens(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let rest = message.text.split("max_batch_prefill_tokens").nth(1).unwrap_or_default();
    let Some(tokens) = number_after(rest, " to ").or_else(|| number_after(rest, ": ")).filter(|tokens| *tokens >= 1.0) else {
        return false;
    };
    dump(message, builder, "config.max_num_batched_tokens", &format!("{tokens}"));
    true
}

/// `Using attention flashinfer - Prefix caching true`.
fn attention(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(name) = word_after(message.text, "Using attention ").filter(|name| name.len() < 40) else { return false };
    dump(message, builder, "config.attention_backend", name);
    let caching = word_after(message.text, "Prefix caching ").unwrap_or_default().to_ascii_lowercase();
    let is_on = caching.trim_end_matches('.');
    if matches!(is_on, "true" | "false") {
        dump(message, builder, "config.prefix_caching", is_on);
    }
    true
}

fn graphs(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(list) = list_after(message.text, "for sizes") else { return false };
    dump_graph_sizes(message, builder, list);
    true
}

fn shards(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(count) = number_after(message.text, "model on ").filter(|count| *count >= 1.0) else { return false };
    dump(message, builder, "config.tensor_parallel", &format!("{count}"));
    true
}

fn ready(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    if !message.text.trim_end().ends_with("Connected") {
        return false;
    }
    log(message, builder, "engine_initialized", &[]);
    true
}

/// `Disabling exllama v2 and using v1 instead`, `ExllamaV2 ... not installed`: the fast kernels for these weights are missing.
fn slow_kernel(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    if !message.text.contains("not") {
        return false;
    }
    log(message, builder, "slow_quantization", &[("name", "exllama".to_string())]);
    true
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn rust_durations_are_read() {
        for (text, expected) in [("1.25s\" x", 1.25), ("35.5ms\"", 0.0355), ("12.5µs\"", 1.25e-5), ("900ns\"", 9e-7)] {
            assert!((seconds(text).unwrap() - expected).abs() < 1e-12, "{text}");
        }
        assert_eq!((seconds("None\""), seconds("1.2\""), seconds("")), (None, None, None));
    }
}
