//! One plain function per input that must survive any bytes: no panic, bounded time and memory, finite figures.
//!
//! The tests run them over samples and their mutations on stable; `fuzz/` at the root of the repository drives the same
//! functions with cargo-fuzz.

use crate::evaluation;
use crate::memory::{Dtype, kv_bytes_of_sequence, weight_bytes};
use crate::models::ModelShape;
use crate::readers::{config_json, gguf_header, safetensors_header, safetensors_index};

/// `config.json` of a model.
pub fn model_config_json(data: &[u8]) {
    if let Ok(config) = config_json(data) {
        check(&config.shape);
    }
}

/// Header of a safetensors file, or an index of several.
pub fn model_safetensors(data: &[u8]) {
    if let Ok((tensors, weights)) = safetensors_header(data) {
        assert!(weights.scale_bytes <= weights.bytes && weights.tensor_count <= tensors.len(), "parts are at most the whole");
    }
    if let Ok(index) = safetensors_index(data) {
        assert!(index.files.len() <= index.tensor_count, "every file holds a tensor");
    }
}

/// Header of a GGUF file.
pub fn model_gguf(data: &[u8]) {
    if let Ok(header) = gguf_header(data)
        && let Ok(shape) = header.shape
    {
        check(&shape);
    }
}

/// A table of measured runs.
pub fn model_runs_csv(data: &[u8]) {
    if let Ok(runs) = evaluation::read(&String::from_utf8_lossy(data)) {
        let text = evaluation::text(&evaluation::evaluate(&runs));
        assert!(!text.is_empty(), "there is always a table");
    }
}

/// What holds of any shape that was read.
fn check(shape: &ModelShape) {
    assert!(shape.params.is_finite() && shape.active_params.is_finite(), "parameter counts are finite");
    for dtype in Dtype::ALL {
        let (weights, cache) = (weight_bytes(shape, dtype), kv_bytes_of_sequence(shape, dtype, 1e6));
        assert!(weights.is_finite() && weights >= 0.0 && cache.is_finite() && cache >= 0.0, "bytes are finite");
    }
}
