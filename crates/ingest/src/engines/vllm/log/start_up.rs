//! Lines of the start-up: version, flags, effective configuration, KV cache, loading times.

use crate::builder::Builder;
use crate::engines::vllm::flags;
use crate::literal;

use super::{Known, LogState, Message, dump, known, log, log_labels, number_after, word_after};

/// Start-up messages.
pub(super) const LINES: &[Known] = &[
    known("non-default args: ", arguments),
    known("Initializing a", config),
    known("KV cache size: ", kv_capacity),
    known("Maximum concurrency for ", max_concurrency),
    known("# GPU blocks: ", gpu_blocks),
    known("Available KV cache memory: ", kv_memory),
    known("init engine (profile", engine_initialized),
    known("Loading weights took ", weights_loaded),
    known("Model loading took ", model_loaded),
    known("Loading model weights took ", model_loaded),
    known("Graph capturing finished in ", graphs_captured),
    known("attention backend", attention_backend),
    known("Attention backend", attention_backend),
    known("AttentionBackendEnum.", attention_backend),
    known("Forcing ", attention_forced),
    known("Enforce eager set", eager),
    known("Chunked prefill is enabled with max_num_batched_tokens=", chunk_size),
    known("Using max model len ", model_len),
    known("Async scheduling not supported", async_off),
    known("Asynchronous scheduling is ", async_state),
    known("world_size=", world),
    known("API server version ", version),
    known("  version ", version),
    known("  model   ", banner_model),
];

fn version(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let part = if message.text.contains("API server version ") { "API server version " } else { "  version " };
    let Some(version) = word_after(message.text, part).filter(|word| word.starts_with(|c: char| c.is_ascii_digit() || c == 'v')) else {
        return false;
    };
    state.start_up_seen = true;
    let version = version.trim_start_matches('v').to_string();
    log(message, builder, "banner", &[("version", version.clone())]);
    set_version(builder, &version);
    true
}

fn set_version(builder: &mut Builder<'_>, version: &str) {
    let subject = &mut builder.capture.manifest.subject;
    subject.engine = "vllm".to_string();
    subject.engine_version = version.to_string();
    subject.engine_from = "log".to_string();
}

fn banner_model(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(model) = word_after(message.text, "  model   ").filter(|_| state.start_up_seen) else { return false };
    set_model(builder, model, false);
    true
}

/// The served name wins over the path.
fn set_model(builder: &mut Builder<'_>, model: &str, is_served_name: bool) {
    let model = crate::secrets::redact(model).into_owned();
    let subject = &mut builder.capture.manifest.subject;
    if is_served_name || subject.model.is_empty() {
        subject.model = model;
    }
}

fn arguments(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(at) = message.text.find("non-default args: ") else { return false };
    let dict = &message.text[at + "non-default args: ".len()..];
    let mut count = 0;
    for (key, value) in literal::pairs(dict) {
        count += 1;
        match key {
            "model_tag" => {}
            "served_model_name" => {
                let name = literal::items(value).first().map_or(String::new(), |name| literal::plain(name));
                set_model(builder, &name, true);
            }
            "api_key" | "hf_token" => {
                builder.setting(builder.context.replica_setting(), &format!("config.{key}"), "", "command line", message.line);
            }
            _ => {
                let mut found = Vec::new();
                flags::add(key, value, &mut found);
                for setting in found {
                    let replica = builder.context.replica_setting();
                    builder.setting(replica, &setting.key, &setting.value, "command line (non-default args in the log)", message.line);
                }
            }
        }
    }
    log(message, builder, "arguments", &[("count", count.to_string())]);
    count > 0
}

/// Keys of the config line and the `config.` names they state.
const CONFIG_KEYS: &[&str] = &[
    "max_seq_len",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "quantization",
    "enforce_eager",
    "kv_cache_dtype",
    "enable_prefix_caching",
    "use_prefix_caching",
    "enable_chunked_prefill",
    "chunked_prefill_enabled",
    "compilation_config",
    "kernel_config",
    "structured_outputs_config",
    "kv_transfer_config",
    "dtype",
    "disable_custom_all_reduce",
    "num_scheduler_steps",
];

fn config(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some((head, pairs)) = message.text.split_once("with config: ") else { return false };
    let Some(version) = head.split("(v").nth(1).and_then(|rest| rest.split(')').next()) else { return false };
    state.start_up_seen = true;
    set_version(builder, version);
    builder.facts.generation = if head.contains(" V1 ") { "V1" } else { "V0" }.to_string();
    for (key, value) in literal::pairs(pairs) {
        match key {
            "served_model_name" if value != "None" => set_model(builder, literal::unquote(value), true),
            "model" => set_model(builder, literal::unquote(value), false),
            "device_config" if value.contains("cpu") => builder.capture.manifest.subject.device = "CPU".to_string(),
            "speculative_config" if value == "None" => dump(message, builder, "config.speculative_tokens", "0"),
            _ if key == "speculative_config" || CONFIG_KEYS.contains(&key) => add_config(message, key, value, builder),
            _ => {}
        }
    }
    log(message, builder, "config", &[("version", version.to_string())]);
    true
}

