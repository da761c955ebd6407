//! The step law of a run from the times of its own requests.
//!
//! Between its first and its last token a request takes part in `output - 1` steps, and what else those steps did is in
//! the other rows: how many sequences decoded beside it (their tokens fell between the two times, taken as evenly spread
//! over each one's own decode), with which context, and which prompts were computed. So each row is one equation
//! `last - first = a steps + b sum(sequences) + c sum(prompt tokens) + d sum(context)`, and as many as there are requests
//! give the four coefficients: least squares of relative errors, none below its floor, outliers weighed down (Huber).
//! Each second of the gauges is a further equation: with `B` running and `G` tokens made, `G / B` steps took the second.
//! Where the cache was full, requests were preempted and their own times hold pauses; there the gauges count alone, and
//! the rows as little as the following. The time from the first scheduling to the first token is a second, coarser equation and gets little weight: it
//! matters where prompts were too rare between tokens to show their price.
//!
//! With several replicas each is taken to have its share.

use super::measured::{Gauge, MeasuredRequest, MeasuredRun};
use crate::cost::LinearCost;

/// Weight of coarse equations, next to 1 for the others: first tokens, and rows with pauses.
const COARSE_WEIGHT: f64 = 0.02;
/// A cache this full, in percent, preempts.
const FULL_KV_PCT: f64 = 95.0;
/// Rounds of reweighting.
const ROUNDS: usize = 12;
/// Equations at most; rows beyond are thinned out evenly, since each looks at all others.
const MOST_EQUATIONS: usize = 1500;

/// Coefficients from below: what physics does not allow to be cheaper.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Floors {
    /// Seconds to read the weights once.
    pub a_s: f64,
    /// Seconds to read the cache of one token.
    pub d_s: f64,
}

/// A fitted law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// The law.
    pub cost: LinearCost,
    /// Median of |predicted - measured| / measured over the decode times of requests.
    pub median_error_frac: f64,
    /// Requests used.
    pub request_count: usize,
}

type Terms = [f64; 4];

/// Fits the law. `None` with fewer than 8 requests of two tokens and more, or when nothing can be solved.
pub fn calibrate(run: &MeasuredRun, floors: Floors) -> Option<Calibration> {
    let floor: Terms = [floors.a_s, 0.0, 0.0, floors.d_s].map(|floor| if floor.is_finite() { floor.max(0.0) } else { 0.0 });
    let rows = &run.requests;
    let stride = rows.len().div_ceil(MOST_EQUATIONS).max(1);
    let chosen = || rows.iter().step_by(stride);
    let decode: Vec<(Terms, f64)> =
        chosen().filter(|row| row.output_tokens > 1 && row.last_ns > row.first_ns).map(|row| decode_equation(row, run)).collect();
    if decode.len() < 8 {
        return None;
    }
    let first: Vec<(Terms, f64)> = chosen().filter(|row| row.first_ns > row.scheduled_ns).map(|row| first_equation(row, run)).collect();
    let gauge: Vec<(Terms, f64)> = run.gauges.windows(2).filter_map(|pair| gauge_equation(pair, run)).collect();
    let has_pauses = run.gauges.iter().any(|gauge| gauge.kv_pct >= FULL_KV_PCT) && gauge.len() >= 8;
    let kinds = [(&decode, if has_pauses { COARSE_WEIGHT } else { 1.0 }), (&gauge, 1.0), (&first, COARSE_WEIGHT)];
    let mut equations: Vec<Equation> = Vec::new();
    for (kind, (rows, trust)) in kinds.into_iter().enumerate() {
        equations.extend(rows.iter().map(|&(terms, time_s)| Equation { terms, time_s, kind, trust, weight: trust }));
    }
    let mut law = floor;
    for _ in 0..ROUNDS {
        law = solve_above(&equations, floor)?;
        reweigh(&mut equations, &law);
    }
    let errors = sorted(decode.iter().map(|(terms, time_s)| (dot(terms, &law) / time_s - 1.0).abs()));
    let [a_s, b_s, c_s, d_s] = law;
    let cost = LinearCost { a_s, b_s, c_s, d_s, e_s: 0.0 };
    Some(Calibration { cost, median_error_frac: errors[errors.len() / 2], request_count: decode.len() })
}

/// One second between two gauges, those around it averaged; nothing where hardly anybody ran. The context is what the rows
/// had in the cache then.
fn gauge_equation(pair: &[Gauge], run: &MeasuredRun) -> Option<(Terms, f64)> {
    let [before, gauge] = pair else { return None };
    let share = 1.0 / f64::from(run.settings.replicas.max(1));
    let seqs = f64::midpoint(before.running, gauge.running) * share;
    let span_s = gauge.at_s - before.at_s;
    if seqs < 4.0 || gauge.output_per_s <= 0.0 || span_s <= 0.0 || gauge.running < before.running / 2.0 {
        return None;
    }
    let made = gauge.output_per_s * span_s * share;
    let middle_ns = ((gauge.at_s - span_s / 2.0) * 1e9) as i64;
    let running = || run.requests.iter().filter(|row| row.first_ns <= middle_ns && row.last_ns > middle_ns);
    let held: f64 = running().map(|row| f64::from(row.prompt_tokens) + made_at(row, middle_ns)).sum();
    // Preempted requests are among the rows and hold nothing: the mean context counts, not the sum.
    let context = held / running().count().max(1) as f64;
    Some(([made / seqs, made, gauge.prompt_per_s * span_s * share, made * context], span_s))
}

