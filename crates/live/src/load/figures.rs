//! What a load says: spreads over the whole answers, failures counted apart.
//!
//! Definitions. TTFT: sent to first token of any kind. Content TTFT: sent to first content or tool call. Chunk gap: between
//! two chunks with tokens. Token gap: a chunk gap over the chunk's tokens, once per token (what vLLM and SGLang call ITL
//! counts a chunk as one token). TPOT: (last token - first token) / (tokens - 1) per request. From due: from when the
//! request should have been sent. Percentiles are by nearest rank.

use std::collections::BTreeMap;

use super::attempt::{Attempt, Counting, Ending};

/// Mean and percentiles, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// How many values.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
    /// Standard deviation.
    pub deviation: f64,
}

/// Values that count more than once.
#[derive(Clone, Debug, Default)]
pub struct Weighted(Vec<(f64, u64)>);

impl Weighted {
    /// Adds `value` as often as `weight` says.
    pub fn add(&mut self, value: f64, weight: u64) {
        if weight > 0 && value.is_finite() {
            self.0.push((value, weight));
        }
    }

    /// Its spread.
    pub fn spread(mut self) -> Spread {
        self.0.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let count: u64 = self.0.iter().map(|(_, weight)| weight).sum();
        let Some(&(max, _)) = self.0.last() else { return Spread::default() };
        let mean = self.0.iter().map(|(value, weight)| value * *weight as f64).sum::<f64>() / count as f64;
        let square = self.0.iter().map(|(value, weight)| (value - mean).powi(2) * *weight as f64).sum::<f64>() / count as f64;
        let mut ends = Vec::with_capacity(self.0.len());
        let mut sum = 0;
        for (_, weight) in &self.0 {
            sum += weight;
            ends.push(sum);
        }
        let rank = |share: f64| {
            let wanted = ((share * count as f64).ceil() as u64).max(1);
            let at = ends.partition_point(|end| *end < wanted);
            self.0[at.min(self.0.len() - 1)].0
        };
        Spread { count, mean, p50: rank(0.5), p90: rank(0.9), p95: rank(0.95), p99: rank(0.99), max, deviation: square.sqrt() }
    }
}

impl FromIterator<f64> for Spread {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut all = Weighted::default();
        values.into_iter().for_each(|value| all.add(value, 1));
        all.spread()
    }
}

/// What a request must keep to be good, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slo {
    /// Most until the first token, from when the request was due.
    pub ttft_s: Option<f64>,
    /// Most per token after the first.
    pub tpot_s: Option<f64>,
    /// Most for the whole, from when the request was due.
    pub e2e_s: Option<f64>,
}

impl Slo {
    /// Whether it asks for anything.
    pub fn is_set(&self) -> bool {
        self.ttft_s.is_some() || self.tpot_s.is_some() || self.e2e_s.is_some()
    }

    /// Whether a request kept it.
    pub fn is_kept(&self, attempt: &Attempt) -> bool {
        let keeps = |limit: Option<f64>, value: Option<f64>| limit.is_none_or(|limit| value.is_some_and(|value| value <= limit));
        attempt.ending == Ending::Done
            && keeps(self.ttft_s, attempt.first_token_ns().map(|ns| seconds(ns - attempt.intended_ns)))
            && (self.tpot_s.is_none() || attempt.output_tokens.is_some_and(|n| n < 2) || keeps(self.tpot_s, tpot_s(attempt)))
            && keeps(self.e2e_s, attempt.done_ns.map(|ns| seconds(ns - attempt.intended_ns)))
    }
}

/// Whole answers of which the user's tokenizer and the server count different totals, by more than one token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disagreement {
    /// How many.
    pub answers: u64,
    /// Their tokens by the tokenizer.
    pub counted: u64,
    /// Their tokens as the server tells, which were kept.
    pub told: u64,
}

