//! A growing capture: closed segments of about a second each, and how they become a finished capture.
//!
//! A segment is a folder of tables with its own names and sources, so a lost one loses only itself. It is written as
//! `000017.tmp` and renamed, so a closed segment is whole. While a writer or a compaction works it holds a lock on
//! `segments/`. The finished capture appears when its manifest replaces the growing one; what is left of `segments/`
//! after that no longer counts.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::disk::{self, Lock, OnPath, TempDir};
use super::error::StoreError;
use super::folder;
use super::losses::Losses;
use super::manifest_file::{self, MANIFEST, ManifestFile, SEGMENTS, State};
use super::parquet_in::column::Budget;
use super::schema::is_time;
use super::{clear_way, table_bytes};
use crate::capture::Capture;
use crate::issues::Severity;
use crate::tables::{ColumnRef, Table, TableObserver, Tables};

/// Where a compaction gathers the finished tables, inside the capture.
const STAGING: &str = "finished.tmp";

/// A segment is closed when it holds this many rows,
const CLOSE_ROWS: usize = 1 << 16;

/// or when its rows span this much time.
const CLOSE_NS: i64 = 1_000_000_000;

/// Segments at the beginning whose settings are read beside the last ones.
const FIRST_SEGMENTS: usize = 5;

/// Writes a growing capture.
///
/// What was appended before the last closed segment survives whatever happens to the process; [`flush`](Self::flush)
/// closes one at once. If a segment cannot be written its rows stay with the writer, and the next call tries again.
#[derive(Debug)]
pub struct Writer {
    dir: PathBuf,
    /// Rows of the segment that is not closed yet.
    open: Capture,
    /// Number of that segment.
    number: u32,
    span: Span,
    lock: Lock,
}

impl Writer {
    /// Starts the growing capture `dir`, where nothing or an empty directory may be.
    pub fn create(dir: &Path) -> Result<Self, StoreError> {
        if clear_way(dir)? {
            return Err(StoreError::Exists { path: dir.to_path_buf() });
        }
        let temp = TempDir::beside(dir)?;
        let segments = temp.path().join(SEGMENTS);
        fs::create_dir(&segments).on("create", &segments)?;
        let lock = disk::try_lock(&segments).ok_or_else(|| StoreError::Busy { path: dir.to_path_buf() })?;
        disk::write_file(&temp.path().join(MANIFEST), &ManifestFile::growing().to_bytes())?;
        temp.rename_to(dir)?;
        Ok(Self { dir: dir.to_path_buf(), open: Capture::new(), number: 0, span: Span::default(), lock })
    }

    /// Goes on with a growing capture whose writer is gone.
    pub fn resume(dir: &Path) -> Result<Self, StoreError> {
        clear_way(dir)?;
        let (file, _) = manifest_file::read(dir)?;
        if file.state == State::Finished {
            return Err(StoreError::Exists { path: dir.to_path_buf() });
        }
        let lock = lock(dir)?;
        let number = list(dir)?.last().map_or(0, |last| last + 1);
        Ok(Self { dir: dir.to_path_buf(), open: Capture::new(), number, span: Span::default(), lock })
    }

    /// Adds the next piece of the recording, and closes the segment if it is full.
    pub fn append(&mut self, piece: Capture) -> Result<(), StoreError> {
        let Ok(()) = piece.tables.observe(&mut self.span);
        self.open.extend(piece);
        let rows: usize = self.open.tables.row_counts().iter().map(|(_, rows)| rows).sum();
        if rows >= CLOSE_ROWS || self.span.length_ns() >= CLOSE_NS { self.flush() } else { Ok(()) }
    }

    /// Closes the segment: what was appended so far is on the disk when this returns.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        if self.open == Capture::new() {
            return Ok(());
        }
        self.open.canonicalize();
        let segments = self.dir.join(SEGMENTS);
        let temp = segments.join(format!("{:06}.tmp", self.number));
        let written = disk::remove_tree(&temp).and_then(|()| write_folder(&self.open, &temp)).and_then(|()| {
            let closed = segments.join(format!("{:06}", self.number));
            fs::rename(&temp, &closed).on("close segment", &closed)
        });
        if written.is_err() {
            let _ = fs::remove_dir_all(&temp); // the first error is the one to report
        }
        written.and_then(|()| disk::sync_dir(&segments))?;
        self.number += 1;
        self.open = Capture::new();
        self.span = Span::default();
        Ok(())
    }

    /// Closes the last segment and makes it a finished capture.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.flush()?;
        compact_locked(&self.dir, &self.lock, Losses::default())
    }
}

