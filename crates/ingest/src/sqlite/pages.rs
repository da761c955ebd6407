//! Pages by number, out of memory or out of a file that is read in larger pieces.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use crate::input::RegularFile;

/// Bytes read at a time; the pages of one table mostly lie side by side.
const BLOCK_BYTES: usize = 256 << 10;
/// Blocks kept. A walk touches two or three places at once: leaves, the pages above them, what overflows.
const MAX_BLOCKS: usize = 8;

/// Where the bytes of a database are.
#[derive(Debug)]
pub(crate) enum Store {
    /// All of it.
    Memory(Vec<u8>),
    /// A file that can be read at any place.
    File(RegularFile),
}

impl Store {
    /// The first bytes, up to `count`.
    pub(super) fn start(&self, count: usize) -> Vec<u8> {
        match self {
            Self::Memory(bytes) => bytes[..bytes.len().min(count)].to_vec(),
            Self::File(file) => {
                let mut start = Vec::with_capacity(count);
                // A file that cannot be read has an empty start, which is no database.
                let _ = file.open().and_then(|file| file.take(count as u64).read_to_end(&mut start));
                start
            }
        }
    }

    /// Whole pages that are there.
    pub(super) fn page_count(&self, page_bytes: usize) -> u32 {
        let bytes = match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(file) => file.byte_count,
        };
        u32::try_from(bytes / page_bytes as u64).unwrap_or(u32::MAX)
    }
}

struct Block {
    start: u64,
    bytes: Vec<u8>,
    last_use: u64,
}

enum Reader<'a> {
    Memory(&'a [u8]),
    File { file: File, blocks: Vec<Block>, uses: u64 },
}

/// One reader's view of a store.
pub(super) struct Pages<'a> {
    reader: Reader<'a>,
    page_bytes: usize,
    count: u32,
}

impl<'a> Pages<'a> {
    pub(super) fn open(store: &'a Store, page_bytes: usize) -> Result<Self, &'static str> {
        let reader = match store {
            Store::Memory(bytes) => Reader::Memory(bytes),
            Store::File(file) => {
                let file = file.open().map_err(|_| "a file that can be opened again")?;
                Reader::File { file, blocks: Vec::new(), uses: 0 }
            }
        };
        Ok(Self { reader, page_bytes, count: store.page_count(page_bytes) })
    }

    /// Pages that are there.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Copies a page (the first is 1) into `into`; false when it is not there.
    pub(super) fn read(&mut self, number: u32, into: &mut Vec<u8>) -> bool {
        into.clear();
        if number == 0 || number > self.count {
            return false;
        }
        let at = u64::from(number - 1) * self.page_bytes as u64;
        match &mut self.reader {
            Reader::Memory(bytes) => {
                let Some(page) = bytes.get(at as usize..).and_then(|rest| rest.get(..self.page_bytes)) else { return false };
                into.extend_from_slice(page);
            }
            Reader::File { file, blocks, uses } => {
                *uses += 1;
                let start = at - at % BLOCK_BYTES as u64;
                let Some(block) = block(file, blocks, start, *uses) else { return false };
                let from = (at - start) as usize;
                let Some(page) = block.get(from..from + self.page_bytes) else { return false };
                into.extend_from_slice(page);
            }
        }
        true
    }
}

/// The block that starts at `start`, read unless it is kept.
fn block<'b>(file: &mut File, blocks: &'b mut Vec<Block>, start: u64, now: u64) -> Option<&'b [u8]> {
    if let Some(at) = blocks.iter().position(|block| block.start == start) {
        blocks[at].last_use = now;
        return Some(&blocks[at].bytes);
    }
    let mut bytes = if blocks.len() < MAX_BLOCKS {
        Vec::with_capacity(BLOCK_BYTES)
    } else {
        let oldest = (0..blocks.len()).min_by_key(|at| blocks[*at].last_use)?;
        blocks.swap_remove(oldest).bytes
    };
    bytes.clear();
    file.seek(SeekFrom::Start(start)).ok()?;
    // A read that fails in the middle keeps what came before; a page that is not whole counts as missing.
    let _ = file.take(BLOCK_BYTES as u64).read_to_end(&mut bytes);
    blocks.push(Block { start, bytes, last_use: now });
    blocks.last().map(|block| block.bytes.as_slice())
}
