//! How good the predictions are: measured runs in, tables out.
//!
//! Every figure is on models left out: to score one model, the coefficients are fitted on the other models of its kind,
//! and so are the stated ranges. Rows of which model, device or deployment cannot be told are listed with the reason and
//! never guessed. Times to the first token are scored as well, but they hold the load generator's ramp and its queue.

mod published_runs;
mod tables;

use std::collections::{BTreeMap, BTreeSet};

pub use published_runs::{MOST_BYTES, MOST_ROWS, ReadError, Runs, Skipped, read};
pub use tables::{markdown, text};

use crate::calibration::{Calibration, Lever, Observation, Origin, Pair, REQUESTS_PER_SEAT, calibrate, pairs, quantile, repeats, splits};
use crate::models::Kind;
use crate::prediction::Solution;

/// Errors of one set of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Errors {
    /// Rows.
    pub rows: usize,
    /// Median of |predicted / measured - 1|.
    pub median_frac: f64,
    /// Nine in ten are at most this.
    pub p90_frac: f64,
    /// Median of predicted / measured: above 1 the forecast is slow.
    pub bias: f64,
    /// Share of outcomes inside the stated range.
    pub covered_frac: f64,
}

/// One kind of model.
#[derive(Clone, Debug, PartialEq)]
pub struct KindScore {
    /// Dense, experts or latent.
    pub kind: Kind,
    /// Prefill and decode apart.
    pub disaggregated: bool,
    /// Rows faster than the bound.
    pub below_bound: usize,
    /// TPOT over all rows.
    pub tpot: Errors,
    /// TTFT over all rows that have it.
    pub ttft: Errors,
    /// TPOT by model.
    pub by_model: BTreeMap<String, Errors>,
    /// TPOT by device and engine.
    pub by_system: BTreeMap<String, Errors>,
    /// Ratios by lever; where prefill and decode are apart, against runs with both together as well.
    pub levers: Vec<LeverScore>,
}

/// Ratios of one lever: pairs of runs that differ in it alone.
#[derive(Clone, Debug, PartialEq)]
pub struct LeverScore {
    /// The lever.
    pub lever: Lever,
    /// Pairs.
    pub pairs: usize,
    /// Median measured ratio.
    pub measured: f64,
    /// Errors of the predicted ratio.
    pub errors: Errors,
    /// Share of pairs whose direction was right; a measured move below [`NO_MOVE`] has none.
    pub sign_right_frac: f64,
    /// Pairs whose measured move is larger than what repeated runs differ by ([`Scores::noise`]).
    pub beyond_noise: usize,
    /// Share of those whose direction was right.
    pub beyond_right_frac: f64,
    /// Share of pairs for which the range states a direction.
    pub sign_stated_frac: f64,
    /// Share of those for which it was right.
    pub stated_right_frac: f64,
}

/// A measured move smaller than this has no direction: repeated runs differ as much.
pub const NO_MOVE: f64 = 0.02;

/// What repeated runs of one deployment under one load differ by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Pairs of repeated runs with different times; a row that stands in the table twice is no repetition.
    pub pairs: usize,
    /// Nine in ten differ by at most this share.
    pub p90_frac: f64,
}

/// Fewest repeated runs that say what noise is.
const LEAST_REPEATS: usize = 20;

/// All scores of one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// Noise of the measurements, where the file repeats enough runs.
    pub noise: Option<Noise>,
    /// By kind and mode.
    pub kinds: Vec<KindScore>,
    /// Rows that were not scored, with the reason and how often.
    pub skipped: BTreeMap<String, usize>,
    /// Rows read as something else than they say, with the reason and how often.
    pub assumed: BTreeMap<String, usize>,
    /// Rows of the file.
    pub row_count: usize,
}

