//! Reads what a checkpoint says of itself: `config.json`, safetensors headers and indices, GGUF headers.
//!
//! Plain functions over bytes, so that files, sockets and fuzzers can all call them; only headers are read, never weights.
//! Sizes are bounded by the bytes at hand and by the limits here, every error names the field, what was expected and what
//! was found. Weights are counted from headers where there are any; a name is never trusted for a size.

mod config_json;
mod gguf;
mod hybrid_layers;
mod json_fields;
mod safetensors;

use std::collections::BTreeMap;

use thiserror::Error;

pub use config_json::{Config, config_json};
pub use gguf::{Gguf, gguf_header};
pub use safetensors::{Index, Tensor, safetensors_header, safetensors_index};

/// Largest JSON text read.
pub const MOST_JSON_BYTES: usize = 64 << 20;

/// Most tensors of one file.
pub const MOST_TENSORS: usize = 1 << 20;

/// Why a file could not be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ReadModelError {
    /// Not the format at all, or cut off.
    #[error("{file}: expected {expected}, found {found}")]
    Form {
        /// Which file.
        file: &'static str,
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
    },
    /// A field that is missing or holds something else.
    #[error("{file}: field `{field}`: expected {expected}, found {found}")]
    Field {
        /// Which file.
        file: &'static str,
        /// Which field.
        field: String,
        /// What was expected.
        expected: &'static str,
        /// What was found.
        found: String,
    },
}

/// Weights as headers state them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights {
    /// All bytes, scales included.
    pub bytes: u64,
    /// Bytes of scales and zero points.
    pub scale_bytes: u64,
    /// Tensors that are not scales.
    pub tensor_count: usize,
    /// Bytes by stored type.
    pub by_type: BTreeMap<String, u64>,
}

impl Weights {
    /// Adds one tensor.
    fn add(&mut self, name: &str, stored_type: &str, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        let sum = self.by_type.entry(stored_type.to_owned()).or_default();
        *sum = sum.saturating_add(bytes);
        if is_scale(name) {
            self.scale_bytes = self.scale_bytes.saturating_add(bytes);
        } else {
            self.tensor_count += 1;
        }
    }

    /// Adds the weights of another file of the same checkpoint.
    pub fn merge(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.scale_bytes = self.scale_bytes.saturating_add(other.scale_bytes);
        self.tensor_count = self.tensor_count.saturating_add(other.tensor_count);
        for (stored_type, bytes) in &other.by_type {
            let sum = self.by_type.entry(stored_type.clone()).or_default();
            *sum = sum.saturating_add(*bytes);
        }
    }
}

/// Names of tensors that hold scales or zero points in the usual quantized checkpoints.
fn is_scale(name: &str) -> bool {
    const ENDS: [&str; 9] =
        ["_scale", "_scale_inv", "_scales", ".scales", ".qzeros", "weight_scale_2", "input_scale", "_zero_point", ".g_idx"];
    ENDS.iter().any(|end| name.ends_with(end))
}

/// At most 80 characters of anything, for messages.
fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}
