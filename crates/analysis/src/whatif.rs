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
mod foretold;
mod interval;
mod levers;
mod measured;
mod refused;
mod row_law;
mod scenario;
mod score;
mod search;
mod surroundings;
mod trial;

use capture::Capture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use foretold::{Foretold, Told};
pub use levers::{Lever, all as levers, setting_of};
pub use refused::Untold;
pub use scenario::Holds;
pub use score::{Scored, score};
pub use search::{Goal, search};

use baseline::Baseline;
use trial::Trial;

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
    /// Requests per second that the run's system serves at most, from one end of the step laws that fit it to the other.
    #[serde(default)]
    pub ceiling_before: Option<Range>,
    /// The same of the changed system.
    #[serde(default)]
    pub ceiling_after: Option<Range>,
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
    Ok(Trial::run(baseline, sets)?.what_if(baseline))
}
