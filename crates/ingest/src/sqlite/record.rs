//! Rows: variable-length integers, and the few columns of a record that a reader wants.

use std::borrow::Cow;

use super::Encoding;

/// Most columns wanted at once.
const MAX_WANTED: usize = 24;
/// Mark of a column that nobody wants.
const UNWANTED: u8 = u8::MAX;

/// A variable-length integer at `at`: its value and where it ends; `None` beyond the end.
#[inline]
pub(super) fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let first = *bytes.get(at)?;
    if first < 0x80 { Some((u64::from(first), at + 1)) } else { long_varint(bytes, at, first) }
}

fn long_varint(bytes: &[u8], at: usize, first: u8) -> Option<(u64, usize)> {
    let mut value = u64::from(first & 0x7f);
    for position in 1..9 {
        let byte = *bytes.get(at + position)?;
        if position == 8 {
            return Some((value << 8 | u64::from(byte), at + 9));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((value, at + position + 1));
        }
    }
    None
}

/// Which columns are wanted, and where their values go.
pub(super) struct Plan {
    /// For each stored column up to the last wanted one: its place among the wanted, or [`UNWANTED`].
    slots: Vec<u8>,
    /// Wanted column that stands for the row number.
    rowid_slot: Option<usize>,
    encoding: Encoding,
}

impl Plan {
    pub(super) fn new(wanted: &[Option<usize>], rowid_alias: Option<usize>, encoding: Encoding) -> Self {
        assert!(wanted.len() <= MAX_WANTED, "a reader wants at most {MAX_WANTED} columns");
        let last = wanted.iter().flatten().max().map_or(0, |last| last + 1);
        let mut slots = vec![UNWANTED; last];
        for (slot, column) in wanted.iter().enumerate() {
            if let Some(column) = column {
                slots[*column] = slot as u8;
            }
        }
        let rowid_slot = rowid_alias.and_then(|alias| wanted.iter().position(|column| *column == Some(alias)));
        Self { slots, rowid_slot, encoding }
    }
}

/// Longest header that is kept to be recognized.
const MAX_KEPT_HEADER: usize = 128;

/// Where the wanted values of a row lie, and the header that says so: the next row's is most often the same.
pub(super) struct Layout {
    fields: [Field; MAX_WANTED],
    header: [u8; MAX_KEPT_HEADER],
    /// 0 for none.
    header_bytes: usize,
}

impl Layout {
    pub(super) fn new() -> Self {
        Self { fields: [Field::default(); MAX_WANTED], header: [0; MAX_KEPT_HEADER], header_bytes: 0 }
    }

    /// True when `payload` has the header that was read last.
    #[inline]
    fn is_of(&self, payload: &[u8]) -> bool {
        self.header_bytes > 0 && payload.get(..self.header_bytes).is_some_and(|header| *header == self.header[..self.header_bytes])
    }

    /// Reads where the wanted values lie; `None` when the payload is no record.
    fn read(&mut self, plan: &Plan, payload: &[u8]) -> Option<()> {
        self.header_bytes = 0;
        let (header_bytes, mut at) = varint(payload, 0)?;
        let header_bytes = usize::try_from(header_bytes).ok().filter(|bytes| *bytes <= payload.len())?;
        let mut body = header_bytes as u64;
        for (column, slot) in plan.slots.iter().enumerate() {
            // A record written before a column was added ends before it.
            if at >= header_bytes {
                for slot in plan.slots[column..].iter().filter(|slot| **slot != UNWANTED) {
                    self.fields[usize::from(*slot)] = Field::default();
                }
                break;
            }
            let (serial, next) = varint(payload, at)?;
            at = next;
            if *slot != UNWANTED {
                self.fields[usize::from(*slot)] = Field { serial: u32::try_from(serial).ok()?, at: u32::try_from(body).ok()? };
            }
            body = body.checked_add(length(serial))?;
        }
        if let Some(header) = self.header.get_mut(..header_bytes) {
            header.copy_from_slice(&payload[..header_bytes]);
            self.header_bytes = header_bytes;
        }
        Some(())
    }
}

/// Where a value lies and of what kind it is.
#[derive(Clone, Copy, Default)]
struct Field {
    serial: u32,
    at: u32,
}

/// The wanted columns of one row.
pub(crate) struct Row<'a> {
    rowid: i64,
    payload: &'a [u8],
    fields: &'a [Field; MAX_WANTED],
    rowid_slot: Option<usize>,
    encoding: Encoding,
}

