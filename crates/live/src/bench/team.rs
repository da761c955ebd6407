//! Threads that do the same work at the same time, timed from the moment all start to the moment all are done.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::measure::{Spread, repeat};

/// Repeats work that `make` prepares in each thread, so that each touches its own memory first.
pub(super) fn timed<W: FnMut()>(threads: usize, budget: Duration, make: impl Fn(usize) -> W + Sync) -> Result<Spread, String> {
    let (start, done, stop) = (Barrier::new(threads + 1), Barrier::new(threads + 1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread_idx in 0..threads {
            let (make, start, done, stop) = (&make, &start, &done, &stop);
            scope.spawn(move || {
                let mut work = make(thread_idx);
                loop {
                    start.wait();
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    work();
                    done.wait();
                }
            });
        }
        let spread = repeat(budget, || {
            start.wait();
            let started = Instant::now();
            done.wait();
            Ok::<f64, String>(started.elapsed().as_secs_f64())
        });
        stop.store(true, Ordering::Relaxed);
        start.wait();
        spread
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn every_thread_works_in_every_repetition() {
        let calls = [const { AtomicUsize::new(0) }; 3];
        let spread = timed(3, Duration::from_millis(5), |thread_idx| {
            let calls = &calls[thread_idx];
            move || {
                calls.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let counts: Vec<usize> = calls.iter().map(|calls| calls.load(Ordering::Relaxed)).collect();
        let spread = spread.unwrap();
        assert!(counts.iter().all(|count| *count == counts[0] && *count > spread.count), "{counts:?} {spread:?}");
    }
}