/// Makes a finished capture of a growing one whose writer is gone. A finished one is left as it is.
pub fn compact(dir: &Path) -> Result<(), StoreError> {
    clear_way(dir)?;
    let held = lock_if_growing(dir)?;
    match (manifest_file::read(dir)?.0.state, held) {
        (State::Growing, Some(held)) => {
            let mut losses = Losses::default();
            tell_unfinished(&mut losses);
            compact_locked(dir, &held, losses)
        }
        (State::Growing, None) => Err(StoreError::NotACapture { path: dir.to_path_buf(), found: "a growing one without segments".into() }),
        (State::Finished, _) => remove_leftovers(dir),
    }
}

fn compact_locked(dir: &Path, _lock: &Lock, mut losses: Losses) -> Result<(), StoreError> {
    let mut capture = read_all(dir, &mut losses)?;
    if let Some(reason) = losses.unread.take() {
        return Err(StoreError::Unreadable { path: dir.to_path_buf(), reason });
    }
    losses.move_to(&mut capture);
    capture.canonicalize();
    let staging = dir.join(STAGING);
    let written = disk::remove_tree(&staging).and_then(|()| write_folder(&capture, &staging)).and_then(|()| move_in(&staging, dir));
    if written.is_err() {
        let _ = fs::remove_dir_all(&staging); // the first error is the one to report
    }
    written.and_then(|()| remove_leftovers(dir))
}

/// Moves the tables out of staging, then the manifest: from there on the capture is finished.
fn move_in(staging: &Path, dir: &Path) -> Result<(), StoreError> {
    for name in tables_in(dir)? {
        let path = dir.join(&name); // left by a compaction that was killed
        fs::remove_file(&path).on("remove", &path)?;
    }
    for name in tables_in(staging)?.iter().map(String::as_str).chain([MANIFEST]) {
        if name == MANIFEST {
            disk::sync_dir(dir)?;
        }
        let path = dir.join(name);
        fs::rename(staging.join(name), &path).on("move in", &path)?;
    }
    disk::sync_dir(dir)
}

fn tables_in(dir: &Path) -> Result<Vec<String>, StoreError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).on("read", dir)? {
        let name = entry.on("read", dir)?.file_name();
        names.extend(name.to_str().filter(|name| name.ends_with(".parquet")).map(String::from));
    }
    Ok(names)
}

/// Removes what a finished capture no longer needs.
fn remove_leftovers(dir: &Path) -> Result<(), StoreError> {
    disk::remove_tree(&dir.join(STAGING))?;
    disk::remove_tree(&dir.join(SEGMENTS))?;
    for temp in disk::siblings(&dir.join(MANIFEST), "tmp") {
        fs::remove_file(&temp).on("remove", &temp)?;
    }
    Ok(())
}

fn write_folder(capture: &Capture, dir: &Path) -> Result<(), StoreError> {
    fs::create_dir(dir).on("create", dir)?;
    folder::write(capture, dir)
}

/// Locks the segments of a capture that has some.
pub(super) fn lock_if_growing(dir: &Path) -> Result<Option<Lock>, StoreError> {
    if dir.join(SEGMENTS).is_dir() { lock(dir).map(Some) } else { Ok(None) }
}

fn lock(dir: &Path) -> Result<Lock, StoreError> {
    disk::try_lock(&dir.join(SEGMENTS)).ok_or_else(|| StoreError::Busy { path: dir.to_path_buf() })
}

/// Adds a note if nobody writes this growing capture any more.
pub(super) fn tell_if_abandoned(dir: &Path, losses: &mut Losses) {
    if !disk::is_locked(&dir.join(SEGMENTS)) {
        tell_unfinished(losses);
    }
}

