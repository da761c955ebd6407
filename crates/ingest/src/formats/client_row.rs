//! One request as a load generator records it, checked, with its chunks.
//!
//! Shared by the formats that have a record per request. Times are host or client times in nanoseconds; a request whose
//! numbers cannot be is left out and counted.

use capture::{Request, Severity};

use crate::builder::Builder;
use crate::formats::chunks::{Gaps, add_chunks};

/// Longest believable time of a request.
pub(crate) const MAX_TIME_NS: i64 = 1_000_000_000_000_000;
/// Most believable tokens of a request.
pub(crate) const MAX_TOKENS: i64 = 1_000_000_000;

/// See the module.
#[derive(Default)]
pub(crate) struct ClientRow {
    pub(crate) id: String,
    pub(crate) point_idx: i32,
    pub(crate) sent_ns: i64,
    pub(crate) intended_ns: Option<i64>,
    pub(crate) connected_ns: Option<i64>,
    pub(crate) headers_ns: Option<i64>,
    pub(crate) first_ns: Option<i64>,
    pub(crate) last_ns: Option<i64>,
    pub(crate) done_ns: Option<i64>,
    pub(crate) tokens_in: Option<i64>,
    pub(crate) tokens_out: Option<i64>,
    pub(crate) tokens_cached: Option<i64>,
    pub(crate) finish: &'static str,
    pub(crate) status: Option<i64>,
    pub(crate) new_connection: Option<i64>,
    /// Gaps between chunks after the first, where chunks are recorded.
    pub(crate) gaps: Option<Gaps>,
}

impl ClientRow {
    /// What is impossible about the request: issue code and what was expected.
    fn impossible(&self) -> Option<(&'static str, &'static str)> {
        let times = [self.connected_ns, self.headers_ns, self.first_ns, self.last_ns, self.done_ns];
        let after = |time: i64| time.checked_sub(self.sent_ns);
        let gaps = self.gaps.as_ref().filter(|gaps| gaps.count > 0).map(|gaps| [gaps.least_ns, gaps.most_ns]);
        let mut spans = times.into_iter().flatten().map(after).chain(gaps.into_iter().flatten().map(Some));
        let ends_before = |first: Option<i64>, second: Option<i64>| first.zip(second).is_some_and(|(first, second)| first > second);
        let mut tokens = [self.tokens_in, self.tokens_out, self.tokens_cached].into_iter().flatten();
        if spans.clone().any(|span| span.is_some_and(|span| span < 0)) {
            Some(("negative_time", "times of zero or more"))
        } else if spans.any(|span| span.is_none_or(|span| span > MAX_TIME_NS)) {
            Some(("absurd_time", "times below a million seconds"))
        } else if ends_before(self.first_ns, self.done_ns) || ends_before(self.first_ns, self.last_ns) {
            Some(("ttft_after_end", "a first token before the end of the request"))
        } else if tokens.any(|tokens| !(0..=MAX_TOKENS).contains(&tokens)) {
            Some(("absurd_token_count", "a number of tokens from zero to a billion"))
        } else {
            None
        }
    }

    /// Adds the request and its chunks; false when it is left out. `place` names it in the file.
    pub(crate) fn add(self, place: &str, builder: &mut Builder<'_>) -> bool {
        if let Some((code, expected)) = self.impossible() {
            builder.issue_once(Severity::Warning, code, place, || {
                format!("expected {expected}, found something else; the request is left out")
            });
            return false;
        }
        let id = match builder.context.class.as_str() {
            "" => self.id,
            class => format!("{class}/{}", self.id),
        };
        let class = builder.context.class.clone();
        let (vantage, request_id) = (builder.intern("client"), builder.intern(&id));
        let row = Request {
            t_sent_ns: self.sent_ns,
            run_idx: builder.context.run_idx,
            point_idx: self.point_idx,
            vantage,
            request_id,
            attempt: 0,
            t_intended_ns: self.intended_ns,
            t_connected_ns: self.connected_ns,
            t_headers_ns: self.headers_ns,
            t_first_content_ns: self.first_ns,
            t_last_token_ns: self.last_ns,
            t_done_ns: self.done_ns,
            tokens_in: self.tokens_in,
            tokens_out: self.tokens_out,
            tokens_cached: self.tokens_cached,
            class: builder.intern(&class),
            finish: builder.intern(self.finish),
            status: self.status,
            new_connection: self.new_connection,
            source_idx: builder.source(),
            ..Request::default()
        };
        let is_kept = builder.request(row);
        if is_kept && let Some((first, gaps)) = self.first_ns.zip(self.gaps) {
            match &gaps.list {
                Some(list) => add_chunks(builder, vantage, request_id, 0, first, list),
                None => builder.chunks.leave_out(gaps.count),
            }
        }
        is_kept
    }
}
