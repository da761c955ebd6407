//! Findings held against what the host at hand can do: a measured rate confirms what a finding leans on, or refutes it.
//!
//! A finding names the rate it leans on among its evidence (bytes on a link, bytes of a step, gaps between launches). A probe
//! measures the same rate alone. Where the system comes close to what the probe reaches, the resource is what binds; where it
//! stays far below, it is not. Findings that lean on no rate, and probes that no finding leans on, say nothing here.

use crate::contract::{Finding, Outcome, Report};
use crate::words::{digits, percent, seconds};

/// One rate or cost, measured alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Full name of its figure, with labels: `bench.flops{kernel="down",phase="prefill"}`.
    pub signal: String,
    /// Median, base unit.
    pub value: f64,
    /// The data sheet's figure, where one is known.
    pub data_sheet: Option<f64>,
}

/// What a probe says about a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgment {
    /// Failure mode of the finding.
    pub check: String,
    /// The probe's figure.
    pub signal: String,
    /// Confirmed, refuted, or neither.
    pub outcome: Outcome,
    /// With the numbers.
    pub why: String,
}

/// A share of what the probe reaches from which a resource binds: systems overlap badly and reach three quarters of a rate
/// that stands alone.
const BINDS: f64 = 0.6;
/// Below this share something else binds.
const IDLE: f64 = 0.4;
/// A system faster than the probe does something else than its finding says.
const IMPOSSIBLE: f64 = 1.15;
/// A framework takes up to this many bare launches for one of its own (see `launches.rs`), and no less than half of one.
const DISPATCHER: f64 = 8.0;

type Judge = fn(&Finding, &[Probe]) -> Option<(String, Outcome, String)>;

/// Which finding is judged by what.
const JUDGES: &[(&str, Judge)] = &[
    ("host_link_bound", host_link),
    ("bandwidth_bound_decode", memory),
    ("launch_bound_steps", launches),
    ("slow_interconnect", interconnect),
    ("compute_bound_prefill", arithmetic),
    ("idle_tensor_cores", idle_matrix_units),
];

/// Judges every finding that leans on a rate among the probes, in the order of the report.
pub fn judge(report: &Report, probes: &[Probe]) -> Vec<Judgment> {
    let of = |finding: &Finding| {
        let (_, judge) = JUDGES.iter().find(|(check, _)| *check == finding.check)?;
        let (signal, outcome, why) = judge(finding, probes)?;
        Some(Judgment { check: finding.check.clone(), signal, outcome, why })
    };
    report.findings.iter().filter_map(of).collect()
}

fn probe<'a>(probes: &'a [Probe], signals: &[&str]) -> Option<&'a Probe> {
    signals.iter().find_map(|signal| probes.iter().find(|probe| probe.signal == *signal && probe.value > 0.0))
}

/// The fastest of several probes that differ in their labels.
fn fastest<'a>(probes: &'a [Probe], start: &str, with: &str) -> Option<&'a Probe> {
    let fits = |probe: &&Probe| probe.signal.starts_with(start) && probe.signal.contains(with) && probe.value > 0.0;
    probes.iter().filter(fits).max_by(|a, b| a.value.total_cmp(&b.value))
}

fn figure(finding: &Finding, signal: &str) -> Option<f64> {
    finding.evidence.iter().find(|row| row.signal == signal).map(|row| row.value).filter(|value| value.is_finite() && *value > 0.0)
}

/// A used rate against a reachable one.
fn by_share(share: f64) -> Outcome {
    match share {
        share if share > IMPOSSIBLE => Outcome::Inconclusive,
        share if share >= BINDS => Outcome::Confirmed,
        share if share < IDLE => Outcome::Refuted,
        _ => Outcome::Inconclusive,
    }
}

fn giga(value: f64) -> String {
    digits(value * 1e-9)
}

