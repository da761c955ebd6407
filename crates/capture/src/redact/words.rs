//! The words that may stay: what this program and the engines themselves write, never what a person chose.

/// Values of labels, finish reasons, kinds and codes.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    // vantages, phases, roles
    "client", "gateway", "server", "prefill", "decode", "mixed", "load_client", "api_server", "engine_core", "engine", "worker", "router",
    "proxy", "scheduler", "tokenizer", "detokenizer", "frontend", "gpu_worker", "dp_coordinator", "self", "extend", "baseline",
    // how a request ended
    "stop", "length", "error", "timeout", "abort", "aborted", "cancelled", "tool_calls", "content_filter", "connect", "refused", "reset",
    "protocol", "status", "repetition", "eos_token", "stop_sequence",
    // why it waits, where tokens come from, how a value is meant
    "capacity", "deferred", "log", "local_compute", "local_cache_hit", "external_kv_transfer", "external", "at_least", "at_most",
    "voluntary", "involuntary", "host", "device", "disk", "remote", "total", "parse", "director", "body_stream", "header_to_first_body",
    // states of threads
    "running", "waiting", "idle", "gil", "runnable",
    // categories of device and host events
    "gemm", "attention", "elementwise", "norm", "copy", "memset", "communication", "moe", "sampling", "quantization", "reduction", "other",
    "sync", "graph", "kernel", "runtime", "op", "annotation", "frame", "triton", "embedding", "rope", "activation", "kv_cache",
    "memcpy", "driver", "device_annotation", "overhead", "os", "off_cpu", "dataloader", "allreduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast",
    "gather", "scatter", "reduce", "barrier", "send", "recv", "bfloat16", "half", "float", "float8_e4m3fn", "float8_e5m2", "byte", "char",
    "int", "long", "double", "bool", "nvidia", "amd", "intel", "meta",
    "send_recv", "matmul", "bf16", "f16", "f32", "f64", "f8e4m3", "f8e5m2", "i8", "u8", "i32", "u32", "i64", "u64",
    // operators of a bench
    "triad", "qkv", "q", "q_down", "q_up", "kv_down", "attention_out", "gate_up", "down", "head", "dtoh_pinned", "htod_pageable",
    "dtoh_pageable",
    // throttle reasons
    "gpu_idle", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown",
    "power_cap", "thermal", "power", "none", "active", "heat", "brake",
    // log levels and kinds of log lines
    "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "TRACE", "banner", "arguments", "periodic", "preemption", "recompile", "kv_capacity",
    "kv_memory", "weights_loaded", "model_loaded", "engine_initialized", "graphs_captured", "graph_memory", "compile", "out_of_memory",
    "attention_backend", "slow_tokenizer", "step", "max_concurrency", "started", "engine_config", "moe_default_config", "export",
    "default_kernel_config", "slow_quantization", "weight_only_fp8",
    "async_scheduling_off", "attention_forced", "capacity_policy", "checkpoint", "compiled", "config", "custom_all_reduce_off", "eager",
    "engine_dead", "evaluated", "graph_capture_failed", "graph_mode_lowered", "graphs_capturing", "graphs_reused", "graphs_skipped",
    "jit_compiled", "kv_too_small", "kv_transfer", "mfu", "moe_tuned_config", "nccl", "network", "offloaded", "prefix_caching_off",
    "prompt", "prompt_evaluated", "schedule_conservativeness", "slower_quantization", "speculation", "swap_space_large", "throttled",
    "torch_threads", "transport", "weights_loading",
    // severities and codes of issues
    "warning", "note", "attachment", "chunks_thinned", "clock_backwards", "counter_reset", "damaged_json", "damaged_toml",
    "duplicate_series", "duplicate_source", "file_missing", "file_outside", "flags_not_read", "gzip_bomb", "histogram_not_monotonic",
    "histogram_without_sum", "html_page", "impossible_pair", "impossible_times", "impossible_value", "inverted_rate", "line_cut",
    "line_incomplete", "line_too_long", "lines_without_time", "log_apart", "log_without_year", "negative_time", "negative_value", "no_run",
    "not_finite", "nothing_known", "other_requests", "ratio_above_one", "redacted", "replicas_told_apart", "requests_without_time",
    "restart", "scrape_cut", "scrape_failed", "scrape_time_unusable", "scrape_without_time", "scrapes_without_time", "source_too_large",
    "text_in_sweep", "too_large", "too_many_buckets", "too_many_files", "too_many_samples", "too_many_series", "truncated_gzip",
    "ttft_after_end", "type_conflict", "uneven_arrays", "unknown_key", "unknown_schema", "unknown_signal", "unknown_symptom",
    "unmapped_families", "unreadable_capture", "unreadable_file", "unreadable_folder", "unreadable_line", "unused_key", "wrong_type",
    "wrong_unit", "damaged_events", "damaged_gzip", "damaged_zstd", "truncated_zstd", "zstd_bomb", "duplicate_events", "events_end_early",
    "events_without_duration", "host_slowed_by_recording", "names_not_utf8", "no_device_events", "no_trace_events", "other_phases",
    "profiler_message", "times_far_off", "unknown_categories",
    "changes_beside", "damaged_database", "damaged_pages", "devices_renumbered", "graphs_not_expanded", "impossible_correlation",
    "names_left_out", "needs_a_file", "no_events", "open_ranges", "operators_left_out", "profiler_complaint", "read_failed",
    "samples_averaged", "session_start_unknown", "short_calls_left_out", "tables_not_read", "too_many_events", "truncated_database",
    "unknown_metrics", "unnamed_events", "unreadable_table", "damaged_packets", "damaged_trace", "ends_without_start", "packets_lost",
    "packets_without_state",
    // engines and formats
    "vllm", "vllm-omni", "sglang", "llama.cpp", "tensorrt-llm", "tgi", "ollama", "lmdeploy", "tokenspeed", "CPU", "client_jsonl", "command_txt",
    "host_jsonl", "observations_toml", "prometheus_text", "prometheus_api", "proxy_jsonl", "vllm_bench_json", "vllm_log", "sglang_log",
    "sglang_bench_jsonl", "nvidia_smi_csv", "guidellm_json", "genai_perf_json", "py_spy", "kineto_json", "nsys_sqlite", "rocprofv3_json", "perfetto_trackevent",
];

