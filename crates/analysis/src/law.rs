//! The step law of the server at hand: T = a + b x decoding sequences + c x prefill tokens, from its own evidence.
//!
//! Two sources: gaps between delivered tokens (a step each, with the batch known from the rows beside it), and scrape
//! intervals. Where the batch stands still neither identifies `b`; then only bounds are given, and said to be bounds.

use std::collections::BTreeMap;

use capture::Subject;
use model::step_law::{self, StepLaw};

use crate::evidence::Evidence;
use crate::hardware_bound::Hardware;
use crate::timeline::{Interval, intervals};

/// What is known of the step law.
#[derive(Clone, Debug, PartialEq)]
pub enum Law {
    /// Fitted.
    Known {
        /// The law.
        law: StepLaw,
        /// Where it comes from.
        from: &'static str,
    },
    /// The batch hardly varied: the truth lies between these two.
    Bounded {
        /// More sequences cost nothing.
        optimistic: StepLaw,
        /// More sequences cost in proportion.
        pessimistic: StepLaw,
        /// Why it could not be fitted.
        why: String,
    },
    /// No evidence.
    Unknown {
        /// Why.
        why: String,
    },
}

impl Law {
    /// The fitted law.
    pub fn known(&self) -> Option<&StepLaw> {
        match self {
            Self::Known { law, .. } => Some(law),
            _ => None,
        }
    }

    /// Best single law for floors: the fitted one, else the middle of the bounds.
    pub fn central(&self) -> Option<StepLaw> {
        match self {
            Self::Known { law, .. } => Some(*law),
            Self::Bounded { optimistic, pessimistic, .. } => Some(StepLaw::from_parts(
                f64::midpoint(optimistic.a_s, pessimistic.a_s),
                f64::midpoint(optimistic.b_s, pessimistic.b_s),
                f64::midpoint(optimistic.c_s, pessimistic.c_s),
            )),
            Self::Unknown { .. } => None,
        }
    }

    /// Optimistic, central and pessimistic law.
    pub fn span(&self) -> Option<[StepLaw; 3]> {
        match self {
            Self::Known { law, .. } => Some([*law, *law, *law]),
            Self::Bounded { optimistic, pessimistic, .. } => Some([*optimistic, self.central()?, *pessimistic]),
            Self::Unknown { .. } => None,
        }
    }

    /// Where it comes from, in words.
    pub fn from(&self) -> &str {
        match self {
            Self::Known { from, .. } => from,
            Self::Bounded { why, .. } | Self::Unknown { why } => why,
        }
    }

    /// Reads the law of one arm.
    pub fn read(subject: &Subject, evidence: &Evidence) -> Self {
        let all: Vec<Interval> = evidence.engines.values().flat_map(intervals).collect();
        let busy: Vec<Interval> = all.into_iter().filter(|i| i.running_start > 0.0 && i.running_end > 0.0 && i.steps > 0.0).collect();
        let rows: Vec<step_law::Interval> = busy
            .iter()
            .map(|i| step_law::Interval {
                busy_s: i.length_s(),
                steps: i.steps,
                decode_tokens: i.output_tokens,
                prefill_tokens: i.computed_tokens,
            })
            .collect();
        let medians = if evidence.engines.len() <= 1 { gap_medians(evidence) } else { BTreeMap::new() };
        if let Some((a_s, b_s)) = line(&medians) {
            let c_s = prefill_cost(&rows, a_s, b_s).unwrap_or(0.0);
            return Self::Known { law: StepLaw::from_parts(a_s, b_s, c_s), from: "gaps between tokens at the client" };
        }
        match step_law::fit(&rows) {
            Ok(law) => Self::Known { law, from: "scrape intervals" },
            Err(why) => bounded(&rows, &medians, seats_below_ridge(subject, evidence), why.to_string()),
        }
    }
}

/// A median wants at least this many gaps.
const MIN_GAPS: usize = 20;

/// Client stamps of one step differ by their way through API process and socket.
const SLACK_NS: i64 = 1_000_000;

