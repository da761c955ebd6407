//! Static against continuous batching, from answer lengths alone.
//!
//! A static batch decodes until its longest answer ends, so of `B` seats over `max` steps only `mean / max` are used. For
//! batches drawn at random from the user's own requests the expectation is exact: with the lengths sorted,
//! `E[max of B] = sum x_i ((i / n)^B - ((i - 1) / n)^B)` (distribution of the largest of `B` draws with replacement).
//! Continuous batching refills a seat in the next step, so its efficiency is 1 while requests wait. Padding of prompts,
//! and steps that cost more with longer context, are left out.

/// Answer lengths, sorted once for all batch sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLengths {
    sorted: Vec<u32>,
    sum: u64,
}

impl OutputLengths {
    /// Takes lengths in tokens in any order.
    pub fn new(mut lengths: Vec<u32>) -> Self {
        lengths.sort_unstable();
        let sum = lengths.iter().map(|&length| u64::from(length)).sum();
        Self { sorted: lengths, sum }
    }

    /// Expected longest answer of a batch, tokens; 0 without lengths or for a batch of 0.
    pub fn expected_max(&self, batch: u32) -> f64 {
        let count = self.sorted.len() as f64;
        let share = |at: usize| (at as f64 / count).powf(f64::from(batch));
        if batch == 0 {
            return 0.0;
        }
        self.sorted.iter().enumerate().map(|(at, &length)| f64::from(length) * (share(at + 1) - share(at))).sum()
    }

    /// Share of decode seats that a static batch uses; `None` without any token to make or a batch of 0.
    pub fn static_efficiency(&self, batch: u32) -> Option<f64> {
        let max = self.expected_max(batch);
        (max > 0.0).then(|| self.sum as f64 / self.sorted.len() as f64 / max)
    }

    /// How many times as much decode work continuous batching does on the same seats while requests wait: an upper limit
    /// of the gain, since seats need KV.
    pub fn continuous_gain(&self, batch: u32) -> Option<f64> {
        self.static_efficiency(batch).map(|efficiency| 1.0 / efficiency)
    }
}

/// Gain of a continuous batch over a static one that uses `static_efficiency` of its seats, limited to what the KV cache
/// holds: with `most_running` of `batch` seats usable, at most `most_running / (batch x efficiency)`, and at least 1.
pub fn gain_within_cache(static_efficiency: f64, batch: f64, most_running: f64) -> f64 {
    let used = if static_efficiency > 0.0 { static_efficiency.min(1.0) } else { return 1.0 };
    let usable = if batch > 0.0 && most_running > 0.0 { (most_running / batch).min(1.0) } else { 1.0 };
    (usable / used).max(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn two_lengths_by_hand() {
        let lengths = OutputLengths::new(vec![30, 10]);
        // Both draws are short with probability 1/4: 10 / 4 + 30 x 3 / 4.
        assert!((lengths.expected_max(2) - 25.0).abs() < 1e-12);
        assert!((lengths.static_efficiency(2).unwrap() - 0.8).abs() < 1e-12);
        assert_eq!(lengths.static_efficiency(1), Some(1.0));
        assert_eq!(lengths.static_efficiency(0), None);
        assert_eq!(OutputLengths::new(Vec::new()).static_efficiency(4), None);
        assert_eq!(OutputLengths::new(vec![0, 0]).continuous_gain(4), None);
    }

    /// Exponential lengths: efficiency 1 / H_B.
    #[test]
    fn exponential_lengths_follow_the_harmonic_numbers() {
        let n = 100_000;
        let lengths: Vec<u32> = (0..n).map(|i| (-((f64::from(i) + 0.5) / f64::from(n)).ln() * 1e6) as u32).collect();
        let lengths = OutputLengths::new(lengths);
        for batch in [2u32, 8, 32] {
            let harmonic: f64 = (1..=batch).map(|i| 1.0 / f64::from(i)).sum();
            assert!((lengths.continuous_gain(batch).unwrap() / harmonic - 1.0).abs() < 1e-3, "{batch}");
        }
    }

    #[test]
    fn the_cache_limits_the_gain() {
        assert_eq!(gain_within_cache(0.25, 32.0, 1e9), 4.0);
        assert_eq!(gain_within_cache(0.25, 32.0, 16.0), 2.0);
        assert_eq!(gain_within_cache(f64::NAN, 32.0, 16.0), 1.0);
    }

    proptest! {
        #[test]
        fn larger_batches_waste_more(lengths in proptest::collection::vec(0u32..5_000, 1..60), batch in 1u32..200) {
            let lengths = OutputLengths::new(lengths);
            if let (Some(here), Some(next)) = (lengths.static_efficiency(batch), lengths.static_efficiency(batch + 1)) {
                prop_assert!(next <= here + 1e-9);
                prop_assert!(here <= 1.0 + 1e-9);
            }
        }
    }
}
