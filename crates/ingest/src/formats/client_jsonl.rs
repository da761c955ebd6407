//! A load client's log: one line per attempt, epoch seconds (`sched`, `start`, `conn`, `first`, `end`), gaps between
//! chunks, token counts, status.
//!
//! Becomes `requests` at the client and `chunks`. Error texts are only classified, never kept.

use capture::{Request, Severity};

use crate::builder::{Builder, NO_POINT};
use crate::formats::chunks::{Gaps, add_chunks};
use crate::formats::client_row::{MAX_TIME_NS, MAX_TOKENS};
use crate::formats::json_lines::{LineJson, each_line, sniff_keys};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;
use crate::json::JsonResult;

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "client_jsonl", stage: Stage::Clocked, sniff, read };

fn sniff(probe: &Probe<'_>) -> Confidence {
    sniff_keys(probe, &["i", "attempt", "start", "end"])
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    each_line(input, builder, |json, number, builder| {
        let attempt = Attempt::read(json)?;
        Ok(attempt.add(number, builder))
    });
}

#[derive(Default)]
struct Attempt {
    id: Option<String>,
    number: Option<i64>,
    sched: Option<i64>,
    start: Option<i64>,
    conn: Option<i64>,
    first: Option<i64>,
    end: Option<i64>,
    gaps: Gaps,
    new_conn: Option<bool>,
    tokens_in: Option<i64>,
    tokens_out: Option<i64>,
    status: Option<i64>,
    ok: Option<bool>,
    error: Option<String>,
    class: Option<String>,
}

impl Attempt {
    fn read(json: &mut LineJson<'_>) -> JsonResult<Self> {
        let mut it = Self::default();
        json.object(|key, json| {
            match key {
                "i" => it.id = json.scalar()?,
                "attempt" => it.number = json.i64()?,
                "sched" => it.sched = json.seconds_ns()?,
                "start" => it.start = json.seconds_ns()?,
                "conn" => it.conn = json.seconds_ns()?,
                "first" => it.first = json.seconds_ns()?,
                "end" => it.end = json.seconds_ns()?,
                "gaps" => json.array(|json| {
                    it.gaps.push(json.seconds_ns()?.unwrap_or(0));
                    Ok(())
                })?,
                "new_conn" => it.new_conn = json.bool()?,
                "prompt_tokens" => it.tokens_in = json.i64()?,
                "output_tokens" => it.tokens_out = json.i64()?,
                "status" => it.status = json.i64()?,
                "ok" => it.ok = json.bool()?,
                "error" => it.error = json.scalar()?,
                "class" | "ds" => it.class = json.scalar()?,
                _ => json.skip()?,
            }
            Ok(())
        })?;
        Ok(it)
    }

    /// Times that go back, last too long, or token counts that no request has.
    fn is_impossible(&self, start: i64) -> bool {
        let ends = [self.first, self.end].into_iter().flatten();
        let is_odd = |end: i64| !(0..=MAX_TIME_NS).contains(&end.saturating_sub(start));
        let mut tokens = [self.tokens_in, self.tokens_out].into_iter().flatten();
        let has_odd_gap = self.gaps.count > 0 && (self.gaps.least_ns < 0 || self.gaps.most_ns > MAX_TIME_NS);
        let ends_early = self.first.zip(self.end).is_some_and(|(first, end)| first > end);
        ends.into_iter().any(is_odd) || has_odd_gap || ends_early || tokens.any(|tokens| !(0..=MAX_TOKENS).contains(&tokens))
    }

    fn add(self, number: u64, builder: &mut Builder<'_>) -> bool {
        let Some(start) = self.start else { return false };
        if self.is_impossible(start) {
            builder.issue_once(Severity::Warning, "impossible_times", &format!("line {number}"), || {
                "expected times of one request in order and less than a million seconds apart, and at most a billion tokens, found others; the \
                 request is left out"
                    .to_string()
            });
            return true;
        }
        let id = match (&self.id, builder.context.class.as_str()) {
            (Some(id), "") => id.clone(),
            (Some(id), class) => format!("{class}/{id}"),
            (None, _) => return false,
        };
        let attempt = self.number.and_then(|attempt| u32::try_from(attempt).ok()).unwrap_or(0);
        builder.covers(start);
        self.end.into_iter().for_each(|end| builder.covers(end));
        let vantage = builder.intern("client");
        let request_id = builder.intern(&id);
        let class = self.class.as_deref().unwrap_or(&builder.context.class).to_string();
        let finish = match (self.ok, self.error.as_deref()) {
            (Some(false), error) | (None, error @ Some(_)) => error_class(error.unwrap_or_default()),
            _ => "",
        };
        let total = self.gaps.sum_ns;
        let row = Request {
            t_sent_ns: start,
            run_idx: builder.context.run_idx,
            point_idx: NO_POINT,
            vantage,
            request_id,
            attempt,
            t_intended_ns: self.sched,
            t_connected_ns: self.conn,
            t_first_content_ns: self.first,
            t_last_token_ns: self.first.map(|first| first.saturating_add(total)),
            t_done_ns: self.end,
            tokens_in: self.tokens_in,
            tokens_out: self.tokens_out,
            replica: builder.intern(""),
            class: builder.intern(&class),
            finish: builder.intern(finish),
            status: self.status,
            new_connection: self.new_conn.map(i64::from),
            source_idx: builder.source(),
            ..Request::default()
        };
        if builder.request(row)
            && let Some(first) = self.first
        {
            match &self.gaps.list {
                Some(list) => add_chunks(builder, vantage, request_id, attempt, first, list),
                None => builder.chunks.leave_out(self.gaps.count),
            }
        }
        true
    }
}

/// The class of an error text: what kind of failure, never its words.
pub(super) fn error_class(text: &str) -> &'static str {
    let text = text.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    if has(&["timeout", "timed out"]) {
        "timeout"
    } else if has(&["cancel", "abort"]) {
        "abort"
    } else if has(&["connect", "disconnect", "reset", "refused", "payload", "eof", "closed"]) {
        "connection"
    } else {
        "error"
    }
}
