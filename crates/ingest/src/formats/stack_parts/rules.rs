//! Frames of vLLM, SGLang and what they run on: which part of serving they are, and which process they belong to.
//!
//! A stack is taken from its innermost frame outwards; the first frame that a rule knows decides, and of the rules for one
//! frame the first. Rules go by file more than by function: files keep their names longer. What polls or spins is told
//! from what works: schedulers and workers look for messages without end, and a wait for the device spins on a core.

/// One rule.
pub(super) struct Rule {
    pub(super) part: &'static str,
    /// End of the file's path; a folder anywhere in it when it ends in `/`.
    pub(super) file: &'static str,
    /// Function without its class; empty for any.
    pub(super) function: &'static str,
    /// Only as the innermost frame.
    pub(super) is_leaf: bool,
    /// Function that must stand further out; empty for any.
    pub(super) under: &'static str,
}

/// Waiting for something to do.
pub(super) const IDLE: &str = "idle";
/// Looking for something to do, or for the device, without giving the core back.
pub(super) const SPIN: &str = "spin";
/// No rule knows it.
pub(super) const OTHER: &str = "other";

const fn any(part: &'static str, file: &'static str) -> Rule {
    Rule { part, file, function: "", is_leaf: false, under: "" }
}

const fn function(part: &'static str, file: &'static str, function: &'static str) -> Rule {
    Rule { part, file, function, is_leaf: false, under: "" }
}

const fn leaf(part: &'static str, file: &'static str, function: &'static str) -> Rule {
    Rule { part, file, function, is_leaf: true, under: "" }
}

const fn under(part: &'static str, file: &'static str, function: &'static str, under: &'static str) -> Rule {
    Rule { part, file, function, is_leaf: false, under }
}

