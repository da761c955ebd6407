//! The system driven from outside: requests come when they come, time passes as the caller says.
//!
//! For a server whose clock is real. A step is decided when it starts and its tokens are handed out when it ends, so that
//! nothing a caller does can change what already began. [`Online::advance`] does everything due up to a time,
//! [`Online::next_ns`] says when there is more to do. The same submissions at the same times give the same answers.
//!
//! Left out: pools that split prefill from decode, closed loops (the caller is the load), aborts (a request whose caller
//! went away is answered to the end).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::config::{ConfigError, Load, SystemConfig, Topology};
use crate::cost::StepCost;
use crate::engine::observe::{Observer, StepReport};
use crate::engine::replica::{Inputs, Leave, Replica, Role};
use crate::outcome::{Row, State};
use crate::system::front::{Admission, FrontState};
use crate::system::route::Router;
use crate::workload::{Builder, Request};

/// Most requests that one driver takes: it keeps books about each.
pub const MOST_REQUESTS: usize = 1_000_000;
/// Most different blocks that prompts may share; later prompts share nothing.
const MOST_BLOCKS: u32 = 50_000_000;

/// Something reaches the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The engine made tokens; they are on their way.
    Made {
        /// Number of the request.
        request: u32,
        /// When the step ended, nanoseconds.
        at_ns: i64,
        /// How many.
        tokens: u32,
        /// Whether the answer is complete.
        is_last: bool,
    },
    /// Tokens of an answer reach the caller.
    Tokens {
        /// Number of the request.
        request: u32,
        /// When they left, nanoseconds.
        at_ns: i64,
        /// How many came together.
        tokens: u32,
        /// Whether the answer is complete.
        is_last: bool,
    },
    /// The request can never run.
    Rejected {
        /// Number of the request.
        request: u32,
        /// When that was known.
        at_ns: i64,
    },
}

impl Delivery {
    fn at_ns(&self) -> i64 {
        match self {
            Self::Made { at_ns, .. } | Self::Tokens { at_ns, .. } | Self::Rejected { at_ns, .. } => *at_ns,
        }
    }

    fn request(&self) -> u32 {
        match self {
            Self::Made { request, .. } | Self::Tokens { request, .. } | Self::Rejected { request, .. } => *request,
        }
    }

    fn is_end(&self) -> bool {
        matches!(self, Self::Rejected { .. } | Self::Tokens { is_last: true, .. })
    }
}

/// State of one replica now, and counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaState {
    /// Requests that run.
    pub running: u64,
    /// Requests that wait.
    pub waiting: u64,
    /// Blocks in use.
    pub used_blocks: u32,
    /// All blocks.
    pub total_blocks: u32,
    /// Preemptions.
    pub preemptions: u64,
    /// Prompt tokens computed.
    pub prefill_tokens: u64,
    /// Tokens made.
    pub made_tokens: u64,
    /// Engine steps.
    pub steps: u64,
    /// Drafts: one per sequence and step.
    pub drafts: u64,
    /// Drafted tokens accepted.
    pub accepted_tokens: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Enter(u32),
    Reach(u32),
}

/// Progress of one answer.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Tokens taken from the engine.
    taken: u32,
    /// Of those, held back for a chunk that is not full.
    held: u32,
}

/// Looks at the steps of one call.
#[derive(Debug, Default)]
struct Steps(Option<StepReport>);

impl Observer for Steps {
    fn step(&mut self, report: &StepReport) {
        self.0 = Some(*report);
    }
}

/// A system that runs along with the caller's clock.
pub struct Online<C> {
    config: SystemConfig,
    cost: C,
    requests: Builder,
    rows: Vec<Row>,
    progress: Vec<Progress>,
    replicas: Vec<Replica>,
    decoded: Vec<u64>,
    front: FrontState,
    router: Router,
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    due: BinaryHeap<Reverse<(i64, u64, u32)>>,
    /// Deliveries behind `due`, by their number; taken out when handed over.
    outgoing: std::collections::HashMap<u64, Delivery>,
    number: u64,
    finished: Vec<u32>,
    reports: Vec<StepReport>,
}

