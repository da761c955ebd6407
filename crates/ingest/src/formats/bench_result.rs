//! Results in the shape of `vllm bench serve`, which SGLang's `bench_serving` shares: one JSON object, or one per line.
//!
//! The two differ in a few keys (a [`Dialect`]). Each object of a file is a load of its own; several are a sweep. The summary becomes samples at the end of the run, the arrays of a detailed result become client requests and chunks.
//! The client's times are its `perf_counter`; the end of the run is the `date` field (local time, whole seconds), so
//! host times are off by up to a second and the capture says so. SGLang writes no date: its times stand at 0. Generated texts are skipped without being stored.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::BufRead;

use capture::{ClockAlignment, Severity};

use crate::builder::{Builder, Load};
use crate::clocks::{self, SECOND_NS};
use crate::formats::chunks::{GapLists, Gaps};
use crate::formats::client_jsonl::error_class;
use crate::formats::client_row::{ClientRow, MAX_TIME_NS, MAX_TOKENS};
use crate::formats::figures::{self, At, MAX_RUNS};
use crate::input::Input;
use crate::json::{Json, JsonResult};

/// How a tool spells its summary.
pub(crate) struct Dialect {
    /// The tool, for messages.
    pub(crate) tool: &'static str,
    /// Totals with a signal: key, signal, factor to its base unit.
    pub(crate) totals: &'static [(&'static str, &'static str, f64)],
    /// Words in `mean_<word>_ms` and their signals.
    pub(crate) latencies: &'static [(&'static str, &'static str)],
    /// What its definitions are and what was made of them, where the capture should say so.
    pub(crate) definitions: Option<&'static str>,
}

impl Dialect {
    /// Signal and factor of a summary key; `None` for keys without a signal.
    fn signal_of(&self, key: &str) -> Option<(String, f64)> {
        if let Some((_, signal, scale)) = self.totals.iter().find(|(known, ..)| *known == key) {
            return Some(((*signal).to_string(), *scale));
        }
        let (statistic, what) = key.strip_suffix("_ms")?.split_once('_')?;
        let signal = self.latencies.iter().find(|(word, _)| *word == what)?.1;
        let statistic = if statistic == "median" { "p50" } else { statistic };
        let name = format!("{signal}.{statistic}");
        capture::signals::resolve(&name).map(|_| (name, 1e-3))
    }
}

const PEAK_COUNTS_CHUNKS: &str = "expected a peak of output tokens per second above the mean, found a lower one: it counts chunks of several \
                                  tokens; it is left out";

/// Reads every result of a file.
pub(crate) fn read(input: &mut Input<'_>, builder: &mut Builder<'_>, dialect: &'static Dialect) {
    let mut json = Json::new(&mut *input);
    let mut count = 0;
    let mut seen = BTreeSet::new();
    let mut documents = 0u64;
    while json.peek().is_some() {
        documents += 1;
        if count >= MAX_RUNS as usize {
            figures::leave_out_run(builder);
            if json.skip().is_err() {
                break;
            }
            continue;
        }
        let mut result = BenchResult::new(dialect, builder.max_requests);
        let outcome = result.read(&mut json);
        if let Err(error) = &outcome {
            builder.damaged_json(error);
        }
        if result.is_result() && !seen.insert(result.fingerprint()) {
            builder.issue_once(Severity::Note, "duplicate_result", &format!("result {documents}"), || {
                "expected each result once, found one again; it is left out".to_string()
            });
        } else if result.is_result() {
            result.leave_out_impossible(outcome.is_err(), builder);
            result.add(count, builder);
            count += 1;
            if let Some(sentence) = dialect.definitions {
                builder.issue_once(Severity::Note, "definitions", "", || sentence.to_string());
            }
        }
        if outcome.is_err() {
            break;
        }
    }
    if count == 0 {
        builder.refuse("no_rows", &format!("expected a result of {}, found none", dialect.tool));
    }
}

