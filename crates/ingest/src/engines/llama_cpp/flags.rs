//! llama-server's flags.
//!
//! `--ctx-size` is shared by all slots: the longest request is a slot's share of it, so it keeps its own name
//! (`config.ctx_size`) and is not `max_model_len`. `--batch-size` bounds the tokens of one decode call.

use crate::engines::FlagSetting;
use crate::engines::flags::{FlagMap, as_is, behind, is_program};

/// Flag and `config.` name.
const KEYS: &[(&str, &str)] = &[
    ("parallel", "max_num_seqs"),
    ("batch_size", "max_num_batched_tokens"),
    ("n_gpu_layers", "offloaded_layers"),
    ("gpu_layers", "offloaded_layers"),
    ("cache_type_k", "kv_dtype"),
    ("cache_type_v", "kv_dtype_v"),
    ("flash_attn", "flash_attention"),
    ("cont_batching", "continuous_batching"),
    ("draft", "speculative_tokens"),
    ("draft_max", "speculative_tokens"),
    ("draft_n", "speculative_tokens"),
    ("spec_draft_n_max", "speculative_tokens"),
    ("model_draft", "speculative_model"),
    ("spec_type", "speculative_method"),
    ("cache_prompt", "prefix_caching"),
    ("cache_reuse", "prefix_reuse_chunk"),
    ("threads_http", "http_threads"),
    ("lora_init_without_apply", "lora"),
];

/// Flags of the negative.
const OPPOSITES: &[(&str, &str)] = &[("no_kv_offload", "kv_on_device"), ("no_cont_batching", "continuous_batching")];

const SHORT: &[(&str, &str)] = &[
    ("np", "parallel"),
    ("c", "ctx_size"),
    ("b", "batch_size"),
    ("ub", "ubatch_size"),
    ("ngl", "n_gpu_layers"),
    ("fa", "flash_attn"),
    ("ctk", "cache_type_k"),
    ("ctv", "cache_type_v"),
    ("sm", "split_mode"),
    ("ts", "tensor_split"),
    ("mg", "main_gpu"),
    ("t", "threads"),
    ("tb", "threads_batch"),
    ("m", "model"),
    ("md", "model_draft"),
    ("cb", "cont_batching"),
    ("nocb", "no_cont_batching"),
    ("nkvo", "no_kv_offload"),
    ("kvu", "kv_unified"),
    ("to", "timeout"),
    ("sps", "slot_prompt_similarity"),
];

const SWITCHES: &[&str] = &[
    "metrics",
    "props",
    "slots",
    "mlock",
    "no_mmap",
    "cont_batching",
    "no_cont_batching",
    "no_kv_offload",
    "kv_unified",
    "cache_prompt",
    "jinja",
    "embedding",
];

const MAP: FlagMap = FlagMap {
    keys: KEYS,
    opposites: OPPOSITES,
    short: SHORT,
    switches: SWITCHES,
    nested: &[],
    in_base_unit: as_is,
    start,
    model_first: false,
};

fn start(words: &[String]) -> Option<usize> {
    behind(words, |word| is_program(word, "llama-server") || word.starts_with("ghcr.io/ggml-org/llama.cpp:server"))
}

/// True when a command line starts a llama.cpp server.
pub(super) fn is_command(line: &str) -> bool {
    MAP.is_command(line)
}

/// Settings of a command line, or of a list of flags alone.
pub(super) fn settings(words: &[String]) -> Vec<FlagSetting> {
    MAP.settings(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_settings_under_shared_names() {
        let line = "/opt/llama-server -m model.gguf -np 4 -c 16384 -ngl 99 -ctk q8_0 --no-cont-batching -sm row --no-cache-prompt -fa on";
        let found: Vec<String> = settings(&crate::shell::words(line)).into_iter().map(|it| format!("{}={}", it.key, it.value)).collect();
        let expected = [
            "config.model=model.gguf",
            "config.max_num_seqs=4",
            "config.ctx_size=16384",
            "config.offloaded_layers=99",
            "config.kv_dtype=q8_0",
            "config.continuous_batching=false",
            "config.split_mode=row",
            "config.prefix_caching=false",
            "config.flash_attention=on",
        ];
        assert_eq!(found, expected);
        assert!(is_command(line) && !is_command("llama-cli -m x") && !is_command("llama-server-log"));
    }
}
