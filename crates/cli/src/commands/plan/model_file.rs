//! A model as the user names it: of the table, or by its own files. Only headers are read.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use model::memory::Dtype;
use model::models::{self, ModelShape};
use model::readers::{MOST_JSON_BYTES, Weights, config_json, gguf_header, safetensors_header, safetensors_index};

/// Start of a GGUF file that is read: its header holds the vocabulary.
const GGUF_BYTES: u64 = 256 << 20;

/// Most files of one checkpoint whose headers are read.
const MOST_FILES: usize = 4096;

/// What is known of the model.
pub(super) struct ModelFile {
    /// What the user calls it.
    pub(super) name: String,
    /// Its shape.
    pub(super) shape: ModelShape,
    /// Format of the weights, where the files say it.
    pub(super) weights: Option<Dtype>,
    /// Bytes of the weights, where headers were read.
    pub(super) weight_bytes: Option<f64>,
    /// What was assumed.
    pub(super) assumptions: Vec<String>,
}

/// Finds the model.
pub(super) fn read(path: &Path) -> anyhow::Result<ModelFile> {
    let name = path.to_string_lossy().into_owned();
    if path.is_dir() {
        return checkpoint(&path.join("config.json"));
    }
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("gguf") => gguf(path),
        Some("json") if path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(".index.json")) => {
            checkpoint(&path.with_file_name("config.json"))
        }
        Some("safetensors") => checkpoint(&path.with_file_name("config.json")),
        _ if path.is_file() => checkpoint(path),
        _ => of_table(&name),
    }
}

fn of_table(name: &str) -> anyhow::Result<ModelFile> {
    let Some(shape) = models::find(name) else {
        let known: Vec<(&str, &str)> = models::all().iter().map(|model| (model.name.as_str(), model.name.as_str())).collect();
        return Err(super::unknown("model", name, &known).context(format!("`{name}` is neither a file nor a model of the table")));
    };
    // A name may say the format of a quantized copy; it is told, since a name is no proof.
    let weights = name.rsplit(['-', '_', '.', '/', ':']).next().filter(|_| !name.eq_ignore_ascii_case(&shape.name)).and_then(Dtype::parse);
    let told = weights.map(|_| "format of the weights taken from the model's name (set --weights)".to_string());
    Ok(ModelFile { name: name.to_string(), shape: shape.clone(), weights, weight_bytes: None, assumptions: told.into_iter().collect() })
}

/// A config.json, and the headers of the safetensors files beside it.
fn checkpoint(path: &Path) -> anyhow::Result<ModelFile> {
    let bytes = head(path, MOST_JSON_BYTES as u64)?;
    let config = config_json(&bytes).with_context(|| format!("`{}` does not describe a model that is known", path.display()))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut shape = config.shape;
    let named = std::path::absolute(folder).ok().and_then(|folder| folder.file_name().map(|name| name.to_string_lossy().into_owned()));
    if let Some(named) = named.filter(|_| shape.name.is_empty() || shape.name == config.family) {
        shape.name = named;
    }
    let counted = headers(folder)?;
    let mut assumptions = Vec::new();
    match &counted {
        Some(weights) => assumptions.push(format!(
            "weights counted from headers: {:.2} GB in {} tensors",
            weights.bytes as f64 / 1e9,
            weights.tensor_count
        )),
        None => assumptions.push("no safetensors beside config.json: weights are computed from the shape".into()),
    }
    Ok(ModelFile {
        name: shape.name.clone(),
        weights: config.weights,
        weight_bytes: counted.map(|weights| weights.bytes as f64),
        shape,
        assumptions,
    })
}

/// The sum of the headers of a checkpoint's files; nothing when some are missing.
fn headers(folder: &Path) -> anyhow::Result<Option<Weights>> {
    let index = folder.join("model.safetensors.index.json");
    let files = if index.is_file() {
        let index =
            safetensors_index(&head(&index, MOST_JSON_BYTES as u64)?).with_context(|| format!("could not use `{}`", index.display()))?;
        if index.files.len() > MOST_FILES {
            bail!("model.safetensors.index.json: expected at most {MOST_FILES} files, found {}", index.files.len());
        }
        index.files
    } else {
        vec!["model.safetensors".to_string()]
    };
    let mut sum = Weights::default();
    for name in files {
        let path = folder.join(name);
        if !path.is_file() {
            return Ok(None);
        }
        let (_, weights) = safetensors_header(&header(&path)?).with_context(|| format!("could not use `{}`", path.display()))?;
        sum.merge(&weights);
    }
    Ok(Some(sum))
}

/// A safetensors header: eight bytes of length, and as many as they say.
fn header(path: &Path) -> anyhow::Result<Vec<u8>> {
    let start = head(path, 8)?;
    let length = start.first_chunk::<8>().map_or(0, |length| u64::from_le_bytes(*length));
    head(path, 8 + length.min(MOST_JSON_BYTES as u64))
}

fn gguf(path: &Path) -> anyhow::Result<ModelFile> {
    let header = gguf_header(&head(path, GGUF_BYTES)?).with_context(|| format!("could not use `{}`", path.display()))?;
    let shape = header.shape.with_context(|| format!("`{}` does not hold a model's shape", path.display()))?;
    let name = path.file_stem().map_or_else(|| shape.name.clone(), |stem| stem.to_string_lossy().into_owned());
    // Bits per weight choose the nearest format; the bytes themselves are exact.
    let per_weight = header.weights.bytes as f64 / shape.param_parts().total().max(1.0);
    let weights = [Dtype::Int4G128, Dtype::Int8, Dtype::Bf16, Dtype::F32]
        .into_iter()
        .min_by(|a, b| (a.bytes_per_param() - per_weight).abs().total_cmp(&(b.bytes_per_param() - per_weight).abs()));
    let told = format!("GGUF weights of {per_weight:.2} bytes each: predicted like the nearest format");
    Ok(ModelFile { name, shape, weights, weight_bytes: Some(header.weights.bytes as f64), assumptions: vec![told] })
}

/// The first bytes of a file.
fn head(path: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.with_context(|| format!("could not read `{}`", path.display()))?;
    Ok(bytes)
}
