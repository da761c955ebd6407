//! What a limit on a percentile is compared with: the requests' own times, histograms, typed percentiles.

use std::collections::BTreeMap;

use crate::evidence::{Evidence, HistogramDelta, RequestRow};
use crate::words::seconds;

/// Requests that must lie beyond a percentile before it counts as measured: p99 needs 200 requests.
const BEYOND: f64 = 2.0;

/// Where a percentile lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    /// Known to the request, s.
    Exactly(f64),
    /// Inside one bucket of a histogram, s; the high end may be infinite.
    Between {
        /// Lower bound of the bucket.
        low_s: f64,
        /// Upper bound of the bucket.
        high_s: f64,
    },
}

impl Level {
    /// `136 ms`, `between 500 ms and 1.00 s`, `above 2.00 s`.
    pub fn text(&self) -> String {
        match *self {
            Self::Exactly(s) => seconds(s),
            Self::Between { low_s, high_s } if high_s.is_infinite() => format!("above {}", seconds(low_s)),
            Self::Between { low_s, high_s } if low_s <= 0.0 => format!("below {}", seconds(high_s)),
            Self::Between { low_s, high_s } => format!("between {} and {}", seconds(low_s), seconds(high_s)),
        }
    }
}

/// Times of one arm by signal (`client.ttft`), s.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    rows: BTreeMap<&'static str, Vec<f64>>,
    histograms: BTreeMap<&'static str, HistogramDelta>,
    /// Typed or summary percentiles by full name (`client.ttft.p99`).
    figures: BTreeMap<String, f64>,
}

impl Latencies {
    /// Reads the times of one arm.
    pub fn read(evidence: &Evidence) -> Self {
        let mut latencies = Self::default();
        for (signal, value) in [
            ("client.ttft", (|row| seconds_of(row.ttft_ns())) as fn(&RequestRow) -> Option<f64>),
            ("client.e2e", |row| seconds_of(row.e2e_ns())),
            ("client.tpot", tpot_s),
        ] {
            let values: Vec<f64> = evidence.client.iter().filter(|row| row.ok).filter_map(value).collect();
            if !values.is_empty() {
                latencies.rows.insert(signal, values);
            }
        }
        if !evidence.gaps.is_empty() {
            latencies.rows.insert("client.itl", evidence.gaps.iter().map(|gap| gap.gap_ns as f64 * 1e-9).collect());
        }
        for signal in ["server.ttft", "server.tpot", "server.itl", "server.e2e"] {
            if let Some(delta) = evidence.observed(signal).filter(|delta| delta.count > 0.0) {
                latencies.histograms.insert(signal, delta);
            }
        }
        let quantity = |name: &str| [".ttft.", ".tpot.", ".itl.", ".e2e."].iter().any(|part| name.contains(part));
        latencies.figures =
            evidence.figures.iter().filter(|(name, _)| quantity(name)).map(|(name, figure)| (name.to_string(), figure.value)).collect();
        latencies
    }

    /// Mean of a server histogram, for a limit that names the server.
    pub fn server_mean_s(&self, signal: &str) -> Option<f64> {
        self.histograms.get(signal.strip_suffix(".mean").unwrap_or(signal))?.mean()
    }

    /// Where the value lies that `share` of the requests stay at or below. A limit on what the client sees falls back to
    /// the server where there is no client. `Err` says why it cannot be told.
    pub fn level(&self, signal: &str, quantity: &str, share: f64, limit_s: f64) -> Result<Level, String> {
        let statistic = signal.rsplit('.').next().unwrap_or_default();
        let vantages: &[&str] = if signal.starts_with("server.") { &["server"] } else { &["client", "server"] };
        for vantage in vantages {
            let name = format!("{vantage}.{quantity}");
            if let Some(rows) = self.rows.get(name.as_str()) {
                return of_rows(rows, share, statistic, limit_s);
            }
            if let Some(&s) = self.figures.get(&format!("{name}.{statistic}")) {
                return Ok(Level::Exactly(s));
            }
            if let Some(delta) = self.histograms.get(name.as_str()) {
                return of_buckets(delta, share, statistic, limit_s);
            }
        }
        Err("cannot tell, neither request rows nor a histogram hold it".into())
    }

