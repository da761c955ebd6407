//! The bounded fit of the five coefficients: least squares on the logarithm of measured over predicted TPOT.
//!
//! Levenberg and Marquardt's method in the logarithms of the coefficients, so that none turns negative; outliers count
//! linearly (pseudo-Huber). Rows of one group share their error, so a group counts as at most three independent rows; a
//! prior from kernel tables holds what the rows do not say. Deterministic: no randomness, a fixed start, a fixed order.

use std::collections::BTreeMap;

use thiserror::Error;

use super::Observation;
use crate::memory::Estimate;
use crate::step_time::Coefficients;

/// Fewest rows for which a fit is more than its prior.
pub const LEAST_ROWS: usize = 8;

/// Start and prior: efficiencies of large products and weight streams from the kernel tables of aiconfigurator-core 0.12.0
/// (BF16: 0.86 of the bandwidth and 0.75 of the peak), a layer's four products and attention (26 us), a small all-reduce
/// with its launch (12 us). One millisecond of host time per step is assumed.
pub const PRIOR: Coefficients =
    Coefficients { memory_eff: 0.80, compute_eff: 0.80, step_s: 1.0e-3, layer_s: 26.0e-6, all_reduce_s: 12.0e-6 };

/// Standard deviation of the prior, as a share of each figure (of its logarithm).
pub const PRIOR_SPREAD: [f64; 5] = [0.10, 0.15, 0.40, 0.30, 0.30];

/// Bounds: efficiencies stay physical, fixed costs stay within what engines show.
const LOWEST: [f64; 5] = [0.3, 0.15, 10e-6, 1e-6, 1e-6];
const HIGHEST: [f64; 5] = [1.0, 1.0, 20e-3, 300e-6, 100e-6];

/// Relative error of one row that the model cannot explain.
const ROW_SPREAD: f64 = 0.2;

/// Rows as which a group counts at most.
const ROWS_PER_GROUP: f64 = 3.0;

/// Log error from which on rows count linearly.
const OUTLIER: f64 = 0.3;

/// Too little to fit.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{found} usable rows, {LEAST_ROWS} needed")]
pub struct FewRows {
    /// Rows given.
    pub found: usize,
}

/// A fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The figures.
    pub coefficients: Coefficients,
    /// Standard errors of their logarithms.
    pub log_error: [f64; 5],
}

impl Fit {
    /// Nine-in-ten intervals of the coefficients, within the bounds.
    pub fn intervals(&self) -> [Estimate; 5] {
        let values = self.coefficients.to_array();
        std::array::from_fn(|at| {
            let factor = (1.645 * self.log_error[at]).min(10.0).exp();
            Estimate { lo: (values[at] / factor).max(LOWEST[at]), mid: values[at], hi: (values[at] * factor).min(HIGHEST[at]) }
        })
    }
}

/// Fits `rows`, from `start` or from the prior. A fit that starts near its end takes fewer rounds.
pub fn fit(rows: &[&Observation], start: Option<&Coefficients>) -> Result<Fit, FewRows> {
    let rows: Vec<&Observation> = rows.iter().copied().filter(|row| row.tpot_s.is_finite() && row.tpot_s > 0.0).collect();
    if rows.len() < LEAST_ROWS {
        return Err(FewRows { found: rows.len() });
    }
    let problem = Problem::new(&rows);
    let mut x = start.unwrap_or(&PRIOR).to_array().map(f64::ln);
    clamp(&mut x);
    let (mut residuals, mut damping) = (problem.residuals(&x), 1e-3);
    let mut normal = [[0.0; 5]; 5];
    for _ in 0..if start.is_some() { 8 } else { 40 } {
        let (matrix, gradient) = problem.normal_equations(&x, &residuals);
        normal = matrix;
        let Some((next, next_residuals)) = problem.better(&x, &residuals, &matrix, &gradient, &mut damping) else { break };
        let moved = next.iter().zip(&x).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        (x, residuals) = (next, next_residuals);
        if moved < 1e-5 {
            break;
        }
    }
    let log_error = std::array::from_fn(|at| {
        let mut unit = [0.0; 5];
        unit[at] = 1.0;
        solve(&normal, &unit).map_or(PRIOR_SPREAD[at], |column| column[at].max(0.0).sqrt())
    });
    Ok(Fit { coefficients: Coefficients::from_array(x.map(f64::exp)), log_error })
}

struct Problem<'a> {
    rows: &'a [&'a Observation],
    /// Square roots of the rows' weights.
    weights: Vec<f64>,
}

