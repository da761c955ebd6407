//! Recording a running system into a growing capture: `/metrics` of engines and exporters, logs, processes of this host,
//! their Python threads, its GPUs.
//!
//! Whoever measures hands pieces to an outbox that never blocks and holds a bounded number of bytes; one thread turns them
//! into rows and closes a segment about once a second, through to the disk (`fsync` of every file, then of the folder). A
//! kill loses the segment that is open, a full disk ends the recording with what was closed. Every target has a task and a
//! limit on time of its own, so that a slow one delays no other. Command lines and environments of processes are not
//! recorded. Python threads are looked at from outside, by a thread of their own (`python.rs`); so are the GPUs of this host
//! (`gpu.rs`), where the engine's processes are.

mod gpu;
mod host;
mod keep;
mod outbox;
mod processes;
mod profile;
mod python;
mod tail;
mod targets;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use capture::store::StoreError;

pub use self::processes::Processes;

use self::keep::Keeper;
use self::outbox::Outbox;
use crate::address::Address;
use crate::window::runtime;

/// Longest that a closed segment waits for the next.
const SEGMENT: Duration = Duration::from_secs(1);
/// How often the end is looked for.
const POLL: Duration = Duration::from_millis(50);
/// Longest wait at the end for a library that may hang.
const PATIENCE: Duration = Duration::from_secs(2);
/// Rows up to which a recording is made one finished capture at its end, which takes all of them into memory.
const MAX_FINISHED_ROWS: u64 = 4_000_000;

/// The name by which NVIDIA's library is found where a driver is installed.
pub const NVML: &str = gpu::LIBRARY;

/// What is recorded.
#[derive(Clone, Debug)]
pub struct RecordPlan {
    /// Addresses of metrics.
    pub targets: Vec<Address>,
    /// Logs to follow; each is of the target at its place in the list, where there is one.
    pub logs: Vec<PathBuf>,
    /// Processes of the engine.
    pub processes: Processes,
    /// Samples the Python threads of these processes.
    pub python: bool,
    /// NVIDIA's library, to read the GPUs beside these processes; see [`NVML`].
    pub nvml: Option<PathBuf>,
    /// Where the capture grows; nothing, or an empty folder.
    pub out: PathBuf,
    /// How long; until it is stopped when `None`.
    pub duration: Option<Duration>,
    /// Time between two readings of one target, of the processes and of the logs.
    pub interval: Duration,
    /// Longest wait for one answer.
    pub timeout: Duration,
    /// Starts the profiler of this engine and stops it after the time; its requests stall meanwhile.
    pub profile: Option<(Address, Duration)>,
}

/// How a recording stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Scrapes that were answered.
    pub scrape_count: u64,
    /// Scrapes that failed.
    pub failed_count: u64,
    /// Which failed last, and why.
    pub last_failure: Option<String>,
    /// Pieces that were dropped, because the disk could not keep up.
    pub dropped_count: u64,
    /// Moments of the host.
    pub host_count: u64,
    /// Looks at the threads of a Python process.
    pub look_count: u64,
    /// Bytes of logs.
    pub log_byte_count: u64,
    /// Rows in closed segments.
    pub row_count: u64,
    /// Closed segments.
    pub segment_count: u32,
    /// Time since the recording began.
    pub elapsed: Duration,
    /// What could not be recorded, and what would allow it.
    pub notes: Vec<String>,
    /// The segments were made one finished capture.
    pub is_finished: bool,
}