/// What came out. Spreads are in seconds and of whole answers only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Sent to first token of any kind.
    pub ttft: Spread,
    /// Due to first token of any kind.
    pub ttft_from_due: Spread,
    /// Sent to first content or tool call.
    pub content_ttft: Spread,
    /// Sent to first event of any kind.
    pub first_event: Spread,
    /// Between chunks with tokens.
    pub chunk_gap: Spread,
    /// Between tokens, a chunk's gap spread over its tokens.
    pub token_gap: Spread,
    /// Per request.
    pub tpot: Spread,
    /// Sent to the end of the answer.
    pub e2e: Spread,
    /// Due to the end of the answer.
    pub e2e_from_due: Spread,
    /// To a usable connection, where one was opened.
    pub connect: Spread,
    /// Whole answers that count.
    pub completed: u64,
    /// Requests sent, warm-up and cut ones left out.
    pub sent: u64,
    /// Warm-up requests.
    pub warmup: u64,
    /// Requests that the end of the load cut off.
    pub cut: u64,
    /// Failures by kind.
    pub failures: BTreeMap<Ending, u64>,
    /// HTTP statuses of those refused.
    pub statuses: BTreeMap<u16, u64>,
    /// From the first request due to the last whole answer, seconds.
    pub duration_s: f64,
    /// Prompt tokens of whole answers.
    pub prompt_tokens: u64,
    /// Prompt tokens from the server's cache.
    pub cached_tokens: Option<u64>,
    /// Output tokens of whole answers.
    pub output_tokens: u64,
    /// Chunks with tokens.
    pub chunks: u64,
    /// How tokens were counted, the weakest of all requests.
    pub counting: Option<Counting>,
    /// Where the user's tokenizer and the server tell different totals.
    pub disagreement: Disagreement,
    /// Most requests in flight at a time.
    pub concurrency_max: u64,
    /// Mean of requests in flight.
    pub concurrency_mean: f64,
    /// New connections.
    pub new_connections: u64,
    /// Requests that kept the limits, where some are set.
    pub good: Option<u64>,
    /// Lines of streams that could not be read.
    pub unreadable: u64,
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

fn tpot_s(attempt: &Attempt) -> Option<f64> {
    let tokens = attempt.output_tokens.filter(|tokens| *tokens > 1)?;
    let (first, last) = attempt.first_token_ns().zip(attempt.last_token_ns())?;
    // The first chunk's tokens came together: what follows made the rest.
    let first_tokens = attempt.pieces.first().map_or(1, |piece| u64::from(piece.tokens.max(1))).min(tokens - 1);
    let rest = if attempt.counting.is_per_chunk() { tokens - first_tokens } else { tokens - 1 };
    (attempt.pieces.len() > 1).then(|| seconds(last - first) / rest as f64)
}

impl Figures {
    /// Of these requests.
    pub fn of(attempts: &[Attempt], slo: Slo) -> Self {
        let mut figures = Self::default();
        figures.count(attempts);
        let whole: Vec<&Attempt> = attempts.iter().filter(|attempt| attempt.counts()).collect();
        let from = |time: fn(&Attempt) -> Option<i64>, start: fn(&Attempt) -> i64| -> Spread {
            whole.iter().filter_map(|attempt| Some(seconds(time(attempt)? - start(attempt)))).collect()
        };
        let sent: fn(&Attempt) -> i64 = Attempt::sent_or_started_ns;
        let due: fn(&Attempt) -> i64 = |attempt| attempt.intended_ns;
        figures.ttft = from(Attempt::first_token_ns, sent);
        figures.ttft_from_due = from(Attempt::first_token_ns, due);
        figures.content_ttft = from(|attempt| attempt.first_content_ns, sent);
        figures.first_event = from(|attempt| attempt.first_event_ns, sent);
        figures.e2e = from(|attempt| attempt.done_ns, sent);
        figures.e2e_from_due = from(|attempt| attempt.done_ns, due);
        figures.connect = from(|attempt| attempt.connected_ns.filter(|_| attempt.is_new_connection), |attempt| attempt.started_ns);
        figures.tpot = whole.iter().filter_map(|attempt| tpot_s(attempt)).collect();
        figures.gaps(&whole);
        figures.rates(&whole);
        figures.good = slo.is_set().then(|| whole.iter().filter(|attempt| slo.is_kept(attempt)).count() as u64);
        figures
    }

