//! The request account: every second of every request in exactly one phase.
//!
//! The whole is measured at the outermost vantage there is. With client rows that is the client, and a token that the
//! engine made but nobody delivered is `stream`, not `decode`: the account says what the caller waited for.
//! All sizes are integers (request-nanoseconds); the parts and `unattributed` add up to the whole exactly.

mod devices;
mod typed;

use std::collections::BTreeMap;

use crate::evidence::{Evidence, RequestRow};
use crate::phase::Phase;
use crate::slo::Latencies;

pub(crate) use typed::loaded_row;

/// Where the time of a population of requests went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestAccount {
    /// `client`, `server`, `typed`, `device`, or empty when nothing is known.
    pub vantage: &'static str,
    /// What one of `n` is: a request, unless typed figures tell only of a token or a step.
    pub unit: AccountUnit,
    /// Requests in it.
    pub n: u64,
    /// Sum of whole requests, ns.
    pub total_ns: i64,
    /// Sum of the parts before the first token, ns.
    pub first_token_ns: i64,
    /// Phases, ns.
    pub parts: BTreeMap<Phase, i64>,
    /// What no phase covers, ns.
    pub unattributed_ns: i64,
    /// Of it, what passed before the first token, ns.
    pub unattributed_first_ns: i64,
    /// The slowest requests, where rows tell them apart.
    pub tail: Option<Tail>,
    /// True when it rests on lifetime totals of a lone scrape.
    pub lifetime: bool,
    /// Requests the server finished over requests the client saw, where both are used.
    pub server_over_client: Option<f64>,
    /// Distributions beside the means, for limits on percentiles.
    pub latencies: Latencies,
}

/// What an account is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccountUnit {
    /// Whole requests.
    #[default]
    Request,
    /// One output token: only a time per token or a token rate was typed.
    Token,
    /// One engine step.
    Step,
    /// The prompt of one request, or one prompt token where only a rate was typed.
    Prompt,
    /// One engine step on one device, as a profiler recorded it.
    DeviceStep,
    /// What a profiler recorded of one device, where no steps were found.
    Device,
}

impl AccountUnit {
    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Token => "token",
            Self::Step => "step",
            Self::Prompt => "prompt",
            Self::DeviceStep => "device step",
            Self::Device => "device",
        }
    }
}

/// The slow tail: requests at or above a quantile of the whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Tail {
    /// 0.95.
    pub quantile: f64,
    /// Requests in it.
    pub n: u64,
    /// Sum of whole requests, ns.
    pub total_ns: i64,
    /// Phases, ns.
    pub parts: BTreeMap<Phase, i64>,
}

impl RequestAccount {
    /// True when the server worked for more than this client: its means are of a mix the client did not send.
    pub fn has_foreign_load(&self) -> bool {
        self.server_over_client.is_some_and(|ratio| ratio > *SAME_COUNT.end())
    }

    /// Size of a phase, ns.
    pub fn part_ns(&self, phase: Phase) -> i64 {
        self.parts.get(&phase).copied().unwrap_or(0)
    }

    /// Mean of a phase per request, s.
    pub fn mean_s(&self, phase: Phase) -> f64 {
        self.part_ns(phase) as f64 * 1e-9 / self.n.max(1) as f64
    }

    /// Mean whole request, s.
    pub fn total_mean_s(&self) -> f64 {
        self.total_ns as f64 * 1e-9 / self.n.max(1) as f64
    }

    /// Mean time to first token, s.
    pub fn first_token_mean_s(&self) -> f64 {
        self.first_token_ns as f64 * 1e-9 / self.n.max(1) as f64
    }

    /// True when it is of devices: no request, token or step was measured but by a profiler.
    pub fn is_of_devices(&self) -> bool {
        self.vantage == "device"
    }

    /// True when there is nothing to account for.
    pub fn is_empty(&self) -> bool {
        self.n == 0 || self.total_ns <= 0
    }

    /// Reads the account of one arm: client rows over server sums, else server sums, else typed figures.
    pub fn read(evidence: &Evidence, baseline: Option<&Evidence>) -> Self {
        let server = ServerMeans::read(evidence);
        let all: Vec<&RequestRow> =
            evidence.client.iter().filter(|row| row.ok && row.ttft_ns().is_some() && row.e2e_ns().is_some()).collect();
        let (rows, server) = same_population(evidence, all, server);
        let account = if rows.len() >= 2 {
            from_client(evidence, &rows, server.as_ref())
        } else if let Some(server) = server {
            from_server(&server)
        } else {
            Some(typed::read(evidence, baseline)).filter(|typed| !typed.is_empty()).unwrap_or_else(|| devices::read(evidence))
        };
        Self { latencies: Latencies::read(evidence), ..account }
    }
}

