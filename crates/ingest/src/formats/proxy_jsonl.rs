//! A gateway's log: one line per request with epoch seconds `recv`, `upstream_sent`, `upstream_first_byte`,
//! `client_first_byte`, `done`, and the upstream it chose.
//!
//! Only completion paths are requests; health checks and scrapes that pass through are counted and left out.

use capture::{Request, Severity};

use crate::builder::{Builder, NO_POINT};
use crate::formats::json_lines::{LineJson, each_line, sniff_keys};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;
use crate::json::JsonResult;

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "proxy_jsonl", stage: Stage::Clocked, sniff, read };

fn sniff(probe: &Probe<'_>) -> Confidence {
    sniff_keys(probe, &["recv", "upstream_sent", "done"])
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    each_line(input, builder, |json, number, builder| {
        let passage = Passage::read(json)?;
        Ok(passage.add(number, builder))
    });
}

#[derive(Default)]
struct Passage {
    path: Option<String>,
    id: Option<String>,
    status: Option<i64>,
    recv: Option<i64>,
    upstream_sent: Option<i64>,
    upstream_first: Option<i64>,
    client_first: Option<i64>,
    done: Option<i64>,
    upstream: Option<String>,
}

fn is_completion(path: &str) -> bool {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    path.ends_with("/completions") || ["/v1/responses", "/v1/messages", "/generate"].iter().any(|end| path.ends_with(end))
}

impl Passage {
    fn read(json: &mut LineJson<'_>) -> JsonResult<Self> {
        let mut it = Self::default();
        json.object(|key, json| {
            match key {
                "path" => it.path = json.scalar()?,
                "request_id" | "id" => it.id = json.scalar()?,
                "status" => it.status = json.i64()?,
                "recv" => it.recv = json.seconds_ns()?,
                "upstream_sent" => it.upstream_sent = json.seconds_ns()?,
                "upstream_first_byte" => it.upstream_first = json.seconds_ns()?,
                "client_first_byte" => it.client_first = json.seconds_ns()?,
                "done" => it.done = json.seconds_ns()?,
                "upstream" => it.upstream = json.scalar()?,
                _ => json.skip()?,
            }
            Ok(())
        })?;
        Ok(it)
    }

    fn add(self, number: u64, builder: &mut Builder<'_>) -> bool {
        let Some(recv) = self.recv else { return false };
        if !self.path.as_deref().is_none_or(is_completion) {
            builder.issue_once(Severity::Note, "other_requests", &format!("line {number}"), || {
                "requests for other paths than completions (metrics, health) are left out".to_string()
            });
            return true;
        }
        builder.covers(recv);
        self.done.into_iter().for_each(|done| builder.covers(done));
        let id = self.id.unwrap_or_else(|| number.to_string());
        let row = Request {
            t_sent_ns: recv,
            run_idx: builder.context.run_idx,
            point_idx: NO_POINT,
            vantage: builder.intern("gateway"),
            request_id: builder.intern(&id),
            attempt: 0,
            t_upstream_sent_ns: self.upstream_sent,
            t_upstream_first_ns: self.upstream_first,
            t_first_content_ns: self.client_first,
            t_done_ns: self.done,
            replica: builder.intern(self.upstream.as_deref().unwrap_or_default()),
            class: capture::Name::EMPTY,
            finish: capture::Name::EMPTY,
            status: self.status,
            source_idx: builder.source(),
            ..Request::default()
        };
        builder.request(row);
        true
    }
}
