//! Reading one address at a steady pace for a while.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use capture::Capture;
use tokio::runtime::{Builder, Runtime};

use crate::address::Address;
use crate::fetch::{Fetch, FetchError, Kept};

/// Memory a window may fill with bodies.
const MAX_WINDOW_BYTES: usize = 256 << 20;
/// How long a server that never answered, and will hardly, is tried: a restart takes a moment.
const GRACE: Duration = Duration::from_secs(2);
/// How often the stop flag is looked at while waiting.
const STOP_POLL: Duration = Duration::from_millis(20);

/// One reading. A reading that failed has a `body` without samples, whose first line says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedScrape {
    /// Host time the request was sent, ns since the epoch.
    pub t_ns: i64,
    /// How long the answer took.
    pub duration: Duration,
    /// `# SCRAPE ts=<epoch s> dur=<s>` (` error=<kind>` when it failed), then the body as served.
    pub body: Vec<u8>,
    /// False when the reading failed.
    pub is_whole: bool,
}

/// What a watcher learns after each reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Readings so far, failed ones included.
    pub scrape_count: usize,
    /// Failed ones.
    pub failed_count: usize,
    /// Time since the window began.
    pub elapsed: Duration,
}

/// Why a window gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The runtime could not be built.
    #[error("could not set up network I/O")]
    Runtime(#[source] io::Error),
    /// Every single reading failed; the last one's reason stands for all.
    #[error(transparent)]
    AllFailed(#[from] FetchError),
    /// Interrupted before the first answer.
    #[error("stopped before `{0}` answered")]
    Stopped(Address),
}

/// Reads `address` every `interval` until `window` is over or `stop` is set; `on_scrape` is told after each reading.
///
/// Failed readings are kept as such. A reading slower than the interval swallows the ticks it overruns. Reading ends
/// early when the bodies fill 256 MiB, and after 2 s without a single answer when nobody listens or the server says no.
pub fn scrape_window(
    address: &Address,
    window: Duration,
    interval: Duration,
    stop: &AtomicBool,
    on_scrape: &(dyn Fn(Seen) + Sync),
) -> Result<Vec<OwnedScrape>, LiveError> {
    let runtime = runtime().map_err(LiveError::Runtime)?;
    let result = runtime.block_on(Reader::new(address, stop).run(window, interval, on_scrape));
    // A name look-up that hangs must not hold up the answer.
    runtime.shutdown_background();
    result
}

/// The capture of one window.
pub fn capture_of(address: &Address, scrapes: &[OwnedScrape]) -> Capture {
    let scrapes: Vec<ingest::Scrape<'_>> = scrapes.iter().map(|scrape| ingest::Scrape { t_ns: scrape.t_ns, body: &scrape.body }).collect();
    ingest::read_scrapes(&address.to_string(), &scrapes, &ingest::Options::default())
}

pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

struct Reader<'a> {
    fetch: Fetch,
    kept: Kept,
    stop: &'a AtomicBool,
    scrapes: Vec<OwnedScrape>,
    failed_count: usize,
    kept_bytes: usize,
    last_error: Option<FetchError>,
}

impl<'a> Reader<'a> {
    fn new(address: &Address, stop: &'a AtomicBool) -> Self {
        let fetch = Fetch::new(address.clone());
        Self { fetch, kept: Kept::default(), stop, scrapes: Vec::new(), failed_count: 0, kept_bytes: 0, last_error: None }
    }

    async fn run(mut self, window: Duration, interval: Duration, on_scrape: &dyn Fn(Seen)) -> Result<Vec<OwnedScrape>, LiveError> {
        let start = Instant::now();
        let mut due = Duration::ZERO;
        while due <= window && self.kept_bytes < MAX_WINDOW_BYTES {
            if !self.wait_until(start + due).await || !self.read_once().await {
                break;
            }
            on_scrape(Seen { scrape_count: self.scrapes.len(), failed_count: self.failed_count, elapsed: start.elapsed() });
            due = next_tick(due, start.elapsed(), interval);
            if self.is_hopeless() {
                if start.elapsed() >= GRACE {
                    break;
                }
                due = due.min(GRACE);
            }
        }
        match self.last_error {
            Some(error) if self.failed_count == self.scrapes.len() => Err(error.into()),
            None if self.scrapes.is_empty() => Err(LiveError::Stopped(self.fetch.address)),
            _ => Ok(self.scrapes),
        }
    }