/// Why there is no recording, or why it ended early.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// No thread, or no network I/O.
    #[error("could not set up the recording")]
    SetUp(#[source] std::io::Error),
    /// Nothing was recorded.
    #[error("could not begin the recording")]
    Begin(#[source] StoreError),
    /// A segment could not be written.
    #[error("the recording ended after {} s, when it could not be written; {} segments before that are whole", .told.elapsed.as_secs(), .told.segment_count)]
    Write {
        /// How far it had come.
        told: Box<Recorded>,
        /// Cause.
        source: StoreError,
    },
}

/// Records until the time is over or `stop` is set; `on_segment` is told after each closed segment. Blocks.
pub fn record(plan: &RecordPlan, stop: &AtomicBool, on_segment: &dyn Fn(Recorded)) -> Result<Recorded, RecordError> {
    let started = Instant::now();
    let mut keeper = Keeper::begin(plan).map_err(RecordError::Begin)?;
    let over = Arc::new(AtomicBool::new(false));
    let (outbox, inbox) = Outbox::new();
    let threads = spawn_all(plan, &over, &outbox).map_err(RecordError::SetUp)?;
    let gpus = spawn_gpus(plan, &over, &outbox).map_err(RecordError::SetUp)?;
    let is_over = || stop.load(Ordering::Relaxed) || plan.duration.is_some_and(|duration| started.elapsed() >= duration);
    let mut closing = started + SEGMENT;
    let mut written = Ok(());
    while written.is_ok() && !is_over() {
        written = match inbox.next(POLL.min(closing.saturating_duration_since(Instant::now()))) {
            Some(piece) => keeper.take(piece),
            None => Ok(()),
        };
        if written.is_ok() && Instant::now() >= closing {
            closing = Instant::now() + SEGMENT;
            written = keeper.close(outbox.dropped_count());
            on_segment(keeper.told(started));
        }
    }
    over.store(true, Ordering::Relaxed);
    for thread in threads {
        let _ = thread.join(); // a thread that panicked has told so itself
    }
    if gpus.is_some_and(|gpus| !ends(&gpus)) {
        outbox.put(outbox::Piece::Told { code: "gpus", sentence: HANGS.to_string() });
    }
    while let Some(piece) = inbox.next(Duration::ZERO).filter(|_| written.is_ok()) {
        written = keeper.take(piece);
    }
    let written = written.and_then(|()| keeper.close(outbox.dropped_count()));
    let told = keeper.told(started);
    let finished = written.and_then(|()| if told.row_count <= MAX_FINISHED_ROWS { keeper.finish().map(|()| true) } else { Ok(false) });
    match finished {
        Ok(is_finished) => Ok(Recorded { is_finished, ..told }),
        Err(source) => Err(RecordError::Write { told: Box::new(told), source }),
    }
}

/// One thread for all targets, one for what is on this host.
fn spawn_all(plan: &RecordPlan, over: &Arc<AtomicBool>, outbox: &Outbox) -> std::io::Result<Vec<std::thread::JoinHandle<()>>> {
    let mut threads = Vec::new();
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| std::thread::Builder::new().name(name.into()).spawn(work);
    let runtime = runtime()?;
    let (own, away, post) = (plan.clone(), Arc::clone(over), outbox.clone());
    threads.push(spawn("targets", Box::new(move || targets::read_all(runtime, &own, &away, &post)))?);
    let (own, away, post) = (plan.clone(), Arc::clone(over), outbox.clone());
    threads.push(spawn("host", Box::new(move || near(&own, &away, &post)))?);
    if plan.python && plan.processes != Processes::None {
        let (wanted, away, post) = (plan.processes.clone(), Arc::clone(over), outbox.clone());
        threads.push(spawn("python", Box::new(move || python::sample(&wanted, &away, &post)))?);
    }
    Ok(threads)
}

/// What is told of a library that does not come back.
const HANGS: &str = "NVIDIA's library did not come back from a call, GPUs are recorded until then: see whether `nvidia-smi` runs";

/// One thread for the GPUs, which may hang in a library that is not ours.
fn spawn_gpus(plan: &RecordPlan, over: &Arc<AtomicBool>, outbox: &Outbox) -> std::io::Result<Option<std::thread::JoinHandle<()>>> {
    let Some(library) = plan.nvml.clone().filter(|_| plan.processes != Processes::None) else { return Ok(None) };
    let (interval, away, post) = (plan.interval, Arc::clone(over), outbox.clone());
    let work = move || gpu::read(&library, interval, &away, &post);
    std::thread::Builder::new().name("gpus".into()).spawn(work).map(Some)
}

/// Whether a thread ends in time; one that does not is left to itself.
fn ends(thread: &std::thread::JoinHandle<()>) -> bool {
    let waited = Instant::now();
    while !thread.is_finished() && waited.elapsed() < PATIENCE {
        std::thread::sleep(POLL / 5);
    }
    thread.is_finished()
}

/// Processes and logs, once per interval.
fn near(plan: &RecordPlan, over: &AtomicBool, outbox: &Outbox) {
    let mut host = host::Host::new(plan.processes.clone());
    let mut tails: Vec<tail::Tail> = plan.logs.iter().map(|path| tail::Tail::new(path)).collect();
    let started = Instant::now();
    let mut due = Duration::ZERO;
    let mut is_found = false;
    while !over.load(Ordering::Relaxed) {
        outbox.put(outbox::Piece::Host { line: host.line() });
        is_found |= host.sees_processes();
        for (log, tail) in tails.iter_mut().enumerate() {
            tail.poll(&mut |found| outbox.put(outbox::Piece::Log { log, found }));
        }
        due = crate::window::next_tick(due, started.elapsed(), plan.interval);
        while started.elapsed() < due && !over.load(Ordering::Relaxed) {
            std::thread::sleep(POLL.min(due.saturating_sub(started.elapsed())));
        }
    }
    for (log, tail) in tails.iter_mut().enumerate() {
        tail.poll(&mut |found| outbox.put(outbox::Piece::Log { log, found }));
    }
    let unfound = match &plan.processes {
        _ if is_found => return,
        Processes::None => return,
        Processes::Id(id) => format!("no process with the id {id}"),
        Processes::Named(name) => format!("no process whose name or first words hold `{name}`"),
    };
    let sentence = format!("{unfound} ran on this host meanwhile: neither its threads nor what it started were recorded");
    outbox.put(outbox::Piece::Told { code: "processes", sentence });
}
