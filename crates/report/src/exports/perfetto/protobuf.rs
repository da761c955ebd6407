//! The few parts of the protobuf wire format that a trace needs, appended to a buffer.

/// A base-128 number.
fn push_varint(buffer: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        buffer.push(value as u8 | 0x80);
        value >>= 7;
    }
    buffer.push(value as u8);
}

fn push_tag(buffer: &mut Vec<u8>, field: u32, wire_type: u8) {
    push_varint(buffer, u64::from(field) << 3 | u64::from(wire_type));
}

/// An unsigned integer, an enum or a flag.
pub(super) fn uint(buffer: &mut Vec<u8>, field: u32, value: u64) {
    push_tag(buffer, field, 0);
    push_varint(buffer, value);
}

/// A signed integer of the plain kind (`int64`, `int32`).
pub(super) fn int(buffer: &mut Vec<u8>, field: u32, value: i64) {
    uint(buffer, field, value as u64);
}

/// Eight bytes as they are.
pub(super) fn fixed64(buffer: &mut Vec<u8>, field: u32, value: u64) {
    push_tag(buffer, field, 1);
    buffer.extend_from_slice(&value.to_le_bytes());
}

/// A double.
pub(super) fn double(buffer: &mut Vec<u8>, field: u32, value: f64) {
    fixed64(buffer, field, value.to_bits());
}

/// Text or a message.
pub(super) fn bytes(buffer: &mut Vec<u8>, field: u32, value: &[u8]) {
    push_tag(buffer, field, 2);
    push_varint(buffer, value.len() as u64);
    buffer.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_the_format_says() {
        let mut buffer = Vec::new();
        uint(&mut buffer, 1, 150);
        int(&mut buffer, 2, -1);
        bytes(&mut buffer, 16, b"hi");
        double(&mut buffer, 3, 1.0);
        let expected: &[u8] = &[
            0x08, 0x96, 0x01, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x82, 0x01, 2, b'h', b'i', 0x19, 0, 0, 0,
            0, 0, 0, 0xf0, 0x3f,
        ];
        assert_eq!(buffer, expected);
    }
}
