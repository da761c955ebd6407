//! Samples that a Prometheus server stored, as its HTTP API hands them out, become the same rows as scrapes.
//!
//! `live` asks and hands the answers over; here they are read without holding a document, told apart by the target they
//! were scraped from, and replayed scrape by scrape through the reader of metrics text. A target that serves no engine
//! is left out: every exporter has a `process_start_time_seconds`.

mod answer;
mod names;
mod replica;

use std::collections::BTreeMap;

use capture::{Capture, Severity};
use hashbrown::HashMap;

pub use answer::AnswerError;
pub use names::{StoredNames, read_names};

use crate::builder::{Builder, Context};
use crate::formats::prometheus_text::{self, StoredScrapes};
use crate::input::{ContentHash, Finished};
use crate::naming;

/// Most samples held, of all targets together.
const MAX_SAMPLES: usize = 20_000_000;
/// Most series held, of all targets together.
const MAX_SERIES: usize = 500_000;
/// Kept of what a server says in words.
const MAX_WORDS: usize = 300;

/// Labels that say where a series was scraped, from the widest to the narrowest.
const TARGET_LABELS: [&str; 5] = ["cluster", "namespace", "job", "pod", "instance"];

/// Where a series was scraped: values of [`TARGET_LABELS`].
type TargetKey = [String; TARGET_LABELS.len()];

/// Samples of one window, gathered answer by answer.
pub struct Stored {
    name: String,
    targets: BTreeMap<TargetKey, Target>,
    /// Samples outside of it are not taken: after the first, up to the second.
    slice_ns: (i64, i64),
    series_count: usize,
    sample_count: usize,
    native_histograms: i64,
    warnings: BTreeMap<String, i64>,
    unmapped: usize,
}

/// What was scraped at one place.
#[derive(Default)]
struct Target {
    series: Vec<String>,
    index: HashMap<String, u32>,
    /// Time, index into `series`, value.
    samples: Vec<(i64, u32, f64)>,
    /// Time and seconds of scrapes.
    took: Vec<(i64, f64)>,
    failed_count: i64,
    has_engine: bool,
}

impl Stored {
    /// Nothing yet. `name` is the server's address, shown without credentials.
    pub fn new(name: &str) -> Self {
        Self {
            name: naming::source_name(name),
            targets: BTreeMap::new(),
            slice_ns: (i64::MIN, i64::MAX),
            series_count: 0,
            sample_count: 0,
            native_histograms: 0,
            warnings: BTreeMap::new(),
            unmapped: 0,
        }
    }

    /// Says which slice of time the next answers are about, ns: samples after `from_ns`, up to `to_ns`. Whether a server
    /// hands out the sample at the very start of a range depends on its version.
    pub fn begin_slice(&mut self, from_ns: i64, to_ns: i64) {
        self.slice_ns = (from_ns, to_ns);
    }

    /// Notes how many names of an engine's metrics have no signal here.
    pub fn note_unmapped(&mut self, count: usize) {
        self.unmapped = count;
    }

    /// Reads one answer of `query` or `query_range`; gives the number of samples taken. An answer that ends early leaves
    /// nothing behind.
    ///
    /// # Errors
    /// When the answer says so, is something else, or holds more than is kept.
    pub fn add(&mut self, body: &[u8]) -> Result<usize, AnswerError> {
        let answer = answer::read(body)?;
        let before = self.sample_count;
        for warning in answer.warnings {
            *self.warnings.entry(warning).or_default() += 1;
        }
        self.native_histograms += answer.native_histograms;
        for series in answer.series {
            self.add_series(series)?;
        }
        Ok(self.sample_count - before)
    }

    /// Samples held.
    pub fn sample_count(&self) -> usize {
        self.sample_count
    }

    /// Values of the label `instance` of targets that serve an engine, in order.
    pub fn engine_instances(&self) -> Vec<&str> {
        let engines = self.targets.iter().filter(|(_, target)| target.has_engine);
        let mut instances: Vec<&str> = engines.map(|(key, _)| key[TARGET_LABELS.len() - 1].as_str()).collect();
        instances.sort_unstable();
        instances.dedup();
        instances
    }

