//! A Parquet file on disk: where its footer and row groups lie, and whether they are as they were written.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use super::disk;
use super::manifest_file::{Block, hex_sha256};
use super::parquet_in::Damage;
use super::parquet_in::footer::{self, Footer, Group, TAIL_BYTES};

/// Largest row group or footer in bytes on disk; ours stay below a fifth of it.
const MAX_BLOCK_BYTES: u64 = 1 << 30;

/// A file whose footer has been read.
#[derive(Debug)]
pub(super) struct TableFile<'a> {
    file: File,
    pub footer: Footer,
    /// Bytes of each row group.
    ranges: Vec<Range<u64>>,
    /// Hash of each row group, empty if unknown.
    blocks: &'a [Block],
}

impl<'a> TableFile<'a> {
    /// Opens a file and reads its footer. `blocks` are the hashes the manifest has for it; without any, a file that is
    /// not there is `None`.
    pub(super) fn open(path: &Path, blocks: Option<&'a [Block]>) -> Result<Option<Self>, Damage> {
        let mut file = match disk::open_regular(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound && blocks.is_none() => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Damage::new("a file", "none")),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(Damage::new("a regular file", error)),
            Err(error) => return Err(Damage::unread("a file", &error)),
        };
        let length = file.metadata().map_err(|error| Damage::unread("a file", &error))?.len();
        let Some(blocks) = blocks else {
            let (footer, ranges) = unverified_footer(&mut file, length)?;
            return Ok(Some(Self { file, footer, ranges, blocks: &[] }));
        };
        let (last, blocks) = blocks.split_last().ok_or_else(|| Damage::new("the hash of a footer in the manifest", "none"))?;
        let ranges = ranges(blocks)?;
        let start = ranges.last().map_or(0, |range| range.end);
        if last.end > length || last.end < start {
            return Err(Damage::new(format_args!("a file of {} bytes", last.end), length));
        }
        let footer = verified_footer(&mut file, start, last)?;
        if footer.groups.len() != ranges.len() {
            return Err(Damage::new(format_args!("{} row groups", ranges.len()), footer.groups.len()));
        }
        Ok(Some(Self { file, footer, ranges, blocks }))
    }

    /// The bytes of row group `at`, if they are as they were written, and where they start in the file.
    pub(super) fn group_bytes(&mut self, at: usize) -> Result<(Vec<u8>, u64), Damage> {
        let range = self.ranges[at].clone();
        let start = range.start;
        let bytes = read_range(&mut self.file, range)?;
        self.blocks.get(at).map_or(Ok(()), |block| verify(&bytes, block))?;
        Ok((bytes, start))
    }
}

/// Where the row groups lie by the manifest.
fn ranges(blocks: &[Block]) -> Result<Vec<Range<u64>>, Damage> {
    let mut start = 0;
    let range = |block: &Block| {
        if block.end < start {
            return Err(Damage::new("blocks in order in the manifest", format_args!("{} after {start}", block.end)));
        }
        let range = start..block.end;
        start = block.end;
        Ok(range)
    };
    blocks.iter().map(range).collect()
}

/// The footer is where the manifest says, and what it says; bytes after it do not matter.
fn verified_footer(file: &mut File, start: u64, block: &Block) -> Result<Footer, Damage> {
    let bytes = read_range(file, start..block.end)?;
    verify(&bytes, block)?;
    let body = bytes.len().checked_sub(TAIL_BYTES as usize).ok_or_else(|| Damage::new("a footer", "a shorter block"))?;
    let size = usize::try_from(footer::length(&bytes[body..])?).unwrap_or(usize::MAX);
    let start = body.checked_sub(size).ok_or_else(|| Damage::new("a footer within its block", "a longer one"))?;
    Footer::parse(&bytes[start..body])
}

/// No hashes: the footer is where Parquet has it, and says where the row groups lie.
fn unverified_footer(file: &mut File, length: u64) -> Result<(Footer, Vec<Range<u64>>), Damage> {
    let body = length.checked_sub(TAIL_BYTES).ok_or_else(|| Damage::new("a Parquet file", format_args!("{length} bytes")))?;
    let size = footer::length(&read_range(file, body..length)?)?;
    let start = body.checked_sub(size).ok_or_else(|| Damage::new("a footer within the file", format_args!("one of {size} bytes")))?;
    let footer = Footer::parse(&read_range(file, start..body)?)?;
    let mut ranges = Vec::with_capacity(footer.groups.len());
    let mut done = 0;
    for group in &footer.groups {
        let range = extent(group);
        if range.start < done || range.end > start {
            return Err(Damage::new("row groups one after the other", format_args!("one at {} to {}", range.start, range.end)));
        }
        done = range.end;
        ranges.push(range);
    }
    Ok((footer, ranges))
}

/// Where the columns of a row group lie.
fn extent(group: &Group) -> Range<u64> {
    let start = group.chunks.iter().map(|chunk| chunk.start).min().unwrap_or(0);
    let end = group.chunks.iter().map(|chunk| chunk.start.saturating_add(chunk.length)).max().unwrap_or(0);
    start..end
}

fn read_range(file: &mut File, range: Range<u64>) -> Result<Vec<u8>, Damage> {
    let length = range.end - range.start;
    if length > MAX_BLOCK_BYTES {
        return Err(Damage::new(format_args!("a block of at most {MAX_BLOCK_BYTES} bytes"), length));
    }
    let expected = format_args!("{length} bytes at byte {}", range.start).to_string();
    let mut bytes = Vec::with_capacity(length as usize);
    let read = file.seek(SeekFrom::Start(range.start)).and_then(|_| file.take(length).read_to_end(&mut bytes));
    match read {
        Ok(read) if read as u64 == length => Ok(bytes),
        Ok(read) => Err(Damage::new(expected, read)),
        Err(error) => Err(Damage::unread(expected, &error)),
    }
}

fn verify(bytes: &[u8], block: &Block) -> Result<(), Damage> {
    if hex_sha256(bytes) == block.sha256 {
        return Ok(());
    }
    let expected = format_args!("the {} bytes before byte {} as they were written", bytes.len(), block.end).to_string();
    Err(Damage::new(expected, "other bytes (SHA-256 differs)"))
}
