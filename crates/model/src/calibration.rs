//! Coefficients of the step function, how sure they are, and how wide a forecast made with them is.
//!
//! [`calibrate`] fits measured rows and then leaves out one group of them after the other, to see how far forecasts of rows
//! it did not see are off: that is the stated range, not the residual of the fit. [`published`] is the same for published
//! runs, shipped in `data/calibration.json`. Per-engine coefficients were tried and left out: on models that the fit had
//! not seen they were no better than pooled ones.

mod bands;
mod fit;

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

pub use bands::{Lever, LeverBands, Pair, REQUESTS_PER_SEAT, UNSEEN_MODEL, pairs, splits};
pub(crate) use bands::{quantile, repeats};
pub use fit::{FewRows, Fit, LEAST_ROWS, PRIOR, PRIOR_SPREAD, fit};

use crate::deployment::{Deployment, Load, Unpredictable};
use crate::memory::{Dtype, Estimate};
use crate::models::Kind;
use crate::prediction::{Loop, bound};
use crate::step_time::Coefficients;

/// Factors around a forecast that hold nine of ten outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// Lower factor, at most 1.
    pub lo: f64,
    /// Upper factor, at least 1.
    pub hi: f64,
}

impl Band {
    /// A band as wide downwards as upwards, from the logarithm of its upper factor.
    pub fn symmetric(log_width: f64) -> Self {
        let width = if log_width.is_finite() { log_width.clamp(0.0, 10.0) } else { 10.0 };
        Self { lo: (-width).exp(), hi: width.exp() }
    }

    /// The range around a forecast; nothing in it is below `floor`.
    pub fn around(&self, middle: f64, floor: f64) -> Estimate {
        let mid = middle.max(floor);
        Estimate { lo: (middle * self.lo).max(floor).min(mid), mid, hi: (middle * self.hi).max(mid) }
    }
}

/// Which runs a calibration rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Published runs of other systems.
    Published,
    /// The user's own runs.
    Own,
}

/// Coefficients and the width of what they predict.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The figures.
    pub coefficients: Coefficients,
    /// Nine-in-ten intervals of the figures, in the order of [`Coefficients::NAMES`].
    pub intervals: [Estimate; 5],
    /// Range of the time per output token.
    pub tpot: Band,
    /// Range of the time to the first token.
    pub ttft: Band,
    /// Ranges of ratios.
    pub levers: LeverBands,
    /// Rows fitted.
    pub rows: usize,
    /// Groups of rows: one model on one device in one engine and format.
    pub groups: usize,
    /// Whose runs.
    pub origin: Origin,
}

/// One measured run, ready for fitting and scoring.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Line of the file it came from, 0 when it came from elsewhere.
    pub line: usize,
    /// Canonical name of the model.
    pub model: String,
    /// Kind of the model.
    pub kind: Kind,
    /// Name under which the run was published; variants of one model keep apart in pairs.
    pub published_as: String,
    /// Device.
    pub gpu: String,
    /// Engine.
    pub engine: String,
    /// Engine version.
    pub version: String,
    /// Number format of the weights.
    pub weights: Dtype,
    /// Tensor-parallel ranks.
    pub tensor: u32,
    /// Attention data-parallel ranks.
    pub attention_dp: u32,
    /// Ranks over which experts lie whole.
    pub expert_parallel: u32,
    /// Requests in flight.
    pub concurrency: f64,
    /// Prompt tokens.
    pub prompt_tokens: f64,
    /// Output tokens.
    pub output_tokens: f64,
    /// Prefill and decode on separate devices.
    pub disaggregated: bool,
    /// The loop, without coefficients.
    pub closed: Loop,
    /// The bound, seconds.
    pub bound_s: f64,
    /// Measured time per output token, seconds.
    pub tpot_s: f64,
    /// Measured time to the first token, seconds.
    pub ttft_s: Option<f64>,
}

