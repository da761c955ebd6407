//! Reads a Hugging Face `config.json` into a model's shape.
//!
//! Names of fields are those of the published families (Llama, Qwen, Mixtral, DeepSeek, Kimi, gpt-oss, Gemma, MiniMax, GLM,
//! Mistral, Phi, Nemotron-H, Jamba and what is built like them); multimodal models keep theirs under `text_config`. A model
//! whose layers differ in width (Nemotron's searched architectures) is refused. Vision parts are left out.

use super::hybrid_layers::{Layers, layers};
use super::json_fields::{Fields, parse};
use super::{ReadModelError, shown};
use crate::memory::Dtype;
use crate::models::{Attention, ModelShape};

const FILE: &str = "config.json";

/// A model as its configuration describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Its shape; parameter counts are computed from it.
    pub shape: ModelShape,
    /// `model_type` of the text part.
    pub family: String,
    /// Format of the weights: that of the quantization, else of the floats; `None` when neither is known.
    pub weights: Option<Dtype>,
    /// Longest context, tokens.
    pub max_context: Option<u32>,
    /// Layers of drafting heads that come with the model and are not in the shape.
    pub draft_layers: u32,
}

/// Reads the file.
pub fn config_json(bytes: &[u8]) -> Result<Config, ReadModelError> {
    let value = parse(FILE, bytes)?;
    let whole = Fields::of(FILE, &value)?;
    let text = whole.inner("text_config").or_else(|| whole.inner("llm_config")).or_else(|| whole.inner("language_config")).unwrap_or(whole);
    for differing in ["block_configs", "global_head_dim"] {
        if text.map.get(differing).is_some_and(|value| !value.is_null()) {
            return Err(text.error(differing, "layers of one width"));
        }
    }
    let family = text.text("model_type").or_else(|| whole.text("model_type")).unwrap_or_default();
    let mut shape = dimensions(&text, family)?;
    attention(&text, &mut shape)?;
    experts(&text, family, &mut shape)?;
    let mixed = layers(&text, &shape)?;
    apply(mixed, &mut shape);
    windows(&text, family, &mut shape)?;
    let tied = |fields: &Fields| fields.flag("tie_word_embeddings");
    shape.tied_embeddings = tied(&whole).or_else(|| tied(&text)).unwrap_or(ties_by_default(family));
    shape.name = whole.text("_name_or_path").filter(|name| !name.is_empty()).map_or_else(|| shown(family), shown);
    "config.json".clone_into(&mut shape.source);
    shape.checked = true;
    shape.params = shape.param_parts().total();
    shape.active_params = shape.active_param_count();
    Ok(Config {
        weights: quantized(&whole).or_else(|| quantized(&text)).or_else(|| floats(&whole)).or_else(|| floats(&text)),
        family: shown(family),
        max_context: text.first(&["max_position_embeddings", "n_positions"])?,
        draft_layers: text.first(&["num_nextn_predict_layers", "mtp_num_hidden_layers"])?.unwrap_or(0),
        shape,
    })
}

/// Widths that every model has.
fn dimensions(text: &Fields, family: &str) -> Result<ModelShape, ReadModelError> {
    let hidden = text.needed(&["hidden_size", "n_embd", "d_model"])?;
    let heads = text.needed(&["num_attention_heads", "n_head"])?;
    let layers = text.needed(&["num_hidden_layers", "n_layer"])?;
    if layers > 10_000 {
        return Err(text.error("num_hidden_layers", "at most 10000"));
    }
    let head_dim = match text.first(&["head_dim", "attention_head_dim"])? {
        Some(width) if width > 0 => width,
        _ => hidden / heads,
    };
    if head_dim == 0 {
        return Err(text.error("num_attention_heads", "no more heads than `hidden_size`"));
    }
    let vocab = text.needed(&["vocab_size"])?;
    let gemma = family.starts_with("gemma");
    Ok(ModelShape {
        layers,
        hidden,
        heads,
        kv_heads: text.first(&["num_key_value_heads"])?.filter(|heads| *heads > 0).unwrap_or(heads).min(heads),
        head_dim,
        vocab,
        norms_per_layer: if gemma && family != "gemma" { 4 } else { 2 },
        qkv_bias: family.starts_with("qwen2") || text.flag("attention_bias") == Some(true),
        qk_norm: family.starts_with("qwen3")
            || family.starts_with("gemma3")
            || (text.flag("use_qk_norm") == Some(true) && family != "minimax_m2"),
        gated_attention: text.flag("attn_output_gate") == Some(true) || family.starts_with("qwen3_next"),
        ..ModelShape::default()
    })
}

/// Latent attention, and the choice of a sparse one.
fn attention(text: &Fields, shape: &mut ModelShape) -> Result<(), ReadModelError> {
    let Some(latent) = text.count("kv_lora_rank")?.filter(|latent| *latent > 0) else { return Ok(()) };
    shape.attention = Attention::Mla { latent, rope: text.needed(&["qk_rope_head_dim"])? };
    shape.head_dim = text.needed(&["qk_nope_head_dim"])?;
    shape.kv_heads = shape.heads;
    shape.query_latent = text.count("q_lora_rank")?.unwrap_or(0);
    let value = text.needed(&["v_head_dim"])?;
    shape.value_dim = if value == shape.head_dim { 0 } else { value };
    if let Some(chosen) = text.count("index_topk")?.filter(|chosen| *chosen > 0) {
        shape.sparse_tokens = chosen;
        shape.index_dim = text.needed(&["index_head_dim"])?;
        shape.index_heads = text.needed(&["index_n_heads"])?;
    }
    Ok(())
}

