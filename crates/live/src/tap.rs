//! A reverse proxy that passes bytes through unchanged and stamps when each request and each piece of its answer passed.
//!
//! Every connection of a caller has one of its own to the upstream; bytes are written as they were read, and only then looked
//! at, so that framing, trailers, `100 Continue`, half-closed connections, resets and slow readers reach the other side as
//! they are. A request's head is held until it is whole (up to 64 KiB), bodies never are; of a body at most 1 MiB is copied
//! to find its prompt's prefix, and forgotten. Neither texts nor headers are recorded: a request is its times, its counts and
//! salted hashes of its prefix. Rows appear as vantage `gateway`. A full disk ends the recording and not the passing.
//!
//! Redirects are passed on like any answer and never followed. HTTP/2 and upgraded connections pass unseen. Left out: TLS.

mod answer;
mod connection;
mod delays;
mod framing;
mod head;
mod prefix;
mod rows;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use capture::store::{StoreError, Writer};
use tokio::net::TcpListener;

use self::connection::Shared;
use self::rows::Rows;
use crate::address::Address;
use crate::window::runtime;

/// Connections at the same time; further ones wait until one ends.
const MAX_CONNECTIONS: u64 = 8192;
/// Time between two closed segments.
const SEGMENT: Duration = Duration::from_secs(1);
/// How often the end is looked for.
const POLL: Duration = Duration::from_millis(20);
/// How long requests under way may take once the proxy was told to end.
const FAREWELL: Duration = Duration::from_secs(5);

/// What is tapped.
#[derive(Clone, Debug)]
pub struct TapPlan {
    /// Where callers connect.
    pub listen: SocketAddr,
    /// Where the requests go.
    pub upstream: Address,
    /// Where the capture grows; nothing, or an empty folder.
    pub out: PathBuf,
    /// Adds `x-request-id` and `traceparent` to requests that lack them.
    pub adds_ids: bool,
    /// What every caller must send in `x-inferoscope-token`; it is not passed on. Needed beyond loopback.
    pub token: Option<String>,
}

/// What passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tapped {
    /// Where callers connect, its port known.
    pub listen: Option<SocketAddr>,
    /// Connections taken.
    pub connection_count: u64,
    /// Completions that ended.
    pub request_count: u64,
    /// Other requests.
    pub other_count: u64,
    /// Pieces of streams.
    pub chunk_count: u64,
    /// Connections that pass unseen: HTTP/2, upgrades, heads of unclear framing.
    pub unseen_count: u64,
    /// Rows that were dropped, because the disk could not keep up.
    pub dropped_count: u64,
    /// Time between reading and having written a piece of an answer, nanoseconds: half of the pieces took no longer.
    pub delay_p50_ns: u64,
    /// The same for 99 of 100 pieces.
    pub delay_p99_ns: u64,
}

/// Why nothing is tapped, or why the recording of it ended early.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// Others could connect, and nothing tells them from those who may.
    #[error("`{0}` can be reached from other machines; expected a loopback address, or a token that callers must send")]
    Open(SocketAddr),
    /// Bytes that are passed on unchanged name this proxy and not the server: few servers behind TLS would take them.
    #[error(
        "`{0}` is spoken to over TLS, which the tap does not do; expected an `http://` address, such as the server behind its TLS proxy"
    )]
    Tls(Address),
    /// The address is taken, or not of this host.
    #[error("could not listen on `{0}`")]
    Listen(SocketAddr, #[source] io::Error),
    /// Nothing was recorded.
    #[error("could not begin the recording")]
    Begin(#[source] StoreError),
    /// A segment could not be written; the proxy went on until it was stopped.
    #[error("the recording ended early, when it could not be written; what was recorded before that is whole")]
    Write(#[source] StoreError),
}

/// Passes requests on until `stop` is set; `on_start` is told the address once callers can connect. Blocks.
pub fn tap(plan: &TapPlan, stop: &AtomicBool, on_start: &dyn Fn(Tapped)) -> Result<Tapped, TapError> {
    if !plan.listen.ip().is_loopback() && plan.token.is_none() {
        return Err(TapError::Open(plan.listen));
    }
    if plan.upstream.is_tls() {
        return Err(TapError::Tls(plan.upstream.clone()));
    }
    let listening = |source| TapError::Listen(plan.listen, source);
    let listener = std::net::TcpListener::bind(plan.listen).map_err(listening)?;
    listener.set_nonblocking(true).map_err(listening)?;
    let listen = listener.local_addr().map_err(listening)?;
    let runtime = runtime().map_err(listening)?;
    let mut writer = Some(Writer::create(&plan.out).map_err(TapError::Begin)?);
    let shared = Arc::new(Shared::new(plan));
    let over = Arc::new(AtomicBool::new(false));
    let (own, away) = (Arc::clone(&shared), Arc::clone(&over));
    let passing = std::thread::Builder::new().name("tap".into()).spawn(move || {
        let passed = runtime.block_on(accept_all(listener, &own, &away));
        runtime.shutdown_background();
        passed
    });
    let passing = passing.map_err(listening)?;
    on_start(Tapped { listen: Some(listen), ..Tapped::default() });
    let mut failed = None;
    let mut closing = Instant::now() + SEGMENT;
    while !passing.is_finished() {
        over.fetch_or(stop.load(Ordering::Relaxed), Ordering::Relaxed);
        std::thread::sleep(POLL);
        if Instant::now() >= closing {
            closing = Instant::now() + SEGMENT;
            failed = failed.or_else(|| close(&shared.rows, &mut writer).err());
        }
    }
    let passed = passing.join().unwrap_or(Ok(()));
    failed = failed.or_else(|| close(&shared.rows, &mut writer).err());
    if failed.is_none()
        && let Some(writer) = writer
    {
        failed = writer.finish().err();
    }
    passed.map_err(listening)?;
    failed.map_or(Ok(shared.told(listen)), |source| Err(TapError::Write(source)))
}

/// Writes what passed since the last segment. After a failure nothing is written any more, and nothing is kept either.
fn close(rows: &Rows, writer: &mut Option<Writer>) -> Result<(), StoreError> {
    let piece = rows.take(writer.is_some());
    let Some(open) = writer else { return Ok(()) };
    let written = piece.map_or(Ok(()), |piece| open.append(piece).and_then(|()| open.flush()));
    if written.is_err() {
        *writer = None;
        rows.take(false);
    }
    written
}

async fn accept_all(listener: std::net::TcpListener, shared: &Arc<Shared>, over: &AtomicBool) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let active = Arc::new(AtomicU64::new(0));
    while !over.load(Ordering::Relaxed) {
        if active.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
            tokio::time::sleep(POLL).await;
            continue;
        }
        match tokio::time::timeout(POLL, listener.accept()).await {
            Ok(Ok((stream, _))) => {
                let (shared, guard) = (Arc::clone(shared), Active::begin(&active));
                tokio::spawn(async move {
                    connection::pass(stream, &shared).await;
                    drop(guard);
                });
            }
            // Out of descriptors: others may end meanwhile.
            Ok(Err(_)) => tokio::time::sleep(POLL).await,
            Err(_) => {}
        }
    }
    drop(listener);
    let asked = Instant::now();
    while shared.under_way() > 0 && asked.elapsed() < FAREWELL {
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Counts a connection as long as it lives, however it ends.
struct Active(Arc<AtomicU64>);

impl Active {
    fn begin(count: &Arc<AtomicU64>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
