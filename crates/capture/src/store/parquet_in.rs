//! Reads the Parquet files of a capture; trusts nothing in them.
//!
//! Why not the `parquet` crate, which writes them: its reader hands out text row by row, where a dictionary maps a column
//! of ids at once (measured: half the speed), and it reserves memory for whatever counts and sizes a file claims,
//! so that a crafted file ends the process. Here every size is checked against the bytes that are there, and every error
//! is a [`Damage`] that costs one row group. What a capture never holds is left out: other codecs than zstd, decimals,
//! maps, nested lists, encryption. The tests hold this reader against the crate's own.

pub(super) mod column;
pub(super) mod decode;
pub(super) mod footer;
pub(super) mod page;
mod thrift;

use std::io;

/// What is wrong with a file: what was expected and what was found, as a clause of a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub(super) struct Damage {
    what: String,
    /// True if the file system failed to deliver: the data may be sound, and must not be given up.
    pub is_unread: bool,
}

impl Damage {
    /// Expected this, found that.
    pub(super) fn new(expected: impl std::fmt::Display, found: impl std::fmt::Display) -> Self {
        Self { what: format!("expected {expected}, found {found}"), is_unread: false }
    }

    /// Expected these bytes of a file, got an error.
    pub(super) fn unread(expected: impl std::fmt::Display, error: &io::Error) -> Self {
        Self { is_unread: true, ..Self::new(expected, error) }
    }

    /// The same, said of a column.
    pub(super) fn in_column(self, name: &str) -> Self {
        Self { what: format!("column `{name}`: {}", self.what), ..self }
    }

    /// The bytes end in the middle of `what`.
    fn ends_in(what: &str) -> Self {
        Self::new(format_args!("the rest of {what}"), "the end of the data")
    }
}
