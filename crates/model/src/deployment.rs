//! What is deployed and what load it serves: the one input of every prediction.
//!
//! A lever is a changed copy: `Deployment { tensor: 4, ..old }`. Nothing is multiplied onto an old answer; the new
//! deployment is evaluated from the start, so that a smaller weight becomes room for the KV cache and that becomes
//! concurrency. Engines' scheduling policies beyond a closed loop are left out.

use thiserror::Error;

use crate::hardware::Gpu;
use crate::memory::{
    Dtype, Estimate, capacity_tokens, kv_budget, kv_bytes_of_sequence_per_rank, kv_bytes_per_token_per_rank, plausible, reserve_bytes,
    weight_bytes,
};
use crate::models::{Attention, ModelShape};

/// How tokens are drafted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speculation {
    /// Drafts per step.
    pub drafts: u32,
    /// Probability that a draft is accepted after all before it were.
    pub acceptance: f64,
    /// Time of one draft step in plain steps of the target at the same batch.
    pub draft_cost: f64,
}

/// A model on devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deployment<'a> {
    /// The model.
    pub model: &'a ModelShape,
    /// The device.
    pub gpu: &'a Gpu,
    /// Number format of the weights.
    pub weights: Dtype,
    /// Number format of the KV cache.
    pub kv: Dtype,
    /// Bytes of all weights as counted from the checkpoint; computed from the shape when not given.
    pub weight_bytes: Option<f64>,
    /// Tensor-parallel ranks.
    pub tensor: u32,
    /// Pipeline stages.
    pub pipeline: u32,
    /// Ranks that each run attention for their own requests while they share the experts.
    pub attention_dp: u32,
    /// Load of the fullest expert rank over the mean, 1 for even or for experts cut by tensor parallelism.
    pub expert_imbalance: f64,
    /// Independent copies behind one address.
    pub replicas: u32,
    /// Drafting.
    pub speculation: Option<Speculation>,
    /// Share of device memory that the engine may use.
    pub memory_frac: f64,
    /// Tokens that the KV cache of one attention rank holds, as the engine logged it; computed when not given.
    pub kv_tokens: Option<f64>,
    /// The engine's cap on requests that run at once, per attention rank.
    pub max_num_seqs: f64,
    /// The engine's cap on tokens per step.
    pub max_batched_tokens: f64,
}

/// What is asked of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Requests in flight, over all replicas.
    pub concurrency: f64,
    /// Prompt tokens per request.
    pub prompt_tokens: f64,
    /// Those of them found in the prefix cache.
    pub cached_tokens: f64,
    /// Output tokens per request.
    pub output_tokens: f64,
}

/// Why there is no prediction.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Unpredictable {
    /// The ranks cannot share the heads.
    #[error("{tensor} tensor-parallel ranks do not divide the {heads} query heads of {model}")]
    Heads {
        /// Ranks asked for.
        tensor: u32,
        /// Query heads.
        heads: u32,
        /// The model.
        model: String,
    },
    /// The device's rate for the format is not in the table.
    #[error("no compute rate of {gpu} for {weights:?} weights in the table")]
    NoRate {
        /// The device.
        gpu: String,
        /// The format.
        weights: Dtype,
    },
    /// Weights and one sequence need more than there is.
    #[error("weights, activations and one sequence need {needed_gb:.1} GB per rank, {room_gb:.1} GB are usable")]
    DoesNotFit {
        /// GB (1e9 bytes) per rank.
        needed_gb: f64,
        /// GB per rank.
        room_gb: f64,
    },
    /// A number that is not usable.
    #[error("`{field}` must be {expected}, found {found}")]
    Number {
        /// Which.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: f64,
    },
}

