//! Files and directories that are there whole or not at all.
//!
//! Everything is written under another name, brought to the disk, and renamed into place. A directory is locked through
//! its own handle, so a process that is killed leaves no lock behind; a file system without locks goes unguarded.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::StoreError;

/// How often a temporary directory is made anew after another process took it for litter.
const MAX_TEMP_ATTEMPTS: usize = 5;

/// Says of a fallible file operation what was tried and on what.
pub(super) trait OnPath<T> {
    fn on(self, action: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T> OnPath<T> for io::Result<T> {
    fn on(self, action: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|error| StoreError::from_io(action, path, error))
    }
}

/// Brings a directory's entries to the disk, where the file system can.
pub(super) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(dir).and_then(|handle| handle.sync_all()) {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        synced => synced.on("sync", dir),
    }
}

/// Writes a new file, through to the disk.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut file = File::create(path).on("create", path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).on("write", path)
}

/// Writes `path` so that it holds either what it held before or all of `bytes`.
pub(super) fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let beside = sibling(path, "tmp");
    let written = write_file(&beside, bytes).and_then(|()| fs::rename(&beside, path).on("write", path));
    if written.is_err() {
        let _ = fs::remove_file(&beside); // the first error is the one to report
    }
    written.and_then(|()| sync_dir(parent(path)))
}

/// Reads a file of at most `limit` bytes.
pub(super) fn read_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("expected at most {limit} bytes, found more")));
    }
    Ok(bytes)
}

/// Opens a file to read, unless it is a pipe, a device or a folder: those hang, never end or hold no bytes.
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_file() {
        return File::open(path);
    }
    let found = if kind.is_dir() { "a folder" } else { "a pipe, socket or device" };
    Err(io::Error::new(io::ErrorKind::InvalidInput, found))
}

/// Removes a directory and what is in it, if it is there.
pub(super) fn remove_tree(dir: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::from_io("remove", dir, error)),
        _ => Ok(()),
    }
}

/// The directory that holds `path`.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A hidden name beside `path` that nothing else uses.
pub(super) fn sibling(path: &Path, purpose: &str) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or(OsStr::new("capture")).to_string_lossy();
    parent(path).join(format!(".{name}.{purpose}-{}-{count}", std::process::id()))
}

/// All hidden names beside `path` with this purpose, in order of name.
pub(super) fn siblings(path: &Path, purpose: &str) -> Vec<PathBuf> {
    let name = path.file_name().unwrap_or(OsStr::new("capture")).to_string_lossy();
    let prefix = format!(".{name}.{purpose}-");
    let Ok(entries) = fs::read_dir(parent(path)) else {
        return Vec::new();
    };
    let named = |entry: io::Result<fs::DirEntry>| entry.ok().filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    let mut found: Vec<PathBuf> = entries.filter_map(named).map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// Where the symbolic links at `path` lead; `path` itself where there is none or it leads nowhere.
pub(super) fn through_links(path: &Path) -> PathBuf {
    let target = if path.is_symlink() { fs::canonicalize(path).ok() } else { None };
    target.unwrap_or_else(|| path.to_path_buf())
}

/// Renames a directory whose fate was looked at just before. What appeared or vanished since is the work of another
/// process that writes the capture `target`.
pub(super) fn rename_unless_busy(from: &Path, to: &Path, action: &'static str, target: &Path) -> Result<(), StoreError> {
    let raced = |kind| matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists);
    match fs::rename(from, to) {
        Err(error) if raced(error.kind()) => Err(StoreError::Busy { path: target.to_path_buf() }),
        renamed => renamed.on(action, target),
    }
}

/// A lock on a directory, held until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _handle: Option<File>,
}

/// Locks `dir`; `None` if another holder has it.
pub(super) fn try_lock(dir: &Path) -> Option<Lock> {
    let Ok(handle) = File::open(dir) else {
        return Some(Lock { _handle: None }); // not every system opens directories
    };
    match handle.try_lock() {
        Ok(()) => Some(Lock { _handle: Some(handle) }),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(_)) => Some(Lock { _handle: None }),
    }
}

/// True if some process holds the lock on `dir`.
pub(super) fn is_locked(dir: &Path) -> bool {
    dir.is_dir() && File::open(dir).is_ok_and(|handle| matches!(handle.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// A temporary directory beside its target: removed when dropped, unless renamed into place first.
#[derive(Debug)]
pub(super) struct TempDir {
    path: PathBuf,
    _lock: Option<Lock>,
}

impl TempDir {
    /// Makes an empty one beside `target` and removes those that killed processes left there.
    pub(super) fn beside(target: &Path) -> Result<Self, StoreError> {
        for stale in siblings(target, "tmp").into_iter().filter(|stale| stale.is_dir()) {
            if let Some(_held) = try_lock(&stale) {
                let _ = fs::remove_dir_all(&stale); // only litter; what matters is written under a fresh name
            }
        }
        for _ in 0..MAX_TEMP_ATTEMPTS {
            let path = sibling(target, "tmp");
            fs::create_dir(&path).on("create", target)?;
            // Before it is locked another process may take it for litter.
            if let lock @ Some(_) = try_lock(&path)
                && path.is_dir()
            {
                return Ok(Self { path, _lock: lock });
            }
        }
        Err(StoreError::Busy { path: target.to_path_buf() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames it to `target`, which must not be there or be an empty directory.
    pub(super) fn rename_to(self, target: &Path) -> Result<(), StoreError> {
        sync_dir(&self.path)?;
        rename_unless_busy(&self.path, target, "rename a finished directory to", target)?;
        sync_dir(parent(target))
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path); // gone already if it was renamed
    }
}
