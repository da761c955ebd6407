//! Server logs of engines other than vLLM: prefixes of every kind, each engine's table of messages, and the lines that
//! any server may write.
//!
//! The engine is told by signs in the first bytes; a log with only general lines (a torch warning, a NCCL transport) is
//! read without one. Prefixes: `[2025-07-16 01:10:47 DP0 TP0]` (SGLang), `[07/16/2025-01:10:47] [TRT-LLM] [RANK 0] [I]`,
//! `2025-07-16T01:10:47.123456Z  INFO` (TGI, containers), `W0716 01:10:47.676000 567101 file.py:984]` behind `[rank1]:`
//! (torch), `0.12.345.678 I` (llama.cpp, since its start), or none. Lines of no known message cost one scan.

mod prefix;

use capture::Severity;

use crate::builder::Builder;
use crate::clocks::SECOND_NS;
use crate::engines::log::{self, LogState, Message, any_server};
use crate::engines::{ENGINES, Engine};
use crate::formats::log_clock::{self, LogTimes, NO_YEAR};
use crate::formats::vllm_log::{each_line, find_year};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;

use prefix::{Prefix, Stamp};

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "engine_log", stage: Stage::Floating, sniff, read };

/// Spacing given to lines of which only the order is known.
const ORDER_STEP_NS: i64 = SECOND_NS;

fn sniff(probe: &Probe<'_>) -> Confidence {
    if matches!(probe.first_byte(), None | Some(b'{' | b'<' | b'#')) || !probe.is_text() {
        return Confidence::No;
    }
    if engine_of(probe.head).is_some() {
        return Confidence::Sure;
    }
    let is_general = any_server::LINES.iter().any(|known| probe.has(known.part));
    if is_general { Confidence::Likely } else { Confidence::No }
}

/// The engine with the most different signs in a text.
fn engine_of(text: &[u8]) -> Option<&'static Engine> {
    let count = |engine: &Engine| {
        let signs = engine.log.map_or(&[][..], |log| log.signs);
        signs.iter().filter(|sign| memchr::memmem::find(text, sign.as_bytes()).is_some()).count()
    };
    let best = ENGINES.iter().rev().max_by_key(|engine| count(engine))?;
    (count(best) > 0).then_some(best)
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let head = builder.context.log_piece.as_ref().map_or(input.head(), |piece| &piece.head);
    let mut reader = Reader::new(engine_of(head), builder);
    each_line(input, |line, number| reader.line(line, number, builder));
    reader.finish(builder);
}

#[derive(Default)]
struct Reader {
    engine: Option<&'static Engine>,
    state: LogState,
    year: Option<i16>,
    has_year: bool,
    has_zone: bool,
    last_stamp: Option<i64>,
    span: Option<(i64, i64)>,
    first_start_up_ns: Option<i64>,
    unstamped: i64,
    known: u64,
    backwards: i64,
}

impl Reader {
    fn new(engine: Option<&'static Engine>, builder: &mut Builder<'_>) -> Self {
        if let Some(engine) = engine {
            let subject = &mut builder.capture.manifest.subject;
            subject.engine = engine.id.to_string();
            subject.engine_from = "log".to_string();
        }
        Self { engine, ..Self::default() }
    }

    fn line(&mut self, line: &str, number: u64, builder: &mut Builder<'_>) {
        if line.starts_with("# inferoscope: simulated") {
            builder.facts.simulated = true;
        }
        let prefix = prefix::split(line);
        let t_ns = match prefix.stamp {
            Some(stamp) => self.stamp(stamp, builder),
            None => self.last_stamp.unwrap_or(self.unstamped * ORDER_STEP_NS),
        };
        note_ranks(&prefix, self.engine, builder);
        let message = Message { t_ns, level: prefix.level, file: prefix.file, rank: prefix.rank, text: prefix.message, line: number };
        let own = self.engine.and_then(|engine| engine.log).map_or(&[][..], |log| log.lines);
        let samples = builder.capture.tables.samples.t_ns.len();
        if log::read(own.iter().chain(any_server::LINES), &message, &mut self.state, builder) {
            self.known += 1;
            let has_values = builder.capture.tables.samples.t_ns.len() > samples;
            self.unstamped += i64::from(prefix.stamp.is_none() && self.last_stamp.is_none() && has_values);
            if self.state.start_up_seen && self.first_start_up_ns.is_none() {
                self.first_start_up_ns = self.last_stamp;
            }
        }
    }

    fn stamp(&mut self, stamp: Stamp, builder: &Builder<'_>) -> i64 {
        let year = match stamp.year {
            Some(year) => {
                self.has_year = true;
                self.year = Some(year);
                year
            }
            None => *self.year.get_or_insert_with(|| find_year(stamp.civil, builder)),
        };
        let Some(t_ns) = stamp.civil.utc_ns(year).map(|t_ns| t_ns.saturating_add(stamp.nanos)) else {
            return self.last_stamp.unwrap_or(0);
        };
        self.has_zone |= stamp.is_utc;
        self.backwards += i64::from(self.last_stamp.is_some_and(|last| t_ns.saturating_add(60 * SECOND_NS) < last));
        self.last_stamp = Some(t_ns);
        let span = self.span.get_or_insert((t_ns, t_ns));
        *span = (span.0.min(t_ns), span.1.max(t_ns));
        t_ns
    }

    fn finish(&self, builder: &mut Builder<'_>) {
        if self.backwards > 0 {
            let sentence =
                "expected log times that grow, found lines more than a minute before their predecessor; the log may hold several runs";
            builder.issue(Severity::Warning, "clock_backwards", "", self.backwards, sentence);
        }
        if let Some(span) = self.span {
            let has_year = self.has_year || builder.context.reference.is_some() || self.year.is_some_and(|year| year != NO_YEAR);
            let times = LogTimes { span, first_start_up_ns: self.first_start_up_ns, has_year, has_zone: self.has_zone };
            log_clock::align(&times, builder);
        } else if self.unstamped > 1 {
            let sentence = "expected times in the log, found none; its lines are laid 1 s apart in their order, so rates are not known";
            builder.issue(Severity::Note, "lines_without_time", "", self.unstamped, sentence);
        }
        if self.known == 0 {
            let whose = self.engine.map_or("a server's log", |engine| engine.id);
            let sentence = format!("expected lines of the log of {whose} that tell its state, found none of them");
            builder.issue(Severity::Warning, "nothing_known", "", 1, sentence);
        }
    }
}

/// Notes that ranks write to the log: each is a process of its own.
fn note_ranks(prefix: &Prefix<'_>, engine: Option<&Engine>, builder: &mut Builder<'_>) {
    if engine.is_some() && !prefix.rank.is_empty() {
        let form = &mut builder.facts.form;
        form.core_process = true;
        form.worker_process |= prefix.rank.split(' ').any(|part| part.ends_with(|c: char| c.is_ascii_digit()) && !part.ends_with('0'));
        form.from = "log prefixes".to_string();
    }
}
