//! Since when it is slow: the one moment that splits the times of a recording best, if any does.
//!
//! Times of one run are autocorrelated and heavy-tailed, so they are averaged over slices first, and a split counts only
//! when both sides hold several slices, differ by far more than slices do within a side, and by enough to matter.

use crate::evidence::Evidence;
use crate::settlement::Scope;

/// A change of the mean in the middle of a recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Start of the first slice of the later part, host clock, ns.
    pub at_ns: i64,
    /// Mean before, s.
    pub before_s: f64,
    /// Mean after, s.
    pub after_s: f64,
    /// Share of the requests that came before.
    pub before_share: f64,
}

/// Slices a recording is cut into at most.
const SLICES: usize = 60;
/// Fewest slices on either side of a split.
const MIN_SIDE: usize = 5;
/// Requests a slice needs on average, so that one slow request makes no slice.
const PER_SLICE: usize = 4;
/// The means must differ by this factor ...
const FACTOR: f64 = 1.5;
/// ... and by this many standard errors: of sixty possible splits none passes by chance, even where neighboring slices
/// resemble each other.
const ERRORS: f64 = 6.0;

/// A mean over a slice of time and how many requests it is of.
#[derive(Clone, Copy, Debug)]
struct Slice {
    t_ns: i64,
    mean_s: f64,
    n: f64,
}

/// The change of the unit's mean time, from request rows, else from the server's histograms.
pub fn change(evidence: &Evidence, scope: Scope) -> Option<Change> {
    let slices = from_rows(evidence, scope);
    best_split(&if slices.is_empty() { from_histograms(evidence, scope) } else { slices })
}

fn from_rows(evidence: &Evidence, scope: Scope) -> Vec<Slice> {
    let mut rows: Vec<(i64, f64)> = evidence
        .client
        .iter()
        .filter(|row| row.ok)
        .filter_map(|row| Some((row.t_sent_ns, if scope == Scope::FirstToken { row.ttft_ns()? } else { row.e2e_ns()? } as f64 * 1e-9)))
        .collect();
    rows.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let per_slice = (rows.len() / SLICES).max(PER_SLICE);
    rows.chunks(per_slice)
        .filter(|chunk| chunk.len() == per_slice)
        .map(|chunk| Slice {
            t_ns: chunk[0].0,
            mean_s: chunk.iter().map(|(_, s)| s).sum::<f64>() / chunk.len() as f64,
            n: chunk.len() as f64,
        })
        .collect()
}

fn from_histograms(evidence: &Evidence, scope: Scope) -> Vec<Slice> {
    let name = if scope == Scope::FirstToken { "server.ttft" } else { "server.e2e" };
    // One engine: several are not scraped at the same moments. The one that finished most speaks.
    let most =
        evidence.engines.values().filter_map(|engine| engine.histogram(name)).max_by(|a, b| a.delta().count.total_cmp(&b.delta().count));
    let Some(histogram) = most else { return Vec::new() };
    let steps = histogram.steps();
    let total: f64 = steps.iter().map(|(_, count)| count).sum();
    let per_slice = (total / SLICES as f64).max(PER_SLICE as f64);
    let mut slices = Vec::new();
    let (mut sum, mut count, mut start) = (0.0, 0.0, histogram.t_ns.first().copied().unwrap_or(0));
    for ((more_s, more), &end) in steps.iter().zip(histogram.t_ns.iter().skip(1)) {
        (sum, count) = (sum + more_s, count + more);
        if count >= per_slice {
            slices.push(Slice { t_ns: start, mean_s: sum / count, n: count });
            (sum, count, start) = (0.0, 0.0, end);
        }
    }
    slices
}

/// The split with the most standard errors between its sides, if it passes.
fn best_split(slices: &[Slice]) -> Option<Change> {
    if slices.len() < 2 * MIN_SIDE || slices.iter().any(|slice| !slice.mean_s.is_finite()) {
        return None;
    }
    let splits = MIN_SIDE..=slices.len() - MIN_SIDE;
    let (at, before, after, errors) = splits
        .map(|at| {
            let (before, after) = (Side::of(&slices[..at]), Side::of(&slices[at..]));
            let error = (before.square_of_error + after.square_of_error).sqrt().max(f64::MIN_POSITIVE);
            (at, before, after, (before.mean - after.mean).abs() / error)
        })
        .max_by(|a, b| a.3.total_cmp(&b.3))?;
    let (low, high) = (before.mean.min(after.mean), before.mean.max(after.mean));
    let n = |part: &[Slice]| part.iter().map(|slice| slice.n).sum::<f64>();
    (errors >= ERRORS && high >= FACTOR * low).then(|| Change {
        at_ns: slices[at].t_ns,
        before_s: before.mean,
        after_s: after.mean,
        before_share: n(&slices[..at]) / n(slices).max(1.0),
    })
}

#[derive(Clone, Copy)]
struct Side {
    mean: f64,
    square_of_error: f64,
}

impl Side {
    fn of(slices: &[Slice]) -> Self {
        let n = slices.len() as f64;
        let mean = slices.iter().map(|slice| slice.mean_s).sum::<f64>() / n;
        let variance = slices.iter().map(|slice| (slice.mean_s - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Self { mean, square_of_error: variance / n }
    }
}

/// A slow start is warm-up when it is this much slower than the rest ...
const WARM_UP_FACTOR: f64 = 2.0;
/// ... and at most this share of the requests.
const WARM_UP_SHARE: f64 = 0.2;
/// Requests that an engine had finished when the recording began, up to which it counts as just started.
const JUST_STARTED: f64 = 50.0;

/// End of the warm-up, where the recording begins with a freshly started engine whose first requests were much slower
/// than the rest: graphs, kernels and caches are made on first use.
pub fn warm_up_end(evidence: &Evidence) -> Option<Change> {
    let finished_before = |engine: &crate::evidence::Engine| engine.histogram("server.e2e").and_then(|e2e| e2e.count.first().copied());
    let fresh = evidence.engines.values().all(|engine| finished_before(engine).is_some_and(|count| count <= JUST_STARTED));
    let change = change(evidence, Scope::FirstToken).filter(|_| fresh && !evidence.engines.is_empty())?;
    (change.before_s >= WARM_UP_FACTOR * change.after_s && change.before_share <= WARM_UP_SHARE).then_some(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(values: impl Iterator<Item = f64>) -> Vec<Slice> {
        (0i64..).zip(values).map(|(at, mean_s)| Slice { t_ns: at * 1_000_000_000, mean_s, n: 4.0 }).collect()
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        let wobble = |at: usize| 0.05 * ((at * 7) % 5) as f64;
        let change = best_split(&slices((0..40).map(|at| if at < 25 { 1.0 } else { 3.0 } + wobble(at)))).unwrap();
        assert_eq!(change.at_ns, 25_000_000_000);
        assert!(change.after_s > 2.9 * change.before_s * 0.9);
    }

    #[test]
    fn noise_and_a_slow_drift_of_little_size_are_no_change() {
        let noise = |at: usize| 1.0 + ((at * 7919) % 13) as f64 / 13.0;
        assert_eq!(best_split(&slices((0..60).map(noise))), None);
        assert_eq!(best_split(&slices((0..60).map(|at| 1.0 + 0.005 * at as f64))), None);
        assert_eq!(best_split(&slices((0..8).map(|at| at as f64))), None);
    }
}
