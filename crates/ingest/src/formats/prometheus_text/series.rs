//! The series of a source: each distinct text is parsed once and becomes a target.

use std::collections::{BTreeMap, BTreeSet};

use capture::Severity;
use hashbrown::{HashMap, HashSet};

use crate::builder::Builder;
use crate::engines::metric::{Metric, SeriesLabels, Shape};
use crate::engines::{ENGINES, Engine, dcgm, web};

use super::rows::Rows;

/// Most distinct series of one source; beyond it new ones are not looked at.
const MAX_SERIES: usize = 200_000;

/// Where the values of a series go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// No signal.
    Skip,
    /// A gauge or counter.
    Scalar(u32),
    /// Two gauges or counters.
    Both(u32, u32),
    /// A bucket of a histogram.
    Bucket(u32, u32),
    /// Sum of a histogram.
    Sum(u32),
    /// Count of a histogram.
    Count(u32),
    /// A creation time: a change is a restart.
    Created(u32),
    /// Settings in labels: constant values.
    Info(u32),
}

struct Series {
    text: Box<[u8]>,
    target: Target,
    /// Scrape in which it was seen last, and its value there.
    seen: u32,
    value: f64,
}

/// See the module.
#[derive(Default)]
pub(super) struct Catalog {
    series: Vec<Series>,
    index: HashMap<Box<[u8]>, u32>,
    types: HashMap<Box<[u8]>, Box<str>>,
    /// Series of engines with rank labels, without those labels.
    ranks: HashSet<Box<str>>,
    unmapped: BTreeSet<String>,
    mapped: BTreeSet<String>,
    conflicts: BTreeMap<String, String>,
    scrape: u32,
    duplicates: i64,
    too_many: i64,
}

impl Catalog {
    pub(super) fn text(&self, series: u32) -> &[u8] {
        &self.series[series as usize].text
    }

    pub(super) fn target(&self, series: u32) -> Target {
        self.series[series as usize].target
    }

    pub(super) fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Starts the next scrape.
    pub(super) fn next_scrape(&mut self) {
        self.scrape += 1;
    }

    /// Notes the value of a series in this scrape; the value it had there before if it is a duplicate.
    pub(super) fn note(&mut self, series: u32, value: f64) -> Option<f64> {
        let mark = self.scrape + 1;
        let entry = &mut self.series[series as usize];
        let before = (entry.seen == mark).then_some(entry.value);
        (entry.seen, entry.value) = (mark, value);
        self.duplicates += i64::from(before.is_some());
        before
    }

    /// Keeps a `# TYPE` line: `name type`.
    pub(super) fn declare(&mut self, rest: &[u8]) {
        let Some(space) = rest.iter().position(|byte| *byte == b' ') else { return };
        let name = &rest[..space];
        if !self.types.contains_key(name) && self.types.len() < MAX_SERIES {
            let kind = String::from_utf8_lossy(rest[space..].trim_ascii()).into_owned();
            self.types.insert(name.into(), kind.into());
        }
    }

    /// The series with this text, added if it is new.
    pub(super) fn find_or_add(&mut self, text: &[u8], rows: &mut Rows, builder: &mut Builder<'_>) -> u32 {
        if let Some(&known) = self.index.get(text) {
            return known;
        }
        if self.series.len() >= MAX_SERIES {
            self.too_many += 1;
            return self.overflow();
        }
        let target = self.resolve(text, rows, builder);
        let id = self.series.len() as u32;
        self.series.push(Series { text: text.into(), target, seen: 0, value: 0.0 });
        self.index.insert(text.into(), id);
        id
    }

    /// The series that stands for all beyond the limit: the last one, made a series of nothing.
    fn overflow(&mut self) -> u32 {
        let last = self.series.len() - 1;
        self.series[last].target = Target::Skip;
        last as u32
    }

