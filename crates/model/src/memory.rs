//! Device memory: weights, KV cache per token, what is left for it.
//!
//! An engine that logs its KV capacity is right and this file is second best: activations, graphs and context vary by a
//! factor of ten between systems, so the reserve is an interval and the capacity inherits it. Encoders of multimodal
//! models profile far larger activations than the text part computed here.

use crate::models::{Attention, ModelShape};

const GIB: f64 = 1_073_741_824.0;

/// Number format of weights or of the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// 32-bit float.
    F32,
    /// 16-bit float, either kind.
    Bf16,
    /// 8-bit float, scales per 128 x 128 block at most.
    Fp8,
    /// 8-bit integer, scales per channel.
    Int8,
    /// 4-bit integer with one 16-bit scale per 128 values (AWQ, GPTQ).
    Int4G128,
    /// 4-bit float with one 8-bit scale per 32 values.
    Mxfp4,
    /// 4-bit float with one 8-bit scale per 16 values.
    Nvfp4,
}

impl Dtype {
    /// All formats.
    pub const ALL: [Self; 7] = [Self::F32, Self::Bf16, Self::Fp8, Self::Int8, Self::Int4G128, Self::Mxfp4, Self::Nvfp4];

    /// Bytes per value with its share of the scales (block formats as their specifications state them; INT4 0.516 to
    /// 0.52 depending on zero points).
    pub fn bytes_per_param(self) -> f64 {
        match self {
            Self::F32 => 4.0,
            Self::Bf16 => 2.0,
            Self::Fp8 => 1.0 + 4.0 / (128.0 * 128.0),
            Self::Int8 => 1.0,
            Self::Int4G128 => 0.5 + 2.0 / 128.0,
            Self::Mxfp4 => 0.5 + 1.0 / 32.0,
            Self::Nvfp4 => 0.5 + 1.0 / 16.0,
        }
    }

    /// Reads the words engines and checkpoints use (`bfloat16`, `fp8_e4m3`, `awq`, `w4a16`, `nvfp4`).
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let text = text.strip_prefix("torch.").unwrap_or(&text);
        Some(match text {
            "float32" | "fp32" | "f32" | "float" => Self::F32,
            "bfloat16" | "bf16" | "float16" | "fp16" | "half" => Self::Bf16,
            "int8" | "w8a8" | "w8a16" => Self::Int8,
            "awq" | "gptq" | "awq_marlin" | "gptq_marlin" | "int4" | "w4a16" | "int4_wo" => Self::Int4G128,
            "mxfp4" => Self::Mxfp4,
            "fp4" | "nvfp4" | "modelopt_fp4" => Self::Nvfp4,
            _ if text.starts_with("fp8") || text.starts_with("float8") || text == "modelopt" => Self::Fp8,
            _ => return None,
        })
    }
}

/// A figure with its honest range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Not below this.
    pub lo: f64,
    /// Best single figure.
    pub mid: f64,
    /// Not above this.
    pub hi: f64,
}

impl Estimate {
    /// A figure known exactly.
    pub fn exact(value: f64) -> Self {
        Self { lo: value, mid: value, hi: value }
    }

    /// Applies a function that keeps or turns the order, and sorts the ends.
    #[must_use]
    pub fn map(self, apply: impl Fn(f64) -> f64) -> Self {
        let (lo, hi) = (apply(self.lo), apply(self.hi));
        Self { lo: lo.min(hi), mid: apply(self.mid), hi: lo.max(hi) }
    }

    /// True when `value` lies inside.
    pub fn contains(&self, value: f64) -> bool {
        (self.lo..=self.hi).contains(&value)
    }
}

/// Bytes of all weights: quantized formats apply to the matrices of the layers, while embeddings, head, norms and
/// routers stay in 16 bit. 4-bit floats of a mixture leave attention in 16 bit, as the published checkpoints do (gpt-oss in
/// MXFP4; DeepSeek, Kimi, GLM-5, MiniMax and Qwen3.5 in NVFP4; Qwen3-235B is an exception that is not followed).
pub fn weight_bytes(model: &ModelShape, dtype: Dtype) -> f64 {
    let parts = model.param_parts();
    let wide = match dtype {
        Dtype::F32 => 4.0,
        _ => 2.0,
    };
    let attention = if has_wide_attention(model, dtype) { wide } else { dtype.bytes_per_param() };
    (parts.embedding + parts.head + parts.small) * wide
        + parts.attention * attention
        + (parts.dense_ffn + parts.routed_experts) * dtype.bytes_per_param()
}

/// True for checkpoints whose attention stays in 16 bit.
pub(crate) fn has_wide_attention(model: &ModelShape, dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Mxfp4 | Dtype::Nvfp4) && model.experts > 0
}

/// Bytes of weights on each of `ranks` tensor-parallel ranks. Norms and MLA's down projections are in truth replicated,
/// which adds less than 1 %.
pub fn weight_bytes_per_rank(model: &ModelShape, dtype: Dtype, ranks: u32) -> f64 {
    weight_bytes(model, dtype) / f64::from(ranks.max(1))
}