/// One result, as read.
struct BenchResult {
    dialect: &'static Dialect,
    /// Most requests kept.
    limit: usize,
    /// Longest array, also of what was not kept.
    longest: usize,
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
    fn new(dialect: &'static Dialect, limit: usize) -> Self {
        Self {
            dialect,
            limit,
            longest: 0,
            date: None,
            model: None,
            summary: Vec::new(),
            request_rate: None,
            max_concurrency: None,
            duration_ns: None,
            input_lens: Vec::new(),
            output_lens: Vec::new(),
            ttfts: Vec::new(),
            gaps: GapLists::default(),
            latencies: Vec::new(),
            starts: Vec::new(),
            waits: Vec::new(),
            errors: Vec::new(),
            impossible: BTreeSet::new(),
        }
    }

    fn read(&mut self, json: &mut Json<&mut Input<'_>>) -> JsonResult<()> {
        json.object(|key, json| {
            match key {
                "date" => self.date = json.scalar()?,
                "model_id" => self.model = json.scalar()?,
                "server_info" if json.peek() == Some(b'{') => json.object(|key, json| {
                    match key {
                        "model_path" => self.model = json.scalar()?,
                        _ => json.skip()?,
                    }
                    Ok(())
                })?,
                "request_rate" => self.request_rate = json.f64()?,
                "max_concurrency" => self.max_concurrency = json.f64()?,
                "duration" => self.duration_ns = json.seconds_ns()?,
                "input_lens" => list(json, &mut self.input_lens, (self.limit, &mut self.longest), Json::i64)?,
                "output_lens" => list(json, &mut self.output_lens, (self.limit, &mut self.longest), Json::i64)?,
                "ttfts" => list(json, &mut self.ttfts, (self.limit, &mut self.longest), Json::seconds_ns)?,
                "latencies" => list(json, &mut self.latencies, (self.limit, &mut self.longest), Json::seconds_ns)?,
                "start_times" => list(json, &mut self.starts, (self.limit, &mut self.longest), Json::seconds_ns)?,
                "queue_times" => list(json, &mut self.waits, (self.limit, &mut self.longest), Json::seconds_ns)?,
                "itls" => self.read_gaps(json)?,
                "errors" => {
                    let class = |json: &mut Json<_>| {
                        let text = json.lead()?.unwrap_or_default();
                        Ok(if text.is_empty() { "" } else { error_class(&text) })
                    };
                    list(json, &mut self.errors, (self.limit, &mut self.longest), class)?;
                }
                _ if self.dialect.signal_of(key).is_some() => {
                    let value = json.figure()?;
                    let is_new = self.summary.iter().all(|(known, _)| known != key);
                    self.summary.extend(value.filter(|_| is_new).map(|value| (key.to_string(), value)));
                }
                _ => json.skip()?,
            }
            Ok(())
        })
    }

