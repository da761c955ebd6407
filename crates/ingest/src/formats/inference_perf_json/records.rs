//! The requests of `inference-perf`: one record each, with the time of every chunk.
//!
//! Requests, responses and chunks are skipped without being stored. Output tokens are the server's count where it is told.

use capture::Severity;

use super::tell_clock;
use crate::builder::{Builder, NO_POINT};
use crate::formats::chunks::Gaps;
use crate::formats::client_jsonl::error_class;
use crate::formats::client_row::ClientRow;
use crate::input::Input;
use crate::json::{Json, JsonResult};

type FileJson<'a, 'b> = Json<&'a mut Input<'b>>;

/// Times below this are no times since the epoch.
const FIRST_DATE_NS: i64 = 1_000_000_000 * 1_000_000_000;

const DEFINITIONS: &str = "seconds became nanoseconds; the first token is the first chunk, gaps are those between chunks (`chunk_times`), and \
                           `output_token_times`, one per token of the chunks tokenized again, serves only where a file has no chunk times";

pub(super) fn read(json: &mut FileJson<'_, '_>, builder: &mut Builder<'_>) {
    let mut count = 0u64;
    let mut is_dated = true;
    let outcome = json.array(|json| {
        if json.peek() != Some(b'{') {
            return json.skip();
        }
        let record = Record::read(json)?;
        if let Some(start) = record.start {
            is_dated &= start >= FIRST_DATE_NS;
            count += 1;
        }
        record.add(count, builder);
        Ok(())
    });
    if let Err(error) = outcome {
        builder.damaged_json(&error);
    }
    if count == 0 {
        builder.refuse("no_rows", "expected requests of `inference-perf` with their `start_time`, found none");
        return;
    }
    builder.issue(Severity::Note, "definitions", "", 1, DEFINITIONS);
    if !is_dated {
        tell_clock(builder);
        let sentence = "expected times since the epoch, found those of a monotonic clock; requests stand at these times";
        builder.issue(Severity::Note, "requests_without_date", "", count, sentence);
    }
}

#[derive(Default)]
struct Record {
    start: Option<i64>,
    end: Option<i64>,
    chunks: Times,
    tokens: Times,
    own_in: Option<i64>,
    own_out: Option<i64>,
    server_in: Option<i64>,
    server_out: Option<i64>,
    error: Option<&'static str>,
}

/// Times of a stream, as first time and gaps.
#[derive(Default)]
struct Times {
    first: Option<i64>,
    last: Option<i64>,
    gaps: Gaps,
}

impl Times {
    fn read(json: &mut FileJson<'_, '_>) -> JsonResult<Self> {
        let mut it = Self::default();
        json.array(|json| {
            let Some(time) = json.seconds_ns()? else { return Ok(()) };
            if let Some(last) = it.last {
                it.gaps.push(time.saturating_sub(last));
            }
            it.first = it.first.or(Some(time));
            it.last = Some(time);
            Ok(())
        })?;
        Ok(it)
    }
}

impl Record {
    fn read(json: &mut FileJson<'_, '_>) -> JsonResult<Self> {
        let mut it = Self::default();
        json.object(|key, json| {
            match (key, json.peek()) {
                ("start_time", _) => it.start = json.seconds_ns()?,
                ("end_time", _) => it.end = json.seconds_ns()?,
                ("info", Some(b'{')) => json.object(|key, json| it.read_info(key, json))?,
                ("error", Some(b'{')) => {
                    let mut text = String::new();
                    json.object(|_, json| {
                        text.push_str(&json.lead()?.unwrap_or_default());
                        Ok(())
                    })?;
                    it.error = Some(error_class(&text));
                }
                ("error", Some(b'"')) => it.error = json.lead()?.map(|text| error_class(&text)),
                _ => json.skip()?,
            }
            Ok(())
        })?;
        Ok(it)
    }

    /// Older files have everything in `info`, newer ones in its `request_metrics` and `response_metrics`.
    fn read_info(&mut self, key: &str, json: &mut FileJson<'_, '_>) -> JsonResult<()> {
        match (key, json.peek()) {
            ("request_metrics" | "response_metrics" | "text", Some(b'{')) => json.object(|key, json| self.read_info(key, json))?,
            ("input_tokens", _) => self.own_in = json.i64()?.or(self.own_in),
            ("output_tokens", _) => self.own_out = json.i64()?.or(self.own_out),
            ("server_usage", Some(b'{')) => json.object(|key, json| {
                match key {
                    "prompt_tokens" => self.server_in = json.i64()?,
                    "completion_tokens" => self.server_out = json.i64()?,
                    _ => json.skip()?,
                }
                Ok(())
            })?,
            ("chunk_times", Some(b'[')) => self.chunks = Times::read(json)?,
            ("output_token_times", Some(b'[')) => self.tokens = Times::read(json)?,
            _ => json.skip()?,
        }
        Ok(())
    }

    fn add(self, number: u64, builder: &mut Builder<'_>) {
        let place = format!("request {}", number.saturating_sub(1));
        let Some(sent_ns) = self.start else {
            builder.issue_once(Severity::Warning, "request_incomplete", &place, || {
                "expected a request with its `start_time`, found one without; it is left out".to_string()
            });
            return;
        };
        if let Some((own, server)) = self.own_out.zip(self.server_out).filter(|(own, server)| own != server) {
            builder.issue_once(Severity::Note, "token_counts_differ", &place, || {
                format!("the tool's tokenizer counts {own} output tokens, the server {server}; the server's count is used")
            });
        }
        if sent_ns >= FIRST_DATE_NS {
            builder.covers(sent_ns);
            self.end.into_iter().for_each(|end| builder.covers(end));
        }
        let has_chunks = self.chunks.first.is_some();
        // Without chunk times the gaps are those of re-tokenized tokens, which nobody delivered one by one.
        let times = if has_chunks { self.chunks } else { self.tokens };
        let row = ClientRow {
            id: number.saturating_sub(1).to_string(),
            point_idx: NO_POINT,
            sent_ns,
            first_ns: times.first,
            last_ns: times.last,
            done_ns: self.end,
            tokens_in: self.server_in.or(self.own_in),
            tokens_out: self.server_out.or(self.own_out),
            finish: self.error.unwrap_or_default(),
            gaps: has_chunks.then_some(times.gaps),
            ..ClientRow::default()
        };
        row.add(&place, builder);
    }
}
