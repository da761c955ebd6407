//! What every step asks: the deployment as given, what could be changed about it, and the calibration all figures use.

use std::cell::RefCell;
use std::collections::HashMap;

use model::calibration::{Band, Calibration, Lever, published};
use model::deployment::{Deployment, Unpredictable};
use model::memory::{Dtype, Estimate};
use model::models::ModelShape;
use model::prediction::{Loop, Tier};
use model::step_time::Coefficients;

use super::document::{Goal, Subject};
use super::input::{Objective, PlanError, PlanInput, Slo, Statistic, native_weights};
use super::operating::{Operating, operate};
use super::traffic::Offered;
use crate::words::seconds;

/// One way to run the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Setting<'a> {
    /// Model on devices.
    pub(super) deployment: Deployment<'a>,
    /// Whether blocks of prompts are found again.
    pub(super) prefix_caching: bool,
    /// Whether requests go to the replica that has their prefix.
    pub(super) prefix_routing: bool,
    /// KV cache of one attention rank, tokens, filled in by [`Setting::settled`].
    pub(super) kv_tokens_per_rank: f64,
}

impl<'a> Setting<'a> {
    fn of(deployment: Deployment<'a>) -> Self {
        Self { deployment, prefix_caching: true, prefix_routing: false, kv_tokens_per_rank: 0.0 }
    }

    /// The same with another deployment.
    pub(super) fn with(&self, deployment: Deployment<'a>) -> Self {
        Self { deployment, ..*self }
    }

    /// Attention ranks of all replicas, each with a KV cache of its own.
    pub(super) fn attention_ranks(&self) -> f64 {
        f64::from(self.deployment.attention_dp.max(1)) * f64::from(self.deployment.replicas.max(1))
    }

    /// KV tokens of one attention rank for requests of `context` tokens: layers with a window or a state hold less than
    /// their bytes per token say, so the requests that fit decide where the cap does not.
    pub(super) fn kv_per_rank(&self, context: f64) -> Estimate {
        let capacity = self.deployment.kv_capacity();
        let uncapped = Deployment { max_num_seqs: f64::MAX, ..self.deployment };
        let by_requests = uncapped.sequences_that_fit(context) * context;
        // The reserve of an uncapped engine is that of 1,024 seats: only windows make a difference beyond it.
        let factor = if capacity.mid > 0.0 { (by_requests / capacity.mid).max(1.0) } else { 1.0 };
        if self.deployment.model.windowed_layers > 0 || self.deployment.model.state_layers > 0 {
            capacity.map(|tokens| tokens * factor)
        } else {
            capacity
        }
    }

    /// `FP8 weights, BF16 KV, TP4 x 2 replicas`.
    pub(super) fn layout(&self) -> String {
        let d = &self.deployment;
        let mut parts = vec![format!("{} weights", dtype_words(d.weights)), format!("{} KV", dtype_words(d.kv))];
        if d.gpu_count() > 1 {
            let mut layout = format!("TP{}", d.tensor.max(1));
            if d.attention_dp > 1 {
                layout = format!("attention DP{}", d.attention_dp);
            }
            if d.replicas > 1 {
                layout.push_str(&format!(" x {} replicas", d.replicas));
            }
            parts.push(layout);
        }
        if let Some(speculation) = d.speculation {
            parts.push(format!("{} drafts", speculation.drafts));
        }
        parts.join(", ")
    }
}

/// Words for a number format.
pub(super) fn dtype_words(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "FP32",
        Dtype::Bf16 => "BF16",
        Dtype::Fp8 => "FP8",
        Dtype::Int8 => "INT8",
        Dtype::Int4G128 => "INT4",
        Dtype::Mxfp4 => "MXFP4",
        Dtype::Nvfp4 => "NVFP4",
    }
}

/// Something that could be changed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate<'a> {
    /// Short name; one of a name is tried once.
    pub(super) id: &'static str,
    /// The step it belongs to.
    pub(super) step: &'static str,
    /// What to do.
    pub(super) what: String,
    /// The engine's flag.
    pub(super) flag: Option<String>,
    /// The setting after it.
    pub(super) setting: Setting<'a>,
    /// How much it costs to do.
    pub(super) effort: Effort,
    /// What it may cost besides.
    pub(super) risk: Option<&'static str>,
}

/// What a change costs to do, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Effort {
    /// A flag and a restart.
    Flag,
    /// The same devices, divided otherwise.
    Layout,
    /// A flag that touches accuracy a little.
    Precision,
    /// Another checkpoint of the same model.
    Checkpoint,
    /// Another checkpoint at 4 bits, where accuracy is known to suffer sooner.
    FourBits,
    /// A second model beside the first.
    Draft,
    /// More devices.
    Devices,
}