/// Server sums may stand beside client rows only if both are about the same requests: their counts agree.
const SAME_COUNT: std::ops::RangeInclusive<f64> = 0.8..=1.25;
/// Slack when rows are cut to the scrapes: result files date a run to the second.
const CUT_SLACK_NS: i64 = 2_000_000_000;

/// Brings client rows and server sums to one population: where the scrapes cover only part of the run, rows outside
/// them are left out; where they still disagree downwards, the server's phases are not used. A server with more requests
/// than this client sent is kept, and said (`server_over_client`).
fn same_population<'a>(
    evidence: &Evidence,
    rows: Vec<&'a RequestRow>,
    server: Option<ServerMeans>,
) -> (Vec<&'a RequestRow>, Option<ServerMeans>) {
    let Some(means) = &server else { return (rows, server) };
    let ratio = |rows: &[&RequestRow]| means.n / rows.len().max(1) as f64;
    if rows.len() < 2 || ratio(&rows) >= *SAME_COUNT.start() {
        return (rows, server);
    }
    let Some((first, last)) = evidence.scrape_window() else { return (rows, None) };
    let inside = |row: &&RequestRow| row.t_sent_ns >= first - CUT_SLACK_NS && row.t_done_ns.is_some_and(|done| done <= last + CUT_SLACK_NS);
    let cut: Vec<&RequestRow> = rows.iter().copied().filter(|row| inside(row)).collect();
    if cut.len() >= 2 && ratio(&cut) >= *SAME_COUNT.start() { (cut, server) } else { (rows, None) }
}

/// Means of the server's own phases, s per request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerMeans {
    /// Requests finished.
    pub n: f64,
    /// Whole request in the API process.
    pub e2e_s: f64,
    /// Received to first token.
    pub ttft_s: f64,
    /// In the engine queue.
    pub queue_s: f64,
    /// First scheduled to first token.
    pub prefill_s: f64,
    /// First to last token.
    pub decode_s: f64,
    /// From a lone scrape: totals since start-up.
    pub lifetime: bool,
}

impl ServerMeans {
    /// Reads them: from the server's histograms, else from its spans of single requests.
    pub fn read(evidence: &Evidence) -> Option<Self> {
        Self::from_histograms(evidence).or_else(|| Self::from_spans(&evidence.server))
    }

    /// Means over requests whose spans tell queueing, scheduling, first token and end.
    fn from_spans(rows: &[RequestRow]) -> Option<Self> {
        let rows: Vec<&RequestRow> = rows.iter().filter(|row| row.ok && row.ttft_ns().is_some() && row.e2e_ns().is_some()).collect();
        let n = rows.len() as f64;
        let mean = |span: &dyn Fn(&RequestRow) -> Option<i64>| {
            rows.iter().filter_map(|row| span(row)).map(|ns| ns.max(0) as f64 * 1e-9).sum::<f64>() / n
        };
        (rows.len() >= 2).then(|| Self {
            n,
            e2e_s: mean(&|row| row.e2e_ns()),
            ttft_s: mean(&|row| row.ttft_ns()),
            queue_s: mean(&|row| Some(row.t_scheduled_ns? - row.t_queued_ns.unwrap_or(row.t_sent_ns))),
            prefill_s: mean(&|row| Some(row.t_first_ns? - row.t_scheduled_ns?)),
            decode_s: mean(&|row| Some(row.t_done_ns? - row.t_first_ns?)),
            lifetime: false,
        })
    }

    /// `None` unless whole-request and first-token times are both exported and somebody finished.
    fn from_histograms(evidence: &Evidence) -> Option<Self> {
        let e2e = evidence.observed("server.e2e")?;
        let mean = |name: &str| evidence.mean(name);
        let (e2e_s, ttft_s) = (e2e.mean()?, mean("server.ttft")?);
        let decode_s = mean("server.decode_time").unwrap_or((e2e_s - ttft_s).max(0.0));
        Some(Self {
            n: e2e.count,
            e2e_s,
            ttft_s,
            queue_s: mean("server.queue_time").unwrap_or(0.0),
            prefill_s: mean("server.prefill_time").unwrap_or(0.0),
            decode_s,
            lifetime: e2e.lifetime,
        })
        .filter(|means| {
            means.e2e_s > 0.0
                && [means.e2e_s, means.ttft_s, means.queue_s, means.prefill_s, means.decode_s].iter().all(|s| s.is_finite() && *s < 1e7)
        })
    }

    /// In the API process before the core took the request in: what first-token time has beyond queue and prefill.
    pub fn api_s(&self) -> f64 {
        (self.ttft_s - self.queue_s - self.prefill_s).max(0.0)
    }
}

