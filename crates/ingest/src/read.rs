//! Inputs to a capture: find, recognize, read in two stages, merge, draw the conclusions that need all sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use capture::issues::PROFILE_SKIPPED;
use capture::{Capture, Severity};

use crate::builder::{Builder, Built, Context, LogPiece, ScrapeTime};
use crate::duplicates::{self, Seen};
use crate::error::IngestError;
use crate::finish::Conclusions;
use crate::formats::{self, Format, Probe, Stage, observations_toml, prometheus_text};
use crate::input::{Finished, Input};
use crate::naming;
use crate::options::{Options, Progress};
use crate::replicas::{self, Held};
use crate::walk::{self, Found};

/// Largest load result that is looked at for copies before it is read.
const MAX_HASHED_BYTES: u64 = 256 << 20;
/// Reads files, folders and captures into one capture in canonical form: the same sources give the same capture, byte
/// for byte, in whatever order they are named.
///
/// # Errors
/// Only when nothing could be read; everything less is a row of the `issues` table.
pub fn read(inputs: &[PathBuf], options: &Options<'_>) -> Result<Capture, IngestError> {
    read_beside(Vec::new(), inputs, options)
}

/// Like [`read`], beside captures that are in memory already: clocks of unknown zone in the inputs are compared with
/// theirs, and their rows are part of the result.
///
/// # Errors
/// See [`read`].
pub fn read_beside(known: Vec<Capture>, inputs: &[PathBuf], options: &Options<'_>) -> Result<Capture, IngestError> {
    let walk = walk::walk(inputs, options)?;
    if walk.found.is_empty() {
        let told = |(_, _, source, sentence): &(Severity, &str, String, String)| format!("`{source}`: {sentence}");
        return Err(IngestError::Empty { reasons: walk.issues.iter().take(10).map(told).collect() });
    }
    let mut reading = Reading {
        options,
        total: Capture::new(),
        conclusions: Conclusions::default(),
        refusals: Vec::new(),
        progress: Progress::default(),
        seen: Seen::default(),
        held: Vec::new(),
    };
    for capture in known {
        reading.total.merge(capture);
    }
    for (severity, code, source, sentence) in &walk.issues {
        reading.total.add_issue(*severity, code, source, "", 1, sentence);
    }
    let plan = reading.plan(&walk.found);
    let source_count = plan.len() + walk.found.iter().filter(|found| found.is_capture).count();
    reading.progress.sources_total = source_count;
    let failed_capture = reading.captures(&walk.found);
    reading.sources(plan);
    if reading.refusals.len() >= source_count.max(1) {
        if let Some(error) = failed_capture.filter(|_| source_count == 1) {
            return Err(error);
        }
        let count = reading.refusals.len();
        reading.refusals.truncate(10);
        return Err(IngestError::NothingUsable { count, reasons: reading.refusals });
    }
    let mut capture = reading.total;
    crate::replica_join::join(&mut capture);
    reading.conclusions.apply(&mut capture);
    duplicates::fold_issues(&mut capture);
    capture.canonicalize();
    Ok(capture)
}

/// Reads one source from memory. What cannot be read is an issue of the capture.
pub fn read_bytes(name: &str, bytes: &[u8], options: &Options<'_>) -> Capture {
    let input = Input::new(Box::new(bytes), options);
    let format = formats::sniff(&Probe { head: input.head(), is_whole: input.is_all_in_head() });
    read_as(format, name, input, options)
}

/// Reads one source as a source of `format`, whatever it looks like.
pub(crate) fn read_as(format: &Format, name: &str, mut input: Input<'_>, options: &Options<'_>) -> Capture {
    let naming = naming::of(name);
    let context = Context { replica: naming.replica, scrape_time: naming.time, ..Context::default() };
    let mut builder = Builder::new(&naming::source_name(name), format.id, &context).obey(options);
    (format.read)(&mut input, &mut builder);
    conclude(vec![builder.finish(&input.finish())])
}

/// One answer of a metrics endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Scrape<'a> {
    /// Host time of the request.
    pub t_ns: i64,
    /// The body as received, unpacked.
    pub body: &'a [u8],
}

