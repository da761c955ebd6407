//! The whole system in event order: clients, what stands before the engines, the balancer, the engines, the KV link.
//!
//! Replicas run ahead on their own up to the next event that can concern them. Without feedback (open loop, no
//! connection cap, one pool) that is the next arrival; with it, a replica never passes the start of another's next step
//! by more than its own, so that an answer can release a request into the past of nobody.

pub(crate) mod front;
pub(crate) mod route;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::config::{ConfigError, Load, SystemConfig, Topology};
use crate::cost::StepCost;
use crate::engine::observe::{Nobody, Observer};
use crate::engine::replica::{Inputs, Leave, Replica, Role};
use crate::outcome::{Outcome, Row, State};
use crate::verdict::judge;
use crate::workload::Workload;

use front::{Admission, FrontState};
use route::{Link, Router};

/// Simulates a workload on a system whose steps take as long as `cost` says.
pub fn simulate<C: StepCost + ?Sized>(workload: &Workload, config: &SystemConfig, cost: &C) -> Result<Outcome, ConfigError> {
    simulate_with(workload, config, cost, &mut Nobody)
}

/// The same with somebody looking on.
pub fn simulate_with<C: StepCost + ?Sized, O: Observer>(
    workload: &Workload,
    config: &SystemConfig,
    cost: &C,
    observer: &mut O,
) -> Result<Outcome, ConfigError> {
    config.check()?;
    check_blocks(workload, config)?;
    let inputs = Inputs { workload, engine: &config.engine, cost, jump: config.jump };
    let mut system = System::new(workload, config);
    system.run(&inputs, observer);
    let is_cut = system.rows.iter().any(|row| matches!(row.state, State::Waiting | State::Running));
    let tallies: Vec<_> = system.replicas.into_iter().map(Replica::into_tally).collect();
    let verdict = judge(workload, &system.rows, &tallies, config);
    Ok(Outcome { rows: system.rows, tallies, is_cut, verdict })
}

/// Most shared blocks that all replicas together keep books about, 16 bytes each.
const MOST_BOOKED_BLOCKS: u64 = 100_000_000;

/// Shared blocks are made of whole engine blocks, and each replica that prefills keeps books about all of them.
fn check_blocks(workload: &Workload, config: &SystemConfig) -> Result<(), ConfigError> {
    let (shared, own) = (workload.hash_block_tokens(), config.engine.block_tokens);
    if config.engine.prefix_caching && !shared.is_multiple_of(own) {
        let expected = "a divisor of the workload's tokens per hash, or prefix caching off";
        return Err(ConfigError { field: "engine.block_tokens", expected, found: format!("{own}, {shared} tokens per hash") });
    }
    let (Topology::Unified { replicas } | Topology::Split { prefill: replicas, .. }) = config.topology;
    let booked = u64::from(replicas) * u64::from(workload.distinct_blocks());
    if config.engine.prefix_caching && booked > MOST_BOOKED_BLOCKS {
        let expected = "at most 100000000 replicas x shared blocks, or prefix caching off";
        return Err(ConfigError { field: "topology.replicas", expected, found: format!("{replicas} x {}", workload.distinct_blocks()) });
    }
    Ok(())
}

/// What happens next to a request outside the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Its answer is complete at the client.
    Answered(u32),
    /// Its prompt is tokenized: an engine gets it.
    Reach(u32),
    /// Its KV has arrived at the decode pool.
    Moved(u32),
    /// A user sends it (closed loop).
    Send(u32),
}

struct System<'a> {
    config: &'a SystemConfig,
    rows: Vec<Row>,
    replicas: Vec<Replica>,
    /// How many of the replicas take new requests; the rest decode.
    entry_count: usize,
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    event_count: u64,
    /// Next request of the workload that nobody has sent yet.
    next: usize,
    front: FrontState,
    router: Router,
    decode_router: Router,
    link: Option<Link>,
    steps_left: u64,
    has_feedback: bool,
    finished: Vec<u32>,
}

