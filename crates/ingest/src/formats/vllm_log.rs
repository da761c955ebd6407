//! vLLM's server log: prefix, times, and the year and zone the log does not tell.
//!
//! A line reads `(APIServer pid=1) INFO 11-30 11:03:39 [loggers.py:335] message`; older versions lack the process or the
//! bracket, wrappers put their own text before it, progress bars rewrite theirs with carriage returns. Lines that are
//! none of ours cost one scan. Times are kept as UTC until the end, then all rows move by the shift that `clocks.rs`
//! finds.

use std::borrow::Cow;

use capture::Severity;

use crate::builder::Builder;
use crate::civil::Civil;
use crate::clocks::SECOND_NS;
use crate::engines::log::{LogState, Message, any_server};
use crate::engines::vllm_log;
use crate::formats::log_clock::{self, LogTimes, NO_YEAR};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "vllm_log", stage: Stage::Floating, sniff, read };

/// vLLM's interval between periodic lines.
const PERIOD_NS: i64 = 10 * SECOND_NS;
/// Longest start-up line that is looked at.
const MAX_MESSAGE_BYTES: usize = 256 << 10;

fn sniff(probe: &Probe<'_>) -> Confidence {
    if matches!(probe.first_byte(), None | Some(b'{' | b'<')) {
        return Confidence::No;
    }
    if !vllm_log::is_vllm(probe.head) {
        let is_of_its_form = probe.lines().take(200).any(|line| has_its_form(&without_colors(&String::from_utf8_lossy(line))));
        return if is_of_its_form { Confidence::Likely } else { Confidence::No };
    }
    let stamped = probe.lines().take(200).filter(|line| split(&String::from_utf8_lossy(line)).stamp.is_some()).count();
    if stamped > 0 { Confidence::Sure } else { Confidence::Likely }
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let mut reader = LogReader::new(builder);
    each_line(input, |line, number| reader.line(line, number, builder));
    reader.finish(builder);
}

/// Lines of a server's log, without colors, each with its number: of a progress bar every state behind a carriage return.
/// Left out are the web server's own lines, which tell nothing here and are most of a busy log, and lines past a limit.
pub(crate) fn each_line(input: &mut Input<'_>, mut take: impl FnMut(&str, u64)) {
    while let Some(line) = input.next_line() {
        if line.bytes.len() > MAX_MESSAGE_BYTES || line.bytes.starts_with(b"INFO:  ") {
            continue;
        }
        for part in line.bytes.split(|byte| *byte == b'\r').filter(|part| part.len() > 3) {
            take(&without_colors(&String::from_utf8_lossy(part)), line.number);
        }
    }
}

/// The line without terminal colors: `ESC [ digits m`.
fn without_colors(line: &str) -> Cow<'_, str> {
    if !line.contains('\u{1b}') {
        return Cow::Borrowed(line);
    }
    let mut parts = line.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let codes = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        plain.push_str(codes.strip_prefix('m').unwrap_or(part));
    }
    Cow::Owned(plain)
}

/// A line taken apart.
#[derive(Debug, Default, PartialEq)]
struct Split<'a> {
    process: &'a str,
    level: &'a str,
    stamp: Option<Civil>,
    file: &'a str,
    message: &'a str,
}

/// Levels as vLLM writes them.
const LEVELS: &[&str] = &["INFO", "WARNING", "ERROR", "DEBUG", "CRITICAL"];
/// The level stands within this many bytes of the line start.
const PREFIX_BYTES: usize = 160;

fn split(line: &str) -> Split<'_> {
    let plain = Split { message: line, ..Split::default() };
    let end = (0..=PREFIX_BYTES.min(line.len())).rev().find(|&at| line.is_char_boundary(at)).unwrap_or(0);
    let window = &line[..end];
    let found = LEVELS.iter().filter_map(|level| window.find(level).map(|at| (at, *level))).min();
    let Some((at, level)) = found else { return plain };
    let rest = &line[at + level.len()..];
    let Some(stamp) = rest.get(..15).and_then(parse_stamp) else { return plain };
    let rest = rest[15..].trim_start();
    let process = line[..at].rsplit_once('(').and_then(|(_, inside)| inside.split(" pid=").next()).unwrap_or_default();
    let (file, message) = match rest.strip_prefix('[').unwrap_or(rest).split_once(']') {
        Some((file, message)) if file.len() < 80 && file.contains(".py:") => (file.split(':').next().unwrap_or_default(), message),
        _ => ("", rest),
    };
    Split { process, level, stamp: Some(stamp), file, message: message.strip_prefix(' ').unwrap_or(message) }
}