/// Scores `runs` on models left out.
pub fn evaluate(runs: &Runs) -> Scores {
    let mut skipped: BTreeMap<String, usize> = BTreeMap::new();
    for row in &runs.skipped {
        *skipped.entry(row.reason.clone()).or_default() += 1;
    }
    let noise = noise(&runs.observations);
    let mut kinds = Vec::new();
    for kind in Kind::ALL {
        let forecasts = forecasts(runs.observations.iter().filter(|row| row.kind == kind), &mut skipped);
        let noise_frac = noise.map_or(NO_MOVE, |noise| noise.p90_frac.max(NO_MOVE));
        for disaggregated in [false, true] {
            let rows: Vec<&Forecast> = forecasts.iter().filter(|row| row.run.disaggregated == disaggregated).collect();
            if !rows.is_empty() {
                kinds.push(score(kind, disaggregated, &rows, noise_frac));
            }
        }
        if let (Some(apart), Some(split)) = (
            kinds.last_mut().filter(|last| last.kind == kind && last.disaggregated),
            split_score(&forecasts.iter().collect::<Vec<_>>(), noise_frac),
        ) {
            apart.levers.push(split);
        }
    }
    Scores { noise, kinds, skipped, assumed: runs.assumed.clone(), row_count: runs.row_count }
}

/// Of runs with prefill and decode together: where they are apart, the tables do not say how many devices prefill.
fn noise(rows: &[Observation]) -> Option<Noise> {
    let rows: Vec<&Observation> = rows.iter().filter(|row| !row.disaggregated).collect();
    let apart = |(one, other): (usize, usize)| (rows[one].tpot_s / rows[other].tpot_s).ln().abs();
    let mut sizes: Vec<f64> = repeats(&rows).into_iter().map(apart).filter(|size| *size > 0.0).collect();
    let pairs = sizes.len();
    let p90_frac = quantile(&mut sizes, 0.9).filter(|_| pairs >= LEAST_REPEATS)?.exp_m1();
    Some(Noise { pairs, p90_frac })
}

/// A row beside what a calibration without its model says.
struct Forecast<'a> {
    run: &'a Observation,
    solution: Solution,
    calibration: std::rc::Rc<Calibration>,
}

impl Forecast<'_> {
    fn ttft_s(&self) -> f64 {
        self.solution.ttft_in_run_s(REQUESTS_PER_SEAT)
    }
}

/// Leaves each model out once. Fits see runs with prefill and decode together; where there are none, those apart. A model
/// that is alone of its kind is not scored, since there is nothing to fit.
fn forecasts<'a>(rows: impl Iterator<Item = &'a Observation>, skipped: &mut BTreeMap<String, usize>) -> Vec<Forecast<'a>> {
    let rows: Vec<&Observation> = rows.collect();
    let models: BTreeSet<&str> = rows.iter().map(|row| row.model.as_str()).collect();
    let mut forecasts = Vec::with_capacity(rows.len());
    for model in models {
        let others: Vec<&Observation> = rows.iter().copied().filter(|row| row.model != model && !row.disaggregated).collect();
        let own: Vec<&Observation> = rows.iter().copied().filter(|row| row.model == model).collect();
        match calibrate(&others, Origin::Published) {
            Ok(calibration) => {
                let calibration = std::rc::Rc::new(calibration);
                forecasts.extend(own.into_iter().map(|run| Forecast {
                    run,
                    solution: run.closed.solve(&calibration.coefficients),
                    calibration: std::rc::Rc::clone(&calibration),
                }));
            }
            Err(few) => *skipped.entry(format!("no other model of its kind to fit on ({few})")).or_default() += own.len(),
        }
    }
    forecasts
}

fn score(kind: Kind, disaggregated: bool, rows: &[&Forecast], noise_frac: f64) -> KindScore {
    let tpot = |row: &&Forecast| Outcome {
        predicted: row.solution.tpot_s,
        measured: row.run.tpot_s,
        covered: row.calibration.tpot.around(row.solution.tpot_s, row.run.bound_s).contains(row.run.tpot_s),
    };
    let ttft = |row: &&Forecast| {
        let (measured, predicted) = (row.run.ttft_s?, row.ttft_s());
        Some(Outcome { predicted, measured, covered: row.calibration.ttft.around(predicted, 0.0).contains(measured) })
    };
    let split = |name: &dyn Fn(&Forecast) -> String| {
        let mut groups: BTreeMap<String, Vec<Outcome>> = BTreeMap::new();
        for row in rows {
            groups.entry(name(row)).or_default().push(tpot(row));
        }
        groups.into_iter().map(|(name, outcomes)| (name, errors(&outcomes))).collect()
    };
    KindScore {
        kind,
        disaggregated,
        below_bound: rows.iter().filter(|row| row.run.tpot_s < row.run.bound_s).count(),
        tpot: errors(&rows.iter().map(tpot).collect::<Vec<_>>()),
        ttft: errors(&rows.iter().filter_map(ttft).collect::<Vec<_>>()),
        by_model: split(&|row| row.run.model.clone()),
        by_system: split(&|row| format!("{} {}", row.run.gpu, row.run.engine)),
        levers: lever_scores(rows, noise_frac),
    }
}

