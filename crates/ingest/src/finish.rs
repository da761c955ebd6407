//! Conclusions that need all sources: the subject, sweep points, runs, process layout, defaults.

use std::collections::{BTreeMap, BTreeSet};

use capture::{Capture, Name, Point, Run, Setting, SourceIdx, Subject, labels};

use crate::builder::{Built, FormEvidence, Load, NO_POINT};
use crate::engines::{self, DefaultsQuery, forms};

/// Everything gathered while sources were read.
#[derive(Default)]
pub(crate) struct Conclusions {
    sources: Vec<SourceFacts>,
}

struct SourceFacts {
    run_idx: u32,
    source: SourceIdx,
    rank: usize,
    subject: Subject,
    facts: crate::builder::Facts,
}

/// Formats in order of trust for the subject; unknown ones come last.
const TRUST: &[&str] = &[
    "vllm_log",
    "engine_log",
    "prometheus_text",
    "vllm_bench_json",
    "sglang_bench_jsonl",
    "guidellm_json",
    "aiperf_json",
    "genai_perf_json",
    "command_txt",
    "observations_toml",
];

impl Conclusions {
    /// Takes the facts out of a source that is about to be merged at source index `base`.
    pub(crate) fn add(&mut self, built: &mut Built, base: u32) {
        let format = built.capture.manifest.sources.first().map(|source| source.format.clone()).unwrap_or_default();
        let rank = TRUST.iter().position(|known| *known == format).unwrap_or(TRUST.len());
        let mut subject = std::mem::take(&mut built.capture.manifest.subject);
        let is_measured = !matches!(format.as_str(), "attachment" | "command_txt" | "nginx_conf" | "observations_toml");
        subject.provenance = match (built.facts.simulated, is_measured, built.facts.typed) {
            (true, ..) => "simulated",
            (false, true, _) => "recorded",
            (false, false, true) => "typed",
            _ => "",
        }
        .to_string();
        let facts = std::mem::take(&mut built.facts);
        self.sources.push(SourceFacts { run_idx: built.run_idx, source: SourceIdx(base), rank, subject, facts });
    }

