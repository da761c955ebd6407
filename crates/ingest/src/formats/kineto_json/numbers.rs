//! Numbers of a trace: decimal text to integers, eight digits at a time and never through an `f64`.

use super::scan::{HIGHS, ONES};

/// Microseconds as nanoseconds.
#[inline]
pub(super) fn microseconds(text: &[u8]) -> Option<i64> {
    // What Kineto writes: three decimals, or none.
    let point = text.len().wrapping_sub(4);
    if text.get(point) == Some(&b'.') && point <= 15 {
        if let (Some(whole), Some(decimals)) = (digits(&text[..point]), digits(&text[point + 1..])) {
            return Some(whole * 1_000 + decimals);
        }
    } else if text.len() <= 15
        && !text.is_empty()
        && let Some(whole) = digits(text)
    {
        return Some(whole * 1_000);
    }
    capture::text_time::scaled_to_ns(text, 3)
}

/// A whole number; what stands behind a point is cut off.
#[inline]
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let (is_negative, figures) = match text.first()? {
        b'-' => (true, &text[1..]),
        _ => (false, text),
    };
    if let Some(value) = digits(figures).filter(|_| !figures.is_empty()) {
        return Some(if is_negative { -value } else { value });
    }
    let whole = figures.split(|byte| *byte == b'.').next().filter(|whole| whole.iter().all(u8::is_ascii_digit))?;
    let value: i64 = std::str::from_utf8(whole).ok()?.parse().ok()?;
    Some(if is_negative { -value } else { value })
}

/// The value of digits, and nothing else, in an `i64`.
#[inline]
fn digits(text: &[u8]) -> Option<i64> {
    if text.len() > 18 {
        return None;
    }
    let (eights, rest) = text.as_chunks::<8>();
    let mut value = 0u64;
    for eight in eights {
        value = value * 100_000_000 + eight_digits(u64::from_le_bytes(*eight))?;
    }
    for byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    Some(value as i64)
}

/// Eight digits at once: pairs, then fours, then all.
#[inline]
fn eight_digits(text: u64) -> Option<u64> {
    let value = text.wrapping_sub(ONES * u64::from(b'0'));
    let above = value.wrapping_add(ONES * 0x76);
    if (value | above) & HIGHS != 0 {
        return None;
    }
    let pairs = value.wrapping_mul(10).wrapping_add(value >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        assert_eq!(microseconds(b"1712195495519689.001"), Some(1_712_195_495_519_689_001));
        assert_eq!(microseconds(b"5801234567890.123"), Some(5_801_234_567_890_123));
        assert_eq!(microseconds(b"12"), Some(12_000));
        assert_eq!(microseconds(b"0.5"), Some(500));
        assert_eq!(microseconds(b"-1.25"), Some(-1_250));
        assert_eq!(microseconds(b"1.7e3"), Some(1_700_000));
        assert_eq!(microseconds(b"9223372036854775808"), None);
        assert_eq!(microseconds(b""), None);
        assert_eq!(microseconds(b".125"), None.or(capture::text_time::scaled_to_ns(b".125", 3)));
        assert_eq!((microseconds(b"12a4.125"), microseconds(b"1234567:")), (None, None));
        assert_eq!((integer(b"-7"), integer(b"3.9"), integer(b"9223372036854775808"), integer(b"x")), (Some(-7), Some(3), None, None));
    }

    #[test]
    fn digits_are_read_eight_at_a_time() {
        for len in 1..=18 {
            let text = "918273645091827364".split_at(len).0;
            assert_eq!(digits(text.as_bytes()), text.parse().ok(), "{text}");
            for at in 0..len {
                for wrong in [b'/', b':', b'.', b'-', b' ', 0, 0xb0, 0xff] {
                    let mut bytes = text.as_bytes().to_vec();
                    bytes[at] = wrong;
                    assert_eq!(digits(&bytes), None, "{bytes:?}");
                }
            }
        }
    }
}
