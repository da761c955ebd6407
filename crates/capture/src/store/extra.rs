//! Files beside the tables: the ledger, tiles, bench results. They are made of a capture and are not part of it.
//!
//! Each starts with a line that names the manifest it was made for, so that what was made of another state is known.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::disk::{self, OnPath};
use super::error::StoreError;
use super::manifest_file::{self, hex_sha256};

const EXTRA: &str = "extra";

/// First words of every extra file; the hash of the manifest and a line end follow.
const HEAD: &str = "inferoscope extra 1 ";

/// Bytes of a SHA-256 in hex.
const HASH_BYTES: usize = 64;

/// Largest extra file that is read.
const MAX_EXTRA_BYTES: u64 = 1 << 30;

/// An extra file as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extra {
    /// What was put.
    pub bytes: Vec<u8>,
    /// True if it was made for another state of the capture: before it was compacted or replaced.
    pub is_stale: bool,
}

/// Puts the extra file `name` beside the tables of the capture `dir`, in place of one of this name.
pub fn put_extra(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let path = path(dir, name)?;
    let (_, manifest) = manifest_file::read(dir)?;
    let folder = dir.join(EXTRA);
    fs::create_dir_all(&folder).on("create", &folder)?;
    let mut whole = format!("{HEAD}{}\n", hex_sha256(&manifest)).into_bytes();
    whole.extend_from_slice(bytes);
    disk::replace_file(&path, &whole)
}

/// The extra file `name` of the capture `dir`, `None` if there is none. One without a proper first line is stale.
pub fn get_extra(dir: &Path, name: &str) -> Result<Option<Extra>, StoreError> {
    let dir = &super::find(dir);
    let path = path(dir, name)?;
    let (_, manifest) = manifest_file::read(dir)?;
    let mut bytes = match disk::read_file(&path, MAX_EXTRA_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::from_io("read", &path, error)),
    };
    let hash = bytes.strip_prefix(HEAD.as_bytes()).and_then(|rest| rest.split_at_checked(HASH_BYTES));
    let Some((hash, [b'\n', ..])) = hash else {
        return Ok(Some(Extra { bytes, is_stale: true }));
    };
    let is_stale = hash != hex_sha256(&manifest).as_bytes();
    bytes.drain(..=HEAD.len() + HASH_BYTES); // the line end too
    Ok(Some(Extra { bytes, is_stale }))
}

/// Links or copies the extra files of the capture `from` into the folder `to`.
pub(super) fn carry_over(from: &Path, to: &Path) -> Result<(), StoreError> {
    let (from, to) = (from.join(EXTRA), to.join(EXTRA));
    let entries = match fs::read_dir(&from) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StoreError::from_io("read", &from, error)),
    };
    fs::create_dir(&to).on("create", &to)?;
    for entry in entries {
        let entry = entry.on("read", &from)?;
        let is_ours = entry.file_name().to_str().is_some_and(is_name) && entry.file_type().on("read", &from)?.is_file();
        if !is_ours {
            continue; // what a killed process left of a file it wrote
        }
        let copy = to.join(entry.file_name());
        // A link will do: extra files are replaced, never changed.
        if fs::hard_link(entry.path(), &copy).is_err() {
            fs::copy(entry.path(), &copy).on("copy to", &copy)?;
        }
    }
    disk::sync_dir(&to)
}

fn path(dir: &Path, name: &str) -> Result<PathBuf, StoreError> {
    if is_name(name) { Ok(dir.join(EXTRA).join(name)) } else { Err(StoreError::ExtraName { name: name.to_string() }) }
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=100).contains(&name.len()) && name.bytes().all(allowed) && !name.starts_with(['.', '-'])
}
