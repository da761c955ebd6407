//! What came out: one row per request, counts over time, and figures made of both.

use crate::engine::observe::Gate;
use crate::histogram::Histogram;
use crate::verdict::Verdict;

/// Where a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It never reached a seat before the run was cut.
    #[default]
    Waiting,
    /// It had a seat when the run was cut, or lost it.
    Running,
    /// Its last token left.
    Done,
    /// It can never run: longer than the cache, or than a step without chunks.
    Rejected,
}

/// Times of one request, nanoseconds; `i64::MIN` for what did not happen. 72 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The client sent it.
    pub arrival_ns: i64,
    /// It reached an engine's queue.
    pub reached_ns: i64,
    /// Its first step started.
    pub admitted_ns: i64,
    /// The step of its first token ended.
    pub first_token_ns: i64,
    /// The step of its last token ended.
    pub last_token_ns: i64,
    /// The first token reached the client.
    pub client_first_ns: i64,
    /// The last token reached the client.
    pub client_last_ns: i64,
    /// Prompt tokens found in the prefix cache when it was first admitted.
    pub cached_tokens: u32,
    /// How often it lost its seat.
    pub preemptions: u32,
    /// The replica that answered.
    pub replica: u16,
    /// Where it ended.
    pub state: State,
}

/// What did not happen.
pub const NEVER: i64 = i64::MIN;

impl Row {
    pub(crate) fn new(arrival_ns: i64) -> Self {
        Self {
            arrival_ns,
            reached_ns: NEVER,
            admitted_ns: NEVER,
            first_token_ns: NEVER,
            last_token_ns: NEVER,
            client_first_ns: NEVER,
            client_last_ns: NEVER,
            cached_tokens: 0,
            preemptions: 0,
            replica: 0,
            state: State::Waiting,
        }
    }

    /// From sending to the first token at the client.
    pub fn ttft_ns(&self) -> Option<i64> {
        (self.state == State::Done).then(|| self.client_first_ns - self.arrival_ns)
    }

    /// From sending to the last token at the client.
    pub fn e2e_ns(&self) -> Option<i64> {
        (self.state == State::Done).then(|| self.client_last_ns - self.arrival_ns)
    }

    /// From reaching the engine to the first step.
    pub fn queue_ns(&self) -> Option<i64> {
        (self.admitted_ns != NEVER).then(|| self.admitted_ns - self.reached_ns)
    }

    /// Time per token after the first, at the client; `None` for answers of one token.
    pub fn tpot_ns(&self, output_tokens: u32) -> Option<f64> {
        let gaps = (self.state == State::Done && output_tokens > 1).then_some(f64::from(output_tokens) - 1.0)?;
        Some((self.client_last_ns - self.client_first_ns) as f64 / gaps)
    }
}

/// Counts of one replica over its busy time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Engine steps.
    pub steps: u64,
    /// Time in steps, nanoseconds.
    pub busy_ns: i128,
    /// Running requests times nanoseconds.
    pub running_ns: i128,
    /// Waiting requests times nanoseconds.
    pub waiting_ns: i128,
    /// Share of used blocks, in millionths, times nanoseconds.
    pub kv_used_ppm_ns: i128,
    /// Time in which the first waiting request was held out by seats, nanoseconds.
    pub seats_ns: i128,
    /// The same by KV blocks.
    pub kv_ns: i128,
    /// The same by the token budget.
    pub budget_ns: i128,
    /// Most requests running.
    pub running_max: u64,
    /// Most requests waiting.
    pub waiting_max: u64,
    /// Most blocks used, as a share in millionths.
    pub kv_used_max_ppm: u64,
    /// Prompt tokens computed, recomputed ones included.
    pub prefill_tokens: u64,
    /// Tokens computed again after preemptions.
    pub recomputed_tokens: u64,
    /// First tokens made.
    pub first_tokens: u64,
    /// Tokens made by decoding.
    pub decode_tokens: u64,
    /// Preemptions.
    pub preemptions: u64,
    /// Tokens made while seats or KV blocks held requests out.
    pub gated_tokens: u64,
    /// Gaps between tokens (or chunks of tokens) at the client.
    pub gaps: Histogram,
}

