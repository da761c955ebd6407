//! The pages of one column chunk: headers, decompression, levels.

use zstd::bulk::Decompressor;

use super::Damage;
use super::decode::hybrid;
use super::footer::{Chunk, Leaf};
use super::thrift::{Field, Kind, Thrift};

/// Largest page once decompressed; our writer stays below 20 MiB.
pub(super) const MAX_PAGE_BYTES: u64 = 32 << 20;

/// How values are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Plain,
    Dictionary,
    Deltas,
}

/// One page, decompressed.
#[derive(Debug)]
pub(super) enum Page<'a> {
    /// The values that data pages refer to by index, plain.
    Dictionary { value_count: usize, values: &'a [u8] },
    /// Values, and the levels that say where they belong.
    Data(DataPage<'a>),
}

/// One page of values.
#[derive(Debug)]
pub(super) struct DataPage<'a> {
    pub encoding: Encoding,
    /// Values, nulls included.
    pub level_count: usize,
    /// Definition and repetition levels, empty where the column has none.
    pub def: Vec<u32>,
    pub rep: Vec<u32>,
    pub values: &'a [u8],
}

#[derive(Debug, Default)]
struct Header {
    kind: i64,
    size: u64,
    packed_size: u64,
    value_count: u64,
    encoding: i64,
    /// Byte lengths of repetition and definition levels, in version 2 pages.
    level_bytes: Option<(u64, u64)>,
    level_encodings: [i64; 2],
    /// Version 2 pages may be left uncompressed one by one.
    is_plain: bool,
}

/// Decompresses pages one after the other, into one buffer.
#[derive(Default)]
pub(in crate::store) struct Unpacker {
    zstd: Option<Decompressor<'static>>,
    buffer: Vec<u8>,
}

/// Walks the pages of a chunk.
pub(super) struct Pages<'a> {
    bytes: &'a [u8],
    leaf: &'a Leaf,
    is_zstd: bool,
}

impl<'a> Pages<'a> {
    pub(super) fn new(bytes: &'a [u8], leaf: &'a Leaf, chunk: Chunk) -> Self {
        Self { bytes, leaf, is_zstd: chunk.zstd }
    }

    /// The next page, `None` at the end of the chunk. A page of more than `level_limit` values is damaged.
    pub(super) fn next<'b>(&mut self, level_limit: usize, unpacker: &'b mut Unpacker) -> Result<Option<Page<'b>>, Damage> {
        loop {
            if self.bytes.is_empty() {
                return Ok(None);
            }
            let mut thrift = Thrift::new(self.bytes);
            let header = header(&mut thrift)?;
            let rest = &self.bytes[thrift.position()..];
            let size = usize::try_from(header.packed_size).unwrap_or(usize::MAX);
            let (packed, rest) = rest.split_at_checked(size).ok_or_else(|| Damage::ends_in("a page"))?;
            self.bytes = rest;
            match header.kind {
                0 | 3 => return self.data(&header, packed, level_limit, unpacker).map(|page| Some(Page::Data(page))),
                1 => {} // an index page holds no values
                2 => return self.dictionary(&header, packed, unpacker).map(Some),
                other => return Err(Damage::new("a page of a known type", other)),
            }
        }
    }

    fn dictionary<'b>(&self, header: &Header, packed: &[u8], unpacker: &'b mut Unpacker) -> Result<Page<'b>, Damage> {
        if !matches!(header.encoding, 0 | 2) {
            return Err(Damage::new("a plain dictionary", format_args!("encoding {}", header.encoding)));
        }
        let values = unpacker.unpack(header, packed, 0, self.is_zstd)?;
        let value_count = header.value_count as usize;
        // No value of a dictionary takes less than four bytes, so the count is bounded by the page.
        if value_count > values.len() / 4 {
            let found = format_args!("{value_count} values in {} bytes", values.len()).to_string();
            return Err(Damage::new("a dictionary of the size it claims", found));
        }
        Ok(Page::Dictionary { value_count, values })
    }

    fn data<'b>(&self, header: &Header, packed: &[u8], level_limit: usize, unpacker: &'b mut Unpacker) -> Result<DataPage<'b>, Damage> {
        let encoding = match header.encoding {
            0 => Encoding::Plain,
            2 | 8 => Encoding::Dictionary,
            5 => Encoding::Deltas,
            other => return Err(Damage::new("plain, dictionary or delta encoding", format_args!("encoding {other}"))),
        };
        let level_count = usize::try_from(header.value_count).unwrap_or(usize::MAX);
        if level_count > level_limit {
            return Err(Damage::new(format_args!("at most {level_limit} values in a page"), level_count));
        }
        let whole = header.level_bytes.map_or(0, |(rep, def)| rep.saturating_add(def));
        let mut values = unpacker.unpack(header, packed, whole, self.is_zstd)?;
        let mut levels = |max: u8, at: usize, bytes: Option<u64>| match max {
            0 => Ok(Vec::new()),
            max => take_levels(&mut values, max, level_count, bytes, header.level_encodings[at]),
        };
        let rep = levels(self.leaf.max_rep, 0, header.level_bytes.map(|(rep, _)| rep))?;
        let def = levels(self.leaf.max_def, 1, header.level_bytes.map(|(_, def)| def))?;
        Ok(DataPage { encoding, level_count, def, rep, values })
    }
}

