//! The host clock of a recording: read once as a date, then carried on by the monotonic clock, so that no step of the
//! system's time falls into the middle of a run.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time told as nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base: Instant,
    base_ns: i64,
}

impl Clock {
    /// Reads the date once.
    pub fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { base: Instant::now(), base_ns: i64::try_from(since.as_nanos()).unwrap_or(0) }
    }

    /// Now, nanoseconds since the epoch.
    pub fn now_ns(&self) -> i64 {
        self.at_ns(Instant::now())
    }

    /// A moment of the monotonic clock, nanoseconds since the epoch.
    pub(crate) fn at_ns(&self, moment: Instant) -> i64 {
        self.base_ns.saturating_add(i64::try_from(moment.saturating_duration_since(self.base).as_nanos()).unwrap_or(i64::MAX))
    }

    /// The moment of the monotonic clock at this time.
    pub(crate) fn moment(&self, at_ns: i64) -> Instant {
        self.base + std::time::Duration::from_nanos(u64::try_from(at_ns.saturating_sub(self.base_ns)).unwrap_or(0))
    }
}
