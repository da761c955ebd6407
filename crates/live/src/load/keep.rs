//! A load as a capture: requests and chunks at the client, and what the client knows about itself.
//!
//! No text and no header enters. Chunks beyond a limit are left out request by request, evenly; the times of their
//! requests stay exact.

use capture::content_hash::sha256_of;
use capture::{Capture, Chunk, Point, Request, Run, Sample, Severity, Source, SourceIdx};

use super::attempt::{Attempt, Ending};
use super::figures::{Figures, Slo};
use super::outputs::csv;
use super::run::{LoadRun, Plan, Schedule};
use super::sweep::Axis;

/// Format id of the source.
pub const FORMAT: &str = "inferoscope_load";

/// Most chunk rows of a load.
const MAX_CHUNKS: usize = 5_000_000;

/// The capture of one run, or of the levels of a sweep. `levels` are the runs with the value that was varied.
pub fn into_capture(plan: &Plan, levels: &[(f64, &LoadRun)], axis: Option<Axis>, is_simulated: bool) -> Capture {
    let mut capture = Capture::new();
    capture.manifest.subject.model.clone_from(&plan.model);
    capture.manifest.subject.provenance = if is_simulated { "simulated" } else { "recorded" }.into();
    let row_count: usize = levels.iter().map(|(_, run)| run.attempts.len()).sum();
    let source = capture.add_source(Source {
        name: plan.server.at(plan.api.path()).to_string(),
        format: FORMAT.into(),
        row_count: row_count as u64,
        hash: sha256_of(&[&csv(levels)]),
        ..Source::default()
    });
    let varied = axis.map_or("", Axis::signal);
    let empty = capture.intern("");
    let (name, varied_signal) = (capture.intern("load"), capture.intern(varied));
    capture.tables.runs.push(Run { run_idx: 0, name, changed: empty, flags: empty, varied_signal, device: empty });
    let stride = chunk_stride(levels);
    let mut keeper = Keeper { capture, source, stride, left_out: 0 };
    for (at, (value, run)) in levels.iter().enumerate() {
        let point_idx = if axis.is_some() { i32::try_from(at).unwrap_or(i32::MAX) } else { capture::ids::NO_POINT };
        if axis.is_some() {
            let times = (Some(run.start_ns), Some(run.end_ns));
            keeper.capture.tables.points.push(Point { run_idx: 0, point_idx, varied_value: *value, start_ns: times.0, end_ns: times.1 });
        }
        keeper.level(run, point_idx, offered(plan, axis, *value, run));
    }
    keeper.finish()
}

/// The load as offered: users of a closed loop, requests per second of an open one.
fn offered(plan: &Plan, axis: Option<Axis>, value: f64, run: &LoadRun) -> Option<(&'static str, f64)> {
    match (axis, plan.schedule) {
        (Some(Axis::Users), _) => Some(("client.concurrency", value)),
        (Some(Axis::Rate), _) => Some(("client.request_rate", value)),
        (None, Schedule::Closed { users, .. }) => Some(("client.concurrency", f64::from(users))),
        (None, Schedule::Open) => {
            let due = || run.attempts.iter().map(|attempt| attempt.intended_ns);
            let span_s = (due().max()? - due().min()?) as f64 / 1e9;
            (span_s > 0.0).then(|| ("client.request_rate", (run.attempts.len() - 1) as f64 / span_s))
        }
    }
}

/// Every how many requests keep their chunks.
fn chunk_stride(levels: &[(f64, &LoadRun)]) -> usize {
    let chunks: usize = levels.iter().flat_map(|(_, run)| &run.attempts).map(|attempt| attempt.pieces.len()).sum();
    chunks.div_ceil(MAX_CHUNKS).max(1)
}

struct Keeper {
    capture: Capture,
    source: SourceIdx,
    stride: usize,
    left_out: i64,
}

