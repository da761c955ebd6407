//! One column of one row group, decoded onto the end of a table's column.

use super::Damage;
use super::decode::{deltas, hybrid, plain, take_text};
use super::footer::{Chunk, Leaf, Physical};
use super::page::{DataPage, Encoding, MAX_PAGE_BYTES, Page, Pages, Unpacker};
use crate::ids::{Name, SourceIdx};
use crate::names::Names;
use crate::store::schema::GROUP_ROWS;
use crate::tables::ColumnMut;

/// Values in a page of lists: as many as fit a page when plain.
const MAX_LIST_LEVELS: usize = (MAX_PAGE_BYTES / 8) as usize;

/// Memory any capture may take once opened, however small its files.
const BUDGET_BYTES: u64 = 1 << 30;

/// Memory a byte on disk may take once opened beyond that. Measured: samples take 10; only rows that are all equal take
/// thousands.
const BUDGET_PER_BYTE: u64 = 4096;

/// Memory no capture may exceed, however large its files: 119 million samples.
const MAX_BUDGET_BYTES: u64 = 4 << 30;

/// Memory an open capture may still take. A file of a few bytes can claim any number of equal values.
#[derive(Debug)]
pub(in crate::store) struct Budget {
    pub left_bytes: u64,
    granted_bytes: u64,
}

impl Budget {
    /// What any capture may take.
    pub(in crate::store) fn new() -> Self {
        Self::of(BUDGET_BYTES)
    }

    /// This much.
    pub(in crate::store) fn of(bytes: u64) -> Self {
        Self { left_bytes: bytes, granted_bytes: bytes }
    }

    /// Adds what tables of this size on disk may take, up to the ceiling.
    pub(in crate::store) fn grant(&mut self, table_bytes: u64) {
        let room = MAX_BUDGET_BYTES.saturating_sub(self.granted_bytes);
        let more = table_bytes.saturating_mul(BUDGET_PER_BYTE).min(room);
        self.granted_bytes += more;
        self.left_bytes += more;
    }

    /// Takes `bytes`, or says that the capture is too large for its size on disk.
    pub(in crate::store) fn charge(&mut self, bytes: u64) -> Result<(), Damage> {
        if let Some(left) = self.left_bytes.checked_sub(bytes) {
            self.left_bytes = left;
            return Ok(());
        }
        let is_full = self.granted_bytes >= MAX_BUDGET_BYTES;
        let expected = if is_full { "a capture of at most 4 GiB in memory" } else { "data in proportion to the files" };
        Err(Damage::new(expected, format_args!("{} bytes more", bytes - self.left_bytes)))
    }
}

/// What columns are read into besides themselves.
#[derive(Debug)]
pub(in crate::store) struct Context<'a> {
    pub names: &'a mut Names,
    pub source_count: u32,
    pub budget: &'a mut Budget,
}

impl Context<'_> {
    fn intern(&mut self, text: &str) -> Result<Name, Damage> {
        let known = self.names.len();
        let name = self.names.intern(text);
        if self.names.len() > known {
            self.budget.charge(2 * text.len() as u64 + 64)?;
        }
        Ok(name)
    }
}

/// What was put in place of values that could not be used.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Replaced {
    /// Empty values where the column needs one.
    pub null_count: u64,
    /// Sources the manifest does not list.
    pub source_count: u64,
}

/// A column chunk as found in the file.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Packed<'a> {
    pub bytes: &'a [u8],
    pub leaf: &'a Leaf,
    pub chunk: Chunk,
    pub row_count: usize,
}

