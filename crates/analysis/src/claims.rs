//! What a check may say about time: a claim on part of a phase. Never a share, never a score.

use crate::phase::Phase;

/// How the seconds of a claim were obtained, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Basis {
    /// Intervals, or counter sums that Little's law closes.
    Measured,
    /// Computed from measured figures.
    Derived,
    /// What would not have been spent under another setting, by the step law or a roofline.
    Counterfactual,
    /// Typed by hand.
    Typed,
    /// Only a bound is known.
    Bound,
}

impl Basis {
    /// Weight of this basis in the confidence (attribution, section 5).
    pub fn weight(self) -> f64 {
        match self {
            Self::Measured => 0.95,
            Self::Derived => 0.85,
            Self::Counterfactual => 0.75,
            Self::Typed => 0.7,
            Self::Bound => 0.6,
        }
    }

    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Derived => "derived",
            Self::Counterfactual => "counterfactual",
            Self::Typed => "typed",
            Self::Bound => "bound",
        }
    }
}

/// How much of a phase is claimed.
#[derive(Clone, Debug, PartialEq)]
pub enum Extent {
    /// Everything in these runs of time (start, end), sorted and disjoint.
    Intervals(Vec<(i64, i64)>),
    /// A share of the phase's full size, low, middle and high.
    Fraction {
        /// Low end.
        lo: f64,
        /// Best estimate.
        mid: f64,
        /// High end.
        hi: f64,
    },
}

impl Extent {
    /// A share known exactly.
    pub fn exactly(share: f64) -> Self {
        Self::Fraction { lo: share, mid: share, hi: share }
    }
}

/// A claim of one check on one phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Phase claimed from.
    pub phase: Phase,
    /// How much.
    pub what: Extent,
    /// How it is known.
    pub basis: Basis,
}
