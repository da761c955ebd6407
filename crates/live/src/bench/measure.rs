//! Repeating a measurement, and what its repetitions say together.

use std::time::{Duration, Instant};

/// Repetitions that are thrown away: caches, clocks and page tables come to rest.
const WARM_UPS: usize = 2;
/// Fewer repetitions have no quartiles worth the name.
const FEWEST: usize = 5;
/// More add nothing.
const MOST: usize = 500;

/// Median and quartiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Middle.
    pub median: f64,
    /// First quartile.
    pub low: f64,
    /// Third quartile.
    pub high: f64,
    /// Repetitions.
    pub count: usize,
}

impl Spread {
    /// Of values in any order; `None` without a value or where one is not finite.
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (values.len() - 1) as f64;
            let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Some(Self { median: at(0.5), low: at(0.25), high: at(0.75), count: values.len() })
    }

    /// The rate at which `amount` is done in these times.
    pub(super) fn rate_of(self, amount: f64) -> Self {
        Self { median: amount / self.median, low: amount / self.high, high: amount / self.low, count: self.count }
    }
}

/// Repeats `once`, which tells how many seconds it measured, until `budget` is spent: at least five times, unless that takes
/// three times the budget. The first repetitions do not count.
pub(super) fn repeat<E: ToString>(budget: Duration, mut once: impl FnMut() -> Result<f64, E>) -> Result<Spread, String> {
    let started = Instant::now();
    let mut told = || once().map_err(|error| error.to_string());
    for _ in 0..WARM_UPS {
        told()?;
        if started.elapsed() > budget {
            break;
        }
    }
    let mut seconds = Vec::new();
    while seconds.len() < MOST && (started.elapsed() < budget || seconds.len() < FEWEST) {
        seconds.push(told()?);
        if started.elapsed() > 3 * budget {
            break;
        }
    }
    // A clock that did not move gives no rate.
    seconds.retain(|seconds| *seconds > 0.0);
    Spread::of(seconds).ok_or_else(|| "the clock is too coarse for it".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_the_values() {
        let spread = Spread::of(vec![4.0, 1.0, 3.0, 2.0, 5.0]).unwrap();
        assert_eq!((spread.low, spread.median, spread.high, spread.count), (2.0, 3.0, 4.0, 5));
        let spread = Spread::of(vec![1.0, 2.0]).unwrap();
        assert_eq!((spread.low, spread.median, spread.high), (1.25, 1.5, 1.75));
        assert_eq!(Spread::of(vec![]), None);
        assert_eq!(Spread::of(vec![1.0, f64::NAN]), None);
    }

    #[test]
    fn the_longest_time_is_the_lowest_rate() {
        let rate = Spread { median: 2.0, low: 1.0, high: 4.0, count: 3 }.rate_of(8.0);
        assert_eq!((rate.low, rate.median, rate.high), (2.0, 4.0, 8.0));
    }

    #[test]
    fn warm_ups_do_not_count_and_five_repetitions_are_made() {
        let mut calls = 0;
        let spread = repeat(Duration::ZERO, || {
            calls += 1;
            Ok::<f64, String>(if calls == 1 { 100.0 } else { 1.0 })
        });
        // No time at all: one warm-up, then what the limit of three budgets leaves.
        assert_eq!(spread.unwrap(), Spread { median: 1.0, low: 1.0, high: 1.0, count: 1 });
        let mut calls = 0;
        let spread = repeat(Duration::from_millis(20), || {
            calls += 1;
            std::thread::sleep(Duration::from_millis(5));
            Ok::<f64, String>(f64::from(calls))
        });
        let spread = spread.unwrap();
        assert!(spread.count >= 2 && spread.low >= 3.0, "{spread:?}");
    }

    #[test]
    fn a_failure_is_told() {
        assert_eq!(repeat(Duration::ZERO, || Err::<f64, &str>("no device")), Err("no device".to_string()));
    }
}
