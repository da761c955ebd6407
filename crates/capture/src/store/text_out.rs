//! A text column of a row group, encoded from interned names at once.
//!
//! The `parquet` crate looks every value of every row up by its bytes to find its place in the dictionary: 38 ns a value,
//! half the time of writing samples. Names are numbers already, so one look into an array does. The crate still writes
//! the pages, and the text that a dictionary does not help.

use bytes::Bytes;
use parquet::basic::{Encoding, PageType};
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use super::schema::{PAGE_BYTES, PAGE_ROWS, ZSTD_LEVEL, compression};
use super::table_out::Texts;
use crate::ids::Name;

/// Not in the dictionary yet.
const NO_SLOT: u32 = u32::MAX;

/// Equal values in a row from which on a repeated run is shorter than packing them.
const REPEATED_RUN: usize = 8;

/// Encodes text columns of one table.
pub(super) struct TextEncoder<'a> {
    texts: &'a Texts,
    /// Place in the dictionary of each name of the capture.
    slots: Vec<u32>,
    /// Names in the dictionary, in order.
    dictionary: Vec<Name>,
    indices: Vec<u32>,
    zstd: Compressor<'static>,
}

impl<'a> TextEncoder<'a> {
    pub(super) fn new(texts: &'a Texts) -> Result<Self, ParquetError> {
        let zstd = Compressor::new(ZSTD_LEVEL)?;
        Ok(Self { texts, slots: vec![NO_SLOT; texts.count()], dictionary: Vec::new(), indices: Vec::new(), zstd })
    }

    /// The column chunk for `values`, to be appended to a row group; `None` if a dictionary would not pay.
    pub(super) fn encode(&mut self, values: &[Name], column: &ColumnDescPtr) -> Result<Option<(Bytes, ColumnCloseResult)>, ParquetError> {
        let text_bytes = self.look_up(values);
        let plain_bytes: usize = self.dictionary.iter().map(|&name| 4 + self.texts.len(name)).sum();
        let pays = plain_bytes <= PAGE_BYTES && self.dictionary.len() <= values.len() / 2;
        let chunk = if pays { self.chunk(values.len(), text_bytes, column).map(Some) } else { Ok(None) };
        for name in self.dictionary.drain(..) {
            self.slots[name.0 as usize] = NO_SLOT;
        }
        chunk
    }

    /// Fills dictionary and indices; returns the bytes of all values.
    fn look_up(&mut self, values: &[Name]) -> usize {
        self.indices.clear();
        let mut text_bytes = 0;
        for &name in values {
            let name = if (name.0 as usize) < self.slots.len() { name } else { Name::EMPTY };
            let slot = &mut self.slots[name.0 as usize];
            if *slot == NO_SLOT {
                *slot = self.dictionary.len() as u32;
                self.dictionary.push(name);
            }
            self.indices.push(*slot);
            text_bytes += self.texts.len(name);
        }
        text_bytes
    }

