//! The figures that are predicted, of a simulated run and as measured.

use simulate::outcome::State;
use simulate::{Row, simulate};

use super::Refusal;
use super::scenario::Scenario;

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    TtftMean,
    TtftP99,
    TpotMean,
    E2eMean,
    E2eP99,
    OutputThroughput,
}

impl Metric {
    pub(super) const ALL: [Self; 6] = [Self::TtftMean, Self::TtftP99, Self::TpotMean, Self::E2eMean, Self::E2eP99, Self::OutputThroughput];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::TtftMean => "ttft.mean",
            Self::TtftP99 => "ttft.p99",
            Self::TpotMean => "tpot.mean",
            Self::E2eMean => "e2e.mean",
            Self::E2eP99 => "e2e.p99",
            Self::OutputThroughput => "throughput.output",
        }
    }

    pub(super) fn unit(self) -> &'static str {
        if self == Self::OutputThroughput { "tok/s" } else { "s" }
    }

    /// True for a figure that a few requests make.
    pub(super) fn is_tail(self) -> bool {
        matches!(self, Self::TtftP99 | Self::E2eP99)
    }

    /// The mean of the same quantity.
    pub(super) fn mean(self) -> Self {
        match self {
            Self::TtftP99 => Self::TtftMean,
            Self::E2eP99 => Self::E2eMean,
            own => own,
        }
    }

    /// True for a figure that a queue without end makes meaningless.
    pub(super) fn is_wait(self) -> bool {
        matches!(self, Self::TtftMean | Self::TtftP99 | Self::E2eMean | Self::E2eP99)
    }
}

/// Figures of one run; 0 where it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) ttft_mean_s: f64,
    pub(super) ttft_p99_s: f64,
    pub(super) tpot_mean_s: f64,
    pub(super) e2e_mean_s: f64,
    pub(super) e2e_p99_s: f64,
    pub(super) tokens_per_s: f64,
    /// From the engine's door to the first step.
    pub(super) queue_mean_s: f64,
    /// From first scheduled to first token at the engine.
    pub(super) prefill_mean_s: f64,
    /// Time per output token as the engine makes them, before anything that holds the stream.
    pub(super) engine_tpot_s: f64,
    pub(super) saturated: bool,
    /// Shares of time in which seats, KV blocks and the token budget held the first waiting request out.
    pub(super) gates: [f64; 3],
}

impl Figures {
    /// Runs a scenario. Times are those of the requests as they are, in a queue that grows as well.
    pub(super) fn simulate(scenario: &Scenario) -> Result<Self, Refusal> {
        let outcome = simulate(&scenario.workload, &scenario.system, &scenario.cost)?;
        let requests = scenario.workload.requests();
        let done = || outcome.rows.iter().zip(requests).filter(|(row, _)| row.state == State::Done);
        let all = |of: &dyn Fn(&Row) -> Option<i64>| -> Vec<f64> { done().filter_map(|(row, _)| of(row)).map(|ns| ns as f64).collect() };
        let (mut ttft, mut e2e) = (all(&Row::ttft_ns), all(&Row::e2e_ns));
        let engine_tpot: Vec<f64> = done()
            .filter(|(_, request)| request.output_tokens > 1)
            .map(|(row, request)| (row.last_token_ns - row.first_token_ns) as f64 / f64::from(request.output_tokens - 1))
            .collect();
        let tpot: Vec<f64> = done().filter_map(|(row, request)| row.tpot_ns(request.output_tokens)).collect();
        let first_ns = done().map(|(row, _)| row.arrival_ns).min().unwrap_or(0);
        let last_ns = done().map(|(row, _)| row.client_last_ns).max().unwrap_or(0);
        let span_ns = last_ns.saturating_sub(first_ns).max(1) as f64;
        let output: u64 = done().map(|(_, request)| u64::from(request.output_tokens)).sum();
        let tally = outcome.tally();
        let share = |ns: i128| ns as f64 / (span_ns * outcome.tallies.len().max(1) as f64);
        Ok(Self {
            ttft_mean_s: mean_s(&ttft),
            ttft_p99_s: p99_s(&mut ttft),
            tpot_mean_s: mean_s(&tpot),
            e2e_mean_s: mean_s(&e2e),
            e2e_p99_s: p99_s(&mut e2e),
            tokens_per_s: output as f64 / (span_ns * 1e-9),
            queue_mean_s: mean_s(&all(&Row::queue_ns)),
            prefill_mean_s: mean_s(&all(&|row| Some(row.first_token_ns - row.admitted_ns))),
            engine_tpot_s: mean_s(&engine_tpot),
            saturated: outcome.verdict.is_saturated(),
            gates: [share(tally.seats_ns), share(tally.kv_ns), share(tally.budget_ns)],
        })
    }

    pub(super) fn get(&self, metric: Metric) -> f64 {
        match metric {
            Metric::TtftMean => self.ttft_mean_s,
            Metric::TtftP99 => self.ttft_p99_s,
            Metric::TpotMean => self.tpot_mean_s,
            Metric::E2eMean => self.e2e_mean_s,
            Metric::E2eP99 => self.e2e_p99_s,
            Metric::OutputThroughput => self.tokens_per_s,
        }
    }

    /// What holds requests up: the gate that is shut longest, else the step itself.
    pub(super) fn binding(&self) -> &'static str {
        const NAMES: [&str; 3] = ["seats (max_num_seqs)", "KV cache", "token budget"];
        let longest = (0..3).max_by(|&a, &b| self.gates[a].total_cmp(&self.gates[b])).unwrap_or(0);
        if self.gates[longest] >= 0.1 { NAMES[longest] } else { "the engine's step" }
    }
}

/// Mean of nanoseconds as seconds; 0 of nothing.
fn mean_s(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64 * 1e-9
}

/// 99 of 100 are at most this, by nearest rank, seconds; 0 of nothing. Leaves the values in another order.
fn p99_s(values: &mut [f64]) -> f64 {
    let at = ((values.len() as f64 * 0.99).ceil() as usize).clamp(1, values.len().max(1)) - 1;
    if values.is_empty() { 0.0 } else { *values.select_nth_unstable_by(at, f64::total_cmp).1 * 1e-9 }
}