/// Reads scrapes of one endpoint, in the order they were taken. `name` is its URL; its host and port are the replica.
pub fn read_scrapes(name: &str, scrapes: &[Scrape<'_>], options: &Options<'_>) -> Capture {
    let context = Context { replica: naming::of(name).replica, ..Context::default() };
    let mut builder = Builder::new(&naming::source_name(name), prometheus_text::FORMAT.id, &context);
    let bytes = prometheus_text::read_scrapes(scrapes, options, &mut builder);
    conclude(vec![builder.finish(&bytes)])
}

/// Reads the answers of one endpoint one by one, each into a capture of its own without hashes. What a series is, is found out when it
/// comes first and every 60 answers; only then are settings told.
#[derive(Default)]
pub struct ScrapeReader {
    source_name: String,
    context: Context,
    growing: prometheus_text::Growing,
}

impl ScrapeReader {
    /// A reader of the endpoint at the URL `name`; its host and port are the replica.
    pub fn new(name: &str) -> Self {
        let context = Context { replica: naming::of(name).replica, ..Context::default() };
        Self { source_name: naming::source_name(name), context, growing: prometheus_text::Growing::default() }
    }

    /// Reads the next answer.
    pub fn read(&mut self, scrape: &Scrape<'_>, options: &Options<'_>) -> Capture {
        let mut builder = Builder::new(&self.source_name, prometheus_text::FORMAT.id, &self.context);
        let finished = self.growing.read(scrape, options, &mut builder);
        conclude(vec![builder.finish(&finished)])
    }
}

/// The next lines of a log that grows: at most one format, told by the log's beginning.
#[derive(Clone, Copy, Debug)]
pub struct LogLines<'a> {
    /// The first bytes of the log, which tell its format and engine.
    pub head: &'a [u8],
    /// Whole lines that were not read before.
    pub lines: &'a [u8],
    /// Host time at which the last of them was written: the log's zone and year follow from it.
    pub written_ns: i64,
    /// The replica that writes it; by its name when `None`.
    pub replica: Option<&'a str>,
}

/// Reads the next lines of the log `name`; `None` while its beginning is of no format of logs.
pub fn read_log_lines(name: &str, piece: &LogLines<'_>, options: &Options<'_>) -> Option<Capture> {
    let format = formats::sniff(&Probe { head: piece.head, is_whole: true });
    if !format.id.ends_with("_log") {
        return None;
    }
    let naming = naming::of(name);
    let log_piece = Some(LogPiece { head: piece.head.to_vec(), written_ns: piece.written_ns });
    let reference = Some((piece.written_ns, piece.written_ns));
    let replica = piece.replica.map(ToString::to_string).or(naming.replica);
    let context = Context { replica, reference, log_piece, ..Context::default() };
    let mut input = Input::new(Box::new(piece.lines), options);
    let mut builder = Builder::new(&naming::source_name(name), format.id, &context).obey(options);
    (format.read)(&mut input, &mut builder);
    Some(conclude(vec![builder.finish(&input.finish())]))
}

/// The capture of sources that stand alone.
pub(crate) fn conclude(sources: Vec<Built>) -> Capture {
    let mut conclusions = Conclusions::default();
    let mut total = Capture::new();
    for built in sources {
        merge(built, &mut total, &mut conclusions);
    }
    conclusions.apply(&mut total);
    total.canonicalize();
    total
}

fn merge(mut built: Built, total: &mut Capture, conclusions: &mut Conclusions) {
    let base = total.manifest.sources.len() as u32;
    conclusions.add(&mut built, base);
    total.merge(built.capture);
}

/// Formats that hold nothing but what devices and threads did.
const PROFILES: [&str; 4] = ["kineto_json", "nsys_sqlite", "rocprofv3_json", "perfetto_trackevent"];

/// A source and how it will be read.
struct Planned {
    found: Found,
    format: &'static Format,
    context: Context,
    /// The opened source, where it cannot be opened a second time.
    kept: Option<Input<'static>>,
}

/// A source, what it is, and the source itself where it can be read only once.
type Recognized = (Found, &'static Format, Option<Input<'static>>);