/// Texts of the manifest that stay.
const PHRASES: &[&str] = &[
    "unix",
    "client monotonic",
    "log local time",
    "nsys session",
    "trace clock",
    "assumed",
    "log",
    "metrics",
    "command line",
    "typed",
    "api+core",
    "api+core+workers",
    "single process",
    "zmq",
    "zmq; shared memory to workers",
    "engine_core",
    "api_server",
    "in process",
    "API process",
    "engine core",
    "recorded",
    "trace",
    "report",
    "simulated",
];

/// Settings beyond the vocabulary whose values are numbers or known words.
pub(super) const SETTINGS: &[&str] = &[
    "config.model",
    "config.model_tag",
    "config.served_model_name",
    "config.dtype",
    "config.gpu_count",
    "config.engine_version",
    "config.num_gpu_blocks_override",
    "config.seed",
    "config.num_scheduler_steps",
    "config.disable_custom_all_reduce",
    "config.optimization_level",
    "config.graph_capture",
    "config.attention_config",
    "config.load_format",
    "config.trust_remote_code",
    "config.skip_tokenizer_init",
    "config.enable_expert_parallel",
    "config.max_num_partial_prefills",
    "config.max_long_partial_prefills",
    "config.kv_cache_memory_bytes",
    "config.headless",
    "config.data_parallel_rank",
    "config.node_rank",
    "config.cpu_offload_gb",
    "config.data_parallel_balance",
    "config.decode_attention_backend",
    "config.disaggregated",
    "config.disaggregation_mode",
    "config.dp_attention",
    "config.enable_attention_dp",
    "config.enable_dp_attention",
    "config.enable_eplb",
    "config.ep_num_redundant_experts",
    "config.expert_balancing",
    "config.expert_parallel_size",
    "config.moe_expert_parallel_size",
    "config.flash_attention",
    "config.flash_attention_version",
    "config.gemm_backend",
    "config.gpu_layers",
    "config.kv_role",
    "config.linear_backend",
    "config.load_balance_method",
    "config.offloaded_layers",
    "config.policy",
    "config.router_policy",
    "config.routing_logic",
    "config.routing_policy",
];

/// Environment variables of engines and runtimes, by how they begin.
pub(super) const VARIABLES: &[&str] =
    &["VLLM_", "SGLANG_", "GGML_", "CUDA_", "NCCL_", "OMP_", "MKL_", "PYTORCH_", "TORCH_", "TORCHINDUCTOR_", "NVIDIA_", "HIP_", "RCCL_"];

