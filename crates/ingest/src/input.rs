//! One source as a stream of bytes: hashed as found, unpacked if it is gzip or zstd, bounded in memory and size.
//!
//! [`Input`] never fails. Damage ends the stream and is kept as [`Damage`] for the issue row, so that every importer
//! reads up to the damage without doing anything for it.

mod file;
mod hash;
mod raw;
mod stream;

use std::io::{self, BufRead, Read};
use std::path::Path;

use crate::options::Options;

pub(crate) use file::RegularFile;
pub(crate) use hash::ContentHash;
use raw::Raw;
use stream::Stream;

/// Bytes offered to the sniffers.
pub(crate) const HEAD_BYTES: usize = 64 << 10;
/// Bytes read at a time.
const BLOCK_BYTES: usize = 256 << 10;
/// Bytes read at a time within the head.
const FIRST_BLOCK_BYTES: usize = 8 << 10;

/// Why a stream ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Issue code.
    pub(crate) code: &'static str,
    /// Where: `byte N`, counted as found.
    pub(crate) place: String,
    /// What was expected, what was found, what it means.
    pub(crate) sentence: String,
}

/// One line of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// The bytes without the line end.
    pub(crate) bytes: &'a [u8],
    /// 1 for the first line.
    pub(crate) number: u64,
    /// False for a last line without a line end.
    pub(crate) complete: bool,
}

/// What is known of a source once it has been read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Finished {
    /// Of the bytes as found.
    pub(crate) hash: String,
    /// Of the bytes once unpacked.
    pub(crate) content_hash: String,
    pub(crate) byte_count: u64,
    pub(crate) damage: Option<Damage>,
    /// Lines over the limit: how many, number of the first.
    pub(crate) long_lines: Option<(u64, u64)>,
}

/// See the module.
pub(crate) struct Input<'a> {
    stream: Stream<'a>,
    window: Vec<u8>,
    start: usize,
    end: usize,
    at_end: bool,
    decoded: u64,
    max_decoded: u64,
    max_line: usize,
    lines: u64,
    long_lines: Option<(u64, u64)>,
    damage: Option<Damage>,
    /// Of what a packed source unpacks to.
    content: ContentHash,
    file: Option<RegularFile>,
}

impl<'a> Input<'a> {
    /// Opens a source and reads its head.
    pub(crate) fn new(inner: Box<dyn Read + 'a>, options: &Options<'_>) -> Self {
        let stream = Stream::new(Raw::new(inner, options.max_source_bytes));
        let mut input = Self {
            stream,
            window: Vec::new(),
            start: 0,
            end: 0,
            at_end: false,
            decoded: 0,
            max_decoded: options.max_decoded_bytes,
            max_line: options.max_line_bytes,
            lines: 0,
            long_lines: None,
            damage: None,
            content: ContentHash::default(),
            file: None,
        };
        while input.end < HEAD_BYTES && input.refill() {}
        if input.head().starts_with(b"\xef\xbb\xbf") {
            input.start = 3;
        }
        input
    }

    /// Says which file the source is, so that a format may read it at any place.
    pub(crate) fn at_path(mut self, path: &Path) -> Self {
        self.file = RegularFile::at(path, self.stream.raw().limit);
        self
    }

    /// The file behind the source; `None` for a pipe, a packed file or bytes in memory.
    pub(crate) fn regular_file(&self) -> Option<&RegularFile> {
        self.file.as_ref().filter(|_| matches!(self.stream, Stream::Plain(_)))
    }

    /// The first bytes, unpacked.
    pub(crate) fn head(&self) -> &[u8] {
        &self.window[self.start..self.end.min(self.start + HEAD_BYTES)]
    }

    /// True when the head is the whole source.
    pub(crate) fn is_all_in_head(&self) -> bool {
        self.at_end && self.end - self.start <= HEAD_BYTES
    }

