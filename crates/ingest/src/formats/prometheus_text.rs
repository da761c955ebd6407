//! Prometheus text (0.0.4) and OpenMetrics: one scrape, or many in one file.
//!
//! Scrapes are separated by `# SCRAPE ts=<epoch s> dur=<s>[ error=<type>]` lines, by `# EOF`, by the first `# TYPE` line
//! coming again, or not at all when samples carry their own timestamps. Built for speed: a scrape names the same series
//! in the same order as the one before, so each line is first compared with the line at its position there; a series is
//! parsed once, in `series.rs`, and values of families without a signal are not parsed at all. Rows are made in
//! `rows.rs` at the end of each scrape. `_created` twins only serve to see restarts; exemplars are left out.

mod growing;
mod rows;
mod series;
mod stored;
mod times;

use capture::Severity;

use crate::builder::{Builder, ScrapeTime};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::{HEAD_BYTES, Input};
use crate::number::parse_f64;

pub(crate) use growing::Growing;
use rows::Rows;
pub(crate) use series::is_part_of;
use series::{Catalog, Target};
pub(crate) use stored::{StoredScrapes, read_stored};
use times::Taken;

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "prometheus_text", stage: Stage::Clocked, sniff, read };

/// Lines of one scrape that are compared with the scrape before.
const MAX_SCRAPE_LINES: usize = 4_000_000;
/// Samples with their own time that are gathered before they are sorted.
const MAX_TIMED_SAMPLES: usize = 20_000_000;
/// Spacing given to scrapes of which only the order is known.
const ORDER_STEP_NS: i64 = 1_000_000_000;

fn sniff(probe: &Probe<'_>) -> Confidence {
    if matches!(probe.first_byte(), None | Some(b'{' | b'[' | b'<')) || !probe.is_text() {
        return Confidence::No;
    }
    let (mut samples, mut others) = (0, 0);
    for line in probe.lines().filter(|line| !line.is_empty()).take(400) {
        if line.starts_with(b"# TYPE ") || line.starts_with(b"# SCRAPE ") {
            return Confidence::Sure;
        }
        if line.starts_with(b"#") {
            continue;
        }
        let is_sample = split_sample(line).is_some_and(|(_, rest)| parse_value(rest).is_some());
        *(if is_sample { &mut samples } else { &mut others }) += 1;
    }
    if samples > 0 && samples >= 9 * others { Confidence::Likely } else { Confidence::No }
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let mut parser = Parser::new(builder);
    let mut is_cut = false;
    while let Some(line) = input.next_line() {
        is_cut = !line.complete;
        parser.line(line.bytes, line.number, is_cut, builder);
    }
    is_cut |= input.damage().is_some();
    parser.finish(is_cut, builder);
}

/// Splits a sample line into series text and the rest.
fn split_sample(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let name_end = line.iter().position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':')))?;
    if name_end == 0 || line[0].is_ascii_digit() {
        return None;
    }
    let mut at = name_end;
    if line[at] == b'{' {
        at += 1;
        loop {
            at += memchr::memchr2(b'"', b'}', &line[at..])?;
            if line[at] == b'}' {
                break;
            }
            at += 1;
            loop {
                at += memchr::memchr2(b'"', b'\\', &line[at..])?;
                if line[at] == b'"' {
                    break;
                }
                at += 2;
                if at >= line.len() {
                    return None;
                }
            }
            at += 1;
        }
        at += 1;
    }
    let rest = &line[at..];
    matches!(rest.first(), Some(b' ' | b'\t')).then_some((&line[..at], rest))
}

