//! Captures on disk: one Parquet file per table, written in closed segments, compacted into a finished capture.
//!
//! ```text
//! NAME.capture/manifest.json            what it is, its sources, the hash of every block of every table
//! NAME.capture/<table>.parquet          one per table that has rows; text in place, so any Arrow tool reads it alone
//! NAME.capture/names.parquet            the order of interned text, for inferoscope itself
//! NAME.capture/extra/<name>             what was made of it; not part of it
//! NAME.capture/segments/000017/...      while it grows: the same files, one closed folder per second
//! ```
//!
//! A capture is there whole or not at all: it is written beside its place and renamed into it, a growing one becomes a
//! finished one when its manifest is replaced. Whatever was not written as found is left out and told as an issue.

mod disk;
mod error;
mod extra;
mod folder;
mod losses;
mod manifest_file;
mod parquet_in;
mod schema;
mod segments;
mod table_file;
mod table_in;
mod table_out;
mod text_out;

use std::fs;
use std::path::{Path, PathBuf};

pub use self::error::StoreError;
pub use self::extra::{Extra, get_extra, put_extra};
pub use self::segments::{Writer, compact};

use self::disk::TempDir;
use self::losses::Losses;
use self::manifest_file::{ManifestFile, State};
use self::parquet_in::column::Budget;
use crate::capture::Capture;

/// How often a capture that is replaced while it is read is read again.
const MAX_ATTEMPTS: usize = 5;

/// Writes `capture` as the finished capture `dir`, through to the disk. A capture at that place is replaced in one step
/// and its extra files are kept; a link to one is followed; anything else there is left alone. On an error nothing of it
/// stays behind; of two that write at the same time one may be told that the place is [`StoreError::Busy`].
pub fn write(capture: &Capture, dir: &Path) -> Result<(), StoreError> {
    let dir = &disk::through_links(dir);
    let is_there = clear_way(dir)?;
    let _lock = segments::lock_if_growing(dir)?;
    let temp = TempDir::beside(dir)?;
    folder::write(capture, temp.path()).map_err(|error| error.moved(temp.path(), dir))?;
    if !is_there {
        return temp.rename_to(dir);
    }
    extra::carry_over(dir, temp.path()).map_err(|error| error.moved(temp.path(), dir))?;
    let aside = disk::sibling(dir, "old");
    disk::rename_unless_busy(dir, &aside, "move aside", dir)?;
    if let Err(error) = temp.rename_to(dir) {
        let _ = fs::rename(&aside, dir); // the first error is the one to report
        return Err(error);
    }
    disk::remove_tree(&aside)
}

/// What [`write`] would refuse at this place, asked beforehand.
pub fn check_place(dir: &Path) -> Result<(), StoreError> {
    let dir = &disk::through_links(dir);
    clear_way(dir)?;
    segments::lock_if_growing(dir).map(drop)
}

/// Opens a capture, finished or growing. What is damaged in it becomes rows of its `issues` table; the rest is there.
pub fn open(dir: &Path) -> Result<Capture, StoreError> {
    let dir = &find(dir);
    let mut attempt = 1;
    loop {
        let (file, bytes) = manifest_file::read(dir)?;
        let mut losses = Losses::default();
        let is_growing = file.state == State::Growing;
        let mut capture = if is_growing { read_growing(dir, &mut losses)? } else { read_finished(dir, file, &mut losses) };
        // A capture that was replaced or compacted meanwhile lacks files here that stand elsewhere now.
        let is_whole = !is_growing && losses.is_empty();
        if !is_whole && attempt < MAX_ATTEMPTS && manifest_file::read(dir).is_ok_and(|(_, now)| now != bytes) {
            attempt += 1;
            continue;
        }
        if !is_whole {
            losses.move_to(&mut capture);
            capture.canonicalize();
        }
        return Ok(capture);
    }
}

/// The last `segments` segments of a growing capture, with the settings told at its beginning; a finished one as a whole.
/// What it costs does not grow with the recording.
pub fn open_recent(dir: &Path, segments: usize) -> Result<Capture, StoreError> {
    let dir = &find(dir);
    if manifest_file::read(dir)?.0.state != State::Growing {
        return open(dir);
    }
    let mut losses = Losses::default();
    let read = segments::read_recent(dir, segments, &mut losses);
    // Finished meanwhile: its segments are gone, what they held stands in its tables.
    if manifest_file::read(dir)?.0.state != State::Growing {
        return open(dir);
    }
    let mut capture = read?;
    losses.move_to(&mut capture);
    capture.canonicalize();
    Ok(capture)
}

/// True if `dir` is a growing capture that somebody writes now.
pub fn is_growing(dir: &Path) -> bool {
    let dir = &find(dir);
    manifest_file::read(dir).is_ok_and(|(file, _)| file.state == State::Growing) && disk::is_locked(&dir.join(manifest_file::SEGMENTS))
}

/// True if `dir` is a capture, whatever its version and state, and even if its manifest is damaged: then [`open`] says how.
pub fn is_capture(dir: &Path) -> bool {
    manifest_file::is_there(&find(dir))
}

fn read_finished(dir: &Path, file: ManifestFile, losses: &mut Losses) -> Capture {
    let mut budget = Budget::new();
    budget.grant(table_bytes(dir));
    folder::read(dir, file, &mut budget, losses)
}

fn read_growing(dir: &Path, losses: &mut Losses) -> Result<Capture, StoreError> {
    segments::tell_if_abandoned(dir, losses);
    segments::read_all(dir, losses)
}

/// Bytes of the Parquet files in a folder.
fn table_bytes(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    let tables = entries.flatten().filter(|entry| entry.path().extension().is_some_and(|extension| extension == "parquet"));
    tables.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).fold(0, u64::saturating_add)
}

/// Where the capture is: at `dir`, or beside it if a process was killed while it replaced it.
fn find(dir: &Path) -> PathBuf {
    let aside = || disk::siblings(dir, "old").into_iter().find(|aside| manifest_file::read(aside).is_ok());
    if dir.exists() { dir.to_path_buf() } else { aside().unwrap_or_else(|| dir.to_path_buf()) }
}

/// Makes sure that `dir` may be written to, finishing what a killed process left half done.
/// Returns whether a capture is there.
fn clear_way(dir: &Path) -> Result<bool, StoreError> {
    for aside in disk::siblings(dir, "old") {
        if manifest_file::read(dir).is_ok() {
            disk::remove_tree(&aside)?; // replaced, but not yet removed
        } else if is_vacant(dir) && manifest_file::read(&aside).is_ok() {
            disk::rename_unless_busy(&aside, dir, "move back", dir)?;
        }
    }
    match manifest_file::read(dir) {
        Ok(_) => Ok(true),
        Err(StoreError::NotACapture { .. }) if is_vacant(dir) => Ok(false),
        Err(error) => Err(error),
    }
}

/// True if nothing but perhaps an empty directory is at this place.
fn is_vacant(dir: &Path) -> bool {
    match fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => fs::symlink_metadata(dir).is_err(),
    }
}