fn add_config(message: &Message<'_>, key: &str, value: &str, builder: &mut Builder<'_>) {
    let flag = match key {
        "use_prefix_caching" => "enable_prefix_caching",
        "chunked_prefill_enabled" => "enable_chunked_prefill",
        other => other,
    };
    let mut found = Vec::new();
    flags::add(flag, value, &mut found);
    for setting in found {
        dump(message, builder, &setting.key, &setting.value);
    }
}

fn kv_capacity(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(tokens) = number_after(message.text, "KV cache size: ") else { return false };
    builder.sample(message.t_ns, "kv.capacity", &log_labels(builder, "0", &[]), tokens);
    log(message, builder, "kv_capacity", &[("tokens", format!("{tokens}"))]);
    if message.text.contains("CPU KV cache size") {
        builder.capture.manifest.subject.device = "CPU".to_string();
    }
    if message.text.contains("Maximum concurrency for ") {
        max_concurrency(message, state, builder);
    }
    true
}

fn max_concurrency(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let length = number_after(message.text, "Maximum concurrency for ");
    let factor = number_after(message.text, "tokens per request: ");
    let (Some(length), Some(factor)) = (length, factor) else { return false };
    log(message, builder, "max_concurrency", &[("tokens_per_request", format!("{length}")), ("requests", format!("{factor}"))]);
    true
}

fn gpu_blocks(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(blocks) = number_after(message.text, "# GPU blocks: ") else { return false };
    dump(message, builder, "config.num_gpu_blocks", &format!("{blocks}"));
    log(message, builder, "kv_capacity", &[("blocks", format!("{blocks}"))]);
    true
}

fn kv_memory(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(gib) = number_after(message.text, "Available KV cache memory: ") else { return false };
    builder.sample(message.t_ns, "kv.capacity_bytes", &log_labels(builder, "0", &[]), gib * 1_073_741_824.0);
    log(message, builder, "kv_memory", &[("gib", format!("{gib}"))]);
    true
}

fn engine_initialized(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(took) = number_after(message.text, ") took ") else { return false };
    let mut fields = vec![("seconds", format!("{took}"))];
    fields.extend(number_after(message.text, "compilation: ").map(|took| ("compilation_seconds", format!("{took}"))));
    log(message, builder, "engine_initialized", &fields);
    true
}

fn weights_loaded(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(took) = number_after(message.text, "Loading weights took ") else { return false };
    log(message, builder, "weights_loaded", &[("seconds", format!("{took}"))]);
    true
}

fn model_loaded(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(gib) = number_after(message.text, " took ") else { return false };
    let mut fields = vec![("gib", format!("{gib}"))];
    fields.extend(number_after(message.text, " and ").map(|took| ("seconds", format!("{took}"))));
    log(message, builder, "model_loaded", &fields);
    true
}

fn graphs_captured(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(took) = number_after(message.text, "finished in ") else { return false };
    let mut fields = vec![("seconds", format!("{took}"))];
    fields.extend(number_after(message.text, ", took ").map(|gib| ("gib", format!("{gib}"))));
    log(message, builder, "graphs_captured", &fields);
    true
}

fn attention_backend(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(rest) = message.text.split_once("Using ").map(|(_, rest)| rest) else { return false };
    let Some(end) = rest.find(" attention backend").or_else(|| rest.find(" backend")) else { return false };
    let name = rest[..end].trim_start_matches("AttentionBackendEnum.").replace(' ', "_");
    if name.is_empty() || name.len() > 60 {
        return false;
    }
    dump(message, builder, "config.attention_backend", &name);
    log(message, builder, "attention_backend", &[("name", name)]);
    true
}

/// `Gemma4 model has heterogeneous head dimensions. Forcing TRITON_ATTN backend to prevent ...`: not the one for the device.
fn attention_forced(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let rest = message.text.split("Forcing ").nth(1).unwrap_or_default();
    let Some(name) = rest.split(" backend").next().filter(|name| rest.contains(" backend") && name.contains("ATTN") && name.len() < 60)
    else {
        return false;
    };
    dump(message, builder, "config.attention_backend", name);
    log(message, builder, "attention_forced", &[("name", name.to_string())]);
    true
}

fn eager(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    dump(message, builder, "config.enforce_eager", "true");
    log(message, builder, "eager", &[]);
    true
}

fn chunk_size(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(tokens) = number_after(message.text, "max_num_batched_tokens=") else { return false };
    dump(message, builder, "config.chunked_prefill", "true");
    dump(message, builder, "config.max_num_batched_tokens", &format!("{tokens}"));
    true
}

fn model_len(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(tokens) = number_after(message.text, "Using max model len ") else { return false };
    dump(message, builder, "config.max_model_len", &format!("{tokens}"));
    true
}

fn async_off(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    dump(message, builder, "config.async_scheduling", "false");
    true
}

fn async_state(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(word) = word_after(message.text, "Asynchronous scheduling is ") else { return false };
    let is_on = word.starts_with("enabled");
    if !is_on && !word.starts_with("disabled") {
        return false;
    }
    dump(message, builder, "config.async_scheduling", if is_on { "true" } else { "false" });
    true
}

fn world(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(size) = number_after(message.text, "world_size=").filter(|size| (1.0..=65_536.0).contains(size)) else { return false };
    let subject = &mut builder.capture.manifest.subject;
    subject.device_count = subject.device_count.max(size as u32);
    true
}
