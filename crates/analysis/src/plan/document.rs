//! The plan as a document: what `plan --json` prints and every view reads. Fields are added, never renamed.
//!
//! Figures are in base units (`s`, `token/s`, `byte`, `ratio`); ranges are low and high ends. Tables carry their units in
//! their columns, so that one view writes them all.

use schemars::JsonSchema;
use serde::Serialize;

/// Version of the document.
pub const PLAN_SCHEMA: &str = "inferoscope.plan/1";

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Plan {
    /// [`PLAN_SCHEMA`].
    pub schema: String,
    /// What is planned.
    pub subject: Subject,
    /// For which requests.
    pub workload: WorkloadFacts,
    /// Towards what.
    pub goal: Goal,
    /// The answer.
    pub verdict: PlanVerdict,
    /// The deployment as given, when it runs.
    pub now: Option<Predicted>,
    /// Why it does not run.
    pub now_refused: Option<String>,
    /// After everything in `first`.
    pub after: Option<Predicted>,
    /// What to do, in this order; each is predicted on top of the one before.
    pub first: Vec<Action>,
    /// What not to do, each predicted on top of all of `first`.
    pub not: Vec<Action>,
    /// The smallest number of these devices that keeps the limits.
    pub smallest: Option<Sizing>,
    /// The six steps.
    pub steps: Vec<StepAnswer>,
    /// What was assumed or simulated, a sentence each.
    pub assumptions: Vec<String>,
}

/// What is planned.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Subject {
    /// Model.
    pub model: String,
    /// Where its shape was read.
    pub model_source: String,
    /// Device.
    pub gpu: String,
    /// Whether its row was read in a source: `read`, `partly-unverified`, `unverified`.
    pub gpu_verification: String,
    /// Devices.
    pub gpu_count: u32,
    /// The layout, for people.
    pub layout: String,
}

/// The requests, in figures.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WorkloadFacts {
    /// Where they come from.
    pub source: String,
    /// How many were read; 0 where only lengths were given.
    pub request_count: u64,
    /// Mean prompt tokens.
    pub prompt_tokens_mean: f64,
    /// Median, 90th and 99th percentile.
    pub prompt_tokens_p: [f64; 3],
    /// Mean output tokens.
    pub output_tokens_mean: f64,
    /// Median, 90th and 99th percentile.
    pub output_tokens_p: [f64; 3],
    /// Requests per second; nothing where as many as fit are kept in flight.
    pub rate_per_s: Option<f64>,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Goal {
    /// `latency` or `throughput`.
    pub objective: String,
    /// Limits, for people: `TTFT p99 1.00 s`.
    pub limits: Vec<String>,
    /// Price of a device per hour.
    pub price_per_gpu_h: Option<f64>,
}

/// How a plan ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// The limits are kept as it is.
    KeptNow,
    /// They are kept after the plan.
    KeptAfter,
    /// There are no limits; the plan says what is gained.
    NoLimits,
    /// Nothing here keeps them.
    OutOfReach,
    /// It does not fit, whatever is tried.
    DoesNotFit,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PlanVerdict {
    /// How it ends.
    pub status: PlanStatus,
    /// The same in a sentence or two.
    pub sentence: String,
    /// What binds the deployment as given.
    pub binding: Option<String>,
}

/// A figure with its range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ranged {
    /// Low end.
    pub low: f64,
    /// Best single figure.
    pub mid: f64,
    /// High end.
    pub high: f64,
}

/// Whether limits are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// Not even in the middle of the range.
    No,
    /// In the middle of the range, not at its bad end.
    Likely,
    /// At the bad end of the range too, or there are none.
    Yes,
}