/// All rules, the special before the general.
pub(super) const RULES: &[Rule] = &[
    leaf(IDLE, "threading.py", "wait"),
    leaf(IDLE, "threading.py", "_wait_for_tstate_lock"),
    leaf(IDLE, "threading.py", "join"),
    leaf(IDLE, "queue.py", "get"),
    leaf(IDLE, "selectors.py", "select"),
    leaf(IDLE, "multiprocessing/connection.py", "wait"),
    leaf(IDLE, "multiprocessing/connection.py", "_poll"),
    leaf(IDLE, "multiprocessing/popen_fork.py", "poll"),
    leaf(IDLE, "concurrent/futures/thread.py", "_worker"),
    leaf(IDLE, "zmq/sugar/poll.py", "poll"),
    leaf(IDLE, "socket.py", "accept"),
    leaf(IDLE, "asyncio/runners.py", "run"),
    leaf(IDLE, "uvloop/__init__.py", "run"),
    leaf(IDLE, "asyncio/base_events.py", "run_forever"),
    leaf(IDLE, "torch/_inductor/compile_worker/subproc_pool.py", "_read_thread"),
    // Busy polling.
    under(SPIN, "zmq/sugar/socket.py", "recv_pyobj", "recv_requests"),
    under(SPIN, "zmq/", "recv", "recv_requests"),
    leaf(SPIN, "sglang/srt/managers/scheduler.py", "recv_requests"),
    leaf(SPIN, "sglang/srt/managers/scheduler.py", "event_loop_normal"),
    leaf(SPIN, "sglang/srt/managers/scheduler.py", "event_loop_overlap"),
    function(SPIN, "sglang/srt/managers/scheduler.py", "self_check_during_idle"),
    function(SPIN, "sglang/srt/managers/scheduler.py", "on_idle"),
    function(SPIN, "vllm/distributed/device_communicators/shm_broadcast.py", "acquire_read"),
    function(SPIN, "vllm/distributed/device_communicators/shm_broadcast.py", "acquire_write"),
    function(SPIN, "vllm/distributed/utils.py", "sched_yield"),
    // The core spins while the device works.
    function(SPIN, "torch/cuda/streams.py", "synchronize"),
    function(SPIN, "torch/cuda/__init__.py", "synchronize"),
    leaf(SPIN, "vllm/v1/worker/gpu_model_runner.py", "_to_list"),
    leaf(SPIN, "vllm/v1/worker/gpu_model_runner.py", "get_output"),
    any("grammar", "vllm/v1/structured_output/"),
    any("grammar", "sglang/srt/constrained/"),
    any("grammar", "xgrammar/"),
    any("grammar", "llguidance/"),
    any("grammar", "outlines/"),
    any("grammar", "outlines_core/"),
    function("grammar", "vllm/v1/core/sched/scheduler.py", "get_grammar_bitmask"),
    function("grammar", "vllm/v1/worker/gpu_model_runner.py", "apply_grammar_bitmask"),
    any("sampling", "vllm/v1/sample/"),
    any("sampling", "vllm/model_executor/layers/sampler.py"),
    any("sampling", "sglang/srt/layers/sampler.py"),
    any("sampling", "sglang/srt/sampling/"),
    any("sampling", "flashinfer/sampling.py"),
    function("sampling", "vllm/v1/worker/gpu_model_runner.py", "_sample"),
    any("detokenizer", "vllm/v1/engine/detokenizer.py"),
    any("detokenizer", "vllm/transformers_utils/detokenizer.py"),
    any("detokenizer", "vllm/transformers_utils/detokenizer_utils.py"),
    any("detokenizer", "vllm/tokenizers/detokenizer_utils.py"),
    any("detokenizer", "sglang/srt/managers/detokenizer_manager.py"),
    function("detokenizer", "transformers/tokenization_utils_base.py", "decode"),
    function("detokenizer", "transformers/tokenization_utils_base.py", "batch_decode"),
    function("detokenizer", "transformers/tokenization_utils_fast.py", "_decode"),
    function("detokenizer", "transformers/tokenization_utils_fast.py", "convert_ids_to_tokens"),
    any("tokenizer", "transformers/tokenization_utils_base.py"),
    any("tokenizer", "transformers/tokenization_utils_fast.py"),
    any("tokenizer", "transformers/tokenization_utils.py"),
    any("tokenizer", "vllm/tokenizers/"),
    any("tokenizer", "vllm/transformers_utils/tokenizer.py"),
    any("tokenizer", "vllm/inputs/preprocess.py"),
    any("tokenizer", "vllm/renderers/"),
    any("tokenizer", "vllm/v1/engine/processor.py"),
    any("tokenizer", "vllm/v1/engine/input_processor.py"),
    function("tokenizer", "sglang/srt/managers/tokenizer_manager.py", "_tokenize_one_request"),
    function("tokenizer", "sglang/srt/managers/tokenizer_manager.py", "_tokenize_texts"),
    any("tokenizer", "jinja2/"),
    any("ipc", "zmq/"),
    any("ipc", "msgspec/"),
    any("ipc", "multiprocessing/connection.py"),
    any("ipc", "multiprocessing/queues.py"),
    any("ipc", "multiprocessing/reduction.py"),
    any("ipc", "vllm/v1/serial_utils.py"),
    any("ipc", "vllm/v1/engine/core_client.py"),
    any("ipc", "vllm/distributed/device_communicators/shm_broadcast.py"),
    function("ipc", "vllm/v1/engine/core.py", "process_input_sockets"),
    function("ipc", "vllm/v1/engine/core.py", "process_output_sockets"),
    function("ipc", "sglang/srt/utils.py", "broadcast_pyobj"),
    function("ipc", "sglang/srt/utils/common.py", "broadcast_pyobj"),
    any("model_forward", "vllm/v1/worker/"),
    any("model_forward", "vllm/v1/spec_decode/"),
    any("model_forward", "vllm/v1/attention/"),
    any("model_forward", "vllm/model_executor/"),
    any("model_forward", "vllm/compilation/"),
    any("model_forward", "vllm/attention/"),
    any("model_forward", "vllm/worker/"),
    any("model_forward", "sglang/srt/model_executor/"),
    any("model_forward", "sglang/srt/models/"),
    any("model_forward", "sglang/srt/layers/"),
    any("model_forward", "sglang/srt/speculative/"),
    any("model_forward", "sglang/srt/managers/tp_worker.py"),
    any("model_forward", "sglang/srt/managers/tp_worker_overlap_thread.py"),
    any("scheduler", "vllm/v1/core/"),
    any("scheduler", "vllm/core/"),
    any("scheduler", "vllm/v1/engine/core.py"),
    any("scheduler", "vllm/v1/executor/"),
    any("scheduler", "vllm/engine/llm_engine.py"),
    any("scheduler", "sglang/srt/managers/scheduler.py"),
    any("scheduler", "sglang/srt/managers/scheduler_output_processor_mixin.py"),
    any("scheduler", "sglang/srt/managers/schedule_batch.py"),
    any("scheduler", "sglang/srt/managers/schedule_policy.py"),
    any("scheduler", "sglang/srt/mem_cache/"),
    any("api_server", "vllm/entrypoints/"),
    any("api_server", "vllm/v1/engine/async_llm.py"),
    any("api_server", "vllm/v1/engine/output_processor.py"),
    any("api_server", "vllm/v1/metrics/"),
    any("api_server", "sglang/srt/entrypoints/"),
    any("api_server", "sglang/srt/managers/tokenizer_manager.py"),
    any("api_server", "fastapi/"),
    any("api_server", "starlette/"),
    any("api_server", "uvicorn/"),
    any("api_server", "pydantic/"),
    any("api_server", "prometheus_client/"),
];

/// File, function and the process in which it is the outermost of its own.
pub(super) const ROLES: &[(&str, &str, &str)] = &[
    ("vllm/v1/engine/core.py", "run_engine_core", "engine_core"),
    ("vllm/engine/multiprocessing/engine.py", "run_mp_engine", "engine_core"),
    ("vllm/v1/executor/multiproc_executor.py", "worker_main", "worker"),
    ("vllm/entrypoints/openai/api_server.py", "run_server", "api_server"),
    ("vllm/entrypoints/openai/api_server.py", "run_server_worker", "api_server"),
    ("vllm/entrypoints/cli/serve.py", "cmd", "api_server"),
    ("sglang/srt/managers/scheduler.py", "run_scheduler_process", "scheduler"),
    ("sglang/srt/managers/detokenizer_manager.py", "run_detokenizer_process", "detokenizer"),
    ("sglang/srt/entrypoints/http_server.py", "launch_server", "api_server"),
];