struct Equation {
    terms: Terms,
    time_s: f64,
    kind: usize,
    trust: f64,
    weight: f64,
}

fn dot(terms: &Terms, law: &Terms) -> f64 {
    terms.iter().zip(law).map(|(term, coefficient)| term * coefficient).sum()
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Tokens that `row` had made at `at_ns`, from the first on, as a straight line.
fn made_at(row: &MeasuredRequest, at_ns: i64) -> f64 {
    let span = (row.last_ns - row.first_ns).max(1) as f64;
    let done = ((at_ns - row.first_ns) as f64 / span).clamp(0.0, 1.0);
    done * (f64::from(row.output_tokens) - 1.0)
}

/// All tokens but the first.
fn decode_equation(row: &MeasuredRequest, run: &MeasuredRun) -> (Terms, f64) {
    let (mut seqs, mut prompt, mut context) = (0.0, 0.0, 0.0);
    for other in &run.requests {
        let (before, after) = (made_at(other, row.first_ns), made_at(other, row.last_ns));
        seqs += after - before;
        context += (after - before) * (f64::from(other.prompt_tokens) + f64::midpoint(before, after));
        if other.first_ns > row.first_ns && other.first_ns <= row.last_ns {
            prompt += f64::from(other.prompt_tokens);
        }
    }
    let share = 1.0 / f64::from(run.settings.replicas.max(1));
    let terms = [f64::from(row.output_tokens) - 1.0, seqs * share, prompt * share, context * share];
    (terms, (row.last_ns - row.first_ns) as f64 / 1e9)
}

/// From the first scheduling to the first token: the prompts that ended then, in as many steps as the budget needs.
fn first_equation(row: &MeasuredRequest, run: &MeasuredRun) -> (Terms, f64) {
    let share = 1.0 / f64::from(run.settings.replicas.max(1));
    let (mut seqs, mut prompt, mut context) = (0.0, 0.0, 0.0);
    for other in &run.requests {
        if other.first_ns > row.scheduled_ns && other.first_ns <= row.first_ns {
            prompt += f64::from(other.prompt_tokens) * share;
        }
        if other.first_ns <= row.scheduled_ns && other.last_ns > row.scheduled_ns {
            seqs += share;
            context += share * (f64::from(other.prompt_tokens) + made_at(other, row.scheduled_ns));
        }
    }
    let prompt = prompt.max(f64::from(row.prompt_tokens));
    let steps = (prompt / f64::from(run.settings.max_num_batched_tokens.max(1))).ceil().max(1.0);
    ([steps, seqs * steps, prompt, context * steps], (row.first_ns - row.scheduled_ns) as f64 / 1e9)
}

/// Weighs down what is further off than 1.5 times the typical error of its kind.
fn reweigh(equations: &mut [Equation], law: &Terms) {
    let error = |equation: &Equation| (dot(&equation.terms, law) / equation.time_s - 1.0).abs();
    for kind in 0..3 {
        let errors = sorted(equations.iter().filter(|equation| equation.kind == kind).map(error));
        let Some(&median) = errors.get(errors.len() / 2) else { continue };
        let limit = 1.5 * 1.4826 * median;
        for equation in equations.iter_mut().filter(|equation| equation.kind == kind) {
            let off = error(equation);
            equation.weight = if off > limit { equation.trust * limit / off } else { equation.trust };
        }
    }
}

/// Weighted least squares of relative errors with each coefficient at least its floor: terms that want to go below are
/// held at the floor and the rest is solved again.
fn solve_above(equations: &[Equation], floor: Terms) -> Option<Terms> {
    let mut free = vec![0usize, 1, 2, 3];
    loop {
        let excess = solve(equations, &floor, &free)?;
        let (worst, least) =
            excess.iter().enumerate().fold((0, 0.0), |least, (at, &value)| if value < least.1 { (at, value) } else { least });
        if least >= 0.0 {
            let mut law = floor;
            for (&term, value) in free.iter().zip(&excess) {
                law[term] += value;
            }
            return Some(law);
        }
        free.remove(worst);
    }
}

/// Normal equations for what the free terms add to their floors. Terms nobody has are 0.
fn solve(equations: &[Equation], floor: &Terms, free: &[usize]) -> Option<Vec<f64>> {
    let n = free.len();
    let mut matrix = vec![vec![0.0; n + 1]; n];
    for equation in equations {
        let scale = equation.weight / (equation.time_s * equation.time_s);
        let rest = equation.time_s - dot(&equation.terms, floor);
        for (row, &i) in free.iter().enumerate() {
            for (column, &j) in free.iter().enumerate() {
                matrix[row][column] += scale * equation.terms[i] * equation.terms[j];
            }
            matrix[row][n] += scale * equation.terms[i] * rest;
        }
    }
    for at in 0..n {
        let pivot = (at..n).max_by(|&i, &j| matrix[i][at].abs().total_cmp(&matrix[j][at].abs()))?;
        matrix.swap(at, pivot);
        let lead = matrix[at].clone();
        if !lead[at].is_finite() {
            return None;
        }
        if lead[at].abs() < f64::MIN_POSITIVE {
            continue;
        }
        for row in (0..n).filter(|&row| row != at) {
            let factor = matrix[row][at] / lead[at];
            for (cell, from) in matrix[row].iter_mut().zip(&lead) {
                *cell -= factor * from;
            }
        }
    }
    Some((0..n).map(|at| if matrix[at][at].abs() < f64::MIN_POSITIVE { 0.0 } else { matrix[at][n] / matrix[at][at] }).collect())
}