    fn count(&mut self, attempts: &[Attempt]) {
        for attempt in attempts {
            self.new_connections += u64::from(attempt.is_new_connection);
            self.unreadable += u64::from(attempt.unreadable_count);
            match attempt.ending {
                _ if attempt.is_warmup => self.warmup += 1,
                Ending::Cut => self.cut += 1,
                Ending::Done => self.sent += 1,
                ending => {
                    self.sent += 1;
                    *self.failures.entry(ending).or_default() += 1;
                    if let Some(status) = attempt.status.filter(|_| ending == Ending::Status) {
                        *self.statuses.entry(status).or_default() += 1;
                    }
                }
            }
        }
    }

    fn gaps(&mut self, whole: &[&Attempt]) {
        let (mut chunks, mut tokens) = (Weighted::default(), Weighted::default());
        for attempt in whole {
            let mean = attempt.output_tokens.map_or(1.0, |total| total as f64 / attempt.pieces.len().max(1) as f64).max(1.0);
            for pair in attempt.pieces.windows(2) {
                let gap = seconds(pair[1].t_ns - pair[0].t_ns);
                chunks.add(gap, 1);
                match attempt.counting {
                    Counting::PerChunk | Counting::Tokenizer => {
                        tokens.add(gap / f64::from(pair[1].tokens.max(1)), u64::from(pair[1].tokens));
                    }
                    Counting::Total => tokens.add(gap / mean, 1),
                    Counting::Assumed => tokens.add(gap, 1),
                }
            }
        }
        self.chunk_gap = chunks.spread();
        self.token_gap = tokens.spread();
    }

    fn rates(&mut self, whole: &[&Attempt]) {
        self.completed = whole.len() as u64;
        self.counting = whole.iter().map(|attempt| attempt.counting).max();
        let sum = |count: fn(&Attempt) -> Option<u64>| whole.iter().filter_map(|attempt| count(attempt)).sum();
        self.prompt_tokens = sum(|attempt| attempt.prompt_tokens);
        self.output_tokens = sum(|attempt| attempt.output_tokens);
        self.cached_tokens = whole.iter().any(|attempt| attempt.cached_tokens.is_some()).then(|| sum(|attempt| attempt.cached_tokens));
        let both = whole.iter().filter_map(|attempt| attempt.recounted_tokens.zip(attempt.output_tokens));
        for (counted, told) in both.filter(|(counted, told)| counted.abs_diff(*told) > 1) {
            self.disagreement.answers += 1;
            self.disagreement.counted += counted;
            self.disagreement.told += told;
        }
        self.chunks = whole.iter().map(|attempt| attempt.pieces.len() as u64).sum();
        let start = whole.iter().map(|attempt| attempt.intended_ns).min().unwrap_or(0);
        let end = whole.iter().filter_map(|attempt| attempt.done_ns).max().unwrap_or(0);
        self.duration_s = seconds((end - start).max(0));
        let mut changes: Vec<(i64, i64)> = Vec::with_capacity(2 * whole.len());
        for attempt in whole {
            let Some(done) = attempt.done_ns else { continue };
            changes.push((attempt.sent_or_started_ns(), 1));
            changes.push((done, -1));
        }
        changes.sort_unstable();
        let mut in_flight = 0;
        for (_, change) in &changes {
            in_flight += change;
            self.concurrency_max = self.concurrency_max.max(in_flight.max(0) as u64);
        }
        if self.duration_s > 0.0 {
            self.concurrency_mean = self.e2e.mean * self.e2e.count as f64 / self.duration_s;
        }
    }

    /// Whole answers per second.
    pub fn requests_per_s(&self) -> f64 {
        self.per_s(self.completed)
    }

    /// Output tokens per second.
    pub fn output_per_s(&self) -> f64 {
        self.per_s(self.output_tokens)
    }

