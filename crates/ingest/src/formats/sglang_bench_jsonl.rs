//! Results of SGLang's `bench_serving` (Python and Rust client): one JSON object per run, appended to a file. See
//! `bench_result.rs`.
//!
//! Its `tpot` is ours: (latency - ttft) / (output tokens - 1) per request. Its `itl` is one gap per delivered chunk; over
//! SGLang's native API a chunk's gap is spread over its tokens. Output tokens are those the server reported; the count of the client's own tokenizer stands beside it and is not used.

use crate::builder::Builder;
use crate::formats::bench_result::{self, Dialect};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "sglang_bench_jsonl", stage: Stage::Floating, sniff, read };

const DIALECT: Dialect = Dialect { tool: "SGLang's `bench_serving`", totals: TOTALS, latencies: LATENCIES, definitions: Some(DEFINITIONS) };

const DEFINITIONS: &str = "milliseconds became seconds; `tpot` is (latency - ttft) / (output tokens - 1) as here; `itl` is one gap per delivered \
                           chunk, whatever tokens it holds (SGLang's native API: spread over them); output tokens are the server's count, the client's count (`retokenized`) is left \
                           out; the file says no date, so its figures stand at time 0";

const TOTALS: &[(&str, &str, f64)] = &[
    ("completed", "client.completed", 1.0),
    ("request_throughput", "client.throughput.requests", 1.0),
    ("input_throughput", "client.throughput.prompt", 1.0),
    ("output_throughput", "client.throughput.output", 1.0),
    ("total_throughput", "client.throughput.total", 1.0),
    ("max_output_tokens_per_s", "client.throughput.output.max", 1.0),
    ("concurrency", "client.concurrency.mean", 1.0),
    ("max_concurrent_requests", "client.concurrency.max", 1.0),
    ("accept_length", "spec.acceptance_length", 1.0),
];

const LATENCIES: &[(&str, &str)] =
    &[("ttft", "client.ttft"), ("tpot", "client.tpot"), ("itl", "client.itl"), ("e2e_latency", "client.e2e")];

fn sniff(probe: &Probe<'_>) -> Confidence {
    let is_named = ["\"backend\"", "\"sharegpt_output_len\"", "\"random_input_len\""].iter().all(|key| probe.has(key));
    // A file that starts with a large `server_info` shows its summary only later.
    let is_summary = ["\"completed\"", "\"mean_e2e_latency_ms\"", "\"total_output_tokens_retokenized\""].iter().all(|key| probe.has(key));
    if probe.first_byte() == Some(b'{') && (is_named || is_summary) { Confidence::Sure } else { Confidence::No }
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    bench_result::read(input, builder, &DIALECT);
}
