//! What a plan is made for: model, device, requests, target. Everything is checked here, once.

use model::hardware::Gpu;
use model::memory::Dtype;
use model::models::ModelShape;
use simulate::Workload;
use thiserror::Error;

/// What to plan.
#[derive(Clone, Debug)]
pub struct PlanInput<'a> {
    /// The model.
    pub model: &'a ModelShape,
    /// What the user calls it.
    pub model_name: String,
    /// The device.
    pub gpu: &'a Gpu,
    /// How many of them.
    pub gpu_count: u32,
    /// Number format of the weights; the published checkpoint's when not given.
    pub weights: Option<Dtype>,
    /// Number format of the KV cache; 16 bit when not given.
    pub kv: Option<Dtype>,
    /// Bytes of the weights as a checkpoint's headers state them.
    pub weight_bytes: Option<f64>,
    /// Tensor-parallel ranks; as many as there are devices when not given.
    pub tensor: Option<u32>,
    /// The engine's cap on requests that run at once; its default when not given.
    pub max_num_seqs: Option<u32>,
    /// The engine's cap on tokens per step; its default when not given.
    pub max_batched_tokens: Option<u32>,
    /// Tokens of KV cache per engine as its log says; computed when not given.
    pub kv_tokens: Option<f64>,
    /// Longest request the engine accepts, tokens; the largest of the workload when not given.
    pub max_model_len: Option<u32>,
    /// The requests.
    pub traffic: Traffic<'a>,
    /// How fast they come.
    pub demand: Demand,
    /// What must be kept.
    pub slo: Slo,
    /// What matters most.
    pub objective: Objective,
    /// Price of one device per hour.
    pub price_per_gpu_h: Option<f64>,
    /// How well drafts are accepted, if that was measured.
    pub acceptance: Option<Acceptance>,
    /// Link between groups of devices, bytes per second and device; the device's own link when not given.
    pub link_bytes_per_s: Option<f64>,
    /// Time per output token measured on the deployment as it is, seconds.
    pub measured_tpot_s: Option<f64>,
    /// What the caller assumed, a sentence each.
    pub assumptions: Vec<String>,
}

/// The requests.
#[derive(Clone, Debug)]
pub enum Traffic<'a> {
    /// All alike.
    Lengths {
        /// Prompt tokens.
        prompt_tokens: u32,
        /// Output tokens.
        output_tokens: u32,
    },
    /// As they came.
    Recorded {
        /// The requests.
        workload: &'a Workload,
        /// Where they were read, for people.
        source: String,
    },
}

/// How fast requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Demand {
    /// Requests per second, whether or not answers came.
    Rate(f64),
    /// As fast as the recording.
    Recorded,
    /// As many as fit are kept in flight.
    Offline,
}

/// Which figure of all requests a limit is on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// The mean.
    Mean,
    /// The value that this share of requests stays below, 0 to 1.
    Quantile(f64),
}

impl Statistic {
    /// `mean`, `p99`.
    pub fn words(self) -> String {
        match self {
            Self::Mean => "mean".into(),
            Self::Quantile(share) => format!("p{}", crate::words::digits(share * 100.0).trim_end_matches('0').trim_end_matches('.')),
        }
    }
}

/// What must be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slo {
    /// Time to the first token, seconds.
    pub ttft: Option<(Statistic, f64)>,
    /// Time per output token after the first, seconds.
    pub tpot: Option<(Statistic, f64)>,
}

impl Slo {
    /// Whether there is any limit.
    pub fn is_set(&self) -> bool {
        self.ttft.is_some() || self.tpot.is_some()
    }

    /// Share of requests that must keep both limits for the goodput: the strictest percentile asked for, else nine in ten.
    pub fn share(&self) -> f64 {
        let of = |limit: Option<(Statistic, f64)>| match limit {
            Some((Statistic::Quantile(share), _)) => share,
            _ => 0.0,
        };
        let asked = of(self.ttft).max(of(self.tpot));
        if asked > 0.0 { asked } else { 0.9 }
    }
}

/// What matters most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// Limits are kept, and then as little is changed as possible.
    #[default]
    Latency,
    /// Tokens per second and device, within the limits.
    Throughput,
}

/// Measured drafting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acceptance {
    /// Probability that a draft is accepted after all before it were.
    pub rate: f64,
}

/// Why there is no plan.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum PlanError {
    /// A number that cannot be planned with.
    #[error("`{field}` must be {expected}, found {found}")]
    Number {
        /// Which.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// No request.
    #[error("the workload has no request with an answer, so there is nothing to plan for")]
    NoRequests,
    /// All requests at one moment have no rate.
    #[error("all {count} requests of the workload arrive at the same moment; give a rate")]
    NoRate {
        /// How many.
        count: usize,
    },
}

