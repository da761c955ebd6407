//! SGLang's server flags, which are also the fields of `server_args=ServerArgs(...)` in its log.
//!
//! `chunked_prefill_size` is the most prompt tokens of one prefill batch, which is what `max_num_batched_tokens` bounds;
//! -1 turns chunking off. `speculative_num_steps` is the depth of a draft (our `speculative_tokens`);
//! `speculative_num_draft_tokens` is what the target verifies per round, which a tree makes larger.

use crate::engines::FlagSetting;
use crate::engines::flags::{FlagMap, as_is, behind, behind_command, is_program};

/// Flag and `config.` name.
const KEYS: &[(&str, &str)] = &[
    ("model_path", "model"),
    ("tp", "tensor_parallel"),
    ("tp_size", "tensor_parallel"),
    ("tensor_parallel_size", "tensor_parallel"),
    ("dp", "data_parallel"),
    ("dp_size", "data_parallel"),
    ("data_parallel_size", "data_parallel"),
    ("pp", "pipeline_parallel"),
    ("pp_size", "pipeline_parallel"),
    ("pipeline_parallel_size", "pipeline_parallel"),
    ("ep", "expert_parallel_size"),
    ("ep_size", "expert_parallel_size"),
    ("max_running_requests", "max_num_seqs"),
    ("chunked_prefill_size", "max_num_batched_tokens"),
    ("mem_fraction_static", "gpu_memory_utilization"),
    ("context_length", "max_model_len"),
    ("page_size", "block_size"),
    ("kv_cache_dtype", "kv_dtype"),
    ("speculative_algorithm", "speculative_method"),
    ("speculative_algo", "speculative_method"),
    ("speculative_num_steps", "speculative_tokens"),
    ("speculative_num_draft_tokens", "speculative_verified_tokens"),
    ("speculative_draft_model_path", "speculative_model"),
    ("cuda_graph_max_bs", "graph_max_size"),
    ("cuda_graph_max_bs_decode", "graph_max_size"),
    ("cuda_graph_bs", "graph_sizes"),
    ("cuda_graph_bs_decode", "graph_sizes"),
    ("disable_cuda_graph", "enforce_eager"),
    ("grammar_backend", "structured_output_backend"),
    ("tokenizer_worker_num", "api_processes"),
    ("detokenizer_worker_num", "detokenizer_processes"),
    ("max_loras_per_batch", "max_adapters"),
    ("enable_lora", "lora"),
    ("schedule_policy", "scheduling_policy"),
    ("moe_runner_backend", "moe_backend"),
    ("enable_hierarchical_cache", "kv_offload"),
    ("nnodes", "nodes"),
];

/// Flags of the negative.
const OPPOSITES: &[(&str, &str)] = &[("disable_radix_cache", "prefix_caching"), ("disable_overlap_schedule", "async_scheduling")];

const SHORT: &[(&str, &str)] = &[];

/// Switches without a telling start.
const SWITCHES: &[&str] =
    &["trust_remote_code", "skip_tokenizer_init", "skip_server_warmup", "log_requests", "show_time_cost", "is_embedding"];

/// See [`FlagMap`].
pub(super) const MAP: FlagMap = FlagMap {
    keys: KEYS,
    opposites: OPPOSITES,
    short: SHORT,
    switches: SWITCHES,
    nested: &[],
    in_base_unit: as_is,
    start,
    model_first: false,
};

/// Fields of the dump that explain no time, or hold addresses and secrets.
pub(super) fn is_of_interest(field: &str) -> bool {
    let is_mapped = |list: &[(&str, &str)]| list.iter().any(|(known, _)| *known == field);
    is_mapped(KEYS) || is_mapped(OPPOSITES) || KEPT.contains(&field)
}

/// Fields whose own name is the setting's.
const KEPT: &[&str] = &[
    "attention_backend",
    "prefill_attention_backend",
    "decode_attention_backend",
    "sampling_backend",
    "quantization",
    "dtype",
    "stream_interval",
    "max_prefill_tokens",
    "max_total_tokens",
    "schedule_conservativeness",
    "num_continuous_decode_steps",
    "enable_dp_attention",
    "enable_mixed_chunk",
    "enable_torch_compile",
    "disable_custom_all_reduce",
    "disable_cuda_graph_padding",
    "disaggregation_mode",
    "load_balance_method",
    "skip_tokenizer_init",
    "enable_metrics",
    "speculative_eagle_topk",
    "decode_log_interval",
    "max_queued_requests",
];

fn start(words: &[String]) -> Option<usize> {
    behind(words, |word| word.contains("sglang.launch_server") || word.contains("sglang/launch_server"))
        .or_else(|| behind_command(words, "sglang", "serve"))
        .or_else(|| {
            behind(words, |word| word.starts_with("lmsysorg/sglang") && !is_program(word, "sglang")).filter(|at| has_model(&words[*at..]))
        })
}

fn has_model(words: &[String]) -> bool {
    words.iter().any(|word| word == "--model-path" || word.starts_with("--model-path="))
}

/// True when a command line starts an SGLang server.
pub(super) fn is_command(line: &str) -> bool {
    MAP.is_command(line)
}

/// Settings of a command line, or of a list of flags alone.
pub(super) fn settings(words: &[String]) -> Vec<FlagSetting> {
    let mut found = Vec::new();
    for setting in MAP.settings(words) {
        push(setting, &mut found);
    }
    found
}

/// Adds one field of the log's dump.
pub(super) fn add(field: &str, value: &str, found: &mut Vec<FlagSetting>) {
    let mut own = Vec::new();
    MAP.add(field, value, &mut own);
    for setting in own {
        push(setting, found);
    }
}

/// A chunk size says two things: whether prompts are split, and how.
fn push(setting: FlagSetting, found: &mut Vec<FlagSetting>) {
    if setting.key == "config.max_num_batched_tokens" {
        let is_off = setting.value.starts_with('-') || setting.value == "0";
        found.push(FlagSetting { key: "config.chunked_prefill".to_string(), value: (!is_off).to_string() });
        if is_off {
            return;
        }
    }
    found.push(setting);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &[&str]) {
        let found: Vec<String> = settings(&crate::shell::words(line)).into_iter().map(|it| format!("{}={}", it.key, it.value)).collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn flags_become_settings_under_shared_names() {
        check(
            "python3 -m sglang.launch_server --model-path m --tp 2 --max-running-requests 64 --chunked-prefill-size 4096 --disable-radix-cache",
            &[
                "config.model=m",
                "config.tensor_parallel=2",
                "config.max_num_seqs=64",
                "config.chunked_prefill=true",
                "config.max_num_batched_tokens=4096",
                "config.prefix_caching=false",
            ],
        );
        check(
            "--chunked-prefill-size -1 --cuda-graph-bs 1 2 4 --disable-overlap-schedule --speculative-num-steps=3 --disable-cuda-graph",
            &[
                "config.chunked_prefill=false",
                "config.graph_sizes=1 2 4",
                "config.async_scheduling=false",
                "config.speculative_tokens=3",
                "config.enforce_eager=true",
            ],
        );
        assert!(is_command("sglang serve --model-path m") && !is_command("python -m sglang.bench_serving"));
    }
}
