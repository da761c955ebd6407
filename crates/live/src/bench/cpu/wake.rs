//! What it costs to hand work to a sleeping thread: engines do so for every step between their processes and threads.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::super::measure::repeat;
use super::super::{Measured, Plan};
use super::Host;

/// Hand-overs in one repetition.
const ROUNDS: u32 = 200;

/// Half of a round trip between two threads that both sleep while they wait.
pub(in crate::bench) fn run(host: &Host, _: &Plan, budget: Duration) -> Result<Vec<Measured>, String> {
    let (to, inbox) = mpsc::sync_channel::<()>(1);
    let (back, outbox) = mpsc::sync_channel::<()>(1);
    let spread = std::thread::scope(|scope| {
        scope.spawn(move || while inbox.recv().is_ok() && back.send(()).is_ok() {});
        let spread = repeat(budget, || {
            let started = Instant::now();
            for _ in 0..ROUNDS {
                to.send(()).and_then(|()| outbox.recv().map_err(|_| mpsc::SendError(()))).map_err(|_| "the other thread is gone")?;
            }
            Ok::<f64, &str>(started.elapsed().as_secs_f64() / f64::from(2 * ROUNDS))
        });
        drop(to);
        spread
    })?;
    Ok(vec![Measured {
        operator: "wake",
        title: "waking a thread".to_string(),
        signal: "host.thread_wake",
        labels: Vec::new(),
        value: spread,
        data_sheet: None,
        how: format!("half a round trip over channels of two threads, {} CPUs", host.threads),
    }])
}
