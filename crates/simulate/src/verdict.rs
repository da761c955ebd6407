//! Whether the system kept up. Where it did not, waits measure how long the workload lasted and nothing else.
//!
//! Two signs: the queue grew through the second half of the arrivals by more than chance allows, or the tokens asked for
//! came near what the engine makes while its seats or blocks are all taken (`rho`). Past a `rho` of 0.85 a wait is not
//! predictable: an error of x in the capacity becomes one of x / (1 - rho) in the wait.

use crate::config::{Load, SystemConfig, Topology};
use crate::outcome::{NEVER, Row, State, Tally};
use crate::workload::Workload;

/// From this utilization on, waits are not told as numbers.
pub const SATURATED_RHO: f64 = 0.85;

/// What the run says about keeping up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// A closed loop: users wait for answers before they ask again, so no queue can grow without end.
    Closed,
    /// It kept up.
    Stable {
        /// Tokens asked for over tokens made at full seats or blocks; not known when they were never full.
        rho: Option<f64>,
    },
    /// The arrivals ended before the system could settle (less than twice the mean time of a request), without a queue
    /// that grew.
    TooShort,
    /// It did not keep up, or barely.
    Saturated {
        /// As above.
        rho: Option<f64>,
        /// Requests that were waiting (or, without limits, running) more at the end of the arrivals than half-way.
        growth: i64,
    },
}

impl Verdict {
    /// Whether waits must not be told as numbers.
    pub fn is_saturated(&self) -> bool {
        matches!(self, Self::Saturated { .. })
    }
}

/// Judges a finished run.
pub(crate) fn judge(workload: &Workload, rows: &[Row], tallies: &[Tally], config: &SystemConfig) -> Verdict {
    if config.load != Load::Open {
        return Verdict::Closed;
    }
    // Behind a split, tokens of one pool say nothing about the other.
    let is_unified = matches!(config.topology, Topology::Unified { .. });
    let rho = if is_unified { utilization(workload, tallies) } else { None };
    let (waiting, in_system) = growths(rows, workload.span_ns());
    let e2e: Vec<i64> = rows.iter().filter_map(Row::e2e_ns).collect();
    let mean_ns = e2e.iter().map(|&ns| ns as f64).sum::<f64>() / e2e.len().max(1) as f64;
    let is_short = (workload.span_ns() as f64) < 2.0 * mean_ns;
    let by_chance = 2.0 * (rows.len() as f64 / 2.0).sqrt() + 1.0;
    if waiting as f64 > by_chance {
        return Verdict::Saturated { rho, growth: waiting };
    }
    if is_short {
        return Verdict::TooShort;
    }
    if in_system as f64 > by_chance || rho.is_some_and(|rho| rho >= SATURATED_RHO) {
        return Verdict::Saturated { rho, growth: in_system.max(waiting) };
    }
    Verdict::Stable { rho }
}

/// Output tokens asked for per second over those made per second while seats or blocks were full.
fn utilization(workload: &Workload, tallies: &[Tally]) -> Option<f64> {
    let gated_ns: i128 = tallies.iter().map(|tally| tally.seats_ns + tally.kv_ns).sum();
    let busy_ns: i128 = tallies.iter().map(|tally| tally.busy_ns).sum();
    let tokens: u64 = tallies.iter().map(|tally| tally.gated_tokens).sum();
    // Less than a hundredth of the time behind a gate is too little to measure a rate in.
    if gated_ns * 100 < busy_ns || tokens == 0 || workload.span_ns() == 0 {
        return None;
    }
    let (_, output) = workload.mean_tokens();
    let asked_per_ns = output * workload.requests().len() as f64 / workload.span_ns() as f64;
    let made_per_ns = tokens as f64 / gated_ns as f64 * tallies.len() as f64;
    Some(asked_per_ns / made_per_ns)
}

/// How many more requests were waiting, and in the system, at the end of the arrivals than half-way.
fn growths(rows: &[Row], span_ns: i64) -> (i64, i64) {
    let first_ns = rows.first().map_or(0, |row| row.arrival_ns);
    let (half_ns, end_ns) = (first_ns + span_ns / 2, first_ns + span_ns);
    let is_in = |row: &Row, left_ns: i64, at_ns: i64| row.arrival_ns <= at_ns && (left_ns == NEVER || left_ns > at_ns);
    let count = |at_ns: i64, left: fn(&Row) -> i64| {
        rows.iter().filter(|row| row.state != State::Rejected && is_in(row, left(row), at_ns)).map(|_| 1i64).sum::<i64>()
    };
    let growth = |left: fn(&Row) -> i64| count(end_ns, left) - count(half_ns, left);
    (growth(|row| row.admitted_ns), growth(|row| row.client_last_ns))
}
