//! Times as traces write them, to nanoseconds: decimal seconds and `2023-11-16 18:17:03.9799600`.

/// Decimal text in units of `unit_ns`, exact to the nanosecond for as many digits as there are. `None` when it is not a
/// plain decimal number or does not fit.
pub(super) fn decimal_ns(text: &str, unit_ns: i64) -> Option<i64> {
    let text = text.trim();
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 18 || !is_plain(whole) || !is_plain(fraction) {
        return exponent_ns(text, unit_ns);
    }
    let mut ns = i128::from(whole.parse::<i64>().ok()?) * i128::from(unit_ns);
    let mut place = i128::from(unit_ns);
    for digit in fraction.bytes().take(18) {
        // Digits below a nanosecond are cut.
        ns += i128::from(digit - b'0') * place / 10;
        place /= 10;
    }
    i64::try_from(if is_negative { -ns } else { ns }).ok()
}

/// `1.5e-3` and the like, through a float.
fn exponent_ns(text: &str, unit_ns: i64) -> Option<i64> {
    let ns = text.parse::<f64>().ok()? * unit_ns as f64;
    (ns.abs() < 9.2e18).then_some(ns as i64)
}

/// A date and time, with `Z` or `+00:00` style offsets or none, nanoseconds since 1970.
pub(super) fn datetime_ns(text: &str) -> Option<i64> {
    let text = text.trim();
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || !(1..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (clock, offset_s) = split_offset(time)?;
    let mut parts = clock.splitn(3, ':');
    let (hour, minute) = (parts.next()?.parse::<i64>().ok()?, parts.next()?.parse::<i64>().ok()?);
    let second_ns = decimal_ns(parts.next()?, 1_000_000_000)?;
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..61_000_000_000).contains(&second_ns) {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 - offset_s;
    seconds.checked_mul(1_000_000_000)?.checked_add(second_ns)
}

/// The clock time and the offset from UTC in seconds.
fn split_offset(time: &str) -> Option<(&str, i64)> {
    if let Some(clock) = time.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(at) = time.rfind(['+', '-']) else { return Some((time, 0)) };
    let (hours, minutes) = time[at + 1..].split_once(':').unwrap_or((&time[at + 1..], "0"));
    let seconds = hours.parse::<i64>().ok()?.checked_mul(3600)?.checked_add(minutes.parse::<i64>().ok()?.checked_mul(60)?)?;
    let is_sane = (0..=86_400).contains(&seconds);
    is_sane.then_some((&time[..at], if time.as_bytes()[at] == b'-' { -seconds } else { seconds }))
}

/// Days of the proleptic Gregorian calendar, counted from March so that leap days come last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(decimal_ns("1777142838.338653", S), Some(1_777_142_838_338_653_000));
        assert_eq!(decimal_ns("27482", 1_000_000), Some(27_482_000_000));
        assert_eq!(decimal_ns("-0.25", S), Some(-250_000_000));
        assert_eq!(decimal_ns("0.1234567899", S), Some(123_456_789));
        assert_eq!(decimal_ns("1.5e-3", S), Some(1_500_000));
        for bad in ["", ".", "x", "1.2.3", "nan", "inf", "1e30", "99999999999999999999999"] {
            assert_eq!(decimal_ns(bad, S), None, "{bad}");
        }
    }

    #[test]
    fn dates_of_the_published_traces() {
        // Seconds from `date -u -d ... +%s`.
        assert_eq!(datetime_ns("2023-11-16 18:17:03.9799600"), Some(1_700_158_623 * S + 979_960_000));
        assert_eq!(datetime_ns("2024-05-10 00:00:00.009930+00:00"), Some(1_715_299_200 * S + 9_930_000));
        assert_eq!(datetime_ns("2024-02-29T12:00:00Z"), Some(1_709_208_000 * S));
        assert_eq!(datetime_ns("1970-01-01 01:30:00+01:30"), Some(0));
        for bad in ["", "2023-11-16", "2023-13-01 00:00:00", "2023-11-16 25:00:00", "2023-11-16 18:17", "a-b-c d:e:f", "1-1-1 1:1:1+99:99"]
        {
            assert_eq!(datetime_ns(bad), None, "{bad}");
        }
    }
}
