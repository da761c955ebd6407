//! Where an answer may be written: never over evidence, never over what somebody else wrote.
//!
//! Asked before anything is read, so that a typo costs nothing. Pages may replace pages of this program, captures replace
//! captures, exports only what a person says; none may lie inside an input, since the next run would read its own answer as
//! evidence.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use report::views::html;

/// Bytes of a file that say whether it is a page of this program.
const HEAD_BYTES: u64 = 1024;

/// Refuses a place where a page would destroy or join evidence. Devices, pipes and empty files lose nothing.
pub(crate) fn check_page<'a>(path: &Path, inputs: impl IntoIterator<Item = &'a OsString>) -> anyhow::Result<()> {
    refuse_evidence(path, inputs)?;
    refuse_nowhere(path)?;
    let Ok(found) = fs::metadata(path) else { return Ok(()) };
    if found.is_dir() {
        bail!("`{}` is a folder; name a file in it to write the page to", path.display());
    }
    if found.is_file() && found.len() > 0 && !is_our_page(path)? {
        bail!("`{}` exists and is not a page this program wrote, so it is not overwritten; name another file or remove it", path.display());
    }
    Ok(())
}

/// Refuses a place where a capture would destroy or join evidence. Anything but a capture is left alone; a link to one
/// leads to the one that is replaced.
pub(crate) fn check_capture<'a>(path: &Path, inputs: impl IntoIterator<Item = &'a OsString>) -> anyhow::Result<()> {
    if path.symlink_metadata().is_ok() && !capture::store::is_capture(path) {
        bail!("`{}` exists and is not a capture, so it is not overwritten", path.display());
    }
    refuse_evidence(path, inputs)?;
    refuse_nowhere(path)?;
    if path.symlink_metadata().is_ok() {
        capture::store::check_place(path).with_context(|| format!("`{}` is not overwritten", path.display()))?;
    }
    Ok(())
}

/// Refuses a place where an export would destroy or join evidence, or what is there already unless that is wanted.
pub(crate) fn check_export<'a>(path: &Path, inputs: impl IntoIterator<Item = &'a OsString>, may_replace: bool) -> anyhow::Result<()> {
    refuse_evidence(path, inputs)?;
    refuse_nowhere(path)?;
    let Ok(found) = fs::metadata(path) else { return Ok(()) };
    if found.is_dir() {
        bail!("`{}` is a folder; name a file in it to write to", path.display());
    }
    if found.is_file() && found.len() > 0 && !may_replace {
        bail!("`{}` exists and is not overwritten; name another file, or add --force", path.display());
    }
    Ok(())
}

/// The same for a folder of files.
pub(crate) fn check_export_folder<'a>(
    path: &Path,
    inputs: impl IntoIterator<Item = &'a OsString>,
    may_replace: bool,
) -> anyhow::Result<()> {
    refuse_evidence(path, inputs)?;
    refuse_nowhere(path)?;
    if capture::store::is_capture(path) {
        bail!("`{}` is a capture, so nothing is written into it; name another folder", path.display());
    }
    let Ok(mut entries) = fs::read_dir(path) else {
        return match path.symlink_metadata() {
            Ok(_) => bail!("`{}` exists and is not a folder that can be read", path.display()),
            Err(_) => Ok(()),
        };
    };
    if entries.next().is_some() && !may_replace {
        bail!("`{}` is not empty, so nothing is written into it; name another folder, or add --force", path.display());
    }
    Ok(())
}

fn is_our_page(path: &Path) -> anyhow::Result<bool> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.with_context(|| format!("`{}` exists and cannot be read, so it is not overwritten", path.display()))?;
    Ok(html::is_page(&head))
}

fn refuse_evidence<'a>(path: &Path, inputs: impl IntoIterator<Item = &'a OsString>) -> anyhow::Result<()> {
    let place = resolved(path);
    for input in inputs {
        let Ok(evidence) = fs::canonicalize(input) else { continue }; // an address, or reported as missing by who reads it
        if place == evidence {
            bail!("`{}` is one of the inputs, so it is not overwritten; name another file", path.display());
        }
        if evidence.is_dir() && place.starts_with(&evidence) {
            let folder = Path::new(input).display();
            bail!("`{}` lies inside the input `{folder}`, where the next run would read it; name a place outside it", path.display());
        }
    }
    Ok(())
}

/// A window of ten minutes must not end with the news that the folder was misspelled.
fn refuse_nowhere(path: &Path) -> anyhow::Result<()> {
    if path.is_symlink() && !path.exists() {
        bail!("`{}` is a symbolic link that leads nowhere, so it is not written; name the place itself", path.display());
    }
    if !folder_of(path).is_dir() {
        bail!("`{}` cannot be written: there is no folder `{}`; make it first", path.display(), folder_of(path).display());
    }
    Ok(())
}

/// The real place of `path`, whether it is there yet or not.
fn resolved(path: &Path) -> PathBuf {
    let folder = folder_of(path);
    fs::canonicalize(path)
        .or_else(|_| fs::canonicalize(folder).map(|folder| folder.join(path.file_name().unwrap_or_default())))
        .unwrap_or_else(|_| path.to_path_buf())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
