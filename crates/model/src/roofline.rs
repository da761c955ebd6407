//! Lower bounds of a step from peaks: bytes over bandwidth, FLOP over rate, the larger of the two.
//!
//! A bound, never a forecast: measured decode steps took 2 to 4 times this on 1,024 published configurations. Use it to
//! reject impossible measurements and to say how far a step is from the floor. Communication, kernel launches and host
//! time are left out on purpose.

use crate::hardware::Gpu;
use crate::memory::{Dtype, kv_bytes_per_token_per_rank, kv_bytes_read_per_rank, plausible, weight_bytes};
use crate::models::ModelShape;

/// What one step computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepShape {
    /// Prompt tokens in the step.
    pub prefill_tokens: f64,
    /// Sequences that decode one token each.
    pub decode_seqs: f64,
    /// Mean tokens those sequences hold.
    pub mean_context: f64,
}

/// Number formats and how many tensor-parallel ranks share the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// Weights of the layers.
    pub weights: Dtype,
    /// KV cache.
    pub kv: Dtype,
    /// Tensor-parallel ranks.
    pub ranks: u32,
}

/// Work of one step on each rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepWork {
    /// Matrix products with weights.
    pub linear_flops: f64,
    /// Scores and weighted values of the decoding sequences.
    pub attention_flops: f64,
    /// Weights read, each once.
    pub weight_bytes: f64,
    /// KV cache read by decoding sequences and written for new tokens.
    pub kv_bytes: f64,
}

/// Which term sets the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes over bandwidth.
    Memory,
    /// FLOP over rate.
    Compute,
}

/// No step with this work can be faster than `bound_s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepBound {
    /// The work.
    pub work: StepWork,
    /// Time to move the bytes.
    pub memory_s: f64,
    /// Time to compute, `None` when the device's rate for the format is unknown.
    pub compute_s: Option<f64>,
    /// The larger.
    pub bound_s: f64,
    /// Which that is.
    pub limit: Limit,
}

/// Expected experts touched per layer by `tokens` tokens that choose `per_token` of `experts` at random:
/// `E (1 - (1 - k/E)^B)`.
pub fn experts_touched(experts: u32, per_token: u32, tokens: f64) -> f64 {
    if experts == 0 {
        return 0.0;
    }
    let share = (f64::from(per_token) / f64::from(experts)).min(1.0);
    f64::from(experts) * (1.0 - (1.0 - share).powf(plausible(tokens)))
}

/// Work of one step on each rank: `2 P` FLOP per token, `4 L n_q d c` per decoding sequence, weights touched once,
/// `c` tokens of KV read per sequence. Prompt tokens need no head but their last, and how they share prompts is not in
/// a step's shape, so their attention is left out here: see [`prefill_flops`]. For MLA this counts the uncompressed heads,
/// the cheaper way. Experts are touched by chance; skewed routing touches fewer.
pub fn step_work(model: &ModelShape, deployment: Deployment, step: &StepShape) -> StepWork {
    let ranks = f64::from(deployment.ranks.max(1));
    let (prefill, decode, context) = (plausible(step.prefill_tokens), plausible(step.decode_seqs), plausible(step.mean_context));
    let parts = model.param_parts();
    let layers_active = model.active_param_count() - parts.embedding - parts.head;
    let head = f64::from(model.vocab) * f64::from(model.hidden);
    let new_kv = kv_bytes_per_token_per_rank(model, deployment.kv, deployment.ranks) * (prefill + decode);
    StepWork {
        linear_flops: 2.0 * (layers_active * (prefill + decode) + head * decode) / ranks,
        attention_flops: decode * attention_flops_per_token(model, context) / ranks,
        weight_bytes: weight_bytes_touched(model, deployment.weights, prefill + decode) / ranks,
        kv_bytes: decode * kv_bytes_read_per_rank(model, deployment.kv, context, deployment.ranks) + new_kv,
    }
}

