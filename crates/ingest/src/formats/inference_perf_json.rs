//! The reports of `inference-perf`: `summary_` and `stage_<n>_lifecycle_metrics.json`, `per_request_lifecycle_metrics.json`,
//! and `validation.json`, whose warnings become notes.
//!
//! A stage is a load, the summary is all of them together. Times are seconds; those of requests are a monotonic clock without
//! a date. `normalized_time_per_output_token` is e2e / tokens and counts the time to the first token: it is left out.
//! `time_per_output_token` ends at the last chunk and divides by the tool's own count of tokens. Where every request has the
//! same number of tokens by the server's count, the mean is computed anew from the means of e2e and ttft, which is exact, and
//! the percentiles are brought to that count. `inter_token_latency` is one gap per token of each chunk tokenized again: where
//! that count disagrees with the server it is no gap that anyone saw, and is left out.

use capture::{ClockAlignment, Severity};

use crate::builder::{Builder, Load, NO_POINT};
use crate::formats::figures::{self, At, Distribution};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;
use crate::json::{Json, JsonResult};

mod records;
mod validation;

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "inference_perf_json", stage: Stage::Floating, sniff, read };

fn sniff(probe: &Probe<'_>) -> Confidence {
    let has = |keys: &[&str]| keys.iter().all(|key| probe.has(key));
    match probe.first_byte() {
        Some(b'{') if has(&["\"load_summary\"", "\"successes\""]) => Confidence::Sure,
        Some(b'{') if has(&["\"global\"", "\"reports\"", "\"warnings\"", "lifecycle_metrics"]) => Confidence::Sure,
        Some(b'[') if has(&["\"start_time\"", "\"end_time\"", "\"request\"", "\"response\""]) => Confidence::Sure,
        Some(b'[') if has(&["\"start_time\"", "\"end_time\"", "\"output_token_times\""]) => Confidence::Sure,
        _ => Confidence::No,
    }
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let mut json = Json::new(&mut *input);
    if json.peek() == Some(b'[') {
        records::read(&mut json, builder);
        return;
    }
    let mut report = Report::default();
    if let Err(error) = report.read(&mut json, builder) {
        builder.damaged_json(&error);
    }
    if report.is_validation {
        return;
    }
    if report.latencies.is_empty() && report.completed.is_none() {
        builder.refuse("no_rows", "expected a lifecycle report of `inference-perf`, found none");
        return;
    }
    report.add(builder);
}

/// Latencies and throughputs with a signal; `time_per_output_token` and `inter_token_latency` are treated apart.
const LATENCIES: &[(&str, &str)] = &[
    ("request_latency", "client.e2e"),
    ("time_to_first_token", "client.ttft"),
    ("time_per_output_token", "client.tpot"),
    ("inter_token_latency", "client.itl"),
];
const THROUGHPUTS: &[(&str, &str)] = &[
    ("input_tokens_per_sec", "client.throughput.prompt"),
    ("output_tokens_per_sec", "client.throughput.output"),
    ("total_tokens_per_sec", "client.throughput.total"),
    ("requests_per_sec", "client.throughput.requests"),
];

