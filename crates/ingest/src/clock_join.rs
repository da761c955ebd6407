//! Brings requests seen by another clock to the host clock, and says how well.
//!
//! A load client runs on another machine, or stamps its rows with a clock of its own. What it saw is compared with what
//! a gateway saw of the same requests (`requests.rs`), else with what the engine's counters say at each scrape
//! (`counts.rs`); both give bounds, and `fit.rs` the line between the clocks. Where nothing can be compared it is told:
//! a clock that covers the same time is taken as the host clock, one that does not is left apart.

mod counts;
pub(crate) mod fit;
mod requests;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use capture::tables::{ColumnMut, ColumnRef, TableVisitor};
use capture::{Capture, ClockAlignment, Name, Severity, SourceIdx, Table};

use fit::Line;

/// Error of a clock of which nothing is known: no number of seconds bounds it.
const UNKNOWN_ERROR_NS: i64 = 2_000_000_000_000_000_000;

/// A run and what its request sources hold.
#[derive(Default)]
struct Seen {
    clients: BTreeMap<SourceIdx, Vec<usize>>,
    gateways: BTreeMap<SourceIdx, Vec<usize>>,
}

/// Joins the clocks of request sources that were read just now. Returns those whose rows moved, with their lines.
pub(crate) fn join(capture: &mut Capture, read_now: &BTreeSet<SourceIdx>) -> Vec<(SourceIdx, Line)> {
    let mut moved = Vec::new();
    for (run_idx, seen) in seen(capture) {
        for (&gateway, rows) in seen.gateways.iter().filter(|(source, _)| read_now.contains(source)) {
            let outcome = if seen.gateways.len() == 1 { counts::fit(capture, run_idx, rows) } else { Err("several gateways".to_string()) };
            settle(capture, run_idx, gateway, rows, &[], outcome, &mut moved);
        }
        let only_gateway: &[usize] = if seen.gateways.len() == 1 { seen.gateways.values().next().map_or(&[], Vec::as_slice) } else { &[] };
        for (&client, rows) in seen.clients.iter().filter(|(source, _)| read_now.contains(source)) {
            let by_gateway = if only_gateway.is_empty() {
                Err("no gateway saw its requests".to_string())
            } else {
                requests::fit(capture, rows, only_gateway, seen.clients.len() == 1)
            };
            let outcome = by_gateway.or_else(|first| counts::fit(capture, run_idx, rows).map_err(|second| format!("{first}; {second}")));
            settle(capture, run_idx, client, rows, only_gateway, outcome, &mut moved);
        }
    }
    moved
}

fn seen(capture: &Capture) -> BTreeMap<u32, Seen> {
    let requests = &capture.tables.requests;
    let (client, gateway) = (capture.names.find("client"), capture.names.find("gateway"));
    let mut runs: BTreeMap<u32, Seen> = BTreeMap::new();
    for at in 0..requests.t_sent_ns.len() {
        let seen = runs.entry(requests.run_idx[at]).or_default();
        let vantage: Option<Name> = Some(requests.vantage[at]);
        if vantage == client {
            seen.clients.entry(requests.source_idx[at]).or_default().push(at);
        } else if vantage == gateway {
            seen.gateways.entry(requests.source_idx[at]).or_default().push(at);
        }
    }
    runs
}

/// First and last moment of some requests, by their own clock.
fn span(capture: &Capture, rows: &[usize]) -> Option<(i64, i64)> {
    let requests = &capture.tables.requests;
    let times = rows.iter().flat_map(|&at| [Some(requests.t_sent_ns[at]), requests.t_done_ns[at]]).flatten();
    times.fold(None, |span: Option<(i64, i64)>, t| Some(span.map_or((t, t), |(from, to)| (from.min(t), to.max(t)))))
}