    /// True if no reading succeeded and the last failure will hardly pass.
    fn is_hopeless(&self) -> bool {
        self.failed_count == self.scrapes.len() && self.last_error.as_ref().is_some_and(FetchError::is_lasting)
    }

    /// False when stopped meanwhile.
    async fn wait_until(&self, due: Instant) -> bool {
        unless_stopped(self.stop, tokio::time::sleep_until(due.into())).await.is_some()
    }

    /// False when stopped meanwhile; what was half read is dropped.
    async fn read_once(&mut self) -> bool {
        let (sent, t_ns) = (Instant::now(), host_time_ns());
        let Some(answer) = unless_stopped(self.stop, self.fetch.get_again(&mut self.kept)).await else { return false };
        let duration = sent.elapsed();
        let kind = answer.as_ref().err().map(FetchError::kind);
        let mut body = head_line(t_ns, duration, kind).into_bytes();
        match answer {
            Ok(served) => body.extend_from_slice(&served),
            Err(error) => {
                self.failed_count += 1;
                self.last_error = Some(error);
            }
        }
        self.kept_bytes += body.len();
        self.scrapes.push(OwnedScrape { t_ns, duration, body, is_whole: kind.is_none() });
        true
    }
}

/// The result of `work`, or nothing when `stop` is set first.
pub(crate) async fn unless_stopped<T>(stop: &AtomicBool, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut stopped) = (pin!(work), pin!(stopped(stop)));
    poll_fn(|context| match stopped.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(context).map(Some),
    })
    .await
}

async fn stopped(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(STOP_POLL).await;
    }
}

/// The first tick after `due` that has not passed yet.
pub(crate) fn next_tick(due: Duration, elapsed: Duration, interval: Duration) -> Duration {
    let next = due + interval;
    if elapsed <= next {
        return next;
    }
    let missed = elapsed.saturating_sub(due).as_nanos() / interval.as_nanos().max(1);
    due + interval.saturating_mul(u32::try_from(missed + 1).unwrap_or(u32::MAX))
}

pub(crate) fn head_line(t_ns: i64, duration: Duration, error: Option<&str>) -> String {
    let (seconds, nanos) = (t_ns / 1_000_000_000, t_ns % 1_000_000_000);
    let error = error.map(|kind| format!(" error={kind}")).unwrap_or_default();
    format!("# SCRAPE ts={seconds}.{nanos:09} dur={:.3}{error}\n", duration.as_secs_f64())
}

pub(crate) fn host_time_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_reading_swallows_the_ticks_it_overran() {
        let tick = |due, elapsed| next_tick(Duration::from_millis(due), Duration::from_millis(elapsed), Duration::from_secs(1)).as_millis();
        assert_eq!(tick(0, 90), 1000);
        assert_eq!(tick(1000, 2000), 2000);
        assert_eq!(tick(1000, 3500), 4000);
        assert_eq!(tick(0, 9999), 10_000);
    }

    #[test]
    fn the_head_line_is_that_of_a_recording() {
        let head = head_line(1_796_036_992_409_000_000, Duration::from_millis(94), None);
        assert_eq!(head, "# SCRAPE ts=1796036992.409000000 dur=0.094\n");
        let head = head_line(1_796_036_992_009_999_999, Duration::from_secs(10), Some("timeout"));
        assert_eq!(head, "# SCRAPE ts=1796036992.009999999 dur=10.000 error=timeout\n");
    }
}