/// The lower bound of one step, `max(bytes / W, flops / F)`.
pub fn step_bound(model: &ModelShape, deployment: Deployment, step: &StepShape, gpu: &Gpu) -> StepBound {
    let work = step_work(model, deployment, step);
    let memory_s = (work.weight_bytes + work.kv_bytes) / gpu.dram_bytes_per_s;
    let compute_s = peak_flops(gpu, deployment.weights).map(|rate| (work.linear_flops + work.attention_flops) / rate);
    let limit = if compute_s.is_some_and(|compute_s| compute_s > memory_s) { Limit::Compute } else { Limit::Memory };
    StepBound { work, memory_s, compute_s, bound_s: memory_s.max(compute_s.unwrap_or(0.0)), limit }
}

/// FLOP to prefill `new_tokens` of one prompt after `cached_tokens` found in the prefix cache, whole model:
/// `2 P S` and causal attention `4 L n_q d (S c0 + S^2 / 2)`.
pub fn prefill_flops(model: &ModelShape, new_tokens: f64, cached_tokens: f64) -> f64 {
    let (new, cached) = (plausible(new_tokens), plausible(cached_tokens));
    let parts = model.param_parts();
    let layers_active = model.active_param_count() - parts.embedding - parts.head;
    let head = f64::from(model.vocab) * f64::from(model.hidden);
    2.0 * (layers_active * new + head) + attention_pairs_flops(model, new, cached)
}

/// FLOP of causal attention of `new` prompt tokens after `cached` ones: `4 n_q d` per pair that is looked at. Layers with a
/// window look at `min(c, window)` tokens, a sparse attention at its chosen ones.
pub(crate) fn attention_pairs_flops(model: &ModelShape, new: f64, cached: f64) -> f64 {
    let layers = f64::from(model.cached_layers());
    let windowed = f64::from(model.windowed_layers).min(layers);
    let chosen = if model.sparse_tokens > 0 { f64::from(model.sparse_tokens) } else { f64::INFINITY };
    let window = if model.window > 0 { f64::from(model.window).min(chosen) } else { chosen };
    let per_pair = 4.0 * f64::from(model.heads) * f64::from(model.head_dim);
    per_pair * ((layers - windowed) * pairs(new, cached, chosen) + windowed * pairs(new, cached, window))
}

/// Sum over `new` tokens of the tokens each looks back at, at most `limit`.
fn pairs(new: f64, cached: f64, limit: f64) -> f64 {
    let growing = (limit - cached).clamp(0.0, new);
    growing * cached + growing * growing / 2.0 + if limit.is_finite() { (new - growing) * limit } else { 0.0 }
}

/// Lower bound of prefilling one prompt, `None` when the device's rate for the format is unknown.
pub fn prefill_bound_s(model: &ModelShape, deployment: Deployment, new_tokens: f64, cached_tokens: f64, gpu: &Gpu) -> Option<f64> {
    let compute_s =
        prefill_flops(model, new_tokens, cached_tokens) / f64::from(deployment.ranks.max(1)) / peak_flops(gpu, deployment.weights)?;
    let bytes = weight_bytes_touched(model, deployment.weights, plausible(new_tokens)) / f64::from(deployment.ranks.max(1));
    Some(compute_s.max(bytes / gpu.dram_bytes_per_s))
}

/// Batch at which linear layers turn from memory to compute, `B* = F b / (2 W)`.
pub fn ridge_batch(flops_per_s: f64, dram_bytes_per_s: f64, bytes_per_param: f64) -> f64 {
    plausible(bytes_per_param) * flops_per_s.clamp(0.0, 1e30) / (2.0 * dram_bytes_per_s.clamp(1.0, 1e30))
}