/// A value with the timestamp that may follow, in nanoseconds. Prometheus writes whole milliseconds, OpenMetrics
/// seconds; 10^11 tells them apart until the year 5138.
fn parse_value(rest: &[u8]) -> Option<(f64, Option<i64>)> {
    let rest = rest.trim_ascii();
    let end = rest.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(rest.len());
    let value = parse_f64(&rest[..end])?;
    let after = rest[end..].trim_ascii_start();
    if after.is_empty() || after[0] == b'#' {
        return Some((value, None));
    }
    let end = after.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(after.len());
    let text = &after[..end];
    let is_ms = parse_f64(text)?.abs() >= 1e11;
    let power = if is_ms { 6 } else { 9 };
    capture::text_time::scaled_to_ns(text, power).map(|t_ns| (value, Some(t_ns)))
}

/// The state of reading one source; scrapes of one replica in the order they were taken.
pub(crate) struct Parser {
    catalog: Catalog,
    rows: Rows,
    /// Series of the scrape before, by position.
    order: Vec<u32>,
    next_order: Vec<u32>,
    cursor: usize,
    scrape: Scrape,
    scrape_count: u64,
    taken: Vec<Taken>,
    /// Separators without a time: how many, line of the first.
    without_time: (i64, u64),
    /// Line from which several scrapes have no time but their order.
    spaced_from: Option<u64>,
    first_type: Vec<u8>,
    unclocked: i64,
    failed: i64,
    timed: Vec<(i64, u32, f64)>,
    is_cut_line: bool,
}

/// The scrape being read.
#[derive(Default)]
struct Scrape {
    t_ns: i64,
    is_open: bool,
    first_line: u64,
}

impl Parser {
    pub(crate) fn new(builder: &mut Builder<'_>) -> Self {
        Self {
            catalog: Catalog::default(),
            rows: Rows::new(builder),
            order: Vec::new(),
            next_order: Vec::new(),
            cursor: 0,
            scrape: Scrape::default(),
            scrape_count: 0,
            taken: Vec::new(),
            without_time: (0, 0),
            spaced_from: None,
            first_type: Vec::new(),
            unclocked: 0,
            failed: 0,
            timed: Vec::new(),
            is_cut_line: false,
        }
    }

    /// Reads one line.
    pub(crate) fn line(&mut self, line: &[u8], number: u64, is_cut: bool, builder: &mut Builder<'_>) {
        let line = if line.last() == Some(&b'\r') { &line[..line.len() - 1] } else { line };
        match line.first() {
            None => {}
            Some(b'#') => self.comment(line, number, builder),
            Some(_) => self.sample(line, number, is_cut, builder),
        }
    }

    fn sample(&mut self, line: &[u8], number: u64, is_cut: bool, builder: &mut Builder<'_>) {
        if !self.scrape.is_open {
            self.open_unseparated(number, builder);
        }
        let (series, rest) = if let Some(found) = self.predicted(line) {
            found
        } else {
            let Some((text, rest)) = split_sample(line).filter(|(_, rest)| parse_value(rest).is_some()) else {
                self.unreadable(line, number, is_cut, builder);
                return;
            };
            (self.catalog.find_or_add(text, &mut self.rows, builder), rest)
        };
        if self.next_order.len() < MAX_SCRAPE_LINES {
            self.next_order.push(series);
        }
        self.cursor += 1;
        if self.catalog.target(series) == Target::Skip {
            return;
        }
        match parse_value(rest) {
            // Behind other scrapes a last line without its end is taken as cut; alone it was rather pasted.
            Some(_) if is_cut && !self.order.is_empty() => self.is_cut_line = true,
            Some((value, None)) => self.rows.apply(&mut self.catalog, series, value),
            Some((value, Some(t_ns))) => self.timed(t_ns, series, value, number, builder),
            None => self.unreadable(line, number, is_cut, builder),
        }
    }

    fn timed(&mut self, t_ns: i64, series: u32, value: f64, number: u64, builder: &mut Builder<'_>) {
        if self.timed.len() < MAX_TIMED_SAMPLES {
            self.timed.push((t_ns, series, value));
        } else {
            builder.issue_once(Severity::Warning, "too_many_samples", &format!("line {number}"), || {
                format!("expected at most {MAX_TIMED_SAMPLES} samples with their own time, found more; the rest is left out")
            });
        }
    }

