//! The wire format of protocol buffers: fields of a message, one after another, without a schema.

/// A value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// An integer of any kind.
    Int(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes.
    Fixed32(u32),
    /// A text, a message or packed numbers.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The bytes of a text or a message; none for anything else.
    pub(super) fn bytes(self) -> &'a [u8] {
        if let Self::Bytes(bytes) = self { bytes } else { &[] }
    }

    /// The integer; 0 for anything else.
    pub(super) fn int(self) -> u64 {
        match self {
            Self::Int(value) | Self::Fixed64(value) => value,
            Self::Fixed32(value) => u64::from(value),
            Self::Bytes(_) => 0,
        }
    }

    /// The number as a signed integer; 0 for anything else.
    pub(super) fn signed(self) -> i64 {
        self.int().cast_signed()
    }
}

/// A variable-length integer at `at`, and where it ends.
pub(super) fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for position in 0..10 {
        let byte = *bytes.get(at + position)?;
        value |= u64::from(byte & 0x7f) << (7 * position).min(63);
        if byte < 0x80 {
            return Some((value, at + position + 1));
        }
    }
    None
}

/// The message ended in the middle of a field, or the field is of no known kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged;

/// The fields of a message in their order; ends behind the first damage.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let (tag, at) = varint(self.bytes, self.at)?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0)?;
        let take = |at: usize, count: usize| self.bytes.get(at..at.checked_add(count)?);
        let (value, end) = match tag & 7 {
            0 => {
                let (value, end) = varint(self.bytes, at)?;
                (Value::Int(value), end)
            }
            1 => (Value::Fixed64(u64::from_le_bytes(take(at, 8)?.try_into().ok()?)), at + 8),
            2 => {
                let (length, start) = varint(self.bytes, at)?;
                let length = usize::try_from(length).ok()?;
                (Value::Bytes(take(start, length)?), start + length)
            }
            5 => (Value::Fixed32(u32::from_le_bytes(take(at, 4)?.try_into().ok()?)), at + 4),
            _ => return None,
        };
        self.at = end;
        Some((number, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.at = self.bytes.len();
        }
        Some(field.ok_or(Damaged))
    }
}

/// The undamaged fields of a message.
pub(super) fn fields(bytes: &[u8]) -> impl Iterator<Item = (u32, Value<'_>)> {
    Fields::new(bytes).map_while(Result::ok)
}

/// A text, as far as it is one.
pub(super) fn text(value: Value<'_>) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(value.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_kind_are_read_and_damage_ends_the_message() {
        let message = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x19, 1, 0, 0, 0, 0, 0, 0, 0, 0x25, 2, 0, 0, 0];
        let found: Vec<_> = Fields::new(&message).map(Result::unwrap).collect();
        assert_eq!(found, [(1, Value::Int(150)), (2, Value::Bytes(b"hi")), (3, Value::Fixed64(1)), (4, Value::Fixed32(2))]);
        for damaged in
            [&[0x08][..], &[0x12, 0x05, b'x'], &[0x0b], &[0x00], &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]]
        {
            assert_eq!(Fields::new(damaged).last(), Some(Err(Damaged)), "{damaged:?}");
        }
    }
}
