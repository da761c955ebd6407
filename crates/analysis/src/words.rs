//! Numbers in sentences: three significant digits, a unit people use, never cut.

/// Seconds as `2.40 s`, `12.8 ms`, `150 us`.
pub fn seconds(s: f64) -> String {
    let size = s.abs();
    if size >= 100.0 {
        format!("{s:.0} s")
    } else if size >= 1.0 || size == 0.0 {
        format!("{} s", digits(s))
    } else if size >= 1e-3 {
        format!("{} ms", digits(s * 1e3))
    } else {
        format!("{} us", digits(s * 1e6))
    }
}

/// Three significant digits, plain notation: `12.8`, `0.167`, `1230`.
pub fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let places = (2 - magnitude).clamp(0, 6) as usize;
    let text = format!("{value:.places$}");
    // Rounding may have added a digit: 9.996 becomes 10.00, which has one too many.
    if text.parse::<f64>().is_ok_and(|rounded| rounded.abs() >= 10f64.powi(magnitude + 1)) && places > 0 {
        let places = places - 1;
        return format!("{value:.places$}");
    }
    text
}

/// A share as `97 %`, `under 1 %`, `0 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.5 {
        "under 1 %".into()
    } else if percent.abs() < 0.5 {
        "0 %".into()
    } else {
        format!("{percent:.0} %")
    }
}

/// What is left of a share in use, never rounded up to all of it: `91 %`, `over 99 %`.
pub fn left_of(used: f64) -> String {
    if used > 0.0 && used < 0.005 { "over 99 %".into() } else { percent(1.0 - used) }
}

/// A count with thousands separators: `5,640`.
pub fn count(value: f64) -> String {
    let text = format!("{:.0}", value.abs());
    let mut grouped = String::new();
    for (at, digit) in text.chars().enumerate() {
        if at > 0 && (text.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if value < 0.0 { format!("-{grouped}") } else { grouped }
}

/// `1 request`, `3 requests`.
pub fn plural(value: f64, noun: &str) -> String {
    let ending = match (value - 1.0).abs() < 0.5 {
        true => "",
        false if noun.ends_with("ch") => "es",
        false => "s",
    };
    format!("{} {noun}{ending}", count(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_like_a_person_wrote_them() {
        let table = [
            (2.4, "2.40 s"),
            (0.0128, "12.8 ms"),
            (0.000_15, "150 us"),
            (123.4, "123 s"),
            (0.0, "0 s"),
            (9.996, "10.0 s"),
            (0.9996, "1000 ms"),
        ];
        for (value, text) in table {
            assert_eq!(seconds(value), text, "{value}");
        }
        assert_eq!(percent(0.004), "under 1 %");
        assert_eq!(count(5640.0), "5,640");
        assert_eq!(count(1_234_567.0), "1,234,567");
        assert_eq!(plural(1.0, "seat"), "1 seat");
        assert_eq!(plural(2.0, "batch"), "2 batches");
    }
}