    /// The series at this position of the scrape before, if the line starts with it.
    fn predicted<'l>(&self, line: &'l [u8]) -> Option<(u32, &'l [u8])> {
        let series = *self.order.get(self.cursor)?;
        let text = self.catalog.text(series);
        let rest = line.get(text.len()..)?;
        (matches!(rest.first(), Some(b' ' | b'\t')) && line.starts_with(text)).then_some((series, rest))
    }

    fn unreadable(&mut self, line: &[u8], number: u64, is_cut: bool, builder: &mut Builder<'_>) {
        let place = format!("line {number}");
        if is_cut {
            self.is_cut_line = true;
        } else if matches!(line.trim_ascii_start().first(), Some(b'<' | b'{')) && self.next_order.is_empty() {
            let what = if line.trim_ascii_start()[0] == b'<' { "an HTML page" } else { "a JSON document" };
            builder.issue_once(Severity::Error, "not_metrics", &place, || {
                format!("expected Prometheus text, found {what}: the address answers, but not with metrics")
            });
        } else {
            builder.issue_once(Severity::Warning, "unreadable_line", &place, || {
                "expected `name{labels} value`, found something else; the line is left out".to_string()
            });
        }
    }

    fn comment(&mut self, line: &[u8], number: u64, builder: &mut Builder<'_>) {
        if let Some(rest) = line.strip_prefix(b"# TYPE ") {
            self.type_line(rest, number, builder);
        } else if let Some(rest) = line.strip_prefix(b"# SCRAPE ") {
            self.scrape_line(rest, number, builder);
        } else if line == b"# EOF" {
            self.close(builder);
        } else if line.starts_with(b"# inferoscope: simulated") {
            builder.facts.simulated = true;
        }
    }

    fn type_line(&mut self, rest: &[u8], number: u64, builder: &mut Builder<'_>) {
        if self.first_type.is_empty() {
            self.first_type = rest.to_vec();
        } else if self.first_type == rest && !self.next_order.is_empty() {
            self.close(builder);
        }
        if !self.scrape.is_open {
            self.open_unseparated(number, builder);
        }
        self.catalog.declare(rest);
    }

    fn scrape_line(&mut self, rest: &[u8], number: u64, builder: &mut Builder<'_>) {
        self.close(builder);
        let (mut t_ns, mut took, mut failed) = (None, None, false);
        for word in rest.split(|byte| *byte == b' ') {
            if let Some(text) = word.strip_prefix(b"ts=") {
                t_ns = capture::text_time::seconds_to_ns(text);
            } else if let Some(text) = word.strip_prefix(b"dur=") {
                took = parse_f64(text);
            } else if word.starts_with(b"error=") {
                failed = true;
            }
        }
        if failed {
            self.failed += 1;
            let place = format!("line {number}");
            builder.issue_once(Severity::Warning, "scrape_failed", &place, || {
                "expected an answer to a scrape, found an error; that moment is missing".to_string()
            });
            return;
        }
        let Some(t_ns) = t_ns else {
            if self.without_time.0 == 0 {
                self.without_time.1 = number;
            }
            self.without_time.0 += 1;
            self.open_unseparated(number, builder);
            return;
        };
        self.open(t_ns, number, builder);
        if let Some(took) = took {
            self.rows.scrape_time(t_ns, took, builder);
        }
    }

    /// Starts a scrape at a known time.
    fn open(&mut self, t_ns: i64, number: u64, builder: &Builder<'_>) {
        self.open_at(t_ns, true, true, number, builder);
    }

    fn open_at(&mut self, t_ns: i64, is_stated: bool, is_clocked: bool, number: u64, builder: &Builder<'_>) {
        self.scrape_count += 1;
        self.scrape = Scrape { t_ns, is_open: true, first_line: number };
        self.cursor = 0;
        let tables = &builder.capture.tables;
        self.taken.push(Taken {
            t_ns,
            is_stated,
            is_clocked,
            is_filled: false,
            number: self.scrape_count,
            line: number,
            samples_from: tables.samples.t_ns.len(),
            histograms_from: tables.histograms.t_ns.len(),
        });
    }

    fn open_unseparated(&mut self, number: u64, builder: &mut Builder<'_>) {
        let (t_ns, is_clocked) = match builder.context.scrape_time {
            ScrapeTime::At(t_ns) => (t_ns.saturating_add(self.unclocked * ORDER_STEP_NS), true),
            ScrapeTime::Order(position) => ((position + self.unclocked) * ORDER_STEP_NS, false),
            ScrapeTime::Unknown => (self.unclocked * ORDER_STEP_NS, false),
        };
        if self.unclocked == 1 || (self.unclocked == 0 && matches!(builder.context.scrape_time, ScrapeTime::Order(_))) {
            self.spaced_from = self.spaced_from.or(Some(number));
        }
        self.unclocked += 1;
        self.open_at(t_ns, false, is_clocked, number, builder);
    }

    /// Decides which scrapes stand at a believable time, once all are known.
    fn settle_times(&mut self, builder: &mut Builder<'_>) {
        if times::settle(&std::mem::take(&mut self.taken), builder) {
            return;
        }
        let (count, first) = self.without_time;
        if count > 0 {
            let sentence = "expected `ts=` with epoch seconds in a scrape separator, found none; times are the order of the scrapes";
            builder.issue(Severity::Warning, "scrape_without_time", &format!("line {first}"), count, sentence);
        }
        if let Some(line) = self.spaced_from {
            let sentence = "expected a time for each of several scrapes, found none; they are spaced 1 s apart in the order found, so rates are not known";
            builder.issue(Severity::Warning, "scrapes_without_time", &format!("line {line}"), 1, sentence);
        }
    }

    /// Ends the scrape being read and makes its rows.
    pub(crate) fn close(&mut self, builder: &mut Builder<'_>) {
        if !self.scrape.is_open {
            return;
        }
        self.scrape.is_open = false;
        if self.next_order.is_empty() {
            return;
        }
        if let Some(taken) = self.taken.last_mut() {
            taken.is_filled = true;
        }
        let place = format!("scrape {} (line {})", self.scrape_count, self.scrape.first_line);
        self.rows.flush(self.scrape.t_ns, &place, builder);
        self.catalog.next_scrape();
        std::mem::swap(&mut self.order, &mut self.next_order);
        self.next_order.clear();
        self.cursor = 0;
    }

    /// Ends the source. `is_cut`: the text may end inside a scrape.
    pub(crate) fn finish(&mut self, is_cut: bool, builder: &mut Builder<'_>) {
        let is_cut = is_cut || self.is_cut_line;
        if self.scrape.is_open && self.is_half(is_cut) {
            let place = format!("scrape {} (line {})", self.scrape_count, self.scrape.first_line);
            let within = if self.is_cut_line { " within a line" } else { "" };
            let (before, found) = (self.order.len(), self.next_order.len());
            let sentence = format!(
                "expected {before} series as in the scrape before, found {found} and the end of the text{within}: the last scrape is left out"
            );
            builder.mark_damaged();
            builder.issue(Severity::Warning, "scrape_cut", &place, 1, sentence);
            self.rows.forget();
            self.catalog.next_scrape();
        } else {
            if self.is_cut_line && self.scrape.is_open {
                builder.mark_damaged();
                builder.issue(
                    Severity::Warning,
                    "line_cut",
                    "last line",
                    1,
                    "expected a line end, found the end of the text; the last line is left out",
                );
            }
            self.close(builder);
        }
        self.settle_times(builder);
        self.replay_timed(builder);
        let is_empty = self.scrape_count == 0 && self.failed == 0;
        if is_empty || (self.order.is_empty() && self.catalog.is_empty() && self.failed == 0) {
            builder.refuse("no_metrics", "expected Prometheus text, found no sample in it");
        }
        self.catalog.report(builder);
    }

    /// True when the last scrape ends within a line, or is shorter than the one before and does not end where that did.
    fn is_half(&self, is_cut: bool) -> bool {
        let is_shorter = self.next_order.len() < self.order.len();
        let ends_elsewhere = self.next_order.last() != self.order.last();
        !self.order.is_empty() && (self.is_cut_line || (is_shorter && (is_cut || ends_elsewhere)))
    }

    /// Makes rows of samples that carry their own time, whatever order they stand in.
    fn replay_timed(&mut self, builder: &mut Builder<'_>) {
        let mut timed = std::mem::take(&mut self.timed);
        timed.sort_by_key(|(t_ns, ..)| *t_ns);
        for group in timed.chunk_by(|a, b| a.0 == b.0) {
            let t_ns = group[0].0;
            builder.covers(t_ns);
            for &(_, series, value) in group {
                self.rows.apply(&mut self.catalog, series, value);
            }
            self.rows.flush(t_ns, &format!("time {} s", t_ns as f64 / 1e9), builder);
            self.catalog.next_scrape();
        }
    }
}

