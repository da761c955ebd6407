//! `manifest.json`: the manifest, whether the capture is finished, and the hash of every block of every table.
//!
//! A block is one row group of a Parquet file, the last block its footer. So damage is known before anything is decoded,
//! costs one row group, and never passes for evidence; and the hash of the manifest stands for the whole capture.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::disk;
use super::error::StoreError;
use crate::manifest::{KIND, Manifest, SCHEMA_VERSION};

/// File name of the manifest.
pub(super) const MANIFEST: &str = "manifest.json";

/// Folder of the closed segments of a growing capture.
pub(super) const SEGMENTS: &str = "segments";

/// Largest manifest anyone reads.
const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// Whether more segments may come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// Tables stand beside the manifest and do not change any more.
    #[default]
    Finished,
    /// Tables are in `segments/`.
    Growing,
}

/// One row group of a file, or its footer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Block {
    /// Offset of the first byte after it; it starts where the block before ends.
    pub end: u64,
    /// Rows in it, 0 for the footer.
    pub row_count: u64,
    /// SHA-256 of its bytes, lower-case hex.
    pub sha256: String,
}

/// What a manifest looks like on disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ManifestFile {
    #[serde(flatten)]
    pub manifest: Manifest,
    #[serde(default)]
    pub state: State,
    /// Blocks per file name; empty where another tool wrote the capture, then nothing is verified.
    #[serde(default)]
    pub blocks: BTreeMap<String, Vec<Block>>,
}

/// The fields that say whether the rest can be understood.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    schema_version: u64,
}

impl ManifestFile {
    /// A capture about to be written; rows and blocks are still to be told.
    pub(super) fn finished(manifest: &Manifest) -> Self {
        let about = manifest.clone();
        let manifest = Manifest { kind: KIND.into(), schema_version: SCHEMA_VERSION, row_counts: BTreeMap::new(), ..about };
        Self { manifest, ..Self::default() }
    }

    /// A capture that segments are added to.
    pub(super) fn growing() -> Self {
        Self { manifest: Manifest::new(), state: State::Growing, blocks: BTreeMap::new() }
    }

    /// The bytes of `manifest.json`.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("a manifest has text keys and finite numbers");
        bytes.push(b'\n');
        bytes
    }
}

/// Reads the manifest of the capture or segment at `dir`, with the bytes it was read from.
pub(super) fn read(dir: &Path) -> Result<(ManifestFile, Vec<u8>), StoreError> {
    let path = dir.join(MANIFEST);
    let bytes = match disk::read_file(&path, MAX_MANIFEST_BYTES) {
        Ok(bytes) => bytes,
        Err(error) => return Err(not_read(dir, path, error)),
    };
    let damaged = |expected, found: String| StoreError::DamagedManifest { path: path.clone(), expected, found };
    let head: Head =
        serde_json::from_slice(&bytes).map_err(|error| damaged("a JSON object with `kind` and `schema_version`", error.to_string()))?;
    if head.kind != KIND {
        let found = format!("a manifest of kind `{}`", head.kind.chars().take(100).collect::<String>());
        if has_tables(dir) {
            return Err(damaged("a manifest of kind `inferoscope.capture` beside the tables", found));
        }
        return Err(StoreError::NotACapture { path: dir.to_path_buf(), found });
    }
    if head.schema_version > u64::from(SCHEMA_VERSION) {
        return Err(StoreError::NewerSchema { path: dir.to_path_buf(), found: head.schema_version });
    }
    let file = serde_json::from_slice(&bytes).map_err(|error| damaged("the fields of a capture manifest", error.to_string()))?;
    Ok((file, bytes))
}

/// True if a capture stands at `dir`, whatever its version and state and however its manifest is damaged: a manifest beside
/// tables or segments is not taken for a folder of something else.
pub(super) fn is_there(dir: &Path) -> bool {
    match read(dir) {
        Ok(_) | Err(StoreError::NewerSchema { .. }) => true,
        Err(_) => dir.join(MANIFEST).symlink_metadata().is_ok() && has_tables(dir),
    }
}

/// True if tables or segments stand in `dir`.
fn has_tables(dir: &Path) -> bool {
    let is_table = |entry: fs::DirEntry| entry.path().extension().is_some_and(|extension| extension == "parquet");
    dir.join(SEGMENTS).is_dir() || fs::read_dir(dir).is_ok_and(|entries| entries.flatten().any(is_table))
}

fn not_read(dir: &Path, path: PathBuf, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::InvalidData => {
            StoreError::DamagedManifest { path, expected: "a manifest of at most 64 MiB", found: error.to_string() }
        }
        io::ErrorKind::InvalidInput => StoreError::DamagedManifest { path, expected: "a regular file", found: error.to_string() },
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            let found = match dir.metadata() {
                Ok(metadata) if metadata.is_dir() => "a directory without a manifest",
                Ok(_) => "a file",
                Err(_) => "nothing at this path",
            };
            StoreError::NotACapture { path: dir.to_path_buf(), found: found.to_string() }
        }
        _ => StoreError::from_io("read", &path, error),
    }
}

/// SHA-256 in lower-case hex.
pub(super) fn hex_sha256(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes).as_slice())
}

/// Lower-case hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    })
}