fn host_link(finding: &Finding, probes: &[Probe]) -> Option<(String, Outcome, String)> {
    let link = probe(probes, &["gpu.link_bandwidth"])?;
    let is_moved = |signal: &str| signal != "what the link carries";
    let moved = figure(finding, "gpu.pcie_bytes")
        .or_else(|| finding.evidence.iter().find(|row| row.unit == "byte/s" && is_moved(&row.signal)).map(|row| row.value));
    let (share, used) = match (moved, figure(finding, "bytes on the host"), figure(finding, "step time")) {
        (Some(moved), ..) => (moved / link.value, format!("{} GB/s moved", giga(moved))),
        (None, Some(bytes), Some(step)) => (bytes / link.value / step, format!("{} GB per step of {}", giga(bytes), seconds(step))),
        _ => return None,
    };
    let why = format!("the link alone carries {} GB/s; {used} are {} of it", giga(link.value), percent(share));
    Some((link.signal.clone(), by_share(share), why))
}

fn memory(finding: &Finding, probes: &[Probe]) -> Option<(String, Outcome, String)> {
    let read = probe(probes, &["gpu.dram_bandwidth_sustained", "host.dram_bandwidth_sustained"])?;
    let by_step = || Some(figure(finding, "bytes per step")? / figure(finding, "step time")?);
    let by_counter = || Some(figure(finding, "gpu.dram_active")? * read.data_sheet?);
    let moved = figure(finding, "gpu.dram_bytes").or_else(by_step).or_else(by_counter)?;
    let share = moved / read.value;
    let why = format!("reading alone reaches {} GB/s; decoding moves {} GB/s, {} of it", giga(read.value), giga(moved), percent(share));
    Some((read.signal.clone(), by_share(share), why))
}

fn launches(finding: &Finding, probes: &[Probe]) -> Option<(String, Outcome, String)> {
    let bare = probe(probes, &["kernel.launch_cost"])?;
    let idle_s = figure(finding, "device idle between launches, share of the step")? * figure(finding, "step time")?;
    let gap_s = idle_s / figure(finding, "kernel.count_per_step")?;
    let factor = gap_s / bare.value;
    let outcome = match factor {
        factor if factor > 2.0 * DISPATCHER => Outcome::Refuted,
        factor if (0.5..=DISPATCHER).contains(&factor) => Outcome::Confirmed,
        _ => Outcome::Inconclusive,
    };
    let why = format!(
        "a bare launch takes {} here; the gaps are {} each, {} times that (a framework takes 1 to {})",
        seconds(bare.value),
        seconds(gap_s),
        digits(factor),
        digits(DISPATCHER)
    );
    Some((bare.signal.clone(), outcome, why))
}

fn interconnect(_: &Finding, probes: &[Probe]) -> Option<(String, Outcome, String)> {
    let bus = probe(probes, &["comm.bus_bandwidth"])?;
    let link = bus.data_sheet.filter(|link| *link > 0.0)?;
    // The link itself is what the finding accuses: slow when alone means slow for everybody.
    let outcome = match bus.value / link {
        share if share < 0.5 => Outcome::Confirmed,
        share if share >= 0.7 => Outcome::Refuted,
        _ => Outcome::Inconclusive,
    };
    let why =
        format!("an all-reduce alone reaches {} GB/s, {} of the link's {} GB/s", giga(bus.value), percent(bus.value / link), giga(link));
    Some((bus.signal.clone(), outcome, why))
}

/// Floating point operations per second that the system does, from the share of a peak that a finding tells.
fn used_flops(finding: &Finding, share: &str, peak: Option<f64>) -> Option<f64> {
    Some(figure(finding, share)? * figure(finding, "peak arithmetic").or(peak)?)
}

fn arithmetic(finding: &Finding, probes: &[Probe]) -> Option<(String, Outcome, String)> {
    let best = fastest(probes, "bench.flops{", "phase=\"prefill\"")?;
    let used = used_flops(finding, "share of peak arithmetic", best.data_sheet)?;
    let share = used / best.value;
    let why = format!(
        "the model's products alone reach {} TFLOP/s; prompts use {}, {} of it",
        giga(best.value * 1e-3),
        giga(used * 1e-3),
        percent(share)
    );
    Some((best.signal.clone(), by_share(share), why))
}