    /// Host times covered by the sources of a run that have an absolute clock.
    pub(crate) fn reference(&self, run_idx: u32) -> Option<(i64, i64)> {
        let spans = self.sources.iter().filter(|source| source.run_idx == run_idx).filter_map(|source| source.facts.span);
        // A clock that counts from the start of its machine says nothing of the host clock.
        let is_dated = |span: &(i64, i64)| span.0 >= crate::captures::EARLIEST_NS;
        let has_dated = spans.clone().any(|span| is_dated(&span));
        spans.filter(|span| is_dated(span) || !has_dated).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Host times of the sources of a run that are dated, where nothing has an absolute clock: loads, else telemetry in local
    /// time, which is that of a log beside it.
    pub(crate) fn dated(&self, run_idx: u32) -> Option<(i64, i64)> {
        let facts = || self.sources.iter().filter(|source| source.run_idx == run_idx).map(|source| &source.facts);
        let join = |a: (i64, i64), b: (i64, i64)| (a.0.min(b.0), a.1.max(b.1));
        let loads = facts().flat_map(|facts| &facts.loads).filter_map(|load| load.span).reduce(join);
        loads.or_else(|| facts().filter_map(|facts| facts.local_span).reduce(join))
    }

    /// Start of each replica's API process in a run.
    pub(crate) fn process_starts(&self, run_idx: u32) -> BTreeMap<String, i64> {
        let sources = self.sources.iter().filter(|source| source.run_idx == run_idx);
        sources.flat_map(|source| source.facts.process_starts.clone()).collect()
    }

    /// Writes the conclusions into the merged capture.
    pub(crate) fn apply(mut self, capture: &mut Capture) {
        self.subject(capture);
        self.clocks(capture);
        self.loads(capture);
        self.runs(capture);
        self.defaults(capture);
    }

    /// Brings the clocks of request sources to the host clock; loads move with their rows.
    fn clocks(&mut self, capture: &mut Capture) {
        let read_now = self.sources.iter().map(|source| source.source).collect();
        for (moved, line) in crate::clock_join::join(capture, &read_now) {
            let loads = self.sources.iter_mut().filter(|source| source.source == moved).flat_map(|source| &mut source.facts.loads);
            for load in loads {
                load.span = load.span.map(|(start_ns, end_ns)| (line.host_ns(start_ns), line.host_ns(end_ns)));
            }
        }
    }

    fn subject(&self, capture: &mut Capture) {
        let mut order: Vec<&SourceFacts> = self.sources.iter().collect();
        order.sort_by_key(|source| (source.run_idx, source.rank, source.source));
        let mut subject = Subject::default();
        for source in order {
            let from = &source.subject;
            let fill = |mine: &mut String, theirs: &String| {
                if mine.is_empty() {
                    mine.clone_from(theirs);
                }
            };
            if subject.engine.is_empty() || subject.engine == from.engine {
                if subject.engine_version.is_empty() && !from.engine_version.is_empty() && !subject.engine_from.is_empty() {
                    subject.engine_from = format!("{}, version {}", subject.engine_from, from.engine_from);
                }
                fill(&mut subject.engine_version, &from.engine_version);
                fill(&mut subject.engine_from, &from.engine_from);
            }
            fill(&mut subject.engine, &from.engine);
            fill(&mut subject.model, &from.model);
            fill(&mut subject.device, &from.device);
            fill(&mut subject.stated_symptom, &from.stated_symptom);
            fill(&mut subject.stated_signal, &from.stated_signal);
            subject.device_count = if subject.device_count == 0 { from.device_count } else { subject.device_count };
        }
        let provenances = self.sources.iter().map(|source| source.subject.provenance.as_str());
        subject.provenance =
            provenances.min_by_key(|provenance| capture::manifest::provenance_rank(provenance)).unwrap_or_default().to_string();
        self.form(&mut subject);
        let mut only_subject = Capture::new();
        only_subject.manifest.subject = subject;
        capture.merge(only_subject);
    }

    /// How the engine's processes are laid out, by log prefixes or process roles, else as the version usually is.
    fn form(&self, subject: &mut Subject) {
        let mut form = FormEvidence::default();
        for source in &self.sources {
            let seen = &source.facts.form;
            form.api_process |= seen.api_process;
            form.core_process |= seen.core_process;
            form.worker_process |= seen.worker_process;
            if !seen.from.is_empty() && (seen.api_process || seen.core_process) && (form.from.is_empty() || seen.from < form.from) {
                form.from.clone_from(&seen.from);
            }
        }
        let Some((layout, is_seen)) = forms::find(&subject.engine, &subject.engine_version, &form) else { return };
        subject.engine_form = layout.kind.to_string();
        subject.engine_form_from = if is_seen { form.from } else { "assumed".to_string() };
        subject.message_channel = layout.channel.to_string();
        subject.scheduling_process = layout.scheduler.to_string();
    }

    /// Tells loads at the same time from a sweep, and gives a sweep its points.
    fn loads(&self, capture: &mut Capture) {
        let mut by_run: BTreeMap<u32, Vec<(&Load, Place)>> = BTreeMap::new();
        for source in &self.sources {
            let loads = by_run.entry(source.run_idx).or_default();
            loads.extend((0..).zip(&source.facts.loads).map(|(position, load)| (load, (source.source, position))));
        }
        for (run_idx, mut loads) in by_run {
            loads.sort_by_key(|(load, place)| (load.span, *place));
            let is_sweep = loads.len() > 1 && loads.windows(2).all(|pair| !is_together(&pair[0], &pair[1]));
            if is_sweep {
                let (signal, values) = varied(&loads);
                let at = run_row(capture, run_idx);
                capture.tables.runs.varied_signal[at] = capture.intern(signal);
                add_points(capture, run_idx, &loads, &values);
                place_by_time(capture, run_idx);
            } else {
                let point_of = loads.iter().map(|(_, place)| (*place, NO_POINT)).collect();
                move_rows(capture, &point_of);
            }
        }
    }

    /// Every run that has rows has a row of its own, with the command line its sources tell.
    fn runs(&self, capture: &mut Capture) {
        for run_idx in self.sources.iter().map(|source| source.run_idx).collect::<BTreeSet<u32>>() {
            let at = run_row(capture, run_idx);
            let sources = self.sources.iter().filter(|source| source.run_idx == run_idx);
            let commands: BTreeSet<&str> = sources.flat_map(|source| source.facts.commands.iter().map(String::as_str)).collect();
            if capture.tables.runs.flags[at] == Name::EMPTY && !commands.is_empty() {
                let text = commands.into_iter().collect::<Vec<_>>().join("\n");
                capture.tables.runs.flags[at] = capture.intern(&text);
            }
        }
    }

    /// Adds what the engine does by default where nothing was stated.
    fn defaults(&self, capture: &mut Capture) {
        let subject = capture.manifest.subject.clone();
        let Some(engine) = engines::find(&subject.engine).filter(|_| !subject.engine_version.is_empty()) else { return };
        let runs: BTreeSet<u32> = self.sources.iter().map(|source| source.run_idx).collect();
        for run_idx in runs {
            let mut sources = self.sources.iter().filter(|source| source.run_idx == run_idx);
            let Some(source_idx) = sources.clone().min_by_key(|source| (source.rank, source.source)).map(|source| source.source) else {
                continue;
            };
            let generation =
                sources.find_map(|source| Some(source.facts.generation.as_str()).filter(|text| !text.is_empty())).unwrap_or_default();
            for (replica, stated) in stated_settings(capture, run_idx) {
                let query = DefaultsQuery { version: &subject.engine_version, device: &subject.device, generation, stated };
                let device = if subject.device.is_empty() { String::new() } else { format!(" ({})", subject.device) };
                let origin = format!("default of {}{device}", subject.engine_version);
                for (key, value) in (engine.defaults)(&query) {
                    let row = Setting {
                        run_idx,
                        replica: capture.intern(&replica),
                        key: capture.intern(key),
                        value: capture.intern(&value),
                        origin: capture.intern(&origin),
                        line: 0,
                        source_idx,
                    };
                    capture.tables.settings.push(row);
                }
            }
        }
    }
}

/// A load: its source, and its position among the loads of that source.
type Place = (SourceIdx, i32);

/// Two loads ran together when they share more than half of the shorter one's time. The loads of one source follow one
/// another; where results are not dated, different settings tell loads apart.
fn is_together((first, at): &(&Load, Place), (second, other): &(&Load, Place)) -> bool {
    if at.0 == other.0 {
        return false;
    }
    let (Some(a), Some(b)) = (first.span, second.span) else {
        return (first.max_concurrency, first.request_rate) == (second.max_concurrency, second.request_rate);
    };
    let shared = a.1.min(b.1).saturating_sub(a.0.max(b.0));
    let length = |span: (i64, i64)| span.1.saturating_sub(span.0);
    shared.saturating_mul(2) > length(a).min(length(b))
}

/// The signal a sweep varies, and its value at each load.
fn varied(loads: &[(&Load, Place)]) -> (&'static str, Vec<f64>) {
    let by = |value: fn(&Load) -> Option<f64>| {
        let values: Option<Vec<f64>> = loads.iter().map(|(load, _)| value(load)).collect();
        values.filter(|values| values.iter().any(|value| *value != values[0]))
    };
    if let Some(values) = by(|load| load.max_concurrency) {
        ("client.concurrency", values)
    } else if let Some(values) = by(|load| load.request_rate) {
        ("client.request_rate", values)
    } else {
        ("client.run_index", (0..loads.len()).map(|at| at as f64).collect())
    }
}

/// Numbers the loads by the varied value and moves their rows there; the file name is no class in a sweep.
fn add_points(capture: &mut Capture, run_idx: u32, loads: &[(&Load, Place)], values: &[f64]) {
    let mut order: Vec<usize> = (0..loads.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut point_of: BTreeMap<Place, i32> = BTreeMap::new();
    for (point_idx, &at) in (0..).zip(&order) {
        let (load, place) = loads[at];
        point_of.insert(place, point_idx);
        let (start_ns, end_ns) = load.span.unzip();
        capture.tables.points.push(Point { run_idx, point_idx, varied_value: values[at], start_ns, end_ns });
    }
    move_rows(capture, &point_of);
}

/// Moves the rows of loads to their points; a load that became a point is no class.
fn move_rows(capture: &mut Capture, point_of: &BTreeMap<Place, i32>) {
    let mut bare: BTreeMap<Name, Name> = BTreeMap::new();
    for at in 0..capture.tables.samples.source_idx.len() {
        let place = (capture.tables.samples.source_idx[at], capture.tables.samples.point_idx[at]);
        let Some(&point_idx) = point_of.get(&place) else { continue };
        capture.tables.samples.point_idx[at] = point_idx;
        if point_idx != NO_POINT {
            let name = capture.tables.samples.labels[at];
            let without = *bare.entry(name).or_insert_with(|| without_class(capture, name));
            capture.tables.samples.labels[at] = without;
        }
    }
    let requests = &mut capture.tables.requests;
    for at in 0..requests.source_idx.len() {
        let Some(&point_idx) = point_of.get(&(requests.source_idx[at], requests.point_idx[at])) else { continue };
        requests.point_idx[at] = point_idx;
        if point_idx != NO_POINT {
            requests.class[at] = Name::EMPTY;
        }
    }
}

/// Requests in a file of their own beside the summaries of a sweep belong to the point within whose time they were sent.
fn place_by_time(capture: &mut Capture, run_idx: u32) {
    let points = capture.tables.points.rows().filter(|point| point.run_idx == run_idx);
    let spans: Vec<(i64, i64, i32)> = points.filter_map(|point| Some((point.start_ns?, point.end_ns?, point.point_idx))).collect();
    let of_requests: Vec<bool> = capture.manifest.sources.iter().map(|source| source.format == "aiperf_jsonl").collect();
    let requests = &mut capture.tables.requests;
    for at in 0..requests.source_idx.len() {
        let is_loose = requests.run_idx[at] == run_idx && requests.point_idx[at] == NO_POINT;
        if is_loose && of_requests.get(requests.source_idx[at].0 as usize) == Some(&true) {
            let sent = requests.t_sent_ns[at];
            let within = spans.iter().find(|(start, end, _)| (*start..=*end).contains(&sent));
            requests.point_idx[at] = within.map_or(NO_POINT, |(.., point_idx)| *point_idx);
        }
    }
}

fn without_class(capture: &mut Capture, name: Name) -> Name {
    let pairs = labels::pairs(capture.text(name));
    let kept: Vec<(&str, &str)> =
        pairs.iter().filter(|(key, _)| key != "class").map(|(key, value)| (key.as_str(), value.as_str())).collect();
    capture.intern(&labels::canonical(&kept))
}

/// Index of the run's row, added if there is none.
fn run_row(capture: &mut Capture, run_idx: u32) -> usize {
    let runs = &mut capture.tables.runs;
    if let Some(at) = runs.run_idx.iter().position(|known| *known == run_idx) {
        return at;
    }
    let empty = Name::EMPTY;
    runs.push(Run { run_idx, name: empty, changed: empty, flags: empty, varied_signal: empty, device: empty });
    runs.run_idx.len() - 1
}

/// What is stated in a run, for each replica (or once for all).
fn stated_settings(capture: &Capture, run_idx: u32) -> Vec<(String, BTreeMap<String, String>)> {
    let settings = &capture.tables.settings;
    let rows: Vec<Setting> = settings.rows().filter(|row| row.run_idx == run_idx).collect();
    let mut replicas: BTreeSet<Name> = rows.iter().map(|row| row.replica).collect();
    if replicas.len() > 1 {
        replicas.remove(&Name::EMPTY);
    }
    if replicas.is_empty() {
        replicas.insert(Name::EMPTY);
    }
    let of = |replica: Name| {
        let mut own: Vec<&Setting> = rows.iter().filter(|row| row.replica == replica || row.replica == Name::EMPTY).collect();
        // The most trusted source is written last and wins.
        own.sort_by_key(|row| std::cmp::Reverse(capture::settings::source_rank(capture.text(row.origin))));
        own.iter().map(|row| (capture.text(row.key).to_string(), capture.text(row.value).to_string())).collect()
    };
    let mut named: Vec<(String, BTreeMap<String, String>)> =
        replicas.iter().map(|&replica| (capture.text(replica).to_string(), of(replica))).collect();
    named.sort_by(|a, b| a.0.cmp(&b.0));
    named
}
