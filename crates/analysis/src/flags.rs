//! Names of settings as each engine and version spells them on its command line.

use capture::Subject;

/// A flag of one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Engine id.
    pub engine: &'static str,
    /// Setting it sets, without the `config.` prefix.
    pub key: &'static str,
    /// As written on the command line.
    pub flag: &'static str,
    /// Versions it exists in.
    pub valid_for: &'static str,
}

/// Flags that hypotheses may name; of several for one setting the first whose versions hold the subject's is taken.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag { engine: "vllm", key: "max_num_seqs", flag: "--max-num-seqs", valid_for: ">=0.1" },
    Flag { engine: "vllm", key: "max_num_batched_tokens", flag: "--max-num-batched-tokens", valid_for: ">=0.1" },
    Flag { engine: "vllm", key: "max_model_len", flag: "--max-model-len", valid_for: ">=0.1" },
    Flag { engine: "vllm", key: "num_gpu_blocks_override", flag: "--num-gpu-blocks-override", valid_for: ">=0.2" },
    Flag { engine: "vllm", key: "gpu_memory_utilization", flag: "--gpu-memory-utilization", valid_for: ">=0.1" },
    Flag { engine: "vllm", key: "block_size", flag: "--block-size", valid_for: ">=0.1" },
    Flag { engine: "vllm", key: "swap_space", flag: "--swap-space", valid_for: ">=0.1" },
    Flag { engine: "vllm", key: "kv_dtype", flag: "--kv-cache-dtype", valid_for: ">=0.3" },
    Flag { engine: "vllm", key: "quantization", flag: "--quantization", valid_for: ">=0.1" },
    Flag { engine: "vllm", key: "speculative_tokens", flag: "--speculative-config", valid_for: ">=0.8" },
    Flag { engine: "vllm", key: "speculative_method", flag: "--speculative-config", valid_for: ">=0.8" },
    Flag { engine: "vllm", key: "prefix_caching", flag: "--enable-prefix-caching", valid_for: ">=0.3" },
    Flag { engine: "vllm", key: "chunked_prefill", flag: "--enable-chunked-prefill", valid_for: ">=0.4" },
    Flag { engine: "vllm", key: "long_prefill_token_threshold", flag: "--long-prefill-token-threshold", valid_for: ">=0.8" },
    Flag { engine: "vllm", key: "enforce_eager", flag: "--enforce-eager", valid_for: ">=0.2" },
    Flag { engine: "vllm", key: "graph_sizes", flag: "--cudagraph-capture-sizes", valid_for: ">=0.12" },
    Flag { engine: "vllm", key: "graph_sizes", flag: "--cuda-graph-sizes", valid_for: ">=0.8.5,<0.12" },
    Flag { engine: "vllm", key: "graph_max_size", flag: "--max-cudagraph-capture-size", valid_for: ">=0.12" },
    Flag { engine: "vllm", key: "graph_mode", flag: "--compilation-config", valid_for: ">=0.6" },
    Flag { engine: "vllm", key: "attention_backend", flag: "--attention-backend", valid_for: ">=0.13" },
    Flag { engine: "vllm", key: "attention_backend", flag: "VLLM_ATTENTION_BACKEND", valid_for: ">=0.3,<0.13" },
    Flag { engine: "vllm", key: "moe_backend", flag: "--moe-backend", valid_for: "recent versions" },
    Flag { engine: "vllm", key: "tensor_parallel", flag: "--tensor-parallel-size", valid_for: ">=0.1" },
    Flag { engine: "vllm", key: "pipeline_parallel", flag: "--pipeline-parallel-size", valid_for: ">=0.1" },
    Flag { engine: "vllm", key: "data_parallel", flag: "--data-parallel-size", valid_for: ">=0.8.3" },
    Flag { engine: "vllm", key: "expert_parallel", flag: "--enable-expert-parallel", valid_for: ">=0.8" },
    Flag { engine: "vllm", key: "disable_custom_all_reduce", flag: "--disable-custom-all-reduce", valid_for: ">=0.2" },
    Flag { engine: "vllm", key: "api_processes", flag: "--api-server-count", valid_for: ">=0.9" },
    Flag { engine: "vllm", key: "stream_interval", flag: "--stream-interval", valid_for: ">=0.12" },
    Flag { engine: "vllm", key: "max_adapters", flag: "--max-loras", valid_for: ">=0.3" },
    Flag { engine: "vllm", key: "lora", flag: "--enable-lora", valid_for: ">=0.3" },
    Flag { engine: "vllm", key: "kv_connector", flag: "--kv-transfer-config", valid_for: ">=0.7" },
    Flag { engine: "vllm", key: "kv_offload", flag: "--kv-offloading-size", valid_for: ">=0.12" },
    Flag { engine: "vllm", key: "async_scheduling", flag: "--async-scheduling", valid_for: ">=0.10" },
    Flag { engine: "vllm", key: "scheduling_policy", flag: "--scheduling-policy", valid_for: ">=0.6" },
    Flag { engine: "vllm", key: "structured_output_backend", flag: "--structured-outputs-config.backend", valid_for: ">=0.11" },
    Flag { engine: "vllm", key: "structured_output_backend", flag: "--guided-decoding-backend", valid_for: ">=0.4,<0.12" },
    Flag { engine: "vllm", key: "expert_balancing", flag: "--enable-eplb", valid_for: ">=0.10" },
    Flag { engine: "sglang", key: "tensor_parallel", flag: "--tp-size", valid_for: ">=0.2" },
    Flag { engine: "sglang", key: "pipeline_parallel", flag: "--pp-size", valid_for: ">=0.4" },
    Flag { engine: "sglang", key: "expert_balancing", flag: "--enable-eplb", valid_for: ">=0.4" },
    Flag { engine: "sglang", key: "load_balance_method", flag: "--load-balance-method", valid_for: ">=0.2" },
    Flag { engine: "sglang", key: "speculative_tokens", flag: "--speculative-num-steps", valid_for: ">=0.4" },
    Flag { engine: "sglang", key: "max_num_batched_tokens", flag: "--chunked-prefill-size", valid_for: ">=0.2" },
    Flag { engine: "sglang", key: "max_model_len", flag: "--context-length", valid_for: ">=0.1" },
    Flag { engine: "sglang", key: "max_adapters", flag: "--max-loras-per-batch", valid_for: ">=0.4" },
    Flag { engine: "sglang", key: "structured_output_backend", flag: "--grammar-backend", valid_for: ">=0.4" },
    Flag { engine: "sglang", key: "block_size", flag: "--page-size", valid_for: ">=0.4" },
    Flag { engine: "sglang", key: "max_num_seqs", flag: "--max-running-requests", valid_for: ">=0.1" },
    Flag { engine: "sglang", key: "chunked_prefill", flag: "--chunked-prefill-size", valid_for: ">=0.2" },
    Flag { engine: "sglang", key: "max_prefill_tokens", flag: "--max-prefill-tokens", valid_for: ">=0.1" },
    Flag { engine: "sglang", key: "gpu_memory_utilization", flag: "--mem-fraction-static", valid_for: ">=0.1" },
    Flag { engine: "sglang", key: "kv_dtype", flag: "--kv-cache-dtype", valid_for: ">=0.3" },
    Flag { engine: "sglang", key: "quantization", flag: "--quantization", valid_for: ">=0.1" },
    Flag { engine: "sglang", key: "speculative_method", flag: "--speculative-algorithm", valid_for: ">=0.4" },
    Flag { engine: "sglang", key: "prefix_caching", flag: "--disable-radix-cache", valid_for: ">=0.1" },
    Flag { engine: "sglang", key: "enforce_eager", flag: "--disable-cuda-graph", valid_for: ">=0.2" },
    Flag { engine: "sglang", key: "graph_sizes", flag: "--cuda-graph-bs", valid_for: ">=0.4" },
    Flag { engine: "sglang", key: "graph_max_size", flag: "--cuda-graph-max-bs", valid_for: ">=0.3" },
    Flag { engine: "sglang", key: "attention_backend", flag: "--attention-backend", valid_for: ">=0.3" },
    Flag { engine: "sglang", key: "moe_backend", flag: "--moe-runner-backend", valid_for: ">=0.5" },
    Flag { engine: "sglang", key: "data_parallel", flag: "--dp-size", valid_for: ">=0.1" },
    Flag { engine: "sglang", key: "expert_parallel", flag: "--ep-size", valid_for: ">=0.4" },
    Flag { engine: "sglang", key: "disable_custom_all_reduce", flag: "--disable-custom-all-reduce", valid_for: ">=0.2" },
    Flag { engine: "sglang", key: "api_processes", flag: "--tokenizer-worker-num", valid_for: ">=0.5" },
    Flag { engine: "sglang", key: "skip_tokenizer_init", flag: "--skip-tokenizer-init", valid_for: ">=0.2" },
    Flag { engine: "sglang", key: "stream_interval", flag: "--stream-interval", valid_for: ">=0.1" },
    Flag { engine: "sglang", key: "lora", flag: "--enable-lora", valid_for: ">=0.4.9" },
    Flag { engine: "sglang", key: "kv_offload", flag: "--enable-hierarchical-cache", valid_for: ">=0.4.3" },
    Flag { engine: "sglang", key: "async_scheduling", flag: "--disable-overlap-schedule", valid_for: ">=0.4" },
    Flag { engine: "sglang", key: "scheduling_policy", flag: "--schedule-policy", valid_for: ">=0.1" },
    Flag { engine: "sglang", key: "schedule_conservativeness", flag: "--schedule-conservativeness", valid_for: ">=0.1" },
    Flag { engine: "llama.cpp", key: "speculative_tokens", flag: "--draft-max", valid_for: "any" },
    Flag { engine: "llama.cpp", key: "max_num_seqs", flag: "--parallel", valid_for: "any" },
    Flag { engine: "llama.cpp", key: "max_num_batched_tokens", flag: "--batch-size", valid_for: "any" },
    Flag { engine: "llama.cpp", key: "max_model_len", flag: "--ctx-size", valid_for: "any" },
    Flag { engine: "llama.cpp", key: "kv_dtype", flag: "--cache-type-k", valid_for: "any" },
    Flag { engine: "llama.cpp", key: "prefix_caching", flag: "--cache-prompt", valid_for: "any" },
    Flag { engine: "llama.cpp", key: "offloaded_layers", flag: "--n-gpu-layers", valid_for: "any" },
    Flag { engine: "llama.cpp", key: "split_mode", flag: "--split-mode", valid_for: "any" },
    Flag { engine: "llama.cpp", key: "flash_attention", flag: "--flash-attn", valid_for: "any" },
    Flag { engine: "llama.cpp", key: "threads", flag: "--threads", valid_for: "any" },
    Flag { engine: "llama.cpp", key: "continuous_batching", flag: "--cont-batching", valid_for: "any" },
    Flag { engine: "tensorrt-llm", key: "tensor_parallel", flag: "--tp_size", valid_for: "trtllm-serve" },
    Flag { engine: "tensorrt-llm", key: "pipeline_parallel", flag: "--pp_size", valid_for: "trtllm-serve" },
    Flag { engine: "tensorrt-llm", key: "max_num_batched_tokens", flag: "--max_num_tokens", valid_for: "any" },
    Flag { engine: "tensorrt-llm", key: "max_model_len", flag: "--max_seq_len", valid_for: "any" },
    Flag { engine: "tensorrt-llm", key: "max_num_seqs", flag: "--max_batch_size", valid_for: "any" },
    Flag { engine: "tensorrt-llm", key: "gpu_memory_utilization", flag: "--kv_cache_free_gpu_memory_fraction", valid_for: "trtllm-serve" },
    Flag { engine: "tensorrt-llm", key: "expert_parallel", flag: "--ep_size", valid_for: "trtllm-serve" },
    Flag { engine: "tensorrt-llm", key: "api_processes", flag: "--num_postprocess_workers", valid_for: "trtllm-serve" },
    Flag { engine: "tensorrt-llm", key: "capacity_policy", flag: "scheduler_config.capacity_scheduler_policy", valid_for: "--extra_llm_api_options file" },
    Flag { engine: "tensorrt-llm", key: "graph_sizes", flag: "cuda_graph_config.batch_sizes", valid_for: "--extra_llm_api_options file, >=1.0" },
    Flag { engine: "tensorrt-llm", key: "graph_max_size", flag: "cuda_graph_config.max_batch_size", valid_for: "--extra_llm_api_options file, >=1.0" },
    Flag { engine: "tensorrt-llm", key: "kv_dtype", flag: "kv_cache_config.dtype", valid_for: "--extra_llm_api_options file" },
    Flag { engine: "tensorrt-llm", key: "prefix_caching", flag: "kv_cache_config.enable_block_reuse", valid_for: "--extra_llm_api_options file" },
    Flag { engine: "tensorrt-llm", key: "kv_offload", flag: "kv_cache_config.host_cache_size", valid_for: "--extra_llm_api_options file" },
    Flag { engine: "tensorrt-llm", key: "chunked_prefill", flag: "enable_chunked_prefill", valid_for: "--extra_llm_api_options file" },
    Flag { engine: "tensorrt-llm", key: "async_scheduling", flag: "disable_overlap_scheduler", valid_for: "--extra_llm_api_options file" },
    Flag { engine: "tensorrt-llm", key: "stream_interval", flag: "stream_interval", valid_for: "--extra_llm_api_options file" },
    Flag { engine: "tensorrt-llm", key: "attention_backend", flag: "attn_backend", valid_for: "--extra_llm_api_options file" },
    Flag { engine: "tgi", key: "max_num_seqs", flag: "--max-batch-size", valid_for: ">=1.0" },
    Flag { engine: "tgi", key: "max_num_batched_tokens", flag: "--max-batch-prefill-tokens", valid_for: ">=0.9" },
    Flag { engine: "tgi", key: "max_model_len", flag: "--max-total-tokens", valid_for: ">=0.6" },
    Flag { engine: "tgi", key: "gpu_memory_utilization", flag: "--cuda-memory-fraction", valid_for: ">=1.1" },
    Flag { engine: "tgi", key: "tensor_parallel", flag: "--num-shard", valid_for: ">=0.6" },
    Flag { engine: "tgi", key: "graph_sizes", flag: "--cuda-graphs", valid_for: ">=1.4" },
    Flag { engine: "tgi", key: "speculative_tokens", flag: "--speculate", valid_for: ">=1.3" },
    Flag { engine: "tgi", key: "quantization", flag: "--quantize", valid_for: ">=0.6" },
    Flag { engine: "tgi", key: "kv_dtype", flag: "--kv-cache-dtype", valid_for: ">=2.4" },
    Flag { engine: "lmdeploy", key: "max_num_seqs", flag: "--max-batch-size", valid_for: "any" },
    Flag { engine: "lmdeploy", key: "gpu_memory_utilization", flag: "--cache-max-entry-count", valid_for: "any" },
    Flag { engine: "lmdeploy", key: "prefix_caching", flag: "--enable-prefix-caching", valid_for: "any" },
    Flag { engine: "lmdeploy", key: "max_model_len", flag: "--session-len", valid_for: "any" },
    Flag { engine: "lmdeploy", key: "kv_dtype", flag: "--quant-policy", valid_for: "any" },
    Flag { engine: "nginx", key: "proxy_buffering", flag: "proxy_buffering off;", valid_for: "any" },
    Flag { engine: "nginx", key: "keepalive", flag: "keepalive", valid_for: "any" },
];

