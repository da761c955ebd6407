//! The time of one engine step: the roofline of its work, made real by five coefficients.
//!
//! `T = max(bytes / (e_m W), flops / (e_c F)) + c_0 + c_l L + c_ar 2 L + bytes moved / link`, the last two with more than
//! one rank. Every prediction of this crate calls [`Ideal::step`] and nothing else. The coefficients are fitted
//! ([`crate::calibration`]); what is exact stands in [`Ideal`]. Kernel choice, clocks and host jitter are left out: they are
//! what the coefficients average over.

use crate::collectives::{Collective, link, ring_volume};
use crate::deployment::Deployment;
use crate::hardware::Gpu;
use crate::memory::{Dtype, has_wide_attention, kv_bytes_per_token_per_rank, kv_bytes_read_per_rank, plausible};
use crate::models::ModelShape;
use crate::roofline::{attention_pairs_flops, experts_touched, peak_flops};

/// The five figures that turn a bound into a forecast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coefficients {
    /// Share of the peak bandwidth that steps reach, `e_m`.
    pub memory_eff: f64,
    /// Share of the dense BF16 peak that steps reach, `e_c`; other formats by [`compute_factor`].
    pub compute_eff: f64,
    /// Seconds of any step, `c_0`.
    pub step_s: f64,
    /// Seconds per layer in BF16, `c_l`; other formats by [`layer_factor`].
    pub layer_s: f64,
    /// Seconds per collective, `c_ar`.
    pub all_reduce_s: f64,
}

impl Coefficients {
    /// Names, in the order of arrays.
    pub const NAMES: [&'static str; 5] = ["memory_eff", "compute_eff", "step_s", "layer_s", "all_reduce_s"];

    /// As an array in the order of [`Self::NAMES`].
    pub fn to_array(self) -> [f64; 5] {
        [self.memory_eff, self.compute_eff, self.step_s, self.layer_s, self.all_reduce_s]
    }

    /// From such an array.
    pub fn from_array([memory_eff, compute_eff, step_s, layer_s, all_reduce_s]: [f64; 5]) -> Self {
        Self { memory_eff, compute_eff, step_s, layer_s, all_reduce_s }
    }

    /// The bound: full efficiency and nothing fixed.
    pub const IDEAL: Self = Self { memory_eff: 1.0, compute_eff: 1.0, step_s: 0.0, layer_s: 0.0, all_reduce_s: 0.0 };
}

/// Fixed time of a layer relative to BF16. Four small products take 4.2 us each before their bytes count in BF16, 5.9 in
/// FP8 and 7.9 in NVFP4 (quantizing activations), and attention 10 us: medians of the kernel tables of
/// aiconfigurator-core 0.12.0 on H100, H200, B200 and GB200 at up to 16 rows. INT4 and MXFP4 are assumed.
pub fn layer_factor(weights: Dtype) -> f64 {
    match weights {
        Dtype::F32 | Dtype::Bf16 => 1.0,
        Dtype::Fp8 | Dtype::Int8 => 1.3,
        Dtype::Int4G128 => 1.1,
        Dtype::Mxfp4 | Dtype::Nvfp4 => 1.55,
    }
}

/// Share of its own peak that a format reaches relative to BF16: large products reach 0.75 in BF16, 0.465 in FP8 and
/// 0.39 in NVFP4 (same tables, 2,048 rows and more). INT4, which computes in 16 bit, is assumed.
pub fn compute_factor(weights: Dtype) -> f64 {
    match weights {
        Dtype::F32 | Dtype::Bf16 => 1.0,
        Dtype::Fp8 | Dtype::Int8 => 0.62,
        Dtype::Int4G128 => 0.9,
        Dtype::Mxfp4 | Dtype::Nvfp4 => 0.52,
    }
}

/// [`compute_factor`] on a device; one that lacks the type widens to 16 bit first, as for INT4.
fn factor_on(gpu: &Gpu, weights: Dtype) -> f64 {
    let own = match weights {
        Dtype::F32 | Dtype::Bf16 | Dtype::Int4G128 => return compute_factor(weights),
        Dtype::Fp8 => gpu.fp8_flops,
        Dtype::Int8 => gpu.int8_flops,
        Dtype::Mxfp4 | Dtype::Nvfp4 => gpu.fp4_flops,
    };
    match (own, gpu.bf16_flops, peak_flops(gpu, weights)) {
        (None, Some(wide), Some(peak)) => compute_factor(Dtype::Int4G128) * wide / peak,
        _ => compute_factor(weights),
    }
}

/// What one step computes on each attention rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepLoad {
    /// Decoding sequences.
    pub decode_seqs: f64,
    /// Tokens per decoding sequence: 1, or the drafts and 1.
    pub tokens_per_seq: f64,
    /// Mean tokens those sequences hold.
    pub context: f64,
    /// Prompt tokens in the same step.
    pub prompt_tokens: f64,
    /// Tokens before the first of them that their attention reads as well.
    pub prompt_context: f64,
}

