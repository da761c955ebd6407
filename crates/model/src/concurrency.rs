//! Throughput of a closed loop as its concurrency grows: two laws, and when each may be used.
//!
//! Linear latency, `E2E = a + k N`, from the three lowest points and clipped where the KV cache is full, is the default:
//! on 164 published curves it missed the largest point by 6 % in the median, the universal scalability law by 17 %. The
//! latter needs five points and one past the peak, since its retrograde term is seen nowhere else. Also Little's law as
//! a check of measured figures, and goodput from requests.

use thiserror::Error;

/// One measured point: requests in flight, requests per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Requests in flight.
    pub concurrency: f64,
    /// Requests per second.
    pub rate_per_s: f64,
}

/// Why there is no law.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NoLaw {
    /// Too few points of different concurrency.
    #[error("{found} usable points of different concurrency, {needed} needed")]
    FewPoints {
        /// Usable points.
        found: usize,
        /// How many it takes.
        needed: usize,
    },
    /// No point lies past the highest throughput.
    #[error("throughput still grows at the largest concurrency, so a peak cannot be fitted")]
    NoPeak,
    /// The points contradict the law.
    #[error("latency does not grow with concurrency in these points")]
    NotGrowing,
}

/// `E2E = a + k N`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearLatency {
    /// Seconds of a request alone.
    pub alone_s: f64,
    /// Seconds that each further request adds.
    pub per_request_s: f64,
}

impl LinearLatency {
    /// From the three lowest points, least squares on the relative error.
    pub fn fit(points: &[Point]) -> Result<Self, NoLaw> {
        let points = usable(points);
        if points.len() < 3 {
            return Err(NoLaw::FewPoints { found: points.len(), needed: 3 });
        }
        // Latency weighed by its inverse: relative errors count.
        let lowest = &points[..3];
        let (mut s, mut sn, mut snn, mut se, mut sne) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for point in lowest {
            let (n, e2e) = (point.concurrency, point.concurrency / point.rate_per_s);
            let weight = 1.0 / (e2e * e2e);
            s += weight;
            sn += weight * n;
            snn += weight * n * n;
            se += weight * e2e;
            sne += weight * n * e2e;
        }
        let per_request_s = (s * sne - sn * se) / (s * snn - sn * sn);
        let alone_s = (se - per_request_s * sn) / s;
        if !(per_request_s > 0.0 && alone_s > 0.0 && per_request_s.is_finite()) {
            return Err(NoLaw::NotGrowing);
        }
        Ok(Self { alone_s, per_request_s })
    }

    /// Seconds of a request with `concurrency` in flight, of which at most `most_running` run and the rest wait.
    pub fn e2e_s(&self, concurrency: f64, most_running: f64) -> f64 {
        concurrency / self.rate_per_s(concurrency, most_running).max(f64::MIN_POSITIVE)
    }

    /// Requests per second; past `most_running` (what the KV cache holds) it stays.
    pub fn rate_per_s(&self, concurrency: f64, most_running: f64) -> f64 {
        let running = at_least_nothing(concurrency).min(at_least_nothing(most_running));
        running / (self.alone_s + self.per_request_s * running)
    }

    /// The concurrency at which half of the limit rate `1 / k` is reached: `a / k`.
    pub fn knee(&self) -> f64 {
        self.alone_s / self.per_request_s
    }
}

/// The universal scalability law, `X = lambda N / (1 + sigma (N - 1) + kappa N (N - 1))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalability {
    /// Requests per second of one.
    pub lambda: f64,
    /// Contention.
    pub sigma: f64,
    /// Crosstalk.
    pub kappa: f64,
}