    /// Prompt tokens per second.
    pub fn prompt_per_s(&self) -> f64 {
        self.per_s(self.prompt_tokens)
    }

    /// Requests per second that kept the limits.
    pub fn goodput_per_s(&self) -> Option<f64> {
        self.good.map(|good| self.per_s(good))
    }

    /// Share of the requests sent that kept the limits; failed ones did not.
    pub fn good_frac(&self) -> Option<f64> {
        self.good.map(|good| good as f64 / self.sent.max(1) as f64)
    }

    /// Failed requests.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    fn per_s(&self, count: u64) -> f64 {
        if self.duration_s > 0.0 { count as f64 / self.duration_s } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::attempt::Piece;
    use super::*;

    fn attempt(index: usize, pieces: &[(i64, u32)], counting: Counting) -> Attempt {
        let pieces: Vec<Piece> = pieces.iter().map(|&(ms, tokens)| Piece { t_ns: ms * 1_000_000, tokens }).collect();
        let done = pieces.last().unwrap().t_ns;
        Attempt {
            index,
            intended_ns: -50_000_000,
            sent_ns: Some(0),
            output_tokens: Some(pieces.iter().map(|piece| u64::from(piece.tokens.max(1))).sum()),
            pieces,
            done_ns: Some(done),
            ending: Ending::Done,
            counting,
            ..Attempt::default()
        }
    }

    #[test]
    fn four_tokens_a_chunk_are_one_chunk_gap_and_four_token_gaps() {
        let one = attempt(0, &[(200, 4), (220, 4), (240, 4)], Counting::PerChunk);
        let figures = Figures::of(&[one], Slo::default());
        assert_eq!((figures.chunk_gap.count, figures.chunk_gap.p50), (2, 0.02));
        assert_eq!((figures.token_gap.count, figures.token_gap.p50), (8, 0.005));
        assert_eq!((figures.ttft.p50, figures.ttft_from_due.p50), (0.2, 0.25));
        assert!((figures.tpot.p50 - 0.005).abs() < 1e-12);
    }

    #[test]
    fn failures_warm_up_and_cut_requests_change_no_figure() {
        let good = attempt(0, &[(200, 1), (220, 1)], Counting::PerChunk);
        let alone = Figures::of(std::slice::from_ref(&good), Slo::default());
        let slow = attempt(1, &[(9000, 1), (99_000, 1)], Counting::PerChunk);
        let failed = Attempt { ending: Ending::Broken, ..slow.clone() };
        let warm = Attempt { is_warmup: true, ..slow.clone() };
        let cut = Attempt { ending: Ending::Cut, ..slow };
        let all = Figures::of(&[good, failed, warm, cut], Slo::default());
        assert_eq!((all.ttft, all.token_gap, all.e2e, all.duration_s), (alone.ttft, alone.token_gap, alone.e2e, alone.duration_s));
        assert_eq!((all.completed, all.sent, all.failed(), all.warmup, all.cut), (1, 2, 1, 1, 1));
    }

    #[test]
    fn a_failed_request_is_not_good() {
        let slo = Slo { ttft_s: Some(0.26), tpot_s: Some(0.02), e2e_s: None };
        let good = attempt(0, &[(200, 1), (220, 1)], Counting::PerChunk);
        let slow = attempt(1, &[(200, 1), (230, 1)], Counting::PerChunk);
        let failed = Attempt { ending: Ending::Timeout, ..good.clone() };
        let figures = Figures::of(&[good, slow, failed], slo);
        assert_eq!((figures.good, figures.good_frac()), (Some(1), Some(1.0 / 3.0)));
    }

    #[test]
    fn percentiles_are_ranks() {
        let spread: Spread = (1..=200).map(f64::from).collect();
        assert_eq!((spread.p50, spread.p90, spread.p99, spread.max, spread.mean), (100.0, 180.0, 198.0, 200.0, 100.5));
        assert_eq!(Spread::from_iter([]), Spread::default());
    }
}
