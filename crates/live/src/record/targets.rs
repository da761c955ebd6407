//! Reading many addresses at once: each has a task, a pace and a limit on time of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::outbox::{Outbox, Piece};
use super::{POLL, RecordPlan, profile};
use crate::fetch::{Fetch, Kept};
use crate::window::{head_line, host_time_ns, next_tick};

/// Bytes that answers under way may fill, all targets together.
const MAX_BODIES_BYTES: usize = 128 << 20;
/// Room that every target has, however many there are.
const MIN_BODY_BYTES: usize = 1 << 20;

/// Reads all targets until `over`.
pub(super) fn read_all(runtime: Runtime, plan: &RecordPlan, over: &Arc<AtomicBool>, outbox: &Outbox) {
    let count = plan.targets.len().max(1);
    let max_body_bytes = (MAX_BODIES_BYTES / count).clamp(MIN_BODY_BYTES, 32 << 20);
    runtime.block_on(async {
        for (target, address) in plan.targets.iter().enumerate() {
            let fetch = Fetch { total_timeout: plan.timeout, max_body_bytes, ..Fetch::new(address.clone()) };
            // Spread over the interval, so that answers do not come all at once.
            let offset = plan.interval.mul_f64(target as f64 / count as f64);
            tokio::spawn(read_one(target, fetch, offset, plan.interval, outbox.clone()));
        }
        if let Some((engine, length)) = plan.profile.clone() {
            tokio::spawn(profile::run(engine, length, outbox.clone()));
        }
        while !over.load(Ordering::Relaxed) {
            tokio::time::sleep(POLL).await;
        }
    });
    // A name look-up that hangs must not hold up the end.
    runtime.shutdown_background();
}

async fn read_one(target: usize, fetch: Fetch, offset: Duration, interval: Duration, outbox: Outbox) {
    let start = Instant::now() + offset;
    let (mut due, mut kept) = (Duration::ZERO, Kept::default());
    loop {
        tokio::time::sleep_until((start + due).into()).await;
        let (sent, t_ns) = (Instant::now(), host_time_ns());
        match fetch.get_again(&mut kept).await {
            Ok(served) => {
                let mut body = head_line(t_ns, sent.elapsed(), None).into_bytes();
                body.extend_from_slice(&served);
                outbox.put(Piece::Scrape { target, t_ns, body });
            }
            Err(error) => outbox.put(Piece::Failure { target, t_ns, kind: error.kind() }),
        }
        due = next_tick(due, start.elapsed(), interval);
    }
}
