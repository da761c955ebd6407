//! When an import yields nothing at all.
//!
//! Anything short of that is a row of the `issues` table: a damaged file among good ones stops nothing.

use std::path::PathBuf;

/// Why no capture could be made.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// An input path does not exist.
    #[error("cannot read `{}`: no such file or folder", path.display())]
    Missing {
        /// The path as given.
        path: PathBuf,
    },
    /// An input exists and cannot be opened.
    #[error("cannot read `{}`: {reason}", path.display())]
    Unreadable {
        /// The path as given.
        path: PathBuf,
        /// What the operating system says.
        reason: String,
    },
    /// The inputs hold no file.
    #[error("found no file in the input: expected metrics, logs, bench results, `observations.toml` or a capture{}", listed(reasons))]
    Empty {
        /// What stands in the input and was not read: one sentence each, at most ten.
        reasons: Vec<String>,
    },
    /// Every source was refused; each reason names its file.
    #[error("none of the {count} sources could be read: {}", reasons.join("; "))]
    NothingUsable {
        /// Number of sources.
        count: usize,
        /// One sentence per source, at most ten.
        reasons: Vec<String>,
    },
    /// A capture directory that its reader refuses.
    #[error("cannot read the capture `{}`: {reason}", path.display())]
    Capture {
        /// The directory.
        path: PathBuf,
        /// What the reader says.
        reason: String,
    },
}

/// `; reason; reason`, or nothing.
fn listed(reasons: &[String]) -> String {
    let mut text = String::new();
    for reason in reasons {
        text.push_str("; ");
        text.push_str(reason);
    }
    text
}
