//! Matrix products at the model's shapes, in 32-bit floats: tokens times the transpose of the weights.
//!
//! Each thread owns a share of the outputs. Weights are read in panels that fit into the second cache, tokens in blocks of
//! four. Where a matrix is too large for the time or the memory at hand, fewer of its outputs are computed, which is told.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::super::{Matrix, Measured, Plan, team};
use super::{Host, mib, simd};

/// Repetitions that the time of a product must hold.
const REPETITIONS: f64 = 8.0;
/// Inputs of a panel.
const PANEL_INPUTS: usize = 1024;
/// Outputs of a panel: with its inputs 256 KiB.
const PANEL_OUTPUTS: usize = 64;

/// Each matrix at the tokens of a decode step and of a prompt.
pub(super) fn run(host: &Host, plan: &Plan, budget: Duration) -> Result<Vec<Measured>, String> {
    let rate = rate_of_one_thread();
    let sizes = [("decode", plan.batch), ("prefill", plan.prompt)];
    let parts = u32::try_from(plan.shapes.matrices.len() * sizes.len()).unwrap_or(u32::MAX).max(1);
    let mut rows = Vec::new();
    for matrix in &plan.shapes.matrices {
        for (phase, tokens) in sizes {
            let part = budget / parts;
            let most_flop = rate * part.as_secs_f64() / REPETITIONS;
            rows.push(one(host, *matrix, phase, tokens.max(1) as usize, (part, most_flop))?);
        }
    }
    Ok(rows)
}

/// Operations per second of one thread, roughly: what fits into the time is computed from it.
fn rate_of_one_thread() -> f64 {
    let (tokens, inputs, outputs) = (4, PANEL_INPUTS, PANEL_OUTPUTS);
    let (states, weights) = (filled(tokens * inputs, 1), filled(outputs * inputs, 2));
    let mut result = vec![0.0f32; tokens * outputs];
    let mut fastest_s = f64::INFINITY;
    for _ in 0..3 {
        let started = Instant::now();
        multiply(black_box(&states), black_box(&weights), inputs, &mut result);
        black_box(&mut result);
        fastest_s = fastest_s.min(started.elapsed().as_secs_f64());
    }
    (2 * tokens * inputs * outputs) as f64 / fastest_s.max(1e-9)
}

/// One product, of at most so many operations per thread and repetition.
fn one(host: &Host, matrix: Matrix, phase: &str, tokens: usize, (budget, most_flop): (Duration, f64)) -> Result<Measured, String> {
    let (inputs, outputs) = (matrix.inputs.max(1) as usize, matrix.outputs.max(1) as usize);
    let in_memory = host.bytes_within(2 * budget) / 4 / inputs / host.threads;
    let in_time = (most_flop / (2 * tokens * inputs) as f64) as usize;
    let share = outputs.div_ceil(host.threads).min(in_memory).min(in_time).max(1);
    let spread = team::timed(host.threads, budget, |thread_idx| {
        let weights = filled(share * inputs, thread_idx);
        let states = filled(tokens * inputs, thread_idx + 1);
        let mut result = vec![0.0f32; tokens * share];
        move || {
            multiply(black_box(&states), black_box(&weights), inputs, &mut result);
            black_box(&mut result);
        }
    })?;
    let computed = share * host.threads;
    let flop = 2.0 * (tokens * inputs * computed) as f64;
    let part = if computed < outputs { format!(" ({computed} of {outputs} outputs)") } else { String::new() };
    Ok(Measured {
        operator: "gemm",
        title: format!("matrix product {}, {tokens} tokens", matrix.name),
        signal: "bench.flops",
        labels: vec![("kernel", matrix.name.to_string()), ("phase", phase.to_string())],
        value: spread.rate_of(flop),
        data_sheet: None,
        how: format!(
            "f32, {inputs} inputs x {outputs} outputs{part}, weights {}, {} threads, our kernel with {}, not a BLAS",
            mib(4 * inputs * computed),
            host.threads,
            simd::instructions()
        ),
    })
}

/// Small values of both signs, so that sums stay small.
fn filled(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 31 + seed * 17) % 13) as f32 * 0.125 - 0.75).collect()
}

/// `result[token][output] = sum over inputs of states[token][input] weights[output][input]`.
fn multiply(states: &[f32], weights: &[f32], inputs: usize, result: &mut [f32]) {
    let (tokens, outputs) = (states.len() / inputs, weights.len() / inputs);
    result.fill(0.0);
    for first_input in (0..inputs).step_by(PANEL_INPUTS) {
        let columns = first_input..(first_input + PANEL_INPUTS).min(inputs);
        let state = |token: usize| &states[token * inputs..][columns.clone()];
        for first_output in (0..outputs).step_by(PANEL_OUTPUTS) {
            let panel = first_output..(first_output + PANEL_OUTPUTS).min(outputs);
            for first_token in (0..tokens).step_by(simd::BLOCK) {
                // The last block repeats its last token and drops what comes of it.
                let block: [&[f32]; simd::BLOCK] = std::array::from_fn(|at| state((first_token + at).min(tokens - 1)));
                for output in panel.clone() {
                    let sums = simd::dots(block, &weights[output * inputs..][columns.clone()]);
                    for (token, sum) in (first_token..tokens).zip(sums) {
                        result[token * outputs + output] += sum;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_the_definition() {
        for (tokens, inputs, outputs) in [(1, 8, 3), (5, 1030, 67), (6, 13, 1)] {
            let (states, weights) = (filled(tokens * inputs, 1), filled(outputs * inputs, 2));
            let mut result = vec![9.0; tokens * outputs];
            multiply(&states, &weights, inputs, &mut result);
            for (at, found) in result.iter().enumerate() {
                let (token, output) = (at / outputs, at % outputs);
                let expected: f64 =
                    (0..inputs).map(|input| f64::from(states[token * inputs + input]) * f64::from(weights[output * inputs + input])).sum();
                assert!((f64::from(*found) - expected).abs() < 1e-2, "{tokens} {inputs} {outputs}: {found} {expected}");
            }
        }
    }
}
