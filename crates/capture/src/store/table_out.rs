//! One table into one Parquet file, block by block.
//!
//! Rows come sorted; text is written in place (a row says `engine.running`, not a number), so no join is needed to read it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use sha2::{Digest, Sha256};

use super::disk::OnPath;
use super::error::StoreError;
use super::manifest_file::{Block, hex};
use super::schema::{self, GROUP_ROWS, PAGE_BYTES};
use super::text_out::TextEncoder;
use crate::ids::Name;
use crate::names::Names;
use crate::tables::ColumnRef;

/// Longest text or list a row may hold; with it a page stays well under what a reader accepts.
pub(super) const MAX_VALUE_BYTES: usize = 16 << 20;

/// Text and lists in one row group, so that a reader can hold it.
const GROUP_TEXT_BYTES: usize = 64 << 20;

/// Rows handed to the encoder at a time where values must be converted first.
const BATCH_ROWS: usize = 8192;

/// A table about to be written.
#[derive(Debug)]
pub(super) struct TableOut<'a> {
    pub name: &'static str,
    pub columns: Vec<(&'static str, ColumnRef<'a>)>,
}

/// Interned text as the encoder wants it.
#[derive(Debug)]
pub(super) struct Texts {
    /// Slices of one buffer.
    texts: Vec<ByteArray>,
    longest: usize,
}

impl Texts {
    pub(super) fn new(names: &Names) -> Self {
        let whole: Bytes = names.iter().flat_map(str::bytes).collect::<Vec<u8>>().into();
        let mut at = 0;
        let slice = |text: &str| {
            let start = at;
            at += text.len();
            ByteArray::from(whole.slice(start..at))
        };
        let texts: Vec<ByteArray> = names.iter().map(slice).collect();
        let longest = texts.iter().map(ByteArray::len).max().unwrap_or(0);
        Self { texts, longest }
    }

    fn get(&self, name: Name) -> ByteArray {
        self.texts.get(name.0 as usize).cloned().unwrap_or_else(|| ByteArray::from(Vec::new()))
    }

    /// Number of names.
    pub(super) fn count(&self) -> usize {
        self.texts.len()
    }

    pub(super) fn bytes(&self, name: Name) -> &[u8] {
        self.texts.get(name.0 as usize).map_or(&[], ByteArray::data)
    }

    pub(super) fn len(&self, name: Name) -> usize {
        self.texts.get(name.0 as usize).map_or(0, ByteArray::len)
    }
}

/// Writes the table to `path`, through to the disk, and returns its blocks.
pub(super) fn write(table: &TableOut<'_>, texts: &Texts, path: &Path) -> Result<Vec<Block>, StoreError> {
    let rows = row_count(table)?;
    let file = File::create(path).on("create", path)?;
    let sink = Sink { file, hash: Sha256::new(), at: 0, blocks: Vec::new() };
    let blocks = write_groups(table, texts, rows, sink).map_err(|error| match error {
        Failure::Store(error) => error,
        Failure::Parquet(error) => from_parquet(table.name, path, error),
    })?;
    Ok(blocks)
}

enum Failure {
    Store(StoreError),
    Parquet(ParquetError),
}

impl From<ParquetError> for Failure {
    fn from(error: ParquetError) -> Self {
        Self::Parquet(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Parquet(error.into())
    }
}

fn write_groups(table: &TableOut<'_>, texts: &Texts, rows: usize, sink: Sink) -> Result<Vec<Block>, Failure> {
    let properties = schema::properties(table.name, &table.columns)?;
    let mut writer = SerializedFileWriter::new(sink, schema::message(table.name, &table.columns)?, Arc::new(properties))?;
    let leaves = writer.schema_descr().columns().to_vec(); // one per column
    let mut text = TextEncoder::new(texts)?;
    let mut start = 0;
    while start < rows {
        let end = group_end(table, texts, start, rows)?;
        let mut group = writer.next_row_group()?;
        for ((_, column), leaf) in table.columns.iter().zip(&leaves) {
            if let ColumnRef::Name(values) = column
                && let Some((bytes, close)) = text.encode(&values.slice(start..end), leaf)?
            {
                group.append_column(&bytes, close)?;
                continue;
            }
            let mut out = group.next_column()?.ok_or_else(|| ParquetError::General("the schema lacks a column".into()))?;
            write_column(&mut out, column, start..end, texts)?;
            out.close()?;
        }
        group.close()?;
        writer.flush()?;
        writer.inner_mut().close_block((end - start) as u64);
        start = end;
    }
    writer.finish()?;
    writer.flush()?;
    let sink = writer.inner_mut();
    sink.close_block(0);
    sink.file.sync_all()?;
    Ok(std::mem::take(&mut sink.blocks))
}

fn from_parquet(table: &'static str, path: &Path, error: ParquetError) -> StoreError {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => StoreError::from_io("write", path, *error),
            Err(other) => StoreError::Encode { table, reason: other.to_string() },
        },
        other => StoreError::Encode { table, reason: other.to_string() },
    }
}

fn row_count(table: &TableOut<'_>) -> Result<usize, StoreError> {
    let expected = table.columns.first().map_or(0, |(_, column)| len(column));
    match table.columns.iter().find(|(_, column)| len(column) != expected) {
        None => Ok(expected),
        Some(&(name, ref column)) => Err(StoreError::RaggedTable { table: table.name, column: name, expected, found: len(column) }),
    }
}

fn len(column: &ColumnRef<'_>) -> usize {
    match column {
        ColumnRef::I64(values) => values.len(),
        ColumnRef::I32(values) => values.len(),
        ColumnRef::U32(values) => values.len(),
        ColumnRef::F64(values) => values.len(),
        ColumnRef::OptI64(values) => values.len(),
        ColumnRef::Name(values) => values.len(),
        ColumnRef::Source(values) => values.len(),
        ColumnRef::ListF64(values) => values.len(),
    }
}

