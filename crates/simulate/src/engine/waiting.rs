//! Requests that the engine has and does not run, in the order in which they are served.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::config::Policy;

/// A request in the queue, new, preempted or sent by a prefill pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Smaller is served first; the same for all under FCFS.
    pub(crate) priority: i32,
    /// When it reached this engine.
    pub(crate) reached_ns: i64,
    /// Index in the workload.
    pub(crate) request: u32,
    /// Tokens made before.
    pub(crate) generated: u32,
    /// Groups it held when it was preempted.
    pub(crate) own_groups: u32,
    /// When its latest token left, 0 before the first.
    pub(crate) sent_ns: i64,
    /// Whether it ran here before.
    pub(crate) is_resumed: bool,
    /// Whether its KV comes over the link, so that nothing is to be computed.
    pub(crate) is_transferred: bool,
}

impl Entry {
    /// Total order: importance, then age, then place in the workload.
    pub(crate) fn key(&self) -> (i32, i64, u32) {
        (self.priority, self.reached_ns, self.request)
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Waiting {
    heap: BinaryHeap<Reverse<Entry>>,
    policy: Policy,
}

impl Waiting {
    pub(crate) fn new(policy: Policy) -> Self {
        Self { heap: BinaryHeap::new(), policy }
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Who is next.
    pub(crate) fn peek(&self) -> Option<&Entry> {
        self.heap.peek().map(|Reverse(entry)| entry)
    }

    pub(crate) fn pop(&mut self) -> Option<Entry> {
        self.heap.pop().map(|Reverse(entry)| entry)
    }

    /// Puts a request in; true when it is the new head.
    pub(crate) fn push(&mut self, mut entry: Entry) -> bool {
        if self.policy == Policy::Fcfs {
            entry.priority = 0;
        }
        let request = entry.request;
        self.heap.push(Reverse(entry));
        self.peek().is_some_and(|head| head.request == request)
    }
}
