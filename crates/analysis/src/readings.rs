//! What the evidence says of a quantity, whoever says it: a scrape, a log line, a typed figure, a row of a sweep.

use crate::evidence::{Evidence, Point, Series};
use crate::situation::Situation;

/// Largest value of a gauge: over the engines' series, else typed.
pub fn peak(evidence: &Evidence, name: &str) -> Option<f64> {
    let scraped = evidence.engines.values().filter_map(|engine| engine.series(name)).map(Series::max).reduce(f64::max);
    scraped.into_iter().chain(evidence.figures.highest(name)).reduce(f64::max)
}

/// Growth of a counter in the window, else as typed.
pub fn counted(evidence: &Evidence, name: &str) -> Option<f64> {
    evidence.growth(name).or_else(|| evidence.figures.anywhere(name))
}

/// Requests preempted, and requests finished meanwhile (0 where nobody tells): counters, as typed of the run, of the row of a
/// sweep with the most, or both per second.
pub fn preemptions(situation: &Situation<'_>) -> Option<(f64, f64)> {
    const NAME: &str = "kv.preemptions";
    let evidence = situation.evidence;
    let finished = situation.load.finished_or_typed(evidence);
    // Some lines of a log count less than the whole run; what was typed beside them says more.
    let typed = evidence.figures.typical(NAME).filter(|_| !evidence.has_timeline());
    if let Some(preempted) = evidence.growth(NAME).into_iter().chain(typed).reduce(f64::max) {
        return Some((preempted, finished));
    }
    let row = |point: &Point| Some((point.typical(NAME)?, point.typical("client.completed").unwrap_or(finished)));
    let per_s =
        || Some((evidence.figures.get("kv.preemptions.rate")?, evidence.figures.anywhere("client.throughput.requests").unwrap_or(0.0)));
    evidence.figures.points().filter_map(row).max_by(|a, b| a.0.total_cmp(&b.0)).or_else(per_s)
}

/// Mean of a histogram, else the typical figure typed anywhere.
pub fn typical(evidence: &Evidence, name: &str) -> Option<f64> {
    evidence.mean(name).or_else(|| evidence.figures.anywhere(name))
}

/// Tokens a request holds when it ends: prompt and output, where both or the prompt alone are known.
pub fn tokens_per_request(situation: &Situation<'_>) -> Option<f64> {
    let prompt = situation.load.prompt_tokens.or_else(|| situation.evidence.figures.anywhere("server.prompt_tokens"));
    let output = situation.load.output_tokens.or_else(|| situation.evidence.figures.anywhere("server.output_tokens"));
    match (prompt, output) {
        (None, None) => None,
        (prompt, output) => Some(prompt.unwrap_or(0.0) + output.unwrap_or(0.0)).filter(|tokens| *tokens > 0.0),
    }
}

/// Requests that are offered beyond those that run: waiting in the engine, else clients beyond what runs. `None` when
/// nothing says that anybody is left out.
pub fn left_out(situation: &Situation<'_>) -> Option<f64> {
    let waiting = situation.load.waiting_max;
    if waiting > 0.0 {
        return Some(waiting);
    }
    let running = situation.load.running_max;
    offered(situation.evidence).filter(|offered| running > 0.0 && *offered > 1.1 * running).map(|offered| offered - running)
}

/// Requests offered at once at the most loaded point.
pub fn offered(evidence: &Evidence) -> Option<f64> {
    evidence.figures.highest("client.concurrency")
}

/// Rows of a sweep over the offered load, by it: `client.concurrency`, else `client.request_rate`.
pub fn by_load(evidence: &Evidence) -> Vec<(f64, &Point)> {
    let load = |point: &Point| point.typical("client.concurrency").or_else(|| point.typical("client.request_rate"));
    let mut rows: Vec<(f64, &Point)> = evidence.figures.points().filter_map(|point| Some((load(point)?, point))).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    rows
}

/// Output, total or request throughput of a row.
pub fn throughput(point: &Point) -> Option<f64> {
    ["client.throughput.output", "client.throughput.total", "client.throughput.requests"].iter().find_map(|name| point.typical(name))
}

/// Doubling the load gains less than this from the knee on (attribution, section 6).
const KNEE_GAIN: f64 = 1.1;

/// Where a sweep stops gaining: load and throughput at the knee, and the last row's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knee {
    /// Load from which more gains less than a tenth per doubling.
    pub load: f64,
    /// Throughput there.
    pub rate: f64,
    /// Highest load offered.
    pub last_load: f64,
    /// Throughput there.
    pub last_rate: f64,
}

/// The knee of a sweep: the first row after which every row gains less than a tenth per doubling of the load. `None`
/// when throughput still rises at the end or the sweep has fewer than three rows.
pub fn knee(rows: &[(f64, f64)]) -> Option<Knee> {
    let &(last_load, last_rate) = rows.last().filter(|_| rows.len() >= 3)?;
    let flat_from = |at: usize| {
        rows[at + 1..].iter().all(|&(load, rate)| {
            let doublings = (load / rows[at].0).log2();
            rate <= rows[at].1 * KNEE_GAIN.powf(doublings.max(0.0))
        })
    };
    let at = (0..rows.len() - 1).find(|&at| rows[at].0 > 0.0 && flat_from(at))?;
    Some(Knee { load: rows[at].0, rate: rows[at].1, last_load, last_rate })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knee_is_where_doubling_stops_paying() {
        let rows = [(1.0, 100.0), (2.0, 190.0), (4.0, 350.0), (8.0, 370.0), (16.0, 380.0)];
        let knee = knee(&rows).unwrap();
        assert_eq!((knee.load, knee.rate, knee.last_load), (4.0, 350.0, 16.0));
        assert_eq!(super::knee(&[(1.0, 100.0), (2.0, 190.0), (4.0, 350.0)]), None);
        assert_eq!(super::knee(&rows[..2]), None);
    }
}