/// Moves the rows of a source by its line, and writes down how; or writes down why there is no line.
fn settle(
    capture: &mut Capture,
    run_idx: u32,
    source: SourceIdx,
    rows: &[usize],
    gateway: &[usize],
    outcome: Result<(Line, String), String>,
    moved: &mut Vec<(SourceIdx, Line)>,
) {
    let name = capture.manifest.sources.get(source.0 as usize).map(|source| source.name.clone()).unwrap_or_default();
    let known = capture.manifest.clocks.iter().position(|clock| clock.source == name);
    match outcome {
        Ok((line, method)) => {
            let mut clock = ClockAlignment { source: name, domain: "unix".to_string(), ..ClockAlignment::default() };
            if let Some(at) = known {
                clock = capture.manifest.clocks.remove(at);
            }
            if clock.error_ns != 0 && clock.error_ns <= line.error_ns {
                capture.manifest.clocks.push(clock);
                return;
            }
            clock.reference_ns = line.reference_ns.saturating_sub(clock.offset_ns);
            clock.error_ns = line.error_ns;
            clock.method = method;
            if !line.is_same {
                let Ok(()) = capture.tables.visit(&mut Move { source, line: &line });
                clock.offset_ns = clock.offset_ns.saturating_add(line.offset_ns);
                clock.drift_ppb = line.drift_ppb;
                moved.push((source, line));
            }
            capture.manifest.clocks.push(clock);
        }
        Err(_) if known.is_some() => {}
        Err(why) => tell(capture, run_idx, &name, rows, gateway, &why),
    }
}

/// Says that a clock was not joined, if there is anything it should have been joined to.
fn tell(capture: &mut Capture, run_idx: u32, name: &str, rows: &[usize], gateway: &[usize], why: &str) {
    let (scraped, _) = crate::captures::clock_facts(capture, run_idx);
    let others = [scraped, span(capture, gateway)].into_iter().flatten();
    let Some(others) = others.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else { return };
    let Some(own) = span(capture, rows) else { return };
    if own.0 <= others.1 && own.1 >= others.0 {
        // A gateway mostly runs beside the servers; only a client's clock is doubtful.
        if capture.tables.requests.vantage.get(rows[0]).copied() == capture.names.find("gateway") {
            return;
        }
        let sentence = format!("its clock is not joined to the others', which it is taken to agree with: {why}");
        capture.add_issue(Severity::Note, "clock_not_joined", name, "", 1, &sentence);
        return;
    }
    let sentence = format!(
        "expected times in common with the other sources, found none, and its clock is not joined: {why}; its durations and counts are used, \
         its moments are not"
    );
    capture.add_issue(Severity::Warning, "clock_not_joined", name, "", 1, &sentence);
    capture.manifest.clocks.push(ClockAlignment {
        source: name.to_string(),
        domain: "unknown".to_string(),
        error_ns: UNKNOWN_ERROR_NS,
        method: format!("not joined: {why}"),
        ..ClockAlignment::default()
    });
}

/// Moves every time of a source.
struct Move<'a> {
    source: SourceIdx,
    line: &'a Line,
}

impl TableVisitor for Move<'_> {
    type Error = Infallible;

    fn visit<T: Table>(&mut self, table: &mut T) -> Result<(), Infallible> {
        let is_own = table.columns().into_iter().find_map(|(_, column)| match column {
            ColumnRef::Source(sources) => Some(sources.iter().map(|source| source == self.source).collect::<Vec<bool>>()),
            _ => None,
        });
        let Some(is_own) = is_own.filter(|is_own| is_own.contains(&true)) else { return Ok(()) };
        for (name, column) in table.columns_mut() {
            if !(name.starts_with("t_") && name.ends_with("_ns")) {
                continue;
            }
            match column {
                ColumnMut::I64(times) => {
                    // 0 stands for "no time told".
                    let own = times.iter_mut().zip(&is_own).filter(|(time, is_own)| **is_own && **time != 0);
                    own.for_each(|(time, _)| *time = self.line.host_ns(*time));
                }
                ColumnMut::OptI64(times) => {
                    let own = times.iter_mut().zip(&is_own).filter(|(_, is_own)| **is_own);
                    own.filter_map(|(time, _)| time.as_mut()).for_each(|time| *time = self.line.host_ns(*time));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