/// Bytes that one token adds to the KV cache of the whole model: `2 L n_k d b`, for MLA `L (r + d_rope) b`
/// (Llama-3-70B in BF16: the 320 KiB of the Mooncake paper, FAST 2025, section 5.3). Only layers with a cache count.
pub fn kv_bytes_per_token(model: &ModelShape, dtype: Dtype) -> f64 {
    f64::from(model.cached_layers()) * (kv_values_per_layer(model) * dtype.bytes_per_param() + index_bytes(model))
}

/// Bytes that one token adds on each rank: heads are divided over at most `kv_heads` ranks and copied beyond that; the
/// latent of MLA is copied to every rank.
pub fn kv_bytes_per_token_per_rank(model: &ModelShape, dtype: Dtype, ranks: u32) -> f64 {
    kv_bytes_per_token(model, dtype) / kv_split(model, ranks)
}

/// Bytes that a sequence of `context` tokens holds in the whole model: layers with a window keep `min(context, window)`
/// tokens, layers with a state keep it whatever the length.
pub fn kv_bytes_of_sequence(model: &ModelShape, dtype: Dtype, context: f64) -> f64 {
    token_bytes(model, dtype, plausible(context), plausible(context)) + state_bytes_of_sequence(model)
}

/// The same on each rank: KV heads are divided over at most `kv_heads` ranks, latents copied, states divided over all.
pub fn kv_bytes_of_sequence_per_rank(model: &ModelShape, dtype: Dtype, context: f64, ranks: u32) -> f64 {
    let context = plausible(context);
    token_bytes(model, dtype, context, context) / kv_split(model, ranks) + state_bytes_of_sequence(model) / f64::from(ranks.max(1))
}

/// Bytes that one decoding sequence reads in one step on each rank: a sparse attention reads all index keys and its
/// chosen tokens only, a state is read and written.
pub fn kv_bytes_read_per_rank(model: &ModelShape, dtype: Dtype, context: f64, ranks: u32) -> f64 {
    let context = plausible(context);
    let seen = if model.sparse_tokens > 0 { context.min(f64::from(model.sparse_tokens)) } else { context };
    token_bytes(model, dtype, context, seen) / kv_split(model, ranks) + 2.0 * state_bytes_of_sequence(model) / f64::from(ranks.max(1))
}

/// Bytes of constant state that one sequence holds in the whole model, 0 without such layers.
pub fn state_bytes_of_sequence(model: &ModelShape) -> f64 {
    f64::from(model.state_layers) * plausible(model.state_bytes)
}

/// Index keys of all `context` tokens, keys and values of the `seen` ones.
fn token_bytes(model: &ModelShape, dtype: Dtype, context: f64, seen: f64) -> f64 {
    let cached = f64::from(model.cached_layers());
    let windowed = f64::from(model.windowed_layers).min(cached);
    let in_window = if model.window > 0 { seen.min(f64::from(model.window)) } else { seen };
    let token_layers = (cached - windowed) * seen + windowed * in_window;
    token_layers * kv_values_per_layer(model) * dtype.bytes_per_param() + cached * context * index_bytes(model)
}

/// Bytes per token and layer of the key by which a sparse attention chooses: 8 bit with one 4-byte scale.
fn index_bytes(model: &ModelShape) -> f64 {
    if model.index_dim > 0 { f64::from(model.index_dim) + 4.0 } else { 0.0 }
}

/// Ranks over which the KV cache is divided.
pub(crate) fn kv_split(model: &ModelShape, ranks: u32) -> f64 {
    match model.attention {
        Attention::Gqa => f64::from(ranks.clamp(1, model.kv_heads.max(1))),
        Attention::Mla { .. } => 1.0,
    }
}

/// Bytes per rank that are neither weights nor KV cache:
/// `max_batched_tokens (2..4 h + 2 I / n) b + max_num_seqs V 4 (1..2) + graphs and context`.
///
/// The last term is 0.4 to 1.1 GiB, from the residuals of a 4090 (1.24 GB in all) and an L4 (0.83 GiB in all).
pub fn reserve_bytes(model: &ModelShape, max_batched_tokens: f64, max_num_seqs: f64, ranks: u32) -> Estimate {
    let ranks = f64::from(ranks.max(1));
    let (tokens, seqs) = (plausible(max_batched_tokens), plausible(max_num_seqs));
    let ffn = 2.0 * f64::from(model.intermediate.max(model.dense_intermediate)) / ranks;
    let activations = |width: f64| tokens * (width * f64::from(model.hidden) + ffn) * 2.0;
    let logits = |copies: f64| seqs * f64::from(model.vocab) * 4.0 * copies;
    Estimate {
        lo: activations(2.0) + logits(1.0) + 0.4 * GIB,
        mid: activations(3.0) + logits(1.5) + 0.7 * GIB,
        hi: activations(4.0) + logits(2.0) + 1.1 * GIB,
    }
}

