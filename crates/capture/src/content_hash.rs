//! One hash for what a capture says, wherever it was read from.
//!
//! Evidence in a folder and the capture made of it hold the same rows and get the same hash; names of sources, issues,
//! notes and attachments are left out, since they change when a file is renamed or read together with another.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use crate::capture::Capture;
use crate::ids::Name;
use crate::names::Names;
use crate::tables::{ColumnRef, Table, TableObserver};

/// Tables that say nothing about what was measured.
const LEFT_OUT: &[&str] = &["issues", "notes", "attachments"];

/// Values hashed at a time.
const PIECE: usize = 1 << 16;

impl Capture {
    /// SHA-256 over the rows of all tables of evidence, lower-case hex. The capture must be canonical.
    pub fn content_sha256(&self) -> String {
        let mut hasher = Hasher { names: &self.names, hash: Sha256::new() };
        let subject = &self.manifest.subject;
        for text in [&subject.engine, &subject.engine_version, &subject.model, &subject.device] {
            hasher.text(text);
        }
        let Ok(()) = self.tables.observe(&mut hasher);
        hex(&hasher.hash.finalize())
    }
}

/// SHA-256 over several texts, told apart, lower-case hex.
pub fn sha256_of(texts: &[&str]) -> String {
    let mut hasher = Hasher { names: &Names::default(), hash: Sha256::new() };
    for text in texts {
        hasher.text(text);
    }
    hex(&hasher.hash.finalize())
}

/// Bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.extend([byte >> 4, byte & 15].map(|digit| char::from_digit(u32::from(digit), 16).unwrap_or('0')));
    }
    text
}

struct Hasher<'a> {
    names: &'a Names,
    hash: Sha256,
}

impl Hasher<'_> {
    fn text(&mut self, text: &str) {
        self.hash.update((text.len() as u64).to_le_bytes());
        self.hash.update(text.as_bytes());
    }

    /// Values as bytes, in pieces so that a long column needs little memory.
    fn values<T>(&mut self, values: impl IntoIterator<Item = T>, mut put: impl FnMut(T, &mut Vec<u8>)) {
        let mut bytes: Vec<u8> = Vec::new();
        for value in values {
            put(value, &mut bytes);
            if bytes.len() >= PIECE {
                self.hash.update(&bytes);
                bytes.clear();
            }
        }
        self.hash.update(&bytes);
    }

    /// A column. Names differ from capture to capture in their numbers, so each counts by a hash of its text.
    fn column(&mut self, column: &ColumnRef<'_>) {
        match column {
            ColumnRef::I64(values) => self.values(values.iter(), |value, bytes| bytes.extend(value.to_le_bytes())),
            ColumnRef::I32(values) => self.values(values.iter(), |value, bytes| bytes.extend(value.to_le_bytes())),
            ColumnRef::U32(values) => self.values(values.iter(), |value, bytes| bytes.extend(value.to_le_bytes())),
            ColumnRef::F64(values) => self.values(values.iter(), |value, bytes| bytes.extend(value.to_bits().to_le_bytes())),
            ColumnRef::OptI64(values) => self.values(values.iter(), |value, bytes| {
                bytes.push(u8::from(value.is_some()));
                bytes.extend(value.unwrap_or_default().to_le_bytes());
            }),
            ColumnRef::Name(values) => {
                let names = self.names;
                let mut known: HashMap<Name, [u8; 32]> = HashMap::new();
                self.values(values.iter(), |name, bytes| {
                    bytes.extend_from_slice(&known.entry(name).or_insert_with(|| Sha256::digest(names.text(name)).into())[..16]);
                });
            }
            ColumnRef::Source(_) => {}
            ColumnRef::ListF64(lists) => self.values(lists.iter(), |list, bytes| {
                bytes.extend((list.len() as u64).to_le_bytes());
                bytes.extend(list.iter().flat_map(|value| value.to_bits().to_le_bytes()));
            }),
        }
    }
}

impl TableObserver for Hasher<'_> {
    type Error = std::convert::Infallible;

    fn observe<T: Table>(&mut self, table: &T) -> Result<(), Self::Error> {
        if LEFT_OUT.contains(&T::NAME) || table.row_count() == 0 {
            return Ok(());
        }
        self.text(T::NAME);
        self.hash.update((table.row_count() as u64).to_le_bytes());
        for (name, column) in table.columns() {
            self.text(name);
            self.column(&column);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Source;
    use crate::tables::Sample;

    fn capture(value: f64, source: &str) -> Capture {
        let mut capture = Capture::new();
        let source_idx = capture.add_source(Source { name: source.into(), ..Source::default() });
        let row = Sample { value, signal: capture.intern("engine.running"), source_idx, ..Sample::default() };
        capture.tables.samples.push(row);
        capture.canonicalize();
        capture
    }

    #[test]
    fn what_is_measured_counts_and_where_it_lay_does_not() {
        assert_eq!(capture(2.0, "a.prom").content_sha256(), capture(2.0, "b.prom").content_sha256());
        assert_ne!(capture(2.0, "a.prom").content_sha256(), capture(3.0, "a.prom").content_sha256());
        assert_ne!(sha256_of(&["ab", "c"]), sha256_of(&["a", "bc"]));
        assert_eq!(hex(&[0, 15, 160, 255]), "000fa0ff");
    }
}