/// A summary or stage report.
#[derive(Default)]
struct Report {
    duration: Option<f64>,
    /// The file is `validation.json`, what the tool itself found wrong with its reports.
    is_validation: bool,
    is_stage: bool,
    concurrency: Option<f64>,
    rate: Option<f64>,
    slip: Distribution,
    latencies: Vec<(&'static (&'static str, &'static str), Distribution)>,
    throughputs: Vec<(&'static (&'static str, &'static str), Distribution)>,
    own_tokens: Distribution,
    server_tokens: Distribution,
    mismatches: Option<f64>,
    completed: Option<f64>,
    failed: Option<f64>,
}

impl Report {
    fn read(&mut self, json: &mut Json<&mut Input<'_>>, builder: &mut Builder<'_>) -> JsonResult<()> {
        json.object(|key, json| match (key, json.peek()) {
            ("reports", Some(b'{')) => {
                self.is_validation = true;
                validation::read(json, builder)
            }
            ("benchmark_time_seconds", _) => {
                self.duration = json.figure()?;
                Ok(())
            }
            ("load_summary", Some(b'{')) => self.read_load(json),
            ("successes", Some(b'{')) => self.read_successes(json),
            ("failures", Some(b'{')) => json.object(|key, json| {
                match key {
                    "count" => self.failed = json.figure()?,
                    _ => json.skip()?,
                }
                Ok(())
            }),
            _ => json.skip(),
        })
    }

    fn read_load(&mut self, json: &mut Json<&mut Input<'_>>) -> JsonResult<()> {
        json.object(|key, json| {
            match key {
                "schedule_delay" => self.slip = Distribution::read(json)?,
                "requested_rate" => self.rate = json.f64()?.filter(|value| figures::is_possible("client.request_rate", *value)),
                "concurrency" => self.concurrency = json.f64()?.filter(|value| figures::is_possible("client.concurrency", *value)),
                "send_duration" => {
                    self.is_stage = true;
                    json.skip()?;
                }
                _ => json.skip()?,
            }
            Ok(())
        })
    }

    fn read_successes(&mut self, json: &mut Json<&mut Input<'_>>) -> JsonResult<()> {
        json.object(|key, json| {
            match (key, json.peek()) {
                ("count", _) => self.completed = json.figure()?,
                ("latency", Some(b'{')) => read_known(json, LATENCIES, &mut self.latencies)?,
                ("throughput", Some(b'{')) => read_known(json, THROUGHPUTS, &mut self.throughputs)?,
                ("output_len", _) => self.own_tokens = Distribution::read(json)?,
                ("output_tokens", _) => self.server_tokens = Distribution::read(json)?,
                ("token_count_mismatches", _) => self.mismatches = json.f64()?,
                _ => json.skip()?,
            }
            Ok(())
        })
    }

    fn latency(&self, key: &str) -> Option<&Distribution> {
        self.latencies.iter().find(|((known, _), _)| *known == key).map(|(_, found)| found)
    }

    fn add(self, builder: &mut Builder<'_>) {
        let at = At { t_ns: 0, point_idx: if self.is_stage { 0 } else { NO_POINT } };
        // A closed loop has no rate of its own; the file states one for it all the same.
        let rate = self.rate.filter(|_| self.concurrency.is_none());
        let figures = [
            ("load_summary.concurrency", "client.concurrency", self.concurrency),
            ("load_summary.requested_rate", "client.request_rate", rate),
            ("benchmark_time_seconds", "client.duration", self.duration),
            ("successes.count", "client.completed", self.completed),
            ("failures.count", "client.errors", self.failed),
        ];
        for (key, signal, value) in figures {
            if let Some(value) = value {
                figures::add(builder, at, key, signal, value);
            }
        }
        self.slip.add(builder, at, "schedule_delay", "client.schedule_slip");
        for ((key, signal), found) in &self.throughputs {
            found.add_mean(builder, at, key, signal);
        }
        let has_foreign_gaps = self.mismatches.is_some_and(|count| count > 0.0);
        let (tpot, how) = self.tpot();
        for ((key, signal), found) in &self.latencies {
            match *signal {
                "client.itl" if has_foreign_gaps => {}
                "client.tpot" => tpot.add(builder, at, key, signal),
                _ => found.add(builder, at, key, signal),
            }
        }
        let gaps = match self.mismatches {
            Some(count) if has_foreign_gaps => {
                format!(
                    "`inter_token_latency` is left out: {count} requests have other token counts than the server, so its gaps are not those of chunks"
                )
            }
            _ => "`inter_token_latency` is one gap per token of the tool's own count".to_string(),
        };
        let sentence = format!(
            "`normalized_time_per_output_token` counts the time to the first token and is left out; {how}; {gaps}; no dates: figures stand at time 0"
        );
        builder.issue(Severity::Note, "definitions", "", 1, sentence);
        if self.is_stage {
            builder.facts.loads.push(Load { span: None, max_concurrency: self.concurrency, request_rate: rate });
        }
    }

    /// The time per output token by our definition as far as it can be had, and how.
    fn tpot(&self) -> (Distribution, String) {
        let Some(theirs) = self.latency("time_per_output_token") else {
            return (Distribution::default(), "no time per output token".to_string());
        };
        let mean = |key: &str| self.latency(key).and_then(|found| found.get("mean"));
        let means = mean("request_latency").zip(mean("time_to_first_token"));
        let counts = self.own_tokens.constant().zip(self.server_tokens.constant()).filter(|(own, server)| *own > 1.0 && *server > 1.0);
        let Some(((own, server), (e2e, ttft))) = counts.zip(means) else {
            let text = "`time_per_output_token` ends at the last chunk and divides by the tool's count of output tokens less one; requests differ in \
                        tokens, so it is kept as it is";
            return (theirs.clone(), text.to_string());
        };
        let mut ours = theirs.times((own - 1.0) / (server - 1.0));
        for (statistic, value) in &mut ours.values {
            if *statistic == "mean" {
                *value = (e2e - ttft) / (server - 1.0);
            }
        }
        let text = format!(
            "the mean of `client.tpot` is (e2e - ttft) / (output tokens - 1) with the server's {server} tokens; its percentiles end at the last chunk and \
             are brought from the tool's {own} tokens to that count"
        );
        (ours, text)
    }
}

/// Reads the distributions of an object that have a signal.
fn read_known(
    json: &mut Json<&mut Input<'_>>,
    known: &'static [(&'static str, &'static str)],
    into: &mut Vec<(&'static (&'static str, &'static str), Distribution)>,
) -> JsonResult<()> {
    json.object(|key, json| {
        match known.iter().find(|(name, _)| *name == key) {
            Some(known) => {
                let found = Distribution::read(json)?;
                if into.iter().all(|((name, _), _)| *name != key) {
                    into.push((known, found));
                }
            }
            None => json.skip()?,
        }
        Ok(())
    })
}

/// Says that the times of requests are those of a clock without a date.
fn tell_clock(builder: &mut Builder<'_>) {
    builder.capture.manifest.clocks.push(ClockAlignment {
        source: builder.name().to_string(),
        domain: "client monotonic".to_string(),
        offset_ns: 0,
        error_ns: i64::MAX,
        method: "the file has no date; its requests stand at their own clock's times".to_string(),
        ..ClockAlignment::default()
    });
}