/// First row of the next row group: [`GROUP_ROWS`] further on, or earlier where values are long.
fn group_end(table: &TableOut<'_>, texts: &Texts, start: usize, rows: usize) -> Result<usize, StoreError> {
    let end = rows.min(start + GROUP_ROWS);
    let count = |is: fn(&ColumnRef<'_>) -> bool| table.columns.iter().filter(|(_, column)| is(column)).count();
    let has_lists = count(|column| matches!(column, ColumnRef::ListF64(_))) > 0;
    let text_columns = count(|column| matches!(column, ColumnRef::Name(_)));
    if !has_lists && texts.longest.saturating_mul(text_columns * (end - start)) <= GROUP_TEXT_BYTES {
        return Ok(end); // as short as names are, no row group can hold too much of them
    }
    let mut held = 0;
    for row in start..end {
        for &(name, ref column) in &table.columns {
            let found = match column {
                ColumnRef::Name(values) => texts.len(values.at(row)),
                ColumnRef::ListF64(values) => values[row].len() * size_of::<f64>(),
                _ => continue,
            };
            if found > MAX_VALUE_BYTES {
                return Err(StoreError::TooLarge { table: table.name, column: name, row, found, limit: MAX_VALUE_BYTES });
            }
            held += found;
        }
        if held > GROUP_TEXT_BYTES && row > start {
            return Ok(row);
        }
    }
    Ok(end)
}

fn write_column(
    out: &mut SerializedColumnWriter<'_>,
    column: &ColumnRef<'_>,
    rows: std::ops::Range<usize>,
    texts: &Texts,
) -> Result<(), ParquetError> {
    match column {
        ColumnRef::I64(values) => put::<Int64Type>(out, &values[rows], None, None),
        ColumnRef::I32(values) => put::<Int32Type>(out, &values[rows], None, None),
        ColumnRef::F64(values) => put::<DoubleType>(out, &values[rows], None, None),
        ColumnRef::U32(values) => put_each(out, rows.map(|row| values.at(row).cast_signed())),
        ColumnRef::Source(values) => put_each(out, rows.map(|row| values.at(row).0.cast_signed())),
        ColumnRef::OptI64(values) => put_optional(out, &values[rows]),
        ColumnRef::Name(values) => put_text(out, &values.slice(rows), texts),
        ColumnRef::ListF64(values) => put_lists(out, &values[rows]),
    }
}

fn put<T: DataType>(
    out: &mut SerializedColumnWriter<'_>,
    values: &[T::T],
    def: Option<&[i16]>,
    rep: Option<&[i16]>,
) -> Result<(), ParquetError> {
    out.typed::<T>().write_batch(values, def, rep).map(|_| ())
}

/// Unsigned numbers, stored bit for bit in 32-bit integers.
fn put_each(out: &mut SerializedColumnWriter<'_>, mut bits: impl Iterator<Item = i32>) -> Result<(), ParquetError> {
    loop {
        let batch: Vec<i32> = bits.by_ref().take(BATCH_ROWS).collect();
        if batch.is_empty() {
            return Ok(());
        }
        put::<Int32Type>(out, &batch, None, None)?;
    }
}

fn put_optional(out: &mut SerializedColumnWriter<'_>, values: &[Option<i64>]) -> Result<(), ParquetError> {
    for batch in values.chunks(BATCH_ROWS) {
        let def: Vec<i16> = batch.iter().map(|value| i16::from(value.is_some())).collect();
        put::<Int64Type>(out, &batch.iter().flatten().copied().collect::<Vec<i64>>(), Some(&def), None)?;
    }
    Ok(())
}

/// Text in batches of about a page, since the encoder only looks at sizes between batches.
fn put_text(out: &mut SerializedColumnWriter<'_>, values: &[Name], texts: &Texts) -> Result<(), ParquetError> {
    let mut batch: Vec<ByteArray> = Vec::with_capacity(BATCH_ROWS.min(values.len()));
    let mut held = 0;
    for &name in values {
        let text = texts.get(name);
        held += text.len();
        batch.push(text);
        if batch.len() == BATCH_ROWS || held > PAGE_BYTES {
            put::<ByteArrayType>(out, &batch, None, None)?;
            batch.clear();
            held = 0;
        }
    }
    put::<ByteArrayType>(out, &batch, None, None)
}

fn put_lists(out: &mut SerializedColumnWriter<'_>, lists: &[Vec<f64>]) -> Result<(), ParquetError> {
    let (mut values, mut def, mut rep) = (Vec::new(), Vec::new(), Vec::new());
    for list in lists {
        for (at, &value) in list.iter().enumerate() {
            values.push(value);
            def.push(1);
            rep.push(i16::from(at > 0));
        }
        if list.is_empty() {
            def.push(0);
            rep.push(0);
        }
        if def.len() >= BATCH_ROWS {
            put::<DoubleType>(out, &values, Some(&def), Some(&rep))?;
            values.clear();
            def.clear();
            rep.clear();
        }
    }
    put::<DoubleType>(out, &values, Some(&def), Some(&rep))
}

/// A file that hashes what is written to it, cut into blocks.
struct Sink {
    file: File,
    hash: Sha256,
    at: u64,
    blocks: Vec<Block>,
}

impl Sink {
    /// Ends a block here; everything before must have been flushed.
    fn close_block(&mut self, row_count: u64) {
        let sha256 = hex(self.hash.finalize_reset().as_slice());
        self.blocks.push(Block { end: self.at, row_count, sha256 });
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
