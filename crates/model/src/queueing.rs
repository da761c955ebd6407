//! Little's law, Erlang's formulas and the Poisson spread of how many requests are in a system.
//!
//! Waits near saturation are not predictable as numbers (a capacity error of 22 % became a wait off by 2,000 times in a
//! published report), so everything here says `None` at or past a utilization of 1; callers refuse earlier.

use crate::memory::plausible;

/// Most servers for which the Erlang recursion runs; it is linear in them.
const MOST_SERVERS: u32 = 1_000_000;

/// Little's law: requests in a system that each stay `time_s` and arrive at `rate_per_s`.
pub fn little(rate_per_s: f64, time_s: f64) -> f64 {
    plausible(rate_per_s) * plausible(time_s)
}

/// Probability that an arrival waits with `servers` servers and `offered` = rate x service time (Erlang C), `None` when
/// the load reaches the servers or a number is not usable. By the stable recursion of Erlang B.
pub fn erlang_c(servers: u32, offered: f64) -> Option<f64> {
    if servers == 0 || servers > MOST_SERVERS || !offered.is_finite() || offered < 0.0 || offered >= f64::from(servers) {
        return None;
    }
    let blocked = (1..=servers).fold(1.0, |blocked, server| offered * blocked / (f64::from(server) + offered * blocked));
    let rho = offered / f64::from(servers);
    Some(blocked / (1.0 - rho * (1.0 - blocked)))
}

/// Mean wait before service for Poisson arrivals at `servers` servers whose service time has the squared coefficient of
/// variation `scv`: Erlang C's wait times `(1 + scv) / 2` (Allen and Cunneen). `None` when unstable.
pub fn mmc_wait_s(arrivals_per_s: f64, mean_service_s: f64, servers: u32, scv: f64) -> Option<f64> {
    let usable = |value: f64| value.is_finite() && value >= 0.0;
    if !usable(arrivals_per_s) || !usable(mean_service_s) || !usable(scv) {
        return None;
    }
    let offered = arrivals_per_s * mean_service_s;
    let waits = erlang_c(servers, offered)?;
    let wait_s = waits * mean_service_s / (f64::from(servers) - offered) * (1.0 + scv) / 2.0;
    wait_s.is_finite().then_some(wait_s)
}

/// Smallest `n` with `P(N <= n) >= q` for `N` Poisson with `mean`: how many seats cover a share `q` of the time when
/// none waits. `None` for a mean or share that is not usable. Exact below a mean of 1e6, normal beyond.
pub fn poisson_quantile(mean: f64, q: f64) -> Option<u64> {
    if !mean.is_finite() || !(0.0..1e15).contains(&mean) || !(0.0..1.0).contains(&q) {
        return None;
    }
    if mean > 1e6 {
        return Some((mean + normal_quantile(q) * mean.sqrt()).max(0.0).ceil() as u64);
    }
    // Start 12 deviations below the mean, where nothing is left, with the density by Stirling's series.
    let start = (mean - 12.0 * mean.sqrt()).max(0.0).floor();
    let mut density = (start * mean.max(f64::MIN_POSITIVE).ln() - mean - ln_factorial(start)).exp();
    let (mut n, mut below) = (start, density);
    while below < q && n < mean + 40.0 * mean.sqrt() + 100.0 {
        n += 1.0;
        density *= mean / n;
        below += density;
    }
    Some(n as u64)
}

/// `ln n!`, exact sums for small `n`, Stirling's series beyond.
fn ln_factorial(n: f64) -> f64 {
    if n < 32.0 {
        return (2..=n as u32).map(|k| f64::from(k).ln()).sum();
    }
    n * n.ln() - n + 0.5 * (2.0 * std::f64::consts::PI * n).ln() + 1.0 / (12.0 * n) - 1.0 / (360.0 * n.powi(3))
}

/// Standard normal quantile, error below 5e-4 (Abramowitz and Stegun 26.2.23).
pub(crate) fn normal_quantile(q: f64) -> f64 {
    let tail = q.min(1.0 - q).max(1e-300);
    let t = (-2.0 * tail.ln()).sqrt();
    let top = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let bottom = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let z = t - top / bottom;
    if q < 0.5 { -z } else { z }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn textbook_values() {
        // One server: Erlang C is the utilization. Two servers at 1 Erlang: 1/3. Ten at 8: 0.409.
        assert!((erlang_c(1, 0.7).unwrap() - 0.7).abs() < 1e-12);
        assert!((erlang_c(2, 1.0).unwrap() - 1.0 / 3.0).abs() < 1e-12);
        assert!((erlang_c(10, 8.0).unwrap() - 0.409).abs() < 5e-4);
        // M/M/1 at 0.8: four service times; M/D/1: half of that.
        assert!((mmc_wait_s(0.8, 1.0, 1, 1.0).unwrap() - 4.0).abs() < 1e-9);
        assert!((mmc_wait_s(0.8, 1.0, 1, 0.0).unwrap() - 2.0).abs() < 1e-9);
        assert!((little(9.4, 2.4) - 22.56).abs() < 1e-9);
    }

    #[test]
    fn poisson_tables() {
        for (mean, q, expected) in
            [(0.0, 0.99, 0), (1.0, 0.5, 1), (10.0, 0.95, 15), (30.2, 0.99, 44), (100.0, 0.5, 100), (1000.0, 0.99, 1074)]
        {
            assert_eq!(poisson_quantile(mean, q), Some(expected), "{mean} {q}");
        }
        let (exact, normal) = (poisson_quantile(9.9e5, 0.99).unwrap(), poisson_quantile(1.01e6, 0.99).unwrap());
        assert!((exact as f64 - (9.9e5 + 2.326 * 9.9e5f64.sqrt())).abs() < 5.0, "{exact}");
        assert!((normal as f64 - (1.01e6 + 2.326 * 1.01e6f64.sqrt())).abs() < 5.0, "{normal}");
    }

    #[test]
    fn saturated_or_unusable_is_no_number() {
        assert_eq!(mmc_wait_s(9.8, 1.0, 9, 1.0), None);
        assert_eq!(erlang_c(0, 0.0), None);
        assert_eq!(erlang_c(u32::MAX, 1.0), None);
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(erlang_c(4, bad), None);
            assert_eq!(mmc_wait_s(bad, 1.0, 4, 1.0), None);
            assert_eq!(mmc_wait_s(1.0, 1.0, 4, bad), None);
            assert_eq!(poisson_quantile(bad, 0.9), None);
            assert_eq!(poisson_quantile(1.0, bad), None);
        }
    }

    proptest! {
        #[test]
        fn waits_grow_with_load_and_shrink_with_servers(load in 0.01..0.98f64, servers in 1u32..300) {
            let offered = load * f64::from(servers);
            let waits = erlang_c(servers, offered).unwrap();
            prop_assert!((0.0..=1.0).contains(&waits));
            prop_assert!(erlang_c(servers, offered * 1.01).unwrap() >= waits);
            prop_assert!(erlang_c(servers + 1, offered).unwrap() <= waits);
        }

        #[test]
        fn quantiles_are_ordered_and_near_the_mean(mean in 0.0..1e4f64, q in 0.01..0.98f64) {
            let (here, above) = (poisson_quantile(mean, q).unwrap(), poisson_quantile(mean, q + 0.01).unwrap());
            prop_assert!(here <= above);
            prop_assert!((here as f64 - mean).abs() <= 4.0 * mean.sqrt() + 5.0);
        }
    }
}
