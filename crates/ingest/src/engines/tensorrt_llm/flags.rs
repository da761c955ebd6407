//! Flags of `trtllm-serve`, which also stand in the file of `--extra_llm_api_options` and in the log's dump.

use crate::engines::FlagSetting;
use crate::engines::flags::{FlagMap, as_is, behind, behind_command, is_program};

/// Flag and `config.` name.
const KEYS: &[(&str, &str)] = &[
    ("max_batch_size", "max_num_seqs"),
    ("max_num_tokens", "max_num_batched_tokens"),
    ("max_seq_len", "max_model_len"),
    ("tp_size", "tensor_parallel"),
    ("tensor_parallel_size", "tensor_parallel"),
    ("pp_size", "pipeline_parallel"),
    ("pipeline_parallel_size", "pipeline_parallel"),
    ("ep_size", "expert_parallel_size"),
    ("moe_expert_parallel_size", "expert_parallel_size"),
    ("kv_cache_free_gpu_memory_fraction", "gpu_memory_utilization"),
    ("free_gpu_memory_fraction", "gpu_memory_utilization"),
    ("kv_cache_dtype", "kv_dtype"),
    ("enable_block_reuse", "prefix_caching"),
    ("enable_chunked_prefill", "chunked_prefill"),
    ("enable_chunked_context", "chunked_prefill"),
    ("capacity_scheduler_policy", "capacity_policy"),
    ("num_postprocess_workers", "api_processes"),
    ("attn_backend", "attention_backend"),
    ("guided_decoding_backend", "structured_output_backend"),
    ("tokens_per_block", "block_size"),
    ("stream_interval", "stream_interval"),
    ("max_draft_len", "speculative_tokens"),
];

/// Flags of the negative.
const OPPOSITES: &[(&str, &str)] = &[("disable_overlap_scheduler", "async_scheduling"), ("disable_kv_cache_reuse", "prefix_caching")];

const NESTED: &[(&str, &str, &str)] = &[
    ("kv_cache_config", "free_gpu_memory_fraction", "free_gpu_memory_fraction"),
    ("kv_cache_config", "enable_block_reuse", "enable_block_reuse"),
    ("kv_cache_config", "dtype", "kv_cache_dtype"),
    ("kv_cache_config", "tokens_per_block", "tokens_per_block"),
    ("kv_cache_config", "host_cache_size", "host_cache_size"),
    ("scheduler_config", "capacity_scheduler_policy", "capacity_scheduler_policy"),
    ("cuda_graph_config", "batch_sizes", "graph_sizes"),
    ("cuda_graph_config", "max_batch_size", "graph_max_size"),
    ("cuda_graph_config", "enable_padding", "graph_padding"),
    ("moe_config", "backend", "moe_backend"),
    ("speculative_config", "max_draft_len", "max_draft_len"),
    ("speculative_config", "decoding_type", "speculative_method"),
];

/// See [`FlagMap`].
const MAP: FlagMap = FlagMap {
    keys: KEYS,
    opposites: OPPOSITES,
    short: &[],
    switches: &["trust_remote_code"],
    nested: NESTED,
    in_base_unit: as_is,
    start,
    model_first: true,
};

fn start(words: &[String]) -> Option<usize> {
    behind_command(words, "trtllm-serve", "serve").or_else(|| behind(words, |word| is_program(word, "trtllm-serve")))
}

/// True when a command line starts a TensorRT-LLM server.
pub(super) fn is_command(line: &str) -> bool {
    MAP.is_command(line)
}

/// Settings of a command line, or of a list of flags alone.
pub(super) fn settings(words: &[String]) -> Vec<FlagSetting> {
    MAP.settings(words)
}

/// Fields of a dump that are settings.
pub(super) fn is_of_interest(field: &str) -> bool {
    [KEYS, OPPOSITES].iter().any(|list| list.iter().any(|(known, _)| *known == field)) || NESTED.iter().any(|(outer, ..)| *outer == field)
}

/// Adds one field of a dump.
pub(super) fn add(field: &str, value: &str, found: &mut Vec<FlagSetting>) {
    MAP.add(field, value, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_settings_under_shared_names() {
        let line = "trtllm-serve meta/m --max_batch_size 64 --max_num_tokens=4096 --tp_size 2 --kv_cache_free_gpu_memory_fraction 0.8";
        let found: Vec<String> = settings(&crate::shell::words(line)).into_iter().map(|it| format!("{}={}", it.key, it.value)).collect();
        let expected = [
            "config.model=meta/m",
            "config.max_num_seqs=64",
            "config.max_num_batched_tokens=4096",
            "config.tensor_parallel=2",
            "config.gpu_memory_utilization=0.8",
        ];
        assert_eq!(found, expected);
        assert!(is_command("mpirun -n 2 trtllm-serve serve m") && !is_command("trtllm-bench --model m"));
    }
}
