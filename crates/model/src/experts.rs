//! Experts on ranks: how uneven their load is, and what ranks that wait for each other lose.
//!
//! A step waits for the rank with the most work. Measured loads are best; without them random routing gives what chance
//! alone does, which is a lower bound: real routers favor some experts. Placement and replication of experts are left out.

use crate::memory::plausible;
use crate::queueing::normal_quantile;

/// Load of the fullest rank over the mean from measured loads per rank, `None` without a positive mean.
pub fn imbalance_of(loads: &[f64]) -> Option<f64> {
    let loads: Vec<f64> = loads.iter().map(|load| plausible(*load)).collect();
    let mean = loads.iter().sum::<f64>() / loads.len().max(1) as f64;
    (mean > 0.0).then(|| loads.iter().fold(0.0f64, |most, load| most.max(*load)) / mean)
}

/// The same by chance: `tokens` tokens that each choose `per_token` experts at random, on `ranks` ranks. The load of a rank is
/// binomial, and the largest of `n` normal values lies at the quantile `(n - 0.375) / (n + 0.25)` (Blom). At most
/// `ranks`, where one rank has everything.
pub fn imbalance_by_chance(tokens: f64, per_token: u32, ranks: u32) -> f64 {
    let n = f64::from(ranks.max(1));
    let choices = plausible(tokens) * f64::from(per_token);
    if ranks <= 1 || choices <= 0.0 {
        return 1.0;
    }
    let (mean, deviation) = (choices / n, (choices / n * (1.0 - 1.0 / n)).sqrt());
    (1.0 + normal_quantile((n - 0.375) / (n + 0.25)).max(0.0) * deviation / mean).min(n)
}

/// Time of a step on ranks that wait for the slowest, over the mean: `n` ranks whose times vary by `spread_frac` of the mean.
pub fn slowest_of(ranks: u32, spread_frac: f64) -> f64 {
    let n = f64::from(ranks.max(1));
    if ranks <= 1 { 1.0 } else { 1.0 + normal_quantile((n - 0.375) / (n + 0.25)).max(0.0) * plausible(spread_frac).min(1e6) }
}

/// Imbalance up to which whole experts on ranks beat experts cut by tensor parallelism (judgement).
pub const TOLERABLE_IMBALANCE: f64 = 1.3;

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDS: u32 = 200;

    /// Draws with a fixed congruential generator.
    fn drawn(tokens: u32, per_token: u32, ranks: u32) -> f64 {
        let (mut state, mut sum) = (7u64, 0.0);
        for _ in 0..ROUNDS {
            let mut loads = vec![0.0; ranks as usize];
            for _ in 0..tokens * per_token {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                loads[((state >> 33) % u64::from(ranks)) as usize] += 1.0;
            }
            sum += imbalance_of(&loads).unwrap();
        }
        sum / f64::from(ROUNDS)
    }

    #[test]
    fn chance_agrees_with_draws() {
        for (tokens, per_token, ranks) in [(64, 8, 8), (256, 8, 8), (512, 4, 16), (128, 8, 2)] {
            let (computed, drawn) = (imbalance_by_chance(f64::from(tokens), per_token, ranks), drawn(tokens, per_token, ranks));
            assert!((computed / drawn - 1.0).abs() < 0.03, "{tokens} {per_token} {ranks}: {computed:.3} {drawn:.3}");
        }
    }

    #[test]
    fn measured_loads_and_odd_numbers() {
        assert_eq!(imbalance_of(&[1.0, 1.0, 2.0, 0.0]), Some(2.0));
        assert_eq!(imbalance_of(&[]), None);
        assert_eq!(imbalance_of(&[0.0, f64::NAN]), None);
        assert_eq!(imbalance_by_chance(100.0, 8, 1), 1.0);
        assert_eq!(imbalance_by_chance(f64::NAN, 8, 8), 1.0);
        assert!(imbalance_by_chance(1.0, 1, 8) <= 8.0);
        assert!(slowest_of(8, 0.1) > 1.13 && slowest_of(8, 0.1) < 1.16);
    }
}
