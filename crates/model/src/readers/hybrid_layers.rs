//! Which layers of a model have attention, a state of constant size, a feed-forward part.
//!
//! Three ways of saying it are read: a list of kinds (Qwen3-Next and 3.5), a pattern of letters (Nemotron-H) and a period
//! (Jamba). What a state layer weighs and keeps follows from the published architectures: gated delta rule, Mamba and
//! Mamba-2.

use super::ReadModelError;
use super::json_fields::Fields;
use crate::models::ModelShape;

/// The layers of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Layers {
    pub(super) attention: u32,
    pub(super) state: u32,
    pub(super) ffn: u32,
    pub(super) state_params: f64,
    pub(super) state_bytes: f64,
    pub(super) plain_ffn: bool,
    /// Each layer is one part with one norm.
    pub(super) one_norm: bool,
}

/// Reads the layers; a model that says nothing has attention and a feed-forward part in all of them.
pub(super) fn layers(text: &Fields, shape: &ModelShape) -> Result<Layers, ReadModelError> {
    let all = shape.layers;
    let plain = Layers { attention: all, state: 0, ffn: 0, state_params: 0.0, state_bytes: 0.0, plain_ffn: false, one_norm: false };
    if let Some(pattern) = text.text("hybrid_override_pattern") {
        return by_letters(text, shape, pattern);
    }
    if let Some(period) = text.count("attn_layer_period")?.filter(|period| *period > 0) {
        let attention = all / period;
        let (state_params, state_bytes) = mamba(text, shape)?;
        return Ok(Layers { attention, state: all - attention, state_params, state_bytes, ..plain });
    }
    let kinds = text.texts("layer_types")?.unwrap_or_default();
    let linear = kinds.iter().filter(|kind| **kind == "linear_attention").count() as u32;
    // Qwen3-Next states the interval and leaves the list to its code.
    let interval = text.count("full_attention_interval")?.filter(|interval| *interval > 0);
    let linear = if kinds.is_empty() { interval.map_or(0, |interval| all - all / interval) } else { linear.min(all) };
    if linear == 0 {
        return Ok(plain);
    }
    let (state_params, state_bytes) = delta_rule(text, shape)?;
    Ok(Layers { attention: all - linear, state: linear, state_params, state_bytes, ..plain })
}

/// `M` Mamba-2, `*` attention, `E` experts, `-` feed forward; every letter is a layer.
fn by_letters(text: &Fields, shape: &ModelShape, pattern: &str) -> Result<Layers, ReadModelError> {
    let count = |wanted: &[char]| pattern.chars().filter(|letter| wanted.contains(letter)).count() as u32;
    if pattern.chars().count() != shape.layers as usize {
        return Err(text.error("hybrid_override_pattern", "one letter for each of `num_hidden_layers`"));
    }
    let (state_params, state_bytes) = mamba2(text, shape)?;
    Ok(Layers {
        attention: count(&['*']),
        state: count(&['M']),
        ffn: count(&['E', '-']),
        state_params,
        state_bytes,
        plain_ffn: text.text("mlp_hidden_act").is_some_and(|act| act.starts_with("relu")),
        one_norm: true,
    })
}

/// Gated delta rule: query, key, value and gate in, two scalars per value head, a short convolution, one matrix out. The
/// state is `key width x value width` per value head in 32 bit, and the convolution's tail in 16.
fn delta_rule(text: &Fields, shape: &ModelShape) -> Result<(f64, f64), ReadModelError> {
    let f = |name: &str| text.needed(&[name]).map(f64::from);
    let (key_heads, key_dim) = (f("linear_num_key_heads")?, f("linear_key_head_dim")?);
    let (value_heads, value_dim) = (f("linear_num_value_heads")?, f("linear_value_head_dim")?);
    let (kernel, hidden) = (f("linear_conv_kernel_dim")?, f64::from(shape.hidden));
    let (keys, values) = (key_heads * key_dim, value_heads * value_dim);
    let mixed = 2.0 * keys + values;
    let params = hidden * (mixed + values) + hidden * 2.0 * value_heads + mixed * kernel + values * hidden + 2.0 * value_heads + value_dim;
    Ok((params, value_heads * key_dim * value_dim * 4.0 + mixed * (kernel - 1.0) * 2.0))
}

/// Mamba-2: one matrix in for gate, input, B, C and step sizes, a short convolution, one matrix out.
fn mamba2(text: &Fields, shape: &ModelShape) -> Result<(f64, f64), ReadModelError> {
    let f = |name: &str| text.needed(&[name]).map(f64::from);
    let (heads, head_dim, state) = (f("mamba_num_heads")?, f("mamba_head_dim")?, f("ssm_state_size")?);
    let (groups, kernel, hidden) = (f("n_groups")?, f("conv_kernel")?, f64::from(shape.hidden));
    let inner = heads * head_dim;
    let mixed = inner + 2.0 * groups * state;
    let params = hidden * (inner + mixed + heads) + inner * hidden + mixed * (kernel + 1.0) + 3.0 * heads + inner;
    let width = if text.text("mamba_ssm_cache_dtype") == Some("float32") { 4.0 } else { 2.0 };
    Ok((params, inner * state * width + mixed * (kernel - 1.0) * 2.0))
}

/// Mamba: the state is `inner width x state width`, in 32 bit.
fn mamba(text: &Fields, shape: &ModelShape) -> Result<(f64, f64), ReadModelError> {
    let f = |name: &str| text.needed(&[name]).map(f64::from);
    let hidden = f64::from(shape.hidden);
    let (state, kernel, inner) = (f("mamba_d_state")?, f("mamba_d_conv")?, f("mamba_expand")? * hidden);
    let rank = text.count("mamba_dt_rank")?.map_or((hidden / 16.0).ceil(), f64::from);
    let params = hidden * 2.0 * inner + inner * (kernel + 1.0) + inner * (rank + 2.0 * state) + rank * inner + inner;
    Ok((params + inner * state + inner + inner * hidden, inner * state * 4.0 + inner * (kernel - 1.0) * 2.0))
}
