//! Lines that any Python server may write, whatever the engine: recompiles, slow paths, running out of memory.

use crate::builder::Builder;

use super::{Known, LogState, Message, known, log, number_after};

/// Messages that need no engine.
pub(super) const LINES: &[Known] = &[
    known("hit config.recompile_limit", recompile),
    known("hit config.cache_size_limit", recompile),
    known("Using a slow tokenizer", slow_tokenizer),
    known("Using default MoE config", moe_config),
    known("CUDA out of memory", out_of_memory),
    known("OutOfMemoryError", out_of_memory),
    known("EngineDeadError", engine_dead),
];

fn recompile(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let limit = number_after(message.text, "_limit (").map_or(String::new(), |limit| format!("{limit}"));
    log(message, builder, "recompile", &[("limit", limit)]);
    true
}

fn slow_tokenizer(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    log(message, builder, "slow_tokenizer", &[]);
    true
}

fn moe_config(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let field = |key: &str| message.text.split(&format!("{key}=")).nth(1).and_then(|rest| rest.split([',', '.', '\'']).next());
    let mut fields = Vec::new();
    for key in ["E", "N", "device_name", "dtype"] {
        fields.extend(field(key).map(|value| (key, value.to_string())));
    }
    if let Some(device) = field("device_name") {
        builder.capture.manifest.subject.device = device.replace('_', " ");
    }
    log(message, builder, "moe_default_config", &fields);
    true
}

fn out_of_memory(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    log(message, builder, "out_of_memory", &[]);
    true
}

fn engine_dead(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    log(message, builder, "engine_dead", &[]);
    true
}
