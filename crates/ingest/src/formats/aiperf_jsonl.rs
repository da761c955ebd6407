//! AIPerf's `profile_export.jsonl`: one line per request, epoch nanoseconds, gaps between chunks.
//!
//! Output tokens are the server's count where the line has it, else those of AIPerf's own tokenizer; requests where the two
//! differ are counted. Warm-up requests are left out.

use capture::Severity;

use crate::builder::{Builder, NO_POINT};
use crate::formats::chunks::Gaps;
use crate::formats::client_jsonl::error_class;
use crate::formats::client_row::ClientRow;
use crate::formats::json_lines::{LineJson, each_line, sniff_keys};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;
use crate::json::JsonResult;

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "aiperf_jsonl", stage: Stage::Clocked, sniff, read };

const DEFINITIONS: &str = "milliseconds became nanoseconds; a request was due when its credit was issued; gaps are those between delivered chunks; output \
                           tokens are the server's count, or that of AIPerf's tokenizer where the server tells none";

fn sniff(probe: &Probe<'_>) -> Confidence {
    sniff_keys(probe, &["metadata", "metrics", "request_start_ns", "benchmark_phase"])
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    each_line(input, builder, |json, number, builder| {
        let record = Record::read(json)?;
        let is_used = record.add(number, builder);
        if is_used {
            builder.issue_once(Severity::Note, "definitions", "", || DEFINITIONS.to_string());
        }
        Ok(is_used)
    });
}

#[derive(Default)]
struct Record {
    id: Option<String>,
    phase: Option<String>,
    issued: Option<i64>,
    start: Option<i64>,
    ack: Option<i64>,
    end: Option<i64>,
    cancelled: bool,
    ttft: Option<i64>,
    gaps: Option<Gaps>,
    own_in: Option<i64>,
    own_out: Option<i64>,
    server_in: Option<i64>,
    server_out: Option<i64>,
    reused: Option<i64>,
    error: Option<&'static str>,
    status: Option<i64>,
}

impl Record {
    fn read(json: &mut LineJson<'_>) -> JsonResult<Self> {
        let mut it = Self::default();
        json.object(|key, json| match (key, json.peek()) {
            ("metadata", Some(b'{')) => it.read_metadata(json),
            ("metrics", Some(b'{')) => json.object(|metric, json| it.read_metric(metric, json)),
            ("error", Some(b'{')) => it.read_error(json),
            _ => json.skip(),
        })?;
        Ok(it)
    }

    fn read_metadata(&mut self, json: &mut LineJson<'_>) -> JsonResult<()> {
        json.object(|key, json| {
            match key {
                "x_request_id" => self.id = json.scalar()?,
                "session_num" => self.id = self.id.take().or(json.scalar()?),
                "benchmark_phase" => self.phase = json.scalar()?,
                "credit_issued_ns" => self.issued = json.scaled_ns(0)?,
                "request_start_ns" => self.start = json.scaled_ns(0)?,
                "request_ack_ns" => self.ack = json.scaled_ns(0)?,
                "request_end_ns" => self.end = json.scaled_ns(0)?,
                "was_cancelled" => self.cancelled = json.bool()?.unwrap_or(false),
                _ => json.skip()?,
            }
            Ok(())
        })
    }

    /// Reads `{"value": .., "unit": ..}`; the unit of each metric read here is fixed (ms, tokens).
    fn read_metric(&mut self, metric: &str, json: &mut LineJson<'_>) -> JsonResult<()> {
        if json.peek() != Some(b'{') {
            return json.skip();
        }
        json.object(|key, json| {
            if key != "value" {
                return json.skip();
            }
            match metric {
                "time_to_first_token" => self.ttft = json.scaled_ns(6)?,
                "inter_chunk_latency" if json.peek() == Some(b'[') => {
                    let mut gaps = Gaps::default();
                    json.array(|json| {
                        gaps.push(json.scaled_ns(6)?.unwrap_or(-1));
                        Ok(())
                    })?;
                    self.gaps = Some(gaps);
                }
                "input_sequence_length" => self.own_in = json.i64()?,
                "output_sequence_length" => self.own_out = json.i64()?,
                "usage_prompt_tokens" => self.server_in = json.i64()?,
                "usage_completion_tokens" => self.server_out = json.i64()?,
                "http_req_connection_reused" => self.reused = json.i64()?,
                _ => json.skip()?,
            }
            Ok(())
        })
    }

    fn read_error(&mut self, json: &mut LineJson<'_>) -> JsonResult<()> {
        let mut text = String::new();
        json.object(|key, json| {
            match key {
                "code" => self.status = json.i64()?.filter(|code| (100..600).contains(code)),
                "type" | "message" => text.push_str(&json.lead()?.unwrap_or_default()),
                _ => json.skip()?,
            }
            Ok(())
        })?;
        self.error = Some(error_class(&text));
        Ok(())
    }

    fn add(self, number: u64, builder: &mut Builder<'_>) -> bool {
        let Some(start) = self.start else { return false };
        let place = format!("line {number}");
        if self.phase.as_deref() == Some("warmup") {
            builder.issue_once(Severity::Note, "warmup_left_out", &place, || "requests of the warm-up are left out".to_string());
            return true;
        }
        if let Some((own, server)) = self.own_out.zip(self.server_out).filter(|(own, server)| own != server) {
            builder.issue_once(Severity::Note, "token_counts_differ", &place, || {
                format!("AIPerf's tokenizer counts {own} output tokens, the server {server}; the server's count is used")
            });
        }
        builder.covers(start);
        self.end.into_iter().for_each(|end| builder.covers(end));
        let first_ns = self.ttft.map(|ttft| start.saturating_add(ttft));
        let row = ClientRow {
            id: self.id.unwrap_or_else(|| number.to_string()),
            point_idx: NO_POINT,
            sent_ns: start,
            intended_ns: self.issued,
            headers_ns: self.ack,
            first_ns,
            last_ns: first_ns.zip(self.gaps.as_ref()).map(|(first, gaps)| first.saturating_add(gaps.sum_ns)),
            done_ns: self.end,
            tokens_in: self.server_in.or(self.own_in),
            tokens_out: self.server_out.or(self.own_out),
            finish: if self.cancelled { "abort" } else { self.error.unwrap_or_default() },
            status: self.status,
            new_connection: self.reused.map(|reused| i64::from(reused == 0)),
            gaps: self.gaps,
            ..ClientRow::default()
        };
        row.add(&place, builder);
        true
    }
}
