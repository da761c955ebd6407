//! A folder of tables: what a finished capture and a closed segment have in common.
//!
//! `manifest.json`, one Parquet file per table that has rows, and `names.parquet`, which keeps the order of interned text
//! so that a capture is read back with the ids it was written with. Nothing else needs it: the tables hold their text.

use std::collections::BTreeMap;
use std::path::Path;

use super::disk::{self, sync_dir};
use super::error::StoreError;
use super::losses::Losses;
use super::manifest_file::{Block, MANIFEST, ManifestFile};
use super::parquet_in::column::{Budget, Context};
use super::table_in;
use super::table_out::{self, TableOut, Texts};
use crate::capture::Capture;
use crate::ids::Name;
use crate::issues::Severity;
use crate::manifest::Source;
use crate::names::Names;
use crate::tables::{ColumnMut, ColumnRef, Table, TableObserver, TableVisitor};

const NAMES: &str = "names";

/// File name of a table.
pub(super) fn file_name(table: &str) -> String {
    format!("{table}.parquet")
}

/// Writes `capture` into the empty folder `dir`, the manifest last. The same capture gives the same bytes.
pub(super) fn write(capture: &Capture, dir: &Path) -> Result<(), StoreError> {
    let mut out = Out { dir, texts: Texts::new(&capture.names), file: ManifestFile::finished(&capture.manifest) };
    capture.tables.observe(&mut out)?;
    let ids: Vec<Name> = (0..capture.names.len() as u32).map(Name).collect();
    out.put(&TableOut { name: NAMES, columns: vec![("text", ColumnRef::Name(crate::coded::Values::Each(&ids)))] })?;
    disk::write_file(&dir.join(MANIFEST), &out.file.to_bytes())?;
    sync_dir(dir)
}

struct Out<'a> {
    dir: &'a Path,
    texts: Texts,
    file: ManifestFile,
}

impl Out<'_> {
    fn put(&mut self, table: &TableOut<'_>) -> Result<(), StoreError> {
        let name = file_name(table.name);
        let blocks = table_out::write(table, &self.texts, &self.dir.join(&name))?;
        self.file.blocks.insert(name, blocks);
        Ok(())
    }
}

impl TableObserver for Out<'_> {
    type Error = StoreError;

    fn observe<T: Table>(&mut self, table: &T) -> Result<(), StoreError> {
        self.file.manifest.row_counts.insert(T::NAME.to_string(), table.row_count() as u64);
        if table.row_count() == 0 {
            return Ok(());
        }
        if table.is_sorted() {
            return self.put(&TableOut { name: T::NAME, columns: table.columns() });
        }
        let mut sorted = table.clone();
        sorted.sort_canonical();
        self.put(&TableOut { name: T::NAME, columns: sorted.columns() })
    }
}

/// Reads the folder `dir`, described by `file`, as far as it can be read.
pub(super) fn read(dir: &Path, file: ManifestFile, budget: &mut Budget, losses: &mut Losses) -> Capture {
    let ManifestFile { manifest, blocks, .. } = file;
    let mut capture = Capture { manifest, ..Capture::default() };
    let source_count = capture.manifest.sources.len() as u32;
    let mut reading =
        In { dir, blocks: &blocks, names: Names::default(), source_count, unknown_sources: 0, unverified: Vec::new(), budget, losses };
    reading.read_names();
    let expected = std::mem::take(&mut capture.manifest.row_counts);
    let Ok(()) = capture.tables.visit(&mut reading);
    let (unknown_sources, unverified) = (reading.unknown_sources, reading.unverified);
    capture.names = reading.names;
    if !unverified.is_empty() {
        let sentence = format!("Expected the hashes of every table, found none for {}: changes to them go unseen.", unverified.join(", "));
        losses.add(Severity::Warning, "unverified_table", MANIFEST, "blocks", unverified.len() as u64, sentence);
    }
    for (name, rows) in capture.tables.row_counts() {
        let written = expected.get(name).copied().unwrap_or(rows as u64);
        if written > rows as u64 && !blocks.contains_key(&file_name(name)) {
            let sentence = format!("Expected {written} rows by the manifest, found {rows}.");
            losses.add(Severity::Error, "missing_rows", &file_name(name), "", written - rows as u64, sentence);
        }
        capture.manifest.row_counts.insert(name.to_string(), rows as u64);
    }
    if unknown_sources > 0 {
        // These rows point one past the manifest's list; this gives them something to point at.
        capture.manifest.sources.push(Source { name: "(unknown)".into(), damaged: true, ..Source::default() });
    }
    capture
}

struct In<'a> {
    dir: &'a Path,
    blocks: &'a BTreeMap<String, Vec<Block>>,
    names: Names,
    source_count: u32,
    unknown_sources: u64,
    /// Files the manifest has no hashes for.
    unverified: Vec<String>,
    budget: &'a mut Budget,
    losses: &'a mut Losses,
}

impl In<'_> {
    fn read_names(&mut self) {
        let mut ids: Vec<Name> = Vec::new();
        let before = std::mem::take(self.losses);
        self.read(NAMES, vec![("text", ColumnMut::Name(&mut ids))]);
        if !std::mem::replace(self.losses, before).is_empty() {
            let sentence = "The order of interned text is lost; the text itself stands in the tables.".to_string();
            self.losses.add(Severity::Note, "damaged_table", &file_name(NAMES), "", 1, sentence);
        }
    }

    fn read(&mut self, table: &str, columns: table_in::Columns<'_>) {
        let name = file_name(table);
        let blocks = self.blocks.get(&name).map(Vec::as_slice);
        if blocks.is_none() {
            if self.dir.join(&name).symlink_metadata().is_err() {
                return; // an empty table
            }
            self.unverified.push(name.clone());
        }
        let mut context = Context { names: &mut self.names, source_count: self.source_count, budget: self.budget };
        self.unknown_sources += table_in::read_file(self.dir, &name, blocks, columns, &mut context, self.losses);
    }
}

impl TableVisitor for In<'_> {
    type Error = std::convert::Infallible;

    fn visit<T: Table>(&mut self, table: &mut T) -> Result<(), Self::Error> {
        self.read(T::NAME, table.columns_mut());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of a few kilobytes can hold any number of equal rows; what it may cost is bounded.
    #[test]
    fn rows_out_of_proportion_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = Capture::new();
        capture.tables.points.run_idx = vec![0; 500_000];
        capture.tables.points.point_idx = vec![0; 500_000];
        capture.tables.points.varied_value = vec![0.0; 500_000];
        capture.tables.points.start_ns = vec![None; 500_000];
        capture.tables.points.end_ns = vec![None; 500_000];
        write(&capture, dir.path()).unwrap();
        let file = super::super::manifest_file::read(dir.path()).unwrap().0;
        let mut losses = Losses::default();
        let mut found = read(dir.path(), file, &mut Budget::of(15_000_000), &mut losses);
        assert_eq!(found.tables.points.run_idx.len(), 262_144);
        assert_eq!(found.manifest.row_counts["points"], 262_144);
        losses.move_to(&mut found);
        let sentence = found.text(found.tables.issues.sentence[0]);
        expect_test::expect!["237856 rows are left out: expected data in proportion to the files, found 9000004 bytes more."]
            .assert_eq(sentence);
    }
}
