//! Histograms over time: sums, counts and buckets as differences between scrapes.

use std::collections::BTreeMap;

use capture::{Capture, Name};

use super::series::steps;
use super::{Evidence, engine_of, with_labels};

/// One histogram of one engine, scrape by scrape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramSeries {
    /// Host time of each scrape, ns.
    pub t_ns: Vec<i64>,
    /// Running sum at each scrape.
    pub sum: Vec<f64>,
    /// Running count at each scrape.
    pub count: Vec<f64>,
    /// Bucket bounds (of the last scrape), the last one infinite.
    pub bounds: Vec<f64>,
    first: Vec<f64>,
    last: Vec<f64>,
}

/// What a histogram gained over a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramDelta {
    /// Sum of the new observations.
    pub sum: f64,
    /// Number of new observations.
    pub count: f64,
    /// Bucket bounds, the last one infinite.
    pub bounds: Vec<f64>,
    /// New observations per bucket (not cumulative).
    pub buckets: Vec<f64>,
    /// True when it is the lifetime total of a lone scrape.
    pub lifetime: bool,
}

impl HistogramDelta {
    /// Mean, `None` when nothing was observed.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }

    /// Adds another engine's observations; buckets only where the bounds agree.
    pub fn add(&mut self, other: &Self) {
        self.sum += other.sum;
        self.count += other.count;
        self.lifetime |= other.lifetime;
        if self.bounds == other.bounds {
            for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
                *mine += theirs;
            }
        }
    }
}

impl HistogramSeries {
    /// What it gained from first to last scrape; resets are handled for sum and count, buckets then count from zero.
    pub fn delta(&self) -> HistogramDelta {
        let lifetime = self.count.len() < 2;
        let reset = self.count.windows(2).any(|pair| pair[1] < pair[0]);
        let base = |values: &[f64]| if lifetime { values.last().copied().unwrap_or(0.0) } else { steps(values).sum() };
        let mut below = 0.0;
        let buckets = self
            .last
            .iter()
            .enumerate()
            .map(|(at, &cumulative)| {
                let before = if lifetime || reset { 0.0 } else { self.first.get(at).copied().unwrap_or(0.0) };
                let upto = (cumulative - before).max(0.0);
                let inside = (upto - below).max(0.0);
                below = upto;
                inside
            })
            .collect();
        HistogramDelta { sum: base(&self.sum), count: base(&self.count), bounds: self.bounds.clone(), buckets, lifetime }
    }

    /// Sum and count gained from each scrape to the next.
    pub fn steps(&self) -> Vec<(f64, f64)> {
        steps(&self.sum).zip(steps(&self.count)).collect()
    }
}

/// Rows of one signal and label set, gathered before their names are taken apart once.
#[derive(Default)]
struct Rows {
    series: HistogramSeries,
    last: usize,
}

pub(super) fn read(capture: &Capture, evidence: &mut Evidence) {
    let table = &capture.tables.histograms;
    let mut gathered: BTreeMap<(Name, Name), Rows> = BTreeMap::new();
    for at in 0..table.t_ns.len() {
        if !evidence.takes(table.run_idx[at], table.t_ns[at]) {
            continue;
        }
        let rows = gathered.entry((table.signal[at], table.labels[at])).or_default();
        let series = &mut rows.series;
        if series.first.is_empty() {
            series.first.clone_from(&table.cumulative[at]);
        }
        series.t_ns.push(table.t_ns[at]);
        series.sum.push(table.sum[at]);
        series.count.push(table.count[at]);
        rows.last = at;
    }
    for ((signal, labels), Rows { mut series, last }) in gathered {
        series.bounds.clone_from(&table.bounds[last]);
        series.last.clone_from(&table.cumulative[last]);
        let (id, rest) = engine_of(capture.text(labels));
        // A gateway is no engine instance: its histograms stand beside them.
        let is_gateway = id.replica.is_empty() && id.engine.is_empty();
        let holder = if is_gateway { &mut evidence.gateway_metrics } else { evidence.engines.entry(id).or_default() };
        holder.histograms.insert(with_labels(capture.text(signal), &rest), series);
    }
}
