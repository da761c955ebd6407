//! Reads the header of a safetensors file, and the index of a checkpoint in several of them.
//!
//! A file starts with the header's length (8 bytes, little endian) and the header, JSON from tensor names to type, shape
//! and offsets. The bytes given may be the whole file or its start. Weights themselves are never touched.

use serde_json::Value;

use super::json_fields::{Fields, parse};
use super::{MOST_JSON_BYTES, MOST_TENSORS, ReadModelError, Weights, shown};

const FILE: &str = "safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// One tensor of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Name.
    pub name: String,
    /// Stored type, as the file spells it.
    pub stored_type: String,
    /// Sizes.
    pub shape: Vec<u64>,
    /// Bytes.
    pub bytes: u64,
}

/// Tensors and their sum, from the first bytes of a file.
pub fn safetensors_header(bytes: &[u8]) -> Result<(Vec<Tensor>, Weights), ReadModelError> {
    let form = |expected: &str, found: String| ReadModelError::Form { file: FILE, expected: expected.to_owned(), found };
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(form("8 bytes of header length", format!("{} bytes", bytes.len())));
    };
    let length = u64::from_le_bytes(*length);
    if length > MOST_JSON_BYTES as u64 {
        return Err(form("a header of at most 64 MiB", format!("a length of {length} bytes")));
    }
    let Some(header) = rest.get(..length as usize) else {
        return Err(form(&format!("a header of {length} bytes"), format!("{} bytes", rest.len())));
    };
    let value = parse(FILE, header)?;
    let fields = Fields::of(FILE, &value)?;
    if fields.map.len() > MOST_TENSORS {
        return Err(form("at most 1048576 tensors", format!("{}", fields.map.len())));
    }
    let (mut tensors, mut weights) = (Vec::new(), Weights::default());
    for name in fields.map.keys().filter(|name| *name != "__metadata__") {
        let tensor = tensor(&fields, name)?;
        weights.add(&tensor.name, &tensor.stored_type, tensor.bytes);
        tensors.push(tensor);
    }
    Ok((tensors, weights))
}

fn tensor(fields: &Fields, name: &str) -> Result<Tensor, ReadModelError> {
    let wrong = |part: &str, expected: &'static str, found: String| ReadModelError::Field {
        file: FILE,
        field: format!("{}.{part}", shown(name)),
        expected,
        found,
    };
    let entry = fields.inner(name).ok_or_else(|| fields.error(name, "an object with `dtype`, `shape` and `data_offsets`"))?;
    let text = |part: &str| entry.map.get(part).map_or_else(|| "nothing".to_owned(), |value| shown(&value.to_string()));
    let stored_type = entry.text("dtype").ok_or_else(|| wrong("dtype", "a text", text("dtype")))?;
    let numbers = |part: &str| -> Option<Vec<u64>> { entry.map.get(part)?.as_array()?.iter().map(Value::as_u64).collect() };
    let shape = numbers("shape").ok_or_else(|| wrong("shape", "a list of whole numbers", text("shape")))?;
    let bytes = match numbers("data_offsets").as_deref() {
        Some([start, end]) if start <= end => end - start,
        _ => return Err(wrong("data_offsets", "two whole numbers in order", text("data_offsets"))),
    };
    // A type that is known must fill its offsets; one that is not is taken at its offsets.
    let elements = shape.iter().try_fold(1u64, |product, size| product.checked_mul(*size));
    let Some(elements) = elements else { return Err(wrong("shape", "a product below 2^64", text("shape"))) };
    if let Some(bits) = bits_of(stored_type)
        && elements.checked_mul(bits).map(|bits| bits.div_ceil(8)) != Some(bytes)
    {
        return Err(wrong("data_offsets", "as many bytes as `dtype` and `shape` say", text("data_offsets")));
    }
    Ok(Tensor { name: name.to_owned(), stored_type: shown(stored_type), shape, bytes })
}

/// Bits per element of the types of the format.
fn bits_of(stored_type: &str) -> Option<u64> {
    Some(match stored_type {
        "F64" | "I64" | "U64" => 64,
        "F32" | "I32" | "U32" => 32,
        "F16" | "BF16" | "I16" | "U16" => 16,
        "F8_E4M3" | "F8_E5M2" | "F8_E8M0" | "I8" | "U8" | "BOOL" => 8,
        "F4" => 4,
        _ => return None,
    })
}

/// The index of a checkpoint in several files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Bytes of all tensors, as stated.
    pub total_bytes: Option<u64>,
    /// Tensors.
    pub tensor_count: usize,
    /// The files, sorted.
    pub files: Vec<String>,
}

/// Reads `model.safetensors.index.json`. File names with a path in them are refused.
pub fn safetensors_index(bytes: &[u8]) -> Result<Index, ReadModelError> {
    let value = parse(INDEX, bytes)?;
    let fields = Fields::of(INDEX, &value)?;
    let map = fields.inner("weight_map").ok_or_else(|| fields.error("weight_map", "an object of tensor names and files"))?;
    let mut files = std::collections::BTreeSet::new();
    for (tensor, file) in map.map {
        match file.as_str() {
            Some(file) if !file.is_empty() && file.len() <= 255 && !file.contains(['/', '\\']) && file != ".." => {
                files.insert(file.to_owned());
            }
            _ => {
                return Err(ReadModelError::Field {
                    file: INDEX,
                    field: format!("weight_map.{}", shown(tensor)),
                    expected: "the name of a file beside the index",
                    found: shown(&file.to_string()),
                });
            }
        }
    }
    let stated = fields.inner("metadata").and_then(|metadata| metadata.map.get("total_size").cloned());
    // Some writers state the size as a float.
    let total_bytes =
        stated.and_then(|size| size.as_u64().or_else(|| size.as_f64().filter(|size| *size >= 0.0 && *size < 1e18).map(|size| size as u64)));
    Ok(Index { total_bytes, tensor_count: map.map.len(), files: files.into_iter().collect() })
}
