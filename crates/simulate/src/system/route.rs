//! Which replica gets a request, and how its KV gets from one pool to the other.

use super::front::Pool;
use crate::config::{KvLink, Routing, Servers};
use crate::engine::replica::Replica;
use crate::rng::{Rng, split_mix};
use crate::workload::Workload;

/// A balancer.
#[derive(Debug)]
pub(crate) struct Router {
    routing: Routing,
    turn: usize,
    rng: Rng,
}

impl Router {
    pub(crate) fn new(routing: Routing, seed: u64) -> Self {
        Self { routing, turn: 0, rng: Rng::new(seed, 0x10) }
    }

    /// The replica for a request at `now_ns`. There is at least one.
    pub(crate) fn pick(&mut self, request: u32, now_ns: i64, workload: &Workload, replicas: &[Replica]) -> usize {
        let count = replicas.len();
        if count == 1 {
            return 0;
        }
        match &self.routing {
            Routing::RoundRobin => {
                self.turn = (self.turn + 1) % count;
                (self.turn + count - 1) % count
            }
            Routing::LeastRequests => least(now_ns, replicas),
            Routing::Random => self.rng.below(count as u32) as usize,
            Routing::Weighted(weights) => weighted(weights, &mut self.rng),
            Routing::PrefixAffinity => {
                let request = &workload.requests()[request as usize];
                let key = workload.blocks(request).first().map_or(u64::from(request.session) | 1 << 40, |&block| u64::from(block));
                let home = (split_mix(key) % count as u64) as usize;
                let total: u64 = replicas.iter().map(|replica| replica.outstanding(now_ns)).sum();
                let bound = 1.25 * total as f64 / count as f64 + 4.0;
                if replicas[home].outstanding(now_ns) as f64 > bound { least(now_ns, replicas) } else { home }
            }
        }
    }
}

fn least(now_ns: i64, replicas: &[Replica]) -> usize {
    let loads = replicas.iter().enumerate().map(|(at, replica)| (replica.outstanding(now_ns), at));
    loads.min().map_or(0, |(_, at)| at)
}

fn weighted(weights: &[u32], rng: &mut Rng) -> usize {
    let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
    let mut left = (rng.uniform() * total as f64) as u64;
    for (at, &weight) in weights.iter().enumerate() {
        if left < u64::from(weight) {
            return at;
        }
        left -= u64::from(weight);
    }
    0
}

/// The link between two pools.
#[derive(Debug)]
pub(crate) struct Link {
    latency_ns: i64,
    lanes: Pool,
}

impl Link {
    pub(crate) fn new(link: KvLink) -> Self {
        let lanes = Pool::new(Servers { count: link.lanes, request_ns: 0, token_ns: link.token_ns });
        Self { latency_ns: link.latency_ns, lanes }
    }

    /// When the KV of a prompt that was complete at `at_ns` is on the other side. Nearly in order of time: a replica may
    /// be a step ahead of another.
    pub(crate) fn moved_ns(&mut self, at_ns: i64, tokens: u32) -> i64 {
        let work_ns = self.lanes.work_ns(tokens);
        self.lanes.done_ns(at_ns, work_ns).saturating_add(self.latency_ns)
    }
}