impl<'a> System<'a> {
    fn new(workload: &Workload, config: &'a SystemConfig) -> Self {
        let replica = |index: u32, role| Replica::new(index, role, &config.engine, &config.delivery, workload, config.seed);
        let (replicas, entry_count, link): (Vec<Replica>, usize, _) = match config.topology {
            Topology::Unified { replicas } => ((0..replicas).map(|at| replica(at, Role::Unified)).collect(), replicas as usize, None),
            Topology::Split { prefill, decode, link } => {
                let role = |at| if at < prefill { Role::Prefill } else { Role::Decode };
                ((0..prefill + decode).map(|at| replica(at, role(at))).collect(), prefill as usize, Some(Link::new(link)))
            }
        };
        let has_feedback = config.load != Load::Open || config.front.connection_cap.is_some() || link.is_some();
        Self {
            config,
            rows: workload.requests().iter().map(|request| Row::new(request.arrival_ns)).collect(),
            replicas,
            entry_count,
            events: BinaryHeap::new(),
            event_count: 0,
            next: 0,
            front: FrontState::new(&config.front),
            router: Router::new(config.routing.clone(), config.seed),
            decode_router: Router::new(crate::config::Routing::LeastRequests, config.seed),
            link,
            steps_left: config.step_limit,
            has_feedback,
            finished: Vec::new(),
        }
    }

    fn run<C: StepCost + ?Sized, O: Observer>(&mut self, inputs: &Inputs<'_, C>, observer: &mut O) {
        if let Load::Closed { users, .. } = self.config.load {
            for _ in 0..(users as usize).min(self.rows.len()) {
                self.send_next(0);
            }
        }
        while self.steps_left > 0 {
            let event_ns = self.next_event_ns(inputs.workload);
            if self.has_feedback {
                if self.advance_one(event_ns.unwrap_or(i64::MAX), inputs, observer) {
                    continue;
                }
            } else {
                let leave = Leave { until_ns: event_ns.unwrap_or(i64::MAX), until_finish: false };
                for replica in &mut self.replicas {
                    replica.run_until(leave, inputs, &mut self.rows, observer, &mut self.steps_left);
                    replica.take_finished(&mut self.finished);
                }
                self.finished.clear();
            }
            let Some(at_ns) = event_ns else { return };
            self.take_event(at_ns, inputs);
        }
    }

    /// When something happens outside the engines next.
    fn next_event_ns(&self, workload: &Workload) -> Option<i64> {
        let event_ns = self.events.peek().map(|Reverse(event)| event.0);
        let is_open = self.config.load == Load::Open;
        let arrival_ns = workload.requests().get(self.next).filter(|_| is_open).map(|request| request.arrival_ns);
        event_ns.into_iter().chain(arrival_ns).min()
    }

    /// With feedback: runs the replica that is furthest behind, up to the next one's step or its own next answer. False
    /// when none has a step before `until_ns`.
    fn advance_one<C: StepCost + ?Sized, O: Observer>(&mut self, until_ns: i64, inputs: &Inputs<'_, C>, observer: &mut O) -> bool {
        let mut starts = self.replicas.iter().enumerate().filter_map(|(at, replica)| replica.next_start_ns().map(|ns| (ns, at)));
        let Some(mut first) = starts.next() else { return false };
        let mut second_ns = i64::MAX;
        for start in starts {
            if start < first {
                second_ns = first.0;
                first = start;
            } else {
                second_ns = second_ns.min(start.0);
            }
        }
        if first.0 >= until_ns {
            return false;
        }
        let leave = Leave { until_ns: until_ns.min(second_ns.max(first.0 + 1)), until_finish: true };
        self.replicas[first.1].run_until(leave, inputs, &mut self.rows, observer, &mut self.steps_left);
        self.follow_up(first.1, 0, inputs.workload);
        true
    }