/// One deployment under the load, predicted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Predicted {
    /// The layout, for people.
    pub layout: String,
    /// Devices.
    pub gpu_count: u32,
    /// What the ranges rest on: `calibrated` or `ratio`.
    pub tier: String,
    /// Time per output token, mean, seconds.
    pub tpot_s: Ranged,
    /// Time to the first token, mean, seconds, simulated; nothing near saturation, where it is not predictable.
    pub ttft_s: Option<Ranged>,
    /// The same at the percentile asked for, 0.99 when none is.
    pub ttft_tail_s: Option<Ranged>,
    /// Output tokens per second that are served.
    pub tokens_per_s: Ranged,
    /// Requests per second that can be served.
    pub capacity_per_s: Ranged,
    /// Arrivals over that; nothing where as many as fit are kept in flight.
    pub utilization: Option<Ranged>,
    /// Requests that fit.
    pub requests_fit: f64,
    /// Requests in flight.
    pub requests_running: f64,
    /// KV capacity of all devices, tokens.
    pub kv_tokens: Ranged,
    /// Share of prompt tokens found in the prefix cache.
    pub cached_frac: f64,
    /// No implementation has a shorter time per output token, seconds.
    pub tpot_bound_s: f64,
    /// The largest part of a step.
    pub binding: String,
    /// Requests per second at which the asked share of requests keeps all limits, simulated.
    pub goodput_per_s: Option<Ranged>,
    /// Price of a million output tokens at this load.
    pub cost_per_million_tokens: Option<Ranged>,
    /// Whether the limits are kept.
    pub kept: Kept,
}

/// A change and what it does.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Action {
    /// Short name.
    pub id: String,
    /// The step it belongs to.
    pub step: String,
    /// What to do.
    pub what: String,
    /// The engine's flag, as vLLM spells it, where there is one.
    pub flag: Option<String>,
    /// Why, or why not.
    pub why: String,
    /// What it may cost besides.
    pub risk: Option<String>,
    /// Before it; nothing where that does not run.
    pub before: Option<Predicted>,
    /// After it; nothing where it was not predicted.
    pub after: Option<Predicted>,
}

/// The smallest number of devices.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Sizing {
    /// Devices.
    pub gpu_count: u32,
    /// The layout, for people.
    pub layout: String,
    /// How it runs.
    pub predicted: Predicted,
}

/// What a step answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepVerdict {
    /// Something is to be done.
    Do,
    /// Nothing is.
    #[default]
    Fine,
    /// It would cost more than it brings.
    DoNot,
    /// Evidence is missing; the answer names the command that gets it.
    CannotTell,
}

/// One of the six steps, answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct StepAnswer {
    /// Which.
    pub step: String,
    /// What it asks.
    pub question: String,
    /// The answer in a word.
    pub verdict: StepVerdict,
    /// The answer in a sentence or two.
    pub answer: String,
    /// Figures.
    pub figures: Vec<Figure>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// A figure of a step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// Its value in base units.
    pub value: f64,
    /// Its range, where it has one.
    pub range: Option<[f64; 2]>,
    /// Base unit.
    pub unit: String,
}

impl Figure {
    /// A figure without range.
    pub(super) fn new(name: impl Into<String>, value: f64, unit: &str) -> Self {
        Self { name: name.into(), value, range: None, unit: unit.into() }
    }

    /// A figure with its range.
    pub(super) fn ranged(name: impl Into<String>, estimate: model::memory::Estimate, unit: &str) -> Self {
        Self { range: Some([estimate.lo, estimate.hi]), ..Self::new(name, estimate.mid, unit) }
    }
}

/// A table of a step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows of as many cells as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table with columns of names and units; a unit of `text` is for words.
    pub(super) fn new(title: impl Into<String>, columns: &[(&str, &str)]) -> Self {
        let columns = columns.iter().map(|(name, unit)| Column { name: (*name).into(), unit: (*unit).into() }).collect();
        Self { title: title.into(), columns, rows: Vec::new() }
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Base unit of its numbers.
    pub unit: String,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Cell {
    /// A number in the column's unit.
    Number(f64),
    /// Words.
    Text(String),
    /// Nothing to say.
    Empty(()),
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Empty(()), Into::into)
    }
}

impl From<model::memory::Estimate> for Ranged {
    fn from(estimate: model::memory::Estimate) -> Self {
        Self { low: estimate.lo, mid: estimate.mid, high: estimate.hi }
    }
}
