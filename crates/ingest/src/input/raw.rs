//! The bytes of a source as found: counted, hashed, limited.

use std::io::{self, Read};

use super::hash::ContentHash;

/// Bytes that tell how a source is packed.
pub(super) const MAGIC_BYTES: usize = 4;

/// The source as found, hashed and counted.
pub(super) struct Raw<'a> {
    inner: Box<dyn Read + 'a>,
    peeked: Vec<u8>,
    hash: ContentHash,
    pub(super) byte_count: u64,
    pub(super) limit: u64,
    pub(super) failure: Option<io::Error>,
    pub(super) over_limit: bool,
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
        self.hash.update(&into[..got]);
        self.byte_count += got as u64;
        Ok(got)
    }
}

impl<'a> Raw<'a> {
    pub(super) fn new(inner: Box<dyn Read + 'a>, limit: u64) -> Self {
        Self { inner, peeked: Vec::new(), hash: ContentHash::default(), byte_count: 0, limit, failure: None, over_limit: false }
    }

    /// Hash of everything read so far.
    pub(super) fn hash(&self) -> String {
        self.hash.finish()
    }

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

    /// The first bytes, which stay to be read.
    pub(super) fn peek_magic(&mut self) -> [u8; MAGIC_BYTES] {
        while self.peeked.len() < MAGIC_BYTES {
            let mut byte = [0];
            if self.read_inner(&mut byte) == 0 {
                break;
            }
            self.peeked.push(byte[0]);
        }
        let mut magic = [0; MAGIC_BYTES];
        magic[..self.peeked.len()].copy_from_slice(&self.peeked);
        magic
    }
}
