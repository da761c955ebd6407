//! One source as a stream of bytes: hashed as found, unpacked if it is gzip, bounded in memory and size.
//!
//! [`Input`] never fails. Damage ends the stream and is kept as [`Damage`] for the issue row, so that every importer
//! reads up to the damage without doing anything for it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};

use crate::options::Options;

/// Bytes offered to the sniffers.
const HEAD_BYTES: usize = 64 << 10;
/// Bytes read at a time.
const BLOCK_BYTES: usize = 256 << 10;
/// Bytes read at a time within the head.
const FIRST_BLOCK_BYTES: usize = 8 << 10;
/// A gzip source may always unpack to this much; beyond it the ratio cap holds.
const RATIO_FREE_BYTES: u64 = 64 << 20;
/// Highest believable compression. Repetitive scrapes reach about 100, a bomb of zeros 1,030.
const RATIO_CAP: u64 = 500;

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

/// A source that can be read at any place, for formats that need that.
#[derive(Clone, Debug)]
pub(crate) struct RegularFile {
    path: PathBuf,
    /// Bytes of it that may be read.
    pub(crate) byte_count: u64,
}

impl RegularFile {
    /// Opens the file once more, at its start and for reading only.
    pub(crate) fn open(&self) -> io::Result<File> {
        File::open(&self.path)
    }

    /// Bytes of the file beside this one whose name is longer by `suffix`; 0 when there is none.
    pub(crate) fn beside(&self, suffix: &str) -> u64 {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        std::fs::metadata(name).map_or(0, |file| file.len())
    }
}

/// The source as found, hashed and counted.
struct Raw<'a> {
    inner: Box<dyn Read + 'a>,
    peeked: Vec<u8>,
    sha: Sha256,
    byte_count: u64,
    limit: u64,
    failure: Option<io::Error>,
    over_limit: bool,
}

impl Read for Raw<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.failure.is_some() || into.is_empty() {
            return Ok(0);
        }
        let room = self.limit.saturating_sub(self.byte_count);
        let wanted = into.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        if wanted == 0 {
            self.over_limit |= !self.peeked.is_empty() || matches!(self.inner.read(&mut [0]), Ok(1));
            return Ok(0);
        }
        let got = if self.peeked.is_empty() {
            self.read_inner(&mut into[..wanted])
        } else {
            let got = wanted.min(self.peeked.len());
            into[..got].copy_from_slice(&self.peeked[..got]);
            self.peeked.drain(..got);
            got
        };
        self.sha.update(&into[..got]);
        self.byte_count += got as u64;
        Ok(got)
    }
}

impl Raw<'_> {
    fn read_inner(&mut self, into: &mut [u8]) -> usize {
        loop {
            match self.inner.read(into) {
                Ok(got) => return got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failure = Some(error);
                    return 0;
                }
            }
        }
    }

    fn peek_magic(&mut self) -> [u8; 2] {
        while self.peeked.len() < 2 {
            let mut byte = [0];
            if self.read_inner(&mut byte) == 0 {
                break;
            }
            self.peeked.push(byte[0]);
        }
        [self.peeked.first().copied().unwrap_or(0), self.peeked.get(1).copied().unwrap_or(0)]
    }
}

enum Stream<'a> {
    Plain(Raw<'a>),
    Gzip(Box<MultiGzDecoder<BufReader<Raw<'a>>>>),
}

impl<'a> Stream<'a> {
    fn raw(&self) -> &Raw<'a> {
        match self {
            Self::Plain(raw) => raw,
            Self::Gzip(decoder) => decoder.get_ref().get_ref(),
        }
    }
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
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    pub(crate) sha256: String,
    /// Of the bytes once unpacked.
    pub(crate) content_sha256: String,
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
    content: Sha256,
    file: Option<RegularFile>,
}

