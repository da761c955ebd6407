//! The load as offered and as served: rates, sizes, growth, utilization.

use crate::account::ServerMeans;
use crate::evidence::{Evidence, Series};
use crate::gates::Gates;
use crate::law::Law;
use crate::timeline::{intervals, moments};

/// The workload of one arm, per engine where it says so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Requests arriving per second, all engines; counted while they arrived.
    pub arrivals_per_s: Option<f64>,
    /// Attempts per unique request, where the caller's rows tell retries apart; else 1.
    pub attempts_per_request: f64,
    /// Requests finished per second while any ran, all engines.
    pub finished_per_s: Option<f64>,
    /// Requests finished.
    pub finished: f64,
    /// Mean output tokens per request.
    pub output_tokens: Option<f64>,
    /// Mean prompt tokens per request.
    pub prompt_tokens: Option<f64>,
    /// Mean prompt tokens per request that were computed.
    pub uncached_tokens: Option<f64>,
    /// Seats (max_num_seqs) per engine.
    pub seats: Option<f64>,
    /// True when no setting names the seats and they are read off where running stands.
    pub seats_inferred: bool,
    /// KV capacity per engine, tokens.
    pub kv_capacity_tokens: Option<f64>,
    /// Largest KV usage seen.
    pub kv_usage_max: Option<f64>,
    /// Mean and largest running, summed over engines.
    pub running_mean: f64,
    /// Largest running on one engine.
    pub running_max: f64,
    /// Mean waiting, summed over engines.
    pub waiting_mean: f64,
    /// Largest waiting on one engine.
    pub waiting_max: f64,
    /// Largest running + waiting at one moment, on one engine.
    pub in_system_max: f64,
    /// In-system requests grew over the arrivals by more than chance, on every engine.
    pub growing: bool,
    /// Engines on which they grew.
    pub growing_engines: usize,
    /// Engines.
    pub engine_count: usize,
    /// Preemptions in the window.
    pub preemptions: f64,
    /// Relative gap of Little's law on the queue, and its tolerance.
    pub little: Option<(f64, f64)>,
}

impl Load {
    /// Reads it.
    pub fn read(evidence: &Evidence, gates: &Gates) -> Self {
        let means = ServerMeans::read(evidence);
        let mean = |name: &str| evidence.mean(name);
        let finished = means.as_ref().map_or(0.0, |means| means.n);
        let per_request = |total: &str| (finished > 0.0).then(|| evidence.growth(total)).flatten().map(|total| total / finished);
        let figure = |name: &str| evidence.figures.typical(name);
        let prompt_tokens =
            mean("server.prompt_tokens").or_else(|| row_mean(evidence, |row| row.tokens_in)).or_else(|| figure("server.prompt_tokens"));
        let mut load = Self {
            finished,
            output_tokens: mean("server.output_tokens")
                .or_else(|| row_mean(evidence, |row| row.tokens_out))
                .or_else(|| per_request("server.output_tokens_total"))
                .or_else(|| figure("server.output_tokens")),
            prompt_tokens,
            uncached_tokens: mean("server.computed_tokens").or_else(|| per_request("server.computed_tokens_total")).or(prompt_tokens),
            seats: gates.seats.map(|limit| limit.seats),
            seats_inferred: gates.seats.is_some_and(|limit| limit.inferred),
            engine_count: evidence.engines.len(),
            attempts_per_request: attempts_per_request(evidence),
            preemptions: evidence.growth("kv.preemptions").unwrap_or(0.0),
            ..Self::default()
        };
        load.read_gauges(evidence);
        load.read_rates(evidence);
        load.little = little(evidence, means.as_ref(), gates.waited_s, gates.gated.len());
        load
    }

    /// Engines as a divisor: at least 1.
    pub fn engines(&self) -> f64 {
        self.engine_count.max(1) as f64
    }

    /// Requests arriving per second at one engine.
    pub fn arrivals_per_engine(&self) -> Option<f64> {
        self.arrivals_per_s.map(|arrivals| arrivals / self.engines())
    }

    /// Requests finished in the window, else as a result file or a person says; 0 when nobody does.
    pub fn finished_or_typed(&self, evidence: &Evidence) -> f64 {
        if self.finished > 0.0 { self.finished } else { evidence.figures.typical("client.completed").unwrap_or(0.0) }
    }