impl<'a> Problem<'a> {
    fn new(rows: &'a [&'a Observation]) -> Self {
        let mut sizes: BTreeMap<_, f64> = BTreeMap::new();
        for row in rows {
            *sizes.entry(row.group()).or_default() += 1.0;
        }
        let weights = rows.iter().map(|row| (ROWS_PER_GROUP / sizes[&row.group()]).min(1.0).sqrt() / ROW_SPREAD).collect();
        Self { rows, weights }
    }

    /// Weighed errors of the rows, then the distances from the prior.
    fn residuals(&self, x: &[f64; 5]) -> Vec<f64> {
        let c = Coefficients::from_array(x.map(f64::exp));
        let of_row = |(row, weight): (&&Observation, &f64)| {
            let error = (row.closed.solve(&c).tpot_s / row.tpot_s).max(1e-12).ln();
            let bent = OUTLIER * (2.0 * ((1.0 + (error / OUTLIER).powi(2)).sqrt() - 1.0)).sqrt();
            weight * bent.copysign(error)
        };
        let prior = PRIOR.to_array();
        let from_prior = (0..5).map(|at| (x[at] - prior[at].ln()) / PRIOR_SPREAD[at]);
        self.rows.iter().zip(&self.weights).map(of_row).chain(from_prior).collect()
    }

    /// `J'J` and `J'r` by forward differences; a figure pinned at its bound takes no part.
    fn normal_equations(&self, x: &[f64; 5], residuals: &[f64]) -> ([[f64; 5]; 5], [f64; 5]) {
        const STEP: f64 = 1e-4;
        let columns: Vec<Vec<f64>> = (0..5)
            .map(|at| {
                let mut moved = *x;
                // Differences point inwards, so that a bound is never crossed.
                let step = if x[at] + STEP > HIGHEST[at].ln() { -STEP } else { STEP };
                moved[at] += step;
                self.residuals(&moved).iter().zip(residuals).map(|(new, old)| (new - old) / step).collect()
            })
            .collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let matrix = std::array::from_fn(|row| std::array::from_fn(|column| dot(&columns[row], &columns[column])));
        let gradient = std::array::from_fn(|at| dot(&columns[at], residuals));
        (matrix, gradient)
    }

    /// The first damped step that lowers the cost, within the bounds; `None` when none does.
    fn better(
        &self,
        x: &[f64; 5],
        residuals: &[f64],
        matrix: &[[f64; 5]; 5],
        gradient: &[f64; 5],
        damping: &mut f64,
    ) -> Option<([f64; 5], Vec<f64>)> {
        let cost = |residuals: &[f64]| residuals.iter().map(|r| r * r).sum::<f64>();
        let now = cost(residuals);
        for _ in 0..12 {
            let mut damped = *matrix;
            for (at, row) in damped.iter_mut().enumerate() {
                row[at] *= 1.0 + *damping;
            }
            if let Some(step) = solve(&damped, &gradient.map(|g| -g)) {
                let mut next: [f64; 5] = std::array::from_fn(|at| x[at] + step[at].clamp(-1.0, 1.0));
                clamp(&mut next);
                let next_residuals = self.residuals(&next);
                if cost(&next_residuals) < now {
                    *damping = (*damping / 5.0).max(1e-9);
                    return Some((next, next_residuals));
                }
            }
            *damping *= 4.0;
        }
        None
    }
}

/// Keeps the logarithms of the coefficients within the bounds.
fn clamp(x: &mut [f64; 5]) {
    for (at, value) in x.iter_mut().enumerate() {
        *value = value.clamp(LOWEST[at].ln(), HIGHEST[at].ln());
    }
}

/// Solves a symmetric positive system of five by Cholesky's method, `None` when it is not positive.
fn solve(matrix: &[[f64; 5]; 5], right: &[f64; 5]) -> Option<[f64; 5]> {
    let mut lower = [[0.0; 5]; 5];
    for row in 0..5 {
        for column in 0..=row {
            let rest: f64 = (0..column).map(|k| lower[row][k] * lower[column][k]).sum();
            let value = matrix[row][column] - rest;
            if row == column {
                if value.is_nan() || value <= 0.0 {
                    return None;
                }
                lower[row][row] = value.sqrt();
            } else {
                lower[row][column] = value / lower[column][column];
            }
        }
    }
    let mut forward = [0.0; 5];
    for row in 0..5 {
        let rest: f64 = (0..row).map(|k| lower[row][k] * forward[k]).sum();
        forward[row] = (right[row] - rest) / lower[row][row];
    }
    let mut solution = [0.0; 5];
    for row in (0..5).rev() {
        let rest: f64 = (row + 1..5).map(|k| lower[k][row] * solution[k]).sum();
        solution[row] = (forward[row] - rest) / lower[row][row];
    }
    Some(solution)
}
