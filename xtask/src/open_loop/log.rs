//! The server's log: start-up, then a line every ten seconds. Request lines are switched off by a flag, as on many
//! production servers.

use std::fmt::Write as _;

use super::{BLOCKS, LOAD_BEGINS_EPOCH_S, MODEL, MODEL_PATH, Run, TO_FRONTEND_US, WINDOW_S, WINDOW_US};

/// Seconds of weight loading and engine start: what a restart costs, 74 in all.
const LOADING_S: f64 = 27.6;
const INIT_S: f64 = 46.4;

/// Log times are UTC here: seconds of the day from seconds since the load began.
fn clock(load_s: i64) -> String {
    let second = (LOAD_BEGINS_EPOCH_S.cast_signed() + load_s) % 86_400;
    format!("11-30 {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// The whole log.
pub(crate) fn text(run: &Run) -> String {
    let mut out = String::from("# inferoscope: simulated, no server ran\n");
    start_up(&mut out, run.seats);
    periodic(&mut out, run);
    out
}

fn start_up(out: &mut String, seats: usize) {
    let tokens = thousands(BLOCKS * 16);
    let concurrency = f64::from(BLOCKS * 16) / 8192.0;
    let mut api = |load_s: i64, source: &str, text: &str| {
        let _ = writeln!(out, "(APIServer pid=4021) INFO {} [{source}] {text}", clock(load_s));
    };
    api(-94, "api_utils.py:347", " version 0.33.0");
    api(-94, "api_utils.py:347", &format!(" model   {MODEL_PATH}"));
    api(
        -94,
        "api_utils.py:286",
        &format!(
            "non-default args: {{'model_tag': '{MODEL_PATH}', 'host': '127.0.0.1', 'disable_uvicorn_access_log': True, \
             'model': '{MODEL_PATH}', 'max_model_len': 8192, 'served_model_name': ['{MODEL}'], 'gpu_memory_utilization': 0.8, \
             'max_num_batched_tokens': 2048, 'max_num_seqs': {seats}}}"
        ),
    );
    api(-93, "model.py:733", "Resolved architecture: LlamaForCausalLM");
    api(-93, "model.py:2152", "Using max model len 8192");
    api(-93, "scheduler.py:258", "Chunked prefill is enabled with max_num_batched_tokens=2048.");
    api(-93, "vllm.py:1042", "Asynchronous scheduling is enabled.");
    let mut core = |load_s: i64, source: &str, text: &str| {
        let _ = writeln!(out, "(EngineCore pid=4107) INFO {} [{source}] {text}", clock(load_s));
    };
    core(
        -86,
        "core.py:133",
        &format!(
            "Initializing a V1 LLM engine (v0.33.0) with config: model='{MODEL_PATH}', speculative_config=None, \
             tokenizer='{MODEL_PATH}', dtype=torch.bfloat16, max_seq_len=8192, load_format=auto, tensor_parallel_size=1, \
             pipeline_parallel_size=1, data_parallel_size=1, quantization=None, enforce_eager=False, kv_cache_dtype=auto, \
             device_config=cuda, seed=0, served_model_name={MODEL}, enable_prefix_caching=True, enable_chunked_prefill=True"
        ),
    );
    core(-85, "parallel_state.py:1906", "world_size=1 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:43117 backend=nccl");
    core(-84, "gpu_model_runner.py:4879", &format!("Starting to load model {MODEL_PATH}..."));
    core(-84, "cuda.py:476", "Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'FLASHINFER', 'TRITON_ATTN'].");
    core(-57, "default_loader.py:501", &format!("Loading weights took {LOADING_S:.2} seconds"));
    core(-56, "gpu_model_runner.py:5120", "Model loading took 14.99 GiB memory and 28.214907 seconds");
    core(-35, "monitor.py:53", "torch.compile took 18.21 s in total");
    core(-24, "gpu_worker.py:412", "Available KV cache memory: 47.36 GiB");
    core(
        -24,
        "kv_cache_utils.py:2327",
        &format!("GPU KV cache size: {tokens} tokens, Maximum concurrency for 8,192 tokens per request: {concurrency:.2}x"),
    );
    core(-11, "gpu_model_runner.py:6204", "Graph capturing finished in 12 secs, took 0.52 GiB");
    core(-10, "core.py:402", &format!("init engine (profile, create kv cache, warmup model) took {INIT_S:.2} s (compilation: 18.21 s)"));
    let mut api = |load_s: i64, source: &str, text: &str| {
        let _ = writeln!(out, "(APIServer pid=4021) INFO {} [{source}] {text}", clock(load_s));
    };
    api(-9, "entry.py:136", "Supported tasks: ['generate']");
    api(-9, "entry.py:140", "Starting vLLM server on http://127.0.0.1:8000");
    out.push_str(
        "INFO:     Started server process [4021]\nINFO:     Waiting for application startup.\nINFO:     Application startup complete.\n",
    );
}

/// One line every ten seconds, until ten seconds after the window.
fn periodic(out: &mut String, run: &Run) {
    let last_us = WINDOW_US + (WINDOW_S + 10) * 1_000_000;
    let (mut at_us, mut prompt, mut output) = (10_000_000, 0u64, 0u64);
    let mut before = None;
    for step in &run.steps {
        while step.end_us + TO_FRONTEND_US > at_us && at_us <= last_us {
            let (running, waiting, blocks) = before.unwrap_or((0, 0, 0));
            let _ = writeln!(
                out,
                "(APIServer pid=4021) INFO {} [loggers.py:335] Engine 000: Avg prompt throughput: {:.1} tokens/s, Avg generation \
                 throughput: {:.1} tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: {:.1}%, Prefix \
                 cache hit rate: 0.0%",
                clock((at_us / 1_000_000u64).cast_signed()),
                prompt as f64 / 10.0,
                output as f64 / 10.0,
                f64::from(blocks) / f64::from(BLOCKS - 1) * 100.0,
            );
            (prompt, output) = (0, 0);
            at_us += 10_000_000;
        }
        prompt += u64::from(step.completed_prompt_tokens);
        output += u64::from(step.output_tokens);
        before = Some((step.running, step.waiting, step.kv_blocks));
    }
}

fn thousands(value: u32) -> String {
    let digits = value.to_string();
    let (head, tail) = digits.split_at(digits.len() - 3);
    format!("{head},{tail}")
}
