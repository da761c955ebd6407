//! Takes the prefix of a log line apart, whatever engine wrote it.

use crate::civil::{Civil, digits};
use crate::engines::log::any_server::rank_of;

/// A time as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) civil: Civil,
    /// `None` where the prefix has none.
    pub(super) year: Option<i16>,
    /// Below the second.
    pub(super) nanos: i64,
    /// The text says UTC.
    pub(super) is_utc: bool,
}

/// A line taken apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prefix<'a> {
    pub(super) stamp: Option<Stamp>,
    pub(super) level: &'a str,
    pub(super) file: &'a str,
    /// `TP0`, `DP1 TP2`, `1`; empty for none.
    pub(super) rank: &'a str,
    pub(super) message: &'a str,
}

/// Takes a line apart; without a known prefix all of it is the message.
pub(super) fn split(line: &str) -> Prefix<'_> {
    let rank = rank_of(line);
    let rest = if rank.is_empty() { line } else { line.split_once(']').map_or(line, |(_, rest)| rest.trim_start_matches([':', ' '])) };
    let found = bracketed(rest).or_else(|| iso(rest)).or_else(|| glog(rest)).or_else(|| tagged(rest));
    let mut prefix = found.unwrap_or(Prefix { message: line, ..Prefix::default() });
    if !rank.is_empty() {
        prefix.rank = rank;
    }
    prefix
}

/// `[2025-07-16 01:10:47 DP0 TP0] message`, `[07/16/2025-01:10:47] [TRT-LLM] [RANK 0] [I] message`.
fn bracketed(line: &str) -> Option<Prefix<'_>> {
    let (inside, message) = line.strip_prefix('[')?.split_once(']')?;
    if let Some((stamp, rest)) = date_time(inside) {
        let rank = rest.trim();
        let is_rank = rank.len() < 40
            && rank
                .split(' ')
                .all(|part| part.len() >= 3 && part.as_bytes()[..2].is_ascii() && part.ends_with(|c: char| c.is_ascii_digit()));
        let rank = if is_rank { rank } else { "" };
        return Some(Prefix { stamp: Some(stamp), rank, message: message.trim_start(), ..Prefix::default() });
    }
    let stamp = american(inside)?;
    let mut prefix = tagged(message.trim_start()).unwrap_or(Prefix { message: message.trim_start(), ..Prefix::default() });
    prefix.stamp = Some(stamp);
    Some(prefix)
}

/// `[TRT-LLM] [RANK 0] [I] message`, `[TensorRT-LLM][INFO] message`.
fn tagged(line: &str) -> Option<Prefix<'_>> {
    let mut rest = line.strip_prefix("[TRT-LLM]").or_else(|| line.strip_prefix("[TensorRT-LLM]"))?;
    let mut prefix = Prefix::default();
    while let Some((tag, after)) = rest.trim_start().strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        match tag {
            "I" | "INFO" => prefix.level = "INFO",
            "W" | "WARNING" => prefix.level = "WARNING",
            "E" | "ERROR" => prefix.level = "ERROR",
            "D" | "V" | "DEBUG" => prefix.level = "DEBUG",
            _ => match tag.strip_prefix("RANK ") {
                Some(rank) if rank.len() < 6 => prefix.rank = rank,
                _ => break,
            },
        }
        rest = after;
    }
    prefix.message = rest.trim_start();
    Some(prefix)
}

/// `2025-07-16T01:10:47.123456Z  INFO message`, `2025-07-16 01:10:47,123 - INFO - message`.
fn iso(line: &str) -> Option<Prefix<'_>> {
    let (stamp, rest) = date_time(line)?;
    let rest = rest.trim_start_matches([' ', '-', '|']);
    let levels = ["INFO", "WARNING", "WARN", "ERROR", "DEBUG"];
    let level = levels.into_iter().find(|level| rest.starts_with(level)).unwrap_or_default();
    let message = rest[level.len()..].trim_start_matches([' ', '-', ':', '|']);
    Some(Prefix { stamp: Some(stamp), level, message, ..Prefix::default() })
}

/// `W0716 01:10:47.676000 567101 torch/_dynamo/convert_frame.py:984] message`.
fn glog(line: &str) -> Option<Prefix<'_>> {
    let bytes = line.as_bytes();
    let level = match bytes.first()? {
        b'I' => "INFO",
        b'W' => "WARNING",
        b'E' => "ERROR",
        _ => return None,
    };
    if bytes.len() < 15 || bytes[5] != b' ' || !bytes[..14].is_ascii() {
        return None;
    }
    let (month, day) = (digits(&bytes[1..3])?, digits(&bytes[3..5])?);
    let (hour, minute, second) = clock(&bytes[6..14])?;
    let civil = Civil { month: month as i8, day: day as i8, hour, minute, second };
    let (nanos, _) = fraction(&line[14..]);
    let (head, message) = line.split_once("] ").unwrap_or((line, line));
    let file =
        head.split_whitespace().last().and_then(|place| place.split(':').next()).filter(|file| file.contains(".py")).unwrap_or_default();
    Some(Prefix { stamp: Some(Stamp { civil, year: None, nanos, is_utc: false }), level, file, message, ..Prefix::default() })
}

