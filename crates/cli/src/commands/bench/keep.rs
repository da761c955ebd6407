//! Figures of a bench in a capture: one of its own, or beside the evidence of the same device.

use std::path::Path;

use anyhow::{Context as _, bail};
use capture::{Capture, Name, SourceIdx};
use live::bench::{Bench, SOURCE_FORMAT, into_capture};

/// Puts the figures into the capture at `path`, in place of those of an earlier bench; makes one where there is none.
pub(super) fn write(measured: &Bench, path: &Path) -> anyhow::Result<()> {
    if measured.rows.is_empty() {
        bail!("nothing was measured, so nothing is written to `{}`", path.display());
    }
    let mut whole = into_capture(measured);
    if capture::store::is_capture(path) {
        let mut known = capture::store::open(path).with_context(|| format!("could not open capture `{}`", path.display()))?;
        if let Some(why) = other_device(&known.manifest.subject.device, measured) {
            bail!("the figures are not added to `{}`: {why}", path.display());
        }
        forget_figures(&mut known);
        known.merge(whole);
        known.canonicalize();
        whole = known;
    }
    capture::store::write(&whole, path).with_context(|| format!("could not write capture `{}`", path.display()))
}

/// Why figures of this bench say nothing about `device`; nothing where they do, or where either is not known.
pub(super) fn other_device(device: &str, measured: &Bench) -> Option<String> {
    if device.is_empty() {
        return None;
    }
    let told = || Some(format!("it is about `{device}`, measured was `{}`", measured.device));
    if measured.backend == "cpu" {
        return if device == "CPU" { None } else { told() };
    }
    match (model::hardware::find(device), model::hardware::find(&measured.device)) {
        (Some(theirs), Some(ours)) if theirs.id == ours.id => None,
        (Some(_), Some(_)) => told(),
        _ if device == "CPU" => told(),
        _ => None,
    }
}

/// Takes out the samples and the sources of earlier benches.
fn forget_figures(capture: &mut Capture) {
    let is_bench: Vec<bool> = capture.manifest.sources.iter().map(|source| source.format == SOURCE_FORMAT).collect();
    let of_bench = |source: SourceIdx| is_bench.get(source.0 as usize).copied().unwrap_or(false);
    let samples = std::mem::take(&mut capture.tables.samples);
    samples.rows().filter(|row| !of_bench(row.source_idx)).for_each(|row| capture.tables.samples.push(row));
    let mut kept = 0;
    let map: Vec<SourceIdx> = is_bench
        .iter()
        .map(|is_bench| {
            let at = SourceIdx(kept);
            kept += u32::from(!is_bench);
            at
        })
        .collect();
    let mut remaining = is_bench.iter();
    capture.manifest.sources.retain(|_| !remaining.next().copied().unwrap_or(false));
    let names: Vec<Name> = (0..capture.names.len() as u32).map(Name).collect();
    capture.tables.remap(&names, &map);
}

#[cfg(test)]
mod tests {
    use live::bench::{Measured, Spread};

    use super::*;

    fn bench(backend: &'static str, device: &str, value: f64) -> Bench {
        let row = Measured {
            operator: "read",
            title: "memory read".into(),
            signal: if backend == "cpu" { "host.dram_bandwidth_sustained" } else { "gpu.dram_bandwidth_sustained" },
            labels: Vec::new(),
            value: Spread { median: value, low: value, high: value, count: 5 },
            data_sheet: None,
            how: String::new(),
        };
        Bench { backend, device: device.into(), because: String::new(), is_unoptimized: false, rows: vec![row], skipped: Vec::new() }
    }

    #[test]
    fn a_later_bench_replaces_the_figures_of_an_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.capture");
        let mut evidence = Capture::new();
        evidence.manifest.subject.device = "NVIDIA H100 80GB HBM3".into();
        evidence.add_source(capture::Source { name: "z.prom".into(), ..capture::Source::default() });
        let signal = evidence.intern("engine.running");
        evidence.tables.samples.push(capture::Sample { t_ns: 7, point_idx: -1, signal, value: 3.0, ..capture::Sample::default() });
        evidence.canonicalize();
        capture::store::write(&evidence, &path).unwrap();
        for value in [3.0e12, 3.1e12] {
            write(&bench("cuda", "NVIDIA H100 80GB HBM3", value), &path).unwrap();
        }
        let found = capture::store::open(&path).unwrap();
        let rows: Vec<(String, f64, String)> = found
            .tables
            .samples
            .rows()
            .map(|row| (found.text(row.signal).to_string(), row.value, found.manifest.sources[row.source_idx.0 as usize].name.clone()))
            .collect();
        let expected = [("gpu.dram_bandwidth_sustained", 3.1e12, "inferoscope bench"), ("engine.running", 3.0, "z.prom")];
        assert_eq!(rows, expected.map(|(signal, value, source)| (signal.to_string(), value, source.to_string())));
        let refused = write(&bench("cpu", "some CPU", 1e10), &path).unwrap_err();
        assert!(refused.to_string().ends_with("it is about `NVIDIA H100 80GB HBM3`, measured was `some CPU`"), "{refused}");
    }

    #[test]
    fn figures_count_for_their_own_device() {
        let other = |device: &str, measured: &Bench| other_device(device, measured).is_some();
        let h100 = bench("cuda", "NVIDIA H100 80GB HBM3", 1.0);
        assert!(!other("H100 SXM", &h100) && !other("", &h100) && other("NVIDIA L4", &h100) && other("CPU", &h100));
        let cpu = bench("cpu", "AMD EPYC", 1.0);
        assert!(!other("CPU", &cpu) && !other("", &cpu) && other("NVIDIA L4", &cpu));
    }
}