    fn chunk(&mut self, rows: usize, text_bytes: usize, column: &ColumnDescPtr) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let mut sink = TrackedWrite::new(Vec::new());
        let mut pages = SerializedPageWriter::new(&mut sink);
        let mut total = PageWriteSpec::new();
        let mut add = |spec: PageWriteSpec| {
            total.uncompressed_size += spec.uncompressed_size;
            total.compressed_size += spec.compressed_size;
            spec
        };
        let dictionary = self.dictionary_page()?;
        let data_at = add(pages.write_page(dictionary)?).bytes_written;
        let width = u32::BITS - (self.dictionary.len() as u32 - 1).leading_zeros();
        let mut page_count = 0;
        let indices = std::mem::take(&mut self.indices);
        for page in indices.chunks(PAGE_ROWS) {
            let page = self.data_page(page, width)?;
            add(pages.write_page(page)?);
            page_count += 1;
        }
        self.indices = indices;
        pages.close()?;
        let bytes = Bytes::from(sink.into_inner()?);
        let size = |bytes: usize| (bytes as u64).cast_signed();
        let stats = |page_type, encoding, count| PageEncodingStats { page_type, encoding, count };
        let metadata = ColumnChunkMetaData::builder(column.clone())
            .set_compression(compression()?)
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
            .set_page_encoding_stats(vec![
                stats(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1),
                stats(PageType::DATA_PAGE, Encoding::RLE_DICTIONARY, page_count),
            ])
            .set_num_values(size(rows))
            .set_total_compressed_size(size(total.compressed_size))
            .set_total_uncompressed_size(size(total.uncompressed_size))
            .set_unencoded_byte_array_data_bytes(Some(size(text_bytes)))
            .set_dictionary_page_offset(Some(0))
            .set_data_page_offset(data_at.cast_signed())
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes, close))
    }

    fn dictionary_page(&mut self) -> Result<CompressedPage, ParquetError> {
        let mut plain = Vec::new();
        for &name in &self.dictionary {
            let text = self.texts.bytes(name);
            plain.extend_from_slice(&(text.len() as u32).to_le_bytes());
            plain.extend_from_slice(text);
        }
        let buf = self.zstd.compress(&plain)?.into();
        let num_values = self.dictionary.len() as u32;
        let page = Page::DictionaryPage { buf, num_values, encoding: Encoding::PLAIN, is_sorted: false };
        Ok(CompressedPage::new(page, plain.len()))
    }

    fn data_page(&mut self, indices: &[u32], width: u32) -> Result<CompressedPage, ParquetError> {
        let mut plain = vec![width as u8];
        hybrid(indices, width, &mut plain);
        let page = Page::DataPage {
            buf: self.zstd.compress(&plain)?.into(),
            num_values: indices.len() as u32,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        Ok(CompressedPage::new(page, plain.len()))
    }
}

/// Appends numbers of `width` bits as runs, repeated where they repeat and packed where not (RLE hybrid).
fn hybrid(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut at, mut packed_from) = (0usize, 0usize);
    while at < values.len() {
        let run = values[at..].iter().take_while(|&&value| value == values[at]).count();
        // A packed run holds a multiple of eight values, so the first few of a repeated run may have to fill it up.
        let pending = at - packed_from;
        let filled = at + (pending.next_multiple_of(8) - pending).min(run);
        if at + run - filled < REPEATED_RUN {
            at += run;
            continue;
        }
        packed(&values[packed_from..filled], width, out);
        at += run;
        put_varint(((at - filled) as u64) << 1, out);
        out.extend_from_slice(&values[filled].to_le_bytes()[..width.div_ceil(8) as usize]);
        packed_from = at;
    }
    packed(&values[packed_from..], width, out);
}

/// Appends a packed run, its last group of eight filled up with zeros.
fn packed(values: &[u32], width: u32, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(8);
    put_varint((groups as u64) << 1 | 1, out);
    let end = out.len() + groups * width as usize;
    let (mut word, mut bits) = (0u64, 0);
    for &value in values {
        word |= u64::from(value) << bits;
        bits += width;
        if bits >= 32 {
            out.extend_from_slice(&(word as u32).to_le_bytes());
            word >>= 32;
            bits -= 32;
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..bits.div_ceil(8) as usize]);
    out.resize(end, 0);
}

fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_decode_to_what_they_encode(
            runs in prop::collection::vec((any::<u32>(), 1usize..40), 0..40),
            width in 0u32..=32,
        ) {
            let mask = ((1u64 << width) - 1) as u32;
            let values: Vec<u32> = runs.iter().flat_map(|&(value, count)| vec![value & mask; count]).collect();
            let mut bytes = Vec::new();
            hybrid(&values, width, &mut bytes);
            let mut found = Vec::new();
            super::super::parquet_in::decode::hybrid(&bytes, width, values.len(), &mut found).unwrap();
            prop_assert_eq!(found, values);
        }
    }
}