/// What an answer is that holds no metrics.
fn no_metrics(probe: &Probe<'_>) -> &'static str {
    match probe.first_byte() {
        None => "an empty answer",
        Some(b'<') => "an HTML page",
        Some(b'{' | b'[') => "a JSON document",
        Some(_) if probe.is_text() => "plain text",
        Some(_) => "binary data",
    }
}

/// Reads an answer as the parser's next scrape; an issue where it holds no metrics. How many lines were too long, and the first.
fn answer(
    parser: &mut Parser,
    scrape: &crate::read::Scrape<'_>,
    number: u64,
    options: &crate::Options<'_>,
    builder: &mut Builder<'_>,
) -> Answer {
    parser.close(builder);
    let head = &scrape.body[..scrape.body.len().min(HEAD_BYTES)];
    let probe = Probe { head, is_whole: head.len() == scrape.body.len() };
    if sniff(&probe) == Confidence::No {
        let found = no_metrics(&probe);
        builder.issue_once(Severity::Error, "not_metrics", &format!("answer {number}"), || {
            format!("expected Prometheus text, found {found}: the address answers, but not with metrics")
        });
        return Answer::NoMetrics;
    }
    parser.open(scrape.t_ns, parser.scrape_count + 1, builder);
    let mut long_lines: Option<(u64, u64)> = None;
    for (line, number) in scrape.body.split(|byte| *byte == b'\n').zip(1..) {
        if line.len() > options.max_line_bytes {
            long_lines = Some(long_lines.map_or((1, number), |(count, first)| (count + 1, first)));
        } else {
            parser.line(line, number, false, builder);
        }
    }
    Answer::Metrics { long_lines }
}

/// What one answer was.
enum Answer {
    NoMetrics,
    Metrics { long_lines: Option<(u64, u64)> },
}

/// Reads scrapes taken live.
pub(crate) fn read_scrapes(
    scrapes: &[crate::read::Scrape<'_>],
    options: &crate::Options<'_>,
    builder: &mut Builder<'_>,
) -> crate::input::Finished {
    let mut parser = Parser::new(builder);
    let mut content = crate::input::ContentHash::default();
    let mut byte_count = 0;
    let mut long_lines = None;
    let mut asked = 0u64;
    for scrape in scrapes {
        content.update(scrape.body);
        byte_count += scrape.body.len() as u64;
        asked += 1;
        if let Answer::Metrics { long_lines: found } = answer(&mut parser, scrape, asked, options, builder) {
            long_lines = long_lines.or(found);
        }
    }
    parser.finish(false, builder);
    let hash = content.finish();
    crate::input::Finished { content_hash: hash.clone(), hash, byte_count, damage: None, long_lines }
}