    fn add_series(&mut self, mut series: answer::AnswerSeries) -> Result<(), AnswerError> {
        let (from_ns, to_ns) = self.slice_ns;
        let mut taken = std::mem::take(&mut series.values);
        taken.retain(|(t_ns, _)| *t_ns > from_ns && *t_ns <= to_ns);
        if taken.is_empty() {
            return Ok(());
        }
        self.sample_count += taken.len();
        if self.sample_count > MAX_SAMPLES {
            return Err(AnswerError::TooMany { what: "samples", limit: MAX_SAMPLES });
        }
        let key = TARGET_LABELS.map(|label| series.label(label).to_string());
        let target = self.targets.entry(key).or_default();
        match series.name.as_str() {
            "up" => target.failed_count += i64::try_from(taken.iter().filter(|(_, value)| *value == 0.0).count()).unwrap_or(i64::MAX),
            "scrape_duration_seconds" => target.took.extend(taken),
            name => {
                target.has_engine |= names::is_of_engine(name);
                let text = series.text();
                let next = target.series.len() as u32;
                let at = *target.index.entry(text).or_insert_with_key(|text| {
                    target.series.push(text.clone());
                    next
                });
                self.series_count += usize::from(at == next);
                if self.series_count > MAX_SERIES {
                    return Err(AnswerError::TooMany { what: "series", limit: MAX_SERIES });
                }
                target.samples.extend(taken.into_iter().map(|(t_ns, value)| (t_ns, at, value)));
            }
        }
        Ok(())
    }

    /// The capture of what was gathered, one source per target.
    pub fn finish(self) -> Capture {
        let engines: Vec<(TargetKey, Target)> = self.targets.into_iter().filter(|(_, target)| target.has_engine).collect();
        let keys: Vec<&TargetKey> = engines.iter().map(|(key, _)| key).collect();
        let replicas = replica::of(&keys);
        let mut sources = Vec::new();
        for (at, ((key, target), replica)) in engines.into_iter().zip(replicas).enumerate() {
            let context = Context { replica, ..Context::default() };
            let name = format!("{} {}", self.name, replica::place(&key));
            let mut builder = Builder::new(name.trim_end(), "prometheus_api", &context);
            if at == 0 {
                tell(&self.warnings, self.native_histograms, self.unmapped, &mut builder);
            }
            let finished = target.replay(&mut builder);
            sources.push(builder.finish(&finished));
        }
        crate::read::conclude(sources)
    }
}

/// Writes what concerns all targets into the first.
fn tell(warnings: &BTreeMap<String, i64>, native_histograms: i64, unmapped: usize, builder: &mut Builder<'_>) {
    for (words, count) in warnings.iter().take(8) {
        let words: String = crate::secrets::redact(words).chars().take(MAX_WORDS).collect();
        builder.issue(Severity::Warning, "server_warning", "", *count, format!("the server warned: {words}"));
    }
    if native_histograms > 0 {
        let sentence = "expected histograms with a series per bucket, found native ones; they are left out";
        builder.issue(Severity::Warning, "native_histogram", "", native_histograms, sentence);
    }
    if unmapped > 0 {
        builder.issue(Severity::Note, "unmapped_families", "", unmapped, "metric names of an engine without a signal here, left out");
    }
}

impl Target {
    /// Numbers the series by their text: the order of answers must not matter.
    fn sort_series(&mut self) {
        let mut order: Vec<u32> = (0..self.series.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| self.series[a as usize].cmp(&self.series[b as usize]));
        let mut place = vec![0; order.len()];
        for (new, &old) in (0u32..).zip(&order) {
            place[old as usize] = new;
        }
        self.samples.iter_mut().for_each(|(_, series, _)| *series = place[*series as usize]);
        self.series = order.iter().map(|&old| std::mem::take(&mut self.series[old as usize])).collect();
    }

    fn replay(mut self, builder: &mut Builder<'_>) -> Finished {
        self.sort_series();
        // A time of a series comes twice where slices touch or an answer repeats itself.
        self.samples.sort_by_key(|(t_ns, series, _)| (*t_ns, *series));
        self.samples.dedup_by_key(|(t_ns, series, _)| (*t_ns, *series));
        self.took.sort_by_key(|(t_ns, _)| *t_ns);
        self.took.dedup_by_key(|(t_ns, _)| *t_ns);
        let mut content = ContentHash::default();
        self.series.iter().for_each(|text| content.update(text.as_bytes()));
        for (t_ns, series, value) in &self.samples {
            content.update(&t_ns.to_le_bytes());
            content.update(&series.to_le_bytes());
            content.update(&value.to_bits().to_le_bytes());
        }
        let byte_count = (self.samples.len() * size_of::<(i64, u32, f64)>()) as u64;
        let scrapes = StoredScrapes { series: self.series, samples: self.samples, took: self.took, failed_count: self.failed_count };
        prometheus_text::read_stored(scrapes, builder);
        let hash = content.finish();
        Finished { content_hash: hash.clone(), hash, byte_count, damage: None, long_lines: None }
    }
}

#[cfg(test)]
mod tests;
