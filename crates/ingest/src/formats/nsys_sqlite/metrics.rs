//! GPU metrics: what the hardware counters saw between two timestamps, as samples.
//!
//! Numbers of metrics change from chip to chip, so a metric is known by its name alone, on the part before the unit in
//! brackets. A value belongs to the time since the sample before it and stands at its end: a shorter kernel is unsampled,
//! not idle, and the distance of the samples tells. Percent become ratios. Reads and writes of the memory, and both
//! directions of a link, are added. Where there are too many samples, neighbors are averaged, and it is said.

use std::collections::BTreeMap;

use capture::{Severity, labels};

use crate::builder::Builder;
use crate::sqlite::Row;

use super::described::small;
use super::part::{Export, Part};

/// Most samples kept of one export.
const MAX_SAMPLES: u64 = 2_000_000;
/// Most metrics of one export.
const MAX_METRICS: usize = 20_000;
/// A clock above this is in hertz, whatever its unit says: no GPU reaches 100 GHz, and none runs below 100 kHz.
const MAX_MEGAHERTZ: f64 = 1e5;
const TABLE: &str = "GPU_METRICS";
const COLUMNS: [&str; 4] = ["timestamp", "typeId", "metricId", "value"];

/// How a value becomes that of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Percent,
    Clock,
    Bytes,
}

/// Metrics by the beginning of their name in lower case, with the signal they are part of.
const METRICS: &[(&str, &str, Scale)] = &[
    ("sms active", "gpu.sm_active", Scale::Percent),
    ("sm active", "gpu.sm_active", Scale::Percent),
    ("tensor active", "gpu.tensor_active", Scale::Percent),
    ("dram read bandwidth", "gpu.dram_active", Scale::Percent),
    ("dram write bandwidth", "gpu.dram_active", Scale::Percent),
    ("compute warps in flight", "gpu.sm_occupancy", Scale::Percent),
    ("gr active", "gpu.busy", Scale::Percent),
    ("gpc clock frequency", "gpu.sm_clock", Scale::Clock),
    ("pcie rx throughput", "gpu.pcie_bytes", Scale::Bytes),
    ("pcie tx throughput", "gpu.pcie_bytes", Scale::Bytes),
    ("nvlink rx", "gpu.nvlink_bytes", Scale::Bytes),
    ("nvlink tx", "gpu.nvlink_bytes", Scale::Bytes),
];

/// The signal a metric is part of, if its unit can be converted: a percentage of an unknown link is no number of bytes.
fn signal(metric: &str) -> Option<(&'static str, Scale)> {
    let (name, unit) = metric.split_once('[').unwrap_or((metric, ""));
    let name = name.trim().to_ascii_lowercase();
    let unit = unit.trim_end_matches(']').to_ascii_lowercase();
    let (_, signal, scale) = METRICS.iter().find(|(known, ..)| name.starts_with(known))?;
    let fits = match scale {
        Scale::Percent => unit.contains('%'),
        Scale::Clock => unit.contains("hz") || unit.is_empty(),
        Scale::Bytes => unit.contains("bytes/s") || unit.contains("b/s"),
    };
    fits.then_some((*signal, *scale))
}

impl Scale {
    fn to_base(self, value: f64) -> f64 {
        match self {
            Self::Percent => value / 100.0,
            Self::Clock if value < MAX_MEGAHERTZ => value * 1e6,
            Self::Clock | Self::Bytes => value,
        }
    }
}

/// One signal of one device, and the metric that is part of it.
struct Target {
    series: usize,
    scale: Scale,
    /// Values since the last sample, where neighbors are averaged.
    bucket: i64,
    sum: f64,
    count: u32,
}

/// A signal of a device; several metrics may add to its value at one time.
struct Series {
    signal: &'static str,
    device: String,
    values: Vec<(i64, f64)>,
}

#[derive(Default)]
struct Metrics {
    targets: BTreeMap<(i64, i64), Target>,
    series: Vec<Series>,
    unmapped: Vec<String>,
}

/// Reads the metrics; false when there are none.
pub(super) fn read(export: &Export<'_>, builder: &mut Builder<'_>) -> bool {
    let Some(table) = export.database.table(TABLE) else { return false };
    let mut metrics = named(export);
    let rows = u64::try_from(export.database.last_rowid(table).unwrap_or(0)).unwrap_or(0);
    let share = metrics.targets.len() as f64 / (metrics.targets.len() + metrics.unmapped.len()).max(1) as f64;
    let width_ns = width(export, rows, share, metrics.series.len());
    let mut part = Part::default();
    part.scan(export.database, TABLE, &COLUMNS, |row, part| metrics.row(row, width_ns, part));
    part.merge(builder);
    metrics.flush();
    if width_ns > 1 {
        let sentence = format!("expected at most {MAX_SAMPLES} samples, found more; each is now the mean over {width_ns} ns");
        builder.issue(Severity::Note, "samples_averaged", "", rows, sentence);
    }
    metrics.tell_unmapped(builder);
    let found = metrics.series.iter().any(|series| !series.values.is_empty());
    for series in metrics.series {
        write(export, series, builder);
    }
    found
}

