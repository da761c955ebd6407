//! One connection of a caller, and its own to the upstream: bytes pass both ways, each way in a task.

mod answers;
mod requests;

use std::collections::VecDeque;
use std::hash::RandomState;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::timeout;

use super::answer::Answer;
use super::delays::Delays;
use super::framing::Framing;
use super::rows::{Passage, Rows};
use super::{TapPlan, Tapped};
use crate::address::Address;
use crate::window::host_time_ns;

use self::answers::Answers;
use self::requests::Requests;

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// How long one way may stay open without a byte once the other has ended.
const LINGER: Duration = Duration::from_secs(60);

/// What all connections share.
pub(super) struct Shared {
    upstream: Address,
    upstream_name: String,
    adds_ids: bool,
    token: Option<String>,
    salt: RandomState,
    pub(super) rows: Rows,
    delays: Delays,
    next_id: AtomicU64,
    under_way: AtomicU64,
    connections: AtomicU64,
    requests: AtomicU64,
    others: AtomicU64,
    chunks: AtomicU64,
    unseen: AtomicU64,
}

impl Shared {
    pub(super) fn new(plan: &TapPlan) -> Self {
        let upstream = plan.upstream.server();
        Self {
            upstream_name: upstream.authority(),
            upstream,
            adds_ids: plan.adds_ids,
            token: plan.token.clone(),
            salt: RandomState::new(),
            rows: Rows::new(&plan.listen.to_string()),
            delays: Delays::new(),
            next_id: AtomicU64::new(0),
            under_way: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            others: AtomicU64::new(0),
            chunks: AtomicU64::new(0),
            unseen: AtomicU64::new(0),
        }
    }

    /// Requests without the end of their answer.
    pub(super) fn under_way(&self) -> u64 {
        self.under_way.load(Ordering::Relaxed)
    }

    pub(super) fn told(&self, listen: SocketAddr) -> Tapped {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tapped {
            listen: Some(listen),
            connection_count: count(&self.connections),
            request_count: count(&self.requests),
            other_count: count(&self.others),
            chunk_count: count(&self.chunks),
            unseen_count: count(&self.unseen),
            dropped_count: self.rows.dropped_count(),
            delay_p50_ns: self.delays.quantile_ns(0.5),
            delay_p99_ns: self.delays.quantile_ns(0.99),
        }
    }

    /// 64 random bits: a keyed hash of a counter.
    fn random(&self) -> u64 {
        std::hash::BuildHasher::hash_one(&self.salt, self.next_id.fetch_add(1, Ordering::Relaxed))
    }
}

/// A request whose answer is not over.
struct Exchange {
    passage: Passage,
    is_completion: bool,
    is_head: bool,
    answer: Option<Answer>,
}

/// Both ways of one connection know this.
struct Link {
    shared: Arc<Shared>,
    exchanges: Mutex<VecDeque<Exchange>>,
    /// When either way last moved a byte, and how many ways have ended.
    state: Mutex<(Instant, u8)>,
    unseen: std::sync::atomic::AtomicBool,
}

impl Link {
    fn exchanges(&self) -> MutexGuard<'_, VecDeque<Exchange>> {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, (Instant, u8)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on the bytes are not looked at.
    fn look_away(&self) {
        if !self.unseen.swap(true, Ordering::Relaxed) {
            self.shared.unseen.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_unseen(&self) -> bool {
        self.unseen.load(Ordering::Relaxed)
    }

    /// The front exchange is over.
    fn end(&self, mut exchange: Exchange, t_ns: i64, finish: Option<&str>) {
        self.shared.under_way.fetch_sub(1, Ordering::Relaxed);
        if !exchange.is_completion {
            return;
        }
        if let Some(answer) = &mut exchange.answer {
            answer.finish(&mut exchange.passage);
        }
        if let Some(finish) = finish {
            exchange.passage.finish = finish.to_string();
        }
        exchange.passage.done_ns = Some(t_ns);
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
        self.shared.rows.request(&exchange.passage, &self.shared.upstream_name);
    }
}

impl Drop for Link {
    /// What is not over when the connection ends was cut.
    fn drop(&mut self) {
        let t_ns = host_time_ns();
        let cut: Vec<Exchange> = self.exchanges().drain(..).collect();
        for exchange in cut {
            self.end(exchange, t_ns, Some("cut"));
        }
    }
}

/// Passes one connection until both ways have ended.
pub(super) async fn pass(caller: TcpStream, shared: &Arc<Shared>) {
    shared.connections.fetch_add(1, Ordering::Relaxed);
    let _ = caller.set_nodelay(true); // without it pieces only wait longer
    let link = Arc::new(Link {
        shared: Arc::clone(shared),
        exchanges: Mutex::default(),
        state: Mutex::new((Instant::now(), 0)),
        unseen: false.into(),
    });
    let (from_caller, mut to_caller) = caller.into_split();
    let mut requests =
        Requests { link: Arc::clone(&link), from: from_caller, held: Vec::new(), body: Framing::Done, prompt: None, count: 0 };
    let upstream = match requests.begin().await {
        Ok(Some(upstream)) => upstream,
        Ok(None) => return,
        Err(refusal) => {
            let _ = to_caller.write_all(refusal.as_bytes()).await; // a caller that is gone needs no answer
            let _ = to_caller.shutdown().await;
            return;
        }
    };
    let _ = upstream.set_nodelay(true);
    let (from_upstream, to_upstream) = upstream.into_split();
    let answers = Answers { link: Arc::clone(&link), from: from_upstream, to: to_caller, held: Vec::new(), body: Framing::Done };
    let up = tokio::spawn(requests.run(to_upstream));
    let down = tokio::spawn(answers.run());
    drop(link);
    // Whichever way fails first takes the other with it; a way that ends as it should leaves it alone.
    let (stop_up, stop_down) = (up.abort_handle(), down.abort_handle());
    let first = tokio::spawn(async move {
        if !matches!(up.await, Ok(Ok(()))) {
            stop_down.abort();
        }
    });
    if !matches!(down.await, Ok(Ok(()))) {
        stop_up.abort();
    }
    let _ = first.await;
}

/// Reads what is there; once the other way has ended only as long as bytes still come.
async fn read(link: &Link, from: &mut OwnedReadHalf, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        if let Ok(read) = timeout(LINGER, from.read(buffer)).await {
            link.state().0 = Instant::now();
            return read;
        }
        let (moved, ended) = *link.state();
        if ended > 0 && moved.elapsed() >= LINGER {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}