/// `2025-07-16 01:10:47[.123|,123][Z]` at the start of a text, and what follows.
fn date_time(text: &str) -> Option<(Stamp, &str)> {
    let bytes = text.as_bytes();
    let is_shaped = bytes.len() >= 19 && bytes[..19].is_ascii() && bytes[4] == b'-' && bytes[7] == b'-' && matches!(bytes[10], b' ' | b'T');
    is_shaped.then_some(())?;
    let (year, month, day) = (digits(&bytes[..4])?, digits(&bytes[5..7])?, digits(&bytes[8..10])?);
    let (hour, minute, second) = clock(&bytes[11..19])?;
    let civil = Civil { month: month as i8, day: day as i8, hour, minute, second };
    let (nanos, rest) = fraction(&text[19..]);
    let (is_utc, rest) = rest.strip_prefix('Z').or_else(|| rest.strip_prefix("+00:00")).map_or((false, rest), |rest| (true, rest));
    Some((Stamp { civil, year: Some(year as i16), nanos, is_utc }, rest))
}

/// `07/16/2025-01:10:47`.
fn american(text: &str) -> Option<Stamp> {
    let bytes = text.as_bytes();
    let is_shaped = bytes.len() == 19 && text.is_ascii() && bytes[2] == b'/' && bytes[5] == b'/' && bytes[10] == b'-';
    is_shaped.then_some(())?;
    let (month, day, year) = (digits(&bytes[..2])?, digits(&bytes[3..5])?, digits(&bytes[6..10])?);
    let (hour, minute, second) = clock(&bytes[11..19])?;
    let civil = Civil { month: month as i8, day: day as i8, hour, minute, second };
    Some(Stamp { civil, year: Some(year as i16), nanos: 0, is_utc: false })
}

/// `01:10:47`.
fn clock(bytes: &[u8]) -> Option<(i8, i8, i8)> {
    if bytes[2] != b':' || bytes[5] != b':' {
        return None;
    }
    let two = |at: usize| digits(&bytes[at..at + 2]).map(|value| value as i8);
    Some((two(0)?, two(3)?, two(6)?))
}

/// Nanoseconds of `.123456` or `,123`, and what follows.
fn fraction(text: &str) -> (i64, &str) {
    let Some(rest) = text.strip_prefix(['.', ',']) else { return (0, text) };
    let count = rest.bytes().take_while(u8::is_ascii_digit).count();
    let kept = count.min(9);
    let Some(value) = digits(&rest.as_bytes()[..kept]) else { return (0, text) };
    (value * 10_i64.pow(9 - kept as u32), &rest[count..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, time: &str, level: &str, rank: &str, message: &str) {
        let found = split(line);
        let shown = found.stamp.map_or(String::new(), |stamp| {
            let it = stamp.civil;
            let year = stamp.year.map_or("----".to_string(), |year| year.to_string());
            let zone = if stamp.is_utc { "Z" } else { "" };
            format!("{year}-{:02}-{:02} {:02}:{:02}:{:02}.{:09}{zone}", it.month, it.day, it.hour, it.minute, it.second, stamp.nanos)
        });
        assert_eq!((shown.as_str(), found.level, found.rank, found.message), (time, level, rank, message), "{line}");
    }

    #[test]
    fn prefixes_of_every_engine_are_taken_apart() {
        check("[2025-03-07 21:49:33 TP13] m, n", "2025-03-07 21:49:33.000000000", "", "TP13", "m, n");
        check("[2025-03-07 21:49:33 DP1 TP2] m", "2025-03-07 21:49:33.000000000", "", "DP1 TP2", "m");
        check("[2025-03-07 21:49:33] m", "2025-03-07 21:49:33.000000000", "", "", "m");
        check("[01/16/2026-06:20:17] [TRT-LLM] [RANK 0] [I] m", "2026-01-16 06:20:17.000000000", "INFO", "0", "m");
        check("[01/16/2026-06:20:17] [TRT-LLM] [W] m", "2026-01-16 06:20:17.000000000", "WARNING", "", "m");
        check("[TensorRT-LLM][INFO] [MemUsageChange] m", "", "INFO", "", "[MemUsageChange] m");
        check("2024-07-16T01:10:47.123456Z  INFO m", "2024-07-16 01:10:47.123456000Z", "INFO", "", "m");
        check("2024-07-16 01:10:47,123 - WARNING - m", "2024-07-16 01:10:47.123000000", "WARNING", "", "m");
        check(
            "[rank1]:W0716 01:10:47.676000 567101 torch/_dynamo/convert_frame.py:984] [0/8] m",
            "-----07-16 01:10:47.676000000",
            "WARNING",
            "1",
            "[0/8] m",
        );
        for line in ["", "[", "[é", "slot 0 : m", "[2025-03-07 21:49", "W0716 01:1é", "[TRT-LLM] [", "2025-99-99T99:99:99"] {
            let _ = split(line);
        }
        check("slot 0 : m", "", "", "", "slot 0 : m");
    }
}