/// The metrics of the export that are part of a signal.
fn named(export: &Export<'_>) -> Metrics {
    let mut metrics = Metrics::default();
    small(export.database, "TARGET_INFO_GPU_METRICS", &["typeId", "metricId", "metricName", "typeName"], |row| {
        let (Some(type_id), Some(metric_id), Some(name)) = (row.int(0), row.int(1), row.text(2)) else { return };
        if metrics.targets.len() + metrics.unmapped.len() >= MAX_METRICS {
            return;
        }
        let Some((signal, scale)) = signal(&name) else {
            metrics.unmapped.push(name.into_owned());
            return;
        };
        let gpu = gpu_number(type_id, &row.text(3).unwrap_or_default());
        let device = export.ordinals.of_gpu(gpu).map_or_else(|| format!("gpu{gpu}"), |device| device.to_string());
        let known = metrics.series.iter().position(|series| series.signal == signal && series.device == device);
        let series = known.unwrap_or_else(|| {
            metrics.series.push(Series { signal, device, values: Vec::new() });
            metrics.series.len() - 1
        });
        metrics.targets.insert((type_id, metric_id), Target { series, scale, bucket: i64::MIN, sum: 0.0, count: 0 });
    });
    metrics
}

/// The GPU of a type of metrics: the number in brackets at the end of its name, else the lowest byte of its own number.
fn gpu_number(type_id: i64, type_name: &str) -> u32 {
    let inside = type_name.trim_end().strip_suffix(']').and_then(|text| text.rsplit_once('[')).map(|(_, number)| number);
    inside.and_then(|number| number.trim().parse().ok()).unwrap_or((type_id & 0xff) as u32)
}

/// Nanoseconds that one sample must stand for, so that there are not too many; 0 where each may be kept.
fn width(export: &Export<'_>, rows: u64, share: f64, series: usize) -> i64 {
    if (rows as f64) * share <= MAX_SAMPLES as f64 {
        return 0;
    }
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    if let Some(table) = export.database.table(TABLE) {
        // What is damaged is told when the values are read.
        let _ = export.database.scan(table, &COLUMNS[..1], u64::MAX, |row| {
            if let Some(t_ns) = row.int(0) {
                (first, last) = (first.min(t_ns), last.max(t_ns));
            }
        });
    }
    let per_series = i64::try_from(MAX_SAMPLES / series.max(1) as u64).unwrap_or(i64::MAX).max(1);
    (last.saturating_sub(first).max(0) / per_series).max(1)
}

impl Metrics {
    fn row(&mut self, row: &Row<'_>, width_ns: i64, part: &mut Part) {
        let (Some(t_ns), Some(type_id), Some(metric_id)) = (row.int(0), row.int(1), row.int(2)) else { return };
        let Some(target) = self.targets.get_mut(&(type_id, metric_id)) else { return };
        let value = row.number(3).map(|value| target.scale.to_base(value)).filter(|value| value.is_finite() && *value >= 0.0);
        let Some(value) = value.filter(|_| t_ns.unsigned_abs() < 1 << 62) else {
            part.issue(Severity::Warning, "impossible_value", "", 1, || {
                "expected metrics of zero or more at possible times, found others; they are left out".to_string()
            });
            return;
        };
        let values = &mut self.series[target.series].values;
        if width_ns == 0 {
            values.push((t_ns, value));
            return;
        }
        // A sample stands at the end of its time.
        let bucket = t_ns.div_euclid(width_ns).saturating_add(1).saturating_mul(width_ns);
        if bucket != target.bucket {
            target.flush(values);
            target.bucket = bucket;
        }
        target.sum += value;
        target.count += 1;
    }

    fn flush(&mut self) {
        for target in self.targets.values_mut() {
            target.flush(&mut self.series[target.series].values);
        }
    }

    fn tell_unmapped(&self, builder: &mut Builder<'_>) {
        builder.source_row().unmapped_count += self.unmapped.len() as u64;
        if self.targets.is_empty() {
            let sentence =
                "expected metrics of known names (`SMs Active`, `Tensor Active`, `DRAM Read Bandwidth`), found none; they are not read";
            builder.issue(Severity::Warning, "unknown_metrics", "", self.unmapped.len().max(1), sentence);
        }
    }
}

impl Target {
    fn flush(&mut self, values: &mut Vec<(i64, f64)>) {
        if self.count > 0 {
            values.push((self.bucket, self.sum / f64::from(self.count)));
        }
        (self.sum, self.count) = (0.0, 0);
    }
}

/// Adds up what stands at the same time, and writes the samples.
fn write(export: &Export<'_>, series: Series, builder: &mut Builder<'_>) {
    let Series { signal, device, mut values } = series;
    values.sort_by_key(|(t_ns, _)| *t_ns);
    let labels = labels::canonical(&[("device", &device)]);
    let is_clock = signal == "gpu.sm_clock";
    let mut values = values.into_iter().peekable();
    while let Some((t_ns, mut value)) = values.next() {
        while let Some((_, more)) = values.next_if(|(next, _)| *next == t_ns) {
            value = if is_clock { value.max(more) } else { value + more };
        }
        builder.sample(t_ns.saturating_add(export.clock.offset_ns), signal, &labels, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_known_by_name_and_unit() {
        assert_eq!(signal("SMs Active [Throughput %]"), Some(("gpu.sm_active", Scale::Percent)));
        assert_eq!(signal("DRAM Write Bandwidth [Throughput %]"), Some(("gpu.dram_active", Scale::Percent)));
        assert_eq!(signal("Compute Warps in Flight [Avg Warps per Cycle]"), None);
        assert_eq!(signal("PCIe RX Throughput [Throughput %]"), None);
        assert_eq!(signal("GPC Clock Frequency [MHz]"), Some(("gpu.sm_clock", Scale::Clock)));
        assert_eq!((Scale::Clock.to_base(1755.0), Scale::Clock.to_base(1_755_000_000.0)), (1.755e9, 1.755e9));
        assert_eq!((gpu_number(0x0100_0003, ""), gpu_number(7, "GA100 [2]")), (3, 2));
    }
}
