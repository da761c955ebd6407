//! Fitting the step law to scrape intervals, or saying why they cannot identify it.
//!
//! `busy = a steps + b decode tokens + c prompt tokens`, least squares on the relative residual, with outliers weighed
//! down (Huber), because idle time inside an interval only ever adds. A scrape cuts through a step, so neighbors are
//! pooled until each holds [`POOLED_STEPS`]. The answer is refused rather than guessed: a batch that stands at its cap
//! all the time fits a line through one point.

use super::StepLaw;

/// One scrape interval: sums over it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Engine time: the interval's length when requests ran throughout.
    pub busy_s: f64,
    /// Engine steps.
    pub steps: f64,
    /// Output tokens.
    pub decode_tokens: f64,
    /// Prompt tokens computed, those found in a cache not counted.
    pub prefill_tokens: f64,
}

/// Pooled intervals a fit needs.
pub const INTERVALS_NEEDED: usize = 12;
/// Steps an interval must hold before it stands alone: one cut step is then 6 % of it.
pub const POOLED_STEPS: f64 = 16.0;
/// Largest relative residual of a usable fit.
pub const RESIDUAL_LIMIT_FRAC: f64 = 0.15;
/// Smallest spread of the batch, 95th over 5th percentile.
pub const BATCH_SPREAD_NEEDED: f64 = 1.15;
/// Largest standard error of a coefficient, relative to it.
pub const ERROR_LIMIT_FRAC: f64 = 0.5;

/// Why a window does not identify the step law.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NotIdentifiable {
    /// Too little of the window is busy.
    #[error("{usable} busy intervals of at least {POOLED_STEPS} steps, {INTERVALS_NEEDED} needed")]
    TooFewIntervals {
        /// Intervals after pooling.
        usable: usize,
    },
    /// The batch stood still.
    #[error("the batch stays between {batch_lo:.1} and {batch_hi:.1}, so its cost cannot be told from the cost of a step")]
    BatchDoesNotVary {
        /// 5th percentile of the mean batch.
        batch_lo: f64,
        /// 95th percentile.
        batch_hi: f64,
    },
    /// No prompt was computed, or each step computed the same number of prompt tokens.
    #[error("prompt tokens per step stay between {prefill_lo:.1} and {prefill_hi:.1}, so their cost cannot be told apart")]
    PrefillDoesNotVary {
        /// Smallest.
        prefill_lo: f64,
        /// Largest.
        prefill_hi: f64,
    },
    /// A coefficient came out at or below zero.
    #[error("the best fit is {a_ms:.3} ms + {b_ms:.4} ms x batch + {c_ms:.4} ms x prompt tokens, and a cost cannot be negative")]
    NegativeCoefficient {
        /// Cost of a step in milliseconds.
        a_ms: f64,
        /// Cost per decoding sequence in milliseconds.
        b_ms: f64,
        /// Cost per prompt token in milliseconds.
        c_ms: f64,
    },
    /// A coefficient is known worse than by half its size.
    #[error("the cost per {part} is {value_ms:.4} ms give or take {error_ms:.4}, too uncertain to use")]
    Imprecise {
        /// `step`, `sequence` or `prompt token`.
        part: &'static str,
        /// Fitted value in milliseconds.
        value_ms: f64,
        /// Its standard error in milliseconds.
        error_ms: f64,
    },
    /// Steps do not follow the law.
    #[error("steps differ from the best fit by {:.0} %, at most {:.0} % is usable", residual_frac * 100.0, RESIDUAL_LIMIT_FRAC * 100.0)]
    PoorFit {
        /// Root mean square relative residual, outliers weighed down.
        residual_frac: f64,
    },
}

