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
        // No count, time or share is this large; what a damaged line says must not become arithmetic.
        if !samples.value[at].is_finite() || samples.value[at].abs() > 1e18 {
            continue;
        }
        let is_device = is_device(capture, at);
        if !is_device && (samples.t_ns[at] == 0 || samples.point_idx[at] >= 0) {
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
    average_devices(evidence);
}

/// Values of one device, outside any sweep: a series by device even where only one look at it is there.
fn is_device(capture: &Capture, at: usize) -> bool {
    let samples = &capture.tables.samples;
    let label_text = capture.text(samples.labels[at]);
    let is_plain = !["phase=\"", "mode=\""].iter().any(|label| label_text.contains(label));
    let is_device = samples.point_idx[at] < 0 && is_plain && label_text.contains("device=\"");
    is_device && capture.text(samples.signal[at]).starts_with("gpu.") && !is_typed(capture, at)
}

/// True for a row typed by hand.
pub(super) fn is_typed(capture: &Capture, at: usize) -> bool {
    let source = capture.manifest.sources.get(capture.tables.samples.source_idx[at].0 as usize);
    source.is_some_and(|source| source.format == "observations_toml")
}

/// A quantity of the devices as one figure: the mean over time of each, then over devices. Masks and shares by reason have
/// no mean that means anything.
fn average_devices(evidence: &mut Evidence) {
    let mut by_signal: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (name, series) in &evidence.host {
        let Some((signal, label_text)) = name.split_once('{') else { continue };
        let is_level = signal.starts_with("gpu.") && signal != "gpu.throttle_reasons" && !label_text.contains("reason=\"");
        if is_level && !label_text.contains("phase=\"") && !series.is_empty() {
            let (sum, count) = by_signal.entry(signal).or_insert((0.0, 0.0));
            *sum += series.mean();
            *count += 1.0;
        }
    }
    for (signal, (sum, count)) in by_signal {
        evidence.figures.add_mean(signal, sum / count);
    }
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

#[cfg(test)]
mod tests {
    use capture::{Sample, Source, SourceIdx};

    use super::*;

    /// Rows of `(time, signal, labels, value)` from a source of `format`.
    fn evidence(rows: &[(&str, i64, &str, &str, f64)]) -> Evidence {
        let mut capture = Capture::new();
        for &(format, t_ns, signal, labels, value) in rows {
            let known = capture.manifest.sources.iter().position(|source| source.format == format);
            let source_idx = known.map_or_else(
                || capture.add_source(Source { name: format.to_string(), format: format.to_string(), ..Source::default() }),
                |at| SourceIdx(at as u32),
            );
            let (signal, labels) = (capture.intern(signal), capture.intern(labels));
            capture.tables.samples.push(Sample { t_ns, run_idx: 0, point_idx: -1, signal, labels, value, source_idx });
        }
        capture.canonicalize();
        Evidence::read(&capture, 0)
    }

    #[test]
    fn devices_have_series_and_their_mean_is_a_figure() {
        let rows = [
            ("nvidia_smi_csv", 1_000, "gpu.power", "device=\"0\"", 100.0),
            ("nvidia_smi_csv", 2_000, "gpu.power", "device=\"0\"", 200.0),
            ("nvidia_smi_csv", 1_500, "gpu.power", "device=\"1\"", 350.0),
            ("nvidia_smi_csv", 1_500, "gpu.throttle_reasons", "device=\"1\"", 4.0),
            ("nvidia_smi_csv", 1_500, "gpu.throttle_share", "device=\"1\",reason=\"sw_power_cap\"", 1.0),
        ];
        let evidence = evidence(&rows);
        let series = &evidence.host["gpu.power{device=\"0\"}"];
        assert_eq!((series.t_ns.as_slice(), series.value.as_slice()), ([1_000, 2_000].as_slice(), [100.0, 200.0].as_slice()));
        assert_eq!(evidence.host["gpu.throttle_reasons{device=\"1\"}"].value, [4.0]);
        // Each device counts once, however often it was looked at.
        assert_eq!(evidence.figures.typical("gpu.power"), Some(250.0));
        assert_eq!(evidence.figures.get("gpu.power"), None, "nobody stated it");
        assert_eq!(evidence.figures.typical("gpu.throttle_reasons").or(evidence.figures.typical("gpu.throttle_share")), None);
        assert!(evidence.engines.is_empty());
    }

    #[test]
    fn a_lone_look_without_time_keeps_its_devices_apart() {
        let rows = [
            ("prometheus_text", 0, "gpu.dram_active", "device=\"0\"", 0.25),
            ("prometheus_text", 0, "gpu.dram_active", "device=\"1\"", 0.75),
        ];
        let evidence = evidence(&rows);
        assert_eq!(evidence.host["gpu.dram_active{device=\"1\"}"].value, [0.75]);
        assert_eq!(evidence.figures.typical("gpu.dram_active"), Some(0.5));
    }

    #[test]
    fn typed_figures_win_and_parts_are_found_by_their_labels() {
        let rows = [
            ("dcgmi_dmon", 1_000, "gpu.dram_active", "device=\"0\"", 0.25),
            ("observations_toml", 0, "gpu.dram_active", "device=\"0\"", 0.7),
            ("pyspy_raw", 0, "proc.frame_share", "part=\"ipc\",role=\"engine_core\"", 0.4),
            ("pyspy_raw", 0, "proc.frame_share", "part=\"scheduler\",role=\"engine_core\"", 0.6),
        ];
        let evidence = evidence(&rows);
        assert_eq!(evidence.figures.typical("gpu.dram_active"), Some(0.7));
        assert_eq!(evidence.figures.get("proc.frame_share{part=\"ipc\",role=\"engine_core\"}"), Some(0.4));
        assert_eq!(evidence.figures.get("proc.frame_share"), None);
        assert_eq!(evidence.figures.labelled().count(), 3);
    }
}
