//! GuideLLM's `benchmarks.json`: one or more runs (a sweep), each with its summary and its requests.
//!
//! Two of its words mean something else here. Its `time_per_output_token_ms` is e2e / tokens and counts the time to the first
//! token; its `inter_token_latency_ms` is a mean per request, up to the last token, weighted by tokens. So the time per output
//! token is computed from the requests; only a file without requests gives `inter_token_latency_ms` for it, and says so.
//! Prompts and generated texts are skipped without being stored.

use capture::Severity;

use crate::builder::{Builder, Load};
use crate::formats::client_jsonl::error_class;
use crate::formats::client_row::ClientRow;
use crate::formats::figures::{self, At, Distribution, MAX_RUNS, Tpot};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;
use crate::json::{Json, JsonResult};

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "guidellm_json", stage: Stage::Clocked, sniff, read };

type FileJson<'a, 'b> = Json<&'a mut Input<'b>>;

/// Key, signal, factor to its base unit, and whether only the mean is kept, as the run's figure.
type Metric = (&'static str, &'static str, f64, bool);

/// Metrics that become figures.
const METRICS: &[Metric] = &[
    ("request_latency", "client.e2e", 1.0, false),
    ("time_to_first_token_ms", "client.ttft", 1e-3, false),
    ("requests_per_second", "client.throughput.requests", 1.0, true),
    ("prompt_tokens_per_second", "client.throughput.prompt", 1.0, true),
    ("output_tokens_per_second", "client.throughput.output", 1.0, true),
    ("tokens_per_second", "client.throughput.total", 1.0, true),
    ("request_concurrency", "client.concurrency.mean", 1.0, true),
];

fn sniff(probe: &Probe<'_>) -> Confidence {
    if probe.first_byte() != Some(b'{') || !probe.has("\"benchmarks\"") && !probe.has("\"guidellm_version\"") {
        return Confidence::No;
    }
    let is_named = probe.has("\"guidellm_version\"") || probe.has("\"generative_benchmark\"") || probe.has("guidellm.");
    if is_named { Confidence::Sure } else { Confidence::No }
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let mut json = Json::new(&mut *input);
    let mut count = 0;
    let outcome = json.object(|key, json| match key {
        "benchmarks" => json.array(|json| {
            if count >= MAX_RUNS {
                figures::leave_out_run(builder);
                return json.skip();
            }
            let mut run = Run { point_idx: count, ..Run::default() };
            let outcome = run.read(json, builder);
            if run.is_run() {
                run.add(builder);
                count += 1;
            }
            outcome
        }),
        _ => json.skip(),
    });
    if let Err(error) = outcome {
        builder.damaged_json(&error);
    }
    if count == 0 {
        builder.refuse("no_rows", "expected a run of GuideLLM (`benchmarks`), found none");
    }
}

/// One run.
#[derive(Default)]
struct Run {
    point_idx: i32,
    kind: String,
    streams: Option<f64>,
    rate: Option<f64>,
    model: Option<String>,
    start_ns: Option<i64>,
    end_ns: Option<i64>,
    duration: Option<f64>,
    metrics: Vec<(&'static Metric, Distribution)>,
    itl_ms: Distribution,
    completed: Option<f64>,
    errored: Option<f64>,
    tpot: Tpot,
    requests: u64,
}

impl Run {
    fn is_run(&self) -> bool {
        !self.metrics.is_empty() || self.requests > 0
    }

    fn read(&mut self, json: &mut FileJson<'_, '_>, builder: &mut Builder<'_>) -> JsonResult<()> {
        json.object(|key, json| {
            match key {
                "config" | "args" | "worker" if json.peek() == Some(b'{') => self.read_config(json)?,
                "metrics" if json.peek() == Some(b'{') => self.read_metrics(json)?,
                "requests" if json.peek() == Some(b'{') => json.object(|key, json| match key {
                    "successful" => self.read_requests(json, "", builder),
                    "errored" => self.read_requests(json, "error", builder),
                    "incomplete" => self.read_requests(json, "abort", builder),
                    _ => json.skip(),
                })?,
                "start_time" => self.start_ns = json.seconds_ns()?,
                "end_time" => self.end_ns = json.seconds_ns()?,
                "duration" => self.duration = json.figure()?,
                _ => json.skip()?,
            }
            Ok(())
        })
    }

