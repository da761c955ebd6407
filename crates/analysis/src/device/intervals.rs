//! Sets of time as sorted runs of `(start, end)`, half open, ns: union, measure, intersection and difference as linear sweeps.

/// One run of time, ns, half open.
pub type Run = (i64, i64);

/// Measure of a union of intervals that arrive in order of their starts, without keeping them.
#[derive(Clone, Copy, Debug)]
pub struct RunningUnion {
    end_ns: i64,
    measure_ns: i64,
}

impl Default for RunningUnion {
    fn default() -> Self {
        Self { end_ns: i64::MIN, measure_ns: 0 }
    }
}

impl RunningUnion {
    /// Adds an interval that starts no earlier than those before.
    #[inline]
    pub fn add(&mut self, start_ns: i64, end_ns: i64) {
        if end_ns > self.end_ns {
            self.measure_ns += end_ns - start_ns.max(self.end_ns);
            self.end_ns = end_ns;
        }
    }

    /// End of the last interval to end, ns.
    pub fn end_ns(&self) -> i64 {
        self.end_ns
    }

    /// Time covered so far, ns.
    pub fn measure_ns(&self) -> i64 {
        self.measure_ns
    }
}

/// Sorts and joins intervals that overlap or touch; empty and inverted ones vanish.
pub fn union(mut intervals: Vec<Run>) -> Vec<Run> {
    intervals.retain(|(start, end)| end > start);
    if !intervals.is_sorted() {
        intervals.sort_unstable();
    }
    let mut runs: Vec<Run> = Vec::new();
    for (start, end) in intervals {
        match runs.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => runs.push((start, end)),
        }
    }
    runs
}

/// Time covered by runs that do not overlap, ns.
pub fn measure(runs: &[Run]) -> i64 {
    runs.iter().map(|(start, end)| end - start).sum()
}

/// What lies in both of two unions.
pub fn intersection(a: &[Run], b: &[Run]) -> Vec<Run> {
    let (mut i, mut j) = (0, 0);
    let mut both = Vec::new();
    while i < a.len() && j < b.len() {
        let (start, end) = (a[i].0.max(b[j].0), a[i].1.min(b[j].1));
        if end > start {
            both.push((start, end));
        }
        if a[i].1 < b[j].1 { i += 1 } else { j += 1 }
    }
    both
}

/// What lies in `a` and not in `b`, two unions.
pub fn minus(a: &[Run], b: &[Run]) -> Vec<Run> {
    let mut rest = Vec::new();
    let mut j = 0;
    for &(mut start, end) in a {
        while j < b.len() && b[j].1 <= start {
            j += 1;
        }
        let mut at = j;
        while at < b.len() && b[at].0 < end && start < end {
            if b[at].0 > start {
                rest.push((start, b[at].0));
            }
            start = start.max(b[at].1);
            at += 1;
        }
        if start < end {
            rest.push((start, end));
        }
    }
    rest
}

/// The runs of a union that touch a span, cut to it, found by search.
pub fn within(runs: &[Run], span: Run) -> impl Iterator<Item = Run> + '_ {
    let first = runs.partition_point(|run| run.1 <= span.0);
    runs[first..].iter().take_while(move |run| run.0 < span.1).map(move |run| (run.0.max(span.0), run.1.min(span.1)))
}

/// Time of a span that a union covers, ns.
pub fn covered_ns(runs: &[Run], span: Run) -> i64 {
    within(runs, span).map(|(start, end)| end - start).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn some_runs() -> impl Strategy<Value = Vec<Run>> {
        prop::collection::vec((0i64..200, 0i64..20).prop_map(|(start, length)| (start, start + length)), 0..40)
    }

    /// Which ticks a list of intervals covers.
    fn ticks(intervals: &[Run]) -> Vec<bool> {
        (0..256).map(|tick| intervals.iter().any(|(start, end)| *start <= tick && tick < *end)).collect()
    }

    proptest! {
        #[test]
        fn sweeps_agree_with_counting_every_tick(a in some_runs(), b in some_runs()) {
            let (u, v) = (union(a.clone()), union(b.clone()));
            let (in_a, in_b) = (ticks(&a), ticks(&b));
            prop_assert_eq!(ticks(&u), in_a.clone());
            prop_assert!(u.windows(2).all(|pair| pair[0].1 < pair[1].0));
            let both: Vec<bool> = in_a.iter().zip(&in_b).map(|(x, y)| *x && *y).collect();
            let only: Vec<bool> = in_a.iter().zip(&in_b).map(|(x, y)| *x && !*y).collect();
            prop_assert_eq!(ticks(&intersection(&u, &v)), both);
            prop_assert_eq!(ticks(&minus(&u, &v)), only);
            prop_assert_eq!(measure(&minus(&u, &v)) + measure(&intersection(&u, &v)), measure(&u));
            for span in &b {
                prop_assert_eq!(covered_ns(&u, *span), measure(&intersection(&u, &union(vec![*span]))));
            }
        }

        #[test]
        fn a_running_union_measures_what_the_union_measures(mut a in some_runs()) {
            a.sort_unstable();
            let mut running = RunningUnion::default();
            for (start, end) in &a {
                running.add(*start, *end);
            }
            prop_assert_eq!(running.measure_ns(), measure(&union(a)));
        }
    }
}
