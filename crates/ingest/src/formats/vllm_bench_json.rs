//! Results of `vllm bench serve`: one JSON object, or one per line with `--append-result`.
//!
//! The summary becomes samples at the end of the run, `--save-detailed` arrays become client requests and chunks.
//! The client's times are its `perf_counter`; the end of the run is the `date` field (local time, whole seconds), so
//! host times are off by up to a second and the capture says so. Generated texts are skipped without being stored.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use capture::{ClockAlignment, Request, Severity};

use crate::builder::{Builder, Load, NO_POINT};
use crate::clocks::{self, SECOND_NS};
use crate::formats::chunks::{GapLists, Gaps, add_chunks};
use crate::formats::client_jsonl::error_class;
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;
use crate::json::{Json, JsonResult};

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "vllm_bench_json", stage: Stage::Floating, sniff, read };

/// Longest believable time of a request.
const MAX_TIME_NS: i64 = 1_000_000 * SECOND_NS;
/// Most believable tokens of a request.
const MAX_TOKENS: i64 = 1_000_000_000;

fn sniff(probe: &Probe<'_>) -> Confidence {
    let is_result = probe.first_byte() == Some(b'{')
        && ["\"completed\"", "\"request_throughput\"", "\"total_input_tokens\""].iter().all(|key| probe.has(key));
    match (is_result, probe.has("\"model_id\"") || probe.has("\"endpoint_type\"")) {
        (true, true) => Confidence::Sure,
        (true, false) => Confidence::Likely,
        _ => Confidence::No,
    }
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let mut json = Json::new(&mut *input);
    let mut count = 0;
    let mut seen = BTreeSet::new();
    let mut documents = 0u64;
    while json.peek().is_some() {
        documents += 1;
        let mut result = BenchResult::default();
        let outcome = result.read(&mut json);
        if let Err(error) = &outcome {
            let found = if error.at_end { "the end of the text" } else { "something else" };
            let sentence = format!("expected {}, found {found}; what was read before it is kept", error.expected);
            builder.mark_damaged();
            builder.issue(Severity::Warning, "damaged_json", &format!("byte {}", error.offset + 1), 1, sentence);
        }
        if result.is_result() && !seen.insert(result.fingerprint()) {
            builder.issue_once(Severity::Note, "duplicate_result", &format!("result {documents}"), || {
                "expected each result once, found one again; it is left out".to_string()
            });
        } else if result.is_result() {
            result.leave_out_impossible(outcome.is_err(), builder);
            result.add(count, builder);
            count += 1;
        }
        if outcome.is_err() {
            break;
        }
    }
    if count == 0 {
        builder.refuse("no_rows", "expected a result of `vllm bench serve`, found none");
    }
}

/// One result, as read.
#[derive(Default)]
struct BenchResult {
    date: Option<String>,
    model: Option<String>,
    summary: Vec<(String, f64)>,
    request_rate: Option<f64>,
    max_concurrency: Option<f64>,
    duration_ns: Option<i64>,
    input_lens: Vec<Option<i64>>,
    output_lens: Vec<Option<i64>>,
    ttfts: Vec<Option<i64>>,
    gaps: GapLists,
    latencies: Vec<Option<i64>>,
    starts: Vec<Option<i64>>,
    waits: Vec<Option<i64>>,
    errors: Vec<&'static str>,
    /// Requests with impossible numbers.
    impossible: BTreeSet<usize>,
}

impl BenchResult {
    fn read(&mut self, json: &mut Json<&mut Input<'_>>) -> JsonResult<()> {
        json.object(|key, json| {
            match key {
                "date" => self.date = json.scalar()?,
                "model_id" => self.model = json.scalar()?,
                "request_rate" => self.request_rate = json.f64()?,
                "max_concurrency" => self.max_concurrency = json.f64()?,
                "duration" => self.duration_ns = json.seconds_ns()?,
                "input_lens" => whole_numbers(json, &mut self.input_lens)?,
                "output_lens" => whole_numbers(json, &mut self.output_lens)?,
                "ttfts" => times(json, &mut self.ttfts)?,
                "latencies" => times(json, &mut self.latencies)?,
                "start_times" => times(json, &mut self.starts)?,
                "queue_times" => times(json, &mut self.waits)?,
                "itls" => json.array(|json| {
                    let mut gaps = Gaps::default();
                    let outcome = json.array(|json| {
                        gaps.push(json.seconds_ns()?.unwrap_or(-1));
                        Ok(())
                    });
                    if outcome.is_ok() {
                        self.gaps.push(gaps);
                    }
                    outcome
                })?,
                "errors" => json.array(|json| {
                    let text = json.scalar()?.unwrap_or_default();
                    self.errors.push(if text.is_empty() { "" } else { error_class(&text) });
                    Ok(())
                })?,
                _ if is_summary(key) => {
                    let value = json.f64()?;
                    self.summary.extend(value.map(|value| (key.to_string(), value)));
                }
                _ => json.skip()?,
            }
            Ok(())
        })
    }

