//! One connection, and one request with its answer at a time on it.
//!
//! Connection and answer are driven by the same task: a chunk costs one wake-up, and the connection never reads ahead of
//! the piece that is being looked at.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout_at};

use super::stamped::{Stamped, Stamps};
use super::wire::{Wire, dial, secure};
use crate::address::Address;
use crate::clock::Clock;

/// Largest head of an answer, and most of a body that is read at once.
const MAX_BUFFER_BYTES: usize = 256 << 10;

/// Why an exchange ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExchangeError {
    /// Nobody listens, or the name does not resolve.
    Connect,
    /// A limit on time was reached.
    Timeout,
    /// The connection broke, or what came is not HTTP.
    Broken,
    /// The answer is larger than anything expected.
    TooLarge,
}

/// A connection.
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: http1::Connection<TokioIo<Wire<Stamped>>, Full<Bytes>>,
    stamps: Arc<Stamps>,
    is_over: bool,
    /// Requests it carried.
    pub(crate) uses: u64,
}

impl Connection {
    /// Opens one, within `limit`, name look-up included.
    pub(crate) async fn open(server: &Address, clock: Clock, limit: Duration) -> Result<Self, ExchangeError> {
        let stamps = Arc::new(Stamps::default());
        let connecting = async { secure(server, Stamped::new(dial(server).await?, Arc::clone(&stamps), clock)).await };
        let connected = timeout_at(Instant::now() + limit, connecting).await.map_err(|_| ExchangeError::Timeout)?;
        let io = TokioIo::new(connected.map_err(|_| ExchangeError::Connect)?);
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_BUFFER_BYTES);
        let (sender, driver) = builder.handshake(io).await.map_err(|_| ExchangeError::Broken)?;
        Ok(Self { sender, driver, stamps, is_over: false, uses: 0 })
    }

    /// Its stamps.
    pub(crate) fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    /// Whether it can carry another request, as far as is known without asking the peer.
    pub(crate) async fn is_usable(&mut self) -> bool {
        poll_fn(|context| {
            self.drive(context);
            Poll::Ready(())
        })
        .await;
        !self.is_over && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of the answer, up to `deadline`.
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>, deadline: Instant) -> Result<Response<Incoming>, ExchangeError> {
        self.uses += 1;
        self.stamps.reset();
        let mut answer = pin!(self.sender.send_request(request));
        let (driver, is_over) = (&mut self.driver, &mut self.is_over);
        let head = poll_fn(|context| {
            if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                return Poll::Ready(answer.map_err(|_| ExchangeError::Broken));
            }
            drive(driver, is_over, context);
            match answer.as_mut().poll(context) {
                Poll::Ready(answer) => Poll::Ready(answer.map_err(|_| ExchangeError::Broken)),
                Poll::Pending if *is_over => Poll::Ready(Err(ExchangeError::Broken)),
                Poll::Pending => Poll::Pending,
            }
        });
        timeout_at(deadline, head).await.map_err(|_| ExchangeError::Timeout)?
    }

    /// Reads the body to its end. `on_piece` gets each piece and when its bytes were read, nanoseconds since the epoch; it
    /// may end the reading with an error.
    pub(crate) async fn read(
        &mut self,
        body: &mut Incoming,
        deadline: Instant,
        mut on_piece: impl FnMut(&[u8], i64) -> Result<(), ExchangeError>,
    ) -> Result<(), ExchangeError> {
        let mut timer = pin!(tokio::time::sleep_until(deadline));
        poll_fn(|context| {
            loop {
                let mut piece = Pin::new(&mut *body).poll_frame(context);
                if piece.is_pending() {
                    self.drive(context);
                    piece = Pin::new(&mut *body).poll_frame(context);
                }
                match piece {
                    Poll::Ready(None) => return Poll::Ready(Ok(())),
                    Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(ExchangeError::Broken)),
                    Poll::Ready(Some(Ok(frame))) => {
                        if let Some(bytes) = frame.data_ref() {
                            on_piece(bytes, self.stamps.last_read_ns())?;
                        }
                    }
                    Poll::Pending if self.is_over => return Poll::Ready(Err(ExchangeError::Broken)),
                    Poll::Pending => return timer.as_mut().poll(context).map(|()| Err(ExchangeError::Timeout)),
                }
            }
        })
        .await
    }

    fn drive(&mut self, context: &mut Context<'_>) {
        drive(&mut self.driver, &mut self.is_over, context);
    }
}

fn drive(driver: &mut http1::Connection<TokioIo<Wire<Stamped>>, Full<Bytes>>, is_over: &mut bool, context: &mut Context<'_>) {
    if !*is_over {
        *is_over = Pin::new(driver).poll(context).is_ready();
    }
}