/// Batch at which a whole decode step turns compute bound at `context` tokens per sequence, `None` when it never does:
/// `(weights / W) / ((2P + 4 L n_q d c) / F - kv c / W)`. Past that context a larger batch buys little.
pub fn ridge_batch_with_kv(model: &ModelShape, deployment: Deployment, context: f64, gpu: &Gpu) -> Option<f64> {
    let one = step_work(model, deployment, &StepShape { prefill_tokens: 0.0, decode_seqs: 1.0, mean_context: context });
    let compute_s = (one.linear_flops + one.attention_flops) / peak_flops(gpu, deployment.weights)?;
    let kv_s = one.kv_bytes / gpu.dram_bytes_per_s;
    let all_weights = weight_bytes_touched(model, deployment.weights, f64::MAX) / f64::from(deployment.ranks.max(1));
    (compute_s > kv_s).then(|| all_weights / gpu.dram_bytes_per_s / (compute_s - kv_s))
}

/// The fastest rate a device could use for weights of a format: their own type, or the 16-bit rate after widening.
pub fn peak_flops(gpu: &Gpu, weights: Dtype) -> Option<f64> {
    let fastest = |rates: &[Option<f64>]| rates.iter().flatten().copied().reduce(f64::max);
    match weights {
        Dtype::F32 | Dtype::Bf16 | Dtype::Int4G128 => gpu.bf16_flops,
        Dtype::Fp8 => fastest(&[gpu.fp8_flops, gpu.bf16_flops]),
        Dtype::Int8 => fastest(&[gpu.int8_flops, gpu.bf16_flops]),
        Dtype::Mxfp4 | Dtype::Nvfp4 => fastest(&[gpu.fp4_flops, gpu.fp8_flops, gpu.bf16_flops]),
    }
}

/// Bytes of weights that `tokens` tokens touch in one step: all but the embedding table, experts by chance.
pub(crate) fn weight_bytes_touched(model: &ModelShape, dtype: Dtype, tokens: f64) -> f64 {
    if tokens <= 0.0 {
        return 0.0;
    }
    let parts = model.param_parts();
    let table = if model.tied_embeddings { 0.0 } else { parts.embedding * if dtype == Dtype::F32 { 4.0 } else { 2.0 } };
    let experts = parts.routed_experts * dtype.bytes_per_param();
    let touched =
        if model.experts == 0 { 0.0 } else { experts_touched(model.experts, model.experts_per_token, tokens) / f64::from(model.experts) };
    weight_bytes(model, dtype) - table - experts * (1.0 - touched)
}

