//! OTLP traces as JSON (`resourceSpans`): one document, or one per line as the collector's file exporter writes them.
//!
//! Every span becomes a row of `spans`. A span that tells a request's latencies (vLLM's and SGLang's `llm_request`) also
//! becomes a request at the server: received at its start, first token by its own figure, queue and prefill counted back
//! from there, since the span does not say when the request reached the queue. Protobuf's own JSON (names with underscores,
//! numbers as text, `batches` as Tempo calls them) reads as well. Times are integers in decimal text. Span names lose what
//! follows a `?`; attributes are in `attributes.rs`; events, links and all text of users are left out.

mod attributes;

use std::io::BufRead;

use capture::text_time::scaled_to_ns;
use capture::{Name, Request, Severity, Span};

use crate::builder::{Builder, NO_POINT};
use crate::formats::json_lines::each_line;
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;
use crate::json::{Json, JsonResult};

use attributes::{Told, short};

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "otlp_json", stage: Stage::Clocked, sniff, read };

/// Longest believable span.
const MAX_TIME_NS: i64 = 1_000_000_000_000_000;

fn sniff(probe: &Probe<'_>) -> Confidence {
    let is_spans = ["\"resourceSpans\"", "\"resource_spans\""].iter().any(|key| probe.has(key));
    let is_tempo = probe.has("\"batches\"") && ["\"scopeSpans\"", "\"instrumentationLibrarySpans\""].iter().any(|key| probe.has(key));
    if probe.first_byte() == Some(b'{') && (is_spans || is_tempo) { Confidence::Sure } else { Confidence::No }
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    if has_lines(input) {
        each_line(input, builder, |json, _, builder| document(json, builder).map(|()| true));
    } else {
        read_documents(input, builder);
    }
    if builder.capture.tables.spans.t_start_ns.is_empty() {
        builder.refuse("no_spans", "expected spans with start and end below `resourceSpans`, found none");
    }
}

/// True when the first line is a whole document.
fn has_lines(input: &Input<'_>) -> bool {
    let head = input.head().trim_ascii_start();
    let Some(end) = memchr::memchr(b'\n', head) else { return false };
    let mut json = Json::new(&head[..end]);
    json.skip().is_ok() && json.peek().is_none()
}

fn read_documents(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let mut json = Json::new(input);
    while json.peek().is_some() {
        if let Err(error) = document(&mut json, builder) {
            builder.mark_damaged();
            let found = if error.at_end { "the end of the text" } else { "something else" };
            let sentence = format!("expected {}, found {found}; the spans up to here are kept", error.expected);
            builder.issue(Severity::Warning, "damaged_json", &format!("byte {}", error.offset + 1), 1, sentence);
            return;
        }
    }
}

fn document<R: BufRead>(json: &mut Json<R>, builder: &mut Builder<'_>) -> JsonResult<()> {
    json.object(|key, json| match key {
        "resourceSpans" | "resource_spans" | "batches" => json.array(|json| resource(json, builder)),
        _ => json.skip(),
    })
}

fn resource<R: BufRead>(json: &mut Json<R>, builder: &mut Builder<'_>) -> JsonResult<()> {
    json.object(|key, json| match key {
        "scopeSpans" | "scope_spans" | "instrumentationLibrarySpans" => json.array(|json| scope(json, builder)),
        _ => json.skip(),
    })
}

fn scope<R: BufRead>(json: &mut Json<R>, builder: &mut Builder<'_>) -> JsonResult<()> {
    json.object(|key, json| match key {
        "scope" | "instrumentationLibrary" => {
            json.object(
                |key, json| {
                    if key == "name" { json.scalar().map(|name| note_engine(&name.unwrap_or_default(), builder)) } else { json.skip() }
                },
            )
        }
        "spans" => json.array(|json| {
            let span = SpanText::read(json)?;
            span.add(builder);
            Ok(())
        }),
        _ => json.skip(),
    })
}

/// The engine whose tracer made the spans.
fn note_engine(scope: &str, builder: &mut Builder<'_>) {
    let engine = ["vllm", "sglang"].into_iter().find(|engine| scope == *engine || scope.starts_with(&format!("{engine}.")));
    if let Some(engine) = engine {
        let subject = &mut builder.capture.manifest.subject;
        subject.engine = engine.to_string();
        subject.engine_from = "spans".to_string();
    }
}

#[derive(Default)]
struct SpanText {
    trace_id: String,
    span_id: String,
    parent_id: String,
    name: String,
    start_ns: Option<i64>,
    end_ns: Option<i64>,
    has_failed: bool,
    told: Told,
}

