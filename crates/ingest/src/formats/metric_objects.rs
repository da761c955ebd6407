//! What AIPerf and GenAI-Perf share: a summary with one object of statistics per metric, each with its unit.
//!
//! Both call `inter_token_latency` what is the time per output token here: (latency - ttft) / (output tokens - 1) per request.
//! Both count output tokens with a tokenizer of their own. Where the file also tells the server's count, and every request
//! has the same number of tokens, the figure is brought to the server's count; else the capture says whose count it is.

use capture::Severity;

use crate::builder::Builder;
use crate::formats::figures::{self, At, Distribution};
use crate::input::Input;
use crate::json::{Json, JsonResult};

/// Metrics that become figures; a true last part keeps the mean only, as the run's figure.
const METRICS: &[(&str, &str, bool)] = &[
    ("request_latency", "client.e2e", false),
    ("time_to_first_token", "client.ttft", false),
    ("inter_token_latency", "client.tpot", false),
    ("inter_chunk_latency", "client.itl", false),
    ("request_throughput", "client.throughput.requests", true),
    ("output_token_throughput", "client.throughput.output", true),
    ("input_token_throughput", "client.throughput.prompt", true),
    ("total_token_throughput", "client.throughput.total", true),
    ("request_count", "client.completed", true),
    ("error_request_count", "client.errors", true),
    ("benchmark_duration", "client.duration", true),
    ("effective_concurrency", "client.concurrency.mean", true),
];

/// Metrics that are only needed to convert others.
const COUNTS: &[&str] = &["output_sequence_length", "usage_completion_tokens"];

/// The metrics of a summary, in seconds where they are times.
#[derive(Default)]
pub(crate) struct MetricObjects {
    metrics: Vec<(&'static str, Distribution)>,
}

impl MetricObjects {
    /// Reads the value of `key` if it is a metric; false when it is not, and then nothing was read.
    pub(crate) fn read(&mut self, key: &str, json: &mut Json<&mut Input<'_>>) -> JsonResult<bool> {
        let known = METRICS.iter().map(|(name, ..)| *name).chain(COUNTS.iter().copied()).find(|name| *name == key);
        let Some(name) = known.filter(|_| json.peek() == Some(b'{')) else { return Ok(false) };
        let found = Distribution::read(json)?;
        let found = match found.unit.as_str() {
            "ms" => found.times(1e-3),
            "us" => found.times(1e-6),
            "ns" => found.times(1e-9),
            _ => found,
        };
        if self.get(name).is_none() {
            self.metrics.push((name, found));
        }
        Ok(true)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.metrics.is_empty()
    }

    fn get(&self, name: &str) -> Option<&Distribution> {
        self.metrics.iter().find(|(known, _)| *known == name).map(|(_, found)| found)
    }

    /// Adds the figures, and what was made of their definitions.
    pub(crate) fn add(&self, at: At, builder: &mut Builder<'_>) {
        let (factor, count) = self.token_count();
        for (key, found) in &self.metrics {
            let Some((_, signal, is_one)) = METRICS.iter().find(|(name, ..)| name == key) else { continue };
            match (*is_one, *signal) {
                (true, _) => found.add_mean(builder, at, key, signal),
                (false, "client.tpot") => found.times(factor).add(builder, at, key, signal),
                (false, _) => found.add(builder, at, key, signal),
            }
        }
        if let Some(most) = self.get("effective_concurrency").and_then(|found| found.get("max")) {
            figures::add(builder, at, "effective_concurrency.max", "client.concurrency.max", most);
        }
        let chunks = if self.get("inter_chunk_latency").is_some() {
            "; `inter_chunk_latency`, one gap per delivered chunk, is `client.itl`"
        } else {
            "; the file tells no gaps between chunks, so there is no `client.itl`"
        };
        builder.issue(
            Severity::Note,
            "definitions",
            "",
            1,
            format!("`inter_token_latency` is (latency - ttft) / (output tokens - 1) per request and became `client.tpot`; {count}{chunks}; times became seconds"),
        );
    }

    /// Factor from the tool's count of output tokens to the server's, and how it was found.
    fn token_count(&self) -> (f64, String) {
        let own = self.get("output_sequence_length");
        let Some((own, server)) = own.zip(self.get("usage_completion_tokens")) else {
            return (1.0, "output tokens are counted by the tool's own tokenizer, which the server may not share".to_string());
        };
        match (own.constant(), server.constant()) {
            (Some(own), Some(server)) if (own - server).abs() < 1e-9 => {
                (1.0, "the tool's tokenizer and the server count the same output tokens".to_string())
            }
            (Some(own), Some(server)) if own > 1.0 && server > 1.0 => {
                let text = format!("it is brought from the tool's {own} output tokens to the server's {server} per request");
                ((own - 1.0) / (server - 1.0), text)
            }
            _ => {
                let mean = |found: &Distribution| found.get("mean").map_or("unknown".to_string(), |mean| format!("{mean:.2}"));
                let (own, server) = (mean(own), mean(server));
                (1.0, format!("it keeps the tool's count of output tokens (mean {own}; the server's is {server}), requests differ"))
            }
        }
    }
}
