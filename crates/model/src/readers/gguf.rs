//! Reads the header of a GGUF file: metadata and tensors, as far as a model's shape and weight need them.
//!
//! Versions 2 and 3, little endian. The bytes may be the whole file or its start. Arrays are walked, not kept: of the
//! vocabulary only its length is wanted. Memory is bounded by the limits here, whatever counts the file claims.

use std::collections::BTreeMap;

use super::{MOST_TENSORS, ReadModelError, Weights, shown};
use crate::models::{Attention, ModelShape};

const FILE: &str = "GGUF";

/// Most metadata entries.
const MOST_ENTRIES: u64 = 1 << 16;
/// Longest key or name.
const LONGEST_NAME: u64 = 1 << 16;
/// Longest text value that is kept.
const LONGEST_TEXT: u64 = 1 << 12;
/// Deepest nesting of arrays.
const DEEPEST: u32 = 4;

/// A header.
#[derive(Clone, Debug, PartialEq)]
pub struct Gguf {
    /// Format version.
    pub version: u32,
    /// `general.architecture`.
    pub architecture: String,
    /// The shape, when the metadata holds all of it.
    pub shape: Result<ModelShape, ReadModelError>,
    /// The tensors' sum.
    pub weights: Weights,
    /// Longest context, tokens.
    pub max_context: Option<u32>,
}

/// A metadata value, as far as it is wanted.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(f64),
    Text(String),
    /// Length, and the largest number inside.
    List(u64, f64),
}

/// Reads a header.
pub fn gguf_header(bytes: &[u8]) -> Result<Gguf, ReadModelError> {
    let mut cursor = Cursor { bytes, at: 0 };
    if cursor.take(4)? != b"GGUF" {
        return Err(form("the letters `GGUF`", shown(&String::from_utf8_lossy(&bytes[..bytes.len().min(4)]))));
    }
    let version = cursor.u32()?;
    if !(2..=3).contains(&version) {
        return Err(form("version 2 or 3", version.to_string()));
    }
    let (tensor_count, entry_count) = (cursor.u64()?, cursor.u64()?);
    if tensor_count > MOST_TENSORS as u64 {
        return Err(form("at most 1048576 tensors", tensor_count.to_string()));
    }
    if entry_count > MOST_ENTRIES {
        return Err(form("at most 65536 metadata entries", entry_count.to_string()));
    }
    let mut metadata = BTreeMap::new();
    for _ in 0..entry_count {
        let key = cursor.name()?;
        let kind = cursor.u32()?;
        let value = cursor.value(kind, 0)?;
        metadata.insert(key, value);
    }
    let mut weights = Weights::default();
    let (mut expert_tensor, mut has_head) = (false, false);
    for _ in 0..tensor_count {
        let (name, stored_type, bytes) = cursor.tensor()?;
        expert_tensor |= name.contains("_exps");
        has_head |= name == "output.weight";
        weights.add(&name, &stored_type, bytes);
    }
    let fields = Metadata { map: &metadata };
    let architecture = fields.text("general.architecture").unwrap_or_default();
    Ok(Gguf {
        version,
        shape: fields.shape(&architecture, expert_tensor, has_head || tensor_count == 0),
        max_context: fields.count(&format!("{architecture}.context_length")).ok().flatten(),
        architecture,
        weights,
    })
}