    /// Bytes read so far, as found.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.stream.raw().byte_count
    }

    /// What ended the stream early, if anything did so far.
    pub(crate) fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// The next line, without its line end. Lines over the limit are skipped and counted.
    pub(crate) fn next_line(&mut self) -> Option<Line<'_>> {
        let mut scanned = self.start;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.window[scanned..self.end]) {
                let (from, to) = (self.start, scanned + at);
                self.start = to + 1;
                self.lines += 1;
                return Some(Line { bytes: &self.window[from..to], number: self.lines, complete: true });
            }
            if self.end - self.start > self.max_line {
                self.skip_line();
                scanned = self.start;
                continue;
            }
            let pending = self.end - self.start;
            if !self.refill() {
                if pending == 0 {
                    return None;
                }
                let (from, to) = (self.start, self.end);
                self.start = to;
                self.lines += 1;
                return Some(Line { bytes: &self.window[from..to], number: self.lines, complete: false });
            }
            scanned = self.start + pending;
        }
    }

    fn skip_line(&mut self) {
        self.lines += 1;
        let (count, first) = self.long_lines.unwrap_or((0, self.lines));
        self.long_lines = Some((count + 1, first));
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.window[self.start..self.end]) {
                self.start += at + 1;
                return;
            }
            self.start = self.end;
            if !self.refill() {
                return;
            }
        }
    }

    /// Fills `into`, straight from the stream where the window is empty; less than its length only at the end.
    pub(crate) fn fill(&mut self, into: &mut [u8]) -> usize {
        let mut filled = into.len().min(self.end - self.start);
        into[..filled].copy_from_slice(&self.window[self.start..self.start + filled]);
        self.start += filled;
        while filled < into.len() {
            let got = self.read_stream(&mut into[filled..]);
            if got == 0 {
                break;
            }
            filled += got;
        }
        filled
    }

    /// True when nothing is left to be read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at_end && self.start == self.end
    }

    /// Puts bytes back, to be read again before all others.
    pub(crate) fn unread(&mut self, bytes: &[u8]) {
        self.window.splice(..self.start, bytes.iter().copied());
        self.end = self.end - self.start + bytes.len();
        self.start = 0;
    }

    /// Reads one more block behind the window; false at the end of the stream.
    fn refill(&mut self) -> bool {
        if self.at_end {
            return false;
        }
        if self.start > 0 {
            self.window.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        // Most files of a large folder are small; a large block is zeroed before it is filled.
        let block = if self.decoded < HEAD_BYTES as u64 { FIRST_BLOCK_BYTES } else { BLOCK_BYTES };
        if self.window.len() < self.end + block {
            self.window.resize(self.end + block, 0);
        }
        let mut window = std::mem::take(&mut self.window);
        let got = self.read_stream(&mut window[self.end..self.end + block]);
        self.window = window;
        self.end += got;
        got > 0
    }

    /// Reads the next bytes of the stream; 0 at its end.
    fn read_stream(&mut self, into: &mut [u8]) -> usize {
        if self.at_end {
            return 0;
        }
        let got = match self.stream.read(into) {
            Ok(got) => got,
            Err(error) => {
                self.damage = Some(self.stream.damage(&error, self.decoded));
                0
            }
        };
        if self.stream.is_packed() {
            self.content.update(&into[..got]);
        }
        self.decoded += got as u64;
        self.at_end = got == 0 || self.is_over_limit();
        if self.at_end {
            self.note_raw_damage();
        }
        got
    }

    fn is_over_limit(&mut self) -> bool {
        if let Some(bomb) = self.stream.bomb(self.decoded) {
            self.damage = Some(bomb);
        } else if self.decoded >= self.max_decoded {
            self.damage = Some(Damage {
                code: "source_too_large",
                place: format!("byte {}", self.raw_bytes()),
                sentence: format!("expected at most {} bytes unpacked; the rest is left out", self.max_decoded),
            });
        }
        self.damage.is_some()
    }

    fn note_raw_damage(&mut self) {
        if self.damage.is_some() {
            return;
        }
        let raw = self.stream.raw();
        let place = format!("byte {}", raw.byte_count);
        if let Some(error) = &raw.failure {
            self.damage = Some(Damage { code: "read_failed", place, sentence: format!("reading stopped: {error}; the rest is left out") });
        } else if raw.over_limit {
            let sentence = format!("expected at most {} bytes, found more; the rest is left out", raw.limit);
            self.damage = Some(Damage { code: "source_too_large", place, sentence });
        }
    }

    /// Reads what is left for the hash and closes the source.
    pub(crate) fn finish(mut self) -> Finished {
        let is_packed = self.stream.is_packed();
        let told = self.damage.clone();
        if is_packed {
            loop {
                self.start = self.end;
                if !self.refill() {
                    break;
                }
            }
        }
        let mut raw = self.stream.into_raw();
        let mut scratch = std::mem::take(&mut self.window);
        scratch.resize(scratch.len().max(FIRST_BLOCK_BYTES), 0);
        while matches!(raw.read(&mut scratch), Ok(got) if got > 0) {}
        let hash = raw.hash();
        let content_hash = if is_packed { self.content.finish() } else { hash.clone() };
        Finished { hash, content_hash, byte_count: raw.byte_count, damage: told.or(self.damage), long_lines: self.long_lines }
    }
}

/// Never returns an error: damage ends the stream and is reported by [`Input::finish`].
impl Read for Input<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let got = available.len().min(into.len());
        into[..got].copy_from_slice(&available[..got]);
        self.consume(got);
        Ok(got)
    }
}

impl BufRead for Input<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.start == self.end {
            self.refill();
        }
        Ok(&self.window[self.start..self.end])
    }

    fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }
}