fn number(field: &'static str, valid: bool, expected: &'static str, found: &impl ToString) -> Result<(), PlanError> {
    if valid { Ok(()) } else { Err(PlanError::Number { field, expected, found: found.to_string() }) }
}

impl PlanInput<'_> {
    /// Refuses what cannot be planned with, naming the first field.
    pub(super) fn check(&self) -> Result<(), PlanError> {
        number("gpu_count", (1..=1024).contains(&self.gpu_count), "from 1 to 1024", &self.gpu_count)?;
        if let Some(tensor) = self.tensor {
            let divides = tensor > 0 && self.gpu_count.is_multiple_of(tensor);
            number("tensor", divides, "a divisor of the number of devices", &tensor)?;
            number("tensor", self.model.heads.is_multiple_of(tensor), "a divisor of the model's query heads", &tensor)?;
        }
        for (field, value) in [("max_num_seqs", self.max_num_seqs), ("max_batched_tokens", self.max_batched_tokens)] {
            number(field, value.is_none_or(|value| (1..=1 << 20).contains(&value)), "from 1 to 1048576", &value.unwrap_or(0))?;
        }
        let usable = |value: Option<f64>, most: f64| value.is_none_or(|value| value > 0.0 && value <= most);
        number("weight_bytes", usable(self.weight_bytes, 1e14), "above 0 and at most 1e14", &self.weight_bytes.unwrap_or(0.0))?;
        number("kv_tokens", usable(self.kv_tokens, 1e12), "above 0 and at most 1e12", &self.kv_tokens.unwrap_or(0.0))?;
        number("price", usable(self.price_per_gpu_h, 1e6), "above 0 and at most 1e6", &self.price_per_gpu_h.unwrap_or(0.0))?;
        number("link", usable(self.link_bytes_per_s, 1e13), "above 0 and at most 1e13", &self.link_bytes_per_s.unwrap_or(0.0))?;
        number("measured_tpot", usable(self.measured_tpot_s, 1e3), "above 0 and at most 1000 s", &self.measured_tpot_s.unwrap_or(0.0))?;
        if let Some(Acceptance { rate }) = self.acceptance {
            number("acceptance", (0.0..=1.0).contains(&rate), "from 0 to 1", &rate)?;
        }
        self.check_traffic()?;
        for (field, limit) in [("slo.ttft", self.slo.ttft), ("slo.tpot", self.slo.tpot)] {
            number(field, usable(limit.map(|(_, s)| s), 1e5), "above 0 and at most 100000 s", &limit.map_or(0.0, |(_, s)| s))?;
        }
        Ok(())
    }

    fn check_traffic(&self) -> Result<(), PlanError> {
        if let Demand::Rate(rate) = self.demand {
            number("rate", rate > 0.0 && rate <= 1e6, "above 0 and at most 1e6 requests/s", &rate)?;
        }
        match &self.traffic {
            Traffic::Lengths { prompt_tokens, output_tokens } => {
                number("prompt_tokens", (1..=10_000_000).contains(prompt_tokens), "from 1 to 10000000", prompt_tokens)?;
                number("output_tokens", (1..=10_000_000).contains(output_tokens), "from 1 to 10000000", output_tokens)?;
                number("rate", self.demand != Demand::Recorded, "given with lengths", &"nothing")
            }
            Traffic::Recorded { workload, .. } => match workload.requests().len() {
                0 => Err(PlanError::NoRequests),
                count if self.demand == Demand::Recorded && workload.span_ns() <= 0 => Err(PlanError::NoRate { count }),
                _ => Ok(()),
            },
        }
    }
}

/// Families whose published checkpoints are quantized, and to what: DeepSeek-V3, R1 and V3.2, Kimi-K2 and MiniMax-M2 in FP8
/// blocks, gpt-oss with MXFP4 experts (`quantization_config` of their config.json files).
const NATIVE: [(&str, Dtype); 5] = [
    ("DeepSeek-V3", Dtype::Fp8),
    ("DeepSeek-R1", Dtype::Fp8),
    ("Kimi-K2", Dtype::Fp8),
    ("MiniMax-M2", Dtype::Fp8),
    ("gpt-oss", Dtype::Mxfp4),
];

/// The format in which a model is published.
pub(super) fn native_weights(model: &ModelShape) -> Dtype {
    NATIVE.iter().find(|(start, _)| model.name.starts_with(start)).map_or(Dtype::Bf16, |(_, dtype)| *dtype)
}