fn form(expected: &str, found: String) -> ReadModelError {
    ReadModelError::Form { file: FILE, expected: expected.to_owned(), found }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: u64) -> Result<&'a [u8], ReadModelError> {
        let end = usize::try_from(count).ok().and_then(|count| self.at.checked_add(count));
        let Some(taken) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            let left = self.bytes.len() - self.at;
            return Err(form(&format!("{count} bytes at offset {}", self.at), format!("{left} bytes")));
        };
        self.at += taken.len();
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadModelError> {
        let taken = self.take(N as u64)?;
        Ok(std::array::from_fn(|at| taken[at]))
    }

    fn u32(&mut self) -> Result<u32, ReadModelError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, ReadModelError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn name(&mut self) -> Result<String, ReadModelError> {
        let length = self.u64()?;
        if length > LONGEST_NAME {
            return Err(form("a name of at most 65536 bytes", format!("{length} bytes")));
        }
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    fn value(&mut self, kind: u32, depth: u32) -> Result<Value, ReadModelError> {
        Ok(match kind {
            0 | 7 => Value::Number(f64::from(self.array::<1>()?[0])),
            1 => Value::Number(f64::from(i8::from_le_bytes(self.array()?))),
            2 => Value::Number(f64::from(u16::from_le_bytes(self.array()?))),
            3 => Value::Number(f64::from(i16::from_le_bytes(self.array()?))),
            4 => Value::Number(f64::from(self.u32()?)),
            5 => Value::Number(f64::from(i32::from_le_bytes(self.array()?))),
            6 => Value::Number(f64::from(f32::from_le_bytes(self.array()?))),
            8 => {
                let length = self.u64()?;
                let text = self.take(length)?;
                let kept = &text[..text.len().min(LONGEST_TEXT as usize)];
                Value::Text(String::from_utf8_lossy(kept).into_owned())
            }
            9 => self.list(depth)?,
            10 => Value::Number(self.u64()? as f64),
            11 => Value::Number(i64::from_le_bytes(self.array()?) as f64),
            12 => Value::Number(f64::from_le_bytes(self.array()?)),
            other => return Err(form("a metadata type from 0 to 12", other.to_string())),
        })
    }

    /// Walks an array; its memory is one value, its time the bytes there are.
    fn list(&mut self, depth: u32) -> Result<Value, ReadModelError> {
        if depth >= DEEPEST {
            return Err(form("arrays nested at most 4 deep", "more".to_owned()));
        }
        let (kind, length) = (self.u32()?, self.u64()?);
        let mut largest = 0.0f64;
        for _ in 0..length {
            // Every element takes at least one byte, so a claimed length ends with the bytes.
            if let Value::Number(number) = self.value(kind, depth + 1)? {
                largest = largest.max(number);
            }
        }
        Ok(Value::List(length, largest))
    }

    /// Name, type and bytes of one tensor.
    fn tensor(&mut self) -> Result<(String, String, u64), ReadModelError> {
        let name = self.name()?;
        let dimensions = self.u32()?;
        let wrong = |expected: &'static str, found: String| ReadModelError::Field { file: FILE, field: shown(&name), expected, found };
        if dimensions > 8 {
            return Err(wrong("at most 8 dimensions", dimensions.to_string()));
        }
        let mut elements = 1u64;
        for _ in 0..dimensions {
            let size = self.u64()?;
            elements = elements.checked_mul(size).ok_or_else(|| wrong("a product of sizes below 2^64", size.to_string()))?;
        }
        let kind = self.u32()?;
        let _offset = self.u64()?;
        let (stored_type, block, bytes) = type_of(kind).ok_or_else(|| wrong("a known tensor type", kind.to_string()))?;
        let bytes = elements.div_ceil(block).checked_mul(bytes).ok_or_else(|| wrong("fewer than 2^64 bytes", elements.to_string()))?;
        Ok((name, stored_type.to_owned(), bytes))
    }
}

/// Name, elements per block and bytes per block of the tensor types (ggml's block layouts).
fn type_of(kind: u32) -> Option<(&'static str, u64, u64)> {
    Some(match kind {
        0 => ("F32", 1, 4),
        1 => ("F16", 1, 2),
        2 => ("Q4_0", 32, 18),
        3 => ("Q4_1", 32, 20),
        6 => ("Q5_0", 32, 22),
        7 => ("Q5_1", 32, 24),
        8 => ("Q8_0", 32, 34),
        9 => ("Q8_1", 32, 36),
        10 => ("Q2_K", 256, 84),
        11 => ("Q3_K", 256, 110),
        12 => ("Q4_K", 256, 144),
        13 => ("Q5_K", 256, 176),
        14 => ("Q6_K", 256, 210),
        15 => ("Q8_K", 256, 292),
        16 => ("IQ2_XXS", 256, 66),
        17 => ("IQ2_XS", 256, 74),
        18 => ("IQ3_XXS", 256, 98),
        19 => ("IQ1_S", 256, 50),
        20 => ("IQ4_NL", 32, 18),
        21 => ("IQ3_S", 256, 110),
        22 => ("IQ2_S", 256, 82),
        23 => ("IQ4_XS", 256, 136),
        24 => ("I8", 1, 1),
        25 => ("I16", 1, 2),
        26 => ("I32", 1, 4),
        27 => ("I64", 1, 8),
        28 => ("F64", 1, 8),
        29 => ("IQ1_M", 256, 56),
        30 => ("BF16", 1, 2),
        34 => ("TQ1_0", 256, 54),
        35 => ("TQ2_0", 256, 66),
        39 => ("MXFP4", 32, 17),
        _ => return None,
    })
}

