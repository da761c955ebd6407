//! What was measured of the figures that are predicted.

use simulate::outcome::Spread;

use super::baseline::MIN_ROWS;
use super::figures::Metric;
use crate::account::ServerMeans;
use crate::evidence::{Evidence, RequestRow};
use crate::load::Load;

/// Fewest requests from which a 99th percentile is taken.
const MIN_TAIL_ROWS: u64 = 100;

/// Measured figures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measured {
    values: [Option<f64>; Metric::ALL.len()],
}

impl Measured {
    pub(super) fn get(&self, metric: Metric) -> Option<f64> {
        self.values[metric as usize]
    }

    pub(super) fn read(evidence: &Evidence, load: &Load) -> Self {
        let rows: Vec<&RequestRow> = evidence.client.iter().filter(|row| row.ok && row.t_done_ns.is_some()).collect();
        let from = |row: &RequestRow| row.t_intended_ns.unwrap_or(row.t_sent_ns);
        let all = |of: &dyn Fn(&RequestRow) -> Option<i64>| Spread::of(rows.iter().filter_map(|row| of(row)).map(|ns| ns as f64).collect());
        let ttft = all(&|row| Some(row.t_first_ns? - from(row)));
        let e2e = all(&|row| Some(row.t_done_ns? - from(row)));
        let tpot = Spread::of(rows.iter().filter_map(|row| tpot_ns(row)).collect());
        let tokens: i64 = rows.iter().filter_map(|row| row.tokens_out).sum();
        let span_s = rows.iter().map(|row| from(row)).min().zip(rows.iter().filter_map(|row| row.t_done_ns).max());
        let rate =
            span_s.map(|(first, last)| tokens as f64 / ((last - first) as f64 * 1e-9)).filter(|rate| rate.is_finite() && *rate > 0.0);
        let typical = |name: &str| evidence.figures.typical(name);
        let server = ServerMeans::read(evidence);
        let some = |spread: &Spread| (spread.count >= MIN_ROWS as u64 && spread.mean_ns > 0.0).then_some(spread.mean_ns * 1e-9);
        let tail = |spread: &Spread| (spread.count >= MIN_TAIL_ROWS).then_some(spread.p99_ns * 1e-9);
        let served = load.finished_per_s.zip(load.output_tokens).map(|(requests, tokens)| requests * tokens);
        Self {
            values: [
                some(&ttft).or_else(|| typical("client.ttft")).or(server.as_ref().map(|means| means.ttft_s)),
                tail(&ttft),
                some(&tpot).or_else(|| typical("client.tpot")).or_else(|| evidence.mean("server.tpot")),
                some(&e2e).or_else(|| typical("client.e2e")).or(server.as_ref().map(|means| means.e2e_s)),
                tail(&e2e),
                rate.or_else(|| typical("client.throughput.output")).or(served),
            ],
        }
    }
}

/// Time per output token after the first, nanoseconds.
fn tpot_ns(row: &RequestRow) -> Option<f64> {
    let tokens = row.tokens_out.filter(|tokens| *tokens > 1)?;
    Some((row.t_done_ns? - row.t_first_ns?) as f64 / (tokens - 1) as f64)
}
