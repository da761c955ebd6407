//! Figures: every number a person reads is written here and nowhere else.
//!
//! Three significant digits, the unit that suits the size (`12.8 ms`, `2.51 s`), whole percent, thousands separators.
//! Rounding happens before the unit is chosen, so 999.7 ms reads `1.00 s`. What is not finite reads `unknown`: a view never
//! shows NaN. Clock times are in `clock.rs`.

use std::borrow::Cow;

use crate::clean;

/// What stands where a figure is not a number.
pub const UNKNOWN: &str = "unknown";

/// Characters of a unit nobody foresaw.
const UNIT_LIMIT: usize = 16;

/// A bare number: three significant digits, whole numbers from 1,000 on.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    if value != 0.0 && value.abs() < 1e-4 { format!("{value:.2e}") } else { fixed(value, decimals(value)) }
}

/// A whole number with thousands separators.
pub fn count(value: u64) -> String {
    group(&value.to_string())
}

/// A value with its unit, scaled: base units in (`s`, `byte/s`, `ratio`, ...), `12.8 ms`, `3.35 TB/s`, `42 %` out.
pub fn quantity(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    match unit {
        "ratio" => share(value),
        "flag" => if value == 0.0 { "no" } else { "yes" }.to_owned(),
        _ => {
            let scale = Scale::of(unit, value);
            scale.attach(&scale.figure(value))
        }
    }
}

/// Seconds: `12.8 ms`, `2.51 s`.
pub fn seconds(value_s: f64) -> String {
    quantity(value_s, "s")
}

/// Nanoseconds as seconds.
pub fn nanoseconds(value_ns: i64) -> String {
    seconds(value_ns as f64 / 1e9)
}

/// A length of time as people say it: `840 ms`, `1.20 s`, `74 s`, `10 min`, `2 h 5 min`, `3 d 4 h`.
pub fn duration(value_s: f64) -> String {
    if !value_s.is_finite() || value_s < 0.0 {
        return UNKNOWN.to_owned();
    }
    if value_s < 9.95 {
        return seconds(value_s);
    }
    let whole_s = value_s.round() as u64;
    let (minutes, hours) = ((whole_s + 30) / 60, (whole_s + 1800) / 3600);
    match whole_s {
        0..120 => format!("{whole_s} s"),
        120..7_200 => format!("{minutes} min"),
        7_200..172_800 if minutes.is_multiple_of(60) => format!("{} h", minutes / 60),
        7_200..172_800 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ if hours.is_multiple_of(24) => format!("{} d", count(hours / 24)),
        _ => format!("{} d {} h", count(hours / 24), hours % 24),
    }
}

/// A share of a whole, 0 to 1, in whole percent; `under 1 %` and `over 99 %` where rounding would claim none or all.
pub fn share(value: f64) -> String {
    match percent(value) {
        None => UNKNOWN.to_owned(),
        Some(0) if value > 0.0 => "under 1 %".to_owned(),
        Some(100) if value < 1.0 => "over 99 %".to_owned(),
        Some(whole) => format!("{} %", fixed(whole as f64, 0)),
    }
}

/// The same for a column of a table: `<1 %`, `>99 %`, `?`.
pub fn share_cell(value: f64) -> String {
    share(value).replace("under ", "<").replace("over ", ">").replace(UNKNOWN, "?")
}

/// A low and a high share: `93..98 %`.
pub fn share_range(range: [f64; 2]) -> String {
    match (percent(range[0]), percent(range[1])) {
        (Some(low), Some(high)) if low == high => share(f64::midpoint(range[0], range[1])),
        (Some(low), Some(high)) => format!("{low}..{high} %"),
        _ => UNKNOWN.to_owned(),
    }
}

/// A small share that matters to a tenth: `0.6 %`, `12 %`.
pub fn fine_share(value: f64) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    let percent = value * 100.0;
    let digits = if percent.abs() >= 9.95 { 0 } else { decimals(percent).min(1) };
    match percent {
        0.0 => "0 %".to_owned(),
        _ if percent.abs() < 0.05 => "under 0.1 %".to_owned(),
        _ => format!("{} %", fixed(percent, digits)),
    }
}