/// Times of a step at full efficiency, in seconds per rank, and what the fixed costs count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ideal {
    /// Weights over bandwidth.
    pub weights_s: f64,
    /// KV cache over bandwidth.
    pub kv_s: f64,
    /// FLOP over the peak of the format.
    pub compute_s: f64,
    /// FLOP with the cheapest attention over the peak: what no implementation can beat.
    pub least_compute_s: f64,
    /// Bytes of collectives over the link.
    pub transfer_s: f64,
    /// Layers, weighed by [`layer_factor`].
    pub layer_units: f64,
    /// Collectives in the step.
    pub collectives: f64,
    /// [`compute_factor`] of the weights.
    pub compute_factor: f64,
}

/// What takes the largest part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Reading weights.
    Weights,
    /// Reading the KV cache.
    KvCache,
    /// Arithmetic.
    Compute,
    /// Launches, host work and small kernels.
    Overhead,
    /// Communication between ranks.
    Collectives,
    /// Prompts of other requests that are computed between a request's tokens; never the largest part of a decode step.
    Prompts,
}

impl Binding {
    /// Words for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Weights => "memory bandwidth (weights)",
            Self::KvCache => "memory bandwidth (KV cache)",
            Self::Compute => "compute",
            Self::Overhead => "fixed cost per step and layer",
            Self::Collectives => "communication between ranks",
            Self::Prompts => "prompts of other requests",
        }
    }
}

/// A step, part by part, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTime {
    /// Reading weights.
    pub weights_s: f64,
    /// Reading the KV cache.
    pub kv_s: f64,
    /// Arithmetic.
    pub compute_s: f64,
    /// Launches, host work and small kernels.
    pub overhead_s: f64,
    /// Communication.
    pub collective_s: f64,
    /// `max(weights + kv, compute) + overhead + collectives`.
    pub total_s: f64,
    /// No implementation is faster on this device.
    pub bound_s: f64,
}

impl StepTime {
    /// The largest part.
    pub fn binding(&self) -> Binding {
        let (memory, memory_s) = (if self.kv_s > self.weights_s { Binding::KvCache } else { Binding::Weights }, self.weights_s + self.kv_s);
        let work = if self.compute_s > memory_s { (Binding::Compute, self.compute_s) } else { (memory, memory_s) };
        [work, (Binding::Overhead, self.overhead_s), (Binding::Collectives, self.collective_s)]
            .into_iter()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map_or(memory, |(binding, _)| binding)
    }
}

impl Ideal {
    /// The work of `step` on each rank of `deployment`, all pipeline stages one after the other.
    pub fn of(deployment: &Deployment, step: &StepLoad) -> Self {
        let Deployment { model, gpu, weights, .. } = *deployment;
        let parts = model.param_parts();
        let (tensor, dp) = (f64::from(deployment.tensor.max(1)), f64::from(deployment.attention_dp.max(1)));
        let expert_ranks = f64::from(deployment.expert_ranks());
        let (seqs, context) = (plausible(step.decode_seqs), plausible(step.context));
        let (decode_tokens, prompt_tokens) = (seqs * plausible(step.tokens_per_seq), plausible(step.prompt_tokens));
        let tokens = decode_tokens + prompt_tokens;
        let even = if deployment.expert_imbalance.is_finite() { deployment.expert_imbalance.max(1.0) } else { 1.0 };

        let (others, experts) = deployment.weight_parts();
        let table = if model.tied_embeddings { 0.0 } else { parts.embedding * if weights == Dtype::F32 { 4.0 } else { 2.0 } };
        let touched = experts_touched(model.experts, model.experts_per_token, tokens * dp) / f64::from(model.experts.max(1));
        let weight_bytes = (others - table).max(0.0) / tensor + experts * touched * even / expert_ranks;
        let kv_bytes = seqs * kv_bytes_read_per_rank(model, deployment.kv, context, deployment.tensor)
            + tokens * kv_bytes_per_token_per_rank(model, deployment.kv, deployment.tensor);

        let shared = parts.attention + parts.dense_ffn;
        let routed = parts.routed_experts * model.expert_share_per_token();
        let head = f64::from(model.vocab) * f64::from(model.hidden);
        let linear = 2.0 * (shared * tokens / tensor + routed * tokens * dp * even / expert_ranks + head * decode_tokens / tensor);
        let prompt = attention_pairs_flops(model, prompt_tokens, plausible(step.prompt_context)) / tensor;
        let (absorbed, plain) = (deployment.decode_attention_flops(context), crate::roofline::attention_flops_per_token(model, context));
        // A device without a rate for the format is refused before; the bandwidth alone then bounds the step.
        let rate = peak_flops(gpu, weights).unwrap_or(f64::MAX);

        let (collectives, moved_s) = communication(deployment, tokens);
        // Two of the four products of a layer stay in 16 bit.
        let halfway = f64::midpoint(1.0, layer_factor(weights));
        Self {
            weights_s: weight_bytes / gpu.dram_bytes_per_s,
            kv_s: kv_bytes / gpu.dram_bytes_per_s,
            compute_s: (linear + prompt + decode_tokens * absorbed / tensor) / rate,
            least_compute_s: (linear + prompt + decode_tokens * plain.min(absorbed) / tensor) / rate,
            transfer_s: moved_s,
            layer_units: f64::from(model.layers) * if has_wide_attention(model, weights) { halfway } else { layer_factor(weights) },
            collectives,
            compute_factor: factor_on(gpu, weights),
        }
    }

