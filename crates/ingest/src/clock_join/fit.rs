//! The line between two clocks, from moments that bound it from one side each.
//!
//! A server sees a request after the client sent it and before the client saw the answer. Each such moment is a bound
//! on host time less client time: from above (sent, then received) or from below (answered, then seen). Clocks that run
//! at different rates make a line of it: offset and drift. Every line that lies below all upper bounds and above all
//! lower bounds is possible; the one farthest from its nearest bound is taken, and how far the others reach is its error.
//! No assumption is made about how long messages take, only that none arrives before it was sent.

/// Fastest drift between two clocks that are looked for: NTP turns a clock by no more.
const MAX_DRIFT: f64 = 500e-6;
/// Steps of a search by thirds or halves over the drift: below a part in 10^12.
const SEARCH_STEPS: usize = 90;
/// Bounds that contradict each other by no more are stamps that were rounded or taken a moment late.
const STAMP_NS: f64 = 2_000_000.0;
/// What stamps are rounded to, at the finest.
const ROUNDING_NS: f64 = 100_000.0;
/// Share of the bounds that may be wrong (a stamp taken late, a counter read early).
const OUTLIERS: f64 = 0.02;
/// No more than this many are wrong however many there are: each costs a pass over all.
const MAX_OUTLIERS: usize = 40;
/// Fewest bounds from each side.
const MIN_BOUNDS: usize = 3;

/// A moment by the client's clock, and what host time less client time is at most or at least there, ns.
pub(crate) type Bound = (i64, i64);

/// Bounds from both sides.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    /// At most.
    pub(crate) upper: Vec<Bound>,
    /// At least.
    pub(crate) lower: Vec<Bound>,
}

/// Host time = client time + `offset_ns` + `drift_ppb` * (client time - `reference_ns`) / 10^9.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) reference_ns: i64,
    pub(crate) offset_ns: i64,
    pub(crate) drift_ppb: i64,
    /// Farthest that the line may be off anywhere in its span.
    pub(crate) error_ns: i64,
    /// Bounds it rests on.
    pub(crate) bound_count: usize,
    /// True when both clocks may as well be the same one.
    pub(crate) is_same: bool,
}

impl Line {
    /// Host time of a client time.
    pub(crate) fn host_ns(&self, client_ns: i64) -> i64 {
        let since = i128::from(client_ns) - i128::from(self.reference_ns);
        let host = i128::from(client_ns) + i128::from(self.offset_ns) + since * i128::from(self.drift_ppb) / 1_000_000_000;
        i64::try_from(host).unwrap_or(client_ns)
    }
}

/// The line for client times in `span`; in words why there is none.
pub(crate) fn fit(bounds: &Bounds, span: (i64, i64)) -> Result<Line, String> {
    if bounds.upper.len() < MIN_BOUNDS || bounds.lower.len() < MIN_BOUNDS {
        return Err(format!(
            "only {} moments in common, {MIN_BOUNDS} are needed from each side",
            bounds.upper.len().min(bounds.lower.len())
        ));
    }
    let reference_ns = span.0.midpoint(span.1);
    // Differences of epoch times fit into `f64` to the nanosecond once the common part is gone.
    let base_ns = bounds.upper[0].1;
    let near = |list: &[Bound]| -> Vec<(f64, f64)> {
        list.iter()
            .map(|&(x, y)| ((i128::from(x) - i128::from(reference_ns)) as f64, (i128::from(y) - i128::from(base_ns)) as f64))
            .collect()
    };
    let mut field = Field { upper: near(&bounds.upper), lower: near(&bounds.lower) };
    let bound_count = bounds.upper.len() + bounds.lower.len();
    let best = field.settle(((bound_count as f64 * OUTLIERS) as usize).min(MAX_OUTLIERS))?;
    // Where bounds contradict each other at all, those that do not may be wrong by as much.
    let slack = 2.0 * (-field.margin(best)).max(0.0) + ROUNDING_NS;
    let zero = -base_ns as f64;
    let is_same = field.holds(zero, 0.0, slack.max(STAMP_NS));
    let (offset, drift) = if is_same { (zero, 0.0) } else { field.middle(best) };
    let ends = [span.0, span.1].map(|t| (i128::from(t) - i128::from(reference_ns)) as f64);
    let error = field.reach(slack, offset, drift, ends);
    let offset_ns = i64::try_from(i128::from(base_ns) + offset.round() as i128).map_err(|_| "the clocks are too far apart".to_string())?;
    Ok(Line { reference_ns, offset_ns, drift_ppb: (drift * 1e9).round() as i64, error_ns: error.ceil() as i64, bound_count, is_same })
}