/// `4 L n_q d` per token of context, with windows.
pub(crate) fn attention_flops_per_token(model: &ModelShape, context: f64) -> f64 {
    let cached = f64::from(model.cached_layers());
    let windowed = f64::from(model.windowed_layers).min(cached);
    let chosen = if model.sparse_tokens > 0 { context.min(f64::from(model.sparse_tokens)) } else { context };
    let seen = if model.window > 0 { chosen.min(f64::from(model.window)) } else { chosen };
    4.0 * f64::from(model.heads) * f64::from(model.head_dim) * ((cached - windowed) * chosen + windowed * seen)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{hardware, models};

    const FP8: Deployment = Deployment { weights: Dtype::Fp8, kv: Dtype::Fp8, ranks: 1 };

    #[test]
    fn ridge_batches_of_the_data_sheets() {
        for (id, expected) in [("h100-sxm", 295.0), ("h200-sxm", 206.0), ("a100-sxm-80", 153.0), ("rtx-4090", 164.0)] {
            let gpu = hardware::find(id).unwrap();
            let ridge = ridge_batch(gpu.bf16_flops.unwrap(), gpu.dram_bytes_per_s, 2.0);
            assert!((ridge - expected).abs() < 0.6, "{id}: {ridge:.1}");
        }
    }

    #[test]
    fn long_chats_never_turn_compute_bound() {
        let (model, gpu) = (models::find("Llama-3-8B").unwrap(), hardware::find("h100-sxm").unwrap());
        let bf16 = Deployment { weights: Dtype::Bf16, kv: Dtype::Bf16, ranks: 1 };
        assert!(ridge_batch_with_kv(model, bf16, 50.0, gpu).unwrap() > 295.0);
        assert_eq!(ridge_batch_with_kv(model, bf16, 4096.0, gpu), None);
    }

    #[test]
    fn a_known_step_by_hand() {
        // Llama-3-8B in BF16 on one H100, 32 sequences of 1,000 tokens: 15.0 GB of layers and head and 4.2 GB of KV.
        let (model, gpu) = (models::find("Llama-3-8B").unwrap(), hardware::find("h100-sxm").unwrap());
        let bf16 = Deployment { weights: Dtype::Bf16, kv: Dtype::Bf16, ranks: 1 };
        let bound = step_bound(model, bf16, &StepShape { prefill_tokens: 0.0, decode_seqs: 32.0, mean_context: 1000.0 }, gpu);
        assert_eq!(bound.limit, Limit::Memory);
        assert!((bound.work.weight_bytes / 15.01e9 - 1.0).abs() < 1e-3, "{:?}", bound.work);
        assert!((bound.work.kv_bytes / 4.198e9 - 1.0).abs() < 1e-3, "{:?}", bound.work);
        assert!((bound.bound_s / 5.73e-3 - 1.0).abs() < 1e-2, "{bound:?}");
    }

    #[test]
    fn a_batch_touches_experts_by_chance() {
        assert!((experts_touched(128, 8, 1.0) - 8.0).abs() < 1e-9);
        assert!((experts_touched(8, 2, 4.0) - 8.0 * (1.0 - 0.75f64.powi(4))).abs() < 1e-9);
        assert_eq!(experts_touched(256, 8, 1e9), 256.0);
        assert_eq!(experts_touched(0, 0, 10.0), 0.0);
    }

    #[test]
    fn cached_prefixes_save_their_share() {
        // 2P(1-h)S + 2 L n_q d S^2 (1-h^2), the head aside.
        let model = models::find("Llama-3-8B").unwrap();
        let (whole, half) = (prefill_flops(model, 8000.0, 0.0), prefill_flops(model, 4000.0, 4000.0));
        let attention = 2.0 * 32.0 * 32.0 * 128.0 * 8000.0f64.powi(2);
        let head = 2.0 * 128_256.0 * 4096.0;
        let linear = whole - attention - head;
        assert!((half / (linear / 2.0 + attention * 0.75 + head) - 1.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn more_work_is_never_faster(prefill in 0.0..1e5f64, decode in 0.0..4e3f64, context in 0.0..1e6f64, grow in 1.0..10.0f64) {
            for name in ["Llama-3-70B", "Qwen3-30B-A3B", "DeepSeek-R1", "gpt-oss-20b"] {
                let (model, gpu) = (models::find(name).unwrap(), hardware::find("h200-sxm").unwrap());
                let bound = |prefill: f64, decode: f64, context: f64| {
                    step_bound(model, FP8, &StepShape { prefill_tokens: prefill, decode_seqs: decode, mean_context: context }, gpu).bound_s
                };
                let base = bound(prefill, decode, context);
                prop_assert!(base.is_finite() && base >= 0.0);
                prop_assert!(bound(prefill * grow, decode, context) >= base);
                prop_assert!(bound(prefill, decode * grow, context) >= base);
                prop_assert!(bound(prefill, decode, context * grow) >= base);
            }
        }
    }

    #[test]
    fn hostile_steps_stay_finite() {
        let (model, gpu) = (models::find("Mixtral-8x7B").unwrap(), hardware::find("l4").unwrap());
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -3.0] {
            let bound = step_bound(model, FP8, &StepShape { prefill_tokens: bad, decode_seqs: bad, mean_context: bad }, gpu);
            assert_eq!(bound.bound_s, 0.0, "{bad}");
        }
    }
}
