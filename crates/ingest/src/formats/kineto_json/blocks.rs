//! The array of events as blocks that end behind an event, so that several threads can read them.

use crate::input::Input;

use super::recovery::last_cut;

/// Bytes of a block: what is read, hashed and parsed one after the other should stay in the cache of a core.
const BLOCK_BYTES: usize = 256 << 10;
/// Largest block, for text without a place to cut it: an event of this size is passed over.
const MAX_BLOCK_BYTES: usize = 16 << 20;

/// Some text of the array.
#[derive(Debug)]
pub(super) struct Block {
    buffer: Vec<u8>,
    len: usize,
    /// Where it stands in the unpacked text, counted from the start of the array.
    pub(super) offset: u64,
    /// It ends behind an event. If not, it is the last one or has no place to cut it.
    pub(super) is_cut: bool,
}

impl Block {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// The memory, for another block.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }
}

/// See the module.
pub(super) struct Blocks<'i, 's> {
    input: &'i mut Input<'s>,
    /// Read already, and not part of a block yet.
    carry: Vec<u8>,
    offset: u64,
    /// The array has ended, or the text.
    pub(super) is_over: bool,
    block_bytes: usize,
}

impl<'i, 's> Blocks<'i, 's> {
    /// The input stands behind the `[` of the array.
    pub(super) fn new(input: &'i mut Input<'s>, block_bytes: usize) -> Self {
        // A small file needs no large block; one byte more shows that it ends.
        let block_bytes = if input.is_all_in_head() { block_bytes.min(input.head().len() + 1) } else { block_bytes };
        Self { input, carry: Vec::new(), offset: 0, is_over: false, block_bytes }
    }

    /// Bytes consumed so far.
    pub(super) fn consumed(&self) -> u64 {
        self.offset
    }

    /// The next block, in the memory of an old one.
    pub(super) fn next(&mut self, mut buffer: Vec<u8>) -> Option<Block> {
        if self.is_over {
            return None;
        }
        let mut len = self.carry.len();
        let mut size = self.block_bytes.max(len);
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        buffer[..len].copy_from_slice(&self.carry);
        self.carry.clear();
        loop {
            let asked = size - len;
            let got = self.input.fill(&mut buffer[len..size]);
            len += got;
            let is_end = got < asked;
            if let Some(cut) = last_cut(&buffer[..len]) {
                let rest = &buffer[cut.at..len];
                if cut.is_array_end {
                    self.input.unread(rest);
                    self.is_over = true;
                } else {
                    self.carry.extend_from_slice(rest);
                }
                return Some(self.block(buffer, cut.at, true));
            }
            if is_end || size >= MAX_BLOCK_BYTES {
                self.is_over = is_end && len == 0;
                return (len > 0).then(|| self.block(buffer, len, false));
            }
            size *= 2;
            buffer.resize(buffer.len().max(size), 0);
        }
    }

    fn block(&mut self, buffer: Vec<u8>, len: usize, is_cut: bool) -> Block {
        let offset = self.offset;
        self.offset += len as u64;
        Block { buffer, len, offset, is_cut }
    }

    /// The array ended at `at` of the block read last: what follows is read again by others.
    pub(super) fn end_at(&mut self, block: &Block, at: usize) {
        self.input.unread(&self.carry);
        self.carry.clear();
        self.input.unread(&block.bytes()[at..]);
        self.offset -= (block.len - at) as u64;
        self.is_over = true;
    }

    /// What starts at `at` of a block that is not cut is not whole. False when there is no more text, or too much of it.
    pub(super) fn go_on_at(&mut self, block: &Block, at: usize) -> bool {
        let is_too_large = at == 0 && block.len >= MAX_BLOCK_BYTES;
        let is_end = self.input.is_at_end();
        if is_too_large || is_end {
            self.is_over = is_end;
            return false;
        }
        self.carry.extend_from_slice(&block.bytes()[at..]);
        self.offset -= (block.len - at) as u64;
        true
    }
}

/// Bytes of a block where nobody says otherwise.
pub(super) fn usual_size() -> usize {
    BLOCK_BYTES
}