/// Fits the step law to intervals in time order.
///
/// Usable means positive coefficients, a residual below 15 %, and at least 12 intervals among which the batch varies;
/// anything else is refused with the reason. Intervals with non-finite, negative or absurd numbers, or without a step,
/// are skipped.
pub fn fit(intervals: &[Interval]) -> Result<StepLaw, NotIdentifiable> {
    let pooled = pool(intervals);
    if pooled.len() < INTERVALS_NEEDED {
        return Err(NotIdentifiable::TooFewIntervals { usable: pooled.len() });
    }
    let batches = sorted(pooled.iter().map(|i| i.decode_tokens / i.steps));
    let (batch_lo, batch_hi) = (quantile(&batches, 0.05), quantile(&batches, 0.95));
    if batch_hi < batch_lo * BATCH_SPREAD_NEEDED {
        return Err(NotIdentifiable::BatchDoesNotVary { batch_lo, batch_hi });
    }
    let Some(solution) = robust_least_squares(&pooled) else {
        let prompts = sorted(pooled.iter().map(|i| i.prefill_tokens / i.steps));
        return Err(NotIdentifiable::PrefillDoesNotVary { prefill_lo: quantile(&prompts, 0.0), prefill_hi: quantile(&prompts, 1.0) });
    };
    judge(&solution)?;
    let ([a_s, b_s, c_s], [a_se, b_se, c_se]) = (solution.coefficients, solution.errors);
    Ok(StepLaw {
        a_s,
        b_s,
        c_s,
        residual_frac: solution.residual_frac,
        interval_count: pooled.len(),
        batch_min: quantile(&batches, 0.0),
        batch_max: quantile(&batches, 1.0),
        a_se,
        b_se,
        c_se,
    })
}

fn judge(solution: &Solution) -> Result<(), NotIdentifiable> {
    let [a_ms, b_ms, c_ms] = solution.coefficients.map(|value_s| value_s * 1e3);
    if [a_ms, b_ms, c_ms].iter().any(|&value| value <= 0.0) {
        return Err(NotIdentifiable::NegativeCoefficient { a_ms, b_ms, c_ms });
    }
    if solution.residual_frac >= RESIDUAL_LIMIT_FRAC {
        return Err(NotIdentifiable::PoorFit { residual_frac: solution.residual_frac });
    }
    for (part, (value_s, error_s)) in
        ["step", "sequence", "prompt token"].into_iter().zip(solution.coefficients.into_iter().zip(solution.errors))
    {
        if error_s > value_s * ERROR_LIMIT_FRAC {
            return Err(NotIdentifiable::Imprecise { part, value_ms: value_s * 1e3, error_ms: error_s * 1e3 });
        }
    }
    Ok(())
}

/// Adds neighbors until each sum holds [`POOLED_STEPS`]; a rest joins the last one.
fn pool(intervals: &[Interval]) -> Vec<Interval> {
    let mut pooled: Vec<Interval> = Vec::new();
    let mut open: Option<Interval> = None;
    for interval in intervals.iter().filter(|interval| is_usable(interval)) {
        let sum = open.map_or(*interval, |open| add(open, *interval));
        if sum.steps >= POOLED_STEPS {
            pooled.push(sum);
            open = None;
        } else {
            open = Some(sum);
        }
    }
    if let (Some(open), Some(last)) = (open, pooled.last_mut()) {
        *last = add(*last, open);
    }
    pooled
}

fn is_usable(interval: &Interval) -> bool {
    // A scrape interval is seconds to hours; more than 1e9 of anything in it is damage.
    let sound = |value: f64| value.is_finite() && (0.0..=1e9).contains(&value);
    sound(interval.busy_s)
        && interval.busy_s >= 1e-6
        && sound(interval.steps)
        && interval.steps >= 1.0
        && sound(interval.decode_tokens)
        && sound(interval.prefill_tokens)
}

fn add(one: Interval, other: Interval) -> Interval {
    Interval {
        busy_s: one.busy_s + other.busy_s,
        steps: one.steps + other.steps,
        decode_tokens: one.decode_tokens + other.decode_tokens,
        prefill_tokens: one.prefill_tokens + other.prefill_tokens,
    }
}

struct Solution {
    coefficients: [f64; 3],
    errors: [f64; 3],
    residual_frac: f64,
}