    #[cfg(test)]
    pub(super) fn of_rows(signal: &'static str, rows: Vec<f64>) -> Self {
        Self { rows: BTreeMap::from([(signal, rows)]), ..Self::default() }
    }

    #[cfg(test)]
    pub(super) fn of_buckets(signal: &'static str, bounds: &[f64], buckets: &[f64]) -> Self {
        let delta =
            HistogramDelta { count: buckets.iter().sum(), bounds: bounds.to_vec(), buckets: buckets.to_vec(), ..HistogramDelta::default() };
        Self { histograms: BTreeMap::from([(signal, delta)]), ..Self::default() }
    }
}

fn seconds_of(ns: Option<i64>) -> Option<f64> {
    ns.map(|ns| ns as f64 * 1e-9)
}

fn tpot_s(row: &RequestRow) -> Option<f64> {
    let tokens = row.tokens_out.filter(|&tokens| tokens > 1)? - 1;
    Some((row.e2e_ns()? - row.ttft_ns()?) as f64 * 1e-9 / tokens as f64)
}

/// Share of the requests that `n` of them can speak for.
fn told_by(n: f64) -> f64 {
    1.0 - BEYOND / n
}

/// Too few requests still break a limit that a lower percentile breaks already; they never keep it.
fn too_few(n: f64, share: f64, statistic: &str) -> Option<String> {
    let needed = (BEYOND / (1.0 - share)).round();
    (share < 1.0 && n < needed).then(|| format!("cannot tell from {n:.0} requests, {statistic} needs {needed:.0}"))
}

fn of_rows(rows: &[f64], share: f64, statistic: &str, limit_s: f64) -> Result<Level, String> {
    let n = rows.len() as f64;
    let Some(why) = too_few(n, share, statistic) else { return Ok(Level::Exactly(nearest_rank(rows, share))) };
    let lower_s = nearest_rank(rows, told_by(n).max(0.0).min(share));
    if lower_s > limit_s { Ok(Level::Exactly(lower_s)) } else { Err(why) }
}

/// The smallest value that `share` of the values stay at or below.
fn nearest_rank(values: &[f64], share: f64) -> f64 {
    let mut values = values.to_vec();
    let at = ((share * values.len() as f64).ceil() as usize).clamp(1, values.len()) - 1;
    *values.select_nth_unstable_by(at, f64::total_cmp).1
}

fn of_buckets(delta: &HistogramDelta, share: f64, statistic: &str, limit_s: f64) -> Result<Level, String> {
    let total: f64 = delta.buckets.iter().sum();
    if total <= 0.0 || delta.bounds.len() != delta.buckets.len() {
        return Err("cannot tell, the histogram has no buckets".into());
    }
    let Some(why) = too_few(total, share, statistic) else { return Ok(bucket(delta, share * total)) };
    match bucket(delta, told_by(total).max(0.0).min(share) * total) {
        lower @ Level::Between { low_s, .. } if low_s >= limit_s => Ok(lower),
        _ => Err(why),
    }
}

/// The bucket that holds the observation of this rank.
fn bucket(delta: &HistogramDelta, rank: f64) -> Level {
    let mut below = 0.0;
    let mut level = Level::Between { low_s: 0.0, high_s: f64::INFINITY };
    for (at, &count) in delta.buckets.iter().enumerate().filter(|(_, count)| **count > 0.0) {
        let low_s = at.checked_sub(1).map_or(0.0, |before| delta.bounds[before]);
        level = Level::Between { low_s, high_s: delta.bounds[at] };
        below += count;
        // Counts are sums of differences: a rank that rounding puts a hair above belongs to this bucket.
        if below >= rank - 1e-9 * rank {
            break;
        }
    }
    level
}