    /// Utilization at `batch` sequences per engine: arrivals x service time. `None` without law or rates.
    pub fn rho(&self, law: &model::step_law::StepLaw, batch: f64) -> Option<f64> {
        let arrivals = self.arrivals_per_engine()?;
        let rho = law.rho(arrivals, batch, self.uncached_tokens?, self.output_tokens?);
        rho.is_finite().then_some(rho)
    }

    /// Sequences of this workload's mean length that the KV cache holds.
    pub fn kv_seats(&self) -> Option<f64> {
        let held = self.prompt_tokens? + 0.5 * self.output_tokens?;
        (held > 0.0).then(|| self.kv_capacity_tokens.map(|capacity| capacity / held)).flatten()
    }

    /// Utilization with as many seats as KV holds (at most 4096): the device's own.
    pub fn rho_uncapped(&self, law: &Law) -> Option<f64> {
        self.rho(law.known()?, self.kv_seats().unwrap_or(4096.0).clamp(1.0, 4096.0))
    }

    fn read_gauges(&mut self, evidence: &Evidence) {
        let total_mean = |name: &str| evidence.engines.values().filter_map(|engine| engine.series(name)).map(Series::mean).sum::<f64>();
        let largest = |name: &str| {
            let scraped = evidence.engines.values().filter_map(|engine| engine.series(name)).map(Series::max).reduce(f64::max);
            scraped.or_else(|| evidence.figures.highest(name))
        };
        self.running_mean = total_mean("engine.running");
        self.waiting_mean = total_mean("engine.waiting");
        self.running_max = largest("engine.running").unwrap_or(0.0);
        self.waiting_max = largest("engine.waiting").unwrap_or(0.0);
        let in_system = evidence.engines.values().flat_map(moments).map(|moment| moment.running + moment.waiting).fold(0.0, f64::max);
        self.in_system_max = if in_system > 0.0 { in_system } else { self.running_max + self.waiting_max };
        self.kv_usage_max = largest("kv.usage").filter(|&usage| usage > 0.0 || self.prompt_tokens.is_none());
        self.kv_capacity_tokens =
            evidence.engines.values().filter_map(|engine| crate::gates::kv_capacity_tokens(engine, evidence)).reduce(f64::min);
        self.growing_engines = evidence.engines.values().filter(|engine| grows(&arrival_part(engine))).count();
        self.growing = self.growing_engines > 0 && self.growing_engines == evidence.engines.len();
    }

    fn read_rates(&mut self, evidence: &Evidence) {
        let mut sent: Vec<i64> = evidence.client.iter().map(|row| row.t_intended_ns.unwrap_or(row.t_sent_ns)).collect();
        sent.sort_unstable();
        let from_rows = sent.first().zip(sent.last()).filter(|_| sent.len() >= 10).and_then(|(first, last)| {
            let span_s = (last - first) as f64 * 1e-9;
            (span_s > 0.0).then(|| (sent.len() - 1) as f64 / span_s)
        });
        let active_s: f64 = evidence
            .engines
            .values()
            .map(|engine| {
                intervals(engine)
                    .iter()
                    .filter(|i| i.running_start + i.running_end > 0.0)
                    .map(crate::timeline::Interval::length_s)
                    .sum::<f64>()
            })
            .fold(0.0, f64::max);
        self.finished_per_s = (active_s > 0.0 && self.finished > 0.0)
            .then(|| self.finished / active_s)
            .or_else(|| evidence.figures.typical("client.throughput.requests"));
        self.arrivals_per_s = from_rows.or_else(|| arrivals_from_counters(evidence)).or(self.finished_per_s);
    }
}

fn attempts_per_request(evidence: &Evidence) -> f64 {
    let unique = evidence.client.iter().filter(|row| row.attempt == 0).count();
    if unique > 0 { evidence.client.len() as f64 / unique as f64 } else { 1.0 }
}

fn row_mean(evidence: &Evidence, value: impl Fn(&crate::evidence::RequestRow) -> Option<i64>) -> Option<f64> {
    let values: Vec<i64> = evidence.client.iter().filter(|row| row.ok).filter_map(value).collect();
    (!values.is_empty()).then(|| values.iter().sum::<i64>() as f64 / values.len() as f64)
}