fn tell_unfinished(losses: &mut Losses) {
    let sentence = "The recording ended without being finished; up to a second before its end may be missing.".to_string();
    losses.add(Severity::Note, "unfinished_recording", SEGMENTS, "", 1, sentence);
}

/// Numbers of the closed segments, in order.
fn list(dir: &Path) -> Result<Vec<u32>, StoreError> {
    let segments = dir.join(SEGMENTS);
    let entries = match fs::read_dir(&segments) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::from_io("read", &segments, error)),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry.on("read", &segments)?.file_name();
        let digits = name.to_str().filter(|name| name.len() >= 6 && name.bytes().all(|byte| byte.is_ascii_digit()));
        numbers.extend(digits.and_then(|digits| digits.parse::<u32>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Every closed segment, as one capture; not yet in canonical order.
pub(super) fn read_all(dir: &Path, losses: &mut Losses) -> Result<Capture, StoreError> {
    Ok(read_numbers(dir, &list(dir)?, 0, losses))
}

/// The last segments, and what the first ones state of settings: a server's log tells them once, when it starts.
pub(super) fn read_recent(dir: &Path, count: usize, losses: &mut Losses) -> Result<Capture, StoreError> {
    let numbers = list(dir)?;
    let (before, recent) = numbers.split_at(numbers.len().saturating_sub(count));
    let first = &before[..before.len().min(FIRST_SEGMENTS)];
    let mut stated = read_numbers(dir, first, first.first().copied().unwrap_or(0), losses);
    let Tables { runs, settings, .. } = std::mem::take(&mut stated.tables);
    stated.tables = Tables { runs, settings, ..Tables::default() };
    stated.extend(read_numbers(dir, recent, recent.first().copied().unwrap_or(0), losses));
    Ok(stated)
}

/// Some closed segments, the first of which should be `expected`.
fn read_numbers(dir: &Path, numbers: &[u32], mut expected: u32, losses: &mut Losses) -> Capture {
    let mut whole = Capture::new();
    let mut budget = Budget::new();
    for &number in numbers {
        if number > expected {
            let place = if number - expected == 1 { format!("{expected:06}") } else { format!("{expected:06} to {:06}", number - 1) };
            let sentence = format!("Expected segment {expected:06} after the one before, found {number:06}.");
            losses.add(Severity::Warning, "missing_segment", SEGMENTS, &place, u64::from(number - expected), sentence);
        }
        expected = number.saturating_add(1);
        let name = format!("{SEGMENTS}/{number:06}");
        let segment = dir.join(&name);
        match manifest_file::read(&segment) {
            Ok((file, _)) => {
                budget.grant(table_bytes(&segment));
                losses.prefix = format!("{name}/");
                whole.extend(folder::read(&segment, file, &mut budget, losses));
                losses.prefix.clear();
            }
            Err(error) => {
                if !matches!(error, StoreError::NotACapture { .. } | StoreError::DamagedManifest { .. }) {
                    losses.unread.get_or_insert_with(|| error.to_string());
                }
                let sentence = format!("Nothing of this segment could be read: {}.", without_path(&error, dir));
                losses.add(Severity::Error, "damaged_segment", &name, "", 1, sentence);
            }
        }
    }
    whole
}

/// What an error says, with paths relative to the capture: the same damage gives the same issue wherever it lies.
fn without_path(error: &StoreError, dir: &Path) -> String {
    error.to_string().replace(&format!("{}/", dir.display()), "")
}

/// First and last time of the rows appended to a segment. Rows without a time (0) do not count.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    ends_ns: Option<(i64, i64)>,
}

impl Span {
    fn length_ns(self) -> i64 {
        self.ends_ns.map_or(0, |(first, last)| last.saturating_sub(first))
    }
}

impl TableObserver for Span {
    type Error = Infallible;

    fn observe<T: Table>(&mut self, table: &T) -> Result<(), Infallible> {
        if let Some((name, ColumnRef::I64(times))) = table.columns().first() {
            for &time in times.iter().filter(|&&time| is_time(name) && time != 0) {
                let (first, last) = self.ends_ns.unwrap_or((time, time));
                self.ends_ns = Some((first.min(time), last.max(time)));
            }
        }
        Ok(())
    }
}