impl Tally {
    /// One step of `span_ns` with `used` of `total` blocks.
    pub(crate) fn spend(&mut self, span_ns: i64, used: u32, total: u32) {
        let ppm = u64::from(used) * 1_000_000 / u64::from(total.max(1));
        self.kv_used_ppm_ns += i128::from(ppm) * i128::from(span_ns);
        self.kv_used_max_ppm = self.kv_used_max_ppm.max(ppm);
    }

    /// `steps` steps, `span_ns` in all, with the same requests.
    pub(crate) fn occupy(&mut self, span_ns: i64, steps: u64, running: u64, waiting: u64, gate: Option<Gate>) {
        let span_ns = i128::from(span_ns);
        self.steps += steps;
        self.busy_ns += span_ns;
        self.running_ns += i128::from(running) * span_ns;
        self.waiting_ns += i128::from(waiting) * span_ns;
        match gate {
            Some(Gate::Seats) => self.seats_ns += span_ns,
            Some(Gate::Kv) => self.kv_ns += span_ns,
            Some(Gate::Budget) => self.budget_ns += span_ns,
            None => {}
        }
    }

    /// Tokens made in steps behind this gate.
    pub(crate) fn make(&mut self, tokens: u64, gate: Option<Gate>) {
        if matches!(gate, Some(Gate::Seats | Gate::Kv)) {
            self.gated_tokens += tokens;
        }
    }

    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.busy_ns += other.busy_ns;
        self.running_ns += other.running_ns;
        self.waiting_ns += other.waiting_ns;
        self.kv_used_ppm_ns += other.kv_used_ppm_ns;
        self.seats_ns += other.seats_ns;
        self.kv_ns += other.kv_ns;
        self.budget_ns += other.budget_ns;
        self.running_max += other.running_max;
        self.waiting_max += other.waiting_max;
        self.kv_used_max_ppm = self.kv_used_max_ppm.max(other.kv_used_max_ppm);
        self.prefill_tokens += other.prefill_tokens;
        self.recomputed_tokens += other.recomputed_tokens;
        self.first_tokens += other.first_tokens;
        self.decode_tokens += other.decode_tokens;
        self.preemptions += other.preemptions;
        self.gated_tokens += other.gated_tokens;
        self.gaps.merge(&other.gaps);
    }
}

/// Everything a simulation says.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// One row per request, in the order of the workload.
    pub rows: Vec<Row>,
    /// Counts per replica; with two pools those that prefill come first.
    pub tallies: Vec<Tally>,
    /// Whether requests were left when the step limit, or the end of what 64 bits of nanoseconds can say, cut the run.
    pub is_cut: bool,
    /// Whether the system kept up.
    pub verdict: Verdict,
}

/// Mean and percentiles of one duration, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// How many requests (or gaps).
    pub count: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: f64,
    /// 90 of 100 are at most this.
    pub p90_ns: f64,
    /// 99 of 100 are at most this.
    pub p99_ns: f64,
    /// Longest.
    pub max_ns: f64,
}