/// Arrivals per second from the server's own counters: first tokens handed out plus the change of what is waiting, from
/// the first that moves until the system is fullest (a backlog that drains after the last arrival is no arrival).
fn arrivals_from_counters(evidence: &Evidence) -> Option<f64> {
    let mut total = 0.0;
    let mut span_s: f64 = 0.0;
    for engine in evidence.engines.values() {
        let counts = engine.histogram("server.ttft")?;
        let waiting = engine.series("engine.waiting");
        let steps = counts.steps();
        let moving: Vec<usize> = (0..steps.len()).filter(|&at| steps[at].1 > 0.0).collect();
        let (first, mut last) = (*moving.first()?, *moving.last()?);
        let waiting_at = |t| waiting.and_then(|series| series.at(t)).unwrap_or(0.0);
        let fullest = (first..=last).max_by(|&a, &b| waiting_at(counts.t_ns[a + 1]).total_cmp(&waiting_at(counts.t_ns[b + 1])))?;
        if waiting_at(counts.t_ns[fullest + 1]) >= 2.0 && fullest > first {
            last = fullest;
        }
        let (from, to) = (counts.t_ns[first], counts.t_ns[last + 1]);
        total += steps[first..=last].iter().map(|(_, count)| count).sum::<f64>() + waiting_at(to) - waiting_at(from);
        span_s = span_s.max((to - from) as f64 * 1e-9);
    }
    (span_s >= 5.0 && total >= 10.0).then(|| total / span_s)
}

/// Requests in the system at each scrape while requests still arrived (prompt tokens kept growing).
fn arrival_part(engine: &crate::evidence::Engine) -> Vec<f64> {
    let in_system: Vec<f64> = moments(engine).iter().map(|moment| moment.running + moment.waiting).collect();
    let Some(prompts) = engine.series("server.prompt_tokens_total").or_else(|| engine.series("server.computed_tokens_total")) else {
        return in_system;
    };
    let steps = prompts.steps();
    let moving = |gain: &f64| *gain > 0.0;
    let (Some(first), Some(last)) = (steps.iter().position(moving), steps.iter().rposition(moving)) else { return Vec::new() };
    // A backlog that drains after the last arrival still takes prompts in; the peak ends the growing part.
    let peak = in_system.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(last, |(at, _)| at);
    let end = (last + 1).min(in_system.len().saturating_sub(1)).min(peak.max(first + 1));
    in_system.get(first..=end).unwrap_or(&[]).to_vec()
}

/// Growth beyond chance: last third over first third by more than half the mean and six times its square root.
fn grows(in_system: &[f64]) -> bool {
    let third = in_system.len() / 3;
    if third < 3 {
        return false;
    }
    let mean_of = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let rise = mean_of(&in_system[in_system.len() - third..]) - mean_of(&in_system[..third]);
    let mean = mean_of(in_system);
    rise > 0.5 * mean && rise > 6.0 * mean.sqrt()
}

/// A window may cut this share of the waiting off at its ends before the law says nothing.
const CUT_SHARE: f64 = 0.2;

/// Waiting that the window cuts: who waits at its ends is in the integral or in the sum, not in both.
fn cut_queue_s(evidence: &Evidence, means: &ServerMeans) -> f64 {
    let at_ends = evidence.engines.values().filter_map(|engine| engine.series("engine.waiting")).map(|waiting| {
        let first = waiting.value.first().copied().unwrap_or(0.0);
        first + waiting.value.last().copied().unwrap_or(0.0)
    });
    at_ends.sum::<f64>() * means.queue_s
}

/// Little's law on the queue: the integral of waiting against the sum of queue times. With preemptions the difference
/// is requeueing, not an error.
fn little(evidence: &Evidence, means: Option<&ServerMeans>, waited_s: f64, waiting_moments: usize) -> Option<(f64, f64)> {
    let means = means?;
    let queued_s = means.queue_s * means.n;
    let preempted = evidence.growth("kv.preemptions").unwrap_or(0.0) > 0.0;
    if waiting_moments < 3 || queued_s <= 0.0 || preempted || means.lifetime || cut_queue_s(evidence, means) > CUT_SHARE * waited_s {
        return None;
    }
    let tolerance = (2.0 / (waiting_moments as f64).sqrt()).max(0.05);
    Some(((waited_s - queued_s).abs() / queued_s.max(waited_s), tolerance))
}
