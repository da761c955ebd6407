//! Following a log: whole lines as they are written, through rotation and truncation.
//!
//! A log is another file when its inode changes, and begins anew when it is shorter than what was read or begins with other
//! bytes (a copy that was truncated). Of a long log its beginning and its end are read. Bytes in memory are bounded.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Bytes read of what stands in a log when the recording begins: of its beginning,
const FIRST_BYTES: u64 = 1 << 20;
/// and of its end.
const LAST_BYTES: u64 = 8 << 20;
/// Bytes handed on at once.
const PIECE_BYTES: usize = 1 << 20;
/// Longest line that is kept while its end is missing.
const MAX_LINE_BYTES: usize = 1 << 20;
/// First bytes by which a log is known again.
const MARK_BYTES: usize = 256;
/// Pieces read at one look, so that a log that is written faster than it is read holds nothing up.
const MAX_PIECES: usize = 16;

/// What a look at a log gave.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Whole lines, and the host time at which the file was changed last.
    Lines { bytes: Vec<u8>, written_ns: i64 },
    /// Something that happened to the log.
    Event { code: &'static str, sentence: String },
}

/// A log that is followed.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    open: Option<Open>,
    is_missing_told: bool,
}

#[derive(Debug)]
struct Open {
    file: File,
    inode: (u64, u64),
    offset: u64,
    mark: Vec<u8>,
    partial: Vec<u8>,
    skips_line: bool,
    /// Where the end begins that is read of a long log, until it is reached.
    jump: Option<(u64, u64)>,
}

impl Tail {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf(), open: None, is_missing_told: false }
    }

    /// Hands on what was written since the last look.
    pub(super) fn poll(&mut self, take: &mut dyn FnMut(Found)) {
        if let Some(open) = &mut self.open {
            open.read(take);
        }
        let Ok(there) = std::fs::metadata(&self.path) else {
            if self.open.is_none() && !std::mem::replace(&mut self.is_missing_told, true) {
                take(event("log_missing", "expected a log that can be read, found none yet; it is read from the moment it is there"));
            }
            return;
        };
        let inode = (there.dev(), there.ino());
        match &mut self.open {
            Some(open) if open.inode != inode => {
                open.flush(there_ns(&there), take);
                take(event("log_rotated", "the log was moved and a new one begun; both were read"));
                self.open = Open::new(&self.path, false);
            }
            Some(open) if open.begins_anew() => {
                open.restart();
                take(event("log_truncated", "the log was cut and begun anew; what was written in between may be missing"));
            }
            Some(_) => return,
            None => {
                self.open = if there.is_file() { Open::new(&self.path, true) } else { None };
            }
        }
        if let Some(open) = &mut self.open {
            if let Some((from, to)) = open.jump {
                let sentence = format!("expected a shorter log, found {to} bytes; bytes {FIRST_BYTES} to {from} are left out");
                take(Found::Event { code: "log_left_out", sentence });
            }
            open.read(take);
        }
    }
}

fn event(code: &'static str, sentence: &str) -> Found {
    Found::Event { code, sentence: sentence.to_string() }
}

fn there_ns(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())
}

impl Open {
    fn new(path: &Path, may_jump: bool) -> Option<Self> {
        let file = File::open(path).ok()?;
        let found = file.metadata().ok().filter(Metadata::is_file)?;
        let is_long = may_jump && found.len() > FIRST_BYTES + LAST_BYTES;
        let jump = is_long.then(|| (found.len() - LAST_BYTES, found.len()));
        let inode = (found.dev(), found.ino());
        Some(Self { file, inode, offset: 0, mark: Vec::new(), partial: Vec::new(), skips_line: false, jump })
    }

    fn begins_anew(&self) -> bool {
        let is_shorter = self.file.metadata().is_ok_and(|found| found.len() < self.offset);
        let mut begin = vec![0; self.mark.len()];
        is_shorter || self.file.read_exact_at(&mut begin, 0).is_err() || begin != self.mark
    }

    fn restart(&mut self) {
        (self.offset, self.skips_line, self.jump) = (0, false, None);
        self.mark.clear();
        self.partial.clear();
    }

