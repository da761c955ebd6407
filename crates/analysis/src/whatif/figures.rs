//! The figures that are predicted, of a simulated run and as measured.

use simulate::outcome::Spread;
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
        let summary = outcome.summary(&scenario.workload);
        let done = || outcome.rows.iter().zip(scenario.workload.requests()).filter(|(row, _)| row.ttft_ns().is_some());
        let all = |of: &dyn Fn(&Row) -> Option<i64>| Spread::of(done().filter_map(|(row, _)| of(row)).map(|ns| ns as f64).collect());
        let (ttft, e2e) = (all(&Row::ttft_ns), all(&Row::e2e_ns));
        let (queue, prefill) = (all(&Row::queue_ns), all(&|row| Some(row.first_token_ns - row.admitted_ns)));
        let engine_tpot = done()
            .filter(|(_, request)| request.output_tokens > 1)
            .map(|(row, request)| (row.last_token_ns - row.first_token_ns) as f64 / f64::from(request.output_tokens - 1))
            .collect();
        Ok(Self {
            ttft_mean_s: ttft.mean_ns * 1e-9,
            ttft_p99_s: ttft.p99_ns * 1e-9,
            tpot_mean_s: summary.tpot.mean_ns * 1e-9,
            e2e_mean_s: e2e.mean_ns * 1e-9,
            e2e_p99_s: e2e.p99_ns * 1e-9,
            tokens_per_s: summary.tokens_per_s,
            queue_mean_s: queue.mean_ns * 1e-9,
            prefill_mean_s: prefill.mean_ns * 1e-9,
            engine_tpot_s: Spread::of(engine_tpot).mean_ns * 1e-9,
            saturated: outcome.verdict.is_saturated(),
            gates: [summary.seats_frac, summary.kv_frac, summary.budget_frac],
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
