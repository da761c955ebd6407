//! Durations in buckets of equal relative width, so that a billion gaps between tokens take 16 KB.
//!
//! Each power of two is cut into 32 buckets: a quantile is at most 1/64 off, the sum and the count are exact.

/// Buckets per power of two.
const CUTS: u32 = 32;

/// Counts of durations in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum_ns: i128,
    max_ns: i64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; 64 * CUTS as usize], count: 0, sum_ns: 0, max_ns: 0 }
    }
}

fn bucket(ns: i64) -> usize {
    let ns = ns.max(0) as u64;
    let bits = 64 - ns.leading_zeros();
    // Up to 63 nanoseconds each value has its own bucket.
    if bits <= 6 { ns as usize } else { ((bits - 5) * CUTS) as usize + ((ns >> (bits - 6)) as usize - CUTS as usize) }
}

/// Middle of a bucket, nanoseconds.
fn middle(at: usize) -> i64 {
    let (power, cut) = (at as u32 / CUTS, at as u32 % CUTS);
    if power < 2 { i64::from(at as u32) } else { (i64::from(cut + CUTS) << (power - 1)) + (1i64 << (power - 1)) / 2 }
}

impl Histogram {
    /// Counts `times` durations of `ns`; negative ones count as 0.
    pub fn add(&mut self, ns: i64, times: u64) {
        if times > 0 {
            self.counts[bucket(ns)] += times;
            self.count += times;
            self.sum_ns += i128::from(ns.max(0)) * i128::from(times);
            self.max_ns = self.max_ns.max(ns);
        }
    }

    /// Adds all counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean in nanoseconds, 0 without durations.
    pub fn mean_ns(&self) -> i64 {
        if self.count == 0 { 0 } else { (self.sum_ns / i128::from(self.count)) as i64 }
    }

    /// Longest duration, nanoseconds.
    pub fn max_ns(&self) -> i64 {
        self.max_ns
    }

    /// The duration below which a share `q` (0 to 1) of them lies, nearest rank, within 1/64; 0 without durations.
    pub fn quantile_ns(&self, q: f64) -> i64 {
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut below = 0;
        for (at, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return middle(at).min(self.max_ns);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_sixty_fourth() {
        let mut histogram = Histogram::default();
        let values: Vec<i64> = (1..=10_000).map(|i| i * i * 37).collect();
        for &value in &values {
            histogram.add(value, 1);
        }
        for q in [0.01, 0.5, 0.9, 0.99, 1.0] {
            let exact = values[(q * 10_000.0_f64).ceil() as usize - 1] as f64;
            let found = histogram.quantile_ns(q) as f64;
            assert!((found / exact - 1.0).abs() <= 1.0 / 64.0 + 1e-9, "{q}: {found} for {exact}");
        }
        assert_eq!(histogram.mean_ns(), values.iter().sum::<i64>() / 10_000);
    }

    #[test]
    fn every_duration_has_a_bucket() {
        let mut histogram = Histogram::default();
        for ns in [i64::MIN, -1, 0, 1, 63, 64, 65, i64::MAX] {
            histogram.add(ns, 2);
        }
        assert_eq!((histogram.count(), histogram.max_ns()), (16, i64::MAX));
        for ns in 0..100_000 {
            assert!(bucket(ns) <= bucket(ns + 1));
            assert!((middle(bucket(ns)) - ns).abs() as f64 <= ns as f64 / 64.0 + 0.5, "{ns}: {}", middle(bucket(ns)));
        }
        assert_eq!(Histogram::default().quantile_ns(0.5), 0);
    }
}
