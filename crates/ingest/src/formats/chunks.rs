//! The chunks of streams, in bounded memory.
//!
//! A result may hold a hundred million gaps. Beyond a limit per source every second request keeps its chunks, then every
//! fourth, and so on: whole requests, spread evenly. Times and sums of a request stay exact whatever is left out.

use capture::{Chunk, Name, Severity};

use crate::builder::Builder;

/// Most chunk rows of one source.
const MAX_CHUNKS: usize = 5_000_000;

/// The gaps of one request.
pub(crate) struct Gaps {
    pub(crate) count: usize,
    pub(crate) sum_ns: i64,
    pub(crate) least_ns: i64,
    pub(crate) most_ns: i64,
    /// The gaps one by one; `None` when they are left out.
    pub(crate) list: Option<Vec<i64>>,
}

impl Default for Gaps {
    fn default() -> Self {
        Self { count: 0, sum_ns: 0, least_ns: i64::MAX, most_ns: i64::MIN, list: Some(Vec::new()) }
    }
}

impl Gaps {
    pub(crate) fn push(&mut self, gap_ns: i64) {
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(gap_ns);
        self.least_ns = self.least_ns.min(gap_ns);
        self.most_ns = self.most_ns.max(gap_ns);
        if self.count >= MAX_CHUNKS {
            self.list = None;
        }
        if let Some(list) = &mut self.list {
            list.push(gap_ns);
        }
    }
}

/// The gaps of all requests of a result.
#[derive(Default)]
pub(crate) struct GapLists {
    pub(crate) lists: Vec<Gaps>,
    thinning: Thinning,
}

impl GapLists {
    pub(crate) fn get(&self, at: usize) -> Option<&Gaps> {
        self.lists.get(at)
    }

    pub(crate) fn push(&mut self, mut gaps: Gaps) {
        let kept = gaps.list.as_ref().map_or(0, Vec::len);
        if !self.thinning.takes(self.lists.len()) {
            gaps.list = None;
        } else if self.thinning.add(kept, MAX_CHUNKS) {
            let stride = self.thinning.stride;
            for (at, gaps) in self.lists.iter_mut().enumerate() {
                if !at.is_multiple_of(stride) {
                    gaps.list = None;
                }
            }
            if !self.lists.len().is_multiple_of(stride) {
                gaps.list = None;
            }
            let lists = self.lists.iter().chain(std::iter::once(&gaps));
            self.thinning.kept = lists.filter_map(|gaps| gaps.list.as_ref()).map(Vec::len).sum();
        }
        self.lists.push(gaps);
    }
}

/// Which requests keep their chunks.
struct Thinning {
    stride: usize,
    kept: usize,
}

impl Default for Thinning {
    fn default() -> Self {
        Self { stride: 1, kept: 0 }
    }
}

impl Thinning {
    fn takes(&self, ordinal: usize) -> bool {
        ordinal.is_multiple_of(self.stride)
    }

    /// Counts rows; true when they became too many and the stride doubled.
    fn add(&mut self, rows: usize, limit: usize) -> bool {
        self.kept += rows;
        let is_over = self.kept > limit;
        if is_over {
            self.stride = self.stride.saturating_mul(2);
        }
        is_over
    }
}

/// What a source keeps of its chunks.
#[derive(Default)]
pub(crate) struct Kept {
    thinning: Thinning,
    next: usize,
    /// Request number and rows, for the rows in the table.
    spans: Vec<(usize, usize)>,
    left_out: u64,
}

impl Kept {
    /// Counts the chunks of a request that are left out.
    pub(crate) fn leave_out(&mut self, gaps: usize) {
        self.next += 1;
        self.left_out += gaps as u64 + 1;
    }
}

/// Adds the chunks of one stream: the first at `first_ns`, each further one a gap later.
pub(crate) fn add_chunks(builder: &mut Builder<'_>, vantage: Name, request_id: Name, attempt: u32, first_ns: i64, gaps_ns: &[i64]) {
    let rows = gaps_ns.len() + 1;
    if !builder.chunks.thinning.takes(builder.chunks.next) || rows > MAX_CHUNKS {
        builder.chunks.leave_out(gaps_ns.len());
        return;
    }
    let (run_idx, source_idx) = (builder.context.run_idx, builder.source());
    let mut t_ns = first_ns;
    let gaps = std::iter::once(0).chain(gaps_ns.iter().copied());
    for (chunk_idx, gap_ns) in gaps.enumerate() {
        t_ns = t_ns.saturating_add(gap_ns);
        let chunk_idx = chunk_idx as u32;
        builder.capture.tables.chunks.push(Chunk { t_ns, run_idx, vantage, request_id, attempt, chunk_idx, gap_ns, source_idx });
    }
    let kept = &mut builder.chunks;
    kept.spans.push((kept.next, rows));
    kept.next += 1;
    if kept.thinning.add(rows, MAX_CHUNKS) {
        thin(builder);
    }
}

fn thin(builder: &mut Builder<'_>) {
    let kept = &mut builder.chunks;
    let mut marks = Vec::with_capacity(kept.thinning.kept);
    let thinning = &kept.thinning;
    for &(ordinal, rows) in &kept.spans {
        marks.resize(marks.len() + rows, thinning.takes(ordinal));
    }
    kept.spans.retain(|(ordinal, _)| thinning.takes(*ordinal));
    let left: usize = kept.spans.iter().map(|(_, rows)| rows).sum();
    kept.left_out += (kept.thinning.kept - left) as u64;
    kept.thinning.kept = left;
    crate::duplicates::keep_rows(&mut builder.capture.tables.chunks, &marks);
}

/// Tells what was left out.
pub(crate) fn report(builder: &mut Builder<'_>) {
    let left_out = builder.chunks.left_out;
    if left_out > 0 {
        let sentence = format!(
            "expected at most {MAX_CHUNKS} chunks, found more; whole requests are left without their chunks, evenly, their times are kept"
        );
        builder.issue(Severity::Warning, "chunks_thinned", "", left_out, sentence);
    }
}