fn idle_matrix_units(finding: &Finding, probes: &[Probe]) -> Option<(String, Outcome, String)> {
    let best = fastest(probes, "bench.flops{", "phase=\"prefill\"")?;
    let by_row = |row: &str| used_flops(finding, row, best.data_sheet);
    let used = by_row("share of the matrix rate").or_else(|| by_row("prompts, share of the matrix rate"))?;
    let share = used / best.value;
    // Here a low share is what the finding says.
    let outcome = match by_share(share) {
        Outcome::Confirmed => Outcome::Refuted,
        Outcome::Refuted => Outcome::Confirmed,
        other => other,
    };
    let why = format!(
        "the model's products alone reach {} TFLOP/s on this device; the system uses {}, {} of it",
        giga(best.value * 1e-3),
        giga(used * 1e-3),
        percent(share)
    );
    Some((best.signal.clone(), outcome, why))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::contract::{Evidence, Layer, Role};

    fn finding(check: &str, evidence: &[(&str, f64, &str)]) -> Finding {
        let row = |(signal, value, unit): &(&str, f64, &str)| Evidence {
            signal: (*signal).to_string(),
            value: *value,
            unit: (*unit).to_string(),
            from: "typed".into(),
        };
        Finding {
            check: check.into(),
            layer: Layer::Hardware,
            role: Role::Cause,
            explained: None,
            explained_range: None,
            cost: None,
            summary: String::new(),
            provenance: "typed".into(),
            evidence: evidence.iter().map(row).collect(),
            hypotheses: Vec::new(),
        }
    }

    fn check(finding: Finding, probes: &[(&str, f64, Option<f64>)], expected: &Expect) {
        let mut report = crate::diagnose(&capture::Capture::new(), &crate::DiagnoseOptions::default());
        report.findings = vec![finding];
        let probe = |(signal, value, data_sheet): &(&str, f64, Option<f64>)| Probe {
            signal: (*signal).to_string(),
            value: *value,
            data_sheet: *data_sheet,
        };
        let judged = judge(&report, &probes.iter().map(probe).collect::<Vec<_>>());
        let lines: Vec<String> =
            judged.iter().map(|judged| format!("{} {:?} by {}: {}\n", judged.check, judged.outcome, judged.signal, judged.why)).collect();
        expected.assert_eq(&lines.concat());
    }

    #[test]
    fn a_full_link_binds_and_an_idle_one_does_not() {
        let moved =
            |rate: f64| finding("host_link_bound", &[("gpu.pcie_bytes", rate, "byte/s"), ("what the link carries", 27e9, "byte/s")]);
        check(
            moved(24e9),
            &[("gpu.link_bandwidth", 26e9, None)],
            &expect![[r#"
            host_link_bound Confirmed by gpu.link_bandwidth: the link alone carries 26.0 GB/s; 24.0 GB/s moved are 92 % of it
        "#]],
        );
        check(
            moved(24e9),
            &[("gpu.link_bandwidth", 110e9, None)],
            &expect![[r#"
            host_link_bound Refuted by gpu.link_bandwidth: the link alone carries 110 GB/s; 24.0 GB/s moved are 22 % of it
        "#]],
        );
        check(moved(24e9), &[("kernel.launch_cost", 2e-6, None)], &expect![[""]]);
        let part = finding("host_link_bound", &[("bytes on the host", 12e9, "byte"), ("step time", 0.5, "s")]);
        check(
            part,
            &[("gpu.link_bandwidth", 26e9, None)],
            &expect![[r#"
            host_link_bound Confirmed by gpu.link_bandwidth: the link alone carries 26.0 GB/s; 12.0 GB per step of 500 ms are 92 % of it
        "#]],
        );
    }

    #[test]
    fn decoding_near_the_measured_bandwidth_is_bound_by_it() {
        let step = finding("bandwidth_bound_decode", &[("bytes per step", 16e9, "byte"), ("step time", 0.0062, "s")]);
        check(
            step.clone(),
            &[("gpu.dram_bandwidth_sustained", 3.0e12, Some(3.35e12))],
            &expect![[r#"
            bandwidth_bound_decode Confirmed by gpu.dram_bandwidth_sustained: reading alone reaches 3000 GB/s; decoding moves 2581 GB/s, 86 % of it
        "#]],
        );
        check(
            step.clone(),
            &[("gpu.dram_bandwidth_sustained", 7.2e12, Some(8e12))],
            &expect![[r#"
            bandwidth_bound_decode Refuted by gpu.dram_bandwidth_sustained: reading alone reaches 7200 GB/s; decoding moves 2581 GB/s, 36 % of it
        "#]],
        );
        check(
            step,
            &[("gpu.dram_bandwidth_sustained", 2.0e12, None)],
            &expect![[r#"
            bandwidth_bound_decode Inconclusive by gpu.dram_bandwidth_sustained: reading alone reaches 2000 GB/s; decoding moves 2581 GB/s, 129 % of it
        "#]],
        );
        let counter = finding("bandwidth_bound_decode", &[("gpu.dram_active", 0.75, "ratio")]);
        check(
            counter,
            &[("gpu.dram_bandwidth_sustained", 3.0e12, Some(3.35e12))],
            &expect![[r#"
            bandwidth_bound_decode Confirmed by gpu.dram_bandwidth_sustained: reading alone reaches 3000 GB/s; decoding moves 2512 GB/s, 84 % of it
        "#]],
        );
    }

    #[test]
    fn gaps_far_beyond_a_launch_have_another_cause() {
        let gaps = |share: f64| {
            finding(
                "launch_bound_steps",
                &[
                    ("step time", 0.02, "s"),
                    ("device idle between launches, share of the step", share, "ratio"),
                    ("kernel.count_per_step", 1000.0, "count"),
                ],
            )
        };
        check(
            gaps(0.5),
            &[("kernel.launch_cost", 2.5e-6, None)],
            &expect![[r#"
            launch_bound_steps Confirmed by kernel.launch_cost: a bare launch takes 2.50 us here; the gaps are 10.0 us each, 4.00 times that (a framework takes 1 to 8.00)
        "#]],
        );
        check(
            gaps(0.5),
            &[("kernel.launch_cost", 0.5e-6, None)],
            &expect![[r#"
            launch_bound_steps Refuted by kernel.launch_cost: a bare launch takes 0.500 us here; the gaps are 10.0 us each, 20.0 times that (a framework takes 1 to 8.00)
        "#]],
        );
    }

    #[test]
    fn links_and_matrix_units_are_judged_by_what_they_reach_alone() {
        check(
            finding("slow_interconnect", &[]),
            &[("comm.bus_bandwidth", 40e9, Some(450e9))],
            &expect![[r#"
            slow_interconnect Confirmed by comm.bus_bandwidth: an all-reduce alone reaches 40.0 GB/s, 9 % of the link's 450 GB/s
        "#]],
        );
        check(
            finding("slow_interconnect", &[]),
            &[("comm.bus_bandwidth", 360e9, Some(450e9))],
            &expect![[r#"
            slow_interconnect Refuted by comm.bus_bandwidth: an all-reduce alone reaches 360 GB/s, 80 % of the link's 450 GB/s
        "#]],
        );
        let flops = [("bench.flops{kernel=\"down\",phase=\"prefill\"}", 700e12, Some(989e12))];
        check(
            finding("compute_bound_prefill", &[("peak arithmetic", 989e12, "flop/s"), ("share of peak arithmetic", 0.5, "ratio")]),
            &flops,
            &expect![[r#"
                compute_bound_prefill Confirmed by bench.flops{kernel="down",phase="prefill"}: the model's products alone reach 700 TFLOP/s; prompts use 495, 71 % of it
            "#]],
        );
        check(
            finding("idle_tensor_cores", &[("share of the matrix rate", 0.05, "ratio")]),
            &flops,
            &expect![[r#"
            idle_tensor_cores Confirmed by bench.flops{kernel="down",phase="prefill"}: the model's products alone reach 700 TFLOP/s on this device; the system uses 49.5, 7 % of it
        "#]],
        );
    }
}