/// Median step time by batch size, from gaps in which no other request joined or left.
fn gap_medians(evidence: &Evidence) -> BTreeMap<u32, (f64, usize)> {
    if !gaps_are_steps(evidence) {
        return BTreeMap::new();
    }
    let finished = evidence.client.iter().filter(|row| row.t_first_ns.is_some() && row.t_done_ns.is_some());
    let mut firsts: Vec<i64> = finished.clone().filter_map(|row| row.t_first_ns).collect();
    let mut dones: Vec<i64> = finished.filter_map(|row| row.t_done_ns).collect();
    firsts.sort_unstable();
    dones.sort_unstable();
    let upto = |times: &[i64], t: i64| times.partition_point(|&time| time <= t);
    let mut by_batch: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    for gap in &evidence.gaps {
        let start = gap.t_end_ns - gap.gap_ns;
        let joined = upto(&firsts, gap.t_end_ns + SLACK_NS) - upto(&firsts, start + SLACK_NS);
        let left = upto(&dones, gap.t_end_ns - SLACK_NS).saturating_sub(upto(&dones, start + SLACK_NS));
        if joined > 0 || left > 0 {
            continue;
        }
        let batch = upto(&firsts, start + SLACK_NS).saturating_sub(upto(&dones, start + SLACK_NS));
        by_batch.entry(batch as u32).or_default().push(gap.gap_ns);
    }
    by_batch
        .into_iter()
        .filter(|(batch, gaps)| *batch > 0 && gaps.len() >= MIN_GAPS)
        .map(|(batch, mut gaps)| {
            let middle = gaps.len() / 2;
            let median = *gaps.select_nth_unstable(middle).1;
            (batch, (median as f64 * 1e-9, gaps.len()))
        })
        .collect()
}

/// True when a delivered chunk is one token of one step: no coalescing, no several tokens per chunk.
pub fn gaps_are_steps(evidence: &Evidence) -> bool {
    if evidence.gaps.len() < 2 * MIN_GAPS || coalesced_share(evidence) > COALESCED_LIMIT {
        return false;
    }
    let tokens: i64 = evidence.client.iter().filter_map(|row| row.tokens_out).map(|tokens| (tokens - 1).max(0)).sum();
    let chunks = evidence.gaps.len() as f64;
    tokens == 0 || (chunks / tokens as f64 - 1.0).abs() < 0.05
}

/// Above this share of coalesced gaps, gaps say nothing about the engine.
pub const COALESCED_LIMIT: f64 = 0.2;

/// Share of gaps far shorter than the server's own time between tokens: pieces that were delivered together.
pub fn coalesced_share(evidence: &Evidence) -> f64 {
    if evidence.gaps.is_empty() {
        return 0.0;
    }
    let typical_s = evidence
        .mean("server.itl")
        .or_else(|| evidence.mean("server.tpot"))
        .unwrap_or_else(|| evidence.gaps.iter().map(|gap| gap.gap_ns as f64 * 1e-9).sum::<f64>() / evidence.gaps.len() as f64);
    let together = evidence.gaps.iter().filter(|gap| (gap.gap_ns as f64 * 1e-9) < 0.05 * typical_s).count();
    together as f64 / evidence.gaps.len() as f64
}

/// Weighted line through the medians: at least three batch sizes, the largest at least twice the smallest, both
/// coefficients positive, residual below 15 %.
fn line(medians: &BTreeMap<u32, (f64, usize)>) -> Option<(f64, f64)> {
    let (first, last) = (*medians.keys().next()?, *medians.keys().next_back()?);
    if medians.len() < 3 || last < 2 * first {
        return None;
    }
    let mut sums = [0.0f64; 5];
    for (&batch, &(median, count)) in medians {
        let (x, weight) = (f64::from(batch), count as f64);
        for (sum, term) in sums.iter_mut().zip([weight, weight * x, weight * x * x, weight * median, weight * x * median]) {
            *sum += term;
        }
    }
    let [w, wx, wxx, wy, wxy] = sums;
    let determinant = w * wxx - wx * wx;
    if determinant <= 0.0 {
        return None;
    }
    let b = (w * wxy - wx * wy) / determinant;
    let a = (wy - b * wx) / w;
    let squares: f64 =
        medians.iter().map(|(&batch, &(median, count))| count as f64 * ((a + b * f64::from(batch)) / median - 1.0).powi(2)).sum();
    (a > 0.0 && b > 0.0 && (squares / w).sqrt() < 0.15).then_some((a, b))
}

/// Cost of a prefill token, given the rest: least squares over scrape intervals.
fn prefill_cost(rows: &[step_law::Interval], a_s: f64, b_s: f64) -> Option<f64> {
    let (mut above, mut below) = (0.0, 0.0);
    for row in rows {
        let rest = row.busy_s - a_s * row.steps - b_s * row.decode_tokens;
        let weight = 1.0 / row.busy_s.max(1e-3);
        above += weight * rest * row.prefill_tokens;
        below += weight * row.prefill_tokens * row.prefill_tokens;
    }
    (below > 0.0).then(|| (above / below).max(0.0))
}