/// A low and a high value in one unit: `12.4..14.0 ms`, `0..0.05 s`.
pub fn range(range: [f64; 2], unit: &str) -> String {
    movement(None, Some(range), unit).to.unwrap_or_default()
}

/// The upper end of a range, without idle zeros: `16 ms`.
pub fn upper(value: f64, unit: &str) -> String {
    let text = quantity(value, unit);
    let end = text.find(|sign: char| !matches!(sign, '0'..='9' | '.' | ',' | '-')).unwrap_or(text.len());
    let (figure, unit) = text.split_at(end);
    if figure.contains('.') { format!("{}{unit}", figure.trim_end_matches('0').trim_end_matches('.')) } else { text }
}

/// An interval of a ratio: `0.04..0.12`, `0.98`.
pub fn ratio_range(range: [f64; 2]) -> String {
    if range.iter().all(|end| end.is_finite()) { interval(range, &Scale::of("", 1.0), Some(2)) } else { UNKNOWN.to_owned() }
}

/// A part in the unit and precision of its whole: `0.03 s` of `5.69 s`; `<0.01 s` where that would read as nothing.
pub fn part_of(value: f64, whole: f64, unit: &str) -> String {
    if !value.is_finite() || !whole.is_finite() || whole == 0.0 {
        return quantity(value, unit);
    }
    let scale = Scale::of(unit, whole);
    let digits = decimals(whole / scale.per);
    let smallest = 0.1f64.powi(i32::try_from(digits).unwrap_or(9));
    match value / scale.per {
        0.0 => scale.attach("0"),
        scaled if scaled > 0.0 && scaled < smallest / 2.0 => format!("<{}", scale.attach(&fixed(smallest, digits))),
        scaled => scale.attach(&fixed(scaled, digits)),
    }
}

/// A value that becomes an interval, both ends written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Movement {
    /// Before, with unit.
    pub from: Option<String>,
    /// After: `0.10..0.20 s`.
    pub to: Option<String>,
}

/// Writes a movement in one unit and to one precision, so that both sides compare at a glance; a side a hundred times larger than
/// the other keeps its own unit.
pub fn movement(from: Option<f64>, to: Option<[f64; 2]>, unit: &str) -> Movement {
    let finite_to = to.filter(|[low, high]| low.is_finite() && high.is_finite());
    let from_text = |scale: &Scale, value: f64| match unit {
        "ratio" | "flag" => quantity(value, unit),
        _ => scale.attach(&scale.figure(value)),
    };
    let Some([low, high]) = finite_to else {
        return Movement { from: from.map(|value| quantity(value, unit)), to: to.map(|_| UNKNOWN.to_owned()) };
    };
    let size = low.abs().max(high.abs());
    let Some(from) = from else {
        return Movement { from: None, to: Some(interval([low, high], &Scale::of(unit, size), None)) };
    };
    if !from.is_finite() {
        return Movement { from: Some(UNKNOWN.to_owned()), to: Some(interval([low, high], &Scale::of(unit, size), None)) };
    }
    let far_apart = from != 0.0 && size != 0.0 && !(0.01..=100.0).contains(&(size / from.abs()));
    let (before, after) = if far_apart {
        (Scale::of(unit, from), Scale::of(unit, size))
    } else {
        (Scale::of(unit, from.abs().max(size)), Scale::of(unit, from.abs().max(size)))
    };
    let precision = (!far_apart && from != 0.0).then(|| if unit == "ratio" { 0 } else { decimals(from / before.per) });
    Movement { from: Some(from_text(&before, from)), to: Some(interval([low, high], &after, precision)) }
}

/// An interval in a given scale. `precision` is the other side's; digits are added until the ends differ and the high end is not 0.
fn interval(range: [f64; 2], scale: &Scale, precision: Option<usize>) -> String {
    let [low, high] = range.map(|value| value / scale.per);
    let size = low.abs().max(high.abs());
    let counted = scale.whole && low.fract() == 0.0 && high.fract() == 0.0;
    let own = if scale.per == 0.01 || counted { 0 } else { decimals(size) };
    let mut digits = precision.map_or(own, |other| other.min(own));
    let finest = decimals(size) + 1;
    while digits < finest && (fixed(size, digits) == fixed(0.0, digits) || low != high && fixed(low, digits) == fixed(high, digits)) {
        digits += 1;
    }
    let write = |value: f64| {
        let text = fixed(value, digits);
        if text.bytes().all(|byte| matches!(byte, b'0' | b'.')) { "0".to_owned() } else { text }
    };
    let (low, high) = (write(low), write(high));
    scale.attach(&if low == high { high } else { format!("{low}..{high}") })
}

