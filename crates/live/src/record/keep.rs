//! From pieces to rows, and from rows to segments.
//!
//! Settings that a target tells with every answer are written when they are new and every 60 answers, so that any minute of
//! segments can be read alone. Failed scrapes become two issues per outage: its first moment when it begins, the rest when
//! it ends.

use std::time::Instant;

use capture::store::{StoreError, Writer};
use capture::{Capture, Issues, Runs, Severity};

use super::outbox::Piece;
use super::tail::Found;
use super::{RecordPlan, Recorded};

/// Source name of what this host tells.
const HOST: &str = "host.jsonl";
/// Source name of what NVIDIA's library tells.
const GPUS: &str = "nvml";
/// First bytes of a log that tell its format.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Lines kept while a log's beginning is of no known format.
const MAX_PENDING_BYTES: usize = 1 << 20;
/// Times below this are no dates: the line had none.
const EARLIEST_NS: i64 = 100_000_000_000_000_000;
/// Time before the recording from which figures of a log are taken.
const BEFORE_NS: i64 = 30_000_000_000;
/// What a piece of a log may say of itself and the whole log does not.
const PIECE_ISSUES: &[&str] = &["nothing_known", "lines_without_time", "log_apart", "log_without_year"];

/// Writes one recording.
pub(super) struct Keeper {
    writer: Writer,
    targets: Vec<Target>,
    logs: Vec<LogState>,
    gpus: ingest::ScrapeReader,
    told: Recorded,
    open_rows: u64,
    dropped_told: u64,
}

#[derive(Default)]
struct Target {
    name: String,
    reader: ingest::ScrapeReader,
    outage: Option<Outage>,
}

struct Outage {
    from_ns: i64,
    to_ns: i64,
    kind: &'static str,
    count: i64,
}

#[derive(Default)]
struct LogState {
    name: String,
    /// Host and port of the server that writes it.
    replica: Option<String>,
    /// Host time at which the recording began.
    begun_ns: i64,
    head: Vec<u8>,
    pending: Vec<u8>,
    line_count: u32,
}

impl Keeper {
    pub(super) fn begin(plan: &RecordPlan) -> Result<Self, StoreError> {
        let target = |address: &crate::Address| {
            let name = address.to_string();
            Target { reader: ingest::ScrapeReader::new(&name), name, outage: None }
        };
        let begun_ns = crate::window::host_time_ns();
        let log = |(at, path): (usize, &std::path::PathBuf)| {
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            let replica = plan.targets.get(at).map(|target| format!("{}:{}", target.host(), target.port()));
            LogState { name, replica, begun_ns, ..LogState::default() }
        };
        Ok(Self {
            writer: Writer::create(&plan.out)?,
            targets: plan.targets.iter().map(target).collect(),
            logs: plan.logs.iter().enumerate().map(log).collect(),
            gpus: ingest::ScrapeReader::new(GPUS),
            told: Recorded::default(),
            open_rows: 0,
            dropped_told: 0,
        })
    }

    /// How the recording stands.
    pub(super) fn told(&self, started: Instant) -> Recorded {
        Recorded { elapsed: started.elapsed(), ..self.told.clone() }
    }

    /// Adds a piece to the open segment.
    pub(super) fn take(&mut self, piece: Piece) -> Result<(), StoreError> {
        let options = ingest::Options::default();
        match piece {
            Piece::Scrape { target, t_ns, body } => {
                self.told.scrape_count += 1;
                let scrape = ingest::Scrape { t_ns, body: &body };
                let mut capture = self.targets[target].reader.read(&scrape, &options);
                if capture.tables.settings.key.is_empty() {
                    capture.tables.runs = Runs::default(); // told with the settings
                }
                self.targets[target].end_outage(&mut capture);
                self.append(capture)
            }
            Piece::Failure { target, t_ns, kind } => {
                self.told.failed_count += 1;
                self.told.last_failure = Some(format!("`{}`: {}", self.targets[target].name, sentence(kind)));
                let capture = self.targets[target].fail(t_ns, kind);
                capture.map_or(Ok(()), |capture| self.append(capture))
            }
            Piece::Host { line } => {
                self.told.host_count += 1;
                self.append(ingest::read_bytes(HOST, &line, &options))
            }
            Piece::Log { log, found: Found::Lines { bytes, written_ns } } => {
                self.told.log_byte_count += bytes.len() as u64;
                let capture = self.logs[log].read(&bytes, written_ns);
                capture.map_or(Ok(()), |capture| self.append(capture))
            }
            Piece::Log { log, found: Found::Event { code, sentence } } => {
                self.append(issue(Severity::Note, code, &self.logs[log].name, "", 1, &sentence))
            }
            Piece::Profiler { sentence } => self.append(issue(Severity::Note, "profiler", "", "", 1, &sentence)),
            Piece::Threads { capture, look_count, .. } => {
                self.told.look_count = look_count;
                self.append(*capture)
            }
            Piece::Gpus { t_ns, body } => {
                let mut capture = self.gpus.read(&ingest::Scrape { t_ns, body: &body }, &options);
                if capture.tables.settings.key.is_empty() {
                    capture.tables.runs = Runs::default(); // told once a minute
                }
                self.append(capture)
            }
            Piece::Told { code, sentence } => {
                let note = issue(Severity::Note, code, "", "", 1, &sentence);
                self.told.notes.push(sentence);
                self.append(note)
            }
        }
    }