/// Bytes per rank left for the KV cache: `u M - weights / n - R`, not below zero. `M` is what the driver reports, not
/// the marketing figure.
pub fn kv_budget(memory_bytes: f64, utilization_frac: f64, weight_bytes_per_rank: f64, reserve: Estimate) -> Estimate {
    let room = plausible(memory_bytes) * plausible(utilization_frac).min(1.0) - plausible(weight_bytes_per_rank);
    let left = |reserve: f64| (room - plausible(reserve)).max(0.0);
    Estimate { lo: left(reserve.hi), mid: left(reserve.mid), hi: left(reserve.lo) }
}

/// Tokens that a budget per rank holds.
pub fn capacity_tokens(budget_per_rank: Estimate, kv_bytes_per_token_per_rank: f64) -> Estimate {
    let tokens = |bytes: f64| if kv_bytes_per_token_per_rank > 0.0 { (bytes / kv_bytes_per_token_per_rank).floor() } else { 0.0 };
    Estimate { lo: tokens(budget_per_rank.lo), mid: tokens(budget_per_rank.mid), hi: tokens(budget_per_rank.hi) }
}

fn kv_values_per_layer(model: &ModelShape) -> f64 {
    match model.attention {
        Attention::Gqa => 2.0 * f64::from(model.kv_heads) * f64::from(model.head_dim),
        Attention::Mla { latent, rope } => f64::from(latent) + f64::from(rope),
    }
}

/// No count of tokens, sequences or bytes on one device is larger; keeps every product finite.
const LARGEST: f64 = 1e15;

/// Negative and non-finite inputs count as nothing, absurd ones as [`LARGEST`].
pub(crate) fn plausible(value: f64) -> f64 {
    if value.is_finite() { value.clamp(0.0, LARGEST) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::find;

    #[test]
    fn kv_bytes_of_published_models() {
        for (name, expected) in [("Llama-3-70B", 327_680.0), ("Llama-3-8B", 131_072.0), ("DeepSeek-V3", 70_272.0)] {
            assert_eq!(kv_bytes_per_token(find(name).unwrap(), Dtype::Bf16), expected, "{name}");
        }
    }

    #[test]
    fn ranks_divide_heads_and_copy_latents() {
        let llama = find("Llama-3-70B").unwrap();
        let per_rank: Vec<f64> =
            [1, 2, 8, 16].iter().map(|&ranks| kv_bytes_per_token_per_rank(llama, Dtype::Bf16, ranks) / 327_680.0).collect();
        assert_eq!(per_rank, [1.0, 0.5, 0.125, 0.125]);
        assert_eq!(kv_bytes_per_token_per_rank(find("DeepSeek-R1").unwrap(), Dtype::Bf16, 8), 70_272.0);
    }

    #[test]
    fn checkpoints_weigh_what_they_weigh() {
        // Sizes: LLMServingSim meta.json (exact), gpt-oss model card (12.8 and 60.8 GiB).
        assert_eq!(weight_bytes(find("Llama-3.1-8B").unwrap(), Dtype::Bf16), 16_060_522_496.0);
        for (name, gib) in [("gpt-oss-20b", 12.8), ("gpt-oss-120b", 60.8)] {
            let computed = weight_bytes(find(name).unwrap(), Dtype::Mxfp4) / GIB;
            assert!((computed / gib - 1.0).abs() < 0.02, "{name}: {computed:.2} GiB");
        }
    }

    #[test]
    fn windows_bound_long_sequences() {
        let gemma = find("gemma-3-27b").unwrap();
        let long = kv_bytes_of_sequence(gemma, Dtype::Bf16, 100_000.0);
        assert!(long < 0.2 * 100_000.0 * kv_bytes_per_token(gemma, Dtype::Bf16));
        let short = kv_bytes_of_sequence(gemma, Dtype::Bf16, 512.0);
        assert_eq!(short, 512.0 * kv_bytes_per_token(gemma, Dtype::Bf16));
    }

    #[test]
    fn formats_are_read_as_engines_write_them() {
        for (text, expected) in [
            ("torch.bfloat16", Some(Dtype::Bf16)),
            ("half", Some(Dtype::Bf16)),
            ("fp8_e4m3", Some(Dtype::Fp8)),
            ("fp8", Some(Dtype::Fp8)),
            ("awq_marlin", Some(Dtype::Int4G128)),
            ("NVFP4", Some(Dtype::Nvfp4)),
            ("auto", None),
        ] {
            assert_eq!(Dtype::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn hostile_figures_stay_finite() {
        let model = find("Llama-3-8B").unwrap();
        for bad in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            let reserve = reserve_bytes(model, bad, bad, 0);
            let budget = kv_budget(bad, bad, bad, reserve);
            let tokens = capacity_tokens(budget, kv_bytes_per_token_per_rank(model, Dtype::Fp8, 0));
            for value in [budget.lo, budget.mid, budget.hi, tokens.lo, tokens.mid, tokens.hi] {
                assert!(value.is_finite() && value >= 0.0, "{bad}: {budget:?} {tokens:?}");
            }
            assert!(kv_bytes_of_sequence(model, Dtype::Bf16, bad) >= 0.0);
        }
    }
}