    fn read_config(&mut self, json: &mut FileJson<'_, '_>) -> JsonResult<()> {
        json.object(|key, json| {
            match key {
                "strategy" if json.peek() == Some(b'{') => json.object(|key, json| {
                    match key {
                        "type_" => self.kind = json.scalar()?.unwrap_or_default(),
                        "streams" | "max_concurrency" => self.streams = json.f64()?.or(self.streams),
                        "rate" => self.rate = json.f64()?,
                        _ => json.skip()?,
                    }
                    Ok(())
                })?,
                "backend" if json.peek() == Some(b'{') => json.object(|key, json| {
                    match key {
                        "model" => self.model = json.scalar()?,
                        _ => json.skip()?,
                    }
                    Ok(())
                })?,
                "backend_model" => self.model = json.scalar()?,
                _ => json.skip()?,
            }
            Ok(())
        })
    }

    fn read_metrics(&mut self, json: &mut FileJson<'_, '_>) -> JsonResult<()> {
        json.object(|key, json| {
            let known = METRICS.iter().find(|(name, ..)| *name == key);
            if json.peek() != Some(b'{') || known.is_none() && !matches!(key, "request_totals" | "inter_token_latency_ms") {
                return json.skip();
            }
            json.object(|group, json| {
                match (key, group) {
                    ("request_totals", "successful") => self.completed = json.figure()?,
                    ("request_totals", "errored") => self.errored = json.figure()?,
                    ("inter_token_latency_ms", "successful") => self.itl_ms = Distribution::read(json)?,
                    (_, "successful") => {
                        let found = Distribution::read(json)?;
                        let is_new = self.metrics.iter().all(|((name, ..), _)| *name != key);
                        self.metrics.extend(known.filter(|_| is_new).map(|known| (known, found)));
                    }
                    _ => json.skip()?,
                }
                Ok(())
            })
        })
    }

    fn read_requests(&mut self, json: &mut FileJson<'_, '_>, finish: &'static str, builder: &mut Builder<'_>) -> JsonResult<()> {
        json.array(|json| {
            let request = Request::read(json)?;
            let number = self.requests;
            self.requests += 1;
            let Some(row) = request.row(number, self.point_idx, finish) else {
                builder.issue_once(Severity::Warning, "request_incomplete", &format!("request {number}"), || {
                    "expected a request with its start time, found one without; it is left out".to_string()
                });
                return Ok(());
            };
            let measured = (row.sent_ns, row.first_ns, row.done_ns, row.tokens_out);
            builder.covers(row.sent_ns);
            row.done_ns.into_iter().for_each(|done| builder.covers(done));
            if row.add(&format!("request {number}"), builder)
                && finish.is_empty()
                && let (sent, Some(first), Some(done), Some(tokens)) = measured
            {
                self.tpot.push(done - sent, first - sent, tokens);
            }
            Ok(())
        })
    }

    fn add(self, builder: &mut Builder<'_>) {
        let span = self.start_ns.zip(self.end_ns).filter(|(start, end)| start <= end);
        let at = At { t_ns: span.map_or(0, |(_, end)| end), point_idx: self.point_idx };
        let load = self.load(span);
        if let Some(model) = self.model {
            builder.capture.manifest.subject.model = model;
        }
        let settings = [
            ("streams", "client.concurrency", load.max_concurrency),
            ("rate", "client.request_rate", load.request_rate),
            ("duration", "client.duration", self.duration),
            ("request_totals.successful", "client.completed", self.completed),
            ("request_totals.errored", "client.errors", self.errored),
        ];
        for (key, signal, value) in settings {
            if let Some(value) = value {
                figures::add(builder, at, key, signal, value);
            }
        }
        for ((key, signal, scale, is_one), found) in self.metrics {
            let found = found.times(*scale);
            if *is_one { found.add_mean(builder, at, key, signal) } else { found.add(builder, at, key, signal) }
        }
        let count = self.tpot.count();
        let how = if count > 0 {
            self.tpot.distribution().add(builder, at, "requests", "client.tpot");
            format!(
                "`client.tpot` is computed from {count} requests as (end - first token) / (output tokens - 1), a mean over requests; \
                 `inter_token_latency_ms`, a mean up to the last token that is weighted by tokens, is left out"
            )
        } else {
            self.itl_ms.times(1e-3).add(builder, at, "inter_token_latency_ms", "client.tpot");
            "no finished request with two tokens was found, so `inter_token_latency_ms` stands for `client.tpot`: it ends at the last token and \
             weighs by tokens"
                .to_string()
        };
        builder.issue_once(Severity::Note, "definitions", "", || {
            format!(
                "`time_per_output_token_ms` counts the time to the first token and is left out; {how}; milliseconds became seconds; tokens are \
                 those the server reported, where it did"
            )
        });
        builder.facts.loads.push(load);
    }