struct Metadata<'a> {
    map: &'a BTreeMap<String, Value>,
}

impl Metadata<'_> {
    fn text(&self, key: &str) -> Option<String> {
        match self.map.get(key) {
            Some(Value::Text(text)) => Some(shown(text)),
            _ => None,
        }
    }

    /// A whole number; of a list per layer its largest.
    fn count(&self, key: &str) -> Result<Option<u32>, ReadModelError> {
        let number = match self.map.get(key) {
            None => return Ok(None),
            Some(Value::Number(number) | Value::List(_, number)) => *number,
            Some(Value::Text(text)) => return Err(self.error(key, shown(text))),
        };
        if (0.0..=268_435_455.0).contains(&number) && number.fract() == 0.0 {
            Ok(Some(number as u32))
        } else {
            Err(self.error(key, number.to_string()))
        }
    }

    #[allow(clippy::unused_self)] // reads beside the calls it serves
    fn error(&self, key: &str, found: String) -> ReadModelError {
        ReadModelError::Field { file: FILE, field: shown(key), expected: "a whole number of at most 268435455", found }
    }

    fn shape(&self, architecture: &str, expert_tensor: bool, has_head: bool) -> Result<ModelShape, ReadModelError> {
        let read = |name: &str| self.count(&format!("{architecture}.{name}"));
        let needed = |name: &str| {
            read(name)?.filter(|count| *count > 0).ok_or_else(|| self.error(&format!("{architecture}.{name}"), "nothing".to_owned()))
        };
        let (layers, hidden, heads) = (needed("block_count")?, needed("embedding_length")?, needed("attention.head_count")?);
        let vocab = match (read("vocab_size")?, self.map.get("tokenizer.ggml.tokens")) {
            (Some(vocab), _) => vocab,
            (None, Some(Value::List(length, _))) => u32::try_from(*length).unwrap_or(u32::MAX / 16).min(u32::MAX / 16),
            _ => return Err(self.error("tokenizer.ggml.tokens", "nothing".to_owned())),
        };
        let mut shape = ModelShape {
            name: self.text("general.name").unwrap_or_else(|| architecture.to_owned()),
            layers,
            hidden,
            heads,
            kv_heads: read("attention.head_count_kv")?.filter(|heads| *heads > 0).unwrap_or(heads).min(heads),
            head_dim: read("attention.key_length")?.filter(|width| *width > 0).unwrap_or(hidden / heads).max(1),
            intermediate: read("feed_forward_length")?.unwrap_or(0),
            vocab,
            norms_per_layer: 2,
            tied_embeddings: !has_head,
            source: "GGUF header".to_owned(),
            checked: true,
            ..ModelShape::default()
        };
        if let Some(experts) = read("expert_count")?.filter(|count| *count > 1 || expert_tensor) {
            shape.experts = experts;
            shape.experts_per_token = needed("expert_used_count")?.min(experts);
            shape.dense_layers = read("leading_dense_block_count")?.unwrap_or(0).min(layers);
            shape.dense_intermediate = shape.intermediate;
            shape.intermediate = read("expert_feed_forward_length")?.unwrap_or(shape.intermediate);
            shape.shared_experts = read("expert_shared_count")?.unwrap_or(0);
        }
        if let Some(latent) = read("attention.kv_lora_rank")?.filter(|latent| *latent > 0) {
            let rope = needed("rope.dimension_count")?;
            shape.attention = Attention::Mla { latent, rope };
            shape.query_latent = read("attention.q_lora_rank")?.unwrap_or(0);
            // Newer files describe the latent form and keep the width of a head apart.
            let key = read("attention.key_length_mla")?.unwrap_or(shape.head_dim);
            shape.head_dim = key.saturating_sub(rope).max(1);
            let value = read("attention.value_length_mla")?.or(read("attention.value_length")?).unwrap_or(shape.head_dim);
            shape.value_dim = if value == shape.head_dim { 0 } else { value };
            shape.kv_heads = heads;
        }
        shape.params = shape.param_parts().total();
        shape.active_params = shape.active_param_count();
        Ok(shape)
    }
}