/// Words of which a place in a file is made.
pub(super) const PLACES: &[&str] = &["line", "byte", "scrape", "row", "request", "sample", "entry", "page"];

/// Values of settings that engines document, in lower case.
#[rustfmt::skip]
const SETTING_VALUES: &[&str] = &[
    "true", "false", "none", "null", "auto", "default", "yes", "no", "on", "off",
    "float16", "fp16", "half", "bfloat16", "bf16", "float32", "float", "fp32", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "int8", "int4",
    "awq", "awq_marlin", "gptq", "gptq_marlin", "marlin", "bitsandbytes", "compressed-tensors", "modelopt", "modelopt_fp4", "nvfp4",
    "mxfp4", "gguf", "torchao", "quark", "fbgemm_fp8", "experts_int8",
    "flash_attn", "flash_attn_vllm_v1", "flashinfer", "xformers", "torch_sdpa", "triton_attn", "triton_attn_vllm_v1", "flashmla", "cutlass_mla",
    "triton_mla", "rocm_flash", "rocm_aiter_fa", "fa2", "fa3", "triton", "torch_native", "cpu_attn", "flex_attention", "pallas",
    "mp", "ray", "uni", "external_launcher", "fcfs", "priority", "ngram", "eagle", "eagle3", "medusa", "mtp", "draft_model", "suffix",
    "mlp_speculator", "deepseek_mtp", "xgrammar", "guidance", "outlines", "lm-format-enforcer",
    "full", "piecewise", "full_and_piecewise", "full_decode_only", "layer", "row", "guaranteed_no_evict", "max_utilization",
    "static_batch", "deepep_high_throughput", "deepep_low_latency", "pplx", "allgather_reducescatter", "deep_gemm", "cutlass",
    "safetensors", "pt", "dummy", "tensorizer", "runai_streamer", "v0", "v1", "spawn", "fork", "nixlconnector", "lmcacheconnectorv1",
    "offloadingconnector", "cpu", "cuda", "rocm", "socket", "ib", "p2p", "shm",
    "round_robin", "roundrobin", "random", "total_tokens", "total_requests", "shortest_queue", "least_requests", "least_request",
    "least_conn", "minimum_tokens", "static", "prefill", "decode", "throughput_plateau", "busy_but_slow",
];

/// Words that verdicts look for inside texts people write: what differs between two runs, what a pool, a kind of kernels
/// or a transport is called. Of a text that is hashed these stay, in lower case here.
#[rustfmt::skip]
pub(super) const VOCABULARY: &[&str] = &[
    // pools, processes and phases
    "prefill", "decode", "extend", "pool", "worker", "instance", "node", "server", "client", "frontend", "tokenizer", "engine", "scheduler",
    "core", "api_server", "device", "gpu", "model", "forward",
    // backends and kinds of kernels
    "attention backend", "attention-backend", "attention_backend", "attention", "attn", "flashinfer", "flash-attn", "flashattention",
    "flash attention", "flash_fwd", "splitkv", "fmha", "softmax", "flashmla", "sdpa", "moe backend", "moe-backend", "moe_backend", "moe-runner", "gemm", "marlin", "machete", "cutlass",
    "tuned config", "tuned moe", "moe config", "linear backend", "matmul", "moe", "expert kernels", "expert", "quant", "linear",
    "elementwise", "norm", "cast", "activation", "pointwise", "residual", "copy", "copies", "memcpy", "transpose", "pinned", "contiguous",
    "sgemm", "simt", "fp32_gemm", "f32f32_f32f32", "dgemm", "recompil", "mark_dynamic", "dynamic=true", "autotun",
    "synchron", ".item(", "tolist", " sync",
    // graphs
    "cuda graph", "cuda-graph", "cudagraph", "cuda_graph", "eager", "graph capture", "graph", "full",
    // clocks, memory and links
    "power limit", "power cap", "power", "fans", "cooling", "throttl", "nvidia-smi -pl", "locked clock", "thermal", "hw_slowdown", "heat",
    "brake", "numa", "membind", "cpunodebind", "interleave", "one socket", "cpu-offload", "cpu offload", "n-cpu-moe", "gpu-layers", "-ngl",
    "pcie", "in device memory", "on the device", "socket", "tcp", "shm", "host", "ethernet", "exposed",
    "comm", "nccl", "rccl", "all_reduce", "allreduce", "all-reduce", "all_to_all", "alltoall", "nixl", "p2p", "pynccl",
    // shards and adapters
    "layers split", "layer split", "split by layer", "layer-split", "pipeline parallel", "split layers", "adapter", "lora",
    // processes and what stands in front of a server
    "zmq", "zeromq", "process of its own", "own process", "separate process", "multiprocess", "multi-process", "inter-process",
    "gateway", "proxy", "proxied", "nginx", "envoy", "haproxy", "litellm", "router", "ingress", "balancer", "traefik", "istio", "cloudflare",
    "without", "direct", "straight", "no ", "bypass", "skip", "body_stream", "header_to_first_body",
    // engines, kinds of log lines, symptoms
    "vllm", "sglang", "llama.cpp", "tensorrt-llm", "tgi", "lmdeploy", "tokenspeed", "cpu", "moe_default_config", "default_kernel_config",
    "slow_quantization", "weight_only_fp8", "throughput_plateau", "busy_but_slow",
    // policies
    "round_robin", "roundrobin", "random", "total_tokens", "total_requests", "shortest_queue", "least_requests", "least_request", "least_conn",
    "minimum_tokens",
    "no_evict", "max_utilization", "utilization", "static", "inflight", "in-flight", "continuous", "priority", "ngram", "lookup", "suffix",
];