/// What the clocks of a run are compared with: times covered, and starts of its API processes.
type Reference = (Option<(i64, i64)>, BTreeMap<String, i64>);

struct Reading<'a> {
    options: &'a Options<'a>,
    total: Capture,
    conclusions: Conclusions,
    refusals: Vec<String>,
    progress: Progress,
    seen: Seen,
    held: Vec<Held>,
}

impl Reading<'_> {
    /// Recognizes every source and decides which run, replica and time it belongs to.
    fn plan(&mut self, found: &[Found]) -> Vec<Planned> {
        let mut recognized: Vec<Recognized> = Vec::new();
        for source in found.iter().filter(|source| !source.is_capture) {
            if let Some((format, kept)) = self.recognize(source) {
                recognized.push((source.clone(), format, kept));
            }
        }
        let mut plan = Vec::new();
        let mut claimed = BTreeSet::new();
        let mut next_run = 0;
        let (typed, others): (Vec<_>, Vec<_>) =
            recognized.into_iter().partition(|(_, format, _)| format.id == observations_toml::FORMAT.id);
        for (source, format, kept) in typed {
            let claims = self.claims(&source, kept.as_ref());
            for (run, file) in &claims.files {
                let path = source.path.parent().unwrap_or(Path::new("")).join(file);
                claimed.insert(std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone()));
                let prefix = source.name.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
                let claim = Found { name: format!("{prefix}{file}"), path, is_capture: false };
                if let Some((format, kept)) = self.recognize(&claim) {
                    let context = Context { run_idx: next_run + run, ..Context::default() };
                    plan.push(Planned { found: claim, format, context, kept });
                }
            }
            let beside = claims.files.iter().map(|(_, file)| file.clone()).collect();
            let context = Context { run_idx: next_run, beside, ..Context::default() };
            plan.push(Planned { found: source, format, context, kept });
            next_run += claims.run_count;
        }
        let mut rest: Vec<Planned> = Vec::new();
        for (found, format, kept) in others {
            let key = std::fs::canonicalize(&found.path).unwrap_or_else(|_| found.path.clone());
            if !claimed.contains(&key) {
                rest.push(Planned { found, format, context: Context::default(), kept });
            }
        }
        self.drop_repeated_loads(&mut rest);
        plan.append(&mut rest);
        place(&mut plan);
        plan.sort_by(|a, b| (a.format.stage, &a.found, a.context.run_idx).cmp(&(b.format.stage, &b.found, b.context.run_idx)));
        plan
    }

    /// Several results beside one another become classes by their names, so copies of one must go before that.
    fn drop_repeated_loads(&mut self, plan: &mut Vec<Planned>) {
        let is_small = |planned: &Planned| std::fs::metadata(&planned.found.path).is_ok_and(|file| file.len() <= MAX_HASHED_BYTES);
        let is_hashed = |planned: &Planned| is_load(planned.format) && planned.kept.is_none() && is_small(planned);
        if plan.iter().filter(|planned| is_hashed(planned)).count() < 2 {
            return;
        }
        let mut first: BTreeMap<String, String> = BTreeMap::new();
        plan.retain(|planned| {
            let file = Some(planned).filter(|planned| is_hashed(planned)).and_then(|planned| File::open(&planned.found.path).ok());
            let Some(file) = file else { return true };
            let hash = Input::new(Box::new(file), self.options).finish().content_hash;
            if let Some(first) = first.get(&hash) {
                duplicates::tell(&mut self.total, &planned.found.name, first);
                return false;
            }
            first.insert(hash, planned.found.name.clone());
            true
        });
    }

    /// The format of a source. A pipe can be read only once: what was opened to look at is kept.
    fn recognize(&mut self, source: &Found) -> Option<(&'static Format, Option<Input<'static>>)> {
        match File::open(&source.path) {
            Ok(file) => {
                let is_regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
                let input = Input::new(Box::new(file), self.options);
                let format = formats::sniff(&Probe { head: input.head(), is_whole: input.is_all_in_head() });
                if self.options.skip_profiles && PROFILES.contains(&format.id) {
                    let sentence = "a profiler's timeline, left out unread: nothing of it is used here";
                    self.total.add_issue(Severity::Note, PROFILE_SKIPPED, &source.name, "", 1, sentence);
                    return None;
                }
                Some((format, (!is_regular).then_some(input)))
            }
            Err(error) => {
                self.cannot_open(source, &error);
                None
            }
        }
    }

    fn cannot_open(&mut self, source: &Found, error: &std::io::Error) {
        let sentence = format!("cannot read it: {error}");
        self.total.add_issue(Severity::Error, "unreadable_file", &source.name, "", 1, &sentence);
        self.refusals.push(format!("`{}`: {sentence}", source.name));
    }

    fn claims(&self, source: &Found, kept: Option<&Input<'_>>) -> observations_toml::Claims {
        if let Some(kept) = kept {
            return observations_toml::claims(&mut Input::new(Box::new(kept.head()), self.options), None);
        }
        let Ok(file) = File::open(&source.path) else { return observations_toml::Claims::default() };
        let mut input = Input::new(Box::new(file), self.options);
        observations_toml::claims(&mut input, source.path.parent())
    }

    /// Merges captures among the inputs; one that cannot be read is an issue, and the last such error is returned.
    fn captures(&mut self, found: &[Found]) -> Option<IngestError> {
        let mut failed = None;
        for source in found.iter().filter(|source| source.is_capture) {
            match crate::captures::open(&source.path) {
                Ok(mut capture) => {
                    for (name, first) in self.seen.take_out(&mut capture) {
                        duplicates::tell(&mut self.total, &name, &first);
                    }
                    self.total.merge(capture);
                }
                Err(error) => {
                    self.total.add_issue(Severity::Error, "unreadable_capture", &source.name, "", 1, &error.to_string());
                    self.refusals.push(error.to_string());
                    failed = Some(error);
                }
            }
            self.progress.sources_done += 1;
            self.report();
        }
        failed
    }

    fn sources(&mut self, plan: Vec<Planned>) {
        let (clocked, floating): (Vec<_>, Vec<_>) = plan.into_iter().partition(|planned| planned.format.stage == Stage::Clocked);
        for planned in clocked {
            self.source(planned);
        }
        let mut held = std::mem::take(&mut self.held);
        replicas::tell_apart(&mut held, &mut self.total);
        for held in held {
            merge(held.built, &mut self.total, &mut self.conclusions);
        }
        // Results say their date, logs not even their year: what has a date is read first.
        let (logs, dated): (Vec<_>, Vec<_>) = floating.into_iter().partition(|planned| planned.format.id.ends_with("_log"));
        let mut references = BTreeMap::new();
        let runs: BTreeSet<u32> = dated.iter().chain(&logs).map(|planned| planned.context.run_idx).collect();
        for &run_idx in &runs {
            references.insert(run_idx, self.reference(run_idx));
        }
        self.floating(dated, &references);
        for (run_idx, (reference, _)) in &mut references {
            *reference = reference.or_else(|| self.conclusions.dated(*run_idx));
        }
        self.floating(logs, &references);
    }

    /// What the clocks of a run are compared with: what was read just now, and what was known before.
    fn reference(&self, run_idx: u32) -> Reference {
        let (known, mut starts) = crate::captures::clock_facts(&self.total, run_idx);
        starts.extend(self.conclusions.process_starts(run_idx));
        let spans = [self.conclusions.reference(run_idx), known].into_iter().flatten();
        (spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))), starts)
    }

    fn floating(&mut self, plan: Vec<Planned>, references: &BTreeMap<u32, Reference>) {
        for mut planned in plan {
            if let Some((reference, process_starts)) = references.get(&planned.context.run_idx) {
                planned.context.reference = *reference;
                planned.context.process_starts.clone_from(process_starts);
            }
            self.source(planned);
        }
    }

    fn source(&mut self, planned: Planned) {
        let Planned { found, format, context, kept } = planned;
        let opened = match kept {
            Some(input) => Ok(input),
            None => File::open(&found.path).map(|file| Input::new(Box::new(file), self.options).at_path(&found.path)),
        };
        match opened {
            Ok(mut input) => {
                let mut builder = Builder::new(&found.name, format.id, &context).obey(self.options);
                (format.read)(&mut input, &mut builder);
                let finished = input.finish();
                self.progress.bytes_done += finished.byte_count;
                let built = builder.finish(&finished);
                self.refusals.extend(built.refusal.clone());
                self.keep(built, &found.name, format, &context, &finished);
            }
            Err(error) => self.cannot_open(&found, &error),
        }
        self.progress.sources_done += 1;
        self.report();
    }

    /// Merges what was read, unless it was read before.
    fn keep(&mut self, built: Built, name: &str, format: &Format, context: &Context, finished: &Finished) {
        // Equal scrapes at different times, or of replicas that the names tell apart, are not the same evidence.
        let replica = context.replica_setting();
        let time = if format.id == prometheus_text::FORMAT.id { context.scrape_time } else { ScrapeTime::Unknown };
        let meaning = format!("{} {} {time:?} {replica}", context.run_idx, format.id);
        let hashes = [finished.content_hash.as_str(), finished.hash.as_str()];
        let known = if built.refusal.is_some() { None } else { self.seen.first(hashes, &meaning, name) };
        if let Some(first) = known {
            duplicates::tell(&mut self.total, name, &first);
        } else if format.id == prometheus_text::FORMAT.id {
            let series = if time == ScrapeTime::Unknown { name.to_string() } else { series_of(name) };
            self.held.push(Held { built, name: name.to_string(), series, replica: context.replica_label().to_string() });
        } else {
            merge(built, &mut self.total, &mut self.conclusions);
        }
    }

    fn report(&self) {
        if let Some(progress) = self.options.progress {
            progress(self.progress);
        }
    }
}

