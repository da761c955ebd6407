//! Writing a file so that its final name never holds half of it.
//!
//! The bytes go to a temporary name beside the target, are flushed to disk and renamed. Devices and pipes
//! (`/dev/stdout`, `>(...)`) cannot be renamed onto and are written directly.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Writes `bytes` to `path`, replacing a regular file there.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    write_with(path, |out| out.write_all(bytes))
}

/// Writes to `path` what `fill` writes, piece by piece, replacing a regular file there.
pub(crate) fn write_with<T>(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> anyhow::Result<T> {
    let target = final_target(path);
    let written = match fs::metadata(&target) {
        Ok(found) if found.is_dir() => Err(io::Error::new(io::ErrorKind::IsADirectory, "expected a file name, found a folder")),
        Ok(found) if !found.is_file() => write_directly(&target, fill),
        _ => write_beside(&target, fill),
    };
    written.with_context(|| format!("could not write `{}`", path.display()))
}

/// Where a symbolic link leads, so that the link survives.
fn final_target(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

fn write_directly<T>(target: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> io::Result<T> {
    through_buffer(OpenOptions::new().write(true).open(target)?, fill).map(|(written, _)| written)
}

fn write_beside<T>(target: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> io::Result<T> {
    let name = target.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "expected a file name"))?;
    let temporary = target.with_file_name(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
    let written = through_disk(&temporary, fill).and_then(|written| fs::rename(&temporary, target).map(|()| written));
    if written.is_err() {
        // The first error is the one worth telling.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn through_disk<T>(temporary: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> io::Result<T> {
    let (written, file) = through_buffer(File::create(temporary)?, fill)?;
    file.sync_all()?;
    Ok(written)
}

fn through_buffer<T>(file: File, fill: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> io::Result<(T, File)> {
    let mut buffered = BufWriter::with_capacity(1 << 18, file);
    let written = fill(&mut buffered)?;
    let file = buffered.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok((written, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).expect("folder").map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("report.html");
        write(&path, b"first").expect("written");
        write(&path, b"second").expect("written");
        assert_eq!(fs::read(&path).expect("read"), b"second");
        assert_eq!(names(folder.path()), ["report.html"]);
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().expect("folder");
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").expect("written");
        std::os::unix::fs::symlink(&real, &link).expect("linked");
        write(&link, b"new").expect("written");
        assert_eq!((fs::read(&real).expect("read"), link.is_symlink()), (b"new".to_vec(), true));
    }

    #[test]
    fn a_full_device_is_an_error() {
        let error = write(Path::new("/dev/full"), b"text").expect_err("the device is always full");
        assert_eq!(error.to_string(), "could not write `/dev/full`");
    }

    #[test]
    fn a_folder_is_refused() {
        let folder = tempfile::tempdir().expect("folder");
        assert!(write(folder.path(), b"text").is_err());
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }
}
