//! What a request passes before an engine: connections, the gateway, a proxy, the tokenizer pool.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::config::{Front, Servers};

/// Whether a request may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It has a connection.
    Now,
    /// It waits outside for one.
    Later,
}

/// Connections and tokenizers.
#[derive(Debug)]
pub(crate) struct FrontState {
    cap: Option<u32>,
    connected: u32,
    outside: VecDeque<u32>,
    gateway_ns: i64,
    proxy: Option<Pool>,
    tokenizer: Option<Pool>,
}

impl FrontState {
    pub(crate) fn new(front: &Front) -> Self {
        Self {
            cap: front.connection_cap,
            connected: 0,
            outside: VecDeque::new(),
            gateway_ns: front.gateway_ns,
            proxy: front.proxy.map(Pool::new),
            tokenizer: front.tokenizer.map(Pool::new),
        }
    }

    /// Asks for a connection.
    pub(crate) fn connect(&mut self, request: u32) -> Admission {
        if self.cap.is_some_and(|cap| self.connected >= cap) {
            self.outside.push_back(request);
            return Admission::Later;
        }
        self.connected += 1;
        Admission::Now
    }

    /// A connection is free; the request that gets it.
    pub(crate) fn disconnect(&mut self) -> Option<u32> {
        let next = self.outside.pop_front();
        if next.is_none() {
            self.connected -= 1;
        }
        next
    }

    /// When a request that connected at `at_ns` is through gateway, proxy and tokenizer. To be asked in order of time; what
    /// leaves the proxy earlier than its predecessor still waits behind it at the tokenizer.
    pub(crate) fn tokenized_ns(&mut self, at_ns: i64, prompt_tokens: u32) -> i64 {
        let at_ns = at_ns.saturating_add(self.gateway_ns);
        let pools = [&mut self.proxy, &mut self.tokenizer].into_iter().flatten();
        pools.fold(at_ns, |at_ns, pool| pool.done_ns(at_ns, pool.work_ns(prompt_tokens)))
    }
}

/// Servers that take requests first come, first served.
#[derive(Debug)]
pub(crate) struct Pool {
    servers: Servers,
    free_ns: BinaryHeap<Reverse<i64>>,
}

impl Pool {
    pub(crate) fn new(servers: Servers) -> Self {
        Self { servers, free_ns: (0..servers.count).map(|_| Reverse(0)).collect() }
    }

    /// Time of one server for this many tokens.
    pub(crate) fn work_ns(&self, tokens: u32) -> i64 {
        self.servers.request_ns.saturating_add((f64::from(tokens) * self.servers.token_ns) as i64)
    }

    /// When work that comes at `at_ns` is done.
    pub(crate) fn done_ns(&mut self, at_ns: i64, work_ns: i64) -> i64 {
        let free_ns = self.free_ns.pop().map_or(0, |Reverse(ns)| ns);
        let done_ns = free_ns.max(at_ns).saturating_add(work_ns);
        self.free_ns.push(Reverse(done_ns));
        done_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tokenizers_serve_in_turn() {
        let mut pool = Pool::new(Servers { count: 2, request_ns: 10, token_ns: 0.5 });
        let done: Vec<i64> = [(0, 20), (0, 20), (0, 20), (100, 0)]
            .map(|(at_ns, tokens)| {
                let work_ns = pool.work_ns(tokens);
                pool.done_ns(at_ns, work_ns)
            })
            .to_vec();
        assert_eq!(done, [20, 20, 40, 110]);
    }

    #[test]
    fn who_waits_outside_comes_in_order() {
        let mut front = FrontState::new(&Front { connection_cap: Some(1), ..Front::default() });
        assert_eq!((front.connect(7), front.connect(8), front.connect(9)), (Admission::Now, Admission::Later, Admission::Later));
        assert_eq!((front.disconnect(), front.disconnect(), front.disconnect()), (Some(8), Some(9), None));
        assert_eq!(front.connect(1), Admission::Now);
    }
}