/// Appends the `row_count` values of a chunk to `column`. On damage the column may be longer by any number of rows.
pub(in crate::store) fn read(
    column: &mut ColumnMut<'_>,
    packed: Packed<'_>,
    context: &mut Context<'_>,
    unpacker: &mut Unpacker,
) -> Result<Replaced, Damage> {
    let null_count = match column {
        ColumnMut::I64(out) => required(packed, context, unpacker, out)?,
        ColumnMut::I32(out) => required(packed, context, unpacker, out)?,
        ColumnMut::U32(out) => required(packed, context, unpacker, out)?,
        ColumnMut::F64(out) => required(packed, context, unpacker, out)?,
        ColumnMut::Name(out) => required(packed, context, unpacker, out)?,
        ColumnMut::OptI64(out) => optional(packed, context, unpacker, out)?,
        ColumnMut::ListF64(out) => lists(packed, context, unpacker, out)?,
        ColumnMut::Source(out) => {
            let start = out.len();
            let null_count = required(packed, context, unpacker, out)?;
            return Ok(Replaced { null_count, source_count: replace_unknown(&mut out[start..], context.source_count) });
        }
    };
    Ok(Replaced { null_count, source_count: 0 })
}

/// Points sources the manifest does not list to the one past its end. Without any source, 0 is what every row says.
fn replace_unknown(sources: &mut [SourceIdx], known: u32) -> u64 {
    let mut replaced = 0;
    for source in sources.iter_mut().filter(|source| source.0 >= known.max(1)) {
        *source = SourceIdx(known);
        replaced += 1;
    }
    replaced
}

/// A type that columns are made of.
trait Value: Copy + Default {
    const PHYSICAL: Physical;
    /// Appends `count` plainly encoded values.
    fn plain(bytes: &[u8], count: usize, context: &mut Context<'_>, out: &mut Vec<Self>) -> Result<(), Damage>;
    /// Appends `count` delta-packed values.
    fn deltas(_bytes: &[u8], _count: usize, _out: &mut Vec<Self>) -> Result<(), Damage> {
        Err(Damage::new("plain or dictionary encoding", "packed deltas"))
    }
}

macro_rules! number {
    ($type:ty, $physical:ident, $from_bytes:expr, $from_integer:expr) => {
        impl Value for $type {
            const PHYSICAL: Physical = Physical::$physical;
            fn plain(bytes: &[u8], count: usize, _: &mut Context<'_>, out: &mut Vec<Self>) -> Result<(), Damage> {
                out.extend(plain(bytes, count)?.map($from_bytes));
                Ok(())
            }
            fn deltas(bytes: &[u8], count: usize, out: &mut Vec<Self>) -> Result<(), Damage> {
                deltas(bytes, count, |value| out.push($from_integer(value)))
            }
        }
    };
}
number!(i64, I64, i64::from_le_bytes, |value| value);
number!(i32, I32, i32::from_le_bytes, |value| value as i32);
number!(u32, I32, u32::from_le_bytes, |value| value as u32);
number!(SourceIdx, I32, |bytes| SourceIdx(u32::from_le_bytes(bytes)), |value| SourceIdx(value as u32));

impl Value for f64 {
    const PHYSICAL: Physical = Physical::F64;
    fn plain(bytes: &[u8], count: usize, _: &mut Context<'_>, out: &mut Vec<Self>) -> Result<(), Damage> {
        out.extend(plain(bytes, count)?.map(f64::from_le_bytes));
        Ok(())
    }
}

impl Value for Name {
    const PHYSICAL: Physical = Physical::Bytes;
    fn plain(mut bytes: &[u8], count: usize, context: &mut Context<'_>, out: &mut Vec<Self>) -> Result<(), Damage> {
        for _ in 0..count {
            out.push(context.intern(take_text(&mut bytes)?)?);
        }
        Ok(())
    }
}

/// What a chunk's pages are decoded with.
struct Decoder<T> {
    dictionary: Option<Vec<T>>,
    indices: Vec<u32>,
}

impl<T: Value> Decoder<T> {
    fn new(leaf: &Leaf) -> Result<Self, Damage> {
        if leaf.physical != T::PHYSICAL {
            return Err(Damage::new(format_args!("values of type {:?}", T::PHYSICAL), format_args!("{:?}", leaf.physical)));
        }
        Ok(Self { dictionary: None, indices: Vec::new() })
    }

