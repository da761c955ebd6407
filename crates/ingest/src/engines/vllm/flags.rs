//! vLLM's server flags. The same map serves the `non-default args` dict of the log.

use crate::engines::FlagSetting;
use crate::engines::flags::{FlagMap, human_count};

/// Flag (snake case) and the `config.` name it sets, where the two differ or the name is in the vocabulary.
const KEYS: &[(&str, &str)] = &[
    ("tensor_parallel_size", "tensor_parallel"),
    ("pipeline_parallel_size", "pipeline_parallel"),
    ("data_parallel_size", "data_parallel"),
    ("enable_expert_parallel", "expert_parallel"),
    ("enable_prefix_caching", "prefix_caching"),
    ("enable_chunked_prefill", "chunked_prefill"),
    ("kv_cache_dtype", "kv_dtype"),
    ("api_server_count", "api_processes"),
    ("enable_lora", "lora"),
    ("max_loras", "max_adapters"),
    ("cudagraph_capture_sizes", "graph_sizes"),
    ("cuda_graph_sizes", "graph_sizes"),
    ("max_cudagraph_capture_size", "graph_max_size"),
    ("max_seq_len_to_capture", "graph_max_seq_len"),
    ("num_speculative_tokens", "speculative_tokens"),
    ("guided_decoding_backend", "structured_output_backend"),
    ("max_seq_len", "max_model_len"),
    ("kv_offloading_size", "kv_offload_gib"),
    ("cpu_offload_gb", "weight_offload_gib"),
];

/// Flags of the negative.
const OPPOSITES: &[(&str, &str)] = &[("disable_async_scheduling", "async_scheduling")];

/// Short flags.
const SHORT: &[(&str, &str)] = &[
    ("tp", "tensor_parallel_size"),
    ("pp", "pipeline_parallel_size"),
    ("dp", "data_parallel_size"),
    ("ep", "enable_expert_parallel"),
    ("asc", "api_server_count"),
    ("q", "quantization"),
    ("O", "optimization_level"),
    ("cc", "compilation_config"),
    ("sc", "speculative_config"),
    ("ac", "attention_config"),
    ("dpl", "data_parallel_size_local"),
    ("dpa", "data_parallel_address"),
    ("dpb", "data_parallel_backend"),
    ("n", "nnodes"),
    ("r", "node_rank"),
];

/// Switches that take no value and do not start with `enable_`, `disable_` or `no_`.
const SWITCHES: &[&str] = &[
    "enforce_eager",
    "trust_remote_code",
    "async_scheduling",
    "skip_tokenizer_init",
    "calculate_kv_scales",
    "headless",
    "return_tokens_as_token_ids",
    "use_v2_block_manager",
];

/// Values that hold further settings: flag, key inside, flag that the key stands for.
const NESTED: &[(&str, &str, &str)] = &[
    ("speculative_config", "method", "speculative_method"),
    ("speculative_config", "num_speculative_tokens", "num_speculative_tokens"),
    ("speculative_config", "num_spec_tokens", "num_speculative_tokens"),
    ("compilation_config", "cudagraph_mode", "graph_mode"),
    ("compilation_config", "cudagraph_capture_sizes", "cudagraph_capture_sizes"),
    ("compilation_config", "max_cudagraph_capture_size", "max_cudagraph_capture_size"),
    ("compilation_config", "max_capture_size", "max_cudagraph_capture_size"),
    ("compilation_config", "mode", "compilation_mode"),
    ("compilation_config", "level", "compilation_mode"),
    ("speculative_config", "model", "speculative_model"),
    ("kv_transfer_config", "kv_connector", "kv_connector"),
    ("kv_transfer_config", "kv_role", "kv_role"),
    ("structured_outputs_config", "backend", "structured_output_backend"),
    ("kernel_config", "moe_backend", "moe_backend"),
    ("attention_config", "backend", "attention_backend"),
];

/// See [`FlagMap`].
const MAP: FlagMap = FlagMap {
    keys: KEYS,
    opposites: OPPOSITES,
    short: SHORT,
    switches: SWITCHES,
    nested: NESTED,
    in_base_unit,
    start: start_of_flags,
    model_first: true,
};

/// True when a command line starts a vLLM server.
pub(super) fn is_command(line: &str) -> bool {
    MAP.is_command(line)
}

/// Settings of a command line, or of a list of flags alone.
pub(super) fn settings(words: &[String]) -> Vec<FlagSetting> {
    MAP.settings(words)
}

/// Adds one flag, in base units and under its `config.` name.
pub(super) fn add(flag: &str, value: &str, found: &mut Vec<FlagSetting>) {
    MAP.add(flag, value, found);
}

/// Index of the first word after the program: behind `vllm serve`, the module, the script or the container image.
fn start_of_flags(words: &[String]) -> Option<usize> {
    words.iter().enumerate().find_map(|(at, word)| {
        let is_program = word == "vllm" || word.ends_with("/vllm");
        let is_serve = is_program && words.get(at + 1).is_some_and(|next| next == "serve");
        if is_serve {
            return Some(at + 2);
        }
        let is_server = word.contains("vllm.entrypoints") || word.contains("vllm-openai") || word.contains("vllm/entrypoints/");
        is_server.then_some(at + 1)
    })
}

/// Sizes in tokens may be written `16k` (1000s) or `16K` (1024s); the CPU swap space is in GiB.
fn in_base_unit(key: &str, value: &str) -> String {
    match key {
        "swap_space" => value.parse::<f64>().map_or_else(|_| value.to_string(), |gib| format!("{}", (gib * 1_073_741_824.0) as i64)),
        "max_model_len" | "max_num_batched_tokens" | "max_num_seqs" | "long_prefill_token_threshold" => human_count(value),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &[&str]) {
        let found: Vec<String> = settings(&crate::shell::words(line)).into_iter().map(|it| format!("{}={}", it.key, it.value)).collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn every_spelling_of_a_flag_is_read() {
        check(
            "A=1 vllm serve /m --max-num-seqs 4 --max_model_len=16k -tp 2 --no-enable-prefix-caching --enforce-eager --port 80",
            &[
                "config.model=/m",
                "config.max_num_seqs=4",
                "config.max_model_len=16000",
                "config.tensor_parallel=2",
                "config.prefix_caching=false",
                "config.enforce_eager=true",
                "config.port=80",
            ],
        );
        check("--max-num-seqs 6", &["config.max_num_seqs=6"]);
        check(
            r#"--speculative-config '{"method":"ngram","num_speculative_tokens":5}' -cc.cudagraph_mode=none --swap-space 4 -pp 4"#,
            &[
                "config.speculative_method=ngram",
                "config.speculative_tokens=5",
                "config.graph_mode=none",
                "config.swap_space=4294967296",
                "config.pipeline_parallel=4",
            ],
        );
        check(
            "docker run --gpus all -e HF_TOKEN=x vllm/vllm-openai:latest --model m --kv-cache-dtype fp8 --no-async-scheduling",
            &["config.model=m", "config.kv_dtype=fp8", "config.async_scheduling=false"],
        );
    }

    #[test]
    fn servers_are_recognized() {
        for line in [
            "vllm serve m",
            "X=1 /opt/bin/vllm serve",
            "python -m vllm.entrypoints.openai.api_server --model m",
            "docker run vllm/vllm-openai:v0.9",
        ] {
            assert!(is_command(line), "{line}");
        }
        for line in ["vllm bench serve", "sglang serve", "llama-server -m x", "(APIServer pid=1) INFO vllm"] {
            assert!(!is_command(line), "{line}");
        }
    }
}
