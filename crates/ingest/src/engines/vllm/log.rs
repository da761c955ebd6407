//! vLLM's log lines: what each known message tells, as a list of matchers over the message text.
//!
//! Only numbers and names from known places of known messages are kept; free text (requests with their prompts,
//! exception texts) never is. The prefix, times and the reading itself are `formats/vllm_log.rs`.

use crate::builder::Builder;
use crate::engines::vllm::flags;
use crate::literal;
use crate::number::parse_grouped;

mod periodic;

/// One line, taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) t_ns: i64,
    pub(crate) level: &'a str,
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    pub(crate) line: u64,
}

/// Running totals that the log only tells per interval, and the place of the last step.
#[derive(Default)]
pub(crate) struct LogState {
    pub(crate) preemptions: f64,
    pub(crate) draft_tokens: f64,
    pub(crate) accepted_tokens: f64,
    pub(crate) last_step_end_ns: i64,
    /// The banner's "version" line was seen: a later "model" line belongs to it.
    pub(crate) start_up_seen: bool,
}

type Reader = fn(&Message<'_>, &mut LogState, &mut Builder<'_>) -> bool;

/// A known message: text it contains, and what reads it.
struct Known {
    part: &'static str,
    read: Reader,
}

const fn known(part: &'static str, read: Reader) -> Known {
    Known { part, read }
}

/// Messages of vLLM, most frequent first.
const LINES: &[Known] = &[
    known("Running: ", periodic::scheduler),
    known("SpecDecoding metrics: ", periodic::speculation),
    known("Iteration(", periodic::iteration),
    known("is preempted by PreemptionMode", preempted),
    known("non-default args: ", arguments),
    known("Initializing a", config),
    known("KV cache size: ", kv_capacity),
    known("Maximum concurrency for ", max_concurrency),
    known("# GPU blocks: ", gpu_blocks),
    known("# CPU blocks: ", gpu_blocks),
    known("Available KV cache memory: ", kv_memory),
    known("init engine (profile", engine_initialized),
    known("Loading weights took ", weights_loaded),
    known("Model loading took ", model_loaded),
    known("Loading model weights took ", model_loaded),
    known("Graph capturing finished in ", graphs_captured),
    known("attention backend", attention_backend),
    known("Attention backend", attention_backend),
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

/// Messages that any Python server may write, whatever the engine.
const COMMON: &[Known] = &[
    known("hit config.recompile_limit", recompile),
    known("hit config.cache_size_limit", recompile),
    known("Using a slow tokenizer", slow_tokenizer),
    known("Using default MoE config", moe_config),
    known("CUDA out of memory", out_of_memory),
    known("OutOfMemoryError", out_of_memory),
    known("EngineDeadError", engine_dead),
];

/// Reads one message; false when it is none we know.
pub(crate) fn message(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let lists = LINES.iter().chain(COMMON);
    lists.filter(|known| message.text.contains(known.part)).any(|known| (known.read)(message, state, builder))
}

/// Looks for messages that need no engine in a line of an unknown log.
pub(crate) fn common_line(line: &[u8], number: u64, builder: &mut Builder<'_>) {
    if line.len() > 4096 {
        return;
    }
    let text = String::from_utf8_lossy(line);
    let message = Message { t_ns: 0, level: "", file: "", text: &text, line: number };
    let found = COMMON.iter().find(|known| text.contains(known.part));
    if let Some(known) = found {
        (known.read)(&message, &mut LogState::default(), builder);
    }
}

/// True when a line of text shows that the log is vLLM's.
pub(crate) fn is_vllm(text: &[u8]) -> bool {
    const SIGNS: &[&str] = &[
        "non-default args: ",
        " LLM engine (v",
        "Avg generation throughput: ",
        "KV cache size: ",
        " vLLM ",
        "vllm/",
        "[loggers.py:",
        "(EngineCore",
        "Waiting: ",
    ];
    let found = SIGNS.iter().filter(|sign| memchr::memmem::find(text, sign.as_bytes()).is_some()).count();
    let is_lone_sign =
        memchr::memmem::find(text, b"Avg generation throughput: ").is_some() || memchr::memmem::find(text, b" LLM engine (v").is_some();
    found >= 2 || is_lone_sign || memchr::memmem::find(text, b"KV cache size: ").is_some()
}

/// The number that follows `part`, thousands separators allowed.
pub(super) fn number_after(text: &str, part: &str) -> Option<f64> {
    let rest = &text[text.find(part)? + part.len()..];
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | 'e'))).unwrap_or(rest.len());
    parse_grouped(rest[..end].trim_end_matches(['.', ',']))
}

/// The word that follows `part`.
fn word_after<'t>(text: &'t str, part: &str) -> Option<&'t str> {
    let rest = text[text.find(part)? + part.len()..].trim_start();
    let word = rest.split(|c: char| c.is_whitespace() || matches!(c, ',' | ')' | '"')).next()?;
    (!word.is_empty()).then_some(word)
}

fn log(message: &Message<'_>, builder: &mut Builder<'_>, kind: &str, fields: &[(&str, String)]) {
    let text: Vec<String> = fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
    builder.log(message.t_ns, message.level, message.file, kind, &text.join(" "), message.line);
}

fn dump(message: &Message<'_>, builder: &mut Builder<'_>, key: &str, value: &str) {
    builder.setting(builder.context.replica_setting(), key, value, "start-up dump", message.line);
}

/// Labels of a sample read from this log.
pub(super) fn log_labels(builder: &Builder<'_>, engine: &str, more: &[(&str, &str)]) -> String {
    let mut pairs = vec![("replica", builder.context.replica_label()), ("engine", engine), ("source", "log")];
    pairs.extend_from_slice(more);
    capture::labels::canonical(&pairs)
}

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
