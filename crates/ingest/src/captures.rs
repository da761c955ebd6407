//! The one place that meets captures on disk.

use std::path::Path;

use capture::Capture;

use crate::error::IngestError;

/// True when `path` is a capture directory.
pub(crate) fn is_capture(path: &Path) -> bool {
    capture::store::is_capture(path)
}

/// Reads a capture directory.
pub(crate) fn open(path: &Path) -> Result<Capture, IngestError> {
    capture::store::open(path).map_err(|error| IngestError::Capture { path: path.to_path_buf(), reason: error.to_string() })
}