    fn is_result(&self) -> bool {
        !self.summary.is_empty() || !self.ttfts.is_empty()
    }

    /// Tells results apart without keeping them.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let numbers: Vec<(&str, u64)> = self.summary.iter().map(|(key, value)| (key.as_str(), value.to_bits())).collect();
        (&self.date, &self.model, numbers, self.request_rate.map(f64::to_bits), self.max_concurrency.map(f64::to_bits)).hash(&mut hasher);
        (self.duration_ns, &self.input_lens, &self.output_lens, &self.ttfts, &self.latencies, &self.starts).hash(&mut hasher);
        self.gaps.lists.iter().for_each(|gaps| (gaps.count, gaps.sum_ns).hash(&mut hasher));
        hasher.finish()
    }

    /// Marks requests whose numbers cannot be, and cuts arrays to the length they share. A text that was cut has uneven
    /// arrays; then each request keeps what is known of it.
    fn leave_out_impossible(&mut self, is_cut: bool, builder: &mut Builder<'_>) {
        let lengths = [
            self.input_lens.len(),
            self.output_lens.len(),
            self.ttfts.len(),
            self.gaps.lists.len(),
            self.latencies.len(),
            self.starts.len(),
            self.errors.len(),
        ];
        let longest = lengths.into_iter().max().unwrap_or(0);
        let shared = lengths.into_iter().filter(|length| *length > 0).min().unwrap_or(0);
        if !is_cut && shared < longest {
            let sentence = "expected per-request arrays of one length, found longer ones; what has no counterpart is left out";
            builder.issue(Severity::Warning, "uneven_arrays", &format!("request {shared}"), longest - shared, sentence);
            self.cut_to(shared);
        }
        for at in 0..longest.min(if is_cut { longest } else { shared }) {
            if let Some((code, expected)) = self.impossible_at(at) {
                self.impossible.insert(at);
                builder.issue_once(Severity::Warning, code, &format!("request {at}"), || {
                    format!("expected {expected}, found something else; the request is left out")
                });
            }
        }
    }

    fn cut_to(&mut self, length: usize) {
        for list in [&mut self.input_lens, &mut self.output_lens, &mut self.ttfts, &mut self.latencies, &mut self.starts, &mut self.waits] {
            list.truncate(length);
        }
        self.gaps.lists.truncate(length);
        self.errors.truncate(length);
    }

    /// What is impossible about request `at`: issue code and what was expected.
    fn impossible_at(&self, at: usize) -> Option<(&'static str, &'static str)> {
        let get = |list: &[Option<i64>]| list.get(at).copied().flatten();
        let (ttft, latency) = (get(&self.ttfts), get(&self.latencies));
        let range = self.gaps.get(at).filter(|gaps| gaps.count > 0).map(|gaps| [gaps.least_ns, gaps.most_ns]);
        let times = || [ttft, latency].into_iter().flatten().chain(range.into_iter().flatten());
        let mut tokens = [get(&self.input_lens), get(&self.output_lens)].into_iter().flatten();
        if times().any(|time| time < 0) {
            Some(("negative_time", "times of zero or more"))
        } else if times().any(|time| time > MAX_TIME_NS) {
            Some(("absurd_time", "times below a million seconds"))
        } else if ttft.zip(latency).is_some_and(|(ttft, latency)| ttft > latency) {
            Some(("ttft_after_end", "a first token before the end of the request"))
        } else if tokens.any(|tokens| !(0..=MAX_TOKENS).contains(&tokens)) {
            Some(("absurd_token_count", "a number of tokens from zero to a billion"))
        } else {
            None
        }
    }

    /// The run's span by the client's own clock, from its requests.
    fn own_end(&self) -> Option<i64> {
        (0..self.starts.len())
            .filter(|at| !self.impossible.contains(at))
            .filter_map(|at| Some(self.starts[at]?.saturating_add(self.done_after(at)?)))
            .max()
    }

    /// Time from start to end of request `at`.
    fn done_after(&self, at: usize) -> Option<i64> {
        let latency = self.latencies.get(at).copied().flatten();
        latency.or_else(|| Some(self.ttfts.get(at).copied().flatten()?.saturating_add(self.gaps.get(at).map_or(0, |gaps| gaps.sum_ns))))
    }

    fn add(&self, number: usize, builder: &mut Builder<'_>) {
        if let Some(model) = &self.model {
            builder.capture.manifest.subject.model.clone_from(model);
        }
        let end_ns = self.align(builder);
        self.add_summary(end_ns.unwrap_or(0), builder);
        let offset = end_ns.zip(self.own_end()).map_or(0, |(end, own)| end.saturating_sub(own));
        for at in 0..self.ttfts.len().max(self.starts.len()).max(self.latencies.len()) {
            if !self.impossible.contains(&at) {
                self.add_request(at, number, offset, builder);
            }
        }
        if self.starts.is_empty() && !self.ttfts.is_empty() {
            let sentence = "expected `start_times` beside the per-request arrays, found none; requests stand at the end of the run";
            builder.issue(Severity::Note, "requests_without_time", "", self.ttfts.len(), sentence);
        }
        if let (Some(end_ns), Some(duration)) = (end_ns, self.duration_ns) {
            let (start_ns, request_rate) = (end_ns.saturating_sub(duration), self.request_rate);
            builder.facts.load = Some(Load { start_ns, end_ns, max_concurrency: self.max_concurrency, request_rate });
        }
    }

    /// Host time of the end of the run, and the alignment row.
    fn align(&self, builder: &mut Builder<'_>) -> Option<i64> {
        let local = crate::civil::compact(self.date.as_deref()?.as_bytes())?;
        let span = (local.saturating_sub(self.duration_ns.unwrap_or(0)), local);
        let shift = clocks::find_shift(span, None, builder.context);
        // The date is cut to whole seconds: the middle of its second is the best guess.
        let end_ns = local.saturating_add(shift.offset_ns).saturating_add(SECOND_NS / 2);
        let alignment = ClockAlignment {
            source: builder.name().to_string(),
            domain: "client monotonic".to_string(),
            offset_ns: self.own_end().map_or(shift.offset_ns, |own| end_ns.saturating_sub(own)),
            error_ns: shift.error_ns,
            method: format!("the last request ends when the result is dated (whole seconds); {}", shift.method),
            ..ClockAlignment::default()
        };
        builder.capture.manifest.clocks.push(alignment);
        Some(end_ns)
    }

    fn add_summary(&self, t_ns: i64, builder: &mut Builder<'_>) {
        let labels = capture::labels::canonical(&[("class", &builder.context.class)]);
        let mut add = |signal: &str, value: Option<f64>| {
            if let Some(value) = value {
                builder.sample(t_ns, signal, &labels, value);
            }
        };
        add("client.concurrency", self.max_concurrency);
        add("client.request_rate", self.request_rate);
        add("client.duration", self.duration_ns.map(|duration| duration as f64 / 1e9));
        let has = |key: &str| self.summary.iter().any(|(known, _)| known == key);
        for (key, value) in &self.summary {
            // The median comes a second time as p50 where that percentile was asked for.
            let repeated = key.strip_prefix("median_").is_some_and(|rest| has(&format!("p50_{rest}")));
            if let Some((signal, scale)) = signal_of(key).filter(|_| !repeated) {
                add(&signal, Some(value * scale));
            }
        }
    }

    fn add_request(&self, at: usize, number: usize, offset: i64, builder: &mut Builder<'_>) {
        let at_start = self.starts.get(at).copied().flatten();
        let start = at_start.map_or(offset, |start| start.saturating_add(offset));
        let get = |list: &[Option<i64>]| list.get(at).copied().flatten();
        let none = Gaps::default();
        let gaps = self.gaps.get(at).unwrap_or(&none);
        let error = self.errors.get(at).copied().unwrap_or_default();
        let first = get(&self.ttfts).filter(|_| error.is_empty()).map(|ttft| start.saturating_add(ttft));
        let id = match (builder.context.class.as_str(), number) {
            ("", 0) => at.to_string(),
            ("", number) => format!("{number}/{at}"),
            (class, 0) => format!("{class}/{at}"),
            (class, number) => format!("{class}/{number}/{at}"),
        };
        let class = builder.context.class.clone();
        let (vantage, request_id) = (builder.intern("client"), builder.intern(&id));
        let row = Request {
            t_sent_ns: start,
            run_idx: builder.context.run_idx,
            point_idx: NO_POINT,
            vantage,
            request_id,
            attempt: 0,
            t_intended_ns: get(&self.waits).filter(|_| at_start.is_some()).map(|wait| start.saturating_sub(wait)),
            t_first_content_ns: first,
            t_last_token_ns: first.map(|first| first.saturating_add(gaps.sum_ns)),
            t_done_ns: self.done_after(at).map(|after| start.saturating_add(after)),
            tokens_in: get(&self.input_lens),
            tokens_out: get(&self.output_lens),
            class: builder.intern(&class),
            finish: builder.intern(error),
            source_idx: builder.source(),
            ..Request::default()
        };
        builder.capture.tables.requests.push(row);
        if let Some(first) = first {
            match &gaps.list {
                Some(list) => add_chunks(builder, vantage, request_id, 0, first, list),
                None => builder.chunks.leave_out(gaps.count),
            }
        }
    }
}

