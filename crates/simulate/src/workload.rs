//! Requests as the simulator needs them: when, how long in and out, which blocks of the prompt are shared.
//!
//! One request is 32 bytes, one block of a prompt 4; ids of blocks are renumbered densely while reading.

mod generate;
mod lines;
mod readers;
mod time_text;

use std::collections::HashMap;

pub use generate::{Arrivals, Generator, Lengths, SharedPrefix};
pub use readers::{Damage, Format, KEPT_DAMAGE, Limits, ReadError, Reading, read};

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Arrival at the client's side, nanoseconds since the first of the workload.
    pub arrival_ns: i64,
    /// Prompt length, at least 1.
    pub prompt_tokens: u32,
    /// Answer length, at least 1.
    pub output_tokens: u32,
    /// Small numbers go first under [`crate::config::Policy::Priority`].
    pub priority: i32,
    /// Conversation or user; 0 when not known.
    pub session: u32,
    /// Where the request's blocks start in [`Workload::blocks`].
    pub(crate) prefix_start: u32,
    /// How many blocks.
    pub(crate) prefix_count: u32,
}

impl Request {
    /// A request without known blocks.
    pub fn new(arrival_ns: i64, prompt_tokens: u32, output_tokens: u32) -> Self {
        let (prompt_tokens, output_tokens) = (prompt_tokens.max(1), output_tokens.max(1));
        Self { arrival_ns, prompt_tokens, output_tokens, priority: 0, session: 0, prefix_start: 0, prefix_count: 0 }
    }
}

/// Requests in order of arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    requests: Vec<Request>,
    blocks: Vec<u32>,
    distinct_blocks: u32,
    hash_block_tokens: u32,
}

impl Workload {
    /// Takes requests without blocks; equal arrivals keep their order.
    pub fn new(requests: Vec<Request>) -> Self {
        let mut builder = Builder::default();
        for request in requests {
            builder.push(Request { prefix_start: 0, prefix_count: 0, ..request }, &[]);
        }
        builder.finish(0)
    }

    /// In order of arrival.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// The blocks of a request's prompt: two requests that share a prefix share its numbers.
    pub fn blocks(&self, request: &Request) -> &[u32] {
        &self.blocks[request.prefix_start as usize..][..request.prefix_count as usize]
    }

    /// How many different blocks there are; all numbers are below.
    pub fn distinct_blocks(&self) -> u32 {
        self.distinct_blocks
    }

    /// Tokens per block of [`Workload::blocks`], 0 when no request has any.
    pub fn hash_block_tokens(&self) -> u32 {
        self.hash_block_tokens
    }

    /// From the first arrival to the last, nanoseconds.
    pub fn span_ns(&self) -> i64 {
        self.requests.last().map_or(0, |last| last.arrival_ns.saturating_sub(self.requests[0].arrival_ns))
    }

    /// Mean prompt and answer lengths in tokens, 0 without requests.
    pub fn mean_tokens(&self) -> (f64, f64) {
        let count = self.requests.len().max(1) as f64;
        let sum = |length: fn(&Request) -> u32| self.requests.iter().map(|request| f64::from(length(request))).sum::<f64>();
        (sum(|request| request.prompt_tokens) / count, sum(|request| request.output_tokens) / count)
    }

    /// The first `count` requests in order of arrival.
    #[must_use]
    pub fn first(mut self, count: usize) -> Self {
        self.requests.truncate(count);
        self
    }

    /// Share of requests that arrive at the same moment as the one before.
    pub fn tied_frac(&self) -> f64 {
        let tied = self.requests.windows(2).filter(|two| two[0].arrival_ns == two[1].arrival_ns).count();
        tied as f64 / self.requests.len().max(1) as f64
    }

    /// The same requests with those of one moment spread evenly until the next one, for recordings whose clock is coarse.
    /// The last moment is as long as the one before.
    #[must_use]
    pub fn with_spread_ties(mut self) -> Self {
        let (mut at, mut last_gap_ns) = (0, 0);
        while at < self.requests.len() {
            let now_ns = self.requests[at].arrival_ns;
            let count = self.requests[at..].iter().take_while(|request| request.arrival_ns == now_ns).count();
            let gap_ns = self.requests.get(at + count).map_or(last_gap_ns, |next| next.arrival_ns - now_ns);
            for (place, request) in self.requests[at..at + count].iter_mut().enumerate() {
                request.arrival_ns = now_ns.saturating_add((i128::from(gap_ns) * place as i128 / count as i128) as i64);
            }
            (at, last_gap_ns) = (at + count, gap_ns);
        }
        self
    }

