//! The step law from requests that decoded beside few and beside many others: `D / (O - 1) = a + b B + c P / (O - 1)`, with
//! `D` the time from first to last token, `O` its tokens, `B` the mean number of requests that decoded meanwhile and `P` the
//! prompt tokens of those that joined.
//!
//! Scrapes of a run at its limit show one batch size; its requests show how the batch got there.

use model::step_law::StepLaw;

use crate::evidence::RequestRow;

/// Fewest requests from which a law is taken.
const MIN_ROWS: usize = 30;
/// The largest mean batch must be this many times the smallest decile.
const MIN_SPREAD: f64 = 1.8;
/// Requests side by side share their steps: errors of their times are alike, so that there are fewer of them than rows.
const ALIKE: f64 = 3.0;
/// A slope whose error at the largest batch is above this share of a step is none.
const MOST_ERROR: f64 = 0.3;

/// One request: what each of its tokens took, and beside what.
struct Point {
    per_token_s: f64,
    x: [f64; 3],
}

/// The law of one engine's requests; nothing where they do not tell it.
pub(super) fn read(rows: &[RequestRow]) -> Option<StepLaw> {
    let points = points(rows);
    if points.len() < MIN_ROWS {
        return None;
    }
    let mut batches: Vec<f64> = points.iter().map(|point| point.x[1]).collect();
    batches.sort_unstable_by(f64::total_cmp);
    let (small, large) = (batches[batches.len() / 10], batches[batches.len() - 1]);
    if large < MIN_SPREAD * small.max(1.0) {
        return None;
    }
    let (solution, error) = least_squares(&points)?;
    let [a_s, b_s, c_s] = solution;
    let typical_s = a_s + b_s * large;
    let b_se = ALIKE.sqrt() * error[1];
    (a_s > 0.0 && b_s > 0.0 && b_se * large < MOST_ERROR * typical_s).then(|| StepLaw {
        batch_min: small,
        batch_max: large,
        interval_count: points.len(),
        a_se: ALIKE.sqrt() * error[0],
        b_se,
        c_se: ALIKE.sqrt() * error[2],
        ..StepLaw::from_parts(a_s, b_s, c_s)
    })
}

fn points(rows: &[RequestRow]) -> Vec<Point> {
    let streams: Vec<(i64, i64, i64, i64)> = rows
        .iter()
        .filter(|row| row.ok)
        .filter_map(|row| Some((row.t_first_ns?, row.t_done_ns?, row.tokens_in.unwrap_or(0), row.tokens_out?)))
        .filter(|(first, done, ..)| done > first)
        .collect();
    let decoding = Decoding::new(&streams);
    let mut joined: Vec<(i64, i64)> = streams.iter().map(|(first, _, prompt, _)| (*first, *prompt)).collect();
    joined.sort_unstable();
    let upto: Vec<i64> = joined
        .iter()
        .scan(0i64, |sum, (_, prompt)| {
            *sum = sum.saturating_add(*prompt);
            Some(*sum)
        })
        .collect();
    let prompts_by = |t: i64| joined.partition_point(|(first, _)| *first <= t).checked_sub(1).map_or(0, |at| upto[at]);
    let point = |(first, done, _, tokens): &(i64, i64, i64, i64)| {
        let steps = (*tokens - 1) as f64;
        let per_token_s = (done - first) as f64 * 1e-9 / steps;
        let batch = decoding.between(*first, *done) / (done - first) as f64;
        Point { per_token_s, x: [1.0, batch, (prompts_by(*done) - prompts_by(*first)) as f64 / steps] }
    };
    streams.iter().filter(|(_, _, _, tokens)| *tokens >= 8).map(point).collect()
}

/// How many requests decode, integrated over time.
struct Decoding {
    /// Time, how many decode from it on, and the integral up to it, request-nanoseconds.
    edges: Vec<(i64, f64, f64)>,
}

impl Decoding {
    fn new(streams: &[(i64, i64, i64, i64)]) -> Self {
        let mut steps: Vec<(i64, i32)> = streams.iter().flat_map(|(first, done, ..)| [(*first, 1), (*done, -1)]).collect();
        steps.sort_unstable();
        let mut edges: Vec<(i64, f64, f64)> = Vec::with_capacity(steps.len());
        let (mut count, mut sum) = (0.0, 0.0);
        for (t, step) in steps {
            if let Some((last, ..)) = edges.last() {
                sum += count * (t - last) as f64;
            }
            count += f64::from(step);
            edges.push((t, count, sum));
        }
        Self { edges }
    }