fn to_ns(seconds: f64, n: f64) -> i64 {
    (seconds.max(0.0) * n * 1e9).round() as i64
}

/// Fills phases one after the other out of a budget, so that they can never add up to more than the whole.
struct Budget {
    left_ns: i64,
    parts: BTreeMap<Phase, i64>,
}

impl Budget {
    fn new(left_ns: i64) -> Self {
        Self { left_ns: left_ns.max(0), parts: BTreeMap::new() }
    }

    fn put(&mut self, phase: Phase, wanted_ns: i64) {
        let part = wanted_ns.clamp(0, self.left_ns);
        if part > 0 {
            *self.parts.entry(phase).or_default() += part;
            self.left_ns -= part;
        }
    }

    fn total_ns(&self) -> i64 {
        self.left_ns + self.parts.values().sum::<i64>()
    }
}

/// The account of means: what was put before the first token and after it, the rest unattributed.
fn from_budgets(first: Budget, rest: Budget) -> RequestAccount {
    let first_token_ns = first.total_ns();
    let total_ns = first_token_ns + rest.total_ns();
    let mut parts = first.parts;
    parts.extend(rest.parts);
    RequestAccount {
        total_ns,
        first_token_ns,
        parts,
        unattributed_ns: first.left_ns + rest.left_ns,
        unattributed_first_ns: first.left_ns,
        ..RequestAccount::default()
    }
}

fn from_server(server: &ServerMeans) -> RequestAccount {
    let total_ns = to_ns(server.e2e_s, server.n);
    let mut first = Budget::new(to_ns(server.ttft_s, server.n).min(total_ns));
    let mut rest = Budget::new(total_ns - first.left_ns);
    first.put(Phase::Queue, to_ns(server.queue_s, server.n));
    first.put(Phase::Prefill, to_ns(server.prefill_s, server.n));
    if server.queue_s + server.prefill_s > 0.0 {
        first.put(Phase::Api, first.left_ns);
    }
    rest.put(Phase::Decode, to_ns(server.decode_s, server.n));
    RequestAccount { vantage: "server", n: server.n.round() as u64, lifetime: server.lifetime, ..from_budgets(first, rest) }
}

/// Integral of waiting over all engines, request-seconds.
fn waited_s(evidence: &Evidence) -> f64 {
    let moments = evidence.engines.values().flat_map(crate::timeline::moments);
    moments.map(|moment| moment.waited_s()).sum()
}

/// Time outside the server before the first token, ns over the rows: connection, gateway, and what a buffer held.
struct Outside {
    /// Until a connection was in hand, ns.
    client: i64,
    /// Inside a gateway before it passed the request on, ns.
    gateway: i64,
    /// Held on the way out, ns.
    stream: i64,
}

fn from_client(evidence: &Evidence, rows: &[&RequestRow], server: Option<&ServerMeans>) -> RequestAccount {
    let n = rows.len() as f64;
    let total_ns: i64 = rows.iter().filter_map(|row| row.e2e_ns()).map(|ns| ns.max(0)).sum();
    let first_token_ns: i64 = rows.iter().filter_map(|row| row.ttft_ns()).map(|ns| ns.max(0)).sum::<i64>().min(total_ns);
    let outside = outside(evidence, rows, server, first_token_ns, total_ns);
    let mut first = Budget::new(first_token_ns);
    if let Some(server) = server {
        first.put(Phase::Queue, to_ns(server.queue_s, n));
        first.put(Phase::Prefill, to_ns(server.prefill_s, n));
        first.put(Phase::Api, to_ns(server.api_s(), n));
    } else {
        // Without the server's histograms its gauges still say how long requests waited: by Little's law the integral of
        // waiting is the sum of their waits.
        first.put(Phase::Queue, to_ns(waited_s(evidence), 1.0));
    }
    first.put(Phase::Client, outside.client);
    first.put(Phase::Gateway, outside.gateway);
    first.put(Phase::Stream, outside.stream);
    if server.is_some() {
        first.put(Phase::Transfer, first.left_ns);
    }
    let mut parts = first.parts;
    parts.insert(Phase::Decode, total_ns - first_token_ns);
    RequestAccount {
        vantage: "client",
        unit: AccountUnit::Request,
        n: rows.len() as u64,
        total_ns,
        first_token_ns,
        tail: tail(rows, &parts),
        parts,
        unattributed_ns: first.left_ns,
        unattributed_first_ns: first.left_ns,
        lifetime: server.is_some_and(|server| server.lifetime),
        server_over_client: server.map(|server| server.n / n),
        latencies: Latencies::default(),
    }
}

