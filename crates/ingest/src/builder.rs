//! What one source becomes: a capture of its own, its issues, and facts that only make sense beside other sources.
//!
//! An importer fills a [`Builder`]; `read.rs` merges them and `finish.rs` draws the conclusions that need all of them.

use std::collections::BTreeMap;

use capture::{Capture, Log, Name, Request, Sample, Setting, Severity, Source, SourceIdx};

use crate::formats::chunks::{self, Kept};
use crate::input::Finished;
use crate::json::JsonError;
use crate::options::Options;

/// `point_idx` of rows outside a sweep.
pub(crate) use capture::ids::NO_POINT;

/// Rows kept per issue code and source; further ones are counted into the last.
const ISSUE_ROWS_PER_CODE: usize = 16;
/// Most request rows of one source, unless the options say otherwise.
pub(crate) const MAX_REQUESTS: usize = 2_000_000;

/// What an importer is told about its source from outside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    /// Arm the source belongs to.
    pub(crate) run_idx: u32,
    /// Replica by the file's name or URL; `None` when nothing says.
    pub(crate) replica: Option<String>,
    /// Host time of a scrape that does not say its own.
    pub(crate) scrape_time: ScrapeTime,
    /// Class and request id prefix, where several files of one kind lie side by side.
    pub(crate) class: String,
    /// Host times that sources with an absolute clock cover.
    pub(crate) reference: Option<(i64, i64)>,
    /// Start of each replica's API process by the host clock.
    pub(crate) process_starts: BTreeMap<String, i64>,
    /// Files beside the source that it may name.
    pub(crate) beside: Vec<String>,
    /// Set when the source is the next piece of a log that grows.
    pub(crate) log_piece: Option<LogPiece>,
}

/// What a piece of a growing log does not tell itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogPiece {
    /// First bytes of the log: they tell the engine.
    pub(crate) head: Vec<u8>,
    /// Host time at which the last line of the piece was written.
    pub(crate) written_ns: i64,
}

impl Context {
    /// Replica for labels: `0` when nothing says.
    pub(crate) fn replica_label(&self) -> &str {
        self.replica.as_deref().unwrap_or("0")
    }

    /// Replica for settings: empty (all) when nothing says.
    pub(crate) fn replica_setting(&self) -> &str {
        self.replica.as_deref().unwrap_or("")
    }
}

/// Time of a scrape that does not say its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ScrapeTime {
    /// Nothing says; a single scrape stands at 0.
    #[default]
    Unknown,
    /// Read from the file name.
    At(i64),
    /// Position among the files beside it.
    Order(i64),
}

/// One load a client made, for telling a sweep from loads at the same time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Load {
    /// Host times of start and end; `None` when the result is not dated.
    pub(crate) span: Option<(i64, i64)>,
    pub(crate) max_concurrency: Option<f64>,
    pub(crate) request_rate: Option<f64>,
}

/// Evidence for the process layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FormEvidence {
    pub(crate) api_process: bool,
    pub(crate) core_process: bool,
    pub(crate) worker_process: bool,
    /// What showed it: `log prefixes`, `process roles`.
    pub(crate) from: String,
}

/// Facts for `finish.rs`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Host times covered, where the source has an absolute clock.
    pub(crate) span: Option<(i64, i64)>,
    /// Times covered, where the source has dates in an unknown zone: they tell a log its year.
    pub(crate) local_span: Option<(i64, i64)>,
    /// Start of the API process, per replica.
    pub(crate) process_starts: BTreeMap<String, i64>,
    /// The loads this source tells of, one after another. Its samples and requests carry the load's position as their
    /// point; `finish.rs` turns that into sweep points, or takes it away.
    pub(crate) loads: Vec<Load>,
    /// Process layout.
    pub(crate) form: FormEvidence,
    /// Command lines of servers, secrets redacted, with their replica.
    pub(crate) commands: Vec<String>,
    /// Generation of the engine: `V0` or `V1`, where a source says.
    pub(crate) generation: String,
    /// The source says that it was made by a simulation.
    pub(crate) simulated: bool,
    /// True when the rows were typed by hand.
    pub(crate) typed: bool,
}

/// How often something happened, whatever it was counted with.
pub(crate) trait Count {
    fn count(self) -> i64;
}

impl Count for i64 {
    fn count(self) -> i64 {
        self
    }
}

impl Count for u64 {
    fn count(self) -> i64 {
        i64::try_from(self).unwrap_or(i64::MAX)
    }
}

