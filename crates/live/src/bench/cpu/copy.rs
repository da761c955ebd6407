//! Memory bandwidth: copy, triad and read, each thread in memory of its own.

use std::hint::black_box;
use std::time::Duration;

use super::super::{Measured, Plan, team};
use super::{Host, mib};

/// Copy counts bytes read and written; triad is `a = b + s c`, counted as STREAM does, without the line that a store fetches.
pub(super) fn copy_and_triad(host: &Host, _: &Plan, budget: Duration) -> Result<Vec<Measured>, String> {
    let values = host.bytes_within(budget / 2) / 3 / host.threads / 8;
    let copy = team::timed(host.threads, budget / 2, |_| {
        let (source, mut target) = (vec![1.0f64; values], vec![0.0f64; values]);
        move || {
            target.copy_from_slice(black_box(&source));
            black_box(&mut target);
        }
    })?;
    let triad = team::timed(host.threads, budget / 2, |_| {
        let (b, c, mut a) = (vec![1.0f64; values], vec![2.0f64; values], vec![0.0f64; values]);
        move || {
            let scale = black_box(3.0);
            a.iter_mut().zip(&b).zip(&c).for_each(|((a, b), c)| *a = b + scale * c);
            black_box(&mut a);
        }
    })?;
    let array_bytes = 8 * values * host.threads;
    let row = |title: &str, kernel: &str, value, arrays: usize| Measured {
        operator: "copy",
        title: title.to_string(),
        signal: "bench.bandwidth",
        labels: vec![("kernel", kernel.to_string())],
        value,
        data_sheet: None,
        how: format!("{arrays} arrays of {}, {} threads", mib(array_bytes), host.threads),
    };
    Ok(vec![
        row("memory copy", "copy", copy.rate_of(2.0 * array_bytes as f64), 2),
        row("memory triad", "triad", triad.rate_of(3.0 * array_bytes as f64), 3),
    ])
}

/// Reading alone, which is what decoding does to weights and cache.
pub(super) fn read(host: &Host, _: &Plan, budget: Duration) -> Result<Vec<Measured>, String> {
    let values = host.bytes_within(budget) / host.threads / 8;
    let read = team::timed(host.threads, budget, |_| {
        let source = vec![1u64; values];
        move || {
            black_box(sum(black_box(&source)));
        }
    })?;
    let bytes = 8 * values * host.threads;
    Ok(vec![Measured {
        operator: "read",
        title: "memory read".to_string(),
        signal: "host.dram_bandwidth_sustained",
        labels: Vec::new(),
        value: read.rate_of(bytes as f64),
        data_sheet: None,
        how: format!("{}, {} threads", mib(bytes), host.threads),
    }])
}

/// Sixteen sums side by side, so that additions do not wait for each other.
fn sum(values: &[u64]) -> u64 {
    let mut sums = [0u64; 16];
    let chunks = values.chunks_exact(16);
    let rest: u64 = chunks.remainder().iter().sum();
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
    }
    sums.iter().fold(rest, |total, sum| total.wrapping_add(*sum))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_value_is_read() {
        let values: Vec<u64> = (0..1000).collect();
        assert_eq!(super::sum(&values), 499_500);
    }
}