/// One figure, forecast and measured.
struct Outcome {
    predicted: f64,
    measured: f64,
    covered: bool,
}

fn errors(outcomes: &[Outcome]) -> Errors {
    let all = |value: &dyn Fn(&Outcome) -> f64| -> Vec<f64> { outcomes.iter().map(value).collect() };
    let mut ratios = all(&|outcome| outcome.predicted / outcome.measured);
    let mut sizes = all(&|outcome| (outcome.predicted / outcome.measured - 1.0).abs());
    let covered = outcomes.iter().filter(|outcome| outcome.covered).count();
    Errors {
        rows: outcomes.len(),
        median_frac: quantile_or_nan(&mut sizes, 0.5),
        p90_frac: quantile_or_nan(&mut sizes, 0.9),
        bias: quantile_or_nan(&mut ratios, 0.5),
        covered_frac: share(covered, outcomes.len()),
    }
}

/// `noise_frac`: a larger measured move is one of the change.
fn lever_scores(rows: &[&Forecast], noise_frac: f64) -> Vec<LeverScore> {
    let runs: Vec<&Observation> = rows.iter().map(|row| row.run).collect();
    let all = pairs(&runs);
    let of = |lever: &Lever| {
        let own: Vec<&Pair> = all.iter().filter(|pair| pair.lever == *lever).collect();
        ratio_score(*lever, rows, &own, noise_frac)
    };
    Lever::SCORED.iter().filter_map(of).collect()
}

/// Runs with prefill on other devices against those with it on the same.
fn split_score(rows: &[&Forecast], noise_frac: f64) -> Option<LeverScore> {
    let runs: Vec<&Observation> = rows.iter().map(|row| row.run).collect();
    let found = splits(&runs);
    ratio_score(Lever::Split, rows, &found.iter().collect::<Vec<_>>(), noise_frac)
}

/// How ratios of pairs came out; nothing without a pair.
fn ratio_score(lever: Lever, rows: &[&Forecast], pairs: &[&Pair], noise_frac: f64) -> Option<LeverScore> {
    let (mut outcomes, mut right, mut beyond, mut beyond_right, mut stated, mut stated_right) = (Vec::new(), 0, 0, 0, 0, 0);
    for pair in pairs {
        let (before, after) = (rows[pair.before], rows[pair.after]);
        let predicted = after.solution.tpot_s / before.solution.tpot_s;
        let measured = after.run.tpot_s / before.run.tpot_s;
        let range = after.calibration.levers.of(lever).around(predicted, 0.0);
        let no_move = (measured - 1.0).abs() < NO_MOVE;
        let sign_right = no_move || (predicted > 1.0) == (measured > 1.0);
        right += usize::from(sign_right);
        if (measured - 1.0).abs() >= noise_frac {
            beyond += 1;
            beyond_right += usize::from(sign_right);
        }
        if !range.contains(1.0) {
            stated += 1;
            stated_right += usize::from(sign_right);
        }
        outcomes.push(Outcome { predicted, measured, covered: range.contains(measured) });
    }
    let mut measured: Vec<f64> = outcomes.iter().map(|outcome| outcome.measured).collect();
    (!outcomes.is_empty()).then(|| LeverScore {
        lever,
        pairs: outcomes.len(),
        measured: quantile_or_nan(&mut measured, 0.5),
        errors: errors(&outcomes),
        sign_right_frac: share(right, outcomes.len()),
        beyond_noise: beyond,
        beyond_right_frac: share(beyond_right, beyond),
        sign_stated_frac: share(stated, outcomes.len()),
        stated_right_frac: share(stated_right, stated),
    })
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { f64::NAN } else { part as f64 / whole as f64 }
}

/// The value that a share `q` does not exceed, NaN without values; sorts them.
fn quantile_or_nan(values: &mut [f64], q: f64) -> f64 {
    quantile(values, q).unwrap_or(f64::NAN)
}
