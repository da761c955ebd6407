//! Rows of what passed, until the next segment takes them.

use std::sync::{Mutex, PoisonError};

use capture::ids::NO_POINT;
use capture::{Capture, Chunk, PrefixBlock, Request, Source, SourceIdx, Table as _};

/// Rows that may wait for the disk.
const MAX_ROWS: usize = 1 << 20;

/// Rows since the last segment.
#[derive(Debug)]
pub(super) struct Rows {
    open: Mutex<Open>,
    source: String,
}

#[derive(Debug)]
struct Open {
    capture: Capture,
    row_count: usize,
    dropped: u64,
    is_recording: bool,
}

/// What became of one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Passage {
    pub(super) id: String,
    pub(super) received_ns: i64,
    pub(super) upstream_sent_ns: Option<i64>,
    pub(super) upstream_first_ns: Option<i64>,
    pub(super) headers_ns: Option<i64>,
    pub(super) first_event_ns: Option<i64>,
    pub(super) first_role_ns: Option<i64>,
    pub(super) first_reasoning_ns: Option<i64>,
    pub(super) first_content_ns: Option<i64>,
    pub(super) last_token_ns: Option<i64>,
    pub(super) done_ns: Option<i64>,
    pub(super) tokens_in: Option<i64>,
    pub(super) tokens_out: Option<i64>,
    pub(super) tokens_cached: Option<i64>,
    pub(super) finish: String,
    pub(super) status: Option<u16>,
    pub(super) is_new_connection: bool,
}

impl Rows {
    pub(super) fn new(listen: &str) -> Self {
        let source = format!("tap {listen}");
        Self { open: Mutex::new(Open::new(&source, true)), source }
    }

    /// The rows since the last call; from then on rows are kept only while somebody records.
    pub(super) fn take(&self, is_recording: bool) -> Option<Capture> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = Open::new(&self.source, is_recording);
        fresh.dropped = open.dropped;
        let mut taken = std::mem::replace(&mut *open, fresh);
        drop(open);
        taken.capture.manifest.sources[0].row_count = taken.row_count as u64;
        (taken.row_count > 0 && is_recording).then_some(taken.capture)
    }

    pub(super) fn dropped_count(&self) -> u64 {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).dropped
    }

    /// A request that ended.
    pub(super) fn request(&self, passage: &Passage, upstream: &str) {
        self.add(1, |capture| {
            let row = Request {
                t_sent_ns: passage.received_ns,
                point_idx: NO_POINT,
                vantage: capture.intern("gateway"),
                request_id: capture.intern(&passage.id),
                t_upstream_sent_ns: passage.upstream_sent_ns,
                t_upstream_first_ns: passage.upstream_first_ns,
                t_headers_ns: passage.headers_ns,
                t_first_event_ns: passage.first_event_ns,
                t_first_role_ns: passage.first_role_ns,
                t_first_reasoning_ns: passage.first_reasoning_ns,
                t_first_content_ns: passage.first_content_ns,
                t_last_token_ns: passage.last_token_ns,
                t_done_ns: passage.done_ns,
                tokens_in: passage.tokens_in,
                tokens_out: passage.tokens_out,
                tokens_cached: passage.tokens_cached,
                replica: capture.intern(upstream),
                finish: capture.intern(&passage.finish),
                status: passage.status.map(i64::from),
                new_connection: Some(i64::from(passage.is_new_connection)),
                source_idx: SourceIdx(0),
                ..Request::default()
            };
            capture.tables.requests.push(row);
        });
    }

    /// A piece of a stream.
    pub(super) fn chunk(&self, id: &str, t_ns: i64, chunk_idx: u32, gap_ns: i64) {
        self.add(1, |capture| {
            let (vantage, request_id) = (capture.intern("gateway"), capture.intern(id));
            let row = Chunk { t_ns, vantage, request_id, chunk_idx, gap_ns, source_idx: SourceIdx(0), ..Chunk::default() };
            capture.tables.chunks.push(row);
        });
    }

    /// The blocks of a prompt.
    pub(super) fn prefix(&self, id: &str, t_ns: i64, hashes: &[i64]) {
        self.add(hashes.len(), |capture| {
            let request_id = capture.intern(id);
            for (block_idx, &hash) in (0..).zip(hashes) {
                capture.tables.prefix_blocks.push(PrefixBlock { t_ns, run_idx: 0, request_id, block_idx, hash });
            }
        });
    }

    fn add(&self, row_count: usize, push: impl FnOnce(&mut Capture)) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_recording && open.row_count + row_count <= MAX_ROWS {
            push(&mut open.capture);
            open.row_count += row_count;
        } else {
            open.dropped += row_count as u64;
        }
    }
}

impl Open {
    fn new(source: &str, is_recording: bool) -> Self {
        let mut capture = Capture::new();
        capture.add_source(Source { name: source.to_string(), format: "tap".to_string(), ..Source::default() });
        capture.manifest.subject.provenance = "recorded".to_string();
        debug_assert_eq!(capture.tables.requests.row_count(), 0, "a fresh capture is empty");
        Self { capture, row_count: 0, dropped: 0, is_recording }
    }
}