impl Observation {
    /// A run of one's own: what was deployed, what it served, and what was measured, in seconds. `engine` keeps runs of
    /// different engines and versions apart.
    pub fn measured(deployment: &Deployment, load: &Load, engine: &str, tpot_s: f64, ttft_s: Option<f64>) -> Result<Self, Unpredictable> {
        if !(tpot_s > 0.0 && tpot_s < 1e6) {
            return Err(Unpredictable::Number { field: "tpot_s", expected: "above 0 and below 1e6", found: tpot_s });
        }
        Ok(Self {
            line: 0,
            model: deployment.model.name.clone(),
            kind: deployment.model.kind(),
            published_as: deployment.model.name.clone(),
            gpu: deployment.gpu.id.clone(),
            engine: engine.to_owned(),
            version: String::new(),
            weights: deployment.weights,
            tensor: deployment.tensor.max(1),
            attention_dp: deployment.attention_dp.max(1),
            expert_parallel: 1,
            concurrency: load.concurrency,
            prompt_tokens: load.prompt_tokens,
            output_tokens: load.output_tokens,
            disaggregated: false,
            closed: Loop::new(deployment, load)?,
            bound_s: bound(deployment, load)?.tpot_s,
            tpot_s,
            ttft_s: ttft_s.filter(|ttft_s| *ttft_s > 0.0 && *ttft_s < 1e6),
        })
    }

    /// The group whose rows share what no coefficient knows: model, device, engine and format.
    pub fn group(&self) -> (&str, &str, &str, u8) {
        (&self.model, &self.gpu, &self.engine, self.weights as u8)
    }
}

/// Fits `rows` and measures how wide forecasts from them are.
pub fn calibrate(rows: &[&Observation], origin: Origin) -> Result<Calibration, FewRows> {
    let fitted = fit(rows, None)?;
    let left_out = bands::leave_groups_out(rows, &fitted);
    Ok(Calibration {
        coefficients: fitted.coefficients,
        intervals: fitted.intervals(),
        tpot: bands::tpot_band(&left_out),
        ttft: bands::ttft_band(&left_out),
        levers: bands::lever_bands(rows, &left_out),
        rows: rows.len(),
        groups: left_out.group_count,
        origin,
    })
}

/// The calibration that published runs of a kind of model gave (`data/calibration.json`, made by the example `calibrate`).
pub fn published(kind: Kind) -> &'static Calibration {
    static TABLE: OnceLock<[Calibration; 3]> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let stored: Stored =
            serde_json::from_str(include_str!("../data/calibration.json")).expect("data/calibration.json parses, a test reads it");
        [stored.dense.into(), stored.experts.into(), stored.latent.into()]
    });
    &table[kind as usize]
}

/// The file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stored {
    /// What the file is.
    pub schema: String,
    /// Where its rows come from.
    pub source: String,
    /// One kind each.
    pub dense: StoredKind,
    /// One kind each.
    pub experts: StoredKind,
    /// One kind each.
    pub latent: StoredKind,
}

/// A calibration as the file holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredKind {
    /// Coefficients in the order of [`Coefficients::NAMES`].
    pub coefficients: [f64; 5],
    /// Lower ends of their intervals.
    pub lo: [f64; 5],
    /// Upper ends.
    pub hi: [f64; 5],
    /// Range of TPOT.
    pub tpot: Band,
    /// Range of TTFT.
    pub ttft: Band,
    /// Ranges of ratios by lever.
    pub levers: LeverBands,
    /// Rows fitted.
    pub rows: usize,
    /// Groups.
    pub groups: usize,
}

impl From<StoredKind> for Calibration {
    fn from(stored: StoredKind) -> Self {
        let interval = |at: usize| Estimate { lo: stored.lo[at], mid: stored.coefficients[at], hi: stored.hi[at] };
        Self {
            coefficients: Coefficients::from_array(stored.coefficients),
            intervals: std::array::from_fn(interval),
            tpot: stored.tpot,
            ttft: stored.ttft,
            levers: stored.levers,
            rows: stored.rows,
            groups: stored.groups,
            origin: Origin::Published,
        }
    }
}

impl From<&Calibration> for StoredKind {
    fn from(calibration: &Calibration) -> Self {
        // Four digits say all that the data does, and keep the file the same on every machine.
        let round = |value: f64| format!("{value:.3e}").parse::<f64>().unwrap_or(value);
        let band = |band: Band| Band { lo: round(band.lo), hi: round(band.hi) };
        Self {
            coefficients: calibration.coefficients.to_array().map(round),
            lo: calibration.intervals.map(|interval| round(interval.lo)),
            hi: calibration.intervals.map(|interval| round(interval.hi)),
            tpot: band(calibration.tpot),
            ttft: band(calibration.ttft),
            levers: calibration.levers.map(band),
            rows: calibration.rows,
            groups: calibration.groups,
        }
    }
}
