//! What a change would do: the capture's own requests sent through the scheduler simulation twice, as they were and with
//! the change, and the ratio of the two carried over to what was measured.
//!
//! The simulated engine is fitted to the run first ([`fit`]); how well it repeats the run is printed beside every answer.
//! Changes compose by running them together, never by multiplying gains. Where nobody can know (a first-token time beside
//! saturation, reuse that was not recorded, drafts whose price was not measured) the answer is refused, with what would
//! tell. Left out: changes of quality, and engines whose scheduler differs from vLLM's in more than its limits.

mod baseline;
mod figures;
mod fit;
mod interval;
mod levers;
mod row_law;
mod scenario;
mod score;
mod search;

use capture::Capture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use levers::{Lever, all as levers};
pub use score::{Scored, score};
pub use search::{Goal, search};

use baseline::Baseline;
use figures::{Figures, Metric};
use scenario::Scenario;

/// Schema id of [`WhatIf`].
pub const WHATIF_SCHEMA: &str = "inferoscope.whatif/1";

/// Why there is no answer at all.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Refusal {
    /// No lever has this name.
    #[error("`{key}` is nothing that can be changed here; there are {known}")]
    UnknownLever {
        /// As typed.
        key: String,
        /// All names.
        known: String,
    },
    /// A value that the lever does not take.
    #[error("`{key}`: expected {expected}, found `{found}`")]
    Value {
        /// Lever.
        key: String,
        /// What it takes.
        expected: String,
        /// As typed.
        found: String,
    },
    /// The capture does not hold what a replay needs.
    #[error("the capture cannot be replayed: {missing}; {record}")]
    NoBaseline {
        /// What is missing.
        missing: String,
        /// How to record it.
        record: String,
    },
    /// What the change does depends on something that was not recorded.
    #[error("what `{key}` does cannot be known from this capture: {why}; {record}")]
    Unknowable {
        /// Lever.
        key: String,
        /// What is missing.
        why: String,
        /// How to record it.
        record: String,
    },
    /// The simulation does not run such a system.
    #[error(transparent)]
    Config(#[from] simulate::ConfigError),
}

/// A figure with its range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Range {
    /// Not below this, nine times out of ten.
    pub low: f64,
    /// Best single figure.
    pub mid: f64,
    /// Not above this, nine times out of ten.
    pub high: f64,
}

impl Range {
    /// A figure known exactly.
    pub fn exact(value: f64) -> Self {
        Self { low: value, mid: value, high: value }
    }

    fn times(self, factor: f64) -> Self {
        Self { low: self.low * factor, mid: self.mid * factor, high: self.high * factor }
    }
}

/// One thing that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Set {
    /// Lever.
    pub key: String,
    /// Value of the capture.
    pub from: String,
    /// Where that was read: `measured`, `setting`, or `assumed`.
    pub from_source: String,
    /// New value.
    pub to: String,
}

/// One predicted figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Predicted {
    /// `ttft.mean`, `ttft.p99`, `tpot.mean`, `e2e.mean`, `e2e.p99`, `throughput.output`.
    pub name: String,
    /// `s` or `tok/s`.
    pub unit: String,
    /// As measured, where it was.
    pub measured: Option<f64>,
    /// The same figure of the simulated run as it was.
    pub simulated: f64,
    /// New over old; empty where refused.
    pub ratio: Option<Range>,
    /// Measured (or, without, simulated) times the ratio.
    pub value: Option<Range>,
    /// Why no number is given.
    pub refused: Option<String>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIf {
    /// [`WHATIF_SCHEMA`].
    pub schema: String,
    /// Always true: predictions come from a simulation.
    pub simulated: bool,
    /// `ratio` where the run was measured and repeated by the simulation; `bound` where the simulation does not repeat it.
    pub tier: String,
    /// What was changed.
    pub changes: Vec<Set>,
    /// The figures.
    pub metrics: Vec<Predicted>,
    /// What limits the run as it was.
    pub binding_before: String,
    /// What would limit it.
    pub binding_after: String,
    /// True when the changed system does not keep up with the load.
    pub saturated: bool,
    /// Requests replayed.
    pub requests: u64,
    /// How far the simulated run is from the measured one, by figure: simulated over measured.
    pub fidelity: Vec<(String, f64)>,
    /// What was read off the capture.
    pub measured: Vec<String>,
    /// What was assumed.
    pub assumed: Vec<String>,
    /// What to keep in mind.
    pub warnings: Vec<String>,
}