/// Feed-forward widths, routed and shared experts.
fn experts(text: &Fields, family: &str, shape: &mut ModelShape) -> Result<(), ReadModelError> {
    let routed = text.first(&["n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"])?.filter(|count| *count > 1);
    let Some(routed) = routed else {
        shape.intermediate = match text.first(&["intermediate_size", "n_inner", "ffn_hidden_size"])? {
            Some(width) if width > 0 => width,
            _ => return Err(text.error("intermediate_size", "a whole number above 0")),
        };
        return Ok(());
    };
    shape.experts = routed;
    shape.experts_per_token = text.needed(&["num_experts_per_tok", "top_k_experts", "experts_per_token", "moe_topk"])?.min(routed);
    shape.intermediate = text.needed(&["moe_intermediate_size", "intermediate_size"])?;
    let shared = text.first(&["n_shared_experts", "num_shared_experts"])?;
    let stated = text.first(&["shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"])?;
    // Llama 4 calls the width of its one shared expert that of the experts.
    let width = if family.starts_with("llama4") { text.count("intermediate_size")? } else { stated };
    match (shared, width) {
        (Some(0), _) | (None, None | Some(0)) => {}
        (Some(count), None | Some(0)) => shape.shared_experts = count,
        (_, Some(width)) => (shape.shared_experts, shape.shared_intermediate) = (shared.unwrap_or(1), width),
    }
    if let Some(dense) = text.count("first_k_dense_replace")?.filter(|dense| *dense > 0) {
        shape.dense_layers = dense.min(shape.layers);
        shape.dense_intermediate = text.needed(&["intermediate_size"])?;
    }
    if let Some(step) = text.first(&["interleave_moe_layer_step", "expert_layer_period"])?.filter(|step| *step > 1) {
        shape.expert_layers = shape.layers / step;
        shape.dense_intermediate = text.needed(&["intermediate_size_mlp", "intermediate_size"])?;
    }
    Ok(())
}

fn apply(mixed: Layers, shape: &mut ModelShape) {
    let Layers { attention, state, ffn, state_params, state_bytes, plain_ffn, one_norm } = mixed;
    if state > 0 || attention < shape.layers {
        (shape.attention_layers, shape.state_layers, shape.ffn_layers) = (attention, state, ffn);
        (shape.state_params, shape.state_bytes) = (state_params, state_bytes);
    }
    shape.plain_ffn = plain_ffn;
    if one_norm {
        shape.norms_per_layer = 1;
    }
}

/// Layers that look back a window only: listed, by a pattern, or all of them.
fn windows(text: &Fields, family: &str, shape: &mut ModelShape) -> Result<(), ReadModelError> {
    let Some(window) = text.count("sliding_window")?.filter(|window| *window > 0) else { return Ok(()) };
    if text.flag("use_sliding_window") == Some(false) {
        return Ok(());
    }
    let listed = text.texts("layer_types")?.map(|kinds| kinds.iter().filter(|kind| **kind == "sliding_attention").count() as u32);
    let pattern = text.first(&["sliding_window_pattern"])?.filter(|pattern| *pattern > 0);
    let windowed = match (listed, pattern, family) {
        (Some(count), ..) => count.min(shape.layers),
        (None, Some(pattern), _) => shape.layers - shape.layers / pattern,
        // Families that leave the rule to their code.
        (None, None, "gemma2") => shape.layers.div_ceil(2),
        (None, None, "gemma3_text" | "gemma3") => shape.layers - shape.layers / 6,
        (None, None, "gpt_oss") => shape.layers / 2,
        (None, None, "mistral" | "mixtral" | "starcoder2" | "phi3") => shape.layers,
        _ => 0,
    };
    if windowed > 0 {
        (shape.window, shape.windowed_layers) = (window, windowed);
    }
    Ok(())
}

/// What a family does when its file does not say; the rest keep a head of their own.
fn ties_by_default(family: &str) -> bool {
    family.starts_with("gemma") || family == "gpt2" || family == "cohere"
}

/// The type of the floats.
fn floats(fields: &Fields) -> Option<Dtype> {
    fields.text("dtype").or_else(|| fields.text("torch_dtype")).and_then(Dtype::parse)
}

/// The quantization's format.
fn quantized(fields: &Fields) -> Option<Dtype> {
    let quantization = fields.inner("quantization_config")?;
    let method = quantization.text("quant_method").unwrap_or_default();
    let algorithm = quantization.text("quant_algo").unwrap_or_default();
    let bits = quantization.map.get("bits").and_then(serde_json::Value::as_u64);
    let group = || {
        let groups = quantization.inner("config_groups")?;
        let first = groups.map.values().find_map(serde_json::Value::as_object)?;
        let weights = first.get("weights")?;
        let kind = weights.get("type").and_then(serde_json::Value::as_str).unwrap_or("int");
        match (weights.get("num_bits")?.as_u64()?, kind) {
            (4, "float") => Some(Dtype::Nvfp4),
            (4, _) => Some(Dtype::Int4G128),
            (8, "float") => Some(Dtype::Fp8),
            (8, _) => Some(Dtype::Int8),
            _ => None,
        }
    };
    match (method, bits) {
        ("gptq" | "awq", Some(8)) => Some(Dtype::Int8),
        ("gptq" | "awq", _) => Some(Dtype::Int4G128),
        ("modelopt", _) => Dtype::parse(algorithm),
        ("compressed-tensors", _) => group(),
        (method, _) => Dtype::parse(method),
    }
}