impl<'a> Input<'a> {
    /// Opens a source and reads its head.
    pub(crate) fn new(inner: Box<dyn Read + 'a>, options: &Options<'_>) -> Self {
        let mut raw = Raw {
            inner,
            peeked: Vec::new(),
            sha: Sha256::new(),
            byte_count: 0,
            limit: options.max_source_bytes,
            failure: None,
            over_limit: false,
        };
        let stream = if raw.peek_magic() == [0x1f, 0x8b] {
            Stream::Gzip(Box::new(MultiGzDecoder::new(BufReader::with_capacity(64 << 10, raw))))
        } else {
            Stream::Plain(raw)
        };
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
            content: Sha256::new(),
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
        let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
        let limit = self.stream.raw().limit;
        self.file = found.map(|file| RegularFile { path: path.to_path_buf(), byte_count: file.len().min(limit) });
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
        let into = &mut self.window[self.end..self.end + block];
        let got = match &mut self.stream {
            Stream::Plain(raw) => raw.read(into),
            Stream::Gzip(decoder) => decoder.read(into),
        };
        let got = match got {
            Ok(got) => got,
            Err(error) => {
                self.gzip_damage(&error);
                0
            }
        };
        if matches!(self.stream, Stream::Gzip(_)) {
            self.content.update(&self.window[self.end..self.end + got]);
        }
        self.end += got;
        self.decoded += got as u64;
        self.at_end = got == 0 || self.is_over_limit();
        if self.at_end {
            self.note_raw_damage();
        }
        got > 0
    }

    fn is_over_limit(&mut self) -> bool {
        let raw = self.raw_bytes();
        let packed = matches!(self.stream, Stream::Gzip(_));
        let bomb = packed && self.decoded > RATIO_FREE_BYTES && self.decoded / RATIO_CAP > raw;
        if bomb {
            self.damage = Some(Damage {
                code: "gzip_bomb",
                place: format!("byte {raw}"),
                sentence: format!(
                    "expected a compression ratio below {RATIO_CAP}, found {} bytes unpacked from {raw}; the rest is left out",
                    self.decoded
                ),
            });
        } else if self.decoded >= self.max_decoded {
            self.damage = Some(Damage {
                code: "source_too_large",
                place: format!("byte {raw}"),
                sentence: format!("expected at most {} bytes unpacked; the rest is left out", self.max_decoded),
            });
        }
        self.damage.is_some()
    }

    fn gzip_damage(&mut self, error: &io::Error) {
        let unread = match &self.stream {
            Stream::Plain(_) => 0,
            Stream::Gzip(decoder) => decoder.get_ref().buffer().len() as u64,
        };
        let raw = self.raw_bytes() - unread;
        let truncated = error.kind() == io::ErrorKind::UnexpectedEof;
        let (code, found) =
            if truncated { ("truncated_gzip", "the file ends inside a member".to_string()) } else { ("damaged_gzip", format!("{error}")) };
        self.damage = Some(Damage {
            code,
            place: format!("byte {raw}"),
            sentence: format!("expected a complete gzip stream, found that {found}; {} bytes were unpacked before it", self.decoded),
        });
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
        let is_packed = matches!(self.stream, Stream::Gzip(_));
        let told = self.damage.clone();
        if is_packed {
            loop {
                self.start = self.end;
                if !self.refill() {
                    break;
                }
            }
        }
        let mut raw = match self.stream {
            Stream::Plain(raw) => raw,
            Stream::Gzip(decoder) => decoder.into_inner().into_inner(),
        };
        let mut scratch = std::mem::take(&mut self.window);
        scratch.resize(scratch.len().max(FIRST_BLOCK_BYTES), 0);
        while matches!(raw.read(&mut scratch), Ok(got) if got > 0) {}
        let sha256 = hex(&raw.sha.finalize());
        let content_sha256 = if is_packed { hex(&self.content.finalize()) } else { sha256.clone() };
        Finished { sha256, content_sha256, byte_count: raw.byte_count, damage: told.or(self.damage), long_lines: self.long_lines }
    }
}

/// Bytes as lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
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