    /// The same requests `factor` times as fast. A factor that is not positive and finite changes nothing.
    #[must_use]
    pub fn faster(mut self, factor: f64) -> Self {
        if factor.is_finite() && factor > 0.0 {
            for request in &mut self.requests {
                request.arrival_ns = (request.arrival_ns as f64 / factor) as i64;
            }
        }
        self
    }

    /// The same requests with priorities by their index in order of arrival.
    #[must_use]
    pub fn with_priorities(mut self, priority: impl Fn(usize) -> i32) -> Self {
        for (at, request) in self.requests.iter_mut().enumerate() {
            request.priority = priority(at);
        }
        self
    }
}

/// Collects requests in any order.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    workload: Workload,
    dense: HashMap<u64, u32>,
    /// Request that named each block last, counted from 1.
    named_by: Vec<u32>,
}

impl Builder {
    /// One that is looked at while it grows: requests come in order of arrival, with blocks of this many tokens.
    pub(crate) fn online(hash_block_tokens: u32) -> Self {
        Self { workload: Workload { hash_block_tokens, ..Workload::default() }, ..Self::default() }
    }

    /// What was collected so far, as it came.
    pub(crate) fn workload(&self) -> &Workload {
        &self.workload
    }

    /// How many requests so far.
    pub(crate) fn len(&self) -> usize {
        self.workload.requests.len()
    }

    /// How many blocks so far.
    pub(crate) fn block_count(&self) -> usize {
        self.workload.blocks.len()
    }

    /// Adds a request with the ids of its blocks, up to one that it names twice: hashes of prefixes do not repeat.
    pub(crate) fn push(&mut self, mut request: Request, blocks: &[u64]) {
        request.prefix_start = self.workload.blocks.len() as u32;
        let number = self.workload.requests.len() as u32 + 1;
        for &block in blocks {
            let next = self.dense.len() as u32;
            let id = *self.dense.entry(block).or_insert(next);
            if id == next {
                self.named_by.push(0);
            }
            if std::mem::replace(&mut self.named_by[id as usize], number) == number {
                break;
            }
            self.workload.blocks.push(id);
        }
        request.prefix_count = self.workload.blocks.len() as u32 - request.prefix_start;
        self.workload.distinct_blocks = self.dense.len() as u32;
        self.workload.requests.push(request);
    }

    /// Sorts by arrival, the first at 0.
    pub(crate) fn finish(self, hash_block_tokens: u32) -> Workload {
        let Self { mut workload, dense: _, named_by: _ } = self;
        workload.hash_block_tokens = if workload.blocks.is_empty() { 0 } else { hash_block_tokens };
        workload.requests.sort_by_key(|request| request.arrival_ns);
        let first_ns = workload.requests.first().map_or(0, |first| first.arrival_ns);
        for request in &mut workload.requests {
            request.arrival_ns = request.arrival_ns.saturating_sub(first_ns);
        }
        workload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_small() {
        assert_eq!(size_of::<Request>(), 32);
    }

    #[test]
    fn equal_arrivals_keep_their_order() {
        let at = |arrival_ns, prompt| Request::new(arrival_ns, prompt, 1);
        let workload = Workload::new(vec![at(9, 1), at(5, 2), at(9, 3), at(5, 4)]);
        let seen: Vec<(i64, u32)> = workload.requests().iter().map(|r| (r.arrival_ns, r.prompt_tokens)).collect();
        assert_eq!(seen, [(0, 2), (0, 4), (4, 1), (4, 3)]);
    }

    #[test]
    fn requests_of_one_moment_are_spread_until_the_next() {
        let arrivals = |workload: &Workload| workload.requests().iter().map(|request| request.arrival_ns).collect::<Vec<_>>();
        let workload = Workload::new([0, 0, 0, 30, 40, 40].into_iter().map(|at| Request::new(at, 1, 1)).collect());
        assert_eq!(workload.tied_frac(), 0.5);
        let spread = workload.with_spread_ties();
        assert_eq!(arrivals(&spread), [0, 10, 20, 30, 40, 45]);
        assert_eq!(arrivals(&spread.clone().with_spread_ties()), arrivals(&spread));
        assert_eq!(arrivals(&spread.first(2)), [0, 10]);
    }

    #[test]
    fn blocks_are_renumbered_and_shared() {
        let mut builder = Builder::default();
        builder.push(Request::new(0, 100, 1), &[u64::MAX, 7]);
        builder.push(Request::new(1, 100, 1), &[u64::MAX, 8, 8, 7]);
        let workload = builder.finish(50);
        let [first, second] = workload.requests() else { panic!("two requests") };
        assert_eq!((workload.blocks(first), workload.blocks(second)), (&[0, 1][..], &[0, 2][..]));
        assert_eq!((workload.distinct_blocks(), workload.hash_block_tokens()), (3, 50));
    }
}