/// Predicts arm `run_idx` of a capture under the settings given as (lever, value), all of them together.
pub fn what_if(capture: &Capture, run_idx: u32, sets: &[(String, String)]) -> Result<WhatIf, Refusal> {
    let baseline = Baseline::read(capture, run_idx)?;
    predict(&baseline, sets)
}

fn predict(baseline: &Baseline, sets: &[(String, String)]) -> Result<WhatIf, Refusal> {
    let mut changes = Vec::new();
    let mut outcomes = Vec::with_capacity(baseline.scenarios.len());
    for scenario in &baseline.scenarios {
        let (changed, made) = levers::apply(scenario, sets)?;
        outcomes.push((Figures::simulate(scenario)?, Figures::simulate(&changed)?, changed));
        changes = made;
    }
    let middle = outcomes.len() / 2;
    let (old, new, changed) = &outcomes[middle];
    let width = interval::width(changed);
    let is_changed = outcomes.iter().any(|(old, new, _)| old != new) || changes.iter().any(|change| change.from != change.to);
    let metrics = Metric::ALL
        .iter()
        .map(|&metric| {
            let pairs: Vec<(f64, f64)> = outcomes.iter().map(|(old, new, _)| (old.get(metric), new.get(metric))).collect();
            let ratio = if is_changed { interval::ratio(&pairs, middle, width, metric.is_tail()) } else { Some(Range::exact(1.0)) };
            let refused = if is_changed { refusal(metric, old, new, ratio, changed) } else { None };
            one(metric, baseline.measured.get(metric), old, ratio, refused)
        })
        .collect();
    let fidelity = baseline.fidelity(old);
    let repeats = fidelity.iter().all(|(_, ratio)| (0.75..=1.34).contains(ratio));
    let mut warnings: Vec<String> = changed.warnings.clone();
    if !repeats {
        warnings.push("the simulation does not repeat the measured run within a quarter: read the ratios as directions".to_string());
    }
    Ok(WhatIf {
        schema: WHATIF_SCHEMA.into(),
        simulated: true,
        tier: if repeats && baseline.is_measured() { "ratio" } else { "bound" }.into(),
        changes,
        metrics,
        binding_before: old.binding().into(),
        binding_after: new.binding().into(),
        saturated: new.saturated,
        requests: baseline.scenarios[middle].workload.requests().len() as u64,
        fidelity,
        measured: baseline.told.clone(),
        assumed: changed.assumed.clone(),
        warnings,
    })
}

/// A range this wide around no change tells nothing.
const UNTOLD: f64 = 5.0;

/// Why a figure is not told.
fn refusal(metric: Metric, old: &Figures, new: &Figures, ratio: Option<Range>, changed: &Scenario) -> Option<String> {
    let unknowable = || changed.unknowable.iter().find(|(of, _)| *of == metric).map(|(_, why)| why.clone());
    let saturated = || {
        (new.saturated && metric.is_wait()).then(|| {
            format!(
                "saturated: the load asks for more than {:.0} tok/s, which the changed system makes; the wait then grows as long as the load lasts",
                new.tokens_per_s
            )
        })
    };
    let none_left = || (old.get(metric) > 0.0 && new.get(metric) <= 0.0).then(|| "no time passes: everything arrives at once".to_string());
    let straddles = || {
        ratio.filter(|range| range.low < 0.8 && range.high > 1.25 && range.high > UNTOLD * range.low).map(|range| {
            format!("between {:.2} and {:.2} times: the capture does not tell the step law well enough to say which", range.low, range.high)
        })
    };
    unknowable().or_else(saturated).or_else(none_left).or_else(straddles)
}

/// One figure, without a number where it is refused.
fn one(metric: Metric, measured: Option<f64>, old: &Figures, ratio: Option<Range>, refused: Option<String>) -> Predicted {
    let refused = refused.or_else(|| ratio.is_none().then(|| "no request has this figure".to_string()));
    let ratio = ratio.filter(|_| refused.is_none());
    Predicted {
        name: metric.name().into(),
        unit: metric.unit().into(),
        measured,
        simulated: old.get(metric),
        value: ratio.map(|ratio| ratio.times(measured.unwrap_or(old.get(metric)))),
        ratio,
        refused,
    }
}