impl Spread {
    /// Of these values, by nearest rank.
    pub fn of(mut values: Vec<f64>) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        values.sort_unstable_by(f64::total_cmp);
        let rank = |q: f64| values[((q * values.len() as f64).ceil() as usize).clamp(1, values.len()) - 1];
        Self {
            count: values.len() as u64,
            mean_ns: values.iter().sum::<f64>() / values.len() as f64,
            p50_ns: rank(0.5),
            p90_ns: rank(0.9),
            p99_ns: rank(0.99),
            max_ns: rank(1.0),
        }
    }

    fn of_histogram(histogram: &Histogram) -> Self {
        let at = |q| histogram.quantile_ns(q) as f64;
        Self {
            count: histogram.count(),
            mean_ns: histogram.mean_ns() as f64,
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            max_ns: histogram.max_ns() as f64,
        }
    }
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Requests answered.
    pub done: u64,
    /// Requests that can never run.
    pub rejected: u64,
    /// Time to the first token; nothing while saturated, when it depends on how long one waits and on nothing else.
    pub ttft: Option<Spread>,
    /// Wait before the first step; nothing while saturated.
    pub queue: Option<Spread>,
    /// Time per output token after the first.
    pub tpot: Spread,
    /// Gaps between tokens or chunks.
    pub itl: Spread,
    /// Whole requests, queues included: while saturated a fact about this finite workload, no property of the system.
    pub e2e: Spread,
    /// From the first arrival to the last token, nanoseconds.
    pub span_ns: i64,
    /// Answered requests per second of that.
    pub requests_per_s: f64,
    /// Their output tokens per second of that.
    pub tokens_per_s: f64,
    /// Mean requests running over that time, all replicas.
    pub running_mean: f64,
    /// Mean requests in engine queues.
    pub waiting_mean: f64,
    /// Mean share of used KV blocks.
    pub kv_used_frac: f64,
    /// Largest share of used KV blocks of any replica.
    pub kv_used_max_frac: f64,
    /// Share of the time (mean over replicas) in which seats held the first waiting request out.
    pub seats_frac: f64,
    /// The same for KV blocks.
    pub kv_frac: f64,
    /// The same for the token budget.
    pub budget_frac: f64,
    /// Prompt tokens found in the prefix cache, of all prompt tokens of answered requests.
    pub cached_frac: f64,
    /// Preemptions.
    pub preemptions: u64,
}

impl Outcome {
    /// Counts of all replicas together.
    pub fn tally(&self) -> Tally {
        self.tallies.iter().fold(Tally::default(), |mut sum, tally| {
            sum.add(tally);
            sum
        })
    }

    /// The figures; `workload` is what was simulated.
    pub fn summary(&self, workload: &crate::Workload) -> Summary {
        let pairs = || self.rows.iter().zip(workload.requests()).filter(|(row, _)| row.state == State::Done);
        let durations = |of: fn(&Row) -> Option<i64>| pairs().filter_map(|(row, _)| of(row)).map(|ns| ns as f64).collect();
        let (first_ns, last_ns) =
            pairs().fold((i64::MAX, i64::MIN), |(first, last), (row, _)| (first.min(row.arrival_ns), last.max(row.client_last_ns)));
        let span_ns = last_ns.saturating_sub(first_ns).max(0);
        let span_s = (span_ns as f64 / 1e9).max(1e-9);
        let tally = self.tally();
        let replica_ns = span_ns.max(1) as f64 * self.tallies.len().max(1) as f64;
        let share = |ns: i128| ns as f64 / replica_ns;
        let output: u64 = pairs().map(|(_, request)| u64::from(request.output_tokens)).sum();
        let prompt: u64 = pairs().map(|(_, request)| u64::from(request.prompt_tokens)).sum();
        let cached: u64 = pairs().map(|(row, _)| u64::from(row.cached_tokens)).sum();
        let done = pairs().count() as u64;
        let is_steady = !self.verdict.is_saturated();
        Summary {
            done,
            rejected: self.rows.iter().filter(|row| row.state == State::Rejected).count() as u64,
            ttft: is_steady.then(|| Spread::of(durations(Row::ttft_ns))),
            queue: is_steady.then(|| Spread::of(durations(Row::queue_ns))),
            tpot: Spread::of(pairs().filter_map(|(row, request)| row.tpot_ns(request.output_tokens)).collect()),
            itl: Spread::of_histogram(&tally.gaps),
            e2e: Spread::of(durations(Row::e2e_ns)),
            span_ns,
            requests_per_s: done as f64 / span_s,
            tokens_per_s: output as f64 / span_s,
            running_mean: tally.running_ns as f64 / span_ns.max(1) as f64,
            waiting_mean: tally.waiting_ns as f64 / span_ns.max(1) as f64,
            kv_used_frac: share(tally.kv_used_ppm_ns) / 1e6,
            kv_used_max_frac: tally.kv_used_max_ppm as f64 / 1e6,
            seats_frac: share(tally.seats_ns),
            kv_frac: share(tally.kv_ns),
            budget_frac: share(tally.budget_ns),
            cached_frac: cached as f64 / prompt.max(1) as f64,
            preemptions: tally.preemptions,
        }
    }
}