impl Count for usize {
    fn count(self) -> i64 {
        i64::try_from(self).unwrap_or(i64::MAX)
    }
}

impl Count for i32 {
    fn count(self) -> i64 {
        i64::from(self)
    }
}

struct PendingIssue {
    severity: Severity,
    code: &'static str,
    place: String,
    count: i64,
    sentence: String,
}

/// See the module.
pub(crate) struct Builder<'a> {
    pub(crate) capture: Capture,
    pub(crate) context: &'a Context,
    pub(crate) facts: Facts,
    /// Which chunks are kept.
    pub(crate) chunks: Kept,
    /// Most request rows kept of this source.
    pub(crate) max_requests: usize,
    /// See [`Options::host_frames`](crate::Options::host_frames).
    pub(crate) host_frames: bool,
    /// See [`Options::threads`](crate::Options::threads).
    pub(crate) threads: usize,
    requests_left_out: u64,
    name: String,
    idx: SourceIdx,
    issues: Vec<PendingIssue>,
    refusal: Option<String>,
    damaged: bool,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(name: &str, format: &str, context: &'a Context) -> Self {
        let mut capture = Capture::new();
        let idx = capture.add_source(Source { name: name.to_string(), format: format.to_string(), ..Source::default() });
        Self {
            capture,
            context,
            facts: Facts::default(),
            chunks: Kept::default(),
            max_requests: MAX_REQUESTS,
            host_frames: false,
            threads: 0,
            requests_left_out: 0,
            name: name.to_string(),
            idx,
            issues: Vec::new(),
            refusal: None,
            damaged: false,
        }
    }

    /// Takes the limits and wishes of an import.
    pub(crate) fn obey(mut self, options: &Options<'_>) -> Self {
        self.max_requests = options.max_requests;
        self.host_frames = options.host_frames;
        self.threads = options.threads;
        self
    }

    /// The source's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The source's index in its own capture.
    pub(crate) fn source(&self) -> SourceIdx {
        self.idx
    }

    /// The source's manifest row.
    pub(crate) fn source_row(&mut self) -> &mut Source {
        &mut self.capture.manifest.sources[self.idx.0 as usize]
    }

    /// Records an issue. The same code and place count up; beyond a few rows per code the last one counts the rest.
    pub(crate) fn issue(&mut self, severity: Severity, code: &'static str, place: &str, count: impl Count, sentence: impl Into<String>) {
        let count = count.count();
        let mut rows = 0;
        let mut last = None;
        for (at, issue) in self.issues.iter_mut().enumerate() {
            if issue.code == code {
                if issue.place == place {
                    issue.count += count;
                    return;
                }
                rows += 1;
                last = Some(at);
            }
        }
        match last {
            Some(at) if rows >= ISSUE_ROWS_PER_CODE => self.issues[at].count += count,
            _ => self.issues.push(PendingIssue { severity, code, place: place.to_string(), count, sentence: sentence.into() }),
        }
    }

    /// Like [`Self::issue`], with one row per code however often it happens; the place is that of the first.
    pub(crate) fn issue_once(&mut self, severity: Severity, code: &'static str, place: &str, sentence: impl FnOnce() -> String) {
        if let Some(issue) = self.issues.iter_mut().find(|issue| issue.code == code) {
            issue.count += 1;
            return;
        }
        self.issues.push(PendingIssue { severity, code, place: place.to_string(), count: 1, sentence: sentence() });
    }

    /// Says that the source cannot be used at all.
    pub(crate) fn refuse(&mut self, code: &'static str, sentence: &str) {
        self.issue(Severity::Error, code, "", 1, sentence);
        self.refusal = Some(format!("`{}`: {sentence}", self.name));
        self.damaged = true;
    }

    /// Says where a JSON document stopped being one.
    pub(crate) fn damaged_json(&mut self, error: &JsonError) {
        let found = if error.at_end { "the end of the text" } else { "something else" };
        let sentence = format!("expected {}, found {found}; what was read before it is kept", error.expected);
        self.mark_damaged();
        self.issue(Severity::Warning, "damaged_json", &format!("byte {}", error.offset + 1), 1, sentence);
    }

    /// Marks the source as damaged.
    pub(crate) fn mark_damaged(&mut self) {
        self.damaged = true;
    }

    /// Interns text.
    pub(crate) fn intern(&mut self, text: &str) -> Name {
        self.capture.intern(text)
    }

    /// Widens the host times that this source covers.
    pub(crate) fn covers(&mut self, t_ns: i64) {
        let span = self.facts.span.get_or_insert((t_ns, t_ns));
        span.0 = span.0.min(t_ns);
        span.1 = span.1.max(t_ns);
    }

    /// Adds a value outside any sweep.
    pub(crate) fn sample(&mut self, t_ns: i64, signal: &str, labels: &str, value: f64) {
        self.sample_at(t_ns, NO_POINT, signal, labels, value);
    }

    /// Adds a value at a sweep point.
    pub(crate) fn sample_at(&mut self, t_ns: i64, point_idx: i32, signal: &str, labels: &str, value: f64) {
        debug_assert!(capture::signals::resolve(signal).is_some(), "`{signal}` is not in the vocabulary");
        let (signal, labels) = (self.intern(signal), self.intern(labels));
        let run_idx = self.context.run_idx;
        self.capture.tables.samples.push(Sample { t_ns, run_idx, point_idx, signal, labels, value, source_idx: self.idx });
    }

    /// Adds a request, unless the source has too many already; false when it is left out.
    pub(crate) fn request(&mut self, row: Request) -> bool {
        let fits = self.capture.tables.requests.t_sent_ns.len() < self.max_requests;
        if fits {
            self.capture.tables.requests.push(row);
        } else {
            self.leave_out_requests(1);
        }
        fits
    }

    /// Counts requests that are left out because there are too many.
    pub(crate) fn leave_out_requests(&mut self, count: u64) {
        self.requests_left_out += count;
    }

    /// Adds a setting; the value of a key that may hold a secret is redacted.
    pub(crate) fn setting(&mut self, replica: &str, key: &str, value: &str, origin: &str, line: u64) {
        let value = if capture::settings::is_secret(key) { capture::settings::REDACTED } else { value };
        let row = Setting {
            run_idx: self.context.run_idx,
            replica: self.intern(replica),
            key: self.intern(key),
            value: self.intern(value),
            origin: self.intern(origin),
            line: u32::try_from(line).unwrap_or(u32::MAX),
            source_idx: self.idx,
        };
        self.capture.tables.settings.push(row);
    }

    /// Adds an event of a log.
    pub(crate) fn log(&mut self, t_ns: i64, level: &str, file: &str, kind: &str, fields: &str, line: u64) {
        let row = Log {
            t_ns,
            run_idx: self.context.run_idx,
            replica: self.intern(self.context.replica_label()),
            level: self.intern(level),
            file: self.intern(file),
            kind: self.intern(kind),
            fields: self.intern(fields),
            line: u32::try_from(line).unwrap_or(u32::MAX),
            source_idx: self.idx,
        };
        self.capture.tables.logs.push(row);
    }

    /// Closes the source: writes its manifest row and its issues.
    pub(crate) fn finish(mut self, finished: &Finished) -> Built {
        chunks::report(&mut self);
        if self.requests_left_out > 0 {
            let sentence = format!("expected at most {} requests, found more; the later ones are left out", self.max_requests);
            self.issue(Severity::Warning, "requests_left_out", "", self.requests_left_out, sentence);
        }
        if let Some(damage) = &finished.damage {
            self.damaged = true;
            self.issue(Severity::Warning, damage.code, &damage.place, 1, damage.sentence.clone());
        }
        if let Some((count, first)) = finished.long_lines {
            self.damaged = true;
            let place = format!("line {first}");
            let sentence = "expected lines below the length limit, found longer ones; they are skipped";
            self.issue(Severity::Warning, "line_too_long", &place, count, sentence);
        }
        let rows: usize = self.capture.tables.row_counts().iter().map(|(_, rows)| rows).sum();
        let damaged = self.damaged;
        let row = self.source_row();
        row.hash.clone_from(&finished.hash);
        row.content_hash.clone_from(&finished.content_hash);
        row.byte_count = finished.byte_count;
        row.row_count = rows as u64;
        row.damaged = damaged;
        for issue in std::mem::take(&mut self.issues) {
            let name = self.name.clone();
            self.capture.add_issue(issue.severity, issue.code, &name, &issue.place, issue.count, &issue.sentence);
        }
        Built { capture: self.capture, facts: self.facts, run_idx: self.context.run_idx, refusal: self.refusal }
    }
}

/// A source that has been read.
pub(crate) struct Built {
    pub(crate) capture: Capture,
    pub(crate) facts: Facts,
    pub(crate) run_idx: u32,
    pub(crate) refusal: Option<String>,
}
