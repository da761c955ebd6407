//! A client, and an engine whose counters are scraped: each scrape says how many requests had come and how many were
//! done. The latest of those that had come was sent before; the first of those not done was answered after.
//!
//! This holds for sorted times, whichever request is which, as long as the engine served this client alone; that is so
//! where its counters grew by exactly the client's requests between two idle moments.

use std::collections::{BTreeMap, BTreeSet};

use capture::{Capture, labels};

use super::fit::{self, Bounds, Line};
use super::span;

/// How far around a client's own times the scrapes are taken first; then all are.
const NEAR_NS: i64 = 10_000_000_000;
/// A client may see an answer this much before the engine's counters do.
const LAG_NS: i64 = 5_000_000;
/// How long a scrape takes where it is not told.
const TOOK_NS: i64 = 50_000_000;

/// What an engine said at one scrape.
#[derive(Clone, Copy, Debug, Default)]
struct Moment {
    t_ns: i64,
    took_ns: Option<i64>,
    running: Option<i64>,
    waiting: Option<i64>,
    finished: Option<i64>,
}

impl Moment {
    fn in_system(&self) -> i64 {
        self.running.unwrap_or(0) + self.waiting.unwrap_or(0)
    }
}

/// The line of the clock of the requests in `rows`, and how it was found.
pub(super) fn fit(capture: &Capture, run_idx: u32, rows: &[usize]) -> Result<(Line, String), String> {
    let span = span(capture, rows).ok_or("it has no requests")?;
    let moments = moments(capture, run_idx)?;
    let near = |moment: &&Moment| moment.t_ns >= span.0.saturating_sub(NEAR_NS) && moment.t_ns <= span.1.saturating_add(NEAR_NS);
    let beside: Vec<Moment> = moments.iter().filter(near).copied().collect();
    let stretch = stretch(&beside, rows.len()).or_else(|_| stretch(&moments, rows.len()))?;
    let line = fit::fit(&bounds(capture, rows, &stretch)?, span)?;
    Ok((line, format!("{} requests counted at {} scrapes of an engine that served nobody else", rows.len(), stretch.len())))
}

/// What the scrapes of a run say, in order.
fn moments(capture: &Capture, run_idx: u32) -> Result<Vec<Moment>, String> {
    let is_scraped: Vec<bool> = capture.manifest.sources.iter().map(|source| source.format.starts_with("prometheus_")).collect();
    let signals = ["engine.running", "engine.waiting", "engine.swapped", "server.finished", "server.scrape_time"];
    let known = signals.map(|signal| capture.names.find(signal));
    let mut by_time: BTreeMap<i64, Moment> = BTreeMap::new();
    let (mut replicas, mut checked) = (BTreeSet::new(), BTreeMap::new());
    let samples = &capture.tables.samples;
    for at in 0..samples.t_ns.len() {
        let is_own =
            samples.run_idx[at] == run_idx && is_scraped.get(samples.source_idx[at].0 as usize).is_some_and(|is_scraped| *is_scraped);
        let Some(signal) = known.iter().position(|name| *name == Some(samples.signal[at])).filter(|_| is_own) else { continue };
        let is_part = *checked.entry(samples.labels[at]).or_insert_with(|| {
            let pairs = labels::pairs(capture.text(samples.labels[at]));
            replicas.extend(pairs.iter().find(|(key, _)| key == "replica").map(|(_, value)| value.clone()));
            pairs.iter().any(|(key, _)| key == "reason")
        });
        if is_part {
            continue; // waiting by reason repeats what is waiting
        }
        let moment = by_time.entry(samples.t_ns[at]).or_insert(Moment { t_ns: samples.t_ns[at], ..Moment::default() });
        let value = samples.value[at];
        let slot = match signal {
            0 => &mut moment.running,
            1 | 2 => &mut moment.waiting,
            3 => &mut moment.finished,
            _ => {
                moment.took_ns = Some((value * 1e9) as i64);
                continue;
            }
        };
        *slot = Some(slot.unwrap_or(0).saturating_add(value.round() as i64));
    }
    match replicas.len() {
        0 => return Err("no scrapes count its requests".to_string()),
        1 => {}
        many => return Err(format!("its requests are spread over {many} servers, scraped at different times")),
    }
    let told = |moment: &Moment| moment.running.is_some() && moment.finished.is_some();
    Ok(by_time.into_values().filter(told).collect())
}

/// The scrapes between two idle moments of which the counters grew by `count`, finished requests counted from the first.
fn stretch(moments: &[Moment], count: usize) -> Result<Vec<Moment>, String> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let idle = |base: i64| moments.iter().find(|moment| moment.in_system() == 0 && moment.finished == Some(base));
    let mut found: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for end in moments.iter().filter(|moment| moment.in_system() == 0) {
        let base = end.finished.unwrap_or(0) - count;
        if let Some(start) = idle(base).filter(|start| start.t_ns < end.t_ns) {
            found.insert(base, (start.t_ns, end.t_ns));
        }
    }
    let Some((&base, &(start, end))) = found.first_key_value().filter(|_| found.len() == 1) else {
        return Err(if found.is_empty() {
            format!("the engine's counters never grew by its {count} requests from one idle scrape to another")
        } else {
            format!("the engine's counters grew by {count} requests more than once")
        });
    };
    let within = moments.iter().filter(|moment| (start..=end).contains(&moment.t_ns)).copied();
    let stretch: Vec<Moment> =
        within.map(|moment| Moment { finished: moment.finished.map(|finished| finished - base), ..moment }).collect();
    let is_growing = stretch.windows(2).all(|pair| pair[0].finished <= pair[1].finished);
    if is_growing { Ok(stretch) } else { Err("the engine was restarted meanwhile".to_string()) }
}

fn bounds(capture: &Capture, rows: &[usize], stretch: &[Moment]) -> Result<Bounds, String> {
    let requests = &capture.tables.requests;
    let mut sent: Vec<i64> = rows.iter().map(|&at| requests.t_sent_ns[at]).collect();
    let mut done: Vec<i64> = rows.iter().filter_map(|&at| requests.t_done_ns[at]).collect();
    sent.sort_unstable();
    done.sort_unstable();
    if done.len() != sent.len() {
        return Err(format!("it does not say when {} of its requests ended", sent.len() - done.len()));
    }
    let mut bounds = Bounds::default();
    for moment in stretch {
        let finished = moment.finished.unwrap_or(0).max(0);
        let come = finished + moment.in_system();
        if let Some(&latest) = usize::try_from(come - 1).ok().and_then(|at| sent.get(at)) {
            let read_by = moment.t_ns.saturating_add(moment.took_ns.unwrap_or(TOOK_NS));
            bounds.upper.push((latest, read_by.saturating_sub(latest)));
        }
        if let Some(&next) = usize::try_from(finished).ok().and_then(|at| done.get(at)) {
            bounds.lower.push((next, moment.t_ns.saturating_sub(LAG_NS).saturating_sub(next)));
        }
    }
    Ok(bounds)
}
