//! When requests are sent: a thread that makes bodies ahead of time and hands each over at its moment.
//!
//! A thread of its own, because a runtime's timer is only good to a millisecond, and because making a long prompt must not
//! hold up the stamping of what comes in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{Sender, UnboundedSender};

use super::body;
use super::health::{CpuTime, cpu_time};
use super::prompt::{self, Vocabulary};
use super::run::{Plan, Schedule};
use crate::clock::Clock;

/// Longest sleep in one go, so that a stop is seen.
const LOOK_UP: Duration = Duration::from_millis(50);
/// Between two looks at the loop's lag. Odd, so that it meets no round interval of a server again and again.
const PING_INTERVAL: Duration = Duration::from_micros(9_700);
/// Looks that are made up for after a standstill; a longer one is that of a machine which slept.
const MOST_MISSED: u128 = 6_000;

/// A request ready to be sent.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) index: usize,
    /// When it is due; `None` in a closed loop, where it is due when a user is free.
    pub(super) due_ns: Option<i64>,
    pub(super) body: Vec<u8>,
}

/// Starts the thread that makes requests. It ends with the workload, with the duration, with `stop`, or when nobody takes
/// them any more; it then tells the CPU time it took.
pub(super) fn start(plan: Arc<Plan>, clock: Clock, jobs: Sender<Job>, stop: Arc<AtomicBool>) -> std::io::Result<JoinHandle<CpuTime>> {
    std::thread::Builder::new().name("pacer".into()).spawn(move || {
        let before = cpu_time();
        make_all(&plan, clock, &jobs, &stop);
        cpu_time().since(before)
    })
}

fn make_all(plan: &Plan, clock: Clock, jobs: &Sender<Job>, stop: &AtomicBool) {
    let start_ns = clock.now_ns();
    let form = plan.form();
    let vocabulary = plan.tokenizer.as_ref().map_or_else(Vocabulary::words, |tokenizer| tokenizer.vocabulary().clone());
    for (index, request) in plan.workload.requests().iter().enumerate() {
        let due_ns = matches!(plan.schedule, Schedule::Open).then(|| start_ns.saturating_add(request.arrival_ns));
        let body = body::body(&form, &prompt::text(&plan.workload, index, plan.seed, &vocabulary), request.output_tokens);
        let end_ns = plan.duration.map(|duration| start_ns.saturating_add(duration.as_nanos() as i64));
        if due_ns.zip(end_ns).is_some_and(|(due, end)| due >= end) || !sleep_until(due_ns.map(|ns| clock.moment(ns)), stop) {
            return;
        }
        if jobs.blocking_send(Job { index, due_ns, body }).is_err() {
            return;
        }
    }
}

/// False when stopped meanwhile.
fn sleep_until(moment: Option<Instant>, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = moment.map_or(Duration::ZERO, |moment| moment.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK_UP));
    }
}

/// Starts the thread that knocks at the loop every 10 ms: what lies between when a knock is due and its being heard is the
/// loop's lag. Knocks that fell due while the whole process stood still are made up for, so that the lags are those of evenly
/// spread moments: what an event that comes at any moment has to wait.
pub(super) fn knock(knocks: UnboundedSender<Instant>, stop: Arc<AtomicBool>) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("lag".into()).spawn(move || {
        let mut due = Instant::now() + PING_INTERVAL;
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let now = Instant::now();
            let missed = now.saturating_duration_since(due).as_nanos() / PING_INTERVAL.as_nanos();
            if missed > MOST_MISSED {
                due = now;
            }
            while due <= now {
                if knocks.send(due).is_err() {
                    return;
                }
                due += PING_INTERVAL;
            }
        }
    })
}