fn whole_numbers(json: &mut Json<&mut Input<'_>>, into: &mut Vec<Option<i64>>) -> JsonResult<()> {
    json.array(|json| {
        into.push(json.i64()?);
        Ok(())
    })
}

fn times(json: &mut Json<&mut Input<'_>>, into: &mut Vec<Option<i64>>) -> JsonResult<()> {
    json.array(|json| {
        into.push(json.seconds_ns()?);
        Ok(())
    })
}

/// Summary keys with a signal: name, signal, factor to its base unit.
const TOTALS: &[(&str, &str, f64)] = &[
    ("completed", "client.completed", 1.0),
    ("failed", "client.errors", 1.0),
    ("request_throughput", "client.throughput.requests", 1.0),
    ("output_throughput", "client.throughput.output", 1.0),
    ("total_token_throughput", "client.throughput.total", 1.0),
    ("max_output_tokens_per_s", "client.throughput.output.max", 1.0),
    ("max_concurrent_requests", "client.concurrency.max", 1.0),
    ("spec_decode_acceptance_rate", "spec.acceptance_rate", 0.01),
    ("spec_decode_acceptance_length", "spec.acceptance_length", 1.0),
    ("spec_decode_draft_tokens", "spec.draft_tokens", 1.0),
    ("spec_decode_accepted_tokens", "spec.accepted_tokens", 1.0),
    ("spec_decode_num_drafts", "spec.drafts", 1.0),
];

/// Latency words in `mean_ttft_ms` and their signals.
const LATENCIES: &[(&str, &str)] = &[("ttft", "client.ttft"), ("tpot", "client.tpot"), ("itl", "client.itl"), ("e2el", "client.e2e")];

fn is_summary(key: &str) -> bool {
    signal_of(key).is_some()
}

/// Signal and factor of a summary key; `None` for keys without a signal.
fn signal_of(key: &str) -> Option<(String, f64)> {
    if let Some((_, signal, scale)) = TOTALS.iter().find(|(known, ..)| *known == key) {
        return Some(((*signal).to_string(), *scale));
    }
    let (statistic, what) = key.strip_suffix("_ms")?.split_once('_')?;
    let signal = LATENCIES.iter().find(|(word, _)| *word == what)?.1;
    let statistic = if statistic == "median" { "p50" } else { statistic };
    let name = format!("{signal}.{statistic}");
    capture::signals::resolve(&name).map(|_| (name, 1e-3))
}