/// Results and client logs of which several beside one another are classes or a sweep. AIPerf, `inference-perf` and
/// Perf Analyzer write several files about one run, so that their names tell no classes.
const LOADS: &[&str] = &["vllm_bench_json", "sglang_bench_jsonl", "guidellm_json", "genai_perf_json", "client_jsonl"];

fn is_load(format: &Format) -> bool {
    LOADS.contains(&format.id)
}

/// Folder and base name of a file in a row of files.
fn series_of(name: &str) -> String {
    let base = naming::of(name).base;
    name.rsplit_once('/').map_or_else(|| base.clone(), |(folder, _)| format!("{folder}/{base}"))
}

/// Decides replica, time and class of every source from its name and its neighbors.
fn place(plan: &mut [Planned]) {
    let mut groups: BTreeMap<(u32, &'static str, String, String), Vec<usize>> = BTreeMap::new();
    for (at, planned) in plan.iter_mut().enumerate() {
        let naming = naming::of(&planned.found.name);
        let folder = planned.found.name.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_string());
        let is_load = is_load(planned.format);
        planned.context.scrape_time = naming.time;
        if !is_load {
            planned.context.replica = naming.replica;
        }
        let base = if is_load { String::new() } else { naming.base };
        groups.entry((planned.context.run_idx, planned.format.id, folder, base)).or_default().push(at);
    }
    for ((_, format, ..), members) in groups {
        match format {
            format if LOADS.contains(&format) && members.len() > 1 => {
                for at in members {
                    plan[at].context.class = naming::of(&plan[at].found.name).stem;
                }
            }
            "prometheus_text" => order(plan, &members),
            _ => {}
        }
    }
}

/// Scrape files numbered in a row stand in that order.
fn order(plan: &mut [Planned], members: &[usize]) {
    let mut numbered: Vec<(u64, usize)> =
        members.iter().filter_map(|&at| naming::of(&plan[at].found.name).number.map(|number| (number, at))).collect();
    if numbered.len() < 2 {
        return;
    }
    // From the tenth on, `scrape-10` looks like a replica; in a numbered row it is not one.
    for &at in members {
        let replica = plan[at].context.replica.take();
        numbered.extend(replica.and_then(|replica| replica.parse().ok()).map(|number| (number, at)));
    }
    numbered.sort_unstable();
    for (position, (_, at)) in (0..).zip(numbered) {
        plan[at].context.scrape_time = ScrapeTime::Order(position);
    }
}