fn outside(evidence: &Evidence, rows: &[&RequestRow], server: Option<&ServerMeans>, first_token_ns: i64, total_ns: i64) -> Outside {
    let n = rows.len() as f64;
    let client_ns = rows.iter().filter_map(|row| row.t_connected_ns.map(|t| (t - row.t_sent_ns).max(0))).sum();
    let gateway = |span: &dyn Fn(&RequestRow) -> Option<i64>| -> Option<f64> {
        let spans: Vec<i64> = evidence.gateway.iter().filter_map(span).map(|ns| ns.max(0)).collect();
        (!spans.is_empty()).then(|| spans.iter().sum::<i64>() as f64 / spans.len() as f64)
    };
    let gateway_mean = gateway(&|row| row.t_upstream_sent_ns.map(|t| t - row.t_sent_ns));
    let held_mean = gateway(&|row| Some(row.t_first_ns? - row.t_upstream_first_ns?));
    let stream_ns = match (held_mean, server) {
        (Some(held), _) => (held * n) as i64,
        // Without a gateway's own log: a stream that takes less time than the engine took to make it was held back
        // before its first piece.
        (None, Some(server)) => {
            (to_ns(server.decode_s, n) - (total_ns - first_token_ns)).clamp(0, (first_token_ns - to_ns(server.ttft_s, n)).max(0))
        }
        (None, None) => 0,
    };
    Outside { client: client_ns, gateway: gateway_mean.map_or(0, |mean| (mean * n) as i64), stream: stream_ns }
}

/// Requests at or above this quantile of the whole make the tail column.
const TAIL_QUANTILE: f64 = 0.95;
/// Fewer than this many requests are no tail.
const TAIL_MIN: usize = 5;

/// The tail's account. Rows tell first token from the rest; inside the first token only waiting (queue, gateway,
/// buffer) differs from one request to the next by more than its tokens, so what waits most takes the difference and
/// the other phases are taken at their means. Without much waiting the split is not identifiable.
fn tail(rows: &[&RequestRow], parts: &BTreeMap<Phase, i64>) -> Option<Tail> {
    let mut sorted: Vec<&&RequestRow> = rows.iter().collect();
    sorted.sort_by_key(|row| (row.e2e_ns(), row.t_sent_ns));
    let first = ((sorted.len() as f64) * TAIL_QUANTILE).ceil() as usize;
    let slow = &sorted[first.min(sorted.len())..];
    let size = |phase: Phase| parts.get(&phase).copied().unwrap_or(0);
    let varying = [Phase::Queue, Phase::Stream, Phase::Gateway, Phase::Client].into_iter().max_by_key(|phase| size(*phase))?;
    let first_total: i64 = Phase::ALL.into_iter().filter(|phase| phase.before_first_token()).map(size).sum();
    if slow.len() < TAIL_MIN || size(varying) <= 0 || size(varying) * 2 < first_total {
        return None;
    }
    let n = slow.len() as f64;
    let total_ns: i64 = slow.iter().filter_map(|row| row.e2e_ns()).sum();
    let first_ns: i64 = slow.iter().filter_map(|row| row.ttft_ns()).sum();
    let mut first = Budget::new(first_ns);
    for phase in Phase::ALL.into_iter().filter(|phase| phase.before_first_token() && *phase != varying) {
        let mean = parts.get(&phase).copied().unwrap_or(0) as f64 / rows.len() as f64;
        first.put(phase, (mean * n) as i64);
    }
    first.put(varying, first.left_ns);
    let mut parts = first.parts;
    parts.insert(Phase::Decode, total_ns - first_ns);
    Some(Tail { quantile: TAIL_QUANTILE, n: slow.len() as u64, total_ns, parts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_single_requests_split_them_exactly() {
        let ms = |ms: i64| Some(ms * 1_000_000);
        let row = |sent_ms: i64| RequestRow {
            t_sent_ns: sent_ms * 1_000_000,
            t_queued_ns: ms(sent_ms + 10),
            t_scheduled_ns: ms(sent_ms + 210),
            t_first_ns: ms(sent_ms + 300),
            t_done_ns: ms(sent_ms + 1300),
            ok: true,
            ..RequestRow::default()
        };
        let evidence = Evidence { server: vec![row(1_000), row(2_000), row(3_000)], ..Evidence::default() };
        let account = RequestAccount::read(&evidence, None);
        assert_eq!((account.vantage, account.n, account.total_ns), ("server", 3, 3_900_000_000));
        assert_eq!(account.part_ns(Phase::Queue), 600_000_000);
        assert_eq!(account.part_ns(Phase::Prefill), 270_000_000);
        assert_eq!(account.part_ns(Phase::Api), 30_000_000);
        assert_eq!(account.parts.values().sum::<i64>() + account.unattributed_ns, account.total_ns);
    }
}