    fn upto(&self, t: i64) -> f64 {
        let at = self.edges.partition_point(|(edge, ..)| *edge <= t);
        at.checked_sub(1).map_or(0.0, |at| {
            let (edge, count, sum) = self.edges[at];
            sum + count * (t - edge) as f64
        })
    }

    fn between(&self, from: i64, to: i64) -> f64 {
        self.upto(to) - self.upto(from)
    }
}

/// Least squares of relative errors, no coefficient below zero; with standard errors.
fn least_squares(points: &[Point]) -> Option<([f64; 3], [f64; 3])> {
    let mut used = [true; 3];
    loop {
        let (solution, inverse) = solve(points, used)?;
        let negative = (0..3).filter(|&at| used[at] && solution[at] < 0.0).min_by(|&a, &b| solution[a].total_cmp(&solution[b]));
        if let Some(at) = negative {
            used[at] = false;
            continue;
        }
        let residual: f64 = points
            .iter()
            .map(|point| (1.0 - (0..3).map(|at| solution[at] * point.x[at]).sum::<f64>() / point.per_token_s).powi(2))
            .sum::<f64>()
            / (points.len() - 3) as f64;
        return Some((solution, std::array::from_fn(|at| (residual * inverse[at][at]).max(0.0).sqrt())));
    }
}

/// Solves the normal equations of the used columns by Gauss-Jordan; also their inverse.
fn solve(points: &[Point], used: [bool; 3]) -> Option<([f64; 3], [[f64; 3]; 3])> {
    let mut left = [[0.0f64; 3]; 3];
    let mut right = [0.0f64; 3];
    for point in points {
        let x: [f64; 3] = std::array::from_fn(|at| if used[at] { point.x[at] / point.per_token_s } else { 0.0 });
        for row in 0..3 {
            right[row] += x[row];
            for column in 0..3 {
                left[row][column] += x[row] * x[column];
            }
        }
    }
    for at in 0..3 {
        if !used[at] || left[at][at] <= 0.0 {
            left[at][at] = 1.0;
        }
    }
    let mut inverse = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    for at in 0..3 {
        let pivot = left[at][at];
        if pivot.abs() < 1e-12 {
            return None;
        }
        for column in 0..3 {
            left[at][column] /= pivot;
            inverse[at][column] /= pivot;
        }
        for row in (0..3).filter(|&row| row != at) {
            let factor = left[row][at];
            for column in 0..3 {
                left[row][column] -= factor * left[at][column];
                inverse[row][column] -= factor * inverse[at][column];
            }
        }
    }
    let solution = std::array::from_fn(|row| if used[row] { (0..3).map(|column| inverse[row][column] * right[column]).sum() } else { 0.0 });
    Some((solution, inverse))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that arrive ever faster at an engine with a known law.
    fn rows(law: &StepLaw) -> Vec<RequestRow> {
        let requests = (0..200)
            .map(|at| simulate::Request::new((2.0e10 * (1.0 - (1.0 - f64::from(at) / 200.0).sqrt())) as i64, 50, 40 + at as u32 % 17))
            .collect();
        let workload = simulate::Workload::new(requests);
        let system = simulate::SystemConfig::single(simulate::EngineConfig::vllm(100_000));
        let outcome = simulate::simulate(&workload, &system, &simulate::cost::LinearCost::from(law)).unwrap();
        let row = |(row, request): (&simulate::Row, &simulate::Request)| RequestRow {
            t_sent_ns: row.arrival_ns,
            t_first_ns: Some(row.client_first_ns),
            t_done_ns: Some(row.client_last_ns),
            tokens_in: Some(i64::from(request.prompt_tokens)),
            tokens_out: Some(i64::from(request.output_tokens)),
            ok: true,
            ..RequestRow::default()
        };
        outcome.rows.iter().zip(workload.requests()).map(row).collect()
    }

    #[test]
    fn the_law_of_an_engine_is_found_from_its_requests() {
        let law = StepLaw::from_parts(0.006, 0.0012, 20e-6);
        let found = read(&rows(&law)).unwrap();
        assert!((found.a_s / law.a_s - 1.0).abs() < 0.25 && (found.b_s / law.b_s - 1.0).abs() < 0.1, "{found:?}");
        assert_eq!(read(&rows(&law)[..20]), None);
    }
}