    fn append(&mut self, mut piece: Capture) -> Result<(), StoreError> {
        for source in &mut piece.manifest.sources {
            source.hash.clear(); // a stream: every piece brings new bytes
            source.content_hash.clear();
        }
        self.open_rows += piece.tables.row_counts().iter().map(|(_, rows)| *rows as u64).sum::<u64>();
        self.writer.append(piece)
    }

    /// Closes the open segment: what came before is on the disk when this returns.
    pub(super) fn close(&mut self, dropped_count: u64) -> Result<(), StoreError> {
        if dropped_count > self.dropped_told {
            let sentence = "expected the disk to keep up with what is measured, found it behind; answers, lines or moments are missing";
            let count = (dropped_count - self.dropped_told).cast_signed();
            let place = format!("segment {}", self.told.segment_count);
            self.append(issue(Severity::Warning, "recorder_behind", "", &place, count, sentence))?;
            self.dropped_told = dropped_count;
        }
        self.told.dropped_count = dropped_count;
        if self.open_rows > 0 {
            self.writer.flush()?;
            self.told.segment_count += 1;
            self.told.row_count += std::mem::take(&mut self.open_rows);
        }
        Ok(())
    }

    /// Makes the segments one finished capture.
    pub(super) fn finish(mut self) -> Result<(), StoreError> {
        let mut ended = Capture::new();
        for target in &mut self.targets {
            target.end_outage(&mut ended);
        }
        if ended != Capture::new() {
            self.append(ended)?;
        }
        self.writer.finish()
    }
}

impl Target {
    fn fail(&mut self, t_ns: i64, kind: &'static str) -> Option<Capture> {
        if let Some(outage) = &mut self.outage {
            outage.count += 1;
            outage.to_ns = t_ns;
            return None;
        }
        self.outage = Some(Outage { from_ns: t_ns, to_ns: t_ns, kind, count: 1 });
        let place = format!("at {}", shown(t_ns));
        Some(issue(Severity::Warning, "scrape_failed", &self.name, &place, 1, &sentence(kind)))
    }

    fn end_outage(&mut self, capture: &mut Capture) {
        let Some(outage) = self.outage.take().filter(|outage| outage.count > 1) else { return };
        let place = format!("after {} until {}", shown(outage.from_ns), shown(outage.to_ns));
        capture.add_issue(Severity::Warning, "scrape_failed", &self.name, &place, outage.count - 1, &sentence(outage.kind));
    }
}

fn sentence(kind: &str) -> String {
    format!("expected an answer to a scrape, found an error ({kind}); that moment is missing")
}

fn shown(t_ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(t_ns)).map_or_else(|_| t_ns.to_string(), |time| format!("{time:.3}"))
}

fn issue(severity: Severity, code: &str, source: &str, place: &str, count: i64, sentence: &str) -> Capture {
    let mut capture = Capture::new();
    capture.add_issue(severity, code, source, place, count, sentence);
    capture
}

impl LogState {
    /// Rows of the next lines; lines wait while the log's beginning is of no known format.
    fn read(&mut self, bytes: &[u8], written_ns: i64) -> Option<Capture> {
        let room = MAX_HEAD_BYTES.saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if !self.pending.is_empty() {
            let room = MAX_PENDING_BYTES.saturating_sub(self.pending.len());
            self.pending.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        let lines = if self.pending.is_empty() { bytes } else { &self.pending };
        let piece = ingest::LogLines { head: &self.head, lines, written_ns, replica: self.replica.as_deref() };
        let Some(mut capture) = ingest::read_log_lines(&self.name, &piece, &ingest::Options::default()) else {
            if self.pending.is_empty() {
                self.pending.extend_from_slice(&bytes[..bytes.len().min(MAX_PENDING_BYTES)]);
            }
            return None;
        };
        let added = String::from_utf8_lossy(lines).matches('\n').count();
        self.settle(&mut capture, written_ns);
        self.line_count = self.line_count.saturating_add(u32::try_from(added).unwrap_or(u32::MAX));
        self.pending = Vec::new();
        Some(capture)
    }

    /// Lines are counted over all pieces, lines without a time stand where they were written, and what is true only of a
    /// piece is no issue.
    fn settle(&self, capture: &mut Capture, written_ns: i64) {
        let tables = &mut capture.tables;
        for line in tables.logs.line.iter_mut().chain(&mut tables.settings.line).filter(|line| **line > 0) {
            *line = line.saturating_add(self.line_count);
        }
        for t_ns in tables.logs.t_ns.iter_mut().chain(&mut tables.samples.t_ns).filter(|t_ns| **t_ns < EARLIEST_NS) {
            *t_ns = written_ns;
        }
        // What it measured long before is of another time; its settings and its start-up still hold.
        let earliest_ns = self.begun_ns.saturating_sub(BEFORE_NS);
        if tables.samples.t_ns.iter().any(|t_ns| *t_ns < earliest_ns) {
            let all = std::mem::take(&mut tables.samples);
            all.rows().filter(|row| row.t_ns >= earliest_ns).for_each(|row| tables.samples.push(row));
        }
        let kept: Vec<_> = tables.issues.rows().collect();
        tables.issues = Issues::default();
        for row in kept {
            if !PIECE_ISSUES.contains(&capture.names.text(row.code)) {
                capture.tables.issues.push(row);
            }
        }
    }
}