impl SpanText {
    fn read<R: BufRead>(json: &mut Json<R>) -> JsonResult<Self> {
        let mut it = Self::default();
        json.object(|key, json| {
            let text = |json: &mut Json<R>| json.scalar().map(|text| short(&text.unwrap_or_default()));
            match key {
                "traceId" | "trace_id" => it.trace_id = text(json)?,
                "spanId" | "span_id" => it.span_id = text(json)?,
                "parentSpanId" | "parent_span_id" => it.parent_id = text(json)?,
                "name" => it.name = text(json)?,
                "startTimeUnixNano" | "start_time_unix_nano" => it.start_ns = time(&text(json)?),
                "endTimeUnixNano" | "end_time_unix_nano" => it.end_ns = time(&text(json)?),
                "attributes" => json.array(|json| it.told.read(json))?,
                "status" => json.object(|key, json| {
                    if key != "code" {
                        return json.skip();
                    }
                    it.has_failed = matches!(json.scalar()?.as_deref(), Some("2" | "STATUS_CODE_ERROR"));
                    Ok(())
                })?,
                _ => json.skip()?,
            }
            Ok(())
        })?;
        Ok(it)
    }

    fn add(self, builder: &mut Builder<'_>) {
        let Some((start, end)) = self.start_ns.zip(self.end_ns).filter(|(start, end)| is_span(*start, *end)) else {
            builder.issue_once(Severity::Warning, "impossible_times", &short(&self.span_id), || {
                "expected the start and the end of a span in epoch nanoseconds, in order, found others; the span is left out".to_string()
            });
            return;
        };
        builder.covers(start);
        builder.covers(end);
        // A name may be a request line; its query may hold a key.
        let name = self.name.split('?').next().unwrap_or_default();
        let name = crate::secrets::redact(name).into_owned();
        let row = Span {
            t_start_ns: start,
            t_end_ns: end,
            run_idx: builder.context.run_idx,
            trace_id: builder.intern(&self.trace_id),
            span_id: builder.intern(&self.span_id),
            parent_id: builder.intern(&self.parent_id),
            name: builder.intern(&name),
            request_id: builder.intern(&self.told.request_id),
            source_idx: builder.source(),
        };
        builder.capture.tables.spans.push(row);
        let subject = &mut builder.capture.manifest.subject;
        if subject.model.is_empty() {
            subject.model.clone_from(&self.told.model);
        }
        if self.told.e2e_ns.is_some() || self.told.ttft_ns.is_some() {
            self.add_request(start, end, builder);
        }
    }

    fn add_request(&self, start: i64, end: i64, builder: &mut Builder<'_>) {
        let told = &self.told;
        let after = |t_ns: i64, by: Option<i64>| by.filter(|by| *by <= MAX_TIME_NS).map(|by| t_ns.saturating_add(by));
        // A request is not queued before it is received: the parts are measured by another process than the whole.
        let before = |t_ns: i64, by: Option<i64>| by.map(|by| t_ns.saturating_sub(by).max(start));
        let first = after(start, told.ttft_ns);
        let scheduled = first.and_then(|first| before(first, told.prefill_ns));
        let id = if told.request_id.is_empty() { &self.span_id } else { &told.request_id };
        let finish = if self.has_failed { "error" } else { told.finish.as_str() };
        let row = Request {
            t_sent_ns: start,
            run_idx: builder.context.run_idx,
            point_idx: NO_POINT,
            vantage: builder.intern("server"),
            request_id: builder.intern(id),
            t_first_content_ns: first,
            t_queued_ns: scheduled.and_then(|scheduled| before(scheduled, told.queue_ns)),
            t_scheduled_ns: scheduled,
            t_last_token_ns: first.and_then(|first| after(first, told.decode_ns)),
            t_done_ns: after(start, told.e2e_ns).or(Some(end)),
            tokens_in: told.tokens_in,
            tokens_out: told.tokens_out,
            tokens_cached: told.tokens_cached,
            replica: builder.intern(builder.context.replica_setting()),
            class: Name::EMPTY,
            finish: builder.intern(finish),
            status: told.status,
            source_idx: builder.source(),
            ..Request::default()
        };
        builder.capture.tables.requests.push(row);
    }
}

/// Epoch nanoseconds in decimal text.
fn time(text: &str) -> Option<i64> {
    scaled_to_ns(text.as_bytes(), 0)
}

fn is_span(start: i64, end: i64) -> bool {
    start > 0 && (0..=MAX_TIME_NS).contains(&end.saturating_sub(start))
}