impl<C: StepCost> Online<C> {
    /// A system that nobody has asked anything yet.
    ///
    /// # Errors
    /// What [`SystemConfig::check`] refuses, split pools and closed loops.
    pub fn new(config: SystemConfig, cost: C) -> Result<Self, ConfigError> {
        config.check()?;
        let Topology::Unified { replicas } = config.topology else {
            return Err(ConfigError { field: "topology", expected: "replicas that prefill and decode", found: "split pools".into() });
        };
        if config.load != Load::Open {
            return Err(ConfigError { field: "load", expected: "an open loop", found: "a closed loop".into() });
        }
        let requests = Builder::online(config.engine.block_tokens);
        let replica = |at| Replica::new(at, Role::Unified, &config.engine, &config.delivery, requests.workload(), config.seed);
        Ok(Self {
            replicas: (0..replicas).map(replica).collect(),
            decoded: vec![0; replicas as usize],
            front: FrontState::new(&config.front),
            router: Router::new(config.routing.clone(), config.seed),
            rows: Vec::new(),
            progress: Vec::new(),
            events: BinaryHeap::new(),
            due: BinaryHeap::new(),
            outgoing: std::collections::HashMap::new(),
            number: 0,
            finished: Vec::new(),
            reports: Vec::new(),
            requests,
            config,
            cost,
        })
    }

    /// Takes a request in at `now_ns`, which must not lie before what was already advanced to. `blocks` are hashes of the
    /// prompt's whole blocks, each of everything up to its end. Returns its number; `None` when the books are full.
    pub fn submit(&mut self, now_ns: i64, prompt_tokens: u32, output_tokens: u32, blocks: &[u64]) -> Option<u32> {
        if self.rows.len() >= MOST_REQUESTS {
            return None;
        }
        let number = self.rows.len() as u32;
        let has_room = self.requests.workload().distinct_blocks() < MOST_BLOCKS;
        self.requests.push(Request::new(now_ns, prompt_tokens, output_tokens), if has_room { blocks } else { &[] });
        let distinct = self.requests.workload().distinct_blocks();
        for replica in &mut self.replicas {
            replica.grow(distinct);
        }
        self.rows.push(Row::new(now_ns));
        self.progress.push(Progress::default());
        self.push(now_ns, Event::Enter(number));
        Some(number)
    }

    /// When something happens next, nanoseconds; `None` while nobody is served.
    pub fn next_ns(&self) -> Option<i64> {
        let event = self.events.peek().map(|Reverse(event)| event.0);
        let due = self.due.peek().map(|Reverse(due)| due.0);
        let step = self.replicas.iter().filter_map(Replica::next_start_ns).min();
        event.into_iter().chain(due).chain(step).min()
    }

    /// Does everything due up to `now_ns` and hands over what reached callers by then, in order.
    pub fn advance(&mut self, now_ns: i64, mut deliver: impl FnMut(Delivery)) {
        while let Some(next_ns) = self.next_ns().filter(|next| *next <= now_ns) {
            if self.due.peek().is_some_and(|Reverse(due)| due.0 == next_ns) {
                self.hand_over(&mut deliver);
            } else if self.events.peek().is_some_and(|Reverse(event)| event.0 == next_ns) {
                self.take_event();
            } else if let Some(at) = (0..self.replicas.len()).find(|&at| self.replicas[at].next_start_ns() == Some(next_ns)) {
                self.step(at, next_ns);
            }
        }
    }

    /// A request's times.
    pub fn row(&self, request: u32) -> &Row {
        &self.rows[request as usize]
    }

    /// A request as submitted.
    pub fn request(&self, request: u32) -> &Request {
        &self.requests.workload().requests()[request as usize]
    }

    /// The replicas now.
    pub fn states(&self) -> Vec<ReplicaState> {
        let state = |(at, replica): (usize, &Replica)| ReplicaState {
            drafts: if self.config.engine.speculation.is_some() { self.decoded[at] } else { 0 },
            accepted_tokens: if self.config.engine.speculation.is_some() {
                replica.state().made_tokens.saturating_sub(self.decoded[at] + replica.first_tokens())
            } else {
                0
            },
            ..replica.state()
        };
        self.replicas.iter().enumerate().map(state).collect()
    }

    /// Steps begun since the last call.
    pub fn take_steps(&mut self) -> Vec<StepReport> {
        std::mem::take(&mut self.reports)
    }

    /// What it was built with.
    pub fn config(&self) -> &SystemConfig {
        &self.config
    }

