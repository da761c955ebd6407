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

/// Flags that hypotheses may name.
pub const FLAGS: &[Flag] = &[
    Flag { engine: "vllm", key: "max_num_seqs", flag: "--max-num-seqs", valid_for: ">=0.1" },
    Flag { engine: "vllm", key: "num_gpu_blocks_override", flag: "--num-gpu-blocks-override", valid_for: ">=0.2" },
    Flag { engine: "vllm", key: "gpu_memory_utilization", flag: "--gpu-memory-utilization", valid_for: ">=0.1" },
    Flag { engine: "vllm", key: "kv_dtype", flag: "--kv-cache-dtype", valid_for: ">=0.3" },
    Flag { engine: "vllm", key: "speculative_tokens", flag: "--speculative-config", valid_for: ">=0.8" },
    Flag { engine: "sglang", key: "max_num_seqs", flag: "--max-running-requests", valid_for: ">=0.1" },
    Flag { engine: "sglang", key: "gpu_memory_utilization", flag: "--mem-fraction-static", valid_for: ">=0.1" },
    Flag { engine: "sglang", key: "kv_dtype", flag: "--kv-cache-dtype", valid_for: ">=0.3" },
    Flag { engine: "llama.cpp", key: "max_num_seqs", flag: "--parallel", valid_for: "any" },
    Flag { engine: "tensorrt-llm", key: "max_num_seqs", flag: "--max_batch_size", valid_for: "any" },
    Flag { engine: "tensorrt-llm", key: "gpu_memory_utilization", flag: "--kv_cache_free_gpu_memory_fraction", valid_for: "trtllm-serve" },
];

/// The flag that sets `key` on this engine. Forks (`vllm-omni`) share their parent's flags; for an engine without a row
/// the setting's own name is used and no version is claimed.
pub fn flag(subject: &Subject, key: &'static str) -> (String, String) {
    let known = FLAGS.iter().find(|flag| {
        flag.key == key
            && (subject.engine == flag.engine || subject.engine.strip_prefix(flag.engine).is_some_and(|rest| rest.starts_with('-')))
    });
    match known {
        Some(known) => (known.flag.to_string(), known.valid_for.to_string()),
        None => (key.to_string(), String::new()),
    }
}