    fn set_dictionary(&mut self, count: usize, values: &[u8], context: &mut Context<'_>) -> Result<(), Damage> {
        let mut dictionary = Vec::with_capacity(count);
        T::plain(values, count, context, &mut dictionary)?;
        self.dictionary = Some(dictionary);
        Ok(())
    }

    /// Appends `count` values, nulls left out.
    fn values(&mut self, page: &DataPage<'_>, count: usize, context: &mut Context<'_>, out: &mut Vec<T>) -> Result<(), Damage> {
        match page.encoding {
            _ if count == 0 => Ok(()), // pages without values may lack even the encoding's header
            Encoding::Plain => T::plain(page.values, count, context, out),
            Encoding::Deltas => T::deltas(page.values, count, out),
            Encoding::Dictionary => self.looked_up(page.values, count, out),
        }
    }

    fn looked_up(&mut self, bytes: &[u8], count: usize, out: &mut Vec<T>) -> Result<(), Damage> {
        let dictionary = self.dictionary.as_deref().ok_or_else(|| Damage::new("a dictionary before its use", "none"))?;
        let (&width, runs) = bytes.split_first().ok_or_else(|| Damage::ends_in("a page"))?;
        self.indices.clear();
        hybrid(runs, u32::from(width), count, &mut self.indices)?;
        out.reserve(count);
        for &index in &self.indices {
            match dictionary.get(index as usize) {
                Some(&value) => out.push(value),
                None => return Err(Damage::new(format_args!("one of {} dictionary entries", dictionary.len()), index)),
            }
        }
        Ok(())
    }
}

fn flat(leaf: &Leaf) -> Result<(), Damage> {
    if leaf.max_rep == 0 { Ok(()) } else { Err(Damage::new("one value a row", "a list")) }
}

fn all_rows(found: usize, expected: usize) -> Result<(), Damage> {
    if found == expected { Ok(()) } else { Err(Damage::new(format_args!("{expected} rows"), found)) }
}

/// A column that has a value in every row; where there is none, the default stands in and is counted.
fn required<T: Value>(packed: Packed<'_>, context: &mut Context<'_>, unpacker: &mut Unpacker, out: &mut Vec<T>) -> Result<u64, Damage> {
    let Packed { bytes, leaf, chunk, row_count } = packed;
    flat(leaf)?;
    let mut decoder = Decoder::<T>::new(leaf)?;
    let mut pages = Pages::new(bytes, leaf, chunk);
    let (start, mut null_count, mut present) = (out.len(), 0, Vec::new());
    out.reserve(row_count.min(GROUP_ROWS)); // more than ours hold must prove itself
    while let Some(page) = pages.next(row_count - (out.len() - start), unpacker)? {
        match page {
            Page::Dictionary { value_count, values } => decoder.set_dictionary(value_count, values, context)?,
            Page::Data(page) if leaf.max_def == 0 => decoder.values(&page, page.level_count, context, out)?,
            Page::Data(page) => {
                let count = count_present(&page, leaf);
                present.clear();
                decoder.values(&page, count, context, &mut present)?;
                null_count += (page.level_count - count) as u64;
                let mut values = present.iter();
                out.extend(page.def.iter().map(|&def| take_present(def, leaf, &mut values).unwrap_or_default()));
            }
        }
    }
    all_rows(out.len() - start, row_count)?;
    Ok(null_count)
}

/// A column whose values may be missing.
fn optional(packed: Packed<'_>, context: &mut Context<'_>, unpacker: &mut Unpacker, out: &mut Vec<Option<i64>>) -> Result<u64, Damage> {
    let Packed { bytes, leaf, chunk, row_count } = packed;
    flat(leaf)?;
    let mut decoder = Decoder::<i64>::new(leaf)?;
    let mut pages = Pages::new(bytes, leaf, chunk);
    let (start, mut present) = (out.len(), Vec::new());
    out.reserve(row_count.min(GROUP_ROWS)); // more than ours hold must prove itself
    while let Some(page) = pages.next(row_count - (out.len() - start), unpacker)? {
        match page {
            Page::Dictionary { value_count, values } => decoder.set_dictionary(value_count, values, context)?,
            Page::Data(page) => {
                let count = count_present(&page, leaf);
                present.clear();
                decoder.values(&page, count, context, &mut present)?;
                if leaf.max_def == 0 {
                    out.extend(present.iter().copied().map(Some));
                } else {
                    let mut values = present.iter();
                    out.extend(page.def.iter().map(|&def| take_present(def, leaf, &mut values)));
                }
            }
        }
    }
    all_rows(out.len() - start, row_count)?;
    Ok(0)
}

/// A column of lists.
fn lists(packed: Packed<'_>, context: &mut Context<'_>, unpacker: &mut Unpacker, out: &mut Vec<Vec<f64>>) -> Result<u64, Damage> {
    let Packed { bytes, leaf, chunk, row_count } = packed;
    if leaf.max_rep != 1 {
        return Err(Damage::new("one list a row", format_args!("lists {} deep", leaf.max_rep)));
    }
    let mut decoder = Decoder::<f64>::new(leaf)?;
    let mut pages = Pages::new(bytes, leaf, chunk);
    let (start, mut null_count, mut present) = (out.len(), 0, Vec::new());
    let list_bytes = size_of::<f64>() as u64 * 2; // a list grows by doubling
    loop {
        let limit = usize::try_from(context.budget.left_bytes / list_bytes).unwrap_or(usize::MAX).min(MAX_LIST_LEVELS);
        let page = match pages.next(limit, unpacker)? {
            None => break,
            Some(Page::Dictionary { value_count, values }) => {
                decoder.set_dictionary(value_count, values, context)?;
                continue;
            }
            Some(Page::Data(page)) => page,
        };
        context.budget.charge(page.level_count as u64 * list_bytes)?;
        present.clear();
        decoder.values(&page, count_present(&page, leaf), context, &mut present)?;
        let mut values = present.iter();
        for (&def, &rep) in page.def.iter().zip(&page.rep) {
            if rep == 0 {
                if out.len() - start == row_count {
                    return all_rows(row_count + 1, row_count).map(|()| 0);
                }
                out.push(Vec::new());
            }
            if def < u32::from(leaf.entry_def) {
                continue; // an empty list
            }
            let value = take_present(def, leaf, &mut values);
            null_count += u64::from(value.is_none());
            let list = if out.len() > start { out.last_mut() } else { None };
            list.ok_or_else(|| Damage::new("a list that starts", "the middle of one"))?.push(value.unwrap_or(f64::NAN));
        }
    }
    all_rows(out.len() - start, row_count)?;
    Ok(null_count)
}

/// How many of a page's values are there.
fn count_present(page: &DataPage<'_>, leaf: &Leaf) -> usize {
    match leaf.max_def {
        0 => page.level_count,
        max => page.def.iter().filter(|&&def| def == u32::from(max)).count(),
    }
}

/// The next value if `def` says there is one.
fn take_present<T: Copy>(def: u32, leaf: &Leaf, values: &mut std::slice::Iter<'_, T>) -> Option<T> {
    if def == u32::from(leaf.max_def) { values.next().copied() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 300 million equal samples in a file of 7.8 MB: row groups are taken until the ceiling is reached, the rest is told.
    #[test]
    fn no_capture_takes_more_than_the_ceiling() {
        let mut budget = Budget::new();
        budget.grant(7_800_000);
        let group = 36 * (1 << 20);
        let taken = (0..286).filter(|_| budget.charge(group).is_ok()).count() as u64;
        assert_eq!(taken, MAX_BUDGET_BYTES / group);
        let damage = budget.charge(group).unwrap_err().to_string();
        assert!(damage.starts_with("expected a capture of at most 4 GiB in memory, found "), "{damage}");
        budget.grant(u64::MAX);
        assert!(budget.charge(group).is_err(), "segments share the ceiling");
    }
}
