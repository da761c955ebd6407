//! The vocabulary: every quantity that can be measured, with one name, one unit and one resource dimension.
//!
//! This table is the source. The reference page, the checker of `observations.toml` and every importer's map are held
//! against it. A name is `vantage.quantity[.statistic]`; the table lists `vantage.quantity`, [`resolve`] takes the rest.

use crate::units::Unit;

/// Resource dimension of a signal: what it can explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// What a user feels.
    Outcome,
    /// The load as offered.
    Workload,
    /// Queues and gaps.
    Waiting,
    /// Arithmetic.
    Compute,
    /// CPU work around the model.
    Host,
    /// The stream between engine and user.
    Network,
    /// Room for weights and KV cache.
    MemoryCapacity,
    /// Bytes per second to device memory.
    MemoryBandwidth,
    /// Links between devices and hosts.
    Interconnect,
    /// Clocks, power, heat.
    Hardware,
    /// Settings.
    Setting,
    /// Model properties.
    Model,
    /// Explains nothing by itself.
    None,
}

impl Dimension {
    /// The word used in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Outcome => "outcome",
            Self::Workload => "workload",
            Self::Waiting => "waiting",
            Self::Compute => "compute",
            Self::Host => "host",
            Self::Network => "network",
            Self::MemoryCapacity => "memory capacity",
            Self::MemoryBandwidth => "memory bandwidth",
            Self::Interconnect => "interconnect",
            Self::Hardware => "hardware",
            Self::Setting => "setting",
            Self::Model => "model",
            Self::None => "(none)",
        }
    }
}

/// How values of a signal behave over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A level at one time.
    Gauge,
    /// A running total; only differences mean something.
    Counter,
    /// A distribution with buckets, sum and count.
    Histogram,
    /// A figure about a run, a request or a step.
    Value,
}

impl Kind {
    /// The word used in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
            Self::Value => "value",
        }
    }
}

/// One row of the vocabulary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signal {
    /// `vantage.quantity`.
    pub name: &'static str,
    /// Base unit.
    pub unit: Unit,
    /// What it can explain.
    pub dimension: Dimension,
    /// How it behaves over time.
    pub kind: Kind,
    /// True when it is computed from other signals rather than read.
    pub derived: bool,
    /// Labels it may carry.
    pub labels: &'static [&'static str],
    /// Meaning, one line.
    pub meaning: &'static str,
}

/// Index into [`SIGNALS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignalId(pub u16);

/// Statistics a name may end in.
pub const STATISTICS: &[&str] = &["mean", "p50", "p90", "p95", "p99", "max", "min", "sum", "rate", "count", "std", "vs_baseline"];

/// Symptom ids a complaint or a report may name: the seed's six, two more, and none.
pub const SYMPTOMS: &[&str] = &[
    "high_ttft",
    "throughput_plateau",
    "busy_but_slow",
    "multi_gpu_slower",
    "slower_after_feature",
    "users_slow",
    "uniformly_slow_decode",
    "tail_spikes",
    "none",
];

/// A full name taken apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resolved {
    /// The row of the vocabulary.
    pub signal: &'static Signal,
    /// Statistic, `None` for the plain value.
    pub statistic: Option<&'static str>,
}

impl Resolved {
    /// Unit of this statistic of the signal: a ratio for `vs_baseline`, a count for `count`.
    pub fn unit(&self) -> Unit {
        match self.statistic {
            Some("vs_baseline") => Unit::Factor,
            Some("count") => Unit::Count,
            _ => self.signal.unit,
        }
    }
}

/// Looks up a full signal name (no labels). `p99.9`-style percentiles are accepted by their leading digits.
pub fn resolve(name: &str) -> Option<Resolved> {
    let base = name.strip_suffix(".vs_baseline").unwrap_or(name);
    if let Some(signal) = find(name) {
        return Some(Resolved { signal, statistic: None });
    }
    if base != name
        && let Some(inner) = resolve(base)
    {
        return Some(Resolved { signal: inner.signal, statistic: Some("vs_baseline") });
    }
    let (quantity, last) = name.rsplit_once('.')?;
    let statistic = STATISTICS.iter().copied().find(|known| *known == last)?;
    find(quantity).map(|signal| Resolved { signal, statistic: Some(statistic) })
}

/// The row of `vantage.quantity`, without statistic.
pub fn find(quantity: &str) -> Option<&'static Signal> {
    SIGNALS.iter().find(|signal| signal.name == quantity)
}

/// The valid name closest to `name` by edit distance; the statistic is kept when it is valid.
pub fn nearest(name: &str) -> String {
    let (quantity, statistic) = match name.rsplit_once('.') {
        Some((quantity, last)) if STATISTICS.contains(&last) => (quantity, Some(last)),
        _ => (name, None),
    };
    let best = SIGNALS.iter().min_by_key(|signal| (edit_distance(signal.name, quantity), signal.name)).map_or("", |signal| signal.name);
    match statistic {
        Some(statistic) => format!("{best}.{statistic}"),
        None => best.to_string(),
    }
}

/// Levenshtein distance over characters, on inputs cut to 64 characters.
pub fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

const DERIVED: bool = true;
const MEASURED: bool = false;

const fn signal(
    name: &'static str,
    unit: Unit,
    dimension: Dimension,
    kind: Kind,
    derived: bool,
    labels: &'static [&'static str],
    meaning: &'static str,
) -> Signal {
    Signal { name, unit, dimension, kind, derived, labels, meaning }
}