impl<'a> Deployment<'a> {
    /// One device, BF16 KV cache (FP8 beside 8-bit floats and FP4, as engines' recipes have it), defaults of the engines.
    pub fn new(model: &'a ModelShape, gpu: &'a Gpu, weights: Dtype) -> Self {
        let kv = match weights {
            Dtype::Fp8 | Dtype::Nvfp4 => Dtype::Fp8,
            _ => Dtype::Bf16,
        };
        Self {
            model,
            gpu,
            weights,
            kv,
            weight_bytes: None,
            tensor: 1,
            pipeline: 1,
            attention_dp: 1,
            expert_imbalance: 1.0,
            replicas: 1,
            speculation: None,
            memory_frac: 0.9,
            kv_tokens: None,
            max_num_seqs: 1024.0,
            max_batched_tokens: 8192.0,
        }
    }

    /// Devices of one replica.
    pub fn ranks(&self) -> u32 {
        self.expert_ranks().saturating_mul(self.pipeline.max(1))
    }

    /// Devices of all replicas.
    pub fn gpu_count(&self) -> u32 {
        self.ranks().saturating_mul(self.replicas.max(1))
    }

    /// Devices of one stage that share the experts.
    pub fn expert_ranks(&self) -> u32 {
        self.tensor.max(1).saturating_mul(self.attention_dp.max(1))
    }

    /// Bytes of weights on the fullest rank, evenly cut stages assumed.
    pub fn weight_bytes_per_rank(&self) -> f64 {
        let (others, experts) = self.weight_parts();
        let stages = f64::from(self.pipeline.max(1));
        (others / f64::from(self.tensor.max(1)) + experts / f64::from(self.expert_ranks())) / stages
    }

    /// Bytes of all weights but the routed experts, and of those.
    pub(crate) fn weight_parts(&self) -> (f64, f64) {
        let computed = weight_bytes(self.model, self.weights).max(1.0);
        let experts = self.model.param_parts().routed_experts * self.weights.bytes_per_param();
        let counted = self.weight_bytes.filter(|bytes| bytes.is_finite() && *bytes > 0.0).map_or(1.0, |bytes| plausible(bytes) / computed);
        ((computed - experts) * counted, experts * counted)
    }

    /// Requests of `context` tokens that run at once on each attention rank: the KV cache the engine logged, or the budget
    /// after weights and reserve, and the engine's cap. Below 1 when not even one fits.
    pub fn sequences_that_fit(&self, context: f64) -> f64 {
        let stages = f64::from(self.pipeline.max(1));
        let by_cache = if let Some(tokens) = self.kv_tokens.filter(|tokens| tokens.is_finite()) {
            plausible(tokens) / plausible(context).max(1.0)
        } else {
            let budget = kv_budget(self.gpu.memory_bytes as f64, self.memory_frac, self.weight_bytes_per_rank(), self.reserve()).mid;
            let per_sequence = kv_bytes_of_sequence_per_rank(self.model, self.kv, context, self.tensor).max(1.0) / stages;
            budget / per_sequence
        };
        by_cache.min(plausible(self.max_num_seqs))
    }

    /// KV capacity of one attention rank in tokens, with its range; exact when the engine logged it.
    pub fn kv_capacity(&self) -> Estimate {
        if let Some(tokens) = self.kv_tokens.filter(|tokens| tokens.is_finite()) {
            return Estimate::exact(plausible(tokens));
        }
        let budget = kv_budget(self.gpu.memory_bytes as f64, self.memory_frac, self.weight_bytes_per_rank(), self.reserve());
        let stages = f64::from(self.pipeline.max(1));
        capacity_tokens(budget, kv_bytes_per_token_per_rank(self.model, self.kv, self.tensor) / stages)
    }

    /// Bytes per rank that are neither weights nor KV cache.
    fn reserve(&self) -> Estimate {
        reserve_bytes(self.model, self.max_batched_tokens, plausible(self.max_num_seqs).min(1024.0), self.tensor)
    }