/// Huber weights by iteration: residuals beyond 1.5 robust deviations count linearly.
fn robust_least_squares(intervals: &[Interval]) -> Option<Solution> {
    const ROUNDS: usize = 12;
    // Relative rows: (steps, decode, prefill) / busy, target 1; longer intervals weigh more.
    let rows: Vec<[f64; 3]> =
        intervals.iter().map(|i| [i.steps / i.busy_s, i.decode_tokens / i.busy_s, i.prefill_tokens / i.busy_s]).collect();
    let scale: [f64; 3] = std::array::from_fn(|k| rows.iter().map(|row| row[k] * row[k]).sum::<f64>().sqrt());
    if scale.iter().any(|&length| !length.is_finite() || length <= 0.0) {
        return None;
    }
    let total_s: f64 = intervals.iter().map(|i| i.busy_s).sum();
    let length_weight: Vec<f64> = intervals.iter().map(|i| i.busy_s / total_s * intervals.len() as f64).collect();
    let mut weights = length_weight.clone();
    let mut best = None;
    for _ in 0..ROUNDS {
        let (coefficients, inverse) = weighted_least_squares(&rows, &weights, scale)?;
        let residuals: Vec<f64> = rows.iter().map(|row| 1.0 - dot(*row, coefficients)).collect();
        let deviation = (1.4826 * quantile(&sorted(residuals.iter().map(|r| r.abs())), 0.5)).max(1e-6);
        let squares: f64 = residuals.iter().zip(&weights).map(|(r, w)| w * r * r).sum();
        let spread = squares / (rows.len() - 3) as f64;
        let errors = std::array::from_fn(|k| (spread * inverse[k]).max(0.0).sqrt());
        let residual_frac = (squares / weights.iter().sum::<f64>()).sqrt();
        best = Some(Solution { coefficients, errors, residual_frac });
        for ((weight, residual), length) in weights.iter_mut().zip(&residuals).zip(&length_weight) {
            *weight = length * (1.5 * deviation / residual.abs().max(1e-12)).min(1.0);
        }
    }
    best.filter(|solution| solution.coefficients.iter().chain(&solution.errors).all(|value| value.is_finite()))
}

/// Normal equations on columns of unit length; returns the solution and the diagonal of the inverse, `None` when the
/// columns are not independent.
fn weighted_least_squares(rows: &[[f64; 3]], weights: &[f64], scale: [f64; 3]) -> Option<([f64; 3], [f64; 3])> {
    let mut matrix = [[0.0; 3]; 3];
    let mut right = [0.0; 3];
    for (row, weight) in rows.iter().zip(weights) {
        let row: [f64; 3] = std::array::from_fn(|k| row[k] / scale[k]);
        for i in 0..3 {
            right[i] += weight * row[i];
            for j in 0..3 {
                matrix[i][j] += weight * row[i] * row[j];
            }
        }
    }
    let inverse = invert(matrix)?;
    let solution = std::array::from_fn(|i| dot(inverse[i], right) / scale[i]);
    Some((solution, std::array::from_fn(|i| inverse[i][i] / (scale[i] * scale[i]))))
}

/// Inverse by cofactors; refuses what double precision cannot tell from singular.
fn invert(m: [[f64; 3]; 3]) -> Option<[[f64; 3]; 3]> {
    let minor = |i: usize, j: usize| {
        let (r, c) = ([(i + 1) % 3, (i + 2) % 3], [(j + 1) % 3, (j + 2) % 3]);
        m[r[0]][c[0]] * m[r[1]][c[1]] - m[r[0]][c[1]] * m[r[1]][c[0]]
    };
    let determinant: f64 = (0..3).map(|j| m[0][j] * minor(0, j)).sum();
    let size = m[0][0] * m[1][1] * m[2][2];
    if !determinant.is_finite() || determinant <= size * 1e-9 {
        return None;
    }
    Some(std::array::from_fn(|i| std::array::from_fn(|j| minor(j, i) / determinant)))
}

fn dot(left: [f64; 3], right: [f64; 3]) -> f64 {
    left[0] * right[0] + left[1] * right[1] + left[2] * right[2]
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Nearest-rank quantile of sorted values, 0 for none.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    sorted.get(((sorted.len().saturating_sub(1)) as f64 * q).round() as usize).copied().unwrap_or(0.0)
}
