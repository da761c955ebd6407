//! A window in slices that a server can answer: whole where it can, halves where it cannot.

use std::time::Duration;

const MS_NS: i64 = 1_000_000;
const SECOND_NS: i64 = 1_000 * MS_NS;
/// Length of the first slice.
const FIRST_NS: i64 = 600 * SECOND_NS;
/// Shortest slice of stored samples: one scrape of one target.
const SHORTEST_NS: i64 = SECOND_NS;
/// Answers below this make the next slice longer.
const SMALL_BYTES: usize = 4 << 20;
/// Prometheus refuses more than 11,000 points of a series.
const MAX_POINTS: i64 = 10_000;

/// A slice as the server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) from_ns: i64,
    pub(super) to_ns: i64,
}

/// See the module.
#[derive(Debug)]
#[allow(clippy::struct_field_names)] // the unit is part of each name
pub(super) struct Slices {
    start_ns: i64,
    end_ns: i64,
    /// Where the next slice begins.
    from_ns: i64,
    /// Length of the slice at hand.
    length_ns: i64,
    step_ns: Option<i64>,
}

impl Slices {
    /// The window from `start_ns` to `end_ns`, both included, in whole milliseconds.
    pub(super) fn new(start_ns: i64, end_ns: i64, step: Option<Duration>) -> Self {
        let step_ns = step.map(|step| (step.as_nanos() as i64).max(MS_NS));
        let whole = |t_ns: i64| t_ns.div_euclid(MS_NS) * MS_NS;
        let (start_ns, end_ns) = (whole(start_ns), whole(end_ns));
        // A range leaves out its very start in newer servers: one millisecond earlier is in.
        let from_ns = if step_ns.is_some() { start_ns } else { start_ns - MS_NS };
        let length_ns = step_ns.map_or(FIRST_NS, |step_ns| step_ns.saturating_mul(MAX_POINTS - 1));
        Self { start_ns: from_ns, end_ns, from_ns, length_ns, step_ns }
    }

    /// The slice at hand; `None` when the window is done.
    pub(super) fn next(&self) -> Option<Slice> {
        let is_left = if self.step_ns.is_some() { self.from_ns <= self.end_ns } else { self.from_ns < self.end_ns };
        is_left.then(|| Slice { from_ns: self.from_ns, to_ns: self.from_ns.saturating_add(self.length_ns).min(self.end_ns) })
    }

    /// Which times of a slice are taken: after the first, up to the second. Steps are told apart by themselves.
    pub(super) fn taken(&self, slice: Slice) -> (i64, i64) {
        if self.step_ns.is_some() { (i64::MIN, i64::MAX) } else { (slice.from_ns, slice.to_ns) }
    }

    /// Goes on after an answer.
    pub(super) fn answered(&mut self, byte_count: usize) {
        let Some(slice) = self.next() else { return };
        self.from_ns = match self.step_ns {
            // The next point of the grid.
            Some(step_ns) => slice.from_ns + ((slice.to_ns - slice.from_ns) / step_ns + 1) * step_ns,
            None => slice.to_ns,
        };
        if byte_count < SMALL_BYTES {
            let longest = self.step_ns.map_or(i64::MAX, |step_ns| step_ns.saturating_mul(MAX_POINTS - 1));
            self.length_ns = self.length_ns.saturating_mul(2).min(longest);
        }
    }

    /// Makes the slice at hand half as long; false when it cannot be shorter.
    pub(super) fn halve(&mut self) -> bool {
        let Some(slice) = self.next() else { return false };
        let length_ns = slice.to_ns - slice.from_ns;
        let (unit_ns, shortest_ns) = self.step_ns.map_or((MS_NS, SHORTEST_NS), |step_ns| (step_ns, 1));
        if length_ns < shortest_ns {
            return false;
        }
        self.length_ns = length_ns / 2 / unit_ns * unit_ns;
        self.length_ns > 0 || self.step_ns.is_some()
    }

    /// How much of the window is done, of 1000.
    pub(super) fn done_per_mille(&self) -> u64 {
        let whole = (self.end_ns - self.start_ns).max(1) as i128;
        let done = (self.from_ns.min(self.end_ns) - self.start_ns).max(0) as i128;
        (done * 1000 / whole) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut slices: Slices, byte_count: usize) -> Vec<(i64, i64)> {
        let mut found = Vec::new();
        while let Some(slice) = slices.next() {
            found.push((slice.from_ns / MS_NS, slice.to_ns / MS_NS));
            slices.answered(byte_count);
        }
        found
    }

    #[test]
    fn slices_cover_the_window_once_and_grow_while_answers_are_small() {
        let slices = || Slices::new(SECOND_NS, 3601 * SECOND_NS, None);
        assert_eq!(all(slices(), SMALL_BYTES).len(), 7);
        assert_eq!(all(slices(), 0), [(999, 600_999), (600_999, 1_800_999), (1_800_999, 3_601_000)]);
    }

    #[test]
    fn steps_stay_on_their_grid_below_the_servers_limit() {
        let slices = Slices::new(0, 25_000 * SECOND_NS, Some(Duration::from_secs(1)));
        assert_eq!(all(slices, 0), [(0, 9_999_000), (10_000_000, 19_999_000), (20_000_000, 25_000_000)]);
    }

    #[test]
    fn halves_end_at_a_second_or_a_step() {
        let mut slices = Slices::new(0, 8 * SECOND_NS, None);
        let mut halvings = 0;
        while slices.halve() {
            halvings += 1;
        }
        assert!(halvings == 4 && slices.next().is_some_and(|slice| slice.to_ns - slice.from_ns < SECOND_NS), "{slices:?}");
        let mut steps = Slices::new(0, 8 * SECOND_NS, Some(Duration::from_secs(3)));
        assert!(steps.halve() && steps.next() == Some(Slice { from_ns: 0, to_ns: 3 * SECOND_NS }));
        assert!(steps.halve() && steps.next() == Some(Slice { from_ns: 0, to_ns: 0 }));
        assert!(!steps.halve());
    }
}