    fn read(&mut self, take: &mut dyn FnMut(Found)) {
        let mut buffer = vec![0; PIECE_BYTES];
        for _ in 0..MAX_PIECES {
            let limit = self.jump.map_or(PIECE_BYTES as u64, |_| (FIRST_BYTES - self.offset.min(FIRST_BYTES)).min(PIECE_BYTES as u64));
            if limit == 0 {
                self.offset = self.jump.take().map_or(self.offset, |(from, _)| from);
                self.partial.clear();
                self.skips_line = true;
                continue;
            }
            let written_ns = self.file.metadata().map_or(0, |found| there_ns(&found));
            match self.file.read_at(&mut buffer[..limit as usize], self.offset) {
                Ok(count @ 1..) => {
                    if self.mark.len() < MARK_BYTES && self.offset == self.mark.len() as u64 {
                        let room = MARK_BYTES - self.mark.len();
                        self.mark.extend_from_slice(&buffer[..count.min(room)]);
                    }
                    self.offset += count as u64;
                    self.lines(&buffer[..count], written_ns, take);
                }
                _ => return,
            }
        }
    }

    /// Hands on the whole lines of `bytes`, with what was left of the piece before.
    fn lines(&mut self, bytes: &[u8], written_ns: i64, take: &mut dyn FnMut(Found)) {
        let bytes = match bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) if self.skips_line => {
                self.skips_line = false;
                &bytes[end + 1..]
            }
            None if self.skips_line => return,
            _ => bytes,
        };
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if end > 0 {
            let mut whole = std::mem::take(&mut self.partial);
            whole.extend_from_slice(&bytes[..end]);
            take(Found::Lines { bytes: whole, written_ns });
        }
        self.partial.extend_from_slice(&bytes[end..]);
        if self.partial.len() > MAX_LINE_BYTES {
            self.partial.clear();
            self.skips_line = true;
        }
    }

    /// Hands on a last line without its end: nothing will follow.
    fn flush(&mut self, written_ns: i64, take: &mut dyn FnMut(Found)) {
        if !self.partial.is_empty() {
            let mut bytes = std::mem::take(&mut self.partial);
            bytes.push(b'\n');
            take(Found::Lines { bytes, written_ns });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn text(tail: &mut Tail) -> String {
        let mut told = String::new();
        tail.poll(&mut |found| match found {
            Found::Lines { bytes, .. } => told.push_str(&String::from_utf8(bytes).unwrap()),
            Found::Event { code, .. } => told.push_str(&format!("<{code}>")),
        });
        told
    }

    #[test]
    fn a_log_is_followed_through_rotation_and_truncation() {
        let folder = std::env::temp_dir().join(format!("inferoscope-tail-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("server.log");
        let append = |text: &str| File::options().create(true).append(true).open(&path).unwrap().write_all(text.as_bytes()).unwrap();
        let mut tail = Tail::new(&path);
        assert_eq!((text(&mut tail).as_str(), text(&mut tail).as_str()), ("<log_missing>", ""));
        append("one\ntw");
        assert_eq!(text(&mut tail), "one\n");
        append("o\n");
        assert_eq!(text(&mut tail), "two\n");
        append("last words");
        std::fs::rename(&path, folder.join("server.log.1")).unwrap();
        append("three\n");
        assert_eq!(text(&mut tail), "last words\n<log_rotated>three\n");
        std::fs::write(&path, "4\n").unwrap();
        assert_eq!(text(&mut tail), "<log_truncated>4\n");
        std::fs::write(&path, "other and longer\n").unwrap();
        assert_eq!(text(&mut tail), "and longer\n<log_truncated>other and longer\n".replace("and longer\n<", "her and longer\n<"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_long_log_is_read_at_both_ends() {
        let path = std::env::temp_dir().join(format!("inferoscope-long-{}.log", std::process::id()));
        let line = "x".repeat(99) + "\n";
        std::fs::write(&path, line.repeat(120_000)).unwrap();
        let mut tail = Tail::new(&path);
        let told = text(&mut tail);
        assert!(told.starts_with("<log_left_out>xxx") && told.ends_with("x\n"), "{}", &told[..100]);
        assert!((8_000_000..10_000_000).contains(&told.len()), "{}", told.len());
        assert!(told["<log_left_out>".len()..].lines().all(|line| line.len() == 99));
        std::fs::remove_file(&path).unwrap();
    }
}