/// `INFO 11-30 11:03:39 [config.py:104] ...`: a few lines cut from a log have its form, if none of its usual texts. People
/// cut the time as well: `INFO [config.py:104] ...`.
fn has_its_form(line: &str) -> bool {
    if !split(line).file.is_empty() {
        return true;
    }
    let place = LEVELS.iter().find_map(|level| line.strip_prefix(level)?.strip_prefix(" ["));
    let place = place.and_then(|rest| rest.split_once("] ")).map_or("", |(place, _)| place);
    place.split_once(".py:").is_some_and(|(file, number)| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/');
        !file.is_empty() && file.len() < 80 && file.chars().all(is_name) && number.parse::<u32>().is_ok()
    })
}

/// ` 11-30 11:03:39`.
fn parse_stamp(text: &str) -> Option<Civil> {
    let bytes = text.as_bytes();
    let is_stamp = bytes[0] == b' ' && bytes[3] == b'-' && bytes[6] == b' ' && bytes[9] == b':' && bytes[12] == b':';
    let two = |at: usize| crate::civil::digits(&bytes[at..at + 2]).map(|value| value as i8);
    is_stamp.then_some(())?;
    Some(Civil { month: two(1)?, day: two(4)?, hour: two(7)?, minute: two(10)?, second: two(13)? })
}

struct LogReader {
    state: LogState,
    year: i16,
    has_year: bool,
    last_stamp: Option<i64>,
    last_month: i8,
    span: Option<(i64, i64)>,
    first_start_up_ns: Option<i64>,
    unstamped: i64,
    known: u64,
    backwards: i64,
}

impl LogReader {
    fn new(builder: &mut Builder<'_>) -> Self {
        let subject = &mut builder.capture.manifest.subject;
        subject.engine = "vllm".to_string();
        subject.engine_from = "log".to_string();
        Self {
            state: LogState::default(),
            year: NO_YEAR,
            has_year: false,
            last_stamp: None,
            last_month: 0,
            span: None,
            first_start_up_ns: None,
            unstamped: 0,
            known: 0,
            backwards: 0,
        }
    }

    fn line(&mut self, line: &str, number: u64, builder: &mut Builder<'_>) {
        if line.starts_with("# inferoscope: simulated") {
            builder.facts.simulated = true;
        }
        let split = split(line);
        note_process(split.process, builder);
        let t_ns = match split.stamp {
            Some(stamp) => self.stamp(stamp, builder),
            None => self.last_stamp.unwrap_or(self.unstamped * PERIOD_NS),
        };
        let rank = any_server::rank_of(line);
        let message = Message { t_ns, level: split.level, file: split.file, rank, text: split.message, line: number };
        if vllm_log::message(&message, &mut self.state, builder) {
            self.known += 1;
            let is_periodic = split.message.contains("Running: ");
            self.unstamped += i64::from(split.stamp.is_none() && self.last_stamp.is_none() && is_periodic);
            if self.state.start_up_seen && self.first_start_up_ns.is_none() {
                self.first_start_up_ns = self.last_stamp;
            }
        }
    }

    fn stamp(&mut self, stamp: Civil, builder: &mut Builder<'_>) -> i64 {
        if !self.has_year {
            self.has_year = true;
            self.year = find_year(stamp, builder);
        } else if self.last_month == 12 && stamp.month == 1 {
            self.year = self.year.saturating_add(1);
        }
        self.last_month = stamp.month;
        let Some(t_ns) = stamp.utc_ns(self.year) else { return self.last_stamp.unwrap_or(0) };
        self.backwards += i64::from(self.last_stamp.is_some_and(|last| t_ns.saturating_add(60 * SECOND_NS) < last));
        self.last_stamp = Some(t_ns);
        let span = self.span.get_or_insert((t_ns, t_ns));
        *span = (span.0.min(t_ns), span.1.max(t_ns));
        t_ns
    }

