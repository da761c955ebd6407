//! Inputs to a capture: find, recognize, read in two stages, merge, draw the conclusions that need all sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use capture::{Capture, Severity};

use crate::builder::{Builder, Built, Context, ScrapeTime};
use crate::error::IngestError;
use crate::finish::Conclusions;
use crate::formats::{self, Format, Probe, Stage, observations_toml, prometheus_text};
use crate::input::Input;
use crate::naming;
use crate::options::{Options, Progress};
use crate::walk::{self, Found};

/// Reads files, folders and captures into one capture in canonical form: the same sources give the same capture, byte
/// for byte, in whatever order they are named.
///
/// # Errors
/// Only when nothing could be read; everything less is a row of the `issues` table.
pub fn read(inputs: &[PathBuf], options: &Options<'_>) -> Result<Capture, IngestError> {
    let walk = walk::walk(inputs, options)?;
    if walk.found.is_empty() {
        return Err(IngestError::Empty);
    }
    let mut reading = Reading {
        options,
        total: Capture::new(),
        conclusions: Conclusions::default(),
        refusals: Vec::new(),
        progress: Progress::default(),
    };
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
    reading.conclusions.apply(&mut capture);
    capture.canonicalize();
    Ok(capture)
}

/// Reads one source from memory. What cannot be read is an issue of the capture.
pub fn read_bytes(name: &str, bytes: &[u8], options: &Options<'_>) -> Capture {
    let input = Input::new(Box::new(bytes), options);
    let format = formats::sniff(&Probe { head: input.head(), is_whole: input.is_all_in_head() });
    read_as(format, name, input)
}

/// Reads one source as a source of `format`, whatever it looks like.
pub(crate) fn read_as(format: &Format, name: &str, mut input: Input<'_>) -> Capture {
    let naming = naming::of(name);
    let context = Context { replica: naming.replica, scrape_time: naming.time, ..Context::default() };
    let mut builder = Builder::new(&naming::source_name(name), format.id, &context);
    (format.read)(&mut input, &mut builder);
    conclude(builder.finish(&input.finish()))
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
    conclude(builder.finish(&bytes))
}

fn conclude(built: Built) -> Capture {
    let mut conclusions = Conclusions::default();
    let mut total = Capture::new();
    merge(built, &mut total, &mut conclusions);
    conclusions.apply(&mut total);
    total.canonicalize();
    total
}

fn merge(mut built: Built, total: &mut Capture, conclusions: &mut Conclusions) {
    let base = total.manifest.sources.len() as u32;
    conclusions.add(&mut built, base);
    total.merge(built.capture);
}

/// A source and how it will be read.
struct Planned {
    found: Found,
    format: &'static Format,
    context: Context,
}

struct Reading<'a> {
    options: &'a Options<'a>,
    total: Capture,
    conclusions: Conclusions,
    refusals: Vec<String>,
    progress: Progress,
}

impl Reading<'_> {
    /// Recognizes every source and decides which run, replica and time it belongs to.
    fn plan(&mut self, found: &[Found]) -> Vec<Planned> {
        let mut recognized: Vec<(Found, &'static Format)> = Vec::new();
        for source in found.iter().filter(|source| !source.is_capture) {
            if let Some(format) = self.recognize(source) {
                recognized.push((source.clone(), format));
            }
        }
        let mut plan = Vec::new();
        let mut claimed = BTreeSet::new();
        let mut next_run = 0;
        for (source, _) in recognized.iter().filter(|(_, format)| format.id == observations_toml::FORMAT.id) {
            let claims = self.claims(source);
            for (run, file) in &claims.files {
                let path = source.path.parent().unwrap_or(Path::new("")).join(file);
                let key = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
                let prefix = source.name.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
                let claim = Found { name: format!("{prefix}{file}"), path, is_capture: false };
                claimed.insert(key);
                if let Some(format) = self.recognize(&claim) {
                    plan.push(Planned { found: claim, format, context: Context { run_idx: next_run + run, ..Context::default() } });
                }
            }
            let beside = claims.files.iter().map(|(_, file)| file.clone()).collect();
            let context = Context { run_idx: next_run, beside, ..Context::default() };
            plan.push(Planned { found: source.clone(), format: &observations_toml::FORMAT, context });
            next_run += claims.run_count;
        }
        for (found, format) in recognized {
            let key = std::fs::canonicalize(&found.path).unwrap_or_else(|_| found.path.clone());
            if format.id != observations_toml::FORMAT.id && !claimed.contains(&key) {
                plan.push(Planned { found, format, context: Context::default() });
            }
        }
        place(&mut plan);
        plan.sort_by(|a, b| (a.format.stage, &a.found, a.context.run_idx).cmp(&(b.format.stage, &b.found, b.context.run_idx)));
        plan
    }

    fn recognize(&mut self, source: &Found) -> Option<&'static Format> {
        match File::open(&source.path) {
            Ok(file) => {
                let input = Input::new(Box::new(file), self.options);
                Some(formats::sniff(&Probe { head: input.head(), is_whole: input.is_all_in_head() }))
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

    fn claims(&self, source: &Found) -> observations_toml::Claims {
        let Ok(file) = File::open(&source.path) else { return observations_toml::Claims::default() };
        let mut input = Input::new(Box::new(file), self.options);
        observations_toml::claims(&mut input, source.path.parent())
    }

    /// Merges captures among the inputs; one that cannot be read is an issue, and the last such error is returned.
    fn captures(&mut self, found: &[Found]) -> Option<IngestError> {
        let mut failed = None;
        for source in found.iter().filter(|source| source.is_capture) {
            match crate::captures::open(&source.path) {
                Ok(capture) => self.total.merge(capture),
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
            self.source(&planned);
        }
        for mut planned in floating {
            let run_idx = planned.context.run_idx;
            planned.context.reference = self.conclusions.reference(run_idx);
            planned.context.process_starts = self.conclusions.process_starts(run_idx);
            self.source(&planned);
        }
    }

    fn source(&mut self, planned: &Planned) {
        match File::open(&planned.found.path) {
            Ok(file) => {
                let mut input = Input::new(Box::new(file), self.options);
                let mut builder = Builder::new(&planned.found.name, planned.format.id, &planned.context);
                (planned.format.read)(&mut input, &mut builder);
                let finished = input.finish();
                self.progress.bytes_done += finished.byte_count;
                let built = builder.finish(&finished);
                self.refusals.extend(built.refusal.clone());
                merge(built, &mut self.total, &mut self.conclusions);
            }
            Err(error) => self.cannot_open(&planned.found, &error),
        }
        self.progress.sources_done += 1;
        self.report();
    }

    fn report(&self) {
        if let Some(progress) = self.options.progress {
            progress(self.progress);
        }
    }
}

/// Decides replica, time and class of every source from its name and its neighbors.
fn place(plan: &mut [Planned]) {
    let mut groups: BTreeMap<(u32, &'static str, String, String), Vec<usize>> = BTreeMap::new();
    for (at, planned) in plan.iter_mut().enumerate() {
        let naming = naming::of(&planned.found.name);
        let folder = planned.found.name.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_string());
        let is_load = matches!(planned.format.id, "vllm_bench_json" | "client_jsonl");
        planned.context.scrape_time = naming.time;
        if !is_load {
            planned.context.replica = naming.replica;
        }
        let base = if is_load { String::new() } else { naming.base };
        groups.entry((planned.context.run_idx, planned.format.id, folder, base)).or_default().push(at);
    }
    for ((_, format, ..), members) in groups {
        match format {
            "vllm_bench_json" | "client_jsonl" if members.len() > 1 => {
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