    fn read_gaps(&mut self, json: &mut Json<&mut Input<'_>>) -> JsonResult<()> {
        json.array(|json| {
            if self.gaps.lists.len() >= self.limit {
                return json.skip();
            }
            let mut gaps = Gaps::default();
            let outcome = json.array(|json| {
                gaps.push(json.seconds_ns()?.unwrap_or(-1));
                Ok(())
            });
            if outcome.is_ok() {
                self.gaps.push(gaps);
            }
            outcome
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

    fn add(&mut self, number: usize, builder: &mut Builder<'_>) {
        let point_idx = i32::try_from(number).unwrap_or(i32::MAX);
        self.leave_out_settings(builder);
        builder.leave_out_requests((self.longest.saturating_sub(self.limit)) as u64);
        if let Some(model) = &self.model {
            builder.capture.manifest.subject.model.clone_from(model);
        }
        let end_ns = self.align(builder);
        self.add_summary(At { t_ns: end_ns.unwrap_or(0), point_idx }, builder);
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
        let span = end_ns.zip(self.duration_ns).map(|(end_ns, duration)| (end_ns.saturating_sub(duration), end_ns));
        builder.facts.loads.push(Load { span, max_concurrency: self.max_concurrency, request_rate: self.request_rate });
    }

    /// Takes away settings of the load that cannot be, so that nothing is sorted by them.
    fn leave_out_settings(&mut self, builder: &mut Builder<'_>) {
        let settings = [
            ("max_concurrency", "client.concurrency", &mut self.max_concurrency),
            ("request_rate", "client.request_rate", &mut self.request_rate),
        ];
        for (key, signal, setting) in settings {
            if let Some(value) = setting.take_if(|value| !figures::is_possible(signal, *value)) {
                figures::add(builder, At::default(), key, signal, value);
            }
        }
        if let Some(duration) = self.duration_ns.take_if(|duration| !(0..=MAX_TIME_NS).contains(duration)) {
            figures::add(builder, At::default(), "duration", "client.duration", duration as f64 / 1e9);
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

    fn add_summary(&self, at: At, builder: &mut Builder<'_>) {
        let settings = [
            ("max_concurrency", "client.concurrency", self.max_concurrency),
            ("request_rate", "client.request_rate", self.request_rate),
            ("duration", "client.duration", self.duration_ns.map(|duration| duration as f64 / 1e9)),
        ];
        for (key, signal, value) in settings {
            if let Some(value) = value {
                figures::add(builder, at, key, signal, value);
            }
        }
        let has = |key: &str| self.summary.iter().any(|(known, _)| known == key);
        for (key, value) in &self.summary {
            // The median comes a second time as p50 where that percentile was asked for.
            let repeated = key.strip_prefix("median_").is_some_and(|rest| has(&format!("p50_{rest}")));
            let Some((signal, scale)) = self.dialect.signal_of(key).filter(|_| !repeated) else { continue };
            if signal == "client.throughput.output.max" && self.is_chunk_rate(*value) {
                builder.issue(Severity::Note, "peak_counts_chunks", key, 1, PEAK_COUNTS_CHUNKS);
            } else {
                figures::add(builder, at, key, &signal, value * scale);
            }
        }
    }

    /// A peak below the mean counts chunks where it should count tokens.
    fn is_chunk_rate(&self, peak: f64) -> bool {
        let mean = self.summary.iter().find(|(key, _)| key == "output_throughput").map(|(_, value)| *value);
        mean.is_some_and(|mean| peak >= 0.0 && peak < mean)
    }

    fn add_request(&mut self, at: usize, number: usize, offset: i64, builder: &mut Builder<'_>) {
        let at_start = self.starts.get(at).copied().flatten();
        let start = at_start.map_or(offset, |start| start.saturating_add(offset));
        let get = |list: &[Option<i64>]| list.get(at).copied().flatten();
        let error = self.errors.get(at).copied().unwrap_or_default();
        let first = get(&self.ttfts).filter(|_| error.is_empty()).map(|ttft| start.saturating_add(ttft));
        let done = self.done_after(at).map(|after| start.saturating_add(after));
        let gaps = self.gaps.lists.get_mut(at).map(std::mem::take).unwrap_or_default();
        let row = ClientRow {
            id: if number == 0 { at.to_string() } else { format!("{number}/{at}") },
            point_idx: i32::try_from(number).unwrap_or(i32::MAX),
            sent_ns: start,
            intended_ns: get(&self.waits).filter(|_| at_start.is_some()).map(|wait| start.saturating_sub(wait)),
            first_ns: first,
            last_ns: first.map(|first| first.saturating_add(gaps.sum_ns)),
            done_ns: done,
            tokens_in: get(&self.input_lens),
            tokens_out: get(&self.output_lens),
            finish: error,
            gaps: Some(gaps),
            ..ClientRow::default()
        };
        row.add(&format!("request {at}"), builder);
    }
}

/// Reads an array; what is beyond the limit is not kept, and the longest array is remembered.
fn list<R: BufRead, T>(
    json: &mut Json<R>,
    into: &mut Vec<T>,
    (limit, longest): (usize, &mut usize),
    mut element: impl FnMut(&mut Json<R>) -> JsonResult<T>,
) -> JsonResult<()> {
    let mut length = 0;
    json.array(|json| {
        let value = element(json)?;
        length += 1;
        *longest = (*longest).max(length);
        if into.len() < limit {
            into.push(value);
        }
        Ok(())
    })
}
