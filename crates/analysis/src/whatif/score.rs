//! How predictions came out: what was said of one run held against another that differs in the change.

use capture::Capture;

use super::{Predicted, Refusal, WhatIf, what_if};
use crate::whatif::baseline::Baseline;
use crate::whatif::figures::Metric;

/// One figure predicted and measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// The prediction.
    pub predicted: Predicted,
    /// Measured after over measured before.
    pub measured_ratio: f64,
}

/// Movements below this have no direction: two recordings of one system differ as much.
const NO_MOVE: f64 = 0.05;

impl Scored {
    /// |predicted / measured - 1|; nothing where the figure was refused.
    pub fn error_frac(&self) -> Option<f64> {
        self.predicted.ratio.map(|ratio| (ratio.mid / self.measured_ratio - 1.0).abs())
    }

    /// True when the measured ratio lies in the stated range; nothing where the figure was refused.
    pub fn is_inside(&self) -> Option<bool> {
        self.predicted.ratio.map(|ratio| (ratio.low..=ratio.high).contains(&self.measured_ratio))
    }

    /// False when the range excludes the direction in which the figure moved; nothing where it was refused or did not move.
    pub fn is_sign_right(&self) -> Option<bool> {
        let ratio = self.predicted.ratio.filter(|_| (self.measured_ratio - 1.0).abs() >= NO_MOVE)?;
        Some(if self.measured_ratio > 1.0 { ratio.high > 1.0 } else { ratio.low < 1.0 })
    }
}

/// Predicts `before` under `sets` and holds each figure that both runs measured against `after`.
pub fn score(before: &Capture, after: &Capture, sets: &[(String, String)]) -> Result<(WhatIf, Vec<Scored>), Refusal> {
    let answer = what_if(before, 0, sets)?;
    let after = Baseline::measured(after, 0);
    let scored = answer.metrics.iter().zip(Metric::ALL).filter_map(|(predicted, metric)| {
        let (old, new) = (predicted.measured?, after.get(metric)?);
        (old > 0.0 && new > 0.0).then(|| Scored { predicted: predicted.clone(), measured_ratio: new / old })
    });
    let scored = scored.collect();
    Ok((answer, scored))
}
