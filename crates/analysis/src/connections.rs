//! Connections as rows of requests show them: how many were in use at once, and whether a pool held the rest back.

use crate::evidence::{Evidence, RequestRow};
use crate::gates::at_cap;
use crate::timeline::moments;

/// A pool whose limit shows in the requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pool {
    /// Most requests that held a connection at one moment.
    pub limit: f64,
    /// Share of requests that found all others in use when they got theirs.
    pub full_share: f64,
    /// Mean wait for a connection, s.
    pub wait_s: f64,
    /// Mean time for which one is held, s.
    pub held_s: f64,
}

/// A pool at its limit holds this share of requests at full use (attribution, section 0.14).
const FULL: f64 = 0.5;
/// Rows from which a standing number is no chance.
const MIN_ROWS: usize = 20;

/// The pool of the client: connection in hand until done.
pub fn client_pool(rows: &[RequestRow]) -> Option<Pool> {
    pool(rows, |row| Some((row.t_sent_ns, row.t_connected_ns?, row.t_done_ns?)))
}

/// The pool a gateway has towards its upstream: passed on until done.
pub fn upstream_pool(rows: &[RequestRow]) -> Option<Pool> {
    pool(rows, |row| Some((row.t_sent_ns, row.t_upstream_sent_ns?, row.t_done_ns?)))
}

/// Reads asked, got and released of every row; a pool at its limit stands at one number in most of the requests, and
/// those wait.
fn pool(rows: &[RequestRow], times: impl Fn(&RequestRow) -> Option<(i64, i64, i64)>) -> Option<Pool> {
    let held: Vec<(i64, i64, i64)> = rows.iter().filter_map(times).filter(|(asked, got, done)| asked <= got && got <= done).collect();
    if held.len() < MIN_ROWS {
        return None;
    }
    let mut starts: Vec<i64> = held.iter().map(|(_, got, _)| *got).collect();
    let mut ends: Vec<i64> = held.iter().map(|(.., done)| *done).collect();
    starts.sort_unstable();
    ends.sort_unstable();
    let in_use = |t: i64| starts.partition_point(|&start| start <= t) - ends.partition_point(|&end| end <= t);
    let limit = starts.iter().map(|&t| in_use(t)).max()?;
    let full = held.iter().filter(|(_, got, _)| in_use(*got) + 1 >= limit).count();
    let wait_s = held.iter().map(|(asked, got, _)| (got - asked) as f64 * 1e-9).sum::<f64>() / held.len() as f64;
    let held_s = held.iter().map(|(_, got, done)| (done - got) as f64 * 1e-9).sum::<f64>() / held.len() as f64;
    Some(Pool { limit: limit as f64, full_share: full as f64 / held.len() as f64, wait_s, held_s })
}

/// More in flight at the caller than run by this factor: running is written at step ends and lags the load a little.
const BEYOND_RUNNING: f64 = 1.25;
/// Running under a pool stands near its limit: half of the time within this share of it, and hardly ever below ...
const MEDIAN_NEAR: f64 = 0.85;
/// ... this one. What merely takes time before the engine lets running swing with the arrivals.
const LOW_NEAR: f64 = 0.6;
/// Scrapes from which a standing number is no chance.
const MIN_SCRAPES: usize = 10;

/// A pool that stamps nothing: while more requests are in flight at the caller than run, running stands at one number that
/// is no setting of the engine, and nothing waits inside. `outside_s`: mean time between caller and engine.
pub fn unseen_pool(evidence: &Evidence, outside_s: f64) -> Option<Pool> {
    let [engine] = evidence.engines.values().collect::<Vec<_>>()[..] else { return None };
    let (mut starts, mut ends): (Vec<i64>, Vec<i64>) =
        evidence.client.iter().filter_map(|row| Some((row.t_sent_ns, row.t_done_ns?))).unzip();
    starts.sort_unstable();
    ends.sort_unstable();
    let in_flight = |t: i64| (starts.partition_point(|&start| start <= t) - ends.partition_point(|&end| end <= t)) as f64;
    let limit = engine.series("engine.running")?.max();
    let mut crowded: Vec<f64> = moments(engine)
        .into_iter()
        .filter(|moment| moment.waiting < 1.0)
        .map(|moment| (moment.running, in_flight(i64::midpoint(moment.t_start_ns, moment.t_end_ns))))
        .filter(|(_, offered)| *offered >= BEYOND_RUNNING * limit)
        .map(|(running, _)| running)
        .collect();
    crowded.sort_unstable_by(f64::total_cmp);
    let (median, low) = (*crowded.get(crowded.len() / 2)?, *crowded.get(crowded.len() / 10)?);
    let is_seats = evidence.settings.number("config.max_num_seqs").is_some_and(|seats| at_cap(limit, seats));
    let stands = crowded.len() >= MIN_SCRAPES && limit >= 2.0 && median >= MEDIAN_NEAR * limit && low >= LOW_NEAR * limit;
    let full_share = crowded.len() as f64 / engine.series("engine.running")?.len() as f64;
    (stands && !is_seats).then_some(Pool { limit, full_share, wait_s: outside_s, held_s: 0.0 })
}

impl Pool {
    /// True when it stands at its limit and requests wait for it: for another one's end, of which there are `limit` in the
    /// time that each holds a connection. Without a wait the number in use is only the number of callers.
    pub fn is_full(&self) -> bool {
        self.limit >= 2.0 && self.full_share >= FULL && self.wait_s > 0.5 * self.held_s / self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(asked: i64, got: i64, done: i64) -> RequestRow {
        RequestRow { t_sent_ns: asked, t_connected_ns: Some(got), t_done_ns: Some(done), ok: true, ..RequestRow::default() }
    }

    #[test]
    fn a_pool_of_four_stands_at_four() {
        let second = 1_000_000_000;
        // Four at a time, each a second long; all forty ask at once.
        let rows: Vec<RequestRow> = (0..40).map(|i| row(0, i / 4 * second, (i / 4 + 1) * second)).collect();
        let pool = client_pool(&rows).unwrap();
        assert_eq!(pool.limit, 4.0);
        assert!(pool.is_full() && pool.wait_s > 4.0);
        // Forty callers in a closed loop hold forty connections all the time, and none waits for one.
        let callers: Vec<RequestRow> = (0..400).map(|i| row(i / 40 * second, i / 40 * second + 1_000_000, (i / 40 + 1) * second)).collect();
        assert!(!client_pool(&callers).unwrap().is_full());
        let free: Vec<RequestRow> = (0..40).map(|i| row(i * second, i * second, (i + 1 + i % 3) * second)).collect();
        assert!(!client_pool(&free).unwrap().is_full());
    }
}
