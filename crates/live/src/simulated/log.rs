//! The engine's log: what it was started with, and its state each ten seconds, in vLLM's words.

use simulate::config::Topology;
use simulate::online::ReplicaState;

use super::fault::Setup;
use super::metrics::Counts;

/// Between two state lines.
pub(super) const INTERVAL_NS: i64 = 10_000_000_000;

/// Month, day and time of day of a host time, UTC, as in vLLM's log.
fn stamp(t_ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(t_ns))
        .map_or_else(|_| "01-01 00:00:00".into(), |time| time.strftime("%m-%d %H:%M:%S").to_string())
}

/// The first lines.
pub(super) fn start(t_ns: i64, model: &str, setup: &Setup) -> Vec<String> {
    let engine = &setup.system.engine;
    let line = |process: &str, place: &str, text: String| format!("({process}) INFO {} [{place}] {text}", stamp(t_ns));
    vec![
        "# simulated by inferoscope: timed by a scheduler simulation, no measurement of an engine".to_string(),
        line("APIServer pid=1", "api_server.py:1", "vLLM API server version 0.32.0".to_string()),
        line("APIServer pid=1", "utils.py:1", format!("non-default args: {{'model': '{model}'{}}}", arguments(setup))),
        line(
            "EngineCore_DP0 pid=2",
            "kv_cache_utils.py:1",
            format!("GPU KV cache size: {} tokens", grouped(u64::from(engine.kv_blocks) * u64::from(engine.block_tokens))),
        ),
    ]
}

/// What the engine was started with. A fault shows as the argument by which it would be set up.
fn arguments(setup: &Setup) -> String {
    let (system, engine) = (&setup.system, &setup.system.engine);
    let mut arguments =
        vec![("max_num_seqs", engine.max_num_seqs.to_string()), ("max_num_batched_tokens", engine.max_num_batched_tokens.to_string())];
    let mut where_set = |is_set: bool, name: &'static str, value: String| {
        if is_set {
            arguments.push((name, value));
        }
    };
    where_set(!engine.async_scheduling, "async_scheduling", "False".into());
    where_set(!engine.prefix_caching, "enable_prefix_caching", "False".into());
    where_set(engine.long_prefill_tokens.is_some(), "long_prefill_token_threshold", engine.long_prefill_tokens.unwrap_or(0).to_string());
    where_set(setup.kv_blocks_stated.is_some(), "num_gpu_blocks_override", setup.kv_blocks_stated.unwrap_or(0).to_string());
    where_set(setup.kv_dtype != "auto", "kv_cache_dtype", format!("'{}'", setup.kv_dtype));
    where_set(setup.api_processes > 1, "api_server_count", setup.api_processes.to_string());
    where_set(system.delivery.burst_tokens > 1, "stream_interval", system.delivery.burst_tokens.to_string());
    let replicas = if let Topology::Unified { replicas } = system.topology { replicas } else { 1 };
    where_set(replicas > 1, "data_parallel_size", replicas.to_string());
    let depth = engine.depth();
    where_set(depth > 0, "speculative_config", format!("{{'method': 'eagle3', 'num_speculative_tokens': {depth}}}"));
    arguments.iter().fold(String::new(), |text, (name, value)| text + &format!(", '{name}': {value}"))
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What the state line is made from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    prompt_tokens: u64,
    output_tokens: u64,
}

impl Totals {
    pub(super) fn of(counts: &Counts) -> Self {
        Self { prompt_tokens: counts.prompt_tokens, output_tokens: counts.output_tokens }
    }
}

/// The line of one replica, `span_s` after the line before.
pub(super) fn state(t_ns: i64, replica: usize, state: &ReplicaState, counts: &Counts, before: Totals, span_s: f64) -> String {
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / span_s.max(1e-3);
    let usage = 100.0 * f64::from(state.used_blocks) / f64::from(state.total_blocks.max(1));
    let hits = if counts.prefix_queries == 0 { 0.0 } else { 100.0 * counts.prefix_hits as f64 / counts.prefix_queries as f64 };
    format!(
        "(APIServer pid=1) INFO {} [loggers.py:127] Engine {replica:03}: Avg prompt throughput: {:.1} tokens/s, Avg generation throughput: {:.1} \
         tokens/s, Running: {} reqs, Waiting: {} reqs, GPU KV cache usage: {usage:.1}%, Prefix cache hit rate: {hits:.1}%",
        stamp(t_ns),
        rate(counts.prompt_tokens, before.prompt_tokens),
        rate(counts.output_tokens, before.output_tokens),
        state.running,
        state.waiting,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_vllm() {
        let counts = Counts { prompt_tokens: 1000, output_tokens: 500, prefix_queries: 10, prefix_hits: 5, ..Counts::default() };
        let at = ReplicaState { running: 3, waiting: 2, used_blocks: 1, total_blocks: 8, ..ReplicaState::default() };
        assert_eq!(
            state(1_796_036_992_000_000_000, 0, &at, &counts, Totals { prompt_tokens: 500, output_tokens: 0 }, 10.0),
            "(APIServer pid=1) INFO 11-30 11:09:52 [loggers.py:127] Engine 000: Avg prompt throughput: 50.0 tokens/s, Avg generation \
             throughput: 50.0 tokens/s, Running: 3 reqs, Waiting: 2 reqs, GPU KV cache usage: 12.5%, Prefix cache hit rate: 50.0%"
        );
        assert_eq!(grouped(1_432_000), "1,432,000");
    }
}