/// A CPU's ridge is an order lower than any GPU's: sequences per step up to which weights are half of it.
pub const CPU_RIDGE_SEQS: f64 = 8.0;

/// Batch below which reading the weights, not arithmetic, takes at least half of a decode step. A step leaves the
/// bandwidth-bound region at B* = F b / (2 W) sequences (whatif.md, section 2): 150 and more on every GPU of the
/// hardware table, so up to half of the smallest the constant holds at least half. A CPU's ridge is an order lower.
fn seats_below_ridge(subject: &Subject, evidence: &Evidence) -> f64 {
    let is_known = told_ridge(subject, evidence).is_some();
    if !is_known && subject.device == "CPU" { CPU_RIDGE_SEQS } else { 0.5 * ridge(subject, evidence) }
}

/// Sequences per step at which arithmetic takes as long as reading the weights; the smallest of any GPU where the device is
/// not known.
pub fn ridge(subject: &Subject, evidence: &Evidence) -> f64 {
    let untold = if subject.device == "CPU" { CPU_RIDGE_SEQS } else { LEAST_GPU_RIDGE_SEQS };
    told_ridge(subject, evidence).unwrap_or(untold)
}

fn told_ridge(subject: &Subject, evidence: &Evidence) -> Option<f64> {
    Hardware::find(subject, &evidence.settings)?.ridge()
}

/// The smallest ridge of a GPU in the hardware table, rounded.
const LEAST_GPU_RIDGE_SEQS: f64 = 150.0;

/// Bounds from one operating point: extra sequences cost nothing, or each as much as it can. Between two batch sizes
/// the slope seen there bounds it, since step time over batch is concave until the device saturates; below the ridge
/// half of the step is the weights'.
fn bounded(rows: &[step_law::Interval], medians: &BTreeMap<u32, (f64, usize)>, below_ridge: f64, why: String) -> Law {
    let steps: f64 = rows.iter().map(|row| row.steps).sum();
    let decode: f64 = rows.iter().map(|row| row.decode_tokens).sum();
    let largest = medians.iter().next_back();
    if steps < 50.0 && largest.is_none() {
        return Law::Unknown { why };
    }
    let (plain_s, c_s) = step_and_prefill(rows);
    let (step_s, batch) = match largest {
        Some((&batch, &(median, _))) => (median, f64::from(batch)),
        None => (plain_s, (decode / steps).max(1.0)),
    };
    let slope =
        medians.iter().next().zip(largest).and_then(|((&low, &(t_low, _)), (&high, &(t_high, _)))| {
            (high > low).then(|| ((t_high - t_low) / f64::from(high - low)).max(0.0))
        });
    // A slope within the medians' own noise says nothing; then the ridge bounds it.
    let b_max = slope
        .filter(|slope| slope * batch > 0.05 * step_s)
        .unwrap_or_else(|| step_s / batch * if batch <= below_ridge { 0.5 } else { 1.0 })
        .min(step_s / batch);
    let a_min = (step_s - b_max * batch).max(0.0);
    let law = |a_s: f64, b_s: f64| StepLaw::from_parts(a_s, b_s, c_s);
    Law::Bounded { optimistic: law(step_s, 0.0), pessimistic: law(a_min, b_max), why }
}

/// Time of a step without prompt work, and cost of a prompt token, by least squares over intervals at one batch size.
/// Where prompt work does not vary either it is not told apart and stays inside the step.
fn step_and_prefill(rows: &[step_law::Interval]) -> (f64, f64) {
    let (mut ss, mut sp, mut pp, mut sy, mut py) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for row in rows {
        let weight = 1.0 / row.busy_s.max(1e-3);
        ss += weight * row.steps * row.steps;
        sp += weight * row.steps * row.prefill_tokens;
        pp += weight * row.prefill_tokens * row.prefill_tokens;
        sy += weight * row.steps * row.busy_s;
        py += weight * row.prefill_tokens * row.busy_s;
    }
    let determinant = ss * pp - sp * sp;
    let (step_s, c_s) = ((sy * pp - py * sp) / determinant, (ss * py - sp * sy) / determinant);
    let told_apart = determinant > 0.05 * ss * pp && step_s > 0.0 && c_s > 0.0;
    if told_apart { (step_s, c_s) } else { (sy / ss.max(f64::MIN_POSITIVE), 0.0) }
}
