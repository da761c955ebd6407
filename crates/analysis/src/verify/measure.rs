//! One signal of one run: its mean, and batch means to judge its noise by.

use crate::account::RequestAccount;
use crate::evidence::{Evidence, RequestRow, Series};
use crate::stats::batch_means;

/// A signal measured over a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    /// Mean (or the level itself).
    pub mean: f64,
    /// Batch means; empty for a level.
    pub batches: Vec<f64>,
}

/// Most batches a run is cut into.
const MAX_BATCHES: usize = 10;
/// Fewest: with fewer, the interval says how little is known.
const MIN_BATCHES: usize = 4;
/// A batch should be this many mean requests long, so that batches are nearly independent.
const BATCH_LENGTH_IN_E2E: f64 = 5.0;

/// Measures a signal; names without a vantage take the outermost one.
pub(super) fn measure(evidence: &Evidence, signal: &str) -> Option<Measured> {
    let batches = batch_count(evidence);
    let rows = |value: fn(&RequestRow) -> Option<i64>| from_rows(evidence, batches, value);
    let ttft = || rows(RequestRow::ttft_ns);
    let e2e = || rows(RequestRow::e2e_ns);
    match signal {
        "client.ttft.mean" => ttft(),
        "client.e2e.mean" => e2e(),
        "ttft.mean" => ttft().or_else(|| from_histogram(evidence, "server.ttft", batches)),
        "e2e.mean" => e2e().or_else(|| from_histogram(evidence, "server.e2e", batches)),
        "client.itl.mean" => from_gaps(evidence, batches),
        "client.itl.p99" => slow_gaps(evidence, batches),
        "client.chunk_tokens" => chunk_tokens(evidence, batches),
        "kv.preemptions.rate" => preemption_rate(evidence, batches),
        "engine.running.max" => level(evidence, "engine.running"),
        "engine.step_time" | "kernel.time" | "kernel.launch_gap" => super::devices::measure(evidence, signal, batches),
        _ => from_histogram(evidence, signal.strip_suffix(".mean")?, batches),
    }
    .filter(|measured| measured.mean.is_finite())
}

fn batch_count(evidence: &Evidence) -> usize {
    let Some((start, end)) = evidence.window() else { return MIN_BATCHES };
    let e2e_s = RequestAccount::read(evidence, None).total_mean_s();
    let length_s = (end - start) as f64 * 1e-9;
    if e2e_s <= 0.0 {
        return MIN_BATCHES;
    }
    ((length_s / (BATCH_LENGTH_IN_E2E * e2e_s)) as usize).clamp(MIN_BATCHES, MAX_BATCHES)
}

fn from_rows(evidence: &Evidence, batches: usize, value: fn(&RequestRow) -> Option<i64>) -> Option<Measured> {
    let values: Vec<(i64, f64)> =
        evidence.client.iter().filter(|row| row.ok).filter_map(|row| Some((row.t_sent_ns, value(row)? as f64 * 1e-9))).collect();
    average(&values, batches)
}

fn from_gaps(evidence: &Evidence, batches: usize) -> Option<Measured> {
    let values: Vec<(i64, f64)> = evidence.gaps.iter().map(|gap| (gap.t_end_ns, gap.gap_ns as f64 * 1e-9)).collect();
    average(&values, batches)
}

/// The p99 of gaps, of the run and of each of as many equal parts of it.
fn slow_gaps(evidence: &Evidence, batches: usize) -> Option<Measured> {
    let mut gaps: Vec<(i64, f64)> = evidence.gaps.iter().map(|gap| (gap.t_end_ns, gap.gap_ns as f64 * 1e-9)).collect();
    gaps.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let part = gaps.len() / batches.max(1);
    // A part needs its hundred gaps for a p99 of its own.
    (part >= 100).then(|| Measured { mean: p99(&gaps), batches: gaps.chunks(part).filter(|chunk| chunk.len() == part).map(p99).collect() })
}

/// Tokens per delivered chunk: a gap between chunks stands for one after the first.
fn chunk_tokens(evidence: &Evidence, batches: usize) -> Option<Measured> {
    if evidence.gaps.is_empty() {
        return None;
    }
    let mut steps: Vec<(i64, f64, f64)> = evidence.gaps.iter().map(|gap| (gap.t_end_ns, 0.0, 1.0)).collect();
    let ended = evidence.client.iter().filter(|row| row.ok).filter_map(|row| Some((row.t_done_ns?, row.tokens_out?)));
    steps.extend(ended.map(|(t_ns, tokens)| (t_ns, tokens as f64, 1.0)));
    steps.sort_by_key(|step| step.0);
    let tokens: f64 = steps.iter().map(|step| step.1).sum();
    (tokens > 0.0).then(|| Measured { mean: tokens / steps.len() as f64, batches: ratios(&steps, batches) })
}

fn p99(gaps: &[(i64, f64)]) -> f64 {
    let mut sorted: Vec<f64> = gaps.iter().map(|(_, gap_s)| *gap_s).collect();
    sorted.sort_by(f64::total_cmp);
    let at = ((sorted.len() as f64 * 0.99).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).copied().unwrap_or(0.0)
}

pub(super) fn average(values: &[(i64, f64)], batches: usize) -> Option<Measured> {
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64;
    Some(Measured { mean, batches: batch_means(values, batches) })
}

/// Interval deltas of sum and count, gathered into batches of equal numbers of intervals.
fn from_histogram(evidence: &Evidence, signal: &str, batches: usize) -> Option<Measured> {
    let total = evidence.observed(signal)?;
    let mut steps: Vec<(i64, f64, f64)> = Vec::new();
    for series in evidence.engines.values().filter_map(|engine| engine.histogram(signal)) {
        steps.extend(
            series.steps().iter().zip(&series.t_ns).filter(|((_, count), _)| *count > 0.0).map(|(&(sum, count), &t)| (t, sum, count)),
        );
    }
    steps.sort_by_key(|step| step.0);
    Some(Measured { mean: total.mean()?, batches: ratios(&steps, batches) })
}

/// Preemptions per finished request.
fn preemption_rate(evidence: &Evidence, batches: usize) -> Option<Measured> {
    let preempted = evidence.growth("kv.preemptions")?;
    let finished = evidence.observed("server.e2e").map(|delta| delta.count).filter(|&count| count > 0.0)?;
    let mut steps: Vec<(i64, f64, f64)> = Vec::new();
    for engine in evidence.engines.values() {
        for interval in crate::timeline::intervals(engine) {
            if interval.preemptions > 0.0 || interval.finished > 0.0 {
                steps.push((interval.t_start_ns, interval.preemptions, interval.finished));
            }
        }
    }
    steps.sort_by_key(|step| step.0);
    Some(Measured { mean: preempted / finished, batches: ratios(&steps, batches) })
}

/// Sum over sum in batches of equal numbers of steps.
fn ratios(steps: &[(i64, f64, f64)], batches: usize) -> Vec<f64> {
    let size = steps.len().div_ceil(batches.max(1)).max(1);
    steps
        .chunks(size)
        .map(|chunk| chunk.iter().fold((0.0, 0.0), |(sum, count), step| (sum + step.1, count + step.2)))
        .filter(|(_, count)| *count > 0.0)
        .map(|(sum, count)| sum / count)
        .collect()
}

fn level(evidence: &Evidence, signal: &str) -> Option<Measured> {
    let peak = evidence.engines.values().filter_map(|engine| engine.series(signal)).map(Series::max).reduce(f64::max)?;
    Some(Measured { mean: peak, batches: Vec::new() })
}