/// Bounds near the origin; only those that a line can touch are kept.
struct Field {
    upper: Vec<(f64, f64)>,
    lower: Vec<(f64, f64)>,
}

impl Field {
    /// Drift at which the bounds leave most room, bounds that contradict all others left out.
    fn settle(&mut self, mut outliers: usize) -> Result<f64, String> {
        let mut hulls = self.hulls();
        loop {
            let best = hulls.widest();
            let room = hulls.margin(best);
            if room >= -STAMP_NS / 2.0 {
                *self = hulls;
                return Ok(best);
            }
            if outliers == 0 || self.upper.len() <= MIN_BOUNDS || self.lower.len() <= MIN_BOUNDS {
                return Err(format!("what the clocks say of the same moments contradicts itself by {:.0} ms", -2e-6 * room));
            }
            outliers -= 1;
            self.drop_worst(best);
            hulls = self.hulls();
        }
    }

    /// Leaves out the bound farthest from the middle of all on its side, of the two that contradict each other.
    fn drop_worst(&mut self, drift: f64) {
        let value = |&(x, y): &(f64, f64)| y - drift * x;
        let least = |list: &[(f64, f64)], sign: f64| {
            let mut values: Vec<(f64, usize)> = list.iter().enumerate().map(|(at, point)| (sign * value(point), at)).collect();
            let usual = values.len() / 10 + 1;
            let (before, usual, _) = values.select_nth_unstable_by(usual, |a, b| a.0.total_cmp(&b.0));
            let least = before.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or(*usual);
            (usual.0 - least.0, least.1)
        };
        let (upper, lower) = (least(&self.upper, 1.0), least(&self.lower, -1.0));
        if upper.0 >= lower.0 {
            self.upper.swap_remove(upper.1)
        } else {
            self.lower.swap_remove(lower.1)
        };
    }

    fn hulls(&self) -> Self {
        let flipped: Vec<(f64, f64)> = self.lower.iter().map(|&(x, y)| (x, -y)).collect();
        let lower = lower_hull(flipped).into_iter().map(|(x, y)| (x, -y)).collect();
        Self { upper: lower_hull(self.upper.clone()), lower }
    }

    /// Offsets at the origin that a drift allows: least and most.
    fn range(&self, drift: f64) -> (f64, f64) {
        let value = |&(x, y): &(f64, f64)| y - drift * x;
        (self.lower.iter().map(value).fold(f64::NEG_INFINITY, f64::max), self.upper.iter().map(value).fold(f64::INFINITY, f64::min))
    }

    /// Half the room that a drift leaves; negative when bounds contradict each other.
    fn margin(&self, drift: f64) -> f64 {
        let (least, most) = self.range(drift);
        (most - least) / 2.0
    }

    fn widest(&self) -> f64 {
        maximum(-MAX_DRIFT, MAX_DRIFT, |drift| self.margin(drift))
    }

    /// Offset in the middle of its room, and drift.
    fn middle(&self, best: f64) -> (f64, f64) {
        let drift = self.calmest(best);
        let (least, most) = self.range(drift);
        (least.midpoint(most), drift)
    }

    /// The drift nearest to none that leaves almost as much room as the best one.
    fn calmest(&self, best: f64) -> f64 {
        let room = self.margin(best);
        let enough = room - 0.2 * room.abs();
        if self.margin(0.0) >= enough {
            return 0.0;
        }
        edge(best, 0.0, |drift| self.margin(drift) >= enough)
    }

    /// Farthest that any possible line is from this one, at the given places.
    fn reach(&self, slack: f64, offset: f64, drift: f64, places: [f64; 2]) -> f64 {
        let is_possible = |drift: f64| self.margin(drift) + slack >= 0.0;
        let best = self.widest();
        let (from, to) = (edge(best, -MAX_DRIFT, is_possible), edge(best, MAX_DRIFT, is_possible));
        let mut reach: f64 = 0.0;
        for x in places {
            let highest = |drift: f64| self.range(drift).1 + slack + drift * x;
            let lowest = |drift: f64| -(self.range(drift).0 - slack + drift * x);
            let own = offset + drift * x;
            reach = reach.max(highest(maximum(from, to, highest)) - own).max(own + lowest(maximum(from, to, lowest)));
        }
        reach
    }

    fn holds(&self, offset: f64, drift: f64, slack: f64) -> bool {
        let (least, most) = self.range(drift);
        offset >= least - slack && offset <= most + slack
    }
}

