//! Units, and values typed with a unit.
//!
//! Everything inside is in base units (s, byte, token, ratio 0..1, Hz, W, degC); importers convert on entry.

use std::fmt;

/// Base unit of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Seconds.
    Second,
    /// Bytes.
    Byte,
    /// Bytes per second.
    BytePerSecond,
    /// Floating point operations per second.
    FlopPerSecond,
    /// Tokens.
    Token,
    /// Tokens per second.
    TokenPerSecond,
    /// Requests.
    Request,
    /// Requests per second.
    RequestPerSecond,
    /// 0 to 1.
    Ratio,
    /// A dimensionless factor, any size.
    Factor,
    /// A plain number of things.
    Count,
    /// Hertz.
    Hertz,
    /// Watts.
    Watt,
    /// Degrees Celsius.
    Celsius,
    /// Revolutions per minute.
    Rpm,
    /// 0 or 1.
    Flag,
    /// Text, kept as a setting.
    Text,
}

impl Unit {
    /// The unit as written in documents and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Byte => "byte",
            Self::BytePerSecond => "byte/s",
            Self::FlopPerSecond => "flop/s",
            Self::Token => "token",
            Self::TokenPerSecond => "token/s",
            Self::Request => "request",
            Self::RequestPerSecond => "request/s",
            Self::Ratio => "ratio",
            Self::Factor => "factor",
            Self::Count => "count",
            Self::Hertz => "Hz",
            Self::Watt => "W",
            Self::Celsius => "degC",
            Self::Rpm => "rpm",
            Self::Flag => "flag",
            Self::Text => "text",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a typed value is exact or a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The value itself.
    Exact,
    /// At least this (`> 90 degC`).
    AtLeast,
    /// At most this (`< 2 ms`).
    AtMost,
}

/// A value read from text, in the base unit of the signal it was read for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity {
    /// Value in the base unit.
    pub value: f64,
    /// Exact, or a bound.
    pub bound: Bound,
    /// True when a rate was given where a time was expected, and was inverted.
    pub inverted: bool,
}

/// Why a typed value could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuantityError {
    /// No number where one was expected.
    NoNumber,
    /// A unit nobody knows.
    UnknownUnit(String),
    /// A unit of another kind than the signal has.
    WrongUnit {
        /// Unit the signal has.
        expected: &'static str,
        /// Unit found.
        found: String,
    },
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNumber => f.write_str("expected a number, optionally followed by a unit"),
            Self::UnknownUnit(unit) => write!(f, "unknown unit `{unit}`"),
            Self::WrongUnit { expected, found } => write!(f, "expected a value in `{expected}`, found `{found}`"),
        }
    }
}

/// Every spelling we read, its base unit and the factor to it.
const SPELLINGS: &[(&str, Unit, f64)] = &[
    ("s", Unit::Second, 1.0),
    ("sec", Unit::Second, 1.0),
    ("second", Unit::Second, 1.0),
    ("seconds", Unit::Second, 1.0),
    ("ms", Unit::Second, 1e-3),
    ("us", Unit::Second, 1e-6),
    ("µs", Unit::Second, 1e-6),
    ("μs", Unit::Second, 1e-6),
    ("ns", Unit::Second, 1e-9),
    ("min", Unit::Second, 60.0),
    ("h", Unit::Second, 3600.0),
    ("B", Unit::Byte, 1.0),
    ("byte", Unit::Byte, 1.0),
    ("bytes", Unit::Byte, 1.0),
    ("kB", Unit::Byte, 1e3),
    ("KB", Unit::Byte, 1e3),
    ("MB", Unit::Byte, 1e6),
    ("GB", Unit::Byte, 1e9),
    ("TB", Unit::Byte, 1e12),
    ("KiB", Unit::Byte, 1024.0),
    ("MiB", Unit::Byte, 1_048_576.0),
    ("GiB", Unit::Byte, 1_073_741_824.0),
    ("TiB", Unit::Byte, 1_099_511_627_776.0),
    ("B/s", Unit::BytePerSecond, 1.0),
    ("byte/s", Unit::BytePerSecond, 1.0),
    ("kB/s", Unit::BytePerSecond, 1e3),
    ("MB/s", Unit::BytePerSecond, 1e6),
    ("GB/s", Unit::BytePerSecond, 1e9),
    ("TB/s", Unit::BytePerSecond, 1e12),
    ("KiB/s", Unit::BytePerSecond, 1024.0),
    ("MiB/s", Unit::BytePerSecond, 1_048_576.0),
    ("GiB/s", Unit::BytePerSecond, 1_073_741_824.0),
    ("Gb/s", Unit::BytePerSecond, 1.25e8),
    ("Gbit/s", Unit::BytePerSecond, 1.25e8),
    ("flop/s", Unit::FlopPerSecond, 1.0),
    ("GFLOP/s", Unit::FlopPerSecond, 1e9),
    ("TFLOP/s", Unit::FlopPerSecond, 1e12),
    ("token", Unit::Token, 1.0),
    ("tokens", Unit::Token, 1.0),
    ("tok", Unit::Token, 1.0),
    ("token/s", Unit::TokenPerSecond, 1.0),
    ("tokens/s", Unit::TokenPerSecond, 1.0),
    ("tok/s", Unit::TokenPerSecond, 1.0),
    ("t/s", Unit::TokenPerSecond, 1.0),
    ("request", Unit::Request, 1.0),
    ("requests", Unit::Request, 1.0),
    ("req", Unit::Request, 1.0),
    ("reqs", Unit::Request, 1.0),
    ("request/s", Unit::RequestPerSecond, 1.0),
    ("requests/s", Unit::RequestPerSecond, 1.0),
    ("req/s", Unit::RequestPerSecond, 1.0),
    ("request/min", Unit::RequestPerSecond, 1.0 / 60.0),
    ("%", Unit::Ratio, 0.01),
    ("ratio", Unit::Ratio, 1.0),
    ("x", Unit::Factor, 1.0),
    ("factor", Unit::Factor, 1.0),
    ("count", Unit::Count, 1.0),
    ("Hz", Unit::Hertz, 1.0),
    ("kHz", Unit::Hertz, 1e3),
    ("MHz", Unit::Hertz, 1e6),
    ("GHz", Unit::Hertz, 1e9),
    ("W", Unit::Watt, 1.0),
    ("kW", Unit::Watt, 1e3),
    ("degC", Unit::Celsius, 1.0),
    ("°C", Unit::Celsius, 1.0),
    ("C", Unit::Celsius, 1.0),
    ("rpm", Unit::Rpm, 1.0),
];

