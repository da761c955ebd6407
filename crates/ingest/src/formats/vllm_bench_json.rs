//! Results of `vllm bench serve`: one JSON object, or one per line with `--append-result`. See `bench_result.rs`.

use crate::builder::Builder;
use crate::formats::bench_result::{self, Dialect};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "vllm_bench_json", stage: Stage::Floating, sniff, read };

const DIALECT: Dialect = Dialect { tool: "`vllm bench serve`", totals: TOTALS, latencies: LATENCIES, definitions: None };

const TOTALS: &[(&str, &str, f64)] = &[
    ("completed", "client.completed", 1.0),
    ("failed", "client.errors", 1.0),
    ("request_throughput", "client.throughput.requests", 1.0),
    ("output_throughput", "client.throughput.output", 1.0),
    ("total_token_throughput", "client.throughput.total", 1.0),
    ("max_output_tokens_per_s", "client.throughput.output.max", 1.0),
    ("max_concurrent_requests", "client.concurrency.max", 1.0),
    ("spec_decode_acceptance_rate", "spec.acceptance_rate", 0.01),
    ("spec_decode_acceptance_length", "spec.acceptance_length", 1.0),
    ("spec_decode_draft_tokens", "spec.draft_tokens", 1.0),
    ("spec_decode_accepted_tokens", "spec.accepted_tokens", 1.0),
    ("spec_decode_num_drafts", "spec.drafts", 1.0),
];

const LATENCIES: &[(&str, &str)] = &[("ttft", "client.ttft"), ("tpot", "client.tpot"), ("itl", "client.itl"), ("e2el", "client.e2e")];

fn sniff(probe: &Probe<'_>) -> Confidence {
    let is_result = probe.first_byte() == Some(b'{')
        && ["\"completed\"", "\"request_throughput\"", "\"total_input_tokens\""].iter().all(|key| probe.has(key));
    match (is_result, probe.has("\"model_id\"") || probe.has("\"endpoint_type\"")) {
        (true, true) => Confidence::Sure,
        (true, false) => Confidence::Likely,
        _ => Confidence::No,
    }
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    bench_result::read(input, builder, &DIALECT);
}
