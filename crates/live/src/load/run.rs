//! Sends the requests of a plan and collects what came of them. One thread listens; another makes requests (`pacer`).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::{Method, Request};
use simulate::Workload;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, channel, unbounded_channel};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::Instant;

use super::attempt::{Attempt, Ending, exchange};
use super::body::{Api, Dialect, Form};
use super::figures::{Spread, Weighted};
use super::health::{CpuTime, Health, cpu_time};
use super::pacer::{self, Job};
use super::said::{Counted, Counter};
use super::tokenizer::Tokenizer;
use crate::address::Address;
use crate::authorization::Authorization;
use crate::clock::Clock;
use crate::http::{self, Connection, ExchangeError, HttpVersion};
use crate::window::runtime;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the watcher is told.
const SHOW_INTERVAL: Duration = Duration::from_millis(200);
/// How long a user of a closed loop waits who found no server: one that is gone is not hammered.
const AFTER_REFUSAL: Duration = Duration::from_millis(100);
/// Requests made ahead of the users of a closed loop.
const MADE_AHEAD: usize = 32;

/// Who decides when a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// The workload's own arrival times.
    Open,
    /// This many users, each with one request at a time.
    Closed {
        /// Users.
        users: u32,
        /// Between an answer and the next request of a user.
        think: Duration,
        /// Users start one after the other over this time. What is sent meanwhile counts.
        ramp: Duration,
    },
}

/// A load.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Base address of the server.
    pub server: Address,
    /// Who asks.
    pub authorization: Option<Authorization>,
    /// What is spoken on connections.
    pub http: HttpVersion,
    /// Endpoint.
    pub api: Api,
    /// How the server is spoken to.
    pub dialect: Dialect,
    /// Model name.
    pub model: String,
    /// Whether answers are streamed.
    pub is_streamed: bool,
    /// Whether answers may end before their limit.
    pub may_end_early: bool,
    /// The requests.
    pub workload: Workload,
    /// What makes prompts of an exact length, and counts tokens the server does not tell.
    pub tokenizer: Option<Tokenizer>,
    /// When they are sent.
    pub schedule: Schedule,
    /// The first so many requests do not count.
    pub warmup: usize,
    /// Nothing is sent after this.
    pub duration: Option<Duration>,
    /// Longest wait for an answer.
    pub timeout: Duration,
    /// How long answers are waited for after the last request was sent or the load was stopped.
    pub drain: Duration,
    /// Most requests in flight; more wait in the client, which counts as its slip.
    pub most_in_flight: u32,
    /// Seed of the texts.
    pub seed: u64,
}

