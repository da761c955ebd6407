//! Calendar times to host nanoseconds.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// A calendar time, zone not known; read as UTC until an alignment says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) month: i8,
    pub(crate) day: i8,
    pub(crate) hour: i8,
    pub(crate) minute: i8,
    pub(crate) second: i8,
}

impl Civil {
    /// Nanoseconds since the epoch when read as UTC in `year`; `None` for what is no date.
    pub(crate) fn utc_ns(self, year: i16) -> Option<i64> {
        let time = DateTime::new(year, self.month, self.day, self.hour, self.minute, self.second, 0).ok()?;
        i64::try_from(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_nanosecond()).ok()
    }
}

/// The year of a host time.
pub(crate) fn year_of(t_ns: i64) -> i16 {
    let timestamp = jiff::Timestamp::from_nanosecond(i128::from(t_ns)).unwrap_or_default();
    timestamp.to_zoned(TimeZone::UTC).year()
}

/// Digits as a number; `None` unless all are digits.
pub(crate) fn digits(text: &[u8]) -> Option<i64> {
    let is_number = !text.is_empty() && text.len() <= 18 && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| text.iter().fold(0, |sum, byte| sum * 10 + i64::from(byte - b'0')))
}

/// `YYYY-MM-DDTHH:MM:SS` with a fraction of a second, read as UTC; the second part is true when the text says its zone.
pub(crate) fn iso(text: &str) -> Option<(i64, bool)> {
    if let Ok(timestamp) = text.parse::<jiff::Timestamp>() {
        return Some((i64::try_from(timestamp.as_nanosecond()).ok()?, true));
    }
    let time: DateTime = text.parse().ok()?;
    Some((i64::try_from(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_nanosecond()).ok()?, false))
}

/// `YYYYMMDD-HHMMSS`, with any single separator, anywhere at the start of `text`, read as UTC.
pub(crate) fn compact(text: &[u8]) -> Option<i64> {
    if text.len() < 15 || text[8].is_ascii_digit() {
        return None;
    }
    let date = digits(&text[..8])?;
    let time = digits(&text[9..15])?;
    let civil = Civil {
        month: (date / 100 % 100) as i8,
        day: (date % 100) as i8,
        hour: (time / 10_000) as i8,
        minute: (time / 100 % 100) as i8,
        second: (time % 100) as i8,
    };
    civil.utc_ns((date / 10_000) as i16)
}
