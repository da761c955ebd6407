//! Small statistics: batch means, their spread, and whether two runs differ.
//!
//! Requests of one run are autocorrelated, so they are never compared one by one: a run is cut into batches of time and
//! the batches are compared (attribution, section 9).

/// Mean and standard error of batch means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchMean {
    /// Mean over batches.
    pub mean: f64,
    /// Standard error of it.
    pub standard_error: f64,
    /// Batches.
    pub count: usize,
}

/// Means of `batches` equal stretches of time; empty stretches are left out. `values` are (time, value).
pub fn batch_means(values: &[(i64, f64)], batches: usize) -> Vec<f64> {
    let (Some(first), Some(last)) = (values.iter().map(|v| v.0).min(), values.iter().map(|v| v.0).max()) else { return Vec::new() };
    let span = (last - first).max(1) as i128 + 1;
    let mut sums = vec![(0.0, 0usize); batches.max(1)];
    for &(t, value) in values {
        let at = (i128::from(t - first) * batches as i128 / span) as usize;
        sums[at].0 += value;
        sums[at].1 += 1;
    }
    sums.into_iter().filter(|(_, count)| *count > 0).map(|(sum, count)| sum / count as f64).collect()
}

/// Slope of y over x by least squares, and its standard error; `None` where x does not vary.
pub fn slope(rows: &[(f64, f64)]) -> Option<(f64, f64)> {
    let n = rows.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| rows.iter().map(value).sum::<f64>() / n;
    let (x_mean, y_mean) = (mean(|row| row.0), mean(|row| row.1));
    let xx: f64 = rows.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    if rows.len() < 3 || xx <= 0.0 {
        return None;
    }
    let slope = rows.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum::<f64>() / xx;
    let left: f64 = rows.iter().map(|(x, y)| (y - y_mean - slope * (x - x_mean)).powi(2)).sum();
    Some((slope, (left / (n - 2.0) / xx).sqrt()))
}

/// Mean and standard error of some batch means; `None` for fewer than two.
pub fn summarize(batches: &[f64]) -> Option<BatchMean> {
    if batches.len() < 2 {
        return None;
    }
    let count = batches.len();
    let mean = batches.iter().sum::<f64>() / count as f64;
    let variance = batches.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
    Some(BatchMean { mean, standard_error: (variance / count as f64).sqrt(), count })
}

/// 95 % interval of after / before from batch means: Welch on the logarithms where all are positive, else on the
/// difference over the mean before. `None` when either side has fewer than two batches or before is zero.
pub fn ratio_interval(before: &[f64], after: &[f64]) -> Option<[f64; 2]> {
    let positive = before.iter().chain(after).all(|&value| value > 0.0);
    if positive {
        let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
        let (b, a) = (summarize(&logs(before))?, summarize(&logs(after))?);
        let half = welch_half_width(&b, &a);
        let middle = a.mean - b.mean;
        return Some([(middle - half).exp(), (middle + half).exp()]);
    }
    let (b, a) = (summarize(before)?, summarize(after)?);
    if b.mean <= 0.0 {
        return None;
    }
    let half = welch_half_width(&b, &a);
    Some([1.0 + (a.mean - b.mean - half) / b.mean, 1.0 + (a.mean - b.mean + half) / b.mean])
}

fn welch_half_width(b: &BatchMean, a: &BatchMean) -> f64 {
    let (vb, va) = (b.standard_error.powi(2), a.standard_error.powi(2));
    let total = vb + va;
    if total <= 0.0 {
        return 0.0;
    }
    let freedom = total.powi(2) / (vb.powi(2) / (b.count - 1) as f64 + va.powi(2) / (a.count - 1) as f64);
    student_975(freedom) * total.sqrt()
}

/// 97.5 % quantile of Student's t, Cornish-Fisher expansion about the normal quantile (Abramowitz and Stegun 26.7.5),
/// exact values below three degrees of freedom.
fn student_975(freedom: f64) -> f64 {
    if freedom < 1.5 {
        return 12.706;
    }
    if freedom < 2.5 {
        return 4.303;
    }
    let z: f64 = 1.959_964;
    let g1 = (z.powi(3) + z) / 4.0;
    let g2 = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let g3 = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + g1 / freedom + g2 / freedom.powi(2) + g3 / freedom.powi(3)
}

/// Kolmogorov-Smirnov distance of two samples; 0 when either is empty.
pub fn ks_distance(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 0.0;
    }
    let sorted = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted
    };
    let (a, b) = (sorted(a), sorted(b));
    let below = |values: &[f64], x: f64| values.partition_point(|&value| value <= x) as f64 / values.len() as f64;
    a.iter().chain(&b).map(|&x| (below(&a, x) - below(&b, x)).abs()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_quantiles_match_the_tables() {
        for (freedom, quantile) in [(3.0, 3.182), (4.0, 2.776), (9.0, 2.262), (30.0, 2.042), (1000.0, 1.962)] {
            assert!((student_975(freedom) - quantile).abs() < 0.03, "{freedom}: {}", student_975(freedom));
        }
    }

    #[test]
    fn equal_runs_have_a_ratio_of_one() {
        let run = [1.0, 1.2, 0.9, 1.1];
        let [lo, hi] = ratio_interval(&run, &run).unwrap();
        assert!(lo < 1.0 && hi > 1.0 && (lo * hi - 1.0).abs() < 1e-9);
        let halved = [0.5, 0.6, 0.45, 0.55];
        let [lo, hi] = ratio_interval(&run, &halved).unwrap();
        assert!(lo < 0.5 && hi > 0.5 && hi < 1.0);
        assert_eq!(ratio_interval(&[1.0], &run), None);
        let [lo, hi] = ratio_interval(&run, &[0.0, 0.0, 0.0]).unwrap();
        assert!(lo < 0.0 + 0.3 && hi < 0.5, "{lo} {hi}");
    }

    #[test]
    fn distance_of_distributions() {
        assert_eq!(ks_distance(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]), 0.0);
        assert_eq!(ks_distance(&[1.0, 2.0], &[3.0, 4.0]), 1.0);
        assert!((ks_distance(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, 9.0]) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn batches_cover_all_values() {
        let values: Vec<(i64, f64)> = (0..100).map(|t| (t, t as f64)).collect();
        let batches = batch_means(&values, 10);
        assert_eq!(batches.len(), 10);
        assert!((batches[0] - 4.5).abs() < 1e-9 && (batches[9] - 94.5).abs() < 1e-9);
    }
}