impl Scalability {
    /// Least squares on `N / X`, which is linear in the law's parameters, weighed for relative error.
    pub fn fit(points: &[Point]) -> Result<Self, NoLaw> {
        let points = usable(points);
        if points.len() < 5 {
            return Err(NoLaw::FewPoints { found: points.len(), needed: 5 });
        }
        let peak = points.iter().map(|point| point.rate_per_s).fold(0.0, f64::max);
        if points.last().is_none_or(|last| last.rate_per_s >= peak) {
            return Err(NoLaw::NoPeak);
        }
        let mut matrix = [[0.0; 4]; 3];
        for point in &points {
            let n = point.concurrency;
            let y = n / point.rate_per_s;
            let terms = [1.0, n - 1.0, n * (n - 1.0)].map(|term| term / y);
            for (row, left) in matrix.iter_mut().zip(terms) {
                for (cell, right) in row.iter_mut().zip([terms[0], terms[1], terms[2], 1.0]) {
                    *cell += left * right;
                }
            }
        }
        let [first, contention, crosstalk] = solve3(matrix).ok_or(NoLaw::NotGrowing)?;
        if first.is_nan() || first <= 0.0 {
            return Err(NoLaw::NotGrowing);
        }
        Ok(Self { lambda: 1.0 / first, sigma: (contention / first).clamp(0.0, 1.0), kappa: (crosstalk / first).max(0.0) })
    }

    /// Requests per second.
    pub fn rate_per_s(&self, concurrency: f64) -> f64 {
        let n = at_least_nothing(concurrency);
        self.lambda * n / (1.0 + self.sigma * (n - 1.0).max(0.0) + self.kappa * n * (n - 1.0).max(0.0))
    }

    /// The concurrency of the highest throughput, `sqrt((1 - sigma) / kappa)`.
    pub fn peak(&self) -> Option<f64> {
        let peak = ((1.0 - self.sigma) / self.kappa).sqrt();
        peak.is_finite().then_some(peak)
    }
}

/// How far measured figures are from Little's law, `N = X E2E`, as a share; past [`LITTLE_GAP`] a clock, a warm-up or
/// dropped requests are in them. `None` without usable numbers.
pub fn little_gap(rate_per_s: f64, e2e_s: f64, in_system: f64) -> Option<f64> {
    let gap = (rate_per_s * e2e_s - in_system) / in_system;
    (rate_per_s > 0.0 && e2e_s > 0.0 && in_system > 0.0 && gap.is_finite()).then_some(gap)
}

/// Gap from which on figures do not fit together; four real runs closed within 1.8 %.
pub const LITTLE_GAP: f64 = 0.05;

/// Share of requests that kept both limits; a request that misses one counts as none (joint, per request).
pub fn attained_frac(requests: &[(f64, f64)], ttft_limit_s: f64, tpot_limit_s: f64) -> Option<f64> {
    let kept = requests.iter().filter(|(ttft_s, tpot_s)| *ttft_s <= ttft_limit_s && *tpot_s <= tpot_limit_s).count();
    (!requests.is_empty()).then(|| kept as f64 / requests.len() as f64)
}

/// The highest rate at which a share `needed` of requests keeps its limits, between measured rates by straight lines.
/// `None` when even the lowest rate does not; the highest measured rate when all do.
pub fn goodput_per_s(points: &[(f64, f64)], needed: f64) -> Option<f64> {
    let mut points: Vec<(f64, f64)> = points.iter().copied().filter(|(rate, share)| rate.is_finite() && share.is_finite()).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let first = points.first()?;
    if first.1 < needed {
        return None;
    }
    for two in points.windows(2) {
        let ((low, kept), (high, missed)) = (two[0], two[1]);
        if missed < needed {
            return Some(low + (high - low) * (kept - needed) / (kept - missed));
        }
    }
    points.last().map(|(rate, _)| *rate)
}

/// Positive points by concurrency, the first of equal ones.
fn usable(points: &[Point]) -> Vec<Point> {
    let positive = |value: f64| value.is_finite() && value > 0.0 && value < 1e12;
    let mut points: Vec<Point> = points.iter().copied().filter(|point| positive(point.concurrency) && positive(point.rate_per_s)).collect();
    points.sort_by(|a, b| a.concurrency.total_cmp(&b.concurrency));
    points.dedup_by(|next, first| next.concurrency == first.concurrency);
    points
}

fn at_least_nothing(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, 1e12) }
}

