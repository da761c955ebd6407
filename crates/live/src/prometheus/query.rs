//! Questions to the HTTP API of Prometheus: paths with their queries.

use std::fmt::Write as _;
use std::time::Duration;

use super::slices::Slice;

const MS_NS: i64 = 1_000_000;

/// Names of all metrics, of a window where one is given.
pub(super) fn names(matchers: &str, window_ns: Option<(i64, i64)>) -> String {
    let mut parts = Vec::new();
    if let Some((start_ns, end_ns)) = window_ns {
        parts.push(format!("start={}&end={}", seconds(start_ns), seconds(end_ns)));
    }
    if !bare(matchers).is_empty() {
        parts.push(format!("match[]={}", encoded(&format!("{{{}}}", bare(matchers)))));
    }
    format!("/api/v1/label/__name__/values{}{}", if parts.is_empty() { "" } else { "?" }, parts.join("&"))
}

/// Samples of a slice: as stored, or at steps.
pub(super) fn samples(selector: &str, slice: Slice, step: Option<Duration>) -> String {
    match step {
        None => {
            let length_ms = (slice.to_ns - slice.from_ns) / MS_NS;
            let range = if length_ms % 1000 == 0 { format!("{}s", length_ms / 1000) } else { format!("{length_ms}ms") };
            format!("/api/v1/query?query={}&time={}", encoded(&format!("{selector}[{range}]")), seconds(slice.to_ns))
        }
        Some(step) => {
            let (from, to) = (seconds(slice.from_ns), seconds(slice.to_ns));
            format!("/api/v1/query_range?query={}&start={from}&end={to}&step={}", encoded(selector), step.as_secs_f64())
        }
    }
}

/// `{__name__=~"a|b",job="vllm",instance=~"c"}`.
pub(super) fn selector(names: &[String], matchers: &str, instances: &[String]) -> String {
    let mut selector = format!("{{__name__=~{}", quoted(&names.join("|")));
    if !bare(matchers).is_empty() {
        let _ = write!(selector, ",{}", bare(matchers));
    }
    if !instances.is_empty() {
        let instances: Vec<String> = instances.iter().map(|instance| literal(instance)).collect();
        let _ = write!(selector, ",instance=~{}", quoted(&instances.join("|")));
    }
    selector.push('}');
    selector
}

/// Cuts a list into lists whose text stays below a limit.
pub(super) fn lists(all: &[String], max_bytes: usize) -> Vec<Vec<String>> {
    let mut lists: Vec<Vec<String>> = Vec::new();
    let mut byte_count = usize::MAX;
    for text in all {
        byte_count = byte_count.saturating_add(text.len() + 1);
        if byte_count > max_bytes {
            lists.push(Vec::new());
            byte_count = text.len();
        }
        if let Some(list) = lists.last_mut() {
            list.push(text.clone());
        }
    }
    lists
}

/// A time for a person.
pub(super) fn shown_time(t_ns: i64) -> String {
    jiff::Timestamp::from_millisecond(t_ns / MS_NS).map_or_else(|_| seconds(t_ns), |time| time.to_string())
}

/// Reads a moment: a date with its zone (`2026-11-30T12:00:00Z`), or decimal epoch seconds. Gives ns since the epoch.
///
/// # Errors
/// Says what was expected.
pub fn parse_time(text: &str) -> Result<i64, String> {
    let seconds = capture::text_time::seconds_to_ns(text.as_bytes());
    let date = || text.parse::<jiff::Timestamp>().ok().and_then(|time| i64::try_from(time.as_nanosecond()).ok());
    let expected = "expected a date with its zone, as in `2026-11-30T12:00:00Z`, or epoch seconds";
    seconds.or_else(date).filter(|t_ns| *t_ns > 0).ok_or_else(|| expected.to_string())
}

/// Matchers without the braces a user may have typed.
fn bare(matchers: &str) -> &str {
    let inner = matchers.trim();
    let inner = inner.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(inner);
    inner.trim().trim_end_matches(',')
}

/// Epoch seconds, to the millisecond.
fn seconds(t_ns: i64) -> String {
    let ms = t_ns.div_euclid(MS_NS);
    format!("{}.{:03}", ms.div_euclid(1000), ms.rem_euclid(1000))
}

/// A regular expression that is this text.
fn literal(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if !(character.is_alphanumeric() || matches!(character, '_' | ':' | '-' | '/')) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'~' | b':') {
            encoded.push(byte as char);
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn selectors_hold_names_labels_and_instances() {
        let names = text(&["vllm:a", "vllm:b_total"]);
        assert_eq!(selector(&names, "", &[]), r#"{__name__=~"vllm:a|vllm:b_total"}"#);
        let instances = text(&["10.0.0.1:8000", "a\"b"]);
        let all = r#"{__name__=~"vllm:a|vllm:b_total",job="x",instance=~"10\\.0\\.0\\.1:8000|a\\\"b"}"#;
        assert_eq!(selector(&names, r#" {job="x",} "#, &instances), all);
    }

    #[test]
    fn raw_samples_are_asked_by_range_and_steps_by_query_range() {
        let slice = Slice { from_ns: 1_000_000_000_000_000_000, to_ns: 1_000_000_000_500_000_000 };
        assert_eq!(samples("{x}", slice, None), "/api/v1/query?query=%7Bx%7D%5B500ms%5D&time=1000000000.500");
        let steps = samples("{x}", slice, Some(Duration::from_millis(250)));
        assert_eq!(steps, "/api/v1/query_range?query=%7Bx%7D&start=1000000000.000&end=1000000000.500&step=0.25");
        assert_eq!(names("", None), "/api/v1/label/__name__/values");
        assert_eq!(names("a=\"b\"", Some((0, 1_000_000))), "/api/v1/label/__name__/values?start=0.000&end=0.001&match[]=%7Ba%3D%22b%22%7D");
    }

    #[test]
    fn moments_are_dates_or_epoch_seconds() {
        assert_eq!(parse_time("1796036013.162"), Ok(1_796_036_013_162_000_000));
        assert_eq!(parse_time("2026-11-30T10:53:33.162Z"), Ok(1_796_036_013_162_000_000));
        assert_eq!(parse_time("2026-11-30T12:53:33.162+02:00"), Ok(1_796_036_013_162_000_000));
        for text in ["", "now", "2026-11-30T10:53:33", "-5", "1e400"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lists_are_cut_by_their_text() {
        let names = text(&["aaaa", "bbbb", "cccc"]);
        assert_eq!(lists(&names, 9), [text(&["aaaa", "bbbb"]), text(&["cccc"])]);
        assert_eq!(lists(&names, 1).len(), 3);
        assert!(lists(&[], 9).is_empty());
    }
}