/// Everything the steps ask.
pub(super) struct Case<'a> {
    /// What the user gave.
    pub(super) input: &'a PlanInput<'a>,
    /// The requests.
    pub(super) offered: Offered,
    /// The deployment as given.
    pub(super) start: Setting<'a>,
    /// Coefficients, scaled to the measured run where there is one.
    calibration: Calibration,
    /// What ranges rest on.
    pub(super) tier: Tier,
    known: RefCell<HashMap<String, Result<Operating, Unpredictable>>>,
}

impl<'a> Case<'a> {
    /// Checks the input and fills in what was left open.
    pub(super) fn new(input: &'a PlanInput<'a>) -> Result<Self, PlanError> {
        input.check()?;
        let offered = Offered::new(input);
        let mut start = Setting::of(deployment(input));
        start.kv_tokens_per_rank = start.kv_per_rank(offered.load(0.0).mean_context()).mid;
        let mut case = Self {
            input,
            offered,
            start,
            calibration: published(input.model.kind()).clone(),
            tier: Tier::Calibrated,
            known: RefCell::default(),
        };
        if let Some(measured_s) = input.measured_tpot_s {
            case.scale_to(measured_s);
        }
        Ok(case)
    }

    /// Stretches all coefficients until the deployment as given is as fast as measured; ratios then carry over.
    fn scale_to(&mut self, measured_s: f64) {
        for _ in 0..6 {
            self.known.borrow_mut().clear();
            let Ok(now) = self.operate(&self.start) else { return };
            let c = &mut self.calibration.coefficients;
            let stretch = (measured_s / now.tpot_s.mid).clamp(0.05, 20.0);
            *c = Coefficients {
                memory_eff: c.memory_eff / stretch,
                compute_eff: c.compute_eff / stretch,
                step_s: c.step_s * stretch,
                layer_s: c.layer_s * stretch,
                all_reduce_s: c.all_reduce_s * stretch,
            };
        }
        self.tier = Tier::Ratio;
        self.known.borrow_mut().clear();
    }

    /// How a setting runs under the load, or why it does not. Answers are kept: steps ask the same more than once.
    pub(super) fn operate(&self, setting: &Setting<'a>) -> Result<Operating, Unpredictable> {
        let settled = self.settled(setting);
        let key = format!("{:?}", Key::of(&settled));
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        let found = operate(self, &settled);
        self.known.borrow_mut().insert(key, found.clone());
        found
    }

    /// The setting with its KV capacity filled in.
    pub(super) fn settled<'s>(&self, setting: &Setting<'s>) -> Setting<'s> {
        let kv_tokens_per_rank = setting.kv_per_rank(self.offered.load(0.0).mean_context()).mid;
        Setting { kv_tokens_per_rank, ..*setting }
    }

    /// The calibration for a setting. With a measured baseline the range is that of the levers moved away from it, from
    /// pairs of measured runs; without one it is that of forecasts of models the calibration never saw.
    pub(super) fn calibration(&self, setting: &Setting<'_>) -> Calibration {
        if self.tier != Tier::Ratio {
            return self.calibration.clone();
        }
        let load = self.offered.load(0.0);
        let old = Deployment { kv_tokens: None, ..self.start.deployment };
        let new = Deployment { kv_tokens: None, ..setting.deployment };
        let band =
            if old == new { Band { lo: 1.0, hi: 1.0 } } else { self.calibration.levers.band(&Lever::moved((&old, &load), (&new, &load))) };
        Calibration { tpot: band, ..self.calibration.clone() }
    }

    /// The coefficients.
    pub(super) fn coefficients(&self) -> &Coefficients {
        &self.calibration.coefficients
    }

    /// Time per output token with `concurrency` requests in flight over all replicas, middle of the range.
    pub(super) fn tpot_at(&self, deployment: &Deployment<'_>, concurrency: f64) -> Option<f64> {
        let load = model::deployment::Load { concurrency, ..self.offered.load(0.0) };
        Loop::new(deployment, &load).ok().map(|closed| closed.solve(self.coefficients()).tpot_s)
    }

    /// The limits.
    pub(super) fn slo(&self) -> &Slo {
        &self.input.slo
    }

    /// The limit on the time per token, whatever it is on, seconds.
    pub(super) fn tpot_limit_s(&self) -> Option<f64> {
        self.input.slo.tpot.map(|(_, limit_s)| limit_s)
    }

    /// What is planned, for people.
    pub(super) fn subject(&self) -> Subject {
        let ModelShape { source, checked, name, .. } = self.input.model;
        let asked = &self.input.model_name;
        let shape = if asked == name { String::new() } else { format!("shape of {name}; ") };
        Subject {
            model: asked.clone(),
            model_source: format!("{shape}{source}{}", if *checked { "" } else { " (recalled, not held against the checkpoint)" }),
            gpu: self.input.gpu.name.clone(),
            gpu_verification: self.input.gpu.verification.clone(),
            gpu_count: self.input.gpu_count,
            layout: self.start.layout(),
        }
    }

    /// What is wanted, for people.
    pub(super) fn goal(&self) -> Goal {
        let limit = |name: &str, limit: Option<(Statistic, f64)>| {
            limit.map(|(statistic, s)| format!("{name} {} {}", statistic.words(), seconds(s)))
        };
        Goal {
            objective: if self.input.objective == Objective::Latency { "latency" } else { "throughput" }.into(),
            limits: [limit("TTFT", self.input.slo.ttft), limit("TPOT", self.input.slo.tpot)].into_iter().flatten().collect(),
            price_per_gpu_h: self.input.price_per_gpu_h,
        }
    }

    /// What was assumed or simulated.
    pub(super) fn assumptions(&self) -> Vec<String> {
        let d = &self.start.deployment;
        let mut told = self.input.assumptions.clone();
        if self.input.weights.is_none() {
            told.push(format!("{} weights, the format in which the model is published (set --weights)", dtype_words(d.weights)));
        }
        if self.input.max_num_seqs.is_none() || self.input.max_batched_tokens.is_none() {
            told.push(format!(
                "engine defaults: {} seats, {} tokens per step, 0.9 of the memory, prefix caching and chunked prefill on, blocks of 16",
                crate::words::count(d.max_num_seqs),
                crate::words::count(d.max_batched_tokens)
            ));
        }
        if self.input.kv_tokens.is_none() {
            told.push("KV capacity is computed; the engine's own log line is exact (set --kv-tokens)".into());
        }
        told.push(match self.tier {
            Tier::Ratio => {
                "ranges: measured baseline, carried over by the ratio of two predictions (nine in ten pairs of published runs)".into()
            }
            _ => format!(
                "ranges of times per token hold nine in ten of {} published runs on models the calibration never saw",
                self.calibration.rows
            ),
        });
        if self.offered.has_coarse_clock {
            told.push(
                "many requests of the recording arrive at one moment: its clock is taken to be coarse and they are spread evenly".into(),
            );
        }
        if !self.offered.is_recorded && self.offered.rate_per_s.is_some() {
            told.push("all requests are as long as typed, and come at random (Poisson)".into());
        }
        told.push("times to the first token, percentiles and goodput are simulated request by request with the same step function; goodput is the rate at which nine in ten requests (or the percentile asked for) keep every limit at once".into());
        if self.input.gpu.verification != "read" {
            told.push(format!("figures of {} were not read in a source: {}", self.input.gpu.name, self.input.gpu.source));
        }
        told
    }
}