    /// The same step with a share of its sequences: what scales with them scales, what every step pays stays.
    #[must_use]
    pub fn with_share(&self, share: f64) -> Self {
        Self {
            kv_s: self.kv_s * share,
            compute_s: self.compute_s * share,
            least_compute_s: self.least_compute_s * share,
            transfer_s: self.transfer_s * share,
            ..*self
        }
    }

    /// The step function: everything that is predicted comes through here.
    pub fn step(&self, c: &Coefficients) -> StepTime {
        let (weights_s, kv_s) = (self.weights_s / c.memory_eff, self.kv_s / c.memory_eff);
        let compute_s = self.compute_s / (c.compute_eff * self.compute_factor);
        let overhead_s = c.step_s + c.layer_s * self.layer_units;
        let collective_s = c.all_reduce_s * self.collectives + self.transfer_s;
        let total_s = (weights_s + kv_s).max(compute_s) + overhead_s + collective_s;
        let bound_s = (self.weights_s + self.kv_s).max(self.least_compute_s);
        StepTime { weights_s, kv_s, compute_s, overhead_s, collective_s, total_s, bound_s }
    }

    /// Engine time that one prompt adds to the steps of others: its arithmetic, its collectives' bytes and its launches.
    /// Weights are read by those steps anyway.
    pub fn prefill_share_s(&self, c: &Coefficients) -> f64 {
        self.compute_s / (c.compute_eff * self.compute_factor) + self.transfer_s + c.layer_s * self.layer_units
    }
}

/// Collectives in one step and the seconds their bytes take: two all-reduces per tensor-parallel layer, dispatch and
/// combine per expert layer under attention data parallelism, one send per pipeline boundary.
fn communication(deployment: &Deployment, tokens: f64) -> (f64, f64) {
    let model = deployment.model;
    let (mut count, mut seconds) = (0.0, 0.0);
    let row = tokens * f64::from(model.hidden) * 2.0;
    if deployment.tensor > 1 {
        let reduces = reduces_per_step(model);
        count += reduces;
        seconds += reduces * row / link(deployment.gpu, deployment.tensor).bytes_per_s;
    }
    let expert_layers = f64::from(model.ffn_and_expert_layers().1);
    if deployment.attention_dp > 1 && expert_layers > 0.0 {
        let ranks = deployment.expert_ranks();
        let copies = f64::from(model.experts_per_token.min(ranks));
        let volume = ring_volume(Collective::AllToAll, ranks) * row * copies;
        count += 2.0 * expert_layers;
        seconds += 2.0 * expert_layers * volume / link(deployment.gpu, ranks).bytes_per_s;
    }
    if deployment.pipeline > 1 {
        let sends = f64::from(deployment.pipeline - 1);
        count += sends;
        seconds += sends * row / link(deployment.gpu, 2).bytes_per_s;
    }
    (count, seconds)
}

/// One all-reduce after attention (or state) and one after the feed-forward part of each layer that has them.
fn reduces_per_step(model: &ModelShape) -> f64 {
    f64::from(model.cached_layers() + model.state_layers.min(model.layers)) + f64::from(model.ffn_and_expert_layers().0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::find;

    #[test]
    fn formats_a_device_lacks_compute_in_16_bit() {
        assert_eq!(factor_on(find("h100-sxm").unwrap(), Dtype::Fp8), 0.62);
        assert_eq!(factor_on(find("a100-sxm-80").unwrap(), Dtype::Fp8), 0.9);
        // H100 has no FP4; the peak that bounds it is FP8's, twice the 16-bit one.
        assert_eq!(factor_on(find("h100-sxm").unwrap(), Dtype::Nvfp4), 0.45);
        assert_eq!(factor_on(find("b200-sxm").unwrap(), Dtype::Nvfp4), 0.52);
    }
}
