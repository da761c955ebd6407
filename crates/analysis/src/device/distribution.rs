//! Quantiles of times, exact, also of millions of them.

/// Quantiles of some times, ns; nearest rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub total_ns: i64,
    /// Median.
    pub p50_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
}

impl Distribution {
    /// Of the values given, which are reordered.
    pub fn of(values: &mut [i64]) -> Self {
        let Some(last) = values.len().checked_sub(1) else { return Self::default() };
        let total_ns = values.iter().fold(0i64, |sum, value| sum.saturating_add(*value));
        let (p50_at, p99_at) = (rank(values.len(), 50), rank(values.len(), 99).min(last));
        let p99_ns = *values.select_nth_unstable(p99_at).1;
        let p50_ns = if p50_at == p99_at { p99_ns } else { *values[..p99_at].select_nth_unstable(p50_at).1 };
        Self { count: values.len() as u64, total_ns, p50_ns, p99_ns }
    }
}

/// `ceil(p * n) - 1`, in integers.
fn rank(count: usize, percent: usize) -> usize {
    (count * percent).div_ceil(100).max(1) - 1
}

/// Times below this many ns are counted one by one where there are many of them.
const COUNTED_NS: usize = 1 << 16;

/// Takes times one by one. Of many the short ones, which most are, take no memory.
#[derive(Clone, Debug, Default)]
pub struct Quantiles {
    total_ns: i64,
    count: usize,
    /// All values at first, later those that are not counted.
    values: Vec<i64>,
    /// How often each short time came.
    counts: Vec<u32>,
}

impl Quantiles {
    /// Adds a time.
    #[inline]
    pub fn add(&mut self, value_ns: i64) {
        self.total_ns = self.total_ns.saturating_add(value_ns);
        self.count += 1;
        match usize::try_from(value_ns).ok().and_then(|at| self.counts.get_mut(at)) {
            Some(count) => *count += 1,
            None => self.keep(value_ns),
        }
    }

    #[inline]
    fn keep(&mut self, value_ns: i64) {
        self.values.push(value_ns);
        if self.counts.is_empty() && self.values.len() >= COUNTED_NS {
            self.counts = vec![0; COUNTED_NS];
            let counts = &mut self.counts;
            self.values.retain(|value| match usize::try_from(*value).ok().and_then(|at| counts.get_mut(at)) {
                Some(count) => {
                    *count += 1;
                    false
                }
                None => true,
            });
        }
    }

    /// How many were added.
    pub fn count(&self) -> u64 {
        self.count as u64
    }

    /// The distribution of all.
    pub fn distribution(mut self) -> Distribution {
        if self.counts.is_empty() {
            return Distribution::of(&mut self.values);
        }
        let below = self.values.iter().filter(|value| **value < 0).count();
        let (p50_ns, p99_ns) = (self.nth(rank(self.count, 50), below), self.nth(rank(self.count, 99), below));
        Distribution { count: self.count as u64, total_ns: self.total_ns, p50_ns, p99_ns }
    }

    /// The value at a rank; `below` values are negative.
    fn nth(&mut self, rank: usize, below: usize) -> i64 {
        let counted = self.count - self.values.len();
        if rank < below {
            return *self.values.select_nth_unstable(rank).1;
        }
        if rank >= below + counted {
            return *self.values.select_nth_unstable(rank - counted).1;
        }
        let mut left = rank - below;
        for (value, count) in self.counts.iter().enumerate() {
            if left < *count as usize {
                return i64::try_from(value).unwrap_or(i64::MAX);
            }
            left -= *count as usize;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranks_are_the_nearest() {
        let mut values: Vec<i64> = (1..=100).collect();
        assert_eq!(Distribution::of(&mut values), Distribution { count: 100, total_ns: 5050, p50_ns: 50, p99_ns: 99 });
        assert_eq!(Distribution::of(&mut [7]), Distribution { count: 1, total_ns: 7, p50_ns: 7, p99_ns: 7 });
        assert_eq!(Distribution::of(&mut []), Distribution::default());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        #[test]
        fn counting_gives_what_sorting_gives(seed in any::<u64>(), shift in -80_000i64..80_000, wide in 1u64..200_000) {
            let mut state = seed | 1;
            let mut quantiles = Quantiles::default();
            let mut values = Vec::new();
            for _ in 0..100_000 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let value = i64::try_from(state % wide).unwrap() + shift;
                values.push(value);
                quantiles.add(value);
            }
            prop_assert_eq!(quantiles.distribution(), Distribution::of(&mut values));
        }
    }
}
