//! What can go wrong while a capture is written or opened as a whole.
//!
//! Damage to a part of a capture is no error: it becomes an issue in the capture that is returned.

use std::io;
use std::path::{Path, PathBuf};

use crate::manifest::SCHEMA_VERSION;

/// Why a capture could not be written or opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is something else at this path; it is left alone.
    #[error("`{}` is not a capture: expected a directory with a `manifest.json` of kind `inferoscope.capture`, found {found}", path.display())]
    NotACapture {
        /// The path given.
        path: PathBuf,
        /// What is there.
        found: String,
    },
    /// Written by a newer inferoscope.
    #[error("`{}` has capture schema {found}, this build reads up to {SCHEMA_VERSION}: open it with a newer inferoscope", path.display())]
    NewerSchema {
        /// The capture.
        path: PathBuf,
        /// Schema version in its manifest.
        found: u64,
    },
    /// The manifest cannot be understood, so nothing can be said about the tables.
    #[error("`{}` is damaged: expected {expected}, found {found}", path.display())]
    DamagedManifest {
        /// The manifest.
        path: PathBuf,
        /// What should stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// Another recording or compaction holds the capture.
    #[error("`{}` is being written by another process: wait for it to finish, or stop it", path.display())]
    Busy {
        /// The capture.
        path: PathBuf,
    },
    /// A recording would replace a capture.
    #[error("`{}` is there already: choose another name, or remove it first", path.display())]
    Exists {
        /// The capture.
        path: PathBuf,
    },
    /// No space left, or a quota or size limit reached.
    #[error("no space left to write `{}`: {source}", path.display())]
    DiskFull {
        /// The file that did not fit.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Missing permission, or a read-only file system.
    #[error("no permission to {action} `{}`: {source}", path.display())]
    Permission {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Any other failure of the file system.
    #[error("could not {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A part of a growing capture that may be sound could not be read, so the capture was left as it is.
    #[error("`{}` was not compacted, since a part of it could not be read: {reason}", path.display())]
    Unreadable {
        /// The capture.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// A single value is larger than any reader accepts.
    #[error("table `{table}`, column `{column}`, row {row} holds {found} bytes: a value may have {limit}")]
    TooLarge {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// Row number from 0, in order of time.
        row: usize,
        /// Size of the value.
        found: usize,
        /// Largest size allowed.
        limit: usize,
    },
    /// The columns of a table in memory do not have the same length: a mistake of the caller.
    #[error("table `{table}` has {expected} rows, but its column `{column}` has {found} values")]
    RaggedTable {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// Rows of the first column.
        expected: usize,
        /// Rows of this column.
        found: usize,
    },
    /// A name for an extra file that could leave the capture or hide in it.
    #[error(
        "`{name}` cannot name an extra file: expected 1 to 100 letters, digits, `.`, `_` or `-`, starting with a letter, a digit or `_`"
    )]
    ExtraName {
        /// The name given.
        name: String,
    },
    /// The Parquet encoder refused the table: a mistake of ours.
    #[error("could not encode table `{table}`: {reason}")]
    Encode {
        /// The table.
        table: &'static str,
        /// What the encoder said.
        reason: String,
    },
}

impl StoreError {
    /// Names a file where it was meant to be, not where it was being written.
    pub(super) fn moved(mut self, from: &Path, to: &Path) -> Self {
        if let Self::DiskFull { path, .. } | Self::Permission { path, .. } | Self::Io { path, .. } = &mut self
            && let Ok(rest) = path.strip_prefix(from)
        {
            *path = if rest.as_os_str().is_empty() { to.to_path_buf() } else { to.join(rest) };
        }
        self
    }

    /// Sorts a failure of the file system into what a user can do about it.
    pub(super) fn from_io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => Self::DiskFull { path, source },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Permission { action, path, source },
            _ => Self::Io { action, path, source },
        }
    }
}
