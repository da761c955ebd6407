//! How long pieces took through the proxy, counted in buckets that are a sixteenth wide.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets per doubling.
const PARTS: u32 = 16;
/// Doublings from 16 ns on.
const DOUBLINGS: u32 = 40;

/// Counts by delay.
#[derive(Debug)]
pub(super) struct Delays(Vec<AtomicU64>);

impl Delays {
    pub(super) fn new() -> Self {
        Self((0..PARTS * DOUBLINGS).map(|_| AtomicU64::new(0)).collect())
    }

    pub(super) fn add(&self, delay_ns: u64) {
        self.0[bucket(delay_ns).min(self.0.len() - 1)].fetch_add(1, Ordering::Relaxed);
    }

    /// The upper bound of the bucket below which this share of the pieces lies, nanoseconds; 0 without pieces.
    pub(super) fn quantile_ns(&self, frac: f64) -> u64 {
        let counts: Vec<u64> = self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let rank = (counts.iter().sum::<u64>() as f64 * frac).ceil() as u64;
        let mut seen = 0;
        let found = counts.iter().position(|count| {
            seen += count;
            seen >= rank && rank > 0
        });
        found.map_or(0, |at| upper_ns(at as u32))
    }
}

fn bucket(delay_ns: u64) -> usize {
    let delay_ns = delay_ns.max(u64::from(PARTS));
    let doubling = delay_ns.ilog2() - PARTS.ilog2();
    (doubling * PARTS) as usize + ((delay_ns >> doubling) as usize - PARTS as usize)
}

fn upper_ns(bucket: u32) -> u64 {
    (u64::from(PARTS + bucket % PARTS) + 1) << (bucket / PARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_a_sixteenth_off_at_most() {
        let delays = Delays::new();
        assert_eq!(delays.quantile_ns(0.5), 0);
        (1..=100).for_each(|us| delays.add(us * 1000));
        for (frac, expected) in [(0.5, 50_000.0), (0.99, 99_000.0)] {
            let found = delays.quantile_ns(frac) as f64;
            assert!((expected..=expected * 1.0626).contains(&found), "{found}");
        }
        delays.add(u64::MAX);
    }
}