    /// What can be wrong with a deployment before any load is known.
    pub fn check(&self) -> Result<(), Unpredictable> {
        let tensor = self.tensor.max(1);
        if !self.model.heads.is_multiple_of(tensor) {
            return Err(Unpredictable::Heads { tensor, heads: self.model.heads, model: self.model.name.clone() });
        }
        if crate::roofline::peak_flops(self.gpu, self.weights).is_none() {
            return Err(Unpredictable::NoRate { gpu: self.gpu.name.clone(), weights: self.weights });
        }
        let number = |field, found: f64, valid: bool, expected| {
            if valid { Ok(()) } else { Err(Unpredictable::Number { field, expected, found }) }
        };
        number("memory_frac", self.memory_frac, self.memory_frac > 0.0 && self.memory_frac <= 1.0, "above 0 and at most 1")?;
        let even = self.expert_imbalance;
        number("expert_imbalance", even, (1.0..=1e4).contains(&even), "from 1 to 10,000")?;
        if let Some(speculation) = self.speculation {
            let (a, cost) = (speculation.acceptance, speculation.draft_cost);
            number("acceptance", a, (0.0..=1.0).contains(&a), "from 0 to 1")?;
            number("draft_cost", cost, (0.0..=1e3).contains(&cost), "from 0 to 1,000")?;
        }
        Ok(())
    }

    /// The error of a deployment that cannot hold one sequence of `context` tokens.
    pub(crate) fn does_not_fit(&self, context: f64) -> Unpredictable {
        let one = kv_bytes_of_sequence_per_rank(self.model, self.kv, context, self.tensor) / f64::from(self.pipeline.max(1));
        Unpredictable::DoesNotFit {
            needed_gb: (self.weight_bytes_per_rank() + self.reserve().mid + one) / 1e9,
            room_gb: self.gpu.memory_bytes as f64 * self.memory_frac / 1e9,
        }
    }

    /// FLOP of attention that one decoding token needs per token of context, whole model, as engines compute it: MLA in
    /// its absorbed form, `2 n_q (2 r + d_rope)`.
    pub(crate) fn decode_attention_flops(&self, context: f64) -> f64 {
        let model = self.model;
        match model.attention {
            Attention::Gqa => crate::roofline::attention_flops_per_token(model, context),
            Attention::Mla { latent, rope } => {
                let seen = if model.sparse_tokens > 0 { context.min(f64::from(model.sparse_tokens)) } else { context };
                let width = 2.0 * f64::from(latent) + f64::from(rope);
                2.0 * f64::from(model.heads) * width * f64::from(model.cached_layers()) * seen
            }
        }
    }
}

impl Load {
    /// Requests that stay in flight with prompts of which nothing is cached.
    pub fn closed(concurrency: f64, prompt_tokens: f64, output_tokens: f64) -> Self {
        Self { concurrency, prompt_tokens, cached_tokens: 0.0, output_tokens }
    }

    /// Mean tokens that a decoding request holds: its prompt and half of its output.
    pub fn mean_context(&self) -> f64 {
        plausible(self.prompt_tokens) + plausible(self.output_tokens) / 2.0
    }

    /// Prompt tokens to compute, at least one.
    pub fn new_tokens(&self) -> f64 {
        (plausible(self.prompt_tokens) - plausible(self.cached_tokens)).max(1.0)
    }

    /// What can be wrong with a load.
    pub fn check(&self) -> Result<(), Unpredictable> {
        let fields = [("concurrency", self.concurrency), ("prompt_tokens", self.prompt_tokens), ("output_tokens", self.output_tokens)];
        for (field, found) in fields {
            if !(found > 0.0 && found <= 1e9) {
                return Err(Unpredictable::Number { field, expected: "above 0 and at most 1e9", found });
            }
        }
        let found = self.cached_tokens;
        if !(0.0..=self.prompt_tokens).contains(&found) {
            return Err(Unpredictable::Number { field: "cached_tokens", expected: "from 0 to the prompt's tokens", found });
        }
        Ok(())
    }
}
