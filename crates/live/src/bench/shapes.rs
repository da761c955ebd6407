//! The matrices and caches of a model, as one layer and the head multiply and read them.

use model::models::{Attention, ModelShape};
use serde_json::Value;

/// A weight matrix: `outputs` rows of `inputs` values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Short name.
    pub name: &'static str,
    /// Values out.
    pub outputs: u32,
    /// Values in.
    pub inputs: u32,
}

/// What the operators need to know of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shapes {
    /// Name of the model.
    pub model: String,
    /// Weight matrices of a layer, and the head.
    pub matrices: Vec<Matrix>,
    /// Query heads.
    pub heads: u32,
    /// Heads of the cache; 1 where a latent vector is shared by all.
    pub kv_heads: u32,
    /// Width of a head of the cache.
    pub head_dim: u32,
}

impl From<&ModelShape> for Shapes {
    fn from(model: &ModelShape) -> Self {
        let matrix = |name, outputs, inputs| Matrix { name, outputs, inputs };
        let (hidden, heads, head_dim) = (model.hidden, model.heads, model.head_dim);
        let mut matrices = Vec::new();
        let (kv_heads, kv_dim) = match model.attention {
            Attention::Gqa => {
                matrices.push(matrix("qkv", (heads + 2 * model.kv_heads) * head_dim, hidden));
                (model.kv_heads, head_dim)
            }
            Attention::Mla { latent, rope } => {
                let query_width = heads * (head_dim + rope);
                if model.query_latent > 0 {
                    matrices.push(matrix("q_down", model.query_latent, hidden));
                    matrices.push(matrix("q_up", query_width, model.query_latent));
                } else {
                    matrices.push(matrix("q", query_width, hidden));
                }
                matrices.push(matrix("kv_down", latent + rope, hidden));
                (1, latent + rope)
            }
        };
        matrices.push(matrix("attention_out", hidden, heads * head_dim));
        matrices.push(matrix("gate_up", 2 * model.intermediate, hidden));
        matrices.push(matrix("down", hidden, model.intermediate));
        matrices.push(matrix("head", model.vocab, hidden));
        Self { model: model.name.clone(), matrices, heads, kv_heads, head_dim: kv_dim }
    }
}

/// Largest size that a configuration may state: keeps every product of two within 64 bits.
const LARGEST: u64 = 1 << 24;

impl Shapes {
    /// Reads a model's `config.json` as published on model hubs; `name` is what the model is called. Grouped attention only,
    /// whose names are the same everywhere.
    pub fn from_config(name: &str, text: &str) -> Result<Self, String> {
        let config: Value = serde_json::from_str(text).map_err(|error| format!("expected JSON: {error}"))?;
        // Models of several kinds keep the language model's part apart.
        let config = config.get("text_config").unwrap_or(&config);
        let optional = |key: &str| match config.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64().filter(|size| (1..=LARGEST).contains(size)) {
                Some(size) => Ok(Some(size as u32)),
                None => Err(format!("expected a size from 1 to {LARGEST} in `{key}`, found `{value}`")),
            },
        };
        let required = |key: &str| optional(key)?.ok_or_else(|| format!("expected `{key}`, found none"));
        if config.get("kv_lora_rank").is_some() {
            return Err("expected grouped attention, found a latent cache (`kv_lora_rank`); name the model instead".to_string());
        }
        let (hidden, heads) = (required("hidden_size")?, required("num_attention_heads")?);
        let kv_heads = optional("num_key_value_heads")?.unwrap_or(heads);
        let head_dim = optional("head_dim")?.unwrap_or((hidden / heads).max(1));
        let width = optional("moe_intermediate_size")?.map_or_else(|| required("intermediate_size"), Ok)?;
        let vocab = required("vocab_size")?;
        let matrix = |name, outputs, inputs| Matrix { name, outputs, inputs };
        let wide = |count: u32, of: u32| count.checked_mul(of).ok_or_else(|| format!("{count} x {of} is too large"));
        let matrices = vec![
            matrix("qkv", wide(heads.saturating_add(kv_heads.saturating_mul(2)), head_dim)?, hidden),
            matrix("attention_out", hidden, wide(heads, head_dim)?),
            matrix("gate_up", 2 * width, hidden),
            matrix("down", hidden, width),
            matrix("head", vocab, hidden),
        ];
        Ok(Self { model: name.to_string(), matrices, heads, kv_heads, head_dim })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_configuration_gives_the_same_as_the_table() {
        let config = r#"{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
            "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256, "rope_scaling": {"factor": 8.0}}"#;
        let expected = Shapes::from(model::models::find("Llama-3.1-8B").unwrap());
        assert_eq!(Shapes::from_config(&expected.model, config), Ok(expected));
    }

    #[test]
    fn a_configuration_that_says_too_little_or_nonsense_is_refused() {
        let refused = |text: &str| Shapes::from_config("m", text).unwrap_err();
        assert_eq!(refused(r#"{"hidden_size": 64}"#), "expected `num_attention_heads`, found none");
        assert_eq!(refused(r#"{"hidden_size": -1}"#), "expected a size from 1 to 16777216 in `hidden_size`, found `-1`");
        assert_eq!(
            refused(r#"{"hidden_size": 64, "num_attention_heads": 0}"#),
            "expected a size from 1 to 16777216 in `num_attention_heads`, found `0`"
        );
        assert!(refused(r#"{"kv_lora_rank": 512}"#).starts_with("expected grouped attention"));
        assert!(refused("{").starts_with("expected JSON: "));
        let huge =
            r#"{"hidden_size": 16777216, "num_attention_heads": 16777216, "head_dim": 16777216, "intermediate_size": 1, "vocab_size": 1}"#;
        assert!(refused(huge).ends_with("is too large"));
    }

    #[test]
    fn the_matrices_of_a_layer_hold_its_parameters() {
        for name in ["Llama-3.1-8B", "Qwen3-32B"] {
            let model = model::models::find(name).unwrap();
            let shapes = Shapes::from(model);
            let params = |wanted: &str| -> f64 {
                let held = |matrix: &&Matrix| matrix.name == wanted;
                shapes.matrices.iter().find(held).map_or(0.0, |matrix| f64::from(matrix.outputs) * f64::from(matrix.inputs))
            };
            let layer: f64 = ["qkv", "attention_out", "gate_up", "down"].map(params).iter().sum();
            let parts = model.param_parts();
            assert_eq!(layer * f64::from(model.layers), parts.attention + parts.dense_ffn, "{name}");
        }
    }

    #[test]
    fn a_latent_cache_has_one_head() {
        let shapes = Shapes::from(model::models::find("DeepSeek-V3").unwrap());
        assert_eq!((shapes.kv_heads, shapes.head_dim, shapes.heads), (1, 576, 128));
        assert!(shapes.matrices.iter().any(|matrix| matrix.name == "kv_down" && matrix.outputs == 576));
    }
}