impl Unpacker {
    /// Decompresses a page; its first `whole` bytes are never compressed.
    fn unpack(&mut self, header: &Header, packed: &[u8], whole: u64, is_zstd: bool) -> Result<&[u8], Damage> {
        if header.size > MAX_PAGE_BYTES {
            return Err(Damage::new(format_args!("a page of at most {MAX_PAGE_BYTES} bytes"), header.size));
        }
        let size = header.size as usize;
        let whole = usize::try_from(whole).unwrap_or(usize::MAX);
        self.buffer.clear();
        if is_zstd && !header.is_plain {
            let (levels, packed) = packed.split_at_checked(whole).ok_or_else(|| Damage::ends_in("the levels of a page"))?;
            if whole > size {
                return Err(Damage::new(format_args!("a page larger than its levels of {whole} bytes"), size));
            }
            if !packed.is_empty() {
                self.buffer.reserve(size - whole);
                let zstd = match &mut self.zstd {
                    Some(zstd) => zstd,
                    empty => empty.insert(Decompressor::new().map_err(|error| Damage::new("a decompressor", error))?),
                };
                zstd.decompress_to_buffer(packed, &mut self.buffer).map_err(|error| Damage::new("zstd data", error))?;
            }
            self.buffer.splice(..0, levels.iter().copied());
        } else {
            self.buffer.extend_from_slice(packed);
        }
        if self.buffer.len() == size {
            return Ok(&self.buffer);
        }
        Err(Damage::new(format_args!("a page of {size} bytes"), self.buffer.len()))
    }
}

/// Takes the levels off the front of a page; version 1 pages say their length there, version 2 pages in the header.
fn take_levels(page: &mut &[u8], max: u8, count: usize, length: Option<u64>, encoding: i64) -> Result<Vec<u32>, Damage> {
    let length = match length {
        Some(length) => length,
        None if encoding != 3 => return Err(Damage::new("levels in runs", format_args!("encoding {encoding}"))),
        None => {
            let (length, rest) = page.split_first_chunk::<4>().ok_or_else(|| Damage::ends_in("the length of levels"))?;
            *page = rest;
            u64::from(u32::from_le_bytes(*length))
        }
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let (bytes, rest) = page.split_at_checked(length).ok_or_else(|| Damage::ends_in("levels"))?;
    *page = rest;
    let mut levels = Vec::new();
    hybrid(bytes, u8::BITS - max.leading_zeros(), count, &mut levels)?;
    match levels.iter().find(|&&level| level > u32::from(max)) {
        None => Ok(levels),
        Some(level) => Err(Damage::new(format_args!("levels up to {max}"), level)),
    }
}

fn header(thrift: &mut Thrift<'_>) -> Result<Header, Damage> {
    let mut header = Header { kind: -1, level_encodings: [3, 3], ..Header::default() };
    thrift.fields(|thrift, field| {
        match field.id {
            1 => header.kind = thrift.integer(field)?,
            2 => header.size = thrift.count(field)?,
            3 => header.packed_size = thrift.count(field)?,
            5 | 7 | 8 if field.kind == Kind::Struct => thrift.fields(|thrift, part| page_field(thrift, field.id, part, &mut header))?,
            _ => thrift.skip(field.kind)?,
        }
        Ok(())
    })?;
    Ok(header)
}

/// A field of the header that only one kind of page has: data (5), dictionary (7), data version 2 (8).
fn page_field(thrift: &mut Thrift<'_>, kind: i16, field: Field, header: &mut Header) -> Result<(), Damage> {
    match (kind, field.id) {
        (_, 1) => header.value_count = thrift.count(field)?,
        (5 | 7, 2) | (8, 4) => header.encoding = thrift.integer(field)?,
        (5, 3) => header.level_encodings[1] = thrift.integer(field)?,
        (5, 4) => header.level_encodings[0] = thrift.integer(field)?,
        (8, 5) => header.level_bytes.get_or_insert((0, 0)).1 = thrift.count(field)?,
        (8, 6) => header.level_bytes.get_or_insert((0, 0)).0 = thrift.count(field)?,
        (8, 7) => {
            header.is_plain = field.kind == Kind::False;
            thrift.skip(field.kind)?;
        }
        _ => thrift.skip(field.kind)?,
    }
    Ok(())
}
