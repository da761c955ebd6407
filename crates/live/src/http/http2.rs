//! HTTP/2 driven by the task that waits for the answer, like HTTP/1.1: what hyper would spawn is kept here and polled.
//!
//! Left alone the connection would take everything the socket has before a frame is looked at, and earlier frames would get
//! the stamp of the last read. The socket therefore lets one read through per turn ([`Stamps::let_one_through`]).

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper::header::HOST;
use hyper::http::uri::{Authority, Scheme};
use hyper::rt::Executor;
use hyper::{Request, Uri};

use super::exchange::{Io, MAX_BUFFER_BYTES};
use super::stamped::Stamps;

/// What the peer may send before it must wait for us. Bytes are taken as they come and none are held, so that the windows
/// are as large as a stream can need: no answer ever waits for our permission.
const WINDOW_BYTES: u32 = 1 << 30;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Takes what would be spawned.
#[derive(Clone, Default)]
pub(super) struct Begun(Arc<Mutex<Vec<Task>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Begun {
    fn execute(&self, task: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(task));
    }
}

/// The driving half of a connection.
pub(super) struct Driver {
    /// Takes requests; `None` once the peer wants no more. An answer under way still comes.
    connection: Option<http2::Connection<Io, Full<Bytes>, Begun>>,
    begun: Begun,
    tasks: Vec<Task>,
    stamps: Arc<Stamps>,
}

impl Driver {
    /// Begins to speak HTTP/2; the peer's settings are not waited for.
    pub(super) async fn open(io: Io, stamps: Arc<Stamps>) -> hyper::Result<(http2::SendRequest<Full<Bytes>>, Self)> {
        let begun = Begun::default();
        let mut builder = http2::Builder::new(begun.clone());
        builder.initial_stream_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
        builder.max_header_list_size(MAX_BUFFER_BYTES as u32);
        let (sender, connection) = builder.handshake(io).await?;
        Ok((sender, Self { connection: Some(connection), begun, tasks: Vec::new(), stamps }))
    }

    /// One turn: writes what is to be written and reads at most once. Ready when the connection is over.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.stamps.let_one_through();
        if self.connection.as_mut().is_some_and(|connection| Pin::new(connection).poll(context).is_ready()) {
            self.connection = None;
        }
        self.tasks.append(&mut self.begun.0.lock().unwrap_or_else(PoisonError::into_inner));
        // The one that reads was begun first: the others see what it brought in the same turn.
        self.tasks.retain_mut(|task| task.as_mut().poll(context).is_pending());
        if self.tasks.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Whether the peer takes another request.
    pub(super) fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    /// Whether the last turn read: nobody wakes us for what is left, the next turn reads on.
    pub(super) fn has_read(&self) -> bool {
        self.stamps.has_let_through()
    }
}

/// A request as HTTP/2 has it: the authority stands in the address and not in a header.
pub(super) fn request(mut request: Request<Full<Bytes>>, is_tls: bool) -> Request<Full<Bytes>> {
    let Some(host) = request.headers_mut().remove(HOST) else { return request };
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme = Some(if is_tls { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = Authority::try_from(host.as_bytes()).ok();
    *request.uri_mut() = Uri::from_parts(parts).expect("an address that parsed makes a valid request");
    request
}