/// Gauss with pivots for three unknowns.
fn solve3(mut matrix: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let pivot = (column..3).max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        matrix.swap(column, pivot);
        if matrix[column][column].abs() < 1e-300 {
            return None;
        }
        for row in 0..3 {
            if row != column {
                let factor = matrix[row][column] / matrix[column][column];
                let above = matrix[column];
                for (cell, value) in matrix[row].iter_mut().zip(above) {
                    *cell -= factor * value;
                }
            }
        }
    }
    Some(std::array::from_fn(|at| matrix[at][3] / matrix[at][at]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn points(of: impl Fn(f64) -> f64, at: &[f64]) -> Vec<Point> {
        at.iter().map(|n| Point { concurrency: *n, rate_per_s: of(*n) }).collect()
    }

    #[test]
    fn a_law_that_made_the_points_comes_back() {
        let law = LinearLatency { alone_s: 2.0, per_request_s: 0.04 };
        let fitted = LinearLatency::fit(&points(|n| law.rate_per_s(n, 1e9), &[4.0, 8.0, 16.0, 64.0])).unwrap();
        assert!((fitted.alone_s - 2.0).abs() < 1e-9 && (fitted.per_request_s - 0.04).abs() < 1e-9);
        assert!((fitted.knee() - 50.0).abs() < 1e-6);
        // The cache holds 49: more in flight is no more throughput, and waits.
        assert_eq!(fitted.rate_per_s(256.0, 49.0), fitted.rate_per_s(49.0, 49.0));
        assert!(fitted.e2e_s(256.0, 49.0) > fitted.e2e_s(49.0, 49.0) * 5.0);
        let usl = Scalability { lambda: 1.0, sigma: 0.05, kappa: 0.001 };
        let fitted = Scalability::fit(&points(|n| usl.rate_per_s(n), &[1.0, 4.0, 16.0, 32.0, 64.0])).unwrap();
        assert!((fitted.sigma - 0.05).abs() < 1e-9 && (fitted.kappa - 0.001).abs() < 1e-9, "{fitted:?}");
        assert!((fitted.peak().unwrap() - 30.8).abs() < 0.05);
    }

    #[test]
    fn a_peak_needs_to_be_seen() {
        let usl = Scalability { lambda: 1.0, sigma: 0.05, kappa: 0.001 };
        assert_eq!(Scalability::fit(&points(|n| usl.rate_per_s(n), &[1.0, 2.0, 4.0, 8.0, 16.0])), Err(NoLaw::NoPeak));
        assert_eq!(Scalability::fit(&points(|n| usl.rate_per_s(n), &[1.0, 32.0, 64.0])), Err(NoLaw::FewPoints { found: 3, needed: 5 }));
        assert_eq!(LinearLatency::fit(&points(|n| n * n, &[1.0, 2.0, 3.0])), Err(NoLaw::NotGrowing));
    }

    #[test]
    fn littles_law_holds_on_real_runs() {
        // Four vLLM 0.19 runs (LLMServingSim bench/examples): rate, mean time, mean of running and waiting.
        for (rate, e2e, in_system) in [(1.634, 86.6, 141.1), (4.551, 28.2, 126.1), (1.879, 90.4, 169.0), (4.686, 32.3, 149.1)] {
            assert!(little_gap(rate, e2e, in_system).unwrap().abs() < LITTLE_GAP / 2.0);
        }
        assert!(little_gap(4.7, 32.0, 100.0).unwrap() > LITTLE_GAP);
        assert_eq!(little_gap(f64::NAN, 1.0, 1.0), None);
    }

    #[test]
    fn goodput_is_joint_per_request() {
        let requests = [(0.1, 0.02), (0.1, 0.09), (0.9, 0.02), (0.1, 0.03)];
        assert_eq!(attained_frac(&requests, 0.5, 0.05), Some(0.5));
        assert!((goodput_per_s(&[(1.0, 1.0), (2.0, 0.95), (4.0, 0.75)], 0.9).unwrap() - 2.5).abs() < 1e-9);
        assert_eq!(goodput_per_s(&[(1.0, 0.5)], 0.9), None);
        assert_eq!(goodput_per_s(&[(1.0, 1.0), (3.0, 0.99)], 0.9), Some(3.0));
    }

    proptest! {
        #[test]
        fn hostile_points_stay_finite(values in prop::collection::vec((any::<f64>(), any::<f64>()), 0..12)) {
            let list: Vec<Point> = values.iter().map(|(concurrency, rate_per_s)| Point { concurrency: *concurrency, rate_per_s: *rate_per_s }).collect();
            if let Ok(law) = LinearLatency::fit(&list) {
                prop_assert!(law.rate_per_s(100.0, 50.0).is_finite());
            }
            if let Ok(law) = Scalability::fit(&list) {
                prop_assert!(law.rate_per_s(100.0).is_finite());
            }
        }
    }
}
