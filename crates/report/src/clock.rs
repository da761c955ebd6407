//! Clock times for people, always UTC and marked `Z`.
//!
//! Sources without a wall clock count from an arbitrary zero; times before 1971 are taken for such and are not written.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// One year after the epoch: anything earlier is no wall-clock time.
const EARLIEST_NS: i64 = 365 * 86_400 * 1_000_000_000;

/// Whether the value is a wall-clock time.
pub fn is_wall_time(time_ns: i64) -> bool {
    time_ns >= EARLIEST_NS
}

/// `02:31Z`.
pub fn time(time_ns: i64) -> String {
    write(time_ns, "%H:%MZ")
}

/// `2026-07-14 02:31Z`.
pub fn date_time(time_ns: i64) -> String {
    write(time_ns, "%Y-%m-%d %H:%MZ")
}

/// The times of one sentence: with their dates when they lie on more than one day, with seconds when they lie close together.
pub fn together(times_ns: &[i64]) -> Vec<String> {
    times_ns.iter().map(|time_ns| write(*time_ns, format_of(times_ns))).collect()
}

/// A span with its date: `2026-07-14 02:48Z to 02:58Z`.
pub fn dated_span(start_ns: i64, end_ns: i64) -> String {
    let format = format_of(&[start_ns, end_ns]);
    let date = if format.starts_with("%Y") { "" } else { "%Y-%m-%d " };
    format!("{} to {}", write(start_ns, &format!("{date}{format}")), write(end_ns, format))
}

/// Times less far apart than this are told apart by seconds.
const CLOSE_NS: i64 = 600_000_000_000;

fn format_of(times_ns: &[i64]) -> &'static str {
    let (first, last) = (times_ns.iter().min().copied().unwrap_or(0), times_ns.iter().max().copied().unwrap_or(0));
    let day = |time_ns: i64| time_ns.div_euclid(86_400_000_000_000);
    match (day(first) == day(last), last.saturating_sub(first)) {
        (false, _) => "%Y-%m-%d %H:%MZ",
        (true, 1..CLOSE_NS) => "%H:%M:%SZ",
        (true, _) => "%H:%MZ",
    }
}

fn write(time_ns: i64, format: &str) -> String {
    Timestamp::from_nanosecond(i128::from(time_ns))
        .map(|time| time.to_zoned(TimeZone::UTC).strftime(format).to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_THIRTY_ONE_NS: i64 = 1_783_996_260_000_000_000;

    #[test]
    fn times_are_utc_and_say_so() {
        assert_eq!(time(TWO_THIRTY_ONE_NS), "02:31Z");
        assert_eq!(date_time(TWO_THIRTY_ONE_NS + 59_999_999_999), "2026-07-14 02:31Z");
        assert_eq!(date_time(i64::MAX), "2262-04-11 23:47Z");
    }

    #[test]
    fn dates_appear_when_the_day_changes() {
        let before_midnight_ns = TWO_THIRTY_ONE_NS - 3 * 3_600_000_000_000;
        assert_eq!(together(&[TWO_THIRTY_ONE_NS, TWO_THIRTY_ONE_NS + CLOSE_NS]), ["02:31Z", "02:41Z"]);
        assert_eq!(together(&[before_midnight_ns, TWO_THIRTY_ONE_NS]), ["2026-07-13 23:31Z", "2026-07-14 02:31Z"]);
    }

    #[test]
    fn times_close_together_show_seconds() {
        assert_eq!(together(&[TWO_THIRTY_ONE_NS, TWO_THIRTY_ONE_NS + 79_000_000_000]), ["02:31:00Z", "02:32:19Z"]);
        assert_eq!(together(&[TWO_THIRTY_ONE_NS, TWO_THIRTY_ONE_NS]), ["02:31Z", "02:31Z"]);
        assert_eq!(dated_span(TWO_THIRTY_ONE_NS, TWO_THIRTY_ONE_NS + 79_000_000_000), "2026-07-14 02:31:00Z to 02:32:19Z");
        assert_eq!(dated_span(TWO_THIRTY_ONE_NS, TWO_THIRTY_ONE_NS + CLOSE_NS), "2026-07-14 02:31Z to 02:41Z");
        assert_eq!(dated_span(TWO_THIRTY_ONE_NS, TWO_THIRTY_ONE_NS + 144 * CLOSE_NS), "2026-07-14 02:31Z to 2026-07-15 02:31Z");
    }

    #[test]
    fn a_trace_that_starts_at_zero_has_no_wall_time() {
        assert!(!is_wall_time(0) && !is_wall_time(84_487_178) && !is_wall_time(-5));
        assert!(is_wall_time(TWO_THIRTY_ONE_NS));
    }
}