    fn push(&mut self, at_ns: i64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at_ns, self.number, event)));
    }

    fn send(&mut self, delivery: Delivery) {
        self.number += 1;
        self.due.push(Reverse((delivery.at_ns(), self.number, delivery.request())));
        self.outgoing.insert(self.number, delivery);
    }

    fn hand_over(&mut self, deliver: &mut impl FnMut(Delivery)) {
        let Some(Reverse((at_ns, number, _))) = self.due.pop() else { return };
        let Some(delivery) = self.outgoing.remove(&number) else { return };
        if delivery.is_end()
            && let Some(next) = self.front.disconnect()
        {
            self.pass(next, at_ns);
        }
        deliver(delivery);
    }

    fn take_event(&mut self) {
        let Some(Reverse((at_ns, _, event))) = self.events.pop() else { return };
        match event {
            Event::Enter(request) if self.front.connect(request) == Admission::Now => self.pass(request, at_ns),
            Event::Enter(_) => {}
            Event::Reach(request) => self.reach(request, at_ns),
        }
    }

    fn pass(&mut self, request: u32, at_ns: i64) {
        let tokens = self.request(request).prompt_tokens;
        self.rows[request as usize].arrival_ns = at_ns;
        let reached_ns = self.front.tokenized_ns(at_ns, tokens);
        self.push(reached_ns, Event::Reach(request));
    }

    fn reach(&mut self, request: u32, at_ns: i64) {
        self.rows[request as usize].reached_ns = at_ns;
        let at = self.router.pick(request, at_ns, self.requests.workload(), &self.replicas);
        let inputs = Inputs { workload: self.requests.workload(), engine: &self.config.engine, cost: &self.cost, jump: false };
        self.replicas[at].accept(request, at_ns, &mut self.rows[request as usize], &inputs);
        if self.rows[request as usize].state == State::Rejected {
            self.finished.clear();
            self.replicas[at].take_finished(&mut self.finished);
            self.send(Delivery::Rejected { request, at_ns });
        }
    }

    /// One step of a replica, and what comes of it.
    fn step(&mut self, at: usize, start_ns: i64) {
        let inputs = Inputs { workload: self.requests.workload(), engine: &self.config.engine, cost: &self.cost, jump: false };
        let leave = Leave { until_ns: start_ns.saturating_add(1), until_finish: true };
        let (mut steps_left, mut seen) = (1, Steps::default());
        self.replicas[at].run_until(leave, &inputs, &mut self.rows, &mut seen, &mut steps_left);
        if let Some(report) = seen.0 {
            self.decoded[at] += u64::from(report.decode_seqs);
            self.reports.push(report);
        }
        let end_ns = self.replicas[at].clock_ns();
        let sent_ns = self.replicas[at].sent_ns();
        let mut finished = std::mem::take(&mut self.finished);
        finished.clear();
        self.replicas[at].take_finished(&mut finished);
        let mut made = Vec::new();
        self.replicas[at].progress(|request, tokens| {
            if tokens > self.progress[request as usize].taken {
                made.push((request, tokens));
            }
        });
        for (request, tokens) in made {
            self.take_tokens(request, tokens, (end_ns, sent_ns), false);
        }
        for &request in &finished {
            if self.rows[request as usize].state == State::Rejected {
                self.send(Delivery::Rejected { request, at_ns: sent_ns.max(start_ns) });
            } else {
                self.take_tokens(request, self.request(request).output_tokens, (end_ns, sent_ns), true);
            }
        }
        self.finished = finished;
    }

    /// An answer is `tokens` long now: what fills a chunk leaves. `times`: when they were made and when they leave.
    fn take_tokens(&mut self, request: u32, tokens: u32, times: (i64, i64), is_last: bool) {
        let new = tokens - self.progress[request as usize].taken;
        self.send(Delivery::Made { request, at_ns: times.0, tokens: new, is_last });
        let delivery = &self.config.delivery;
        let progress = &mut self.progress[request as usize];
        let is_first = progress.taken == 0;
        progress.held += tokens - progress.taken;
        progress.taken = tokens;
        let is_full = (is_first || progress.held >= delivery.burst_tokens) && !delivery.buffering_proxy;
        if is_last || is_full {
            let tokens = std::mem::take(&mut progress.held);
            self.send(Delivery::Tokens { request, at_ns: times.1, tokens, is_last });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{EngineConfig, Front, Servers};
    use crate::cost::LinearCost;
    use crate::system::simulate;
    use crate::workload::{Arrivals, Generator, Lengths};

    const COST: LinearCost = LinearCost { a_s: 0.008, b_s: 7e-5, c_s: 3e-5, d_s: 0.0, e_s: 0.0 };

    fn tight() -> SystemConfig {
        let mut config = SystemConfig::single(EngineConfig { max_num_seqs: 8, ..EngineConfig::vllm(300) });
        config.topology = Topology::Unified { replicas: 2 };
        config.front =
            Front { gateway_ns: 1_000_000, tokenizer: Some(Servers { count: 1, request_ns: 0, token_ns: 900.0 }), ..Front::default() };
        config
    }

    /// Driving in real time, in whatever slices, gives each request the times of the simulation as a whole.
    #[test]
    fn driven_in_slices_it_is_the_simulation() {
        let generator = Generator {
            count: 300,
            arrivals: Arrivals::Poisson { per_s: 20.0 },
            prompts: Lengths::LogNormal { median: 300.0, sigma: 0.6, most: 1500 },
            outputs: Lengths::LogNormal { median: 60.0, sigma: 0.6, most: 400 },
            prefix: None,
            seed: 5,
        };
        let workload = generator.generate();
        let whole = simulate(&workload, &tight(), &COST).unwrap();
        assert!(whole.tallies.iter().any(|tally| tally.preemptions > 0), "the cache is not tight enough to test preemption");
        for slice_ns in [700_000, 13_000_000] {
            let mut online = Online::new(tight(), COST).unwrap();
            let (mut made, mut ends) = (vec![0; 300], vec![0; 300]);
            let mut at = 0;
            let mut now_ns = 0;
            while at < workload.requests().len() || online.next_ns().is_some() {
                let next_arrival = workload.requests().get(at).map_or(i64::MAX, |request| request.arrival_ns);
                now_ns = (now_ns + slice_ns).min(next_arrival);
                online.advance(now_ns, |delivery| match delivery {
                    Delivery::Tokens { request, at_ns, tokens, is_last } => {
                        assert!(at_ns <= now_ns && ends[request as usize] <= at_ns);
                        made[request as usize] += tokens;
                        ends[request as usize] = at_ns;
                        assert_eq!(is_last, made[request as usize] == workload.requests()[request as usize].output_tokens);
                    }
                    Delivery::Made { at_ns, .. } => assert!(at_ns <= now_ns),
                    Delivery::Rejected { .. } => panic!("nothing is too long"),
                });
                while let Some(request) = workload.requests().get(at).filter(|request| request.arrival_ns == now_ns) {
                    online.submit(now_ns, request.prompt_tokens, request.output_tokens, &[]);
                    at += 1;
                }
            }
            for (at, row) in whole.rows.iter().enumerate() {
                assert_eq!(online.row(at as u32), row, "request {at}");
                assert_eq!(ends[at], row.client_last_ns, "request {at}");
            }
        }
    }

    #[test]
    fn a_shared_prompt_is_found_and_bursts_come_together() {
        let mut config = SystemConfig::single(EngineConfig::vllm(1000));
        config.delivery.burst_tokens = 4;
        let mut online = Online::new(config, COST).unwrap();
        let mut seen = Vec::new();
        online.submit(0, 64, 10, &[1, 2, 3, 4]).unwrap();
        online.advance(10_000_000_000, |delivery| seen.push(delivery));
        online.submit(10_000_000_000, 64, 1, &[1, 2, 3, 9]).unwrap();
        online.advance(20_000_000_000, |_| ());
        let tokens_of = |delivery: &Delivery| if let Delivery::Tokens { tokens, .. } = delivery { Some(*tokens) } else { None };
        let tokens: Vec<u32> = seen.iter().filter_map(tokens_of).collect();
        assert_eq!(tokens, [1, 4, 4, 1]);
        assert_eq!((online.row(0).cached_tokens, online.row(1).cached_tokens), (0, 48));
        assert_eq!((online.next_ns(), online.states()[0].made_tokens), (None, 11));
    }

    #[test]
    fn what_can_never_run_is_refused_and_frees_its_connection() {
        let mut config = SystemConfig::single(EngineConfig::vllm(10));
        config.front.connection_cap = Some(1);
        let mut online = Online::new(config, COST).unwrap();
        online.submit(0, 100_000, 1, &[]).unwrap();
        online.submit(0, 16, 1, &[]).unwrap();
        let mut seen = Vec::new();
        online.advance(1_000_000_000, |delivery| seen.push(delivery));
        assert_eq!(seen[0], Delivery::Rejected { request: 0, at_ns: 0 });
        assert!(matches!(seen[2], Delivery::Tokens { request: 1, tokens: 1, is_last: true, .. }), "{seen:?}");
    }
}
