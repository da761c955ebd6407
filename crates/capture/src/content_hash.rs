//! One hash for what a capture says, wherever it was read from.
//!
//! Evidence in a folder and the capture made of it hold the same rows and get the same hash; names of sources, issues,
//! notes and attachments are left out, since they change when a file is renamed or read together with another.

use sha2::{Digest, Sha256};

use crate::capture::Capture;
use crate::names::Names;
use crate::tables::{ColumnRef, Table, TableObserver};

/// Tables that say nothing about what was measured.
const LEFT_OUT: &[&str] = &["issues", "notes", "attachments"];

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
    texts.iter().for_each(|text| hasher.text(text));
    hex(&hasher.hash.finalize())
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
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

    fn floats(&mut self, values: &[f64]) {
        self.hash.update((values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| self.hash.update(value.to_bits().to_le_bytes()));
    }

    fn column(&mut self, column: &ColumnRef<'_>) {
        match column {
            ColumnRef::I64(values) => values.iter().for_each(|value| self.hash.update(value.to_le_bytes())),
            ColumnRef::I32(values) => values.iter().for_each(|value| self.hash.update(value.to_le_bytes())),
            ColumnRef::U32(values) => values.iter().for_each(|value| self.hash.update(value.to_le_bytes())),
            ColumnRef::F64(values) => self.floats(values),
            ColumnRef::OptI64(values) => values.iter().for_each(|value| {
                self.hash.update([u8::from(value.is_some())]);
                self.hash.update(value.unwrap_or_default().to_le_bytes());
            }),
            ColumnRef::Name(values) => {
                let names = self.names;
                values.iter().for_each(|name| self.text(names.text(*name)));
            }
            ColumnRef::Source(_) => {}
            ColumnRef::ListF64(lists) => lists.iter().for_each(|list| self.floats(list)),
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
    }
}