/// What tells two settings apart, without the tables they point to.
#[derive(Debug)]
#[expect(dead_code, reason = "read by its debug text")]
struct Key<'a> {
    model: &'a str,
    formats: (Dtype, Dtype, Option<f64>),
    ranks: (u32, u32, u32, u32),
    speculation: Option<model::deployment::Speculation>,
    limits: (f64, Option<f64>, f64, f64),
    prefix: (bool, bool),
}

impl<'a> Key<'a> {
    fn of(setting: &Setting<'a>) -> Self {
        let d = &setting.deployment;
        Self {
            model: &d.model.name,
            formats: (d.weights, d.kv, d.weight_bytes),
            ranks: (d.tensor, d.pipeline, d.attention_dp, d.replicas),
            speculation: d.speculation,
            limits: (d.memory_frac, d.kv_tokens, d.max_num_seqs, d.max_batched_tokens),
            prefix: (setting.prefix_caching, setting.prefix_routing),
        }
    }
}

/// Device memory from which vLLM takes its larger defaults; it excepts the A100 (`_set_default_args`), which is told here by
/// its lack of FP8 arithmetic.
const LARGE_BYTES: f64 = 70.0 * 1_073_741_824.0;

/// The deployment as given, with the engine's defaults where nothing was.
fn deployment<'a>(input: &'a PlanInput<'a>) -> Deployment<'a> {
    let weights = input.weights.unwrap_or_else(|| native_weights(input.model));
    let is_large = input.gpu.memory_bytes as f64 >= LARGE_BYTES && input.gpu.fp8_flops.is_some();
    let (seats, tokens) = if is_large { (1024, 8192) } else { (256, 2048) };
    let tensor = input.tensor.unwrap_or_else(|| widest(input.model.heads, input.gpu_count));
    let mut deployment = Deployment::new(input.model, input.gpu, weights);
    deployment.kv = input.kv.unwrap_or(Dtype::Bf16);
    deployment.weight_bytes = input.weight_bytes;
    deployment.tensor = tensor;
    deployment.replicas = input.gpu_count / tensor;
    deployment.max_num_seqs = f64::from(input.max_num_seqs.unwrap_or(seats));
    deployment.max_batched_tokens = f64::from(input.max_batched_tokens.unwrap_or(tokens));
    deployment.kv_tokens = input.kv_tokens;
    deployment
}

/// The largest divisor of the devices, within a node of eight, that also divides the heads.
pub(super) fn widest(heads: u32, gpu_count: u32) -> u32 {
    (1..=gpu_count.min(8)).rev().find(|tensor| gpu_count.is_multiple_of(*tensor) && heads.is_multiple_of(*tensor)).unwrap_or(1)
}