impl Keeper {
    fn level(&mut self, run: &LoadRun, point_idx: i32, offered: Option<(&'static str, f64)>) {
        for attempt in run.attempts.iter().filter(|attempt| !attempt.is_warmup) {
            self.attempt(attempt, point_idx);
        }
        self.figures(run, point_idx, offered);
    }

    fn attempt(&mut self, attempt: &Attempt, point_idx: i32) {
        let id = if point_idx == capture::ids::NO_POINT {
            format!("load-{}", attempt.index)
        } else {
            format!("load-{point_idx}-{}", attempt.index)
        };
        let capture = &mut self.capture;
        let (vantage, request_id, empty) = (capture.intern("client"), capture.intern(&id), capture.intern(""));
        let is_done = attempt.ending == Ending::Done;
        let finish = capture.intern(if is_done { "" } else { attempt.ending.class() });
        let count = |tokens: Option<u64>| tokens.and_then(|tokens| i64::try_from(tokens).ok());
        // Rows have one column for the first token where kinds are not told apart; here they are.
        let first_content_ns = attempt.first_content_ns.or_else(|| attempt.first_token_ns());
        capture.tables.requests.push(Request {
            t_sent_ns: attempt.sent_or_started_ns(),
            run_idx: 0,
            point_idx,
            vantage,
            request_id,
            attempt: 0,
            t_intended_ns: Some(attempt.intended_ns),
            t_connected_ns: attempt.connected_ns,
            t_headers_ns: attempt.headers_ns,
            t_first_event_ns: attempt.first_event_ns,
            t_first_role_ns: attempt.first_role_ns,
            t_first_reasoning_ns: attempt.first_reasoning_ns,
            t_first_content_ns: first_content_ns,
            t_last_token_ns: attempt.last_token_ns(),
            t_done_ns: attempt.done_ns,
            tokens_in: count(attempt.prompt_tokens),
            tokens_out: count(attempt.output_tokens),
            tokens_cached: count(attempt.cached_tokens),
            replica: empty,
            class: empty,
            finish,
            status: attempt.status.map(i64::from),
            new_connection: Some(i64::from(attempt.is_new_connection)),
            source_idx: self.source,
            ..Request::default()
        });
        if !attempt.index.is_multiple_of(self.stride) {
            self.left_out += i64::try_from(attempt.pieces.len()).unwrap_or(i64::MAX);
            return;
        }
        let mut before = None;
        for (at, piece) in attempt.pieces.iter().enumerate() {
            let gap_ns = before.map_or(0, |before: i64| piece.t_ns - before);
            before = Some(piece.t_ns);
            let (t_ns, chunk_idx) = (piece.t_ns, at as u32);
            let chunk = Chunk { t_ns, run_idx: 0, vantage, request_id, attempt: 0, chunk_idx, gap_ns, source_idx: self.source };
            self.capture.tables.chunks.push(chunk);
        }
    }

    /// Figures that rows do not hold: the client's own, and counts of the run.
    fn figures(&mut self, run: &LoadRun, point_idx: i32, offered: Option<(&'static str, f64)>) {
        let figures = Figures::of(&run.attempts, Slo::default());
        let health = &run.health;
        let mut rows = vec![
            ("client.schedule_slip.p50", health.slip.p50),
            ("client.schedule_slip.p99", health.slip.p99),
            ("client.loop_lag.mean", health.lag.mean),
            ("client.loop_lag.p50", health.lag.p50),
            ("client.loop_lag.p99", health.lag.p99),
            ("client.completed", figures.completed as f64),
            ("client.errors", figures.failed() as f64),
            ("client.duration", figures.duration_s),
            ("client.new_connections", figures.new_connections as f64),
        ];
        rows.extend(offered);
        rows.extend(health.cpu_frac.map(|frac| ("client.cpu", frac)));
        let labels = self.capture.intern("");
        for (signal, value) in rows {
            let signal = self.capture.intern(signal);
            let sample = Sample { t_ns: run.start_ns, run_idx: 0, point_idx, signal, labels, value, source_idx: self.source };
            self.capture.tables.samples.push(sample);
        }
        let limits = health.limits(&figures);
        if !limits.is_empty() {
            let sentence = format!("client-limited: {}; times at the client say more about it than about the server", limits.join("; "));
            let name = self.capture.manifest.sources[self.source.0 as usize].name.clone();
            self.capture.add_issue(Severity::Warning, "client_limited", &name, "", 1, &sentence);
        }
    }

    fn finish(mut self) -> Capture {
        if self.left_out > 0 {
            let name = self.capture.manifest.sources[self.source.0 as usize].name.clone();
            let sentence = format!("expected at most {MAX_CHUNKS} chunks, found more; whole requests are left without theirs, evenly");
            self.capture.add_issue(Severity::Warning, "chunks_thinned", &name, "", self.left_out, &sentence);
        }
        self.capture.canonicalize();
        self.capture
    }
}
