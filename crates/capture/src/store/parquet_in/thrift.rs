//! The compact Thrift encoding of Parquet's footer and page headers, as far as they need it.

use super::Damage;

/// How deep skipped fields may nest; Parquet's own go to five.
const MAX_DEPTH: u32 = 16;

/// Type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    True,
    False,
    Byte,
    Integer,
    Double,
    Binary,
    List,
    Map,
    Struct,
    Uuid,
}

impl Kind {
    fn from_code(code: u8) -> Result<Self, Damage> {
        Ok(match code {
            1 => Self::True,
            2 => Self::False,
            3 => Self::Byte,
            4..=6 => Self::Integer,
            7 => Self::Double,
            8 => Self::Binary,
            9 | 10 => Self::List,
            11 => Self::Map,
            12 => Self::Struct,
            13 => Self::Uuid,
            _ => return Err(Damage::new("a field type from 1 to 13", code)),
        })
    }
}

/// A field of a struct.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub id: i16,
    pub kind: Kind,
}

/// A position in encoded bytes.
#[derive(Clone, Debug)]
pub(super) struct Thrift<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Thrift<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Damage> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.bytes.len()).ok_or_else(|| Damage::ends_in("a header"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Damage> {
        self.take(1).map(|taken| taken[0])
    }

    fn varint(&mut self) -> Result<u64, Damage> {
        let (value, used) = super::decode::varint(&self.bytes[self.at..])?;
        self.at += used;
        Ok(value)
    }

    fn zigzag(&mut self) -> Result<i64, Damage> {
        self.varint().map(super::decode::unzigzag)
    }

    /// Calls `read` for every field of a struct; `read` must consume the field's value and may do so with [`skip`](Self::skip).
    pub(super) fn fields(&mut self, mut read: impl FnMut(&mut Self, Field) -> Result<(), Damage>) -> Result<(), Damage> {
        let mut id = 0;
        while let Some(field) = self.field(id)? {
            id = field.id;
            read(self, field)?;
        }
        Ok(())
    }

    /// Next field of a struct whose last field was `last`; `None` at its end.
    fn field(&mut self, last: i16) -> Result<Option<Field>, Damage> {
        let head = self.byte()?;
        if head == 0 {
            return Ok(None);
        }
        let id = match head >> 4 {
            0 => i16::try_from(self.zigzag()?).map_err(|_| Damage::new("a field number of 16 bits", "a larger one"))?,
            delta => last.checked_add(i16::from(delta)).ok_or_else(|| Damage::new("a field number of 16 bits", "a larger one"))?,
        };
        Ok(Some(Field { id, kind: Kind::from_code(head & 15)? }))
    }

    /// Element type and length of a list. No element is smaller than a byte, so the length is bounded by the data.
    pub(super) fn list(&mut self, field: Field) -> Result<(Kind, usize), Damage> {
        expect(field, Kind::List)?;
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        let left = (self.bytes.len() - self.at) as u64;
        if count > left {
            return Err(Damage::new(format_args!("a list within the {left} bytes left"), format_args!("one of {count} elements")));
        }
        Ok((Kind::from_code(head & 15)?, count as usize))
    }

    pub(super) fn integer(&mut self, field: Field) -> Result<i64, Damage> {
        match field.kind {
            Kind::Byte => self.byte().map(|byte| i64::from(byte.cast_signed())),
            _ => expect(field, Kind::Integer).and_then(|()| self.zigzag()),
        }
    }

    /// An integer that must not be negative, as all sizes and counts.
    pub(super) fn count(&mut self, field: Field) -> Result<u64, Damage> {
        let value = self.integer(field)?;
        u64::try_from(value).map_err(|_| Damage::new(format_args!("a count in field {}", field.id), value))
    }

    pub(super) fn binary(&mut self, field: Field) -> Result<&'a [u8], Damage> {
        expect(field, Kind::Binary)?;
        let length = self.varint()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    pub(super) fn text(&mut self, field: Field) -> Result<&'a str, Damage> {
        std::str::from_utf8(self.binary(field)?).map_err(|_| Damage::new("UTF-8 text in a header", "other bytes"))
    }

    /// Passes over a value.
    pub(super) fn skip(&mut self, kind: Kind) -> Result<(), Damage> {
        self.skip_nested(kind, MAX_DEPTH)
    }

    fn skip_nested(&mut self, kind: Kind, depth: u32) -> Result<(), Damage> {
        let deeper = depth.checked_sub(1).ok_or_else(|| Damage::new("fields nested up to 16 deep", "deeper ones"))?;
        match kind {
            Kind::True | Kind::False => Ok(()),
            Kind::Byte => self.byte().map(drop),
            Kind::Integer => self.varint().map(drop),
            Kind::Double => self.take(8).map(drop),
            Kind::Uuid => self.take(16).map(drop),
            Kind::Binary => self.binary(Field { id: 0, kind }).map(drop),
            Kind::Struct => self.fields(|thrift, field| thrift.skip_nested(field.kind, deeper)),
            Kind::List => {
                let (element, count) = self.list(Field { id: 0, kind })?;
                (0..count).try_for_each(|_| self.skip_element(element, deeper))
            }
            Kind::Map => self.skip_map(deeper),
        }
    }

    fn skip_map(&mut self, depth: u32) -> Result<(), Damage> {
        let count = self.varint()?;
        if count == 0 {
            return Ok(());
        }
        let kinds = self.byte()?;
        let (key, value) = (Kind::from_code(kinds >> 4)?, Kind::from_code(kinds & 15)?);
        for _ in 0..count {
            self.skip_element(key, depth)?;
            self.skip_element(value, depth)?;
        }
        Ok(())
    }

    /// Inside lists and maps a truth value takes a byte; in a field it is the type itself.
    fn skip_element(&mut self, kind: Kind, depth: u32) -> Result<(), Damage> {
        match kind {
            Kind::True | Kind::False => self.byte().map(drop),
            _ => self.skip_nested(kind, depth),
        }
    }
}

fn expect(field: Field, kind: Kind) -> Result<(), Damage> {
    if field.kind == kind {
        return Ok(());
    }
    Err(Damage::new(format_args!("field {} of type {kind:?}", field.id), format_args!("type {:?}", field.kind)))
}
