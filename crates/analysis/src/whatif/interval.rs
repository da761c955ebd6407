//! How sure a predicted ratio is.
//!
//! Three things widen it: laws that fit the run equally well ([`super::fit`] gives the two ends), the simulation's own error,
//! and a change of device, which comes with a range of its own. No change is exactly 1.

use super::Range;
use super::scenario::Scenario;

/// What any change brings: two recordings of one system, minutes apart, differ by as much.
const ANY_CHANGE: f64 = 0.15;
/// The same for the tail of a few hundred requests: three of them make the figure.
const ANY_CHANGE_TAIL: f64 = 0.25;
/// Error of a ratio per doubling or halving: request times of published simulators are off by 7 % in the median and by 15 to
/// 29 % nine times out of ten (BLIS), and nine in ten figures of the recorded pairs lie within the sum (`docs/predictions.md`).
const PER_DOUBLING: f64 = 0.20;
/// However far a figure moves, it is not less sure than this factor.
const MOST: f64 = 2.0;

/// Width that the changed scenario brings.
pub(super) fn width(changed: &Scenario) -> f64 {
    changed.device_width.max(1.0)
}

/// The ratio over all laws, `pairs` being (old, new) with the best in the `middle`; nothing where there is no old figure.
pub(super) fn ratio(pairs: &[(f64, f64)], middle: usize, device_width: f64, is_tail: bool) -> Option<Range> {
    let ratios: Vec<f64> = pairs.iter().filter(|(old, _)| *old > 0.0).map(|(old, new)| new / old).collect();
    if ratios.len() != pairs.len() {
        return None;
    }
    let mid = ratios[middle];
    let (low, high) = ratios.iter().fold((mid, mid), |(low, high), ratio| (low.min(*ratio), high.max(*ratio)));
    let any = if is_tail { ANY_CHANGE_TAIL } else { ANY_CHANGE };
    let factor = |ratio: f64| (1.0 + any + PER_DOUBLING * ratio.max(1e-9).log2().abs()).min(1.0 + MOST) * device_width;
    Some(Range { low: low / factor(low), mid, high: high * factor(high) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_moves_are_less_sure() {
        let width = |to: f64| ratio(&[(1.0, to)], 0, 1.0, false).map(|range| (range.high - range.low) / range.mid).unwrap();
        assert!(width(1.01) < width(1.5) && width(1.5) < width(3.0));
        assert_eq!(ratio(&[(0.0, 1.0)], 0, 1.0, false), None);
        assert!(ratio(&[(1.0, 1.0)], 0, 1.0, true).unwrap().high > ratio(&[(1.0, 1.0)], 0, 1.0, false).unwrap().high);
    }
}
