//! What a batch loses that ends with its longest request.
//!
//! Seats of requests that are done stay empty until the last one is: the share in use is `mean / E[max of B]`. A
//! continuous batch fills them at once, as far as the KV cache goes. Padding of prompts comes on top and is left out.

/// Share of decode seats in use when `batch` outputs are drawn from `lengths` and the batch ends with the longest. Exact
/// for draws with replacement: `E[max] = sum x_i ((i / n)^B - ((i - 1) / n)^B)` over sorted lengths. `None` without lengths.
pub fn seats_used_frac(lengths: &[u32], batch: u32) -> Option<f64> {
    let mut sorted: Vec<u32> = lengths.to_vec();
    sorted.sort_unstable();
    let n = sorted.len() as f64;
    let mean = sorted.iter().map(|length| f64::from(*length)).sum::<f64>() / n;
    let exponent = f64::from(batch.max(1));
    let (mut longest, mut below) = (0.0, 0.0);
    for (at, length) in sorted.iter().enumerate() {
        let up_to = ((at + 1) as f64 / n).powf(exponent);
        longest += f64::from(*length) * (up_to - below);
        below = up_to;
    }
    (longest > 0.0).then(|| mean / longest)
}

/// The same for exponential lengths: one over the harmonic number, `1 / H_B`.
pub fn seats_used_frac_exponential(batch: u32) -> f64 {
    let harmonic: f64 = (1..=batch.clamp(1, 1_000_000)).map(|i| 1.0 / f64::from(i)).sum();
    1.0 / harmonic
}

/// Gain of a continuous batch in decode seats, limited to what the KV cache holds: with `most_running` of `batch` seats
/// usable, at most `most_running / (batch x used)`, and at least 1.
pub fn continuous_gain(seats_used_frac: f64, batch: f64, most_running: f64) -> f64 {
    let used = if seats_used_frac > 0.0 { seats_used_frac.min(1.0) } else { return 1.0 };
    let usable = if batch > 0.0 && most_running > 0.0 { (most_running / batch).min(1.0) } else { 1.0 };
    (usable / used).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_lengths_have_a_closed_form() {
        assert!((seats_used_frac_exponential(8) - 0.368).abs() < 0.001);
        assert!((seats_used_frac_exponential(32) - 0.246).abs() < 0.001);
        // Quantiles of an exponential, as lengths.
        let lengths: Vec<u32> = (0..20_000).map(|i| (-1e6 * (1.0 - (f64::from(i) + 0.5) / 20_000.0).ln()) as u32).collect();
        for batch in [1, 8, 32] {
            let (exact, closed) = (seats_used_frac(&lengths, batch).unwrap(), seats_used_frac_exponential(batch));
            assert!((exact / closed - 1.0).abs() < 0.005, "{batch}: {exact} {closed}");
        }
    }

    #[test]
    fn even_lengths_lose_nothing_and_the_cache_limits_the_gain() {
        assert_eq!(seats_used_frac(&[100; 50], 64), Some(1.0));
        assert_eq!(seats_used_frac(&[], 8), None);
        assert_eq!(seats_used_frac(&[0, 0], 8), None);
        assert_eq!(continuous_gain(0.25, 32.0, 1e9), 4.0);
        assert_eq!(continuous_gain(0.25, 32.0, 16.0), 2.0);
        assert_eq!(continuous_gain(f64::NAN, 32.0, 16.0), 1.0);
    }
}
