//! Decimal text to `i64` nanoseconds, exactly.
//!
//! Epoch seconds as `f64` carry an error of about 0.2 µs; times never take that road.

/// Parses decimal seconds (`1796036013.162`, `-0.5`, `2e-3`) into nanoseconds, rounding half away from zero.
/// Returns `None` for anything else and for values outside `i64`.
pub fn seconds_to_ns(text: &[u8]) -> Option<i64> {
    scaled_to_ns(text, 9)
}

/// Parses decimal text in units of 10^`power - 9` s (`power` 9: seconds, 6: milliseconds, 3: microseconds) into nanoseconds.
pub fn scaled_to_ns(text: &[u8], power: i32) -> Option<i64> {
    let text = text.trim_ascii();
    let (negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let mut mantissa: i128 = 0;
    let mut point: Option<i32> = None;
    let mut seen = false;
    let mut at = 0;
    let mut dropped_exponent = 0i32;
    while at < digits.len() {
        match digits[at] {
            digit @ b'0'..=b'9' => {
                seen = true;
                if mantissa < i128::MAX / 100 {
                    mantissa = mantissa * 10 + i128::from(digit - b'0');
                    point = point.map(|places| places + 1);
                } else if point.is_none() {
                    dropped_exponent += 1;
                }
            }
            b'.' if point.is_none() => point = Some(0),
            b'e' | b'E' => break,
            _ => return None,
        }
        at += 1;
    }
    if !seen {
        return None;
    }
    let mut exponent = power + dropped_exponent - point.unwrap_or(0);
    if at < digits.len() {
        let text = std::str::from_utf8(&digits[at + 1..]).ok()?;
        let written: i32 = text.parse().ok()?;
        exponent = exponent.checked_add(written)?;
    }
    let magnitude = if mantissa == 0 {
        0
    } else if exponent >= 0 {
        mantissa.checked_mul(10i128.checked_pow(u32::try_from(exponent).ok()?)?)?
    } else {
        match 10i128.checked_pow(exponent.unsigned_abs()) {
            Some(divisor) => (mantissa + divisor / 2) / divisor,
            None => 0,
        }
    };
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch_seconds_are_exact() {
        assert_eq!(seconds_to_ns(b"1796036013.162"), Some(1_796_036_013_162_000_000));
        assert_eq!(seconds_to_ns(b"1796036013.123456789"), Some(1_796_036_013_123_456_789));
        assert_eq!(seconds_to_ns(b"-0.5"), Some(-500_000_000));
        assert_eq!(seconds_to_ns(b"2e-3"), Some(2_000_000));
        assert_eq!(seconds_to_ns(b"1.7960360131620002e+09"), Some(1_796_036_013_162_000_200));
        assert_eq!(scaled_to_ns(b"1.5", 3), Some(1_500));
        assert_eq!(seconds_to_ns(b"0.0000000005"), Some(1));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", ".", "NaN", "1..2", "1e", "0x10", "1e400", "99999999999999999999", "1 2"] {
            assert_eq!(seconds_to_ns(text.as_bytes()), None, "{text}");
        }
    }
}
