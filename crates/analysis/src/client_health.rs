//! What a load client told of itself: how late its loop listened and how late it sent.
//!
//! Times taken by a client that was late are late themselves. Where that is not small against what is judged, the run is
//! *client-limited*: it says more about the client than about the server, and nobody is called healthy or guilty by it.

use crate::evidence::RequestRow;
use crate::situation::Situation;
use crate::words::{percent, seconds};

/// The share of a figure by which its stamps may be late before it is doubted, as the load client itself says.
const DOUBT: f64 = 0.1;
/// Lateness below this is never held against a client, s.
const LEAST_S: f64 = 0.001;
/// Share of one core at which a client's one listening thread is taken as full.
const FULL_CORE: f64 = 0.9;

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
        let first_s = median(evidence.client.iter().filter(|row| row.ok).filter_map(RequestRow::ttft_ns));
        let gap_s = median(evidence.gaps.iter().map(|gap| gap.gap_ns));
        let shortest = [("TTFT", first_s), ("gap between chunks", gap_s)];
        let late = shortest.into_iter().find(|(_, median)| *median > 0.0 && self.lag_p99_s > LEAST_S.max(DOUBT * median));
        if let Some((name, median)) = late {
            return Some(format!("its loop was up to {} late (p99), {name} p50 is {}", seconds(self.lag_p99_s), seconds(median)));
        }
        if self.cpu > FULL_CORE {
            return Some(format!("it used {} of a core", percent(self.cpu)));
        }
        (first_s > 0.0 && self.slip_p99_s > LEAST_S.max(DOUBT * first_s))
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

fn median(values: impl Iterator<Item = i64>) -> f64 {
    let mut values: Vec<i64> = values.collect();
    if values.is_empty() {
        return 0.0;
    }
    let middle = values.len() / 2;
    *values.select_nth_unstable(middle).1 as f64 * 1e-9
}
