//! One server known by two names: its log, which says no address, and its scrapes, which are named by theirs.
//!
//! Where a run has the scrapes of one replica and the logs of one, their times overlap and nothing they state of the engine
//! differs, the log is that replica's. With more of either nobody can say which log is whose, and all stay apart.

use std::collections::{BTreeMap, BTreeSet};

use capture::{Capture, Name, SourceIdx, labels};

use crate::captures::EARLIEST_NS;
use crate::replicas::with_replica;

/// Capacities that differ by more are of two engines; a log rounds, and a scrape may leave the null block out.
const SAME_CAPACITY: f64 = 0.02;
/// A log that says nothing after its start-up belongs to a process that started within this of it.
const START_UP_NS: i64 = 120_000_000_000;

/// What one kind of source says of the replicas of a run.
#[derive(Default)]
struct Told {
    replicas: BTreeSet<String>,
    span: Option<(i64, i64)>,
    capacity: Option<f64>,
    start_ns: Option<i64>,
}

impl Told {
    fn only(&self) -> Option<&String> {
        self.replicas.iter().next().filter(|_| self.replicas.len() == 1)
    }
}

/// Gives logs the replica of the scrapes where they can only be of one server.
pub(crate) fn join(capture: &mut Capture) {
    let is_of = |ending: fn(&str) -> bool| -> Vec<bool> { capture.manifest.sources.iter().map(|source| ending(&source.format)).collect() };
    let is_log = is_of(|format| format.ends_with("_log"));
    let is_scrape = is_of(|format| format.starts_with("prometheus_"));
    if !is_log.contains(&true) || !is_scrape.contains(&true) {
        return;
    }
    let logged = told(capture, &is_log);
    let scraped = told(capture, &is_scrape);
    for (run_idx, log) in &logged {
        let Some((from, scrape)) = log.only().zip(scraped.get(run_idx)) else { continue };
        let Some(to) = scrape.only().filter(|to| *to != from && is_one(log, scrape)) else { continue };
        rename(capture, *run_idx, (from, to), &is_log);
    }
}

fn told(capture: &Capture, is_wanted: &[bool]) -> BTreeMap<u32, Told> {
    let samples = &capture.tables.samples;
    let signal = |name: &str| capture.names.find(name);
    let (running, capacity, start) = (signal("engine.running"), signal("kv.capacity"), signal("server.start_time"));
    let mut found: BTreeMap<u32, Told> = BTreeMap::new();
    for at in 0..samples.t_ns.len() {
        let name = Some(samples.signal[at]);
        let is_of_engine = name == running || name == capacity;
        if !(is_of_engine || name == start) || !is_wanted.get(samples.source_idx[at].0 as usize).is_some_and(|wanted| *wanted) {
            continue;
        }
        let told = found.entry(samples.run_idx[at]).or_default();
        if name == start {
            told.start_ns = Some((samples.value[at] * 1e9) as i64);
            continue;
        }
        if name == capacity {
            told.capacity = Some(samples.value[at]);
        }
        told.replicas.insert(labels::get(capture.text(samples.labels[at]), "replica").unwrap_or_default());
        let t_ns = samples.t_ns[at];
        if t_ns >= EARLIEST_NS {
            let span = told.span.unwrap_or((t_ns, t_ns));
            told.span = Some((span.0.min(t_ns), span.1.max(t_ns)));
        }
    }
    found
}

fn is_one(log: &Told, scrape: &Told) -> bool {
    let Some((log_span, scrape_span)) = log.span.zip(scrape.span) else { return false };
    let overlaps = log_span.0 <= scrape_span.1 && scrape_span.0 <= log_span.1;
    let is_its_start = scrape.start_ns.is_some_and(|start| (log_span.0 - start).abs() <= START_UP_NS && log_span.1 <= scrape_span.1);
    let same = log.capacity.zip(scrape.capacity).is_none_or(|(log, scrape)| (log - scrape).abs() <= SAME_CAPACITY * scrape.abs());
    (overlaps || is_its_start) && same
}

fn rename(capture: &mut Capture, run_idx: u32, (from, to): (&str, &str), is_log: &[bool]) {
    let own = |runs: &[u32], sources: &[SourceIdx]| -> Vec<usize> {
        let is_theirs = |source: SourceIdx| is_log.get(source.0 as usize).is_some_and(|log| *log);
        (0..runs.len()).filter(|&at| runs[at] == run_idx && is_theirs(sources[at])).collect()
    };
    let (samples, histograms) = (&capture.tables.samples, &capture.tables.histograms);
    let (of_samples, of_histograms) = (own(&samples.run_idx, &samples.source_idx), own(&histograms.run_idx, &histograms.source_idx));
    let sampled = of_samples.iter().map(|&at| samples.labels[at]);
    let used: BTreeSet<Name> = sampled.chain(of_histograms.iter().map(|&at| histograms.labels[at])).collect();
    let mut renamed: BTreeMap<Name, Name> = BTreeMap::new();
    for name in used {
        if labels::get(capture.text(name), "replica").as_deref() == Some(from) {
            renamed.insert(name, with_replica(capture, name, to));
        }
    }
    let replica = BTreeMap::from([(capture.intern(from), capture.intern(to))]);
    let tables = &mut capture.tables;
    let of_settings = own(&tables.settings.run_idx, &tables.settings.source_idx);
    let of_logs = own(&tables.logs.run_idx, &tables.logs.source_idx);
    for (column, rows, names) in [
        (&mut tables.samples.labels, of_samples, &renamed),
        (&mut tables.histograms.labels, of_histograms, &renamed),
        (&mut tables.settings.replica, of_settings, &replica),
        (&mut tables.logs.replica, of_logs, &replica),
    ] {
        for at in rows {
            column[at] = names.get(&column[at]).copied().unwrap_or(column[at]);
        }
    }
}