impl Plan {
    pub(super) fn form(&self) -> Form {
        Form {
            api: self.api,
            dialect: self.dialect,
            model: self.model.clone(),
            is_streamed: self.is_streamed,
            may_end_early: self.may_end_early,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadRun {
    /// All requests that were begun, by number.
    pub attempts: Vec<Attempt>,
    /// The client's own figures.
    pub health: Health,
    /// When it began, nanoseconds since the epoch.
    pub start_ns: i64,
    /// When it ended.
    pub end_ns: i64,
}

/// What a watcher learns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Requests begun.
    pub begun: u64,
    /// Whole answers.
    pub done: u64,
    /// Failures.
    pub failed: u64,
    /// In flight now.
    pub in_flight: u64,
    /// Chunks with tokens in finished answers.
    pub chunks: u64,
    /// Time since the start.
    pub elapsed: Duration,
}

/// Why there was no load.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The runtime could not be built, or a thread not be started.
    #[error("could not set up network I/O")]
    Runtime(#[source] std::io::Error),
    /// Nothing to send.
    #[error("expected a load with at least one request, found none")]
    Nothing,
}

/// Runs the load until the workload or its duration is over, or `stop` is set; `on_seen` is told five times a second.
///
/// # Errors
/// See [`LoadError`]; requests that fail are part of the result.
pub fn run(plan: &Plan, stop: &Arc<AtomicBool>, on_seen: &dyn Fn(Seen)) -> Result<LoadRun, LoadError> {
    if plan.workload.requests().is_empty() {
        return Err(LoadError::Nothing);
    }
    let runtime = runtime().map_err(LoadError::Runtime)?;
    let before = cpu_time();
    let shared = Rc::new(Shared::new(plan).map_err(LoadError::Runtime)?);
    let start_ns = shared.clock.now_ns();
    let local = LocalSet::new();
    let made = local.block_on(&runtime, shared.clone().everything(stop, on_seen)).map_err(LoadError::Runtime)?;
    drop(local);
    let end_ns = shared.clock.now_ns();
    let health = shared.health(cpu_time().since(before), made, end_ns - start_ns);
    let shared = Rc::into_inner(shared).expect("the tasks that shared it ended with their set");
    let mut attempts = shared.attempts.into_inner();
    attempts.sort_by_key(|attempt| attempt.index);
    if let Some(counter) = shared.counter {
        recount(&mut attempts, counter.finish(), plan);
    }
    // A name look-up that hangs must not hold up the answer.
    runtime.shutdown_background();
    Ok(LoadRun { attempts, health, start_ns, end_ns })
}

/// Puts the tokenizer's counts where the server told none.
fn recount(attempts: &mut [Attempt], counts: Vec<Counted>, plan: &Plan) {
    for counted in counts {
        if let Ok(at) = attempts.binary_search_by_key(&counted.index, |attempt| attempt.index) {
            attempts[at].recount(&counted.pieces);
        }
    }
    for attempt in attempts.iter_mut().filter(|attempt| attempt.ending == Ending::Done && attempt.prompt_tokens.is_none()) {
        attempt.prompt_tokens = plan.workload.requests().get(attempt.index).map(|request| u64::from(request.prompt_tokens));
    }
}

struct Shared {
    plan: Arc<Plan>,
    clock: Clock,
    /// Connections that wait for their next request.
    idle: RefCell<Vec<Connection>>,
    attempts: RefCell<Vec<Attempt>>,
    seen: Cell<Seen>,
    lag: RefCell<Weighted>,
    counter: Option<Counter>,
}

/// Puts its attempt on record however it ends, cut off included.
struct Record {
    shared: Rc<Shared>,
    attempt: Attempt,
}

impl Record {
    fn begin(shared: &Rc<Shared>, attempt: Attempt) -> Self {
        shared.see(|seen| {
            seen.begun += 1;
            seen.in_flight += 1;
        });
        Self { shared: Rc::clone(shared), attempt }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let attempt = std::mem::take(&mut self.attempt);
        self.shared.see(|seen| {
            seen.in_flight -= 1;
            seen.chunks += attempt.pieces.len() as u64;
            match attempt.ending {
                Ending::Done => seen.done += 1,
                Ending::Cut => {}
                _ => seen.failed += 1,
            }
        });
        self.shared.attempts.borrow_mut().push(attempt);
    }
}

impl Shared {
    fn new(plan: &Plan) -> std::io::Result<Self> {
        Ok(Self {
            plan: Arc::new(plan.clone()),
            clock: Clock::start(),
            idle: RefCell::default(),
            attempts: RefCell::default(),
            seen: Cell::default(),
            lag: RefCell::default(),
            counter: plan.tokenizer.clone().map(Counter::start).transpose()?,
        })
    }

    fn see(&self, change: impl FnOnce(&mut Seen)) {
        let mut seen = self.seen.get();
        change(&mut seen);
        self.seen.set(seen);
    }

    /// The load from start to end. Returns the CPU time of the thread that made the requests.
    async fn everything(self: Rc<Self>, stop: &Arc<AtomicBool>, on_seen: &dyn Fn(Seen)) -> std::io::Result<CpuTime> {
        let start = Instant::now();
        let is_over = Arc::new(AtomicBool::new(false));
        let (jobs, incoming) = channel(match self.plan.schedule {
            Schedule::Open => self.plan.most_in_flight.max(1) as usize,
            Schedule::Closed { .. } => MADE_AHEAD,
        });
        let (knocks, heard) = unbounded_channel();
        let maker = pacer::start(Arc::clone(&self.plan), self.clock, jobs, Arc::clone(&is_over))?;
        let knocker = pacer::knock(knocks, Arc::clone(&is_over))?;
        tokio::task::spawn_local(self.clone().listen(heard));
        let mut load = tokio::task::spawn_local(self.clone().send_all(incoming, start));
        // A stop ends the sending first; what is in flight has the drain time.
        let mut drain_end = None;
        loop {
            tokio::select! {
                biased;
                _ = &mut load => break,
                () = tokio::time::sleep(SHOW_INTERVAL) => {}
            }
            on_seen(Seen { elapsed: start.elapsed(), ..self.seen.get() });
            let is_late = self.plan.duration.is_some_and(|duration| start.elapsed() >= duration) || maker.is_finished();
            if stop.load(Ordering::Relaxed) || is_late {
                if stop.load(Ordering::Relaxed) || self.plan.duration.is_some_and(|duration| start.elapsed() >= duration) {
                    is_over.store(true, Ordering::Relaxed);
                }
                let end = *drain_end.get_or_insert_with(|| Instant::now() + self.plan.drain);
                if Instant::now() >= end {
                    load.abort();
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let _ = knocker.join();
        Ok(maker.join().unwrap_or_default())
    }

    /// Hears knocks and notes how late.
    async fn listen(self: Rc<Self>, mut knocks: UnboundedReceiver<std::time::Instant>) {
        while let Some(knock) = knocks.recv().await {
            self.lag.borrow_mut().add(knock.elapsed().as_secs_f64(), 1);
        }
    }

    async fn send_all(self: Rc<Self>, incoming: Receiver<Job>, start: Instant) {
        match self.plan.schedule {
            Schedule::Open => self.send_open(incoming).await,
            Schedule::Closed { users, think, ramp } => {
                let incoming = Rc::new(tokio::sync::Mutex::new(incoming));
                let mut set = JoinSet::new();
                for user in 0..users {
                    let (shared, incoming) = (Rc::clone(&self), Rc::clone(&incoming));
                    let after = ramp.mul_f64(f64::from(user) / f64::from(users.max(1)));
                    if self.plan.duration.is_some_and(|duration| after >= duration) {
                        break;
                    }
                    let from = start + after;
                    set.spawn_local(async move {
                        tokio::time::sleep_until(from).await;
                        shared.one_user(&incoming, think, start).await;
                    });
                }
                while set.join_next().await.is_some() {}
            }
        }
    }

    async fn send_open(self: Rc<Self>, mut incoming: Receiver<Job>) {
        let mut set = JoinSet::new();
        loop {
            let has_room = set.len() < self.plan.most_in_flight.max(1) as usize;
            tokio::select! {
                biased;
                job = incoming.recv(), if has_room => {
                    let Some(job) = job else { break };
                    set.spawn_local(self.clone().attempt(job));
                }
                Some(_) = set.join_next(), if !set.is_empty() => {}
            }
        }
        while set.join_next().await.is_some() {}
    }

    async fn one_user(self: Rc<Self>, incoming: &tokio::sync::Mutex<Receiver<Job>>, think: Duration, start: Instant) {
        loop {
            let job = incoming.lock().await.recv().await;
            let Some(job) = job else { return };
            if self.plan.duration.is_some_and(|duration| start.elapsed() >= duration) {
                return;
            }
            let ending = self.clone().attempt(job).await;
            let pause = if ending == Ending::Connect { think.max(AFTER_REFUSAL) } else { think };
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// One request, begun now. Returns how it ended.
    async fn attempt(self: Rc<Self>, job: Job) -> Ending {
        let started_ns = self.clock.now_ns();
        let attempt = Attempt {
            index: job.index,
            is_warmup: job.index < self.plan.warmup,
            intended_ns: job.due_ns.unwrap_or(started_ns),
            started_ns,
            ..Attempt::default()
        };
        let mut record = Record::begin(&self, attempt);
        let deadline = Instant::now() + self.plan.timeout;
        let result = self.send_once(&mut record.attempt, Bytes::from(job.body), deadline).await;
        if let Err(error) = result {
            record.attempt.ending = error.into();
        }
        record.attempt.ending
    }

    /// Sends the request on an idle connection or a new one. A connection that the server closed while it was idle is no
    /// failure of the request: it is sent again on a new one.
    async fn send_once(&self, attempt: &mut Attempt, body: Bytes, deadline: Instant) -> Result<(), ExchangeError> {
        let limit = CONNECT_TIMEOUT.min(self.plan.timeout);
        loop {
            let idle = self.usable().await;
            attempt.is_new_connection = idle.is_none();
            let mut connection = match idle {
                Some(connection) => connection,
                None => Connection::open(&self.plan.server, self.plan.http, self.clock, limit).await?,
            };
            attempt.connected_ns = Some(self.clock.now_ns());
            let request = self.request(body.clone());
            let result = exchange(attempt, &mut connection, request, self.plan.is_streamed, self.counter.as_ref(), deadline).await;
            if matches!(result, Err(ExchangeError::Broken(_))) && !attempt.is_new_connection && attempt.headers_ns.is_none() {
                continue;
            }
            if result.is_ok() {
                self.idle.borrow_mut().push(connection);
            }
            return result;
        }
    }

    async fn usable(&self) -> Option<Connection> {
        loop {
            let mut connection = self.idle.borrow_mut().pop()?;
            if connection.is_usable().await {
                return Some(connection);
            }
        }
    }

    fn request(&self, body: Bytes) -> Request<Full<Bytes>> {
        let plan = &self.plan;
        let accept = if plan.is_streamed { "text/event-stream" } else { "application/json" };
        let address = plan.server.at(plan.api.path());
        let request = http::request(Method::POST, &address, plan.authorization.as_ref());
        let request = request.header(CONTENT_TYPE, "application/json").header(ACCEPT, accept);
        request.body(Full::new(body)).expect("an address that parsed makes a valid request")
    }

    fn health(&self, listened: CpuTime, made: CpuTime, wall_ns: i64) -> Health {
        let slips = self.attempts.borrow();
        let slip: Spread = slips.iter().map(|attempt| (attempt.started_ns - attempt.intended_ns).max(0) as f64 / 1e9).collect();
        let wall_s = wall_ns.max(1) as f64 / 1e9;
        let run_s = listened.run_ns.map(|run| (run + made.run_ns.unwrap_or(0)) as f64 / 1e9);
        Health {
            slip,
            lag: self.lag.take().spread(),
            cpu_frac: run_s.map(|run| run / wall_s),
            cpu_s: run_s,
            wait_frac: listened.wait_ns.map(|wait| wait as f64 / 1e9 / wall_s),
        }
    }
}
