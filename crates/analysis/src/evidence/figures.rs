//! Figures without a timeline: typed by hand, or the summary lines of a result file.
//!
//! A figure is known by its full name and its labels (`kernel.time{category="gemm"}`); rows of a sweep stay rows.

use std::collections::BTreeMap;

use capture::{Capture, labels};

use super::{Series, with_labels};

/// One figure and whether it is exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Value in the signal's base unit.
    pub value: f64,
    /// `Some(true)`: at least; `Some(false)`: at most; `None`: exact.
    pub at_least: Option<bool>,
}

/// One row of a sweep: the figures of one operating point, and what the row is about (`class`, `kernel`, `mode`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    figures: BTreeMap<String, Figure>,
    about: BTreeMap<String, String>,
}

impl Point {
    /// A figure by full name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.figures.get(name).map(|figure| figure.value)
    }

    /// The first of several statistics of a quantity: the plain value, mean, p50, else the middle of its extremes.
    pub fn typical(&self, quantity: &str) -> Option<f64> {
        typical(&self.figures, quantity)
    }

    /// What the row is about: the text under `class`, `kernel` or `mode`.
    pub fn about(&self, label: &str) -> Option<&str> {
        self.about.get(label).map(String::as_str)
    }

    /// All figures in name order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Figure)> {
        self.figures.iter().map(|(name, figure)| (name.as_str(), *figure))
    }
}

/// Figures by full signal name (with statistic), whole-run and per sweep point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    whole: BTreeMap<String, Figure>,
    /// Means of device series over time and devices, by signal.
    means: BTreeMap<String, f64>,
    points: BTreeMap<i32, Point>,
}

const TYPICAL: [&str; 3] = ["", ".mean", ".p50"];

fn typical(figures: &BTreeMap<String, Figure>, quantity: &str) -> Option<f64> {
    let get = |statistic: &str| figures.get(&format!("{quantity}{statistic}")).map(|figure| figure.value);
    TYPICAL.iter().find_map(|statistic| get(statistic)).or_else(|| Some(f64::midpoint(get(".min")?, get(".max")?)))
}

/// Statistics from the largest down.
const HIGH: [&str; 7] = [".max", ".p99", ".p95", ".p90", "", ".p50", ".mean"];

fn highest(figures: &BTreeMap<String, Figure>, quantity: &str) -> Option<f64> {
    HIGH.iter().find_map(|statistic| figures.get(&format!("{quantity}{statistic}"))).map(|figure| figure.value)
}