/// A unit at the size that suits a value.
struct Scale {
    /// Base units in one of these.
    per: f64,
    /// What is written behind the figure.
    name: Cow<'static, str>,
    /// Whole values are things that are counted: no decimals.
    whole: bool,
}

impl Scale {
    fn of(unit: &str, size: f64) -> Self {
        const TIMES: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
        const BYTES: [(f64, &str); 5] =
            [(1_099_511_627_776.0, "TiB"), (1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1024.0, "KiB"), (1.0, "B")];
        const BYTE_RATES: [(f64, &str); 5] = [(1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")];
        const CLOCKS: [(f64, &str); 4] = [(1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")];
        let pick = |steps: &[(f64, &'static str)], whole| {
            let zero_step = steps.iter().find(|(per, _)| *per == 1.0).or(steps.last());
            let step = if size == 0.0 { zero_step } else { steps.iter().find(|(per, _)| reaches_one(size / per)).or(steps.last()) };
            let (per, name) = step.copied().unwrap_or((1.0, ""));
            Self { per, name: name.into(), whole: whole && per == 1.0 }
        };
        let plain = |name: &'static str, whole| Self { per: 1.0, name: name.into(), whole };
        match unit {
            "s" => pick(&TIMES, false),
            "byte" => pick(&BYTES, true),
            "byte/s" => pick(&BYTE_RATES, true),
            "Hz" => pick(&CLOCKS, true),
            "ratio" => Self { per: 0.01, name: "%".into(), whole: false },
            "token/s" => plain("tok/s", false),
            "request/s" => plain("req/s", false),
            "token" => plain("tokens", true),
            "request" => plain("requests", true),
            "request_s" => plain("request-seconds", true),
            "degC" => plain("°C", true),
            "factor" => plain("x", false),
            "count" | "text" | "flag" => plain("", true),
            "W" => plain("W", true),
            "rpm" => plain("rpm", true),
            _ => Self { per: 1.0, name: clean::name(unit, UNIT_LIMIT).into(), whole: false },
        }
    }

    /// A value in base units as the figure before the unit.
    fn figure(&self, value: f64) -> String {
        let scaled = value / self.per;
        if self.whole && scaled.fract() == 0.0 { fixed(scaled, 0) } else { number(scaled) }
    }

    /// Writes the unit behind a figure; a factor's `x` stands close, one thing is singular.
    fn attach(&self, figure: &str) -> String {
        match self.name.as_ref() {
            "" => figure.to_owned(),
            "x" => format!("{figure}x"),
            "tokens" | "requests" if figure == "1" => format!("1 {}", self.name.trim_end_matches('s')),
            name => format!("{figure} {name}"),
        }
    }
}

/// Whether a value reads as 1 or more once it is rounded to three digits.
fn reaches_one(value: f64) -> bool {
    value.abs() >= 0.9995
}

/// Whole percent of a finite share.
fn percent(share: f64) -> Option<i64> {
    share.is_finite().then(|| (share * 100.0).round() as i64)
}

/// Decimals that give three significant digits after rounding; none from 100 on.
fn decimals(value: f64) -> usize {
    let exponent = format!("{value:.2e}").split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok()).unwrap_or(0);
    if value == 0.0 { 0 } else { (2 - exponent).clamp(0, 9) as usize }
}

/// Fixed decimals with thousands separators; powers of ten where no column is wide enough.
fn fixed(value: f64, digits: usize) -> String {
    if value.abs() >= 1e15 {
        return format!("{value:.2e}");
    }
    let text = format!("{value:.digits$}");
    let negative = text.starts_with('-') && text.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    let text = text.trim_start_matches('-');
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    format!("{}{}{rest}", if negative { "-" } else { "" }, group(whole))
}

/// Puts a comma before every third digit from the end.
fn group(digits: &str) -> String {
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests;
