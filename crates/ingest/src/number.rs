//! Decimal text to `f64`, exactly, at the speed of a scrape.

/// Powers of ten that `f64` holds exactly.
const POWERS: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// Reads a number as Prometheus writes it. Plain decimals of up to 15 digits take one exact division (mantissa and
/// power are both exact in `f64`, so the quotient is correctly rounded); the rest goes to the standard library.
pub(crate) fn parse_f64(text: &[u8]) -> Option<f64> {
    let mut mantissa: u64 = 0;
    let mut digits = 0usize;
    let mut places: Option<usize> = None;
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
                digits += 1;
                if let Some(places) = &mut places {
                    *places += 1;
                }
            }
            b'.' if places.is_none() && at > 0 => places = Some(0),
            _ => return slow(text),
        }
        if digits > 15 {
            return slow(text);
        }
    }
    if digits == 0 {
        return None;
    }
    Some(mantissa as f64 / POWERS[places.unwrap_or(0)])
}

#[cold]
fn slow(text: &[u8]) -> Option<f64> {
    match text {
        b"+Inf" | b"Inf" | b"inf" | b"+inf" => Some(f64::INFINITY),
        b"-Inf" | b"-inf" => Some(f64::NEG_INFINITY),
        b"NaN" | b"nan" | b"Nan" => Some(f64::NAN),
        _ if text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')) => {
            std::str::from_utf8(text).ok()?.parse().ok()
        }
        _ => None,
    }
}

/// Reads a count with thousands separators: `349,440`.
pub(crate) fn parse_grouped(text: &str) -> Option<f64> {
    let plain: String = text.chars().filter(|character| *character != ',').collect();
    plain.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_agree_with_the_standard_library() {
        for text in
            ["0", "47.0", "0.0007328691828508704", "14.96716833114624", "1.7960366212436614e+09", "123456789012345", "0.1", "1e-7", "-3.5"]
        {
            assert_eq!(parse_f64(text.as_bytes()), text.parse().ok(), "{text}");
        }
        assert_eq!(parse_f64(b"+Inf"), Some(f64::INFINITY));
        assert!(parse_f64(b"NaN").is_some_and(f64::is_nan));
        for text in ["", ".", "1..2", "abc", "1 2", "0x1", "infinity"] {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text}");
        }
    }
}
