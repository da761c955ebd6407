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

/// `02:31:07Z`.
pub fn time_with_seconds(time_ns: i64) -> String {
    write(time_ns, "%H:%M:%SZ")
}

/// `2026-07-14 02:31Z`.
pub fn date_time(time_ns: i64) -> String {
    write(time_ns, "%Y-%m-%d %H:%MZ")
}

/// The times of one sentence: with their dates when they lie on more than one day.
pub fn same_day(times_ns: &[i64]) -> Vec<String> {
    let days: Vec<i64> = times_ns.iter().map(|time_ns| time_ns.div_euclid(86_400_000_000_000)).collect();
    let write = if days.windows(2).all(|pair| pair[0] == pair[1]) { time } else { date_time };
    times_ns.iter().map(|time_ns| write(*time_ns)).collect()
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
        assert_eq!(time_with_seconds(TWO_THIRTY_ONE_NS + 7_000_000_000), "02:31:07Z");
        assert_eq!(date_time(i64::MAX), "2262-04-11 23:47Z");
    }

    #[test]
    fn dates_appear_when_the_day_changes() {
        let before_midnight_ns = TWO_THIRTY_ONE_NS - 3 * 3_600_000_000_000;
        assert_eq!(same_day(&[TWO_THIRTY_ONE_NS, TWO_THIRTY_ONE_NS + 1]), ["02:31Z", "02:31Z"]);
        assert_eq!(same_day(&[before_midnight_ns, TWO_THIRTY_ONE_NS]), ["2026-07-13 23:31Z", "2026-07-14 02:31Z"]);
    }

    #[test]
    fn a_trace_that_starts_at_zero_has_no_wall_time() {
        assert!(!is_wall_time(0) && !is_wall_time(84_487_178) && !is_wall_time(-5));
        assert!(is_wall_time(TWO_THIRTY_ONE_NS));
    }
}
