//! Building predictions: ratios on the measured baseline, with an interval, or a refusal in words.

use crate::contract::{Direction, Prediction};
use crate::situation::Situation;

/// A prediction under construction.
#[derive(Clone, Debug)]
pub struct Movement {
    prediction: Prediction,
}

impl Movement {
    /// A movement of `signal`, shown as `label`, from what was measured.
    pub fn new(signal: &str, label: &str, unit: &str, direction: Direction, from: Option<f64>) -> Self {
        Self {
            prediction: Prediction {
                signal: signal.into(),
                label: label.into(),
                primary: false,
                guard: false,
                direction,
                from,
                to: None,
                expected: None,
                unit: unit.into(),
                basis: String::new(),
            },
        }
    }

    /// A movement of time to first token, at the outermost vantage there is; typed figures are no means.
    pub fn first_token(situation: &Situation<'_>, direction: Direction) -> Self {
        let (signal, label) = match situation.account.vantage {
            "client" => ("client.ttft.mean", "TTFT mean"),
            "typed" => ("client.ttft", "TTFT"),
            _ => ("server.ttft.mean", "TTFT mean"),
        };
        let now_s = situation.account.first_token_mean_s();
        Self::new(signal, label, "s", direction, (now_s > 0.0).then_some(now_s))
    }

    /// The movement that decides.
    #[must_use]
    pub fn primary(mut self) -> Self {
        self.prediction.primary = true;
        self
    }

    /// One that must not leave its interval.
    #[must_use]
    pub fn guard(mut self) -> Self {
        self.prediction.guard = true;
        self
    }

    /// Where it goes, and by which model. An interval that is no interval is left out.
    #[must_use]
    pub fn to(mut self, lo: f64, hi: f64, basis: &str) -> Self {
        if lo.is_finite() && hi.is_finite() && lo <= hi {
            self.prediction.to = Some([lo, hi]);
        }
        self.prediction.basis = basis.into();
        self
    }

    /// No number, and why.
    #[must_use]
    pub fn refused(mut self, why: &str) -> Self {
        self.prediction.basis = why.into();
        self
    }

    /// The finished prediction.
    pub fn build(self) -> Prediction {
        self.prediction
    }
}