/// Reads `22.4 ms`, `180 token/s`, `> 90 degC` or a bare number for a signal whose base unit is `expected`.
/// A rate where a time is expected (`180 token/s` for seconds per token) is inverted and marked so.
pub fn parse_quantity(text: &str, expected: Unit) -> Result<Quantity, QuantityError> {
    let text = text.trim();
    let (bound, rest) = match text.as_bytes().first() {
        Some(b'>') => (Bound::AtLeast, text[1..].trim_start_matches('=').trim_start()),
        Some(b'<') => (Bound::AtMost, text[1..].trim_start_matches('=').trim_start()),
        _ => (Bound::Exact, text),
    };
    let numeric = |character: char| character.is_ascii_digit() || matches!(character, '.' | '-' | '+' | '_' | ',');
    let mut end = rest.find(|character: char| !numeric(character)).unwrap_or(rest.len());
    let tail = &rest[end..];
    if (tail.starts_with('e') || tail.starts_with('E')) && tail[1..].starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+')) {
        end += 1 + tail[1..].find(|character: char| !numeric(character)).unwrap_or(tail.len() - 1);
    }
    let number: f64 = rest[..end].replace(['_', ','], "").parse().map_err(|_| QuantityError::NoNumber)?;
    if !number.is_finite() {
        return Err(QuantityError::NoNumber);
    }
    let written = rest[end..].trim();
    if written.is_empty() {
        return Ok(Quantity { value: number, bound, inverted: false });
    }
    let &(_, unit, factor) =
        SPELLINGS.iter().find(|(spelling, ..)| *spelling == written).ok_or_else(|| QuantityError::UnknownUnit(written.to_string()))?;
    if unit == expected || interchangeable(unit, expected) {
        return Ok(Quantity { value: number * factor, bound, inverted: false });
    }
    let per_second = matches!(unit, Unit::TokenPerSecond | Unit::RequestPerSecond);
    if expected == Unit::Second && per_second && number > 0.0 {
        let bound = match bound {
            Bound::Exact => Bound::Exact,
            Bound::AtLeast => Bound::AtMost,
            Bound::AtMost => Bound::AtLeast,
        };
        return Ok(Quantity { value: 1.0 / (number * factor), bound, inverted: true });
    }
    Err(QuantityError::WrongUnit { expected: expected.as_str(), found: written.to_string() })
}

/// Dimensionless counts may be written with the thing counted.
fn interchangeable(found: Unit, expected: Unit) -> bool {
    let countable = |unit| matches!(unit, Unit::Count | Unit::Factor | Unit::Token | Unit::Request);
    (countable(found) && countable(expected))
        || (found == Unit::Ratio && expected == Unit::Factor)
        || (found == Unit::Factor && expected == Unit::Ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, unit: Unit) -> f64 {
        parse_quantity(text, unit).expect(text).value
    }

    #[test]
    fn values_come_in_base_units() {
        assert!((value("22.4 ms", Unit::Second) - 0.0224).abs() < 1e-12);
        assert!((value("3350 GB/s", Unit::BytePerSecond) - 3.35e12).abs() < 1.0);
        assert!((value("16.06 GB", Unit::Byte) - 16.06e9).abs() < 1.0);
        assert_eq!(value("131072 B", Unit::Byte), 131_072.0);
        assert_eq!(value("97 %", Unit::Ratio), 0.97);
        assert_eq!(value("67", Unit::Request), 67.0);
        assert_eq!(value("1,536 tokens", Unit::Token), 1536.0);
        assert_eq!(value("1e-3 s", Unit::Second), 1e-3);
    }

    #[test]
    fn rates_are_inverted_and_bounds_kept() {
        let inverted = parse_quantity("180 token/s", Unit::Second).unwrap();
        assert!(inverted.inverted && (inverted.value - 1.0 / 180.0).abs() < 1e-12);
        assert_eq!(parse_quantity("> 90 degC", Unit::Celsius).unwrap().bound, Bound::AtLeast);
        assert_eq!(parse_quantity("> 100 token/s", Unit::Second).unwrap().bound, Bound::AtMost);
    }

    #[test]
    fn what_cannot_be_right_is_refused() {
        assert_eq!(parse_quantity("fast", Unit::Second), Err(QuantityError::NoNumber));
        assert_eq!(parse_quantity("3 parsec", Unit::Second), Err(QuantityError::UnknownUnit("parsec".into())));
        assert!(matches!(parse_quantity("3 GB", Unit::Second), Err(QuantityError::WrongUnit { .. })));
        assert_eq!(parse_quantity("inf s", Unit::Second), Err(QuantityError::NoNumber));
    }
}