    /// What the client offered: streams of a closed loop, or a rate.
    fn load(&self, span: Option<(i64, i64)>) -> Load {
        let possible = |signal: &str, value: Option<f64>| value.filter(|value| figures::is_possible(signal, *value));
        let is_rate = self.rate.is_some() && !matches!(self.kind.as_str(), "concurrent" | "synchronous" | "throughput");
        let streams = if self.kind == "synchronous" { Some(1.0) } else { self.streams.filter(|_| !is_rate) };
        Load {
            span,
            max_concurrency: possible("client.concurrency", streams),
            request_rate: possible("client.request_rate", self.rate.filter(|_| is_rate)),
        }
    }
}

/// One request, as read.
#[derive(Default)]
struct Request {
    id: Option<String>,
    start_ns: Option<i64>,
    end_ns: Option<i64>,
    first_ns: Option<i64>,
    last_ns: Option<i64>,
    targeted_ns: Option<i64>,
    ttft_ns: Option<i64>,
    tokens_in: Option<i64>,
    tokens_out: Option<i64>,
    tokens_cached: Option<i64>,
    error: Option<&'static str>,
}

impl Request {
    fn read(json: &mut FileJson<'_, '_>) -> JsonResult<Self> {
        let mut it = Self::default();
        json.object(|key, json| {
            match key {
                "request_id" => it.id = json.scalar()?,
                // Names of version 0.4 and later first, then older ones.
                "request_start_time" | "start_time" => it.start_ns = json.seconds_ns()?,
                "request_end_time" | "end_time" => it.end_ns = json.seconds_ns()?,
                "first_token_time" => it.first_ns = json.seconds_ns()?,
                "last_token_time" => it.last_ns = json.seconds_ns()?,
                "time_to_first_token_ms" => it.ttft_ns = json.scaled_ns(6)?,
                "prompt_tokens" => it.tokens_in = json.i64()?,
                "output_tokens" => it.tokens_out = json.i64()?,
                "cached_tokens" => it.tokens_cached = json.i64()?,
                "error" => it.error = json.lead()?.map(|text| error_class(&text)),
                "info" | "scheduler_info" if json.peek() == Some(b'{') => it.read_info(json)?,
                _ => json.skip()?,
            }
            Ok(())
        })?;
        Ok(it)
    }

    fn read_info(&mut self, json: &mut FileJson<'_, '_>) -> JsonResult<()> {
        json.object(|key, json| {
            match key {
                "error" => self.error = json.lead()?.map(|text| error_class(&text)),
                "timings" if json.peek() == Some(b'{') => json.object(|key, json| {
                    match key {
                        "targeted_start" => self.targeted_ns = json.seconds_ns()?,
                        "first_token_iteration" => self.first_ns = json.seconds_ns()?,
                        "last_token_iteration" => self.last_ns = json.seconds_ns()?,
                        "request_start" => self.start_ns = json.seconds_ns()?.or(self.start_ns),
                        "request_end" => self.end_ns = json.seconds_ns()?.or(self.end_ns),
                        _ => json.skip()?,
                    }
                    Ok(())
                })?,
                _ => json.skip()?,
            }
            Ok(())
        })
    }

    fn row(self, number: u64, point_idx: i32, finish: &'static str) -> Option<ClientRow> {
        let sent_ns = self.start_ns?;
        Some(ClientRow {
            id: self.id.unwrap_or_else(|| format!("{point_idx}/{number}")),
            point_idx,
            sent_ns,
            intended_ns: self.targeted_ns,
            first_ns: self.first_ns.or_else(|| Some(sent_ns.saturating_add(self.ttft_ns?))),
            last_ns: self.last_ns,
            done_ns: self.end_ns,
            tokens_in: self.tokens_in,
            tokens_out: self.tokens_out,
            tokens_cached: self.tokens_cached,
            finish: if finish == "error" { self.error.unwrap_or(finish) } else { finish },
            ..ClientRow::default()
        })
    }
}