/// The vocabulary, by vantage.
#[rustfmt::skip]
pub const SIGNALS: &[Signal] = &[
    signal("client.ttft", Unit::Second, Dimension::Outcome, Kind::Value, MEASURED, &["class"], "request sent to first token, at the client"),
    signal("client.itl", Unit::Second, Dimension::Outcome, Kind::Value, MEASURED, &[], "gap between consecutive tokens at the client; a chunk of n tokens is n tokens in one gap"),
    signal("client.tpot", Unit::Second, Dimension::Outcome, Kind::Value, MEASURED, &[], "(e2e - ttft) / (output tokens - 1), per request"),
    signal("client.e2e", Unit::Second, Dimension::Outcome, Kind::Value, MEASURED, &["class"], "whole request at the client"),
    signal("client.chunk_tokens", Unit::Token, Dimension::Network, Kind::Value, MEASURED, &[], "tokens per delivered chunk"),
    signal("client.chunk_gap", Unit::Second, Dimension::Network, Kind::Value, MEASURED, &[], "gap between delivered chunks"),
    signal("client.connect_time", Unit::Second, Dimension::Network, Kind::Value, MEASURED, &[], "time to a usable connection"),
    signal("client.new_connections", Unit::Count, Dimension::Network, Kind::Value, MEASURED, &[], "connections opened during the run"),
    signal("client.concurrency", Unit::Request, Dimension::Workload, Kind::Value, MEASURED, &[], "requests in flight as offered by the client"),
    signal("client.request_rate", Unit::RequestPerSecond, Dimension::Workload, Kind::Value, MEASURED, &[], "requests per second as offered"),
    signal("client.errors", Unit::Count, Dimension::Workload, Kind::Value, MEASURED, &[], "failed requests"),
    signal("client.retries", Unit::Count, Dimension::Workload, Kind::Value, MEASURED, &[], "attempts beyond the first"),
    signal("client.cpu", Unit::Ratio, Dimension::Workload, Kind::Value, MEASURED, &[], "CPU use of the load client, of one core"),
    signal("client.throughput.output", Unit::TokenPerSecond, Dimension::Outcome, Kind::Value, MEASURED, &[], "output tokens per second, all requests"),
    signal("client.throughput.prompt", Unit::TokenPerSecond, Dimension::Outcome, Kind::Value, MEASURED, &[], "prompt tokens per second, all requests"),
    signal("client.throughput.requests", Unit::RequestPerSecond, Dimension::Outcome, Kind::Value, MEASURED, &[], "requests finished per second"),
    signal("client.class", Unit::Text, Dimension::Outcome, Kind::Value, MEASURED, &[], "class of request the row is about (first stream, cold prompt, data set)"),
    signal("client.run_index", Unit::Count, Dimension::Outcome, Kind::Value, MEASURED, &[], "position of the row in the order of measuring or sending"),
    signal("client.elapsed", Unit::Second, Dimension::Outcome, Kind::Value, MEASURED, &[], "time since the start of the load"),
    signal("client.completed", Unit::Count, Dimension::Outcome, Kind::Value, MEASURED, &[], "requests finished in the run"),
    signal("client.duration", Unit::Second, Dimension::Outcome, Kind::Value, MEASURED, &[], "wall time of the run"),
    signal("client.chunk_bytes", Unit::Byte, Dimension::Outcome, Kind::Value, MEASURED, &[], "size of a delivered chunk"),
    signal("client.read_buffer", Unit::Byte, Dimension::Outcome, Kind::Value, MEASURED, &[], "read buffer of the load generator"),
    signal("client.throughput.total", Unit::TokenPerSecond, Dimension::Outcome, Kind::Value, MEASURED, &[], "prompt and output tokens together"),
    signal("client.throughput.audio", Unit::Factor, Dimension::Outcome, Kind::Value, MEASURED, &[], "seconds of audio made per second"),
    signal("client.schedule_slip", Unit::Second, Dimension::Outcome, Kind::Value, MEASURED, &[], "the client's own health"),
    signal("client.loop_lag", Unit::Second, Dimension::Outcome, Kind::Value, MEASURED, &[], "the client's own health"),
    signal("gateway.ttft", Unit::Second, Dimension::Outcome, Kind::Value, MEASURED, &[], "request received to first token passed on, at the gateway"),
    signal("gateway.itl", Unit::Second, Dimension::Outcome, Kind::Value, MEASURED, &[], "gap between consecutive tokens at the gateway"),
    signal("gateway.e2e", Unit::Second, Dimension::Outcome, Kind::Value, MEASURED, &[], "whole request at the gateway"),
    signal("gateway.body_bytes", Unit::Byte, Dimension::Waiting, Kind::Value, MEASURED, &[], "request body seen by the gateway"),
    signal("gateway.body_chunks", Unit::Factor, Dimension::Waiting, Kind::Value, MEASURED, &[], "chunks per request body (mean)"),
    signal("gateway.time", Unit::Second, Dimension::Waiting, Kind::Value, MEASURED, &[], "parts of a request inside the gateway, by part: total, header_to_first_body, body_stream, parse, director"),
    signal("gateway.upstream_setup_time", Unit::Second, Dimension::Waiting, Kind::Value, MEASURED, &[], "from request entered to upstream client ready"),
    signal("gateway.queue_time", Unit::Second, Dimension::Waiting, Kind::Value, MEASURED, &[], "at the gateway"),
    signal("gateway.in_flight", Unit::Count, Dimension::Waiting, Kind::Value, MEASURED, &[], "at the gateway"),
    signal("gateway.requests", Unit::Count, Dimension::Waiting, Kind::Counter, MEASURED, &["finish"], "requests answered by the gateway so far"),
    signal("gateway.errors", Unit::Count, Dimension::Waiting, Kind::Counter, MEASURED, &["reason"], "requests that failed at the gateway so far"),
    signal("gateway.overhead", Unit::Second, Dimension::Waiting, Kind::Histogram, MEASURED, &[], "time a request spends in the gateway itself"),
    signal("server.ttft", Unit::Second, Dimension::Outcome, Kind::Histogram, MEASURED, &["replica", "engine"], "request received to first token, in the API process"),
    signal("server.itl", Unit::Second, Dimension::Outcome, Kind::Histogram, MEASURED, &["replica", "engine"], "gap between consecutive tokens as the engine hands them out"),
    signal("server.tpot", Unit::Second, Dimension::Outcome, Kind::Histogram, MEASURED, &["replica", "engine"], "(e2e - ttft) / (output tokens - 1), per request, in the API process"),
    signal("server.e2e", Unit::Second, Dimension::Outcome, Kind::Histogram, MEASURED, &["replica", "engine"], "whole request in the API process"),
    signal("server.http_time", Unit::Second, Dimension::Outcome, Kind::Histogram, MEASURED, &["replica"], "whole HTTP request as the server framework saw it, finished or not"),
    signal("server.queue_time", Unit::Second, Dimension::Waiting, Kind::Histogram, MEASURED, &["replica", "engine"], "waiting in the engine queue until first scheduled"),
    signal("server.prefill_time", Unit::Second, Dimension::Compute, Kind::Histogram, MEASURED, &["replica", "engine"], "first scheduled to first token"),
    signal("server.decode_time", Unit::Second, Dimension::Compute, Kind::Histogram, MEASURED, &["replica", "engine"], "first token to last token"),
    signal("server.inference_time", Unit::Second, Dimension::Compute, Kind::Histogram, MEASURED, &["replica", "engine"], "first scheduled to last token"),
    signal("server.tokenize_time", Unit::Second, Dimension::Host, Kind::Value, MEASURED, &["replica"], "turning text into tokens"),
    signal("server.detokenize_time", Unit::Second, Dimension::Host, Kind::Value, MEASURED, &["replica"], "turning tokens into text"),
    signal("server.prompt_tokens", Unit::Token, Dimension::Workload, Kind::Histogram, MEASURED, &["replica", "engine"], "prompt tokens per request"),
    signal("server.output_tokens", Unit::Token, Dimension::Workload, Kind::Histogram, MEASURED, &["replica", "engine"], "output tokens per request"),
    signal("server.cached_tokens", Unit::Token, Dimension::Workload, Kind::Value, MEASURED, &["replica", "engine"], "prompt tokens per request served from cache"),
    signal("server.computed_tokens", Unit::Token, Dimension::Workload, Kind::Histogram, MEASURED, &["replica", "engine"], "prompt tokens per request computed in prefill"),
    signal("server.request_preemptions", Unit::Count, Dimension::MemoryCapacity, Kind::Histogram, MEASURED, &["replica", "engine"], "times one request was preempted"),
    signal("server.prompt_tokens_total", Unit::Token, Dimension::Workload, Kind::Counter, MEASURED, &["replica", "engine"], "prompt tokens of all requests so far"),
    signal("server.output_tokens_total", Unit::Token, Dimension::Workload, Kind::Counter, MEASURED, &["replica", "engine"], "output tokens of all requests so far"),
    signal("server.computed_tokens_total", Unit::Token, Dimension::Workload, Kind::Counter, MEASURED, &["replica", "engine"], "prompt tokens computed so far"),
    signal("server.cached_tokens_total", Unit::Token, Dimension::Workload, Kind::Counter, MEASURED, &["replica", "engine", "source"], "prompt tokens taken from a cache so far"),
    signal("server.finished", Unit::Count, Dimension::Outcome, Kind::Counter, MEASURED, &["replica", "engine", "finish"], "requests finished so far"),
    signal("server.http_requests", Unit::Count, Dimension::Outcome, Kind::Counter, MEASURED, &["replica"], "completion requests answered over HTTP so far, abandoned ones included"),
    signal("server.start_time", Unit::Second, Dimension::Outcome, Kind::Gauge, MEASURED, &["replica"], "start of the API process, epoch seconds"),
    signal("server.throughput.prompt", Unit::TokenPerSecond, Dimension::Outcome, Kind::Gauge, MEASURED, &["replica", "engine", "source"], "prompt tokens computed per second, as the engine prints it (cached ones left out)"),
    signal("server.throughput.output", Unit::TokenPerSecond, Dimension::Outcome, Kind::Gauge, MEASURED, &["replica", "engine", "source"], "output tokens per second, as the engine prints it"),
    signal("server.in_flight", Unit::Count, Dimension::Host, Kind::Value, MEASURED, &[], "the API process: for backlog, retries, starvation"),
    signal("server.aborted", Unit::Count, Dimension::Host, Kind::Value, MEASURED, &[], "the API process: for backlog, retries, starvation"),
    signal("server.rejected", Unit::Count, Dimension::Host, Kind::Value, MEASURED, &[], "the API process: for backlog, retries, starvation"),
    signal("server.corrupted", Unit::Count, Dimension::Host, Kind::Counter, MEASURED, &["replica", "engine"], "requests with not-a-number in their logits so far"),
    signal("server.scrape_time", Unit::Second, Dimension::Host, Kind::Value, MEASURED, &[], "the API process: for backlog, retries, starvation"),
    signal("server.grammar_time", Unit::Second, Dimension::Host, Kind::Value, MEASURED, &[], "structured output, compile, graph use by mode"),
    signal("engine.running", Unit::Request, Dimension::Waiting, Kind::Gauge, MEASURED, &["replica", "engine"], "requests in the running batch"),
    signal("engine.waiting", Unit::Request, Dimension::Waiting, Kind::Gauge, MEASURED, &["replica", "engine", "reason"], "requests waiting to be scheduled"),
    signal("engine.swapped", Unit::Request, Dimension::Waiting, Kind::Gauge, MEASURED, &["replica", "engine"], "requests swapped out"),
    signal("engine.step_time", Unit::Second, Dimension::Compute, Kind::Value, DERIVED, &["phase"], "one forward pass; derived from the busy window where no engine exports it, mean only"),
    signal("engine.step_tokens", Unit::Token, Dimension::Compute, Kind::Histogram, MEASURED, &["replica", "engine"], "tokens in one forward pass"),
    signal("engine.step_seqs", Unit::Request, Dimension::Compute, Kind::Value, MEASURED, &[], "sequences in one forward pass"),
    signal("engine.steps", Unit::Count, Dimension::Compute, Kind::Counter, MEASURED, &["replica", "engine"], "forward passes so far"),
    signal("engine.host_gap", Unit::Second, Dimension::Host, Kind::Value, MEASURED, &[], "end of one step's device work to the start of the next"),
    signal("engine.stage", Unit::Count, Dimension::Waiting, Kind::Value, MEASURED, &[], "stage of a chain of engines"),
    signal("engine.time_share", Unit::Ratio, Dimension::Waiting, Kind::Value, MEASURED, &[], "share of the serving process's time, by part: api_server, scheduler, device"),
    signal("engine.rank_tokens", Unit::Token, Dimension::Waiting, Kind::Value, MEASURED, &[], "tokens one expert rank processes in a step"),
    signal("engine.grammar_waiting", Unit::Count, Dimension::Waiting, Kind::Value, MEASURED, &[], "structured output, compile, graph use by mode"),
    signal("engine.mask_time", Unit::Second, Dimension::Waiting, Kind::Value, MEASURED, &[], "structured output, compile, graph use by mode"),
    signal("engine.compile_time", Unit::Second, Dimension::Waiting, Kind::Value, MEASURED, &[], "structured output, compile, graph use by mode"),
    signal("engine.recompile_limit_hits", Unit::Count, Dimension::Compute, Kind::Counter, MEASURED, &["replica", "engine"], "functions that torch stopped compiling because they were compiled too often, so far"),
    signal("engine.graph_steps", Unit::Count, Dimension::Waiting, Kind::Counter, MEASURED, &["replica", "engine", "mode"], "forward passes so far, by use of captured graphs; from a log those it printed"),
    signal("engine.stage_idle", Unit::Ratio, Dimension::Waiting, Kind::Value, MEASURED, &[], "pipelines"),
    signal("engine.in_flight_batches", Unit::Count, Dimension::Waiting, Kind::Value, MEASURED, &[], "pipelines"),
    signal("engine.device_step_time", Unit::Second, Dimension::Compute, Kind::Value, MEASURED, &["replica", "engine"], "device time of one iteration, as the engine prints it"),
    signal("engine.host_step_time", Unit::Second, Dimension::Host, Kind::Value, MEASURED, &["replica", "engine"], "host time of one iteration, as the engine prints it; above the device time the host is the limit"),
    signal("engine.forward_time", Unit::Second, Dimension::Compute, Kind::Counter, MEASURED, &["replica", "engine", "category"], "device time in forward passes so far"),
    signal("engine.idle_time", Unit::Second, Dimension::Waiting, Kind::Counter, MEASURED, &["replica", "engine"], "time without a request to run so far"),
    signal("engine.scheduler_time", Unit::Second, Dimension::Host, Kind::Counter, MEASURED, &["replica", "engine", "category"], "time of the scheduling loop so far, by part"),
    signal("engine.flops", Unit::Count, Dimension::Compute, Kind::Counter, MEASURED, &["replica", "engine"], "floating point operations per device so far, as the engine estimates"),
    signal("engine.read_bytes", Unit::Byte, Dimension::MemoryBandwidth, Kind::Counter, MEASURED, &["replica", "engine"], "bytes read from device memory so far, as the engine estimates"),
    signal("engine.write_bytes", Unit::Byte, Dimension::MemoryBandwidth, Kind::Counter, MEASURED, &["replica", "engine"], "bytes written to device memory so far, as the engine estimates"),
    signal("engine.adapters_loaded", Unit::Count, Dimension::Waiting, Kind::Value, MEASURED, &[], "LoRA slots"),
    signal("engine.adapter_waiting", Unit::Count, Dimension::Waiting, Kind::Value, MEASURED, &[], "LoRA slots"),
    signal("kv.usage", Unit::Ratio, Dimension::MemoryCapacity, Kind::Gauge, MEASURED, &["replica", "engine"], "share of KV cache blocks in use"),
    signal("kv.capacity", Unit::Token, Dimension::MemoryCapacity, Kind::Gauge, MEASURED, &["replica", "engine"], "KV cache size in tokens"),
    signal("kv.block_size", Unit::Token, Dimension::MemoryCapacity, Kind::Gauge, MEASURED, &["replica", "engine"], "tokens per KV block"),
    signal("kv.preemptions", Unit::Count, Dimension::MemoryCapacity, Kind::Counter, MEASURED, &["replica", "engine"], "requests pushed out of the batch so far"),
    signal("kv.evictions", Unit::Count, Dimension::MemoryCapacity, Kind::Counter, MEASURED, &["replica", "engine"], "cached blocks evicted so far"),
    signal("kv.prefix_queries", Unit::Token, Dimension::MemoryCapacity, Kind::Counter, MEASURED, &["replica", "engine"], "prompt tokens looked up in the prefix cache so far"),
    signal("kv.prefix_hits", Unit::Token, Dimension::MemoryCapacity, Kind::Counter, MEASURED, &["replica", "engine"], "prompt tokens found in the prefix cache so far"),
    signal("kv.external_queries", Unit::Token, Dimension::MemoryCapacity, Kind::Counter, MEASURED, &["replica", "engine"], "prompt tokens looked up in a cache outside the engine so far"),
    signal("kv.external_hits", Unit::Token, Dimension::MemoryCapacity, Kind::Counter, MEASURED, &["replica", "engine"], "prompt tokens found in a cache outside the engine so far"),
    signal("kv.tier_hits", Unit::Token, Dimension::MemoryCapacity, Kind::Counter, MEASURED, &["replica", "engine", "source"], "prompt tokens found in a cache so far, by the tier that held them"),
    signal("kv.capacity_blocks", Unit::Count, Dimension::MemoryCapacity, Kind::Gauge, MEASURED, &["replica", "engine"], "KV cache size in blocks"),
    signal("kv.block_queries", Unit::Count, Dimension::MemoryCapacity, Kind::Counter, MEASURED, &["replica", "engine"], "blocks looked up in the prefix cache so far, where the engine counts blocks"),
    signal("kv.block_hits", Unit::Count, Dimension::MemoryCapacity, Kind::Counter, MEASURED, &["replica", "engine"], "blocks found in the prefix cache so far, where the engine counts blocks"),
    signal("kv.block_lifetime", Unit::Second, Dimension::MemoryCapacity, Kind::Histogram, MEASURED, &["replica", "engine"], "allocation of a block to its eviction (sampled)"),
    signal("kv.block_idle", Unit::Second, Dimension::MemoryCapacity, Kind::Histogram, MEASURED, &["replica", "engine"], "last use of a block to its eviction (sampled)"),
    signal("kv.block_reuse_gap", Unit::Second, Dimension::MemoryCapacity, Kind::Histogram, MEASURED, &["replica", "engine"], "time between uses of a block (sampled)"),
    signal("kv.reserved_unused", Unit::Ratio, Dimension::MemoryCapacity, Kind::Value, MEASURED, &[], "reserved but never filled"),
    signal("kv.capacity_bytes", Unit::Byte, Dimension::MemoryCapacity, Kind::Value, MEASURED, &[], "size of the pool where tokens are not reported"),
    signal("kv.prefix_hit_ratio", Unit::Ratio, Dimension::MemoryCapacity, Kind::Value, DERIVED, &[], "hit tokens / queried tokens, as engines print it"),
    signal("kv.prefix_reusable", Unit::Ratio, Dimension::MemoryCapacity, Kind::Value, MEASURED, &[], "share of prompt tokens that one unlimited shared cache would have held; the bound"),
    signal("kv.prefix_lookup_margin", Unit::Token, Dimension::MemoryCapacity, Kind::Value, MEASURED, &[], "tail of a match that the lookup discards"),
    signal("kv.state_block_size", Unit::Token, Dimension::MemoryCapacity, Kind::Value, MEASURED, &[], "distance of state snapshots in a hybrid model"),
    signal("kv.recomputed_tokens", Unit::Token, Dimension::MemoryCapacity, Kind::Value, MEASURED, &[], "prompt tokens computed again per preemption"),
    signal("kv.free", Unit::Token, Dimension::MemoryCapacity, Kind::Value, MEASURED, &[], "pool and transfers"),
    signal("kv.evictable", Unit::Token, Dimension::MemoryCapacity, Kind::Value, MEASURED, &[], "pool and transfers"),
    signal("kv.alloc_failures", Unit::Count, Dimension::MemoryCapacity, Kind::Value, MEASURED, &[], "pool and transfers"),
    signal("kv.transfer_time", Unit::Second, Dimension::MemoryCapacity, Kind::Value, MEASURED, &[], "pool and transfers"),
    signal("kv.transfer_bytes", Unit::Byte, Dimension::MemoryCapacity, Kind::Value, MEASURED, &[], "pool and transfers"),
    signal("kv.fetch_waiting", Unit::Count, Dimension::MemoryCapacity, Kind::Value, MEASURED, &[], "pool and transfers"),
    signal("kv.transfer_failures", Unit::Count, Dimension::MemoryCapacity, Kind::Value, MEASURED, &[], "pool and transfers"),
    signal("spec.drafts", Unit::Count, Dimension::Compute, Kind::Counter, MEASURED, &["replica", "engine"], "draft rounds so far"),
    signal("spec.draft_tokens", Unit::Token, Dimension::Compute, Kind::Counter, MEASURED, &["replica", "engine"], "tokens drafted so far"),
    signal("spec.accepted_tokens", Unit::Token, Dimension::Compute, Kind::Counter, MEASURED, &["replica", "engine"], "drafted tokens accepted so far"),
    signal("spec.accepted_at_position", Unit::Token, Dimension::Compute, Kind::Counter, MEASURED, &["replica", "engine", "position"], "drafted tokens accepted so far, by position"),
    signal("spec.draft_time", Unit::Second, Dimension::Compute, Kind::Value, MEASURED, &[], "time spent drafting per step"),
    signal("spec.acceptance_rate", Unit::Ratio, Dimension::Compute, Kind::Value, DERIVED, &[], "accepted / drafted tokens"),
    signal("spec.acceptance_length", Unit::Token, Dimension::Compute, Kind::Value, DERIVED, &[], "tokens emitted per target step, bonus token included"),
    signal("spec.position_acceptance", Unit::Ratio, Dimension::Compute, Kind::Value, MEASURED, &[], "list: accepted at position i / drafts (the core accepted_at_position is read as counts)"),
    signal("spec.verified_tokens", Unit::Token, Dimension::Compute, Kind::Value, MEASURED, &[], "tokens the target computed in verification"),
    signal("spec.draft_token_time", Unit::Second, Dimension::Compute, Kind::Value, MEASURED, &[], "time per drafted token"),
    signal("spec.verify_token_time", Unit::Second, Dimension::Compute, Kind::Value, MEASURED, &[], "time per verified token"),
    signal("spec.draft_cpu_time", Unit::Second, Dimension::Compute, Kind::Value, MEASURED, &[], "CPU time of drafting per step, all ranks"),
    signal("gpu.busy", Unit::Ratio, Dimension::None, Kind::Gauge, MEASURED, &["device"], "some kernel or copy was in flight; never used alone for a verdict"),
    signal("gpu.sm_active", Unit::Ratio, Dimension::Compute, Kind::Gauge, MEASURED, &["device", "phase"], "SM cycles with at least one warp"),
    signal("gpu.sm_occupancy", Unit::Ratio, Dimension::Compute, Kind::Gauge, MEASURED, &["device", "phase"], "resident warps of the maximum"),
    signal("gpu.tensor_active", Unit::Ratio, Dimension::Compute, Kind::Gauge, MEASURED, &["device", "phase"], "cycles the matrix pipe is active"),
    signal("gpu.dram_active", Unit::Ratio, Dimension::MemoryBandwidth, Kind::Gauge, MEASURED, &["device", "phase"], "cycles the memory interface moves data"),
    signal("gpu.dram_bytes", Unit::BytePerSecond, Dimension::MemoryBandwidth, Kind::Gauge, MEASURED, &["device"], "memory traffic"),
    signal("gpu.pcie_bytes", Unit::BytePerSecond, Dimension::Interconnect, Kind::Gauge, MEASURED, &["device"], "PCIe traffic, both directions together"),
    signal("gpu.nvlink_bytes", Unit::BytePerSecond, Dimension::Interconnect, Kind::Gauge, MEASURED, &["device"], "NVLink traffic, both directions together"),
    signal("gpu.sm_clock", Unit::Hertz, Dimension::Hardware, Kind::Gauge, MEASURED, &["device", "phase"], "SM clock"),
    signal("gpu.mem_clock", Unit::Hertz, Dimension::Hardware, Kind::Gauge, MEASURED, &["device", "phase"], "memory clock"),
    signal("gpu.power", Unit::Watt, Dimension::Hardware, Kind::Gauge, MEASURED, &["device"], "power draw"),
    signal("gpu.power_limit", Unit::Watt, Dimension::Hardware, Kind::Gauge, MEASURED, &["device"], "power limit"),
    signal("gpu.temperature", Unit::Celsius, Dimension::Hardware, Kind::Gauge, MEASURED, &["device"], "temperature"),
    signal("gpu.throttle_reasons", Unit::Count, Dimension::Hardware, Kind::Gauge, MEASURED, &["device", "reason"], "active throttle reasons, bit mask"),
    signal("gpu.memory_used", Unit::Byte, Dimension::MemoryCapacity, Kind::Gauge, MEASURED, &["device"], "device memory in use"),
    signal("gpu.memory_total", Unit::Byte, Dimension::MemoryCapacity, Kind::Gauge, MEASURED, &["device"], "device memory"),
    signal("gpu.dram_bandwidth", Unit::BytePerSecond, Dimension::Hardware, Kind::Value, MEASURED, &[], "peak memory bandwidth by data sheet"),
    signal("gpu.dram_bandwidth_sustained", Unit::BytePerSecond, Dimension::Hardware, Kind::Value, MEASURED, &[], "measured by a read probe"),
    signal("gpu.link_bandwidth", Unit::BytePerSecond, Dimension::Hardware, Kind::Value, MEASURED, &[], "practical limit of the host link"),
    signal("gpu.pcie_gen", Unit::Count, Dimension::Hardware, Kind::Value, MEASURED, &["device"], "negotiated generation"),
    signal("gpu.pcie_width", Unit::Count, Dimension::Hardware, Kind::Value, MEASURED, &["device"], "negotiated lanes"),
    signal("gpu.memory_busy", Unit::Ratio, Dimension::Hardware, Kind::Value, MEASURED, &["device"], "share of time the memory controller was busy (nvidia-smi utilization.memory); not dram_active"),
    signal("gpu.throttle_share", Unit::Ratio, Dimension::Hardware, Kind::Value, MEASURED, &["device", "reason"], "share of samples with a reason active, by reason"),
    signal("gpu.power_share", Unit::Ratio, Dimension::Hardware, Kind::Value, MEASURED, &[], "power / power limit, where only the ratio is known"),
    signal("gpu.fan_speed", Unit::Rpm, Dimension::Hardware, Kind::Value, MEASURED, &[], "as named"),
    signal("gpu.sm_clock_max", Unit::Hertz, Dimension::Hardware, Kind::Value, MEASURED, &["device"], "nominal clocks; warps = occupancy × maximum"),
    signal("gpu.mem_clock_max", Unit::Hertz, Dimension::Hardware, Kind::Value, MEASURED, &["device"], "nominal clocks; warps = occupancy × maximum"),
    signal("gpu.active_warps", Unit::Factor, Dimension::Hardware, Kind::Value, MEASURED, &[], "nominal clocks; warps = occupancy × maximum"),
    signal("kernel.time", Unit::Second, Dimension::Compute, Kind::Value, MEASURED, &["category", "kernel", "phase"], "device time by category, per engine step unless labelled otherwise"),
    signal("kernel.launch_gap", Unit::Second, Dimension::Waiting, Kind::Value, MEASURED, &["phase"], "device idle between launches"),
    signal("kernel.launch_cost", Unit::Second, Dimension::Waiting, Kind::Value, MEASURED, &["mode"], "host time of one bare launch call of the driver, by inferoscope bench"),
    signal("kernel.sync_cost", Unit::Second, Dimension::Waiting, Kind::Value, MEASURED, &[], "host time of a synchronization with a device that has nothing to do"),
    signal("kernel.launch_to_start", Unit::Second, Dimension::Waiting, Kind::Value, MEASURED, &[], "launch call to kernel start"),
    signal("kernel.sync_wait", Unit::Second, Dimension::Waiting, Kind::Value, MEASURED, &[], "host blocked on the device, per engine step"),
    signal("kernel.graph_share", Unit::Ratio, Dimension::Waiting, Kind::Value, MEASURED, &["phase"], "share of kernels that came from a graph replay"),
    signal("kernel.count_per_step", Unit::Count, Dimension::Waiting, Kind::Value, MEASURED, &["phase"], "kernels per engine step"),
    signal("kernel.name", Unit::Text, Dimension::Compute, Kind::Value, MEASURED, &[], "kernel the row is about"),
    signal("kernel.time_ideal", Unit::Second, Dimension::Compute, Kind::Value, MEASURED, &[], "time by its own bytes or operations, by category like kernel.time"),
    signal("kernel.dram_bytes", Unit::BytePerSecond, Dimension::Compute, Kind::Value, MEASURED, &[], "achieved memory throughput of one kernel"),
    signal("kernel.dram_share", Unit::Ratio, Dimension::Compute, Kind::Value, MEASURED, &[], "of the achievable bandwidth"),
    signal("kernel.sm_throughput", Unit::Ratio, Dimension::Compute, Kind::Value, MEASURED, &[], "of peak compute throughput"),
    signal("kernel.no_eligible_warp", Unit::Ratio, Dimension::Compute, Kind::Value, MEASURED, &[], "cycles without an eligible warp"),
    signal("kernel.eligible_warps", Unit::Factor, Dimension::Compute, Kind::Value, MEASURED, &[], "eligible warps per scheduler"),
    signal("kernel.active_threads_per_warp", Unit::Factor, Dimension::Compute, Kind::Value, MEASURED, &[], "of 32"),
    signal("kernel.occupancy", Unit::Ratio, Dimension::Compute, Kind::Value, MEASURED, &[], "achieved occupancy of one kernel"),
    signal("kernel.occupancy_theoretical", Unit::Ratio, Dimension::Compute, Kind::Value, MEASURED, &[], "as named"),
    signal("kernel.block_limit_registers", Unit::Count, Dimension::Compute, Kind::Value, MEASURED, &[], "blocks per SM that registers allow"),
    signal("kernel.waves", Unit::Factor, Dimension::Compute, Kind::Value, MEASURED, &[], "waves of blocks per SM"),
    signal("comm.time", Unit::Second, Dimension::Interconnect, Kind::Value, MEASURED, &["phase"], "collective time per engine step"),
    signal("comm.exposed_time", Unit::Second, Dimension::Interconnect, Kind::Value, MEASURED, &["phase"], "collective time not covered by compute, per engine step"),
    signal("comm.bytes", Unit::Byte, Dimension::Interconnect, Kind::Value, MEASURED, &[], "bytes in collectives"),
    signal("comm.skew", Unit::Second, Dimension::Interconnect, Kind::Value, MEASURED, &[], "wait for the last rank inside collectives"),
    signal("comm.calls", Unit::Count, Dimension::Interconnect, Kind::Value, MEASURED, &[], "collectives per step"),
    signal("comm.call_time", Unit::Second, Dimension::Interconnect, Kind::Value, MEASURED, &[], "time of one collective"),
    signal("comm.call_bytes", Unit::Byte, Dimension::Interconnect, Kind::Value, MEASURED, &[], "message of one collective"),
    signal("comm.transport", Unit::Text, Dimension::Interconnect, Kind::Value, MEASURED, &[], "transport the library chose: socket, ib, p2p, shm"),
    signal("comm.link_bandwidth", Unit::BytePerSecond, Dimension::Interconnect, Kind::Value, MEASURED, &[], "link and achieved"),
    signal("comm.bus_bandwidth", Unit::BytePerSecond, Dimension::Interconnect, Kind::Value, MEASURED, &[], "link and achieved"),
    signal("comm.alpha", Unit::Second, Dimension::Interconnect, Kind::Value, MEASURED, &[], "link and achieved"),
    signal("proc.cpu", Unit::Ratio, Dimension::Host, Kind::Gauge, MEASURED, &["role", "process"], "CPU use of a process, of one core"),
    signal("proc.gil_wait", Unit::Ratio, Dimension::Host, Kind::Gauge, MEASURED, &["role", "process"], "share of time waiting for the interpreter lock"),
    signal("proc.gil_held", Unit::Ratio, Dimension::Host, Kind::Gauge, MEASURED, &["role", "process", "thread"], "share of time in which the threads of one name run with the interpreter lock"),
    signal("proc.runqueue_wait", Unit::Second, Dimension::Host, Kind::Counter, MEASURED, &["role", "process"], "main thread runnable but not running, so far"),
    signal("proc.run_time", Unit::Second, Dimension::Host, Kind::Counter, MEASURED, &["role", "process"], "main thread running, so far"),
    signal("proc.cpu_time", Unit::Second, Dimension::Host, Kind::Counter, MEASURED, &["role", "process"], "CPU time of all threads, so far"),
    signal("proc.thread_cpu_time", Unit::Second, Dimension::Host, Kind::Counter, MEASURED, &["role", "process", "thread"], "CPU time of the threads of one name, so far"),
    signal("proc.runqueue_wait_all", Unit::Second, Dimension::Host, Kind::Counter, MEASURED, &["role", "process"], "all live threads runnable but not running, so far"),
    signal("proc.context_switches", Unit::Count, Dimension::Host, Kind::Counter, MEASURED, &["role", "process", "mode"], "context switches of the main thread, so far"),
    signal("proc.rss", Unit::Byte, Dimension::MemoryCapacity, Kind::Gauge, MEASURED, &["role", "process"], "resident memory"),
    signal("proc.rank", Unit::Count, Dimension::Host, Kind::Value, MEASURED, &[], "rank of the worker process"),
    signal("proc.numa_local_share", Unit::Ratio, Dimension::Host, Kind::Value, MEASURED, &[], "local / all pages of the processes"),
    signal("proc.numa_node0_bytes", Unit::Byte, Dimension::Host, Kind::Value, MEASURED, &[], "memory of a rank on node 0"),
    signal("proc.numa_node1_bytes", Unit::Byte, Dimension::Host, Kind::Value, MEASURED, &[], "memory of a rank on node 1"),
    signal("proc.numa_expected_node", Unit::Count, Dimension::Host, Kind::Value, MEASURED, &[], "node of the rank's GPU"),
    signal("proc.threads", Unit::Count, Dimension::Host, Kind::Value, MEASURED, &[], "threads"),
    signal("proc.frame_share", Unit::Ratio, Dimension::Host, Kind::Value, MEASURED, &["part", "role"], "share of the samples at work in a part (ipc, scheduler, tokenizer, …); of parts idle and spin, share of all samples"),
    signal("host.cores", Unit::Count, Dimension::Host, Kind::Gauge, MEASURED, &[], "cores"),
    signal("host.cpu_quota", Unit::Count, Dimension::Host, Kind::Gauge, MEASURED, &[], "cores the cgroup allows"),
    signal("host.cpu_throttled", Unit::Second, Dimension::Host, Kind::Counter, MEASURED, &[], "time throttled by the cgroup"),
    signal("host.cpu_busy", Unit::Second, Dimension::Host, Kind::Counter, MEASURED, &["device"], "CPU time in use, per CPU, so far"),
    signal("host.load", Unit::Factor, Dimension::Host, Kind::Gauge, MEASURED, &[], "one-minute load average"),
    signal("host.sockets", Unit::Count, Dimension::Host, Kind::Value, MEASURED, &[], "as named"),
    signal("host.dram_bandwidth", Unit::BytePerSecond, Dimension::Host, Kind::Value, MEASURED, &[], "peak of the host memory"),
    signal("host.dram_bandwidth_sustained", Unit::BytePerSecond, Dimension::Host, Kind::Value, MEASURED, &[], "host memory, measured by a read probe of all threads"),
    signal("host.thread_wake", Unit::Second, Dimension::Host, Kind::Value, MEASURED, &[], "handing work to a thread that sleeps"),
    signal("bench.bandwidth", Unit::BytePerSecond, Dimension::MemoryBandwidth, Kind::Value, MEASURED, &["kernel"], "bytes per second of one operator alone (copy, triad, attention, copies over the host link), by inferoscope bench"),
    signal("bench.flops", Unit::FlopPerSecond, Dimension::Compute, Kind::Value, MEASURED, &["kernel", "phase"], "rate of one matrix product of the model alone, by inferoscope bench"),
    signal("config.max_num_seqs", Unit::Request, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.max_num_batched_tokens", Unit::Token, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.max_model_len", Unit::Token, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.gpu_memory_utilization", Unit::Ratio, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.block_size", Unit::Token, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.enforce_eager", Unit::Flag, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.graph_sizes", Unit::Text, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.tensor_parallel", Unit::Count, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.pipeline_parallel", Unit::Count, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.data_parallel", Unit::Count, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.expert_parallel", Unit::Flag, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.speculative_tokens", Unit::Token, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.speculative_method", Unit::Text, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.prefix_caching", Unit::Flag, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.chunked_prefill", Unit::Flag, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.attention_backend", Unit::Text, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.quantization", Unit::Text, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.kv_dtype", Unit::Text, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.api_processes", Unit::Count, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.num_gpu_blocks", Unit::Count, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.swap_space", Unit::Byte, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.long_prefill_token_threshold", Unit::Token, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.kv_connector", Unit::Text, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.lora", Unit::Flag, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.scheduling_policy", Unit::Text, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "effective setting"),
    signal("config.gateway", Unit::Text, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "what stands between clients and the server"),
    signal("config.proxy_buffering", Unit::Flag, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "the proxy gathers the answer before it passes it on"),
    signal("config.disable_custom_all_reduce", Unit::Flag, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "the engine uses NCCL for its all-reduce"),
    signal("config.slow_tokenizer", Unit::Flag, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "the tokenizer is the one in Python"),
    signal("config.kv_offload", Unit::Flag, Dimension::Setting, Kind::Value, MEASURED, &["replica"], "KV blocks move to host memory"),
    signal("config.graph_max_size", Unit::Count, Dimension::Setting, Kind::Value, MEASURED, &[], "largest captured batch, where the list is not known"),
    signal("config.graph_mode", Unit::Text, Dimension::Setting, Kind::Value, MEASURED, &[], "kind of captured graphs"),
    signal("config.moe_backend", Unit::Text, Dimension::Setting, Kind::Value, MEASURED, &[], "as named"),
    signal("config.async_scheduling", Unit::Flag, Dimension::Setting, Kind::Value, MEASURED, &[], "scheduling runs ahead of the device"),
    signal("config.structured_output_backend", Unit::Text, Dimension::Setting, Kind::Value, MEASURED, &[], "as named"),
    signal("config.split_mode", Unit::Text, Dimension::Setting, Kind::Value, MEASURED, &[], "llama.cpp: none, layer, row"),
    signal("config.capacity_policy", Unit::Text, Dimension::Setting, Kind::Value, MEASURED, &[], "TensorRT-LLM admission policy"),
    signal("config.stream_batch_time", Unit::Second, Dimension::Setting, Kind::Value, MEASURED, &[], "interval for which a serving layer collects tokens"),
    signal("config.max_adapters", Unit::Count, Dimension::Setting, Kind::Value, MEASURED, &[], "LoRA slots"),
    signal("config.timeout", Unit::Second, Dimension::Setting, Kind::Value, MEASURED, &[], "as named"),
    signal("config.retries", Unit::Count, Dimension::Setting, Kind::Value, MEASURED, &[], "as named"),
    signal("config.stream_interval", Unit::Token, Dimension::Setting, Kind::Value, MEASURED, &[], "as named"),
    signal("model.params", Unit::Count, Dimension::Model, Kind::Value, MEASURED, &[], "property of the served model"),
    signal("model.active_params", Unit::Count, Dimension::Model, Kind::Value, MEASURED, &[], "property of the served model"),
    signal("model.layers", Unit::Count, Dimension::Model, Kind::Value, MEASURED, &[], "property of the served model"),
    signal("model.hidden", Unit::Count, Dimension::Model, Kind::Value, MEASURED, &[], "property of the served model"),
    signal("model.heads", Unit::Count, Dimension::Model, Kind::Value, MEASURED, &[], "property of the served model"),
    signal("model.kv_heads", Unit::Count, Dimension::Model, Kind::Value, MEASURED, &[], "property of the served model"),
    signal("model.head_dim", Unit::Count, Dimension::Model, Kind::Value, MEASURED, &[], "property of the served model"),
    signal("model.vocab", Unit::Count, Dimension::Model, Kind::Value, MEASURED, &[], "property of the served model"),
    signal("model.weight_bytes", Unit::Byte, Dimension::Model, Kind::Value, MEASURED, &[], "property of the served model"),
    signal("model.kv_bytes_per_token", Unit::Byte, Dimension::Model, Kind::Value, MEASURED, &[], "property of the served model"),
    signal("model.experts", Unit::Count, Dimension::Model, Kind::Value, MEASURED, &[], "property of the served model"),
    signal("model.experts_per_token", Unit::Count, Dimension::Model, Kind::Value, MEASURED, &[], "property of the served model"),
    signal("model.loaded_bytes", Unit::Byte, Dimension::Model, Kind::Value, MEASURED, &[], "weights, KV and workspace together, as the server lists it"),
    signal("model.device_share", Unit::Ratio, Dimension::Model, Kind::Value, MEASURED, &[], "of model.loaded_bytes on the GPU"),
    signal("model.offloaded_layers", Unit::Count, Dimension::Model, Kind::Value, MEASURED, &[], "layers on the GPU, as llama.cpp counts ('offloaded n/m')"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_well_formed() {
        let mut seen = std::collections::BTreeSet::new();
        for signal in SIGNALS {
            assert!(seen.insert(signal.name), "{} twice", signal.name);
            assert!(signal.name.split('.').count() >= 2 && !signal.meaning.is_empty(), "{}", signal.name);
            assert!(signal.labels.iter().all(|label| crate::labels::KNOWN.contains(label)), "{}", signal.name);
            let last = signal.name.rsplit('.').next().unwrap_or_default();
            assert!(!STATISTICS.contains(&last), "{} ends like a statistic", signal.name);
        }
    }

    #[test]
    fn names_resolve_with_statistic() {
        let found = resolve("client.throughput.output.max").unwrap();
        assert_eq!((found.signal.name, found.statistic), ("client.throughput.output", Some("max")));
        assert_eq!(resolve("server.tpot.mean.vs_baseline").unwrap().unit(), Unit::Factor);
        assert!(resolve("server.tpto").is_none() && resolve("server.ttft.p42").is_none());
        assert_eq!(nearest("server.tfft.p50"), "server.ttft.p50");
    }
}
