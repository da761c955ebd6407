//! What a file's name or a URL says: replica, time, position in a series.

use crate::builder::ScrapeTime;

/// A name taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Naming {
    /// File name without folders and extensions.
    pub(crate) stem: String,
    /// The stem without its number.
    pub(crate) base: String,
    /// Replica, for a small number without leading zeros.
    pub(crate) replica: Option<String>,
    /// Time, for an epoch number or a date.
    pub(crate) time: ScrapeTime,
    /// Number of a series, for anything else.
    pub(crate) number: Option<u64>,
}

/// Extensions that say nothing about the content.
const EXTENSIONS: &[&str] =
    &["gz", "txt", "log", "prom", "prometheus", "metrics", "json", "jsonl", "ndjson", "csv", "out", "toml", "conf", "om", "zst"];

/// The name under which a source stands in the manifest: a URL without its credentials, without secrets in its query.
pub(crate) fn source_name(name: &str) -> String {
    let bare = match name.split_once("://") {
        Some((scheme, rest)) => {
            let host_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let host_start = rest[..host_end].rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[host_start..])
        }
        None => name.to_string(),
    };
    crate::secrets::redact(&bare).into_owned()
}

/// Reads a source name.
pub(crate) fn of(name: &str) -> Naming {
    if let Some((_, rest)) = name.split_once("://") {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        return Naming { stem: host.to_string(), base: host.to_string(), replica: Some(host.to_string()), ..Naming::default() };
    }
    let mut stem = name.rsplit('/').next().unwrap_or_default();
    while let Some((shorter, extension)) = stem.rsplit_once('.') {
        if shorter.is_empty() || !EXTENSIONS.contains(&extension) {
            break;
        }
        stem = shorter;
    }
    let mut naming = Naming { stem: stem.to_string(), base: stem.to_string(), ..Naming::default() };
    if let Some((base, time)) = time_in(stem) {
        naming.base = base;
        naming.time = ScrapeTime::At(time);
        return naming;
    }
    let digits_from = stem.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (base, digits) = stem.split_at(digits_from);
    let Some(number) = digits.parse::<u64>().ok().filter(|_| digits.len() < 9) else { return naming };
    naming.base = base.trim_end_matches(['-', '_', '.']).to_string();
    let is_plain = digits.len() <= 2 && (digits.len() == 1 || !digits.starts_with('0'));
    let is_separated = base.ends_with(['-', '_', '.']);
    if is_plain && is_separated {
        naming.replica = Some(number.to_string());
    } else {
        naming.number = Some(number);
    }
    naming
}

/// An epoch number of 10, 13, 16 or 19 digits, or `YYYYMMDD?HHMMSS`, and the stem without it.
fn time_in(stem: &str) -> Option<(String, i64)> {
    let bytes = stem.as_bytes();
    for (at, _) in stem.char_indices() {
        if at > 0 && bytes[at - 1].is_ascii_digit() {
            continue;
        }
        let count = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = &bytes[at..at + count];
        let power = match count {
            10 => Some(9),
            13 => Some(6),
            16 => Some(3),
            19 => Some(0),
            _ => None,
        };
        if let Some(power) = power
            && let Some(time) = capture::text_time::scaled_to_ns(digits, power).filter(|time| *time > 1_000_000_000_000_000_000)
        {
            return Some((stem[..at].trim_end_matches(['-', '_', '.']).to_string(), time));
        }
        if count == 8
            && let Some(time) = crate::civil::compact(&bytes[at..])
        {
            return Some((stem[..at].trim_end_matches(['-', '_', '.']).to_string(), time));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_replica_time_and_order() {
        for (name, base, replica, time, number) in [
            ("a/metrics-1.prom.gz", "metrics", Some("1"), ScrapeTime::Unknown, None),
            ("metrics.prom", "metrics", None, ScrapeTime::Unknown, None),
            ("server-0.log.gz", "server", Some("0"), ScrapeTime::Unknown, None),
            ("bench-01.json.gz", "bench", None, ScrapeTime::Unknown, Some(1)),
            ("bench-64.json.gz", "bench", Some("64"), ScrapeTime::Unknown, None),
            ("scrape_1796036625.prom", "scrape", None, ScrapeTime::At(1_796_036_625_000_000_000), None),
            ("scrape_1796036625429.txt", "scrape", None, ScrapeTime::At(1_796_036_625_429_000_000), None),
            ("m-20261130-110345.prom", "m", None, ScrapeTime::At(1_796_036_625_000_000_000), None),
            ("scrape-0003.prom", "scrape", None, ScrapeTime::Unknown, Some(3)),
            ("llama3", "llama", None, ScrapeTime::Unknown, Some(3)),
        ] {
            let naming = of(name);
            assert_eq!(
                (naming.base.as_str(), naming.replica.as_deref(), naming.time, naming.number),
                (base, replica, time, number),
                "{name}"
            );
        }
        assert_eq!(source_name("http://user:pw@10.0.0.1:8000/metrics?token=x"), "http://10.0.0.1:8000/metrics?token=<redacted>");
        assert_eq!(of("http://user:pw@10.0.0.1:8000/metrics").replica.as_deref(), Some("10.0.0.1:8000"));
    }
}