/// Bytes of a value by its kind.
fn length(serial: u64) -> u64 {
    const FIXED: [u64; 12] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0];
    if serial < 12 { FIXED[serial as usize] } else { (serial - 12) / 2 }
}

impl<'a> Row<'a> {
    /// The row with this payload; `None` when it is no record. `layout` is kept from row to row of one scan.
    #[inline]
    pub(super) fn read(plan: &Plan, rowid: i64, payload: &'a [u8], layout: &'a mut Layout) -> Option<Self> {
        if !layout.is_of(payload) {
            layout.read(plan, payload)?;
        }
        Some(Self { rowid, payload, fields: &layout.fields, rowid_slot: plan.rowid_slot, encoding: plan.encoding })
    }

    #[inline]
    fn bytes(&self, slot: usize) -> (u32, &'a [u8]) {
        let Field { serial, at } = self.fields[slot];
        let from = at as usize;
        match self.payload.get(from..from + length(u64::from(serial)) as usize) {
            Some(bytes) => (serial, bytes),
            // What lies beyond the payload cannot be known.
            None => (0, &[]),
        }
    }

    /// An integer; `None` for null and for anything else.
    #[inline]
    pub(crate) fn int(&self, slot: usize) -> Option<i64> {
        let (serial, bytes) = self.bytes(slot);
        let value = match (serial, bytes) {
            (0, _) if self.rowid_slot == Some(slot) => self.rowid,
            (1, [a]) => i64::from(a.cast_signed()),
            (2, [a, b]) => i64::from(i16::from_be_bytes([*a, *b])),
            (3, [a, b, c]) => i64::from(i32::from_be_bytes([*a, *b, *c, 0]) >> 8),
            (4, [a, b, c, d]) => i64::from(i32::from_be_bytes([*a, *b, *c, *d])),
            (5, [high @ .., low, lowest]) if high.len() == 4 => {
                let high = i32::from_be_bytes(high.try_into().ok()?);
                i64::from(high) << 16 | i64::from(u16::from_be_bytes([*low, *lowest]))
            }
            (6, bytes) => i64::from_be_bytes(bytes.try_into().ok()?),
            (8, _) => 0,
            (9, _) => 1,
            _ => return None,
        };
        Some(value)
    }

    /// A number; `None` for null and for anything else.
    pub(crate) fn number(&self, slot: usize) -> Option<f64> {
        match self.bytes(slot) {
            (7, bytes) => Some(f64::from_be_bytes(bytes.try_into().ok()?)),
            _ => self.int(slot).map(|value| value as f64),
        }
    }

    /// True when the value is null or missing.
    pub(crate) fn is_null(&self, slot: usize) -> bool {
        self.bytes(slot).0 == 0 && self.rowid_slot != Some(slot)
    }

    /// The bytes of a text as they are stored; `None` for null and for anything else.
    pub(crate) fn text_bytes(&self, slot: usize) -> Option<&'a [u8]> {
        let (serial, bytes) = self.bytes(slot);
        (serial >= 13 && serial % 2 == 1).then_some(bytes)
    }

    /// A text; `None` for null and for anything else.
    pub(crate) fn text(&self, slot: usize) -> Option<Cow<'a, str>> {
        let bytes = self.text_bytes(slot)?;
        let wide = |pair: fn([u8; 2]) -> u16| {
            let units: Vec<u16> = bytes.chunks_exact(2).map(|unit| pair([unit[0], unit[1]])).collect();
            Cow::Owned(String::from_utf16_lossy(&units))
        };
        Some(match self.encoding {
            Encoding::Utf8 => String::from_utf8_lossy(bytes),
            Encoding::Utf16Le => wide(u16::from_le_bytes),
            Encoding::Utf16Be => wide(u16::from_be_bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_every_length_are_read() {
        assert_eq!(varint(&[0x7f], 0), Some((127, 1)));
        assert_eq!(varint(&[0, 0x81, 0x00], 1), Some((128, 3)));
        assert_eq!(varint(&[0xff; 9], 0), Some((u64::MAX, 9)));
        assert_eq!(varint(&[0x80, 0x80, 0x01], 0), Some((1, 3)));
        assert_eq!((varint(&[0xff, 0xff], 0), varint(&[], 0)), (None, None));
    }
}