    fn finish(&mut self, builder: &mut Builder<'_>) {
        if self.backwards > 0 {
            let sentence =
                "expected log times that grow, found lines more than a minute before their predecessor; the log may hold several runs";
            builder.issue(Severity::Warning, "clock_backwards", "", self.backwards, sentence);
        }
        if let Some(span) = self.span {
            let has_year = builder.context.reference.is_some();
            log_clock::align(&LogTimes { span, first_start_up_ns: self.first_start_up_ns, has_year, has_zone: false }, builder);
        } else if self.unstamped > 1 {
            let sentence = "expected times in the log, found none; its periodic lines are laid 10 s apart, their usual interval";
            builder.issue(Severity::Note, "lines_without_time", "", self.unstamped, sentence);
        }
        if self.known == 0 {
            let sentence = "expected lines of vLLM's log that tell its state, found none of them";
            builder.issue(Severity::Warning, "nothing_known", "", 1, sentence);
        }
    }
}

/// Notes which processes write to the log.
fn note_process(process: &str, builder: &mut Builder<'_>) {
    let form = &mut builder.facts.form;
    form.api_process |= process.starts_with("APIServer") || process.starts_with("ApiServer");
    form.core_process |= process.starts_with("EngineCore");
    form.worker_process |= process.starts_with("Worker") || process.starts_with("VllmWorker");
    if form.api_process || form.core_process {
        form.from = "log prefixes".to_string();
    }
}

/// The year under which the first line is nearest to the other sources.
pub(crate) fn find_year(stamp: Civil, builder: &Builder<'_>) -> i16 {
    let Some((from, _)) = builder.context.reference else { return NO_YEAR };
    let year = crate::civil::year_of(from);
    let distance = |year: &i16| stamp.utc_ns(*year).map_or(i64::MAX, |t_ns| t_ns.saturating_sub(from).saturating_abs());
    [year, year - 1, year + 1].into_iter().min_by_key(distance).unwrap_or(year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_every_age_are_taken_apart() {
        let stamp = Some(Civil { month: 11, day: 30, hour: 11, minute: 3, second: 39 });
        for (line, process, level, file) in [
            ("(APIServer pid=21682) INFO 11-30 11:03:39 [loggers.py:335] m", "APIServer", "INFO", "loggers.py"),
            ("(EngineCore_DP0 pid=212) WARNING 11-30 11:03:39 [a.py:1] m", "EngineCore_DP0", "WARNING", "a.py"),
            ("INFO 11-30 11:03:39 metrics.py:350] m", "", "INFO", "metrics.py"),
            ("2026-11-30T11:03:40Z stdout F INFO 11-30 11:03:39 [core/a.py:1] m", "", "INFO", "core/a.py"),
            ("\u{1b}[1;36m(Worker_TP0 pid=1)\u{1b}[0;0m \u{1b}[32mINFO\u{1b}[0m 11-30 11:03:39 [a.py:1] m", "Worker_TP0", "INFO", "a.py"),
        ] {
            let line = &*without_colors(line);
            assert_eq!(split(line), Split { process, level, stamp, file, message: "m" }, "{line}");
        }
        for line in ["INFO:     127.0.0.1:48370 - \"POST /v1/completions HTTP/1.1\" 200 OK", "", "INFO 1", "INFO é1-30 11:03:39 x"] {
            assert_eq!(split(line).stamp, None, "{line}");
        }
    }

    #[test]
    fn a_few_lines_cut_from_a_log_are_known_by_their_form() {
        for line in ["INFO 07-22 09:14:41 [cuda.py:275] Using Flash Attention backend.", "WARNING [config/model.py:960] text"] {
            assert!(has_its_form(line), "{line}");
        }
        for line in ["[2025-11-12 10:02:11] Decode batch, #running-req: 24", "INFO [main] text", "INFO [a b.py:1] text", "INFO 07-22 text"]
        {
            assert!(!has_its_form(line), "{line}");
        }
    }
}