    /// What finished requests of a replica set off; requests refused are answered at `now_ns`.
    fn follow_up(&mut self, replica: usize, now_ns: i64, workload: &Workload) {
        let mut finished = std::mem::take(&mut self.finished);
        self.replicas[replica].take_finished(&mut finished);
        for request in finished.drain(..) {
            let row = &self.rows[request as usize];
            match (&mut self.link, row.state) {
                (Some(link), State::Running) if replica < self.entry_count => {
                    let tokens = workload.requests()[request as usize].prompt_tokens;
                    let moved_ns = link.moved_ns(row.first_token_ns, tokens);
                    self.push(moved_ns, Event::Moved(request));
                }
                _ => {
                    let answered_ns = if row.state == State::Rejected { now_ns.max(row.reached_ns) } else { row.client_last_ns };
                    self.push(answered_ns, Event::Answered(request));
                }
            }
        }
        self.finished = finished;
    }

    fn push(&mut self, at_ns: i64, event: Event) {
        self.event_count += 1;
        self.events.push(Reverse((at_ns, self.event_count, event)));
    }

    /// The next event, all replicas having run up to it. Arrivals come before events of the same time.
    fn take_event<C: StepCost + ?Sized>(&mut self, at_ns: i64, inputs: &Inputs<'_, C>) {
        let is_arrival =
            self.config.load == Load::Open && inputs.workload.requests().get(self.next).is_some_and(|request| request.arrival_ns == at_ns);
        if is_arrival {
            let request = self.next as u32;
            self.next += 1;
            self.enter(request, at_ns, inputs);
            return;
        }
        let Some(Reverse((_, _, event))) = self.events.pop() else { return };
        match event {
            Event::Send(request) => {
                self.rows[request as usize].arrival_ns = at_ns;
                self.enter(request, at_ns, inputs);
            }
            Event::Reach(request) => self.reach(request, at_ns, inputs),
            Event::Moved(request) => {
                let decode = &mut self.replicas[self.entry_count..];
                let at = self.decode_router.pick(request, at_ns, inputs.workload, decode) + self.entry_count;
                self.hand_over(at, request, at_ns, inputs);
            }
            Event::Answered(request) => self.answered(request, at_ns, inputs),
        }
    }

    /// A request comes to the proxy.
    fn enter<C: ?Sized>(&mut self, request: u32, at_ns: i64, inputs: &Inputs<'_, C>) {
        if self.front.connect(request) == Admission::Now {
            self.pass(request, at_ns, inputs);
        }
    }

    /// It has a connection: gateway and tokenizer.
    fn pass<C: ?Sized>(&mut self, request: u32, at_ns: i64, inputs: &Inputs<'_, C>) {
        let tokens = inputs.workload.requests()[request as usize].prompt_tokens;
        let reached_ns = self.front.tokenized_ns(at_ns, tokens);
        if reached_ns == at_ns {
            self.reach(request, at_ns, inputs);
        } else {
            self.push(reached_ns, Event::Reach(request));
        }
    }

    /// It comes to the balancer.
    fn reach<C: ?Sized>(&mut self, request: u32, at_ns: i64, inputs: &Inputs<'_, C>) {
        self.rows[request as usize].reached_ns = at_ns;
        let at = self.router.pick(request, at_ns, inputs.workload, &self.replicas[..self.entry_count]);
        self.hand_over(at, request, at_ns, inputs);
    }

    fn hand_over<C: ?Sized>(&mut self, replica: usize, request: u32, at_ns: i64, inputs: &Inputs<'_, C>) {
        self.replicas[replica].accept(request, at_ns, &mut self.rows[request as usize], inputs);
        if self.has_feedback && self.rows[request as usize].state == State::Rejected {
            self.follow_up(replica, at_ns, inputs.workload);
        }
    }

    /// The client has its answer: the connection is free, and in a closed loop the user thinks.
    fn answered<C: ?Sized>(&mut self, _request: u32, at_ns: i64, inputs: &Inputs<'_, C>) {
        if let Some(next) = self.front.disconnect() {
            self.pass(next, at_ns, inputs);
        }
        if let Load::Closed { think_ns, .. } = self.config.load {
            self.send_next(at_ns.saturating_add(think_ns));
        }
    }

    fn send_next(&mut self, at_ns: i64) {
        if self.next < self.rows.len() {
            let request = self.next as u32;
            self.next += 1;
            self.push(at_ns, Event::Send(request));
        }
    }
}