    fn resolve(&mut self, text: &[u8], rows: &mut Rows, builder: &mut Builder<'_>) -> Target {
        let text = String::from_utf8_lossy(text).into_owned();
        let (name, labels) = split_labels(&text);
        let family = self.family(name);
        for engine in ENGINES {
            let Some(bare) = engine.prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)) else { continue };
            rows.saw_engine(engine, builder);
            if self.repeats_a_rank(engine, name, &labels) {
                self.mapped.insert(family);
                return Target::Skip;
            }
            if let Some(info) = (engine.info)(bare, &labels) {
                return rows.info(engine, &info, &labels, builder);
            }
            if let Some(target) = self.map(engine.metrics, bare, &family, engine, &labels, rows, builder) {
                return target;
            }
            self.unmapped(&family, name);
            return Target::Skip;
        }
        let engine = &ENGINES[0];
        let device_name = dcgm::upper_name(name);
        for (metrics, name) in [(web::METRICS, name), (dcgm::METRICS, device_name.as_ref())] {
            if let Some(target) = self.map(metrics, name, &family, engine, &labels, rows, builder) {
                return target;
            }
        }
        self.unmapped(&family, name);
        Target::Skip
    }

    /// True when a series that differs only in its rank was seen before: both tell the same.
    fn repeats_a_rank(&mut self, engine: &Engine, name: &str, labels: &SeriesLabels) -> bool {
        let is_rank = |key: &str| engine.rank_labels.contains(&key);
        if !labels.iter().any(|(key, _)| is_rank(key)) {
            return false;
        }
        let mut key = name.to_string();
        for (label, value) in labels.iter().filter(|(label, _)| !is_rank(label)) {
            key.extend(["\0", label, "\0", value]);
        }
        !self.ranks.insert(key.into())
    }

    fn unmapped(&mut self, family: &str, name: &str) {
        if !name.ends_with("_created") {
            self.unmapped.insert(family.to_string());
        }
    }

    /// The family of a sample name, by the declared types first and by suffix otherwise.
    fn family(&self, name: &str) -> String {
        let declared = |name: &str| self.types.contains_key(name.as_bytes());
        if declared(name) {
            return name.to_string();
        }
        let stems = ["_bucket", "_count", "_sum", "_total", "_created", "_info"].iter().filter_map(|suffix| name.strip_suffix(suffix));
        let stems: Vec<&str> = stems.collect();
        stems.iter().copied().find(|stem| declared(stem)).or(stems.first().copied()).unwrap_or(name).to_string()
    }

    #[expect(clippy::too_many_arguments, reason = "one call site per list; a struct would only rename the arguments")]
    fn map(
        &mut self,
        metrics: &[Metric],
        name: &str,
        family: &str,
        engine: &Engine,
        labels: &SeriesLabels,
        rows: &mut Rows,
        builder: &mut Builder<'_>,
    ) -> Option<Target> {
        for metric in metrics {
            let Some(part) = part_of(metric, name) else { continue };
            if !(metric.only)(labels) {
                continue;
            }
            self.check_type(metric, family);
            self.mapped.insert(family.to_string());
            return Some(match part {
                Part::Value => rows.scalar(metric, engine, labels, builder),
                Part::Bucket => rows.bucket(metric, engine, labels, builder),
                Part::Sum => Target::Sum(rows.histogram(metric, engine, labels, builder)),
                Part::Count => Target::Count(rows.histogram(metric, engine, labels, builder)),
                Part::Created => rows.created(),
            });
        }
        None
    }

    fn check_type(&mut self, metric: &Metric, family: &str) {
        let Some(declared) = self.types.get(family.as_bytes()) else { return };
        let agrees = match metric.shape {
            Shape::Gauge | Shape::Counter => matches!(&**declared, "gauge" | "counter" | "unknown" | "untyped"),
            Shape::Histogram => matches!(&**declared, "histogram" | "unknown" | "untyped" | "gauge"),
        };
        if !agrees {
            self.conflicts.insert(family.to_string(), declared.to_string());
        }
    }

    /// Writes what is to be said about the source as a whole.
    pub(super) fn report(&mut self, builder: &mut Builder<'_>) {
        // A family of which some series have a signal (completions among all paths) is not left out.
        self.unmapped.retain(|family| !self.mapped.contains(family));
        builder.source_row().unmapped_count = self.unmapped.len() as u64;
        if !self.unmapped.is_empty() {
            let shown: Vec<&str> = self.unmapped.iter().take(60).map(String::as_str).collect();
            let more = if self.unmapped.len() > shown.len() { ", ..." } else { "" };
            let sentence = format!("metric families without a signal here, left out: {}{more}", shown.join(", "));
            builder.issue(Severity::Note, "unmapped_families", "", self.unmapped.len(), sentence);
        }
        let (duplicates, too_many) = (std::mem::take(&mut self.duplicates), std::mem::take(&mut self.too_many));
        if duplicates > 0 {
            let sentence = "expected each series once per scrape, found some again; the last value counts";
            builder.issue(Severity::Warning, "duplicate_series", "", duplicates, sentence);
        }
        if too_many > 0 {
            let sentence = format!("expected at most {MAX_SERIES} series, found more; the rest is left out");
            builder.issue(Severity::Warning, "too_many_series", "", too_many, sentence);
        }
        for (family, declared) in &self.conflicts {
            let sentence = format!("`{family}` is declared as `{declared}`, which is not what this engine exports; it is read by its name");
            builder.issue(Severity::Note, "type_conflict", family, 1, sentence);
        }
    }
}

enum Part {
    Value,
    Bucket,
    Sum,
    Count,
    Created,
}

/// True when a sample name belongs to the metric's family.
pub(crate) fn is_part_of(metric: &Metric, name: &str) -> bool {
    part_of(metric, name).is_some()
}

/// Which part of the metric's family a sample name is.
fn part_of(metric: &Metric, name: &str) -> Option<Part> {
    let rest = name.strip_prefix(metric.name)?;
    match (metric.shape, rest) {
        (Shape::Gauge, "") | (Shape::Counter, "" | "_total") => Some(Part::Value),
        (Shape::Histogram, "_bucket") => Some(Part::Bucket),
        (Shape::Histogram, "_sum") => Some(Part::Sum),
        (Shape::Histogram, "_count") => Some(Part::Count),
        (Shape::Counter | Shape::Histogram, "_created") => Some(Part::Created),
        _ => None,
    }
}

/// Splits series text into its name and its labels.
pub(super) fn split_labels(text: &str) -> (&str, Vec<(String, String)>) {
    let Some((name, rest)) = text.split_once('{') else { return (text, Vec::new()) };
    let mut labels = Vec::new();
    let mut rest = rest.strip_suffix('}').unwrap_or(rest);
    while let Some((key, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut end = after.len();
        let mut escaped = false;
        for (at, character) in after.char_indices() {
            match (escaped, character) {
                (true, 'n') => value.push('\n'),
                (false, '\\') => {
                    escaped = true;
                    continue;
                }
                (false, '"') => {
                    end = at + 1;
                    break;
                }
                (_, other) => value.push(other),
            }
            escaped = false;
        }
        labels.push((key.trim_matches([',', ' ']).to_string(), value));
        rest = &after[end..];
    }
    (name, labels)
}
