//! A source that can be read at any place, for formats that need that.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A file behind a source.
#[derive(Clone, Debug)]
pub(crate) struct RegularFile {
    path: PathBuf,
    /// Bytes of it that may be read.
    pub(crate) byte_count: u64,
}

impl RegularFile {
    /// The file at `path`, of which at most `limit` bytes may be read; `None` when it is no regular file.
    pub(super) fn at(path: &Path, limit: u64) -> Option<Self> {
        let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        Some(Self { path: path.to_path_buf(), byte_count: found.len().min(limit) })
    }

    /// Opens the file once more, at its start and for reading only.
    pub(crate) fn open(&self) -> io::Result<File> {
        File::open(&self.path)
    }

    /// Bytes of the file beside this one whose name is longer by `suffix`; 0 when there is none.
    pub(crate) fn beside(&self, suffix: &str) -> u64 {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        std::fs::metadata(name).map_or(0, |file| file.len())
    }
}