impl Figures {
    /// A figure by full name, with its labels where it is about a part: `proc.frame_share{part="ipc",role="engine_core"}`.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.whole.get(name).map(|figure| figure.value)
    }

    /// A figure with its bound.
    pub fn figure(&self, name: &str) -> Option<Figure> {
        self.whole.get(name).copied()
    }

    /// The first of several statistics of a quantity: the plain value, mean, p50, else the middle of its extremes, else the
    /// mean over devices, as typed or of their series.
    pub fn typical(&self, quantity: &str) -> Option<f64> {
        let devices = || {
            let each = self.by_label(quantity, "device");
            (!each.is_empty()).then(|| each.iter().map(|(_, value)| value).sum::<f64>() / each.len() as f64)
        };
        typical(&self.whole, quantity).or_else(devices).or_else(|| self.means.get(quantity).copied())
    }

    /// All whole-run figures about parts, by name with labels, in name order.
    pub fn labelled(&self) -> impl Iterator<Item = (&str, Figure)> {
        self.iter().filter(|(name, _)| name.ends_with('}'))
    }

    /// Like [`typical`](Self::typical), else the value of the first sweep row that has one.
    pub fn anywhere(&self, quantity: &str) -> Option<f64> {
        self.typical(quantity).or_else(|| self.points.values().find_map(|point| point.typical(quantity)))
    }

    /// The largest that anybody states: of the whole run or of a row its highest statistic.
    pub fn highest(&self, quantity: &str) -> Option<f64> {
        let whole = highest(&self.whole, quantity);
        let swept = self.points.values().filter_map(|point| highest(&point.figures, quantity)).reduce(f64::max);
        match (whole, swept) {
            (Some(whole), Some(swept)) => Some(whole.max(swept)),
            (found, None) | (None, found) => found,
        }
    }

    /// The smallest of `.min` and the typical figures.
    pub fn lowest(&self, quantity: &str) -> Option<f64> {
        [".min", "", ".p50", ".mean", ".max"].iter().find_map(|statistic| self.get(&format!("{quantity}{statistic}")))
    }

    /// Values of a labelled quantity: label value and typical figure, for `kernel.time` by `category`.
    pub fn by_label(&self, quantity: &str, label: &str) -> Vec<(String, f64)> {
        let mut found: BTreeMap<String, f64> = BTreeMap::new();
        for statistic in TYPICAL {
            let prefix = format!("{quantity}{statistic}{{");
            for (name, figure) in self.whole.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix)) {
                let text = name[prefix.len()..].trim_end_matches('}');
                if let Some(value) = labels::get(text, label) {
                    found.entry(value).or_insert(figure.value);
                }
            }
        }
        found.into_iter().collect()
    }

    /// Rows of the sweep, in the order given.
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        self.points.values()
    }

    /// True when there is no figure at all.
    pub fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.points.is_empty() && self.means.is_empty()
    }

    /// Whole-run figures by full name, for tests.
    #[cfg(test)]
    pub(crate) fn from_rows(rows: &[(&str, f64)]) -> Self {
        let figure = |value: f64| Figure { value, at_least: None };
        Self { whole: rows.iter().map(|(name, value)| ((*name).to_string(), figure(*value))).collect(), ..Self::default() }
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

/// Labels that say what a sweep row is about; they are the row's, not its figures'.
const ROW_LABELS: [&str; 3] = ["class", "kernel", "mode"];

pub(super) fn read_sample(capture: &Capture, at: usize, figures: &mut Figures) {
    let samples = &capture.tables.samples;
    let label_text = capture.text(samples.labels[at]);
    if label_text.contains("replica=\"") {
        return;
    }
    let point_idx = samples.point_idx[at];
    let (mut at_least, mut about, mut rest) = (None, BTreeMap::new(), Vec::new());
    for (key, value) in labels::pairs(label_text) {
        match (key.as_str(), value.as_str()) {
            ("mode", "at_least") => at_least = Some(true),
            ("mode", "at_most") => at_least = Some(false),
            (label, _) if point_idx >= 0 && ROW_LABELS.contains(&label) => drop(about.insert(key, value)),
            _ => rest.push((key, value)),
        }
    }
    let pairs: Vec<(&str, &str)> = rest.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let figure = Figure { value: samples.value[at], at_least };
    let name = with_labels(capture.text(samples.signal[at]), &labels::canonical(&pairs));
    if point_idx < 0 {
        figures.whole.insert(name, figure);
    } else {
        let point = figures.points.entry(point_idx).or_default();
        point.figures.insert(name, figure);
        point.about.extend(about);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labelled_figures_are_found_by_label_and_extremes_have_a_middle() {
        let mut figures = Figures::default();
        let mut put = |name: &str, value: f64| {
            figures.whole.insert(name.to_string(), Figure { value, at_least: None });
        };
        put("kernel.time{category=\"gemm\"}", 2.0);
        put("kernel.time{category=\"communication\"}", 6.0);
        put("kernel.time_ideal{category=\"gemm\"}", 1.0);
        put("client.tpot.min", 1.0);
        put("client.tpot.max", 3.0);
        let by_category = figures.by_label("kernel.time", "category");
        assert_eq!(by_category, vec![("communication".to_string(), 6.0), ("gemm".to_string(), 2.0)]);
        assert_eq!(figures.typical("client.tpot"), Some(2.0));
        assert_eq!(figures.lowest("client.tpot"), Some(1.0));
    }
}
