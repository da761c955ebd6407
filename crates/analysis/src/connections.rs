//! Connections as rows of requests show them: how many were in use at once, and whether a pool held the rest back.

use crate::evidence::RequestRow;

/// A pool whose limit shows in the requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pool {
    /// Most requests that held a connection at one moment.
    pub limit: f64,
    /// Share of requests that found all others in use when they got theirs.
    pub full_share: f64,
    /// Mean wait for a connection, s.
    pub wait_s: f64,
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
    Some(Pool { limit: limit as f64, full_share: full as f64 / held.len() as f64, wait_s })
}

impl Pool {
    /// True when it stands at its limit and requests wait for it.
    pub fn is_full(&self) -> bool {
        self.limit >= 2.0 && self.full_share >= FULL && self.wait_s > 0.0
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
        let free: Vec<RequestRow> = (0..40).map(|i| row(i * second, i * second, (i + 1 + i % 3) * second)).collect();
        assert!(!client_pool(&free).unwrap().is_full());
    }
}
