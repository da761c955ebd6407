//! Results as figures of a capture, so that a diagnosis leans on them instead of on data sheets.

use capture::ids::NO_POINT;
use capture::{Capture, Sample, Source, labels};

use super::{Bench, Measured};

/// Format of the source that results have in a capture.
pub const SOURCE_FORMAT: &str = "inferoscope_bench";

/// A capture of the results alone; figures without a time, the medians.
pub fn into_capture(bench: &Bench) -> Capture {
    let mut capture = Capture::new();
    capture.manifest.subject.device = if bench.backend == "cpu" { "CPU".to_string() } else { bench.device.clone() };
    let source_idx = capture.add_source(Source {
        name: "inferoscope bench".to_string(),
        format: SOURCE_FORMAT.to_string(),
        row_count: bench.rows.len() as u64,
        ..Source::default()
    });
    for row in &bench.rows {
        let (signal, labels) = (capture.intern(row.signal), capture.intern(&label_text(row)));
        let value = row.value.median;
        capture.tables.samples.push(Sample { t_ns: 0, run_idx: 0, point_idx: NO_POINT, signal, labels, value, source_idx });
    }
    capture.canonicalize();
    capture
}

fn label_text(row: &Measured) -> String {
    let pairs: Vec<(&str, &str)> = row.labels.iter().map(|(key, value)| (*key, value.as_str())).collect();
    labels::canonical(&pairs)
}

#[cfg(test)]
mod tests {
    use super::super::Spread;
    use super::*;

    #[test]
    fn a_result_is_a_figure_of_its_signal() {
        let value = Spread { median: 3.1e12, low: 3.0e12, high: 3.2e12, count: 9 };
        let row = |signal: &'static str, labels| Measured {
            operator: "read",
            title: "memory read".into(),
            signal,
            labels,
            value,
            data_sheet: Some(3.35e12),
            how: String::new(),
        };
        let rows = vec![row("gpu.dram_bandwidth_sustained", Vec::new()), row("bench.bandwidth", vec![("kernel", "copy".to_string())])];
        let bench = Bench {
            backend: "cuda",
            device: "NVIDIA H100 80GB HBM3".into(),
            because: String::new(),
            is_unoptimized: false,
            rows,
            skipped: Vec::new(),
        };
        let capture = into_capture(&bench);
        let shown: Vec<String> = capture
            .tables
            .samples
            .rows()
            .map(|row| format!("{} {{{}}} {} at {}", capture.text(row.signal), capture.text(row.labels), row.value, row.t_ns))
            .collect();
        assert_eq!(shown, ["bench.bandwidth {kernel=\"copy\"} 3100000000000 at 0", "gpu.dram_bandwidth_sustained {} 3100000000000 at 0"]);
        assert_eq!(capture.manifest.subject.device, "NVIDIA H100 80GB HBM3");
    }
}
