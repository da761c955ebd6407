//! The hash by which a source is known again.
//!
//! BLAKE3, since a trace of a gigabyte is read in two seconds: SHA-256 without instructions of its own would take three more.

/// Hashes bytes as they come.
#[derive(Default)]
pub(crate) struct ContentHash(blake3::Hasher);

impl ContentHash {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// `blake3:` and lower-case hex.
    pub(crate) fn finish(&self) -> String {
        format!("blake3:{}", self.0.finalize().to_hex())
    }
}