/// Beginnings of a text which says that a run is not of the system of the first.
pub(super) const ELSEWHERE: &[&str] = &["another ", "a second rig", "a third rig"];

/// What of a model's name says how its weights are stored and whether it has experts, in lower case.
#[rustfmt::skip]
pub(super) const MODEL_WORDS: &[&str] = &[
    "nvfp4", "mxfp4", "fp4", "int4", "awq", "gptq", "4 bit", "4-bit", "4bit", "q4", "q5", "q6", "q8", "8 bit", "8-bit", "fp8", "int8", "w8a8",
    "bf16", "fp16", "f16", "float16", "fp32",
    "moe", "mixtral", "deepseek-v", "deepseek-r", "qwen3-next", "gpt-oss", "kimi-k", "glm-4.5", "llama-4", "maverick",
];

/// The word itself when the program uses it; `engine_core-1` is one with its number.
pub(super) fn kept(text: &str) -> Option<&str> {
    let base = match text.rsplit_once('-') {
        Some((base, number)) if !number.is_empty() && number.len() <= 4 && number.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => text,
    };
    (WORDS.contains(&text) || WORDS.contains(&base)).then_some(text)
}

/// True for a word that stays also inside a longer text.
pub(super) fn holds(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    VOCABULARY.contains(&lower.as_str()) || ELSEWHERE.contains(&lower.as_str())
}

/// True for a word that stays in the name of a model.
pub(super) fn holds_for_model(word: &str) -> bool {
    MODEL_WORDS.contains(&word.to_ascii_lowercase().as_str())
}

/// A phrase that may stay, nothing for any other.
pub(super) fn phrase(text: &str) -> String {
    if PHRASES.contains(&text) { text.to_string() } else { String::new() }
}

/// The numbers a version begins with: `0.33.0` of `0.33.0+build.host7`; the engine generations V0 and V1 as they are.
pub(super) fn version(text: &str) -> String {
    if matches!(text, "V0" | "V1") {
        return text.to_string();
    }
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    text[..end].trim_end_matches('.').to_string()
}

/// True for a value an engine documents.
pub(super) fn is_setting_value(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    SETTING_VALUES.contains(&text.as_str()) || SETTING_VALUES.contains(&text.replace('-', "_").as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_program_stay_and_chosen_ones_do_not() {
        assert_eq!(kept("engine_core-1"), Some("engine_core-1"));
        assert_eq!((kept("billing-1"), kept("engine_core-one")), (None, None));
        assert_eq!((phrase("api+core"), phrase("on bob's laptop")), ("api+core".into(), String::new()));
        assert_eq!((version("0.33.0+bob"), version("0.33.0.dev7"), version("nightly")), ("0.33.0".into(), "0.33.0".into(), String::new()));
        assert!(is_setting_value("FLASH_ATTN") && !is_setting_value("bobs_attention"));
    }
}
