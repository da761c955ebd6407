//! Finds the sources under the inputs: files, folders, captures.
//!
//! The list does not depend on the order of the inputs or of the directory: it is sorted by name, and a file that is
//! reached twice (by two inputs, or through a symbolic link) is read once. Hidden files are skipped, loops end.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use capture::Severity;

use crate::error::IngestError;
use crate::options::Options;

/// One source on disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    /// Name relative to the input it was found under, `/` between parts.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) is_capture: bool,
}

/// What walking came to.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub(crate) found: Vec<Found>,
    /// Severity, code, source, sentence.
    pub(crate) issues: Vec<(Severity, &'static str, String, String)>,
    seen: BTreeSet<PathBuf>,
    max_files: usize,
    left_out: usize,
}

/// Deepest folder that is entered.
const MAX_DEPTH: usize = 64;

/// Lists the sources under `inputs`. A missing input is an error; what cannot be listed inside one is an issue.
pub(crate) fn walk(inputs: &[PathBuf], options: &Options<'_>) -> Result<Walk, IngestError> {
    let mut walk = Walk { max_files: options.max_files, ..Walk::default() };
    let mut inputs = inputs.to_vec();
    inputs.sort();
    for input in &inputs {
        let metadata = std::fs::metadata(input).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => IngestError::Missing { path: input.clone() },
            _ => IngestError::Unreadable { path: input.clone(), reason: error.to_string() },
        })?;
        let name = input.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if crate::captures::is_capture(input) {
            walk.add(name, input, true);
        } else if metadata.is_dir() {
            std::fs::read_dir(input).map_err(|error| IngestError::Unreadable { path: input.clone(), reason: error.to_string() })?;
            walk.folder(input, "", 0);
        } else {
            walk.add(name, input, false);
        }
    }
    if walk.left_out > 0 {
        let sentence = format!("expected at most {} files, found {} more; they are left out", walk.max_files, walk.left_out);
        walk.issues.push((Severity::Warning, "too_many_files", String::new(), sentence));
    }
    walk.found.sort();
    Ok(walk)
}

impl Walk {
    fn add(&mut self, name: String, path: &Path, is_capture: bool) {
        let key = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        if !self.seen.insert(key) {
            return;
        }
        if self.found.len() >= self.max_files {
            self.left_out += 1;
        } else {
            self.found.push(Found { name, path: path.to_path_buf(), is_capture });
        }
    }

    fn folder(&mut self, folder: &Path, prefix: &str, depth: usize) {
        let canonical = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
        if depth > MAX_DEPTH || !self.seen.insert(canonical) {
            let sentence = "expected folders without loops, found one that was entered already or lies too deep; it is not entered again";
            self.issues.push((Severity::Note, "folder_loop", prefix.trim_end_matches('/').to_string(), sentence.to_string()));
            return;
        }
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                self.issues.push((
                    Severity::Error,
                    "unreadable_folder",
                    prefix.trim_end_matches('/').to_string(),
                    format!("cannot list it: {error}"),
                ));
                return;
            }
        };
        let mut entries: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
        entries.sort();
        for path in entries {
            let Some(file) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else { continue };
            if file.starts_with('.') {
                continue;
            }
            let name = format!("{prefix}{file}");
            match std::fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() && crate::captures::is_capture(&path) => self.add(name, &path, true),
                Ok(metadata) if metadata.is_dir() => self.folder(&path, &format!("{name}/"), depth + 1),
                Ok(metadata) if metadata.is_file() => self.add(name, &path, false),
                Ok(_) => {
                    self.issues.push((Severity::Note, "special_file", name, "found a socket, pipe or device; it is not read".to_string()));
                }
                Err(error) => self.issues.push((Severity::Error, "unreadable_file", name, format!("cannot read it: {error}"))),
            }
        }
    }
}