/// Points from which a line below all others can be told: the lower convex hull, by x.
fn lower_hull(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in points {
        while let [.., a, b] = hull[..]
            && (b.0 - a.0) * (point.1 - a.1) - (b.1 - a.1) * (point.0 - a.0) <= 0.0
        {
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

/// Where a concave function is largest.
fn maximum(mut from: f64, mut to: f64, value: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..SEARCH_STEPS {
        let (left, right) = (from + (to - from) / 3.0, to - (to - from) / 3.0);
        if value(left) < value(right) {
            from = left;
        } else {
            to = right;
        }
    }
    from.midpoint(to)
}

/// The point nearest to `to` where a condition that holds at `from` still holds.
fn edge(from: f64, to: f64, holds: impl Fn(f64) -> bool) -> f64 {
    if holds(to) {
        return to;
    }
    let (mut inside, mut outside) = (from, to);
    for _ in 0..SEARCH_STEPS {
        let middle = inside.midpoint(outside);
        *(if holds(middle) { &mut inside } else { &mut outside }) = middle;
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const S: i64 = 1_000 * MS;

    /// Bounds of 600 s under a true line, with delays that are never below 0.3 ms and often far above.
    fn made(offset_ns: i64, drift_ppb: i64) -> (Bounds, Line) {
        let truth = Line { reference_ns: 300 * S, offset_ns, drift_ppb, error_ns: 0, bound_count: 0, is_same: false };
        let mut state = 7u64;
        let mut delay = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let uniform = ((state >> 33) as f64 + 1.0) / f64::from(1u32 << 31);
            3 * MS / 10 - (20e6 * uniform.min(1.0).ln()) as i64
        };
        let mut bounds = Bounds::default();
        for at in 0..1200 {
            let t = at * S / 2;
            let truth_at = truth.host_ns(t) - t;
            bounds.upper.push((t, truth_at + delay()));
            bounds.lower.push((t + S / 4, truth.host_ns(t + S / 4) - t - S / 4 - delay()));
        }
        (bounds, truth)
    }

    #[test]
    fn skew_and_drift_are_recovered_within_their_error() {
        for (offset, drift) in [(700 * MS, 50_000), (-1_796_036_013 * S, -80_000), (0, 200_000)] {
            let (bounds, truth) = made(offset, drift);
            let line = fit(&bounds, (0, 600 * S)).unwrap();
            for t in [0, 300 * S, 600 * S] {
                let off = (line.host_ns(t) - truth.host_ns(t)).abs();
                assert!(off <= line.error_ns && off < 2 * MS, "{off} ns off, {line:?}");
            }
            assert!(line.error_ns < 5 * MS && (line.drift_ppb - drift).abs() < 5_000 && !line.is_same, "{line:?}");
        }
    }

    #[test]
    fn one_clock_is_known_as_one() {
        let (bounds, _) = made(0, 0);
        let line = fit(&bounds, (0, 600 * S)).unwrap();
        assert!(line.is_same && (line.offset_ns, line.drift_ppb) == (0, 0) && line.error_ns < 5 * MS, "{line:?}");
    }

    #[test]
    fn a_few_wrong_bounds_do_not_move_the_line() {
        let (mut bounds, truth) = made(700 * MS, 50_000);
        for at in [100, 500, 900] {
            bounds.upper[at].1 -= 2 * S;
            bounds.lower[at + 7].1 += 3 * S;
        }
        let line = fit(&bounds, (0, 600 * S)).unwrap();
        assert!((line.host_ns(300 * S) - truth.host_ns(300 * S)).abs() < 2 * MS, "{line:?}");
    }

    #[test]
    fn contradiction_and_lack_are_told() {
        let (mut bounds, _) = made(0, 0);
        bounds.upper.iter_mut().skip(600).for_each(|bound| bound.1 -= 5 * S);
        assert!(fit(&bounds, (0, 600 * S)).unwrap_err().contains("contradicts itself"));
        bounds.upper.truncate(2);
        assert!(fit(&bounds, (0, 600 * S)).unwrap_err().contains("only 2 moments"));
    }

    #[test]
    fn extreme_times_do_not_panic() {
        let far = [i64::MIN, i64::MAX, 0, 1];
        let bounds = Bounds { upper: far.map(|t| (t, t)).to_vec(), lower: far.map(|t| (t, -(t / 2))).to_vec() };
        let _ = fit(&bounds, (i64::MIN, i64::MAX));
    }
}
