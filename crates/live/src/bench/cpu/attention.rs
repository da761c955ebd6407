//! Attention of a decode step: every sequence reads its whole cache of one layer once, for all query heads of a group.

use std::hint::black_box;
use std::time::Duration;

use super::super::{Measured, Plan, team};
use super::{Host, mib, simd};

/// Tokens whose scores are kept at a time.
const TILE: usize = 256;

/// Bytes of the cache per second.
pub(super) fn run(host: &Host, plan: &Plan, budget: Duration) -> Result<Vec<Measured>, String> {
    let shapes = &plan.shapes;
    let (head_dim, kv_heads) = (shapes.head_dim.max(1) as usize, shapes.kv_heads.max(1) as usize);
    let group = (shapes.heads.max(1) as usize).div_ceil(kv_heads);
    let budget_bytes = host.bytes_within(budget);
    let wanted = (plan.batch.max(1) as usize * kv_heads).div_ceil(host.threads);
    let context = (plan.context.max(1) as usize).min((budget_bytes / host.threads / (8 * head_dim)).max(1));
    let caches = wanted.min(budget_bytes / host.threads / (8 * head_dim * context)).max(1);
    let spread = team::timed(host.threads, budget, |thread_idx| {
        let fill = |count: usize| -> Vec<f32> { (0..count).map(|at| ((at * 7 + thread_idx) % 11) as f32 * 0.02).collect() };
        let (keys, values) = (fill(caches * context * head_dim), fill(caches * context * head_dim));
        let queries = fill(group * head_dim);
        let mut out = vec![0.0f32; group * head_dim];
        move || {
            for cache in 0..caches {
                let part = cache * context * head_dim..(cache + 1) * context * head_dim;
                attend(black_box(&queries), black_box(&keys[part.clone()]), black_box(&values[part]), head_dim, &mut out);
                black_box(&mut out);
            }
        }
    })?;
    let bytes = 2 * 4 * caches * context * head_dim * host.threads;
    Ok(vec![Measured {
        operator: "attention",
        title: format!("attention of {} sequences x {context} tokens", plan.batch),
        signal: "bench.bandwidth",
        labels: vec![("kernel", "attention".to_string())],
        value: spread.rate_of(bytes as f64),
        data_sheet: None,
        how: format!(
            "f32 cache of one layer, {} read, {kv_heads} heads of {head_dim}, {group} queries each, {} threads, our kernel with {}",
            mib(bytes),
            host.threads,
            simd::instructions()
        ),
    }])
}

/// Softmax of `queries x keys` times `values`, tile by tile with a running maximum.
fn attend(queries: &[f32], keys: &[f32], values: &[f32], head_dim: usize, out: &mut [f32]) {
    let group = queries.len() / head_dim;
    let mut states = vec![(f32::NEG_INFINITY, 0.0f32); group];
    let mut scores = [0.0f32; TILE];
    out.fill(0.0);
    for (key_tile, value_tile) in keys.chunks(TILE * head_dim).zip(values.chunks(TILE * head_dim)) {
        let tokens = key_tile.len() / head_dim;
        for (at, (maximum, total)) in states.iter_mut().enumerate() {
            let query = &queries[at * head_dim..(at + 1) * head_dim];
            score(query, key_tile, head_dim, &mut scores[..tokens]);
            let highest = scores[..tokens].iter().copied().fold(*maximum, f32::max);
            let fade = (*maximum - highest).exp();
            let sum = &mut out[at * head_dim..(at + 1) * head_dim];
            for value in sum.iter_mut() {
                *value *= fade;
            }
            *total *= fade;
            for (score, value) in scores[..tokens].iter().zip(value_tile.chunks_exact(head_dim)) {
                let weight = (score - highest).exp();
                *total += weight;
                simd::add_scaled(sum, weight, value);
            }
            *maximum = highest;
        }
    }
    for (sum, (_, total)) in out.chunks_exact_mut(head_dim).zip(&states) {
        for value in sum.iter_mut() {
            *value /= total;
        }
    }
}

fn score(query: &[f32], keys: &[f32], head_dim: usize, scores: &mut [f32]) {
    let scale = 1.0 / (head_dim as f32).sqrt();
    let key = |token: usize| &keys[token * head_dim..(token + 1) * head_dim];
    let last = scores.len() - 1;
    for (block, scores) in scores.chunks_mut(simd::BLOCK).enumerate() {
        let rows: [&[f32]; simd::BLOCK] = std::array::from_fn(|at| key((block * simd::BLOCK + at).min(last)));
        let dots = simd::dots(rows, query);
        scores.iter_mut().zip(dots).for_each(|(score, dot)| *score = dot * scale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_is_that_of_the_definition() {
        let (head_dim, context) = (16, 2 * TILE + 5);
        let keys: Vec<f32> = (0..context * head_dim).map(|at| ((at * 37) % 19) as f32 * 0.1 - 0.9).collect();
        let values: Vec<f32> = (0..context * head_dim).map(|at| ((at * 11) % 23) as f32 * 0.1).collect();
        let queries: Vec<f32> = (0..2 * head_dim).map(|at| ((at * 5) % 7) as f32 * 0.5 - 1.0).collect();
        let mut out = vec![0.0; 2 * head_dim];
        attend(&queries, &keys, &values, head_dim, &mut out);
        for head in 0..2 {
            let query = &queries[head * head_dim..(head + 1) * head_dim];
            let dot = |token: usize| -> f64 { (0..head_dim).map(|at| f64::from(query[at] * keys[token * head_dim + at])).sum() };
            let weights: Vec<f64> = (0..context).map(|token| (dot(token) / 4.0).exp()).collect();
            let total: f64 = weights.iter().sum();
            for at in 0..head_dim {
                let expected: f64 =
                    weights.iter().enumerate().map(|(token, weight)| weight * f64::from(values[token * head_dim + at])).sum::<f64>()
                        / total;
                assert!((f64::from(out[head * head_dim + at]) - expected).abs() < 1e-4);
            }
        }
    }
}