/// Values that an engine spells in its own way: engine, setting, our word, its word.
const VALUES: &[(&str, &str, &str, &str)] = &[
    ("sglang", "kv_dtype", "fp8", "fp8_e5m2"),
    ("llama.cpp", "kv_dtype", "fp8", "q8_0"),
    ("tgi", "kv_dtype", "fp8", "fp8_e5m2"),
    ("lmdeploy", "kv_dtype", "fp8", "8"),
];

/// The value as this engine spells it.
pub fn value<'v>(subject: &Subject, key: &str, value: &'v str) -> &'v str {
    let own = VALUES.iter().find(|(engine, of, ours, _)| is_engine(subject, engine) && *of == key && *ours == value);
    own.map_or(value, |(.., theirs)| theirs)
}

fn is_engine(subject: &Subject, engine: &str) -> bool {
    subject.engine.strip_prefix(engine).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The flag that sets `key` on this engine. Forks (`vllm-omni`) share their parent's flags; for an engine without a row
/// the setting's own name is used and no version is claimed. Where a flag was renamed the subject's version decides; an
/// unknown version gets today's name.
pub fn flag(subject: &Subject, key: &'static str) -> (String, String) {
    let mut known = FLAGS.iter().filter(|flag| flag.key == key && is_engine(subject, flag.engine)).peekable();
    let first = known.peek().copied();
    match known.find(|flag| holds(flag.valid_for, &subject.engine_version)).or(first) {
        Some(known) => (known.flag.to_string(), known.valid_for.to_string()),
        None => (key.to_string(), String::new()),
    }
}

/// True when a version lies in a range like `>=0.4,<0.12`; anything that is no range holds every version, and an unknown
/// version lies in every range that is still open.
fn holds(range: &str, version: &str) -> bool {
    let version = numbers(version);
    range.split(',').all(|bound| {
        let bound = bound.trim();
        match (&version, bound.strip_prefix(">="), bound.strip_prefix('<')) {
            (Some(version), Some(from), _) => numbers(from).is_none_or(|from| *version >= from),
            (Some(version), _, Some(to)) => numbers(to).is_none_or(|to| *version < to),
            (None, _, Some(_)) => false,
            _ => true,
        }
    })
}

/// `0.10.2rc1` as three numbers, missing ones 0.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut found = [0; 3];
    for (at, part) in version.trim_start_matches('v').split('.').take(3).enumerate() {
        let digits = &part[..part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len())];
        match digits.parse() {
            Ok(number) => found[at] = number,
            Err(_) if at > 0 => {}
            Err(_) => return None,
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(engine: &str, version: &str, key: &'static str, expected: &str) {
        let subject = Subject { engine: engine.into(), engine_version: version.into(), ..Subject::default() };
        assert_eq!(flag(&subject, key).0, expected, "{engine} {version} {key}");
    }

    #[test]
    fn flags_are_spelled_as_engine_and_version_do() {
        check("vllm", "0.33.0", "graph_sizes", "--cudagraph-capture-sizes");
        check("vllm", "0.9.1", "graph_sizes", "--cuda-graph-sizes");
        check("vllm", "", "graph_sizes", "--cudagraph-capture-sizes");
        check("vllm-omni", "0.14.0", "structured_output_backend", "--structured-outputs-config.backend");
        check("vllm", "0.9.0rc1", "structured_output_backend", "--guided-decoding-backend");
        let sglang = Subject { engine: "sglang".into(), ..Subject::default() };
        assert_eq!((value(&sglang, "kv_dtype", "fp8"), value(&sglang, "block_size", "16")), ("fp8_e5m2", "16"));
        check("sglang", "0.5.4", "graph_max_size", "--cuda-graph-max-bs");
        check("tensorrt-llm", "1.1.0", "max_num_batched_tokens", "--max_num_tokens");
        check("llama.cpp", "b4567", "offloaded_layers", "--n-gpu-layers");
        check("unheard-of", "1", "max_num_seqs", "max_num_seqs");
    }

    #[test]
    fn no_row_stands_twice() {
        for (at, flag) in FLAGS.iter().enumerate() {
            assert!(!FLAGS[..at].contains(flag), "{} {} twice", flag.engine, flag.key);
        }
    }
}
