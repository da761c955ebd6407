//! A load client's log: one line per attempt, epoch seconds (`sched`, `start`, `conn`, `first`, `end`), gaps between
//! chunks, token counts, status.
//!
//! Becomes `requests` at the client and `chunks`. Error texts are only classified, never kept.

use capture::{Chunk, Request};

use crate::builder::{Builder, NO_POINT};
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
    each_line(input, builder, |json, _, builder| {
        let attempt = Attempt::read(json)?;
        Ok(attempt.add(builder))
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
    gaps_ns: Vec<i64>,
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
                    it.gaps_ns.push(json.seconds_ns()?.unwrap_or(0));
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

    fn add(self, builder: &mut Builder<'_>) -> bool {
        let Some(start) = self.start else { return false };
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
        let total: i64 = self.gaps_ns.iter().sum();
        let row = Request {
            t_sent_ns: start,
            run_idx: builder.context.run_idx,
            point_idx: NO_POINT,
            vantage,
            request_id,
            attempt,
            t_intended_ns: self.sched,
            t_connected_ns: self.conn,
            t_upstream_sent_ns: None,
            t_upstream_first_ns: None,
            t_headers_ns: None,
            t_first_event_ns: None,
            t_first_role_ns: None,
            t_first_reasoning_ns: None,
            t_first_content_ns: self.first,
            t_queued_ns: None,
            t_scheduled_ns: None,
            t_last_token_ns: self.first.map(|first| first.saturating_add(total)),
            t_done_ns: self.end,
            tokens_in: self.tokens_in,
            tokens_out: self.tokens_out,
            tokens_cached: None,
            replica: builder.intern(""),
            class: builder.intern(&class),
            preemptions: None,
            finish: builder.intern(finish),
            status: self.status,
            new_connection: self.new_conn.map(i64::from),
            source_idx: builder.source(),
        };
        builder.capture.tables.requests.push(row);
        if let Some(first) = self.first {
            add_chunks(builder, vantage, request_id, attempt, first, &self.gaps_ns);
        }
        true
    }
}

/// Adds the chunks of one stream: the first at `first_ns`, each further one a gap later.
pub(super) fn add_chunks(
    builder: &mut Builder<'_>,
    vantage: capture::Name,
    request_id: capture::Name,
    attempt: u32,
    first_ns: i64,
    gaps_ns: &[i64],
) {
    let (run_idx, source_idx) = (builder.context.run_idx, builder.source());
    let mut t_ns = first_ns;
    let gaps = std::iter::once(0).chain(gaps_ns.iter().copied());
    for (chunk_idx, gap_ns) in gaps.enumerate() {
        t_ns = t_ns.saturating_add(gap_ns);
        let chunk_idx = chunk_idx as u32;
        builder.capture.tables.chunks.push(Chunk { t_ns, run_idx, vantage, request_id, attempt, chunk_idx, gap_ns, source_idx });
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
