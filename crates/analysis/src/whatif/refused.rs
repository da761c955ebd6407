//! Why a figure of a change is not told as a number.

use super::Range;
use super::figures::{Figures, Metric};
use super::scenario::Scenario;

/// The reason, for those who act on it; [`Untold::words`] are for people.
#[derive(Clone, Debug, PartialEq)]
pub enum Untold {
    /// What the change does to it depends on something that was not measured.
    Unknowable(String),
    /// The simulated run is too far from the measured one in this figure: simulated over measured.
    Unlike(f64),
    /// The changed system does not keep up; it makes this many tokens per second.
    Saturated(f64),
    /// Nothing is left of it.
    NothingLeft,
    /// From clearly better to clearly worse.
    Straddles(Range),
    /// The run does not have it.
    NoFigure,
}

impl Untold {
    /// One line for people.
    pub fn words(&self) -> String {
        match self {
            Self::Unknowable(why) => why.clone(),
            Self::Unlike(ratio) => format!("the simulation does not repeat this figure: it makes {ratio:.2} times of what was measured"),
            Self::Saturated(tokens_per_s) => format!(
                "saturated: the load asks for more than {tokens_per_s:.0} tok/s, which the changed system makes; the wait then grows as long as the load lasts"
            ),
            Self::NothingLeft => "no time passes: everything arrives at once".into(),
            Self::Straddles(range) => {
                format!(
                    "between {:.2} and {:.2} times: the capture does not tell the step law well enough to say which",
                    range.low, range.high
                )
            }
            Self::NoFigure => "no request has this figure".into(),
        }
    }
}

/// A range this wide around no change tells nothing.
const UNTOLD: f64 = 5.0;
/// A figure that the simulated run makes this many times too large or too small says nothing of a change: on recorded pairs
/// ratios held up to three times (`docs/predictions.md`).
const UNLIKE: f64 = 4.0;

/// True when simulated over measured says that the figure is not repeated.
pub(super) fn is_unlike(fidelity: f64) -> bool {
    !(1.0 / UNLIKE..=UNLIKE).contains(&fidelity)
}

/// Why `metric` is not told; `fidelity` is simulated over measured of it, or of what was measured in its place.
pub(super) fn untold(
    metric: Metric,
    fidelity: Option<f64>,
    old: &Figures,
    new: &Figures,
    ratio: Option<Range>,
    changed: &Scenario,
) -> Option<Untold> {
    if let Some((_, why)) = changed.unknowable.iter().find(|(of, _)| *of == metric) {
        return Some(Untold::Unknowable(why.clone()));
    }
    if old.get(metric) <= 0.0 {
        return Some(Untold::NoFigure);
    }
    if let Some(ratio) = fidelity.filter(|ratio| is_unlike(*ratio)) {
        return Some(Untold::Unlike(ratio));
    }
    if new.saturated && metric.is_wait() {
        return Some(Untold::Saturated(new.tokens_per_s));
    }
    if new.get(metric) <= 0.0 {
        return Some(Untold::NothingLeft);
    }
    let is_wide = |range: &Range| range.low < 0.8 && range.high > 1.25 && range.high > UNTOLD * range.low;
    match ratio {
        Some(range) if is_wide(&range) => Some(Untold::Straddles(range)),
        Some(_) => None,
        None => Some(Untold::NoFigure),
    }
}
