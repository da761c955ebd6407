//! What a load client told of itself: how late its loop listened and how late it sent.
//!
//! Times taken by a client that was late are late themselves. Where that is not small against what is judged, the run is
//! *client-limited*: it says more about the client than about the server, and nobody is called healthy or guilty by it.

use model::client::{FULL_CORE, is_doubted};

use crate::evidence::RequestRow;
use crate::situation::Situation;
use crate::words::{percent, seconds};

/// A client's own figures, s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientHealth {
    /// From when an event was there to its being heard, over moments of the run: mean.
    pub lag_mean_s: f64,
    /// The 99th percentile of the same.
    pub lag_p99_s: f64,
    /// From when requests were due to when they were sent, the 99th percentile; 0 in a closed loop.
    pub slip_p99_s: f64,
    /// CPU use, of one core.
    pub cpu: f64,
}

impl ClientHealth {
    /// Reads it; `None` where the client does not say how late its loop was.
    pub fn read(situation: &Situation<'_>) -> Option<Self> {
        let figures = &situation.evidence.figures;
        let lag_p99_s = figures.get("client.loop_lag.p99")?;
        let middle = figures.get("client.loop_lag.mean").or_else(|| figures.get("client.loop_lag.p50"));
        Some(Self {
            lag_mean_s: middle.unwrap_or(0.0),
            lag_p99_s,
            slip_p99_s: figures.get("client.schedule_slip.p99").unwrap_or(0.0),
            cpu: figures.get("client.cpu").unwrap_or(0.0),
        })
    }

    /// Why it was the limit, in words; `None` where its lateness is small against what it measured.
    pub fn limit(&self, situation: &Situation<'_>) -> Option<String> {
        let evidence = situation.evidence;
        let first = ranks(evidence.client.iter().filter(|row| row.ok).filter_map(RequestRow::ttft_ns));
        let gap = ranks(evidence.gaps.iter().map(|gap| gap.gap_ns));
        let held = |name, of: [f64; 2]| [(name, "mean", "p50", self.lag_mean_s, of[0]), (name, "p99", "p99", self.lag_p99_s, of[1])];
        let held = [held("TTFT", first), held("gap between chunks", gap)];
        let late = held.into_iter().flatten().find(|(.., lag_s, figure_s)| is_doubted(*lag_s, *figure_s));
        if let Some((name, lag_rank, rank, lag_s, figure_s)) = late {
            return Some(format!("its loop was {} late ({lag_rank}), {name} {rank} is {}", seconds(lag_s), seconds(figure_s)));
        }
        let first_s = first[0];
        if self.cpu > FULL_CORE {
            return Some(format!("it used {} of a core", percent(self.cpu)));
        }
        is_doubted(self.slip_p99_s, first_s)
            .then(|| format!("it sent up to {} late (p99), TTFT p50 is {}", seconds(self.slip_p99_s), seconds(first_s)))
    }
}

/// Why the client was the limit of a measured run, as a sentence; `None` where it was not or does not say.
pub fn limited(situation: &Situation<'_>) -> Option<String> {
    if situation.account.vantage != "client" {
        return None;
    }
    let why = ClientHealth::read(situation)?.limit(situation)?;
    Some(format!("Client-limited: {why}. What it measured says more about the load client and its machine than about the server."))
}

/// A first token is stamped late by what an event waits for the client's loop, once, or twice with the head of the answer.
pub const LATE_STAMPS: [f64; 3] = [0.5, 1.0, 2.0];
/// Lateness that covers less than this of a time is not what made it.
pub const COVERS: f64 = 0.25;

/// Why a time that only the client measured, s per request, may be its own lateness; `None` where it was not the limit, or
/// was late by far less.
pub fn may_explain(situation: &Situation<'_>, time_s: f64) -> Option<String> {
    let health = ClientHealth::read(situation)?;
    let is_covered = health.cpu > FULL_CORE || LATE_STAMPS[2] * health.lag_p99_s >= COVERS * time_s;
    limited(situation).filter(|_| is_covered)
}

/// Median and 99th percentile, s; 0 without values.
fn ranks(values: impl Iterator<Item = i64>) -> [f64; 2] {
    let mut values: Vec<i64> = values.collect();
    if values.is_empty() {
        return [0.0; 2];
    }
    let (middle, high) = (values.len() / 2, values.len() * 99 / 100);
    [middle, high].map(|at| *values.select_nth_unstable(at).1 as f64 * 1e-9)
}
