//! Which questions the path of each symptom asks a person, in the seed's order.

/// The questions of one symptom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Symptom id.
    pub symptom: &'static str,
    /// The complaint in people's words.
    pub words: &'static str,
    /// Questions in order.
    pub questions: &'static [Place],
}

/// A question's place on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Id of the question.
    pub id: &'static str,
    /// When it is asked.
    pub branch: Branch,
}

/// When a question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// Always.
    Trunk,
    /// Unless computing prompts takes longer than the queue.
    Queue,
    /// Unless the queue takes longer than computing prompts.
    Prefill,
    /// Unless something other than speculation was changed.
    Speculation,
}

macro_rules! places {
    ($($branch:ident: $($id:literal),+;)+) => {
        &[$($(Place { id: $id, branch: Branch::$branch },)+)+]
    };
}

/// All orders: the seed's six symptoms, then two more.
#[rustfmt::skip]
pub const ORDERS: &[Order] = &[
    Order {
        symptom: "high_ttft",
        words: "The first token takes long; after it the text flows normally",
        questions: places![
            Trunk: "engine", "server_ttft", "server_tpot", "output_tokens", "client_ttft", "gateway_queue", "tokenize_time", "queue_time",
                "prefill_time";
            Queue: "kv_usage", "preemptions", "token_budget", "step_tokens", "max_num_seqs", "running", "waiting";
            Prefill: "prompt_tokens", "attention_backend", "prefix_caching", "prefix_hit_ratio", "prefix_reusable", "enforce_eager",
                "comm_exposed", "chunked_prefill", "longest_prompt";
        ],
    },
    Order {
        symptom: "throughput_plateau",
        words: "More load brings no more throughput; requests only wait longer",
        questions: places![
            Trunk: "engine", "throughput", "concurrency", "client_cpu", "server_ttft", "server_tpot", "prompt_tokens", "output_tokens",
                "running", "max_num_seqs", "waiting", "queue_time", "kv_usage", "token_budget", "step_tokens", "step_time", "host_gap",
                "gil_wait", "preemptions", "completed", "evictions", "prefix_hit_ratio", "speculative_tokens", "dram_active",
                "tensor_active";
        ],
    },
    Order {
        symptom: "busy_but_slow",
        words: "The GPU looks busy, but little comes out",
        questions: places![
            Trunk: "engine", "server_tpot", "output_tokens", "server_ttft", "running", "gpu_busy", "sm_active", "dram_active",
                "tensor_active", "step_time", "launch_gap", "sync_wait", "host_gap", "enforce_eager", "graph_share", "largest_graph",
                "kernel_time", "kernel_ideal", "weight_bytes", "dram_bandwidth", "speculative_tokens";
        ],
    },
    Order {
        symptom: "multi_gpu_slower",
        words: "More GPUs brought nothing, or made it slower",
        questions: places![
            Trunk: "engine", "shards_before", "tpot_before", "ttft_before", "output_tokens_before", "shards", "server_tpot", "server_ttft",
                "output_tokens", "weight_bytes", "gpu_memory", "step_time", "comm_exposed", "comm_time", "comm_skew", "transport",
                "bus_bandwidth", "link_bandwidth", "stages", "stage_idle", "in_flight_batches", "rank_tokens_mean", "rank_tokens_max", "data_parallel",
                "prefix_hit_ratio", "prefix_reusable";
        ],
    },
    Order {
        symptom: "slower_after_feature",
        words: "It became slower after something was switched on, changed or upgraded",
        questions: places![
            Trunk: "engine", "changed", "prompt_tokens_before", "prompt_tokens", "throughput_before", "throughput", "ttft_before",
                "server_ttft", "tpot_before", "server_tpot", "output_tokens_before", "output_tokens", "queue_time_before", "queue_time";
            Speculation: "speculative_tokens", "acceptance_length", "draft_time";
            Trunk: "step_time", "running", "waiting", "largest_graph", "graph_share", "sync_wait", "compile_time", "enforce_eager";
        ],
    },
    Order {
        symptom: "users_slow",
        words: "The server's own numbers look fine, but users complain",
        questions: places![
            Trunk: "engine", "client_ttft", "server_ttft", "queue_time", "prefill_time", "server_tpot", "output_tokens", "client_cpu",
                "connect_time", "new_connections", "completed", "body_transfer", "gateway_queue", "client_itl", "server_itl", "chunk_tokens",
                "stream_interval", "retries";
        ],
    },
    Order {
        symptom: "uniformly_slow_decode",
        words: "Every token comes slowly, all the time",
        questions: places![
            Trunk: "engine", "server_tpot", "output_tokens", "server_ttft", "running", "sm_active", "dram_active", "tensor_active",
                "step_time", "launch_gap", "sync_wait", "host_gap", "enforce_eager", "graph_share", "largest_graph", "kernel_time",
                "kernel_ideal", "weight_bytes", "dram_bandwidth", "mem_clock", "mem_clock_max", "sm_clock", "sm_clock_max", "gil_wait",
                "speculative_tokens";
        ],
    },
    Order {
        symptom: "tail_spikes",
        words: "Mostly fine, but now and then tokens stall for long",
        questions: places![
            Trunk: "engine", "itl_p50", "itl_p99", "server_tpot", "server_ttft", "output_tokens", "longest_prompt", "chunked_prefill",
                "token_budget", "preemptions", "completed", "kv_usage", "running", "speculative_tokens", "compile_time", "gil_wait", "scrape_time";
        ],
    },
];
