//! Figures without a timeline: typed by hand, or the summary lines of a result file.

use std::collections::BTreeMap;

use capture::{Capture, labels};

use super::series::is_typed;
use super::{Series, with_labels};

/// One figure and whether it is exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Value in the signal's base unit.
    pub value: f64,
    /// `Some(true)`: at least; `Some(false)`: at most; `None`: exact.
    pub at_least: Option<bool>,
}

/// Figures by full signal name (with statistic), whole-run and per sweep point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    whole: BTreeMap<String, Figure>,
    /// Whole-run figures of a part, by name with labels: `proc.frame_share{part="ipc"}`.
    labelled: BTreeMap<String, Figure>,
    /// Means of device series over time and devices, by signal.
    means: BTreeMap<String, f64>,
    points: BTreeMap<i32, BTreeMap<String, Figure>>,
}

impl Figures {
    /// A figure by full name, with its labels where it is about a part: `proc.frame_share{part="ipc",role="engine_core"}`.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.whole.get(name).or_else(|| self.labelled.get(name)).map(|figure| figure.value)
    }

    /// All whole-run figures about parts, by name with labels, in name order.
    pub fn labelled(&self) -> impl Iterator<Item = (&str, Figure)> {
        self.labelled.iter().map(|(name, figure)| (name.as_str(), *figure))
    }

    /// A figure with its bound.
    pub fn figure(&self, name: &str) -> Option<Figure> {
        self.whole.get(name).copied()
    }

    /// The first of several statistics of a quantity: the plain value, mean, p50; else the mean of its device series.
    pub fn typical(&self, quantity: &str) -> Option<f64> {
        let stated = ["", ".mean", ".p50"].iter().find_map(|statistic| self.get(&format!("{quantity}{statistic}")));
        stated.or_else(|| self.means.get(quantity).copied())
    }

    /// Like [`typical`](Self::typical), else the largest over sweep points, else `.max`, `.p95`, `.p99`.
    pub fn highest(&self, quantity: &str) -> Option<f64> {
        let whole = [".max", ".p99", ".p95", "", ".p50", ".mean"].iter().find_map(|statistic| self.get(&format!("{quantity}{statistic}")));
        let swept = self.points.values().filter_map(|point| point.get(quantity)).map(|figure| figure.value).reduce(f64::max);
        match (whole, swept) {
            (Some(whole), Some(swept)) => Some(whole.max(swept)),
            (found, None) | (None, found) => found,
        }
    }

    /// True when there is no figure at all.
    pub fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.labelled.is_empty() && self.points.is_empty() && self.means.is_empty()
    }

    /// All whole-run figures in name order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Figure)> {
        self.whole.iter().map(|(name, figure)| (name.as_str(), *figure))
    }

    /// Keeps the mean of a quantity over time and devices.
    pub(super) fn add_mean(&mut self, quantity: &str, mean: f64) {
        self.means.insert(quantity.to_string(), mean);
    }

    /// Keeps the mean and the extremes of a series that belongs to no engine.
    pub(super) fn add_series(&mut self, signal: &str, series: &Series) {
        if let [lone] = series.value.as_slice() {
            self.whole.entry(signal.to_string()).or_insert(Figure { value: *lone, at_least: None });
        }
    }
}

pub(super) fn read_sample(capture: &Capture, at: usize, figures: &mut Figures) {
    let samples = &capture.tables.samples;
    let label_text = capture.text(samples.labels[at]);
    if label_text.contains("replica=\"") {
        return;
    }
    let at_least = match labels::get(label_text, "mode").as_deref() {
        Some("at_least") => Some(true),
        Some("at_most") => Some(false),
        _ => None,
    };
    let figure = Figure { value: samples.value[at], at_least };
    let name = capture.text(samples.signal[at]).to_string();
    if samples.point_idx[at] < 0 {
        let pairs = labels::pairs(label_text);
        let told: Vec<(&str, &str)> =
            pairs.iter().filter(|(key, _)| key != "mode").map(|(key, value)| (key.as_str(), value.as_str())).collect();
        if !told.is_empty() {
            figures.labelled.insert(with_labels(&name, &labels::canonical(&told)), figure);
        }
        // Shares of parts are many and none of them is the whole.
        if name == "proc.frame_share" && !is_typed(capture, at) {
            return;
        }
        figures.whole.insert(name, figure);
    } else {
        figures.points.entry(samples.point_idx[at]).or_default().insert(name, figure);
    }
}
