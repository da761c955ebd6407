//! Values of one signal over time.

use std::collections::BTreeMap;

use capture::Capture;
use capture::signals::{Kind, resolve};

use super::{Evidence, engine_of, figures, with_labels};

/// Values in time order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Host time, ns, strictly increasing.
    pub t_ns: Vec<i64>,
    /// Values, one per time.
    pub value: Vec<f64>,
}

impl Series {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.t_ns.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.t_ns.is_empty()
    }

    /// First and last time.
    pub fn ends(&self) -> Vec<i64> {
        self.t_ns.first().into_iter().chain(self.t_ns.last()).copied().collect()
    }

    /// Largest value, 0 for none.
    pub fn max(&self) -> f64 {
        self.value.iter().copied().fold(0.0, f64::max)
    }

    /// Plain mean of the values, 0 for none.
    pub fn mean(&self) -> f64 {
        if self.value.is_empty() { 0.0 } else { self.value.iter().sum::<f64>() / self.value.len() as f64 }
    }

    /// Growth of a counter: the sum of its steps up; after a drop the new value counts from zero. A lone value is its
    /// own growth since start-up.
    pub fn growth(&self) -> f64 {
        match self.value.as_slice() {
            [] => 0.0,
            [lone] => *lone,
            values => steps(values).sum(),
        }
    }

    /// Growth of a counter from each value to the next.
    pub fn steps(&self) -> Vec<f64> {
        steps(&self.value).collect()
    }

    /// Value at exactly `t_ns`, else the last one before it.
    pub fn at(&self, t_ns: i64) -> Option<f64> {
        let after = self.t_ns.partition_point(|&t| t <= t_ns);
        after.checked_sub(1).map(|at| self.value[at])
    }

    fn push(&mut self, t_ns: i64, value: f64) {
        if self.t_ns.last() == Some(&t_ns) {
            *self.value.last_mut().expect("times and values have one length") = value;
        } else {
            self.t_ns.push(t_ns);
            self.value.push(value);
        }
    }
}

/// Steps of a running total: after a drop the new value counts from zero.
pub(super) fn steps(values: &[f64]) -> impl Iterator<Item = f64> + '_ {
    values.windows(2).map(|pair| if pair[1] >= pair[0] { pair[1] - pair[0] } else { pair[1].max(0.0) })
}

/// Puts the rows of `samples` where they belong: scraped series per engine, host series, figures.
pub(super) fn read(capture: &Capture, evidence: &mut Evidence) {
    let samples = &capture.tables.samples;
    let mut slots: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    let mut gathered: Vec<((u32, u32), Series)> = Vec::new();
    for at in 0..samples.t_ns.len() {
        if !evidence.takes(samples.run_idx[at], samples.t_ns[at]) {
            continue;
        }
        if samples.t_ns[at] == 0 || samples.point_idx[at] >= 0 {
            figures::read_sample(capture, at, &mut evidence.figures);
            if samples.point_idx[at] >= 0 || !is_scraped(capture, at) {
                continue;
            }
        }
        let key = (samples.signal[at].0, samples.labels[at].0);
        let slot = *slots.entry(key).or_insert_with(|| {
            gathered.push((key, Series::default()));
            gathered.len() - 1
        });
        gathered[slot].1.push(samples.t_ns[at], samples.value[at]);
    }
    for ((signal, labels), series) in gathered {
        place(evidence, capture.text(capture::Name(signal)), capture.text(capture::Name(labels)), series);
    }
    use_log_gauges(evidence);
}

/// Rows from a lone scrape without time stand at t 0 like typed figures; their replica label tells them apart.
fn is_scraped(capture: &Capture, at: usize) -> bool {
    capture.text(capture.tables.samples.labels[at]).contains("replica=\"")
}

fn place(evidence: &mut Evidence, signal: &str, label_text: &str, series: Series) {
    let (id, rest) = engine_of(label_text);
    let Some(resolved) = resolve(signal) else { return };
    let vantage = signal.split('.').next().unwrap_or_default();
    if vantage == "gateway" && id.replica.is_empty() && series.len() > 1 {
        evidence.gateway_metrics.series.insert(with_labels(signal, &rest), series);
    } else if matches!(vantage, "proc" | "host" | "gpu") {
        evidence.host.insert(with_labels(signal, &rest), series);
    } else if id.replica.is_empty() || (resolved.signal.kind == Kind::Value && series.len() == 1) {
        evidence.figures.add_series(signal, &series);
        // Told of each replica, a value is also kept under its labels, so that replicas can be compared.
        if !id.replica.is_empty() {
            evidence.figures.add_series(&with_labels(signal, label_text), &series);
        }
    } else {
        evidence.engines.entry(id).or_default().series.insert(with_labels(signal, &rest), series);
    }
}

/// Periodic log lines carry the same gauges as scrapes, every ten seconds; they serve only where no scrape does.
fn use_log_gauges(evidence: &mut Evidence) {
    const FROM_LOG: &str = "{source=\"log\"}";
    for engine in evidence.engines.values_mut() {
        let logged: Vec<String> = engine.series.keys().filter(|name| name.ends_with(FROM_LOG)).cloned().collect();
        if let Some(waiting) = engine.series.get(&format!("engine.waiting{FROM_LOG}")) {
            evidence.logged_waiting.push(waiting.clone());
        }
        let scraped = engine.series.get("engine.running").is_some_and(|series| series.len() > 1);
        for name in logged {
            let series = engine.series.remove(&name).unwrap_or_default();
            let plain = name.trim_end_matches(FROM_LOG).to_string();
            let scraped_len = engine.series.get(&plain).map_or(0, Series::len);
            if !scraped && scraped_len <= 1 && series.len() > scraped_len {
                evidence.from_log |= plain == "engine.running";
                engine.series.insert(plain, series);
            }
        }
    }
}
