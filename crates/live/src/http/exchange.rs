//! One connection, and one request with its answer at a time on it.
//!
//! Connection and answer are driven by the same task: a chunk costs one wake-up, and the connection never reads ahead of
//! the piece that is being looked at.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout_at};

use super::HttpVersion;
use super::http2::{self as driven, Driver as Http2Driver};
use super::stamped::{Stamped, Stamps};
use super::wire::{Wire, dial, secure};
use crate::address::Address;
use crate::clock::Clock;

/// Largest head of an answer, and most of a body that is read at once.
pub(super) const MAX_BUFFER_BYTES: usize = 256 << 10;

pub(super) type Io = TokioIo<Wire<Stamped>>;

/// Why an exchange ended early.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// Nobody listens, the name does not resolve, or the certificate is not trusted.
    Connect(io::Error),
    /// HTTP/2 was asked for, and the server does not speak it.
    NoHttp2,
    /// A limit on time was reached.
    Timeout,
    /// The connection broke, or what came is not HTTP.
    Broken(Box<dyn Error + Send + Sync>),
    /// The answer is larger than anything expected.
    TooLarge,
}

/// A connection.
pub(crate) struct Connection {
    sender: Sender,
    driver: Driver,
    stamps: Arc<Stamps>,
    clock: Clock,
    is_tls: bool,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// The half that reads and writes.
enum Driver {
    Http1(Box<http1::Connection<Io, Full<Bytes>>>),
    Http2(Box<Http2Driver>),
    /// The connection is over.
    Over,
}

/// What a turn of the driver came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It waits for the socket and has a waker there.
    Waits,
    /// It read once and can read on.
    HasRead,
    /// The connection is over.
    Over,
}

impl Connection {
    /// Opens one, within `limit`, name look-up included.
    pub(crate) async fn open(server: &Address, version: HttpVersion, clock: Clock, limit: Duration) -> Result<Self, ExchangeError> {
        let stamps = Arc::new(Stamps::default());
        let connecting = async { secure(server, version, Stamped::new(dial(server).await?, Arc::clone(&stamps), clock)).await };
        let connected = timeout_at(Instant::now() + limit, connecting).await.map_err(|_| ExchangeError::Timeout)?;
        let wire = connected.map_err(ExchangeError::Connect)?;
        if version == HttpVersion::Http2 && wire.has_refused_http2() {
            return Err(ExchangeError::NoHttp2);
        }
        let io = TokioIo::new(wire);
        let (sender, driver) = match version {
            HttpVersion::Http1 => {
                let mut builder = http1::Builder::new();
                builder.max_buf_size(MAX_BUFFER_BYTES);
                let (sender, driver) = builder.handshake(io).await.map_err(broken)?;
                (Sender::Http1(sender), Driver::Http1(Box::new(driver)))
            }
            HttpVersion::Http2 => {
                let (sender, driver) = Http2Driver::open(io, Arc::clone(&stamps)).await.map_err(broken)?;
                (Sender::Http2(sender), Driver::Http2(Box::new(driver)))
            }
        };
        Ok(Self { sender, driver, stamps, clock, is_tls: server.is_tls() })
    }

    /// Its stamps.
    pub(crate) fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    /// Whether it can carry another request, as far as is known without asking the peer.
    pub(crate) async fn is_usable(&mut self) -> bool {
        let driver = &mut self.driver;
        poll_fn(|context| {
            while driver.turn(context) == Turn::HasRead {}
            Poll::Ready(())
        })
        .await;
        let is_ready = match &self.sender {
            Sender::Http1(sender) => sender.is_ready(),
            Sender::Http2(sender) => sender.is_ready(),
        };
        is_ready
            && match &self.driver {
                Driver::Http1(_) => true,
                Driver::Http2(driver) => driver.is_open(),
                Driver::Over => false,
            }
    }

    /// Sends a request and waits for the head of the answer, up to `deadline`.
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>, deadline: Instant) -> Result<Response<Incoming>, ExchangeError> {
        self.stamps.reset();
        let is_http2 = matches!(self.sender, Sender::Http2(_));
        let (sender, driver, is_tls) = (&mut self.sender, &mut self.driver, self.is_tls);
        let mut answer = pin!(async move {
            match sender {
                Sender::Http1(sender) => sender.send_request(request).await,
                Sender::Http2(sender) => sender.send_request(driven::request(request, is_tls)).await,
            }
        });
        let head = poll_fn(|context| {
            loop {
                if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                    return Poll::Ready(answer.map_err(broken));
                }
                let turn = driver.turn(context);
                match answer.as_mut().poll(context) {
                    Poll::Ready(answer) => return Poll::Ready(answer.map_err(broken)),
                    Poll::Pending if turn == Turn::Over => return Poll::Ready(Err(closed())),
                    Poll::Pending if turn == Turn::HasRead => {}
                    Poll::Pending => return Poll::Pending,
                }
            }
        });
        match timeout_at(deadline, head).await.map_err(|_| ExchangeError::Timeout)? {
            // A server that knows no HTTP/2 answers its first bytes in HTTP/1.
            Err(_) if is_http2 && self.stamps.begins_as_http1() => Err(ExchangeError::NoHttp2),
            head => head,
        }
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
        // A timer is not asked while there is always something to read.
        let deadline_ns = self.clock.at_ns(deadline.into_std());
        let (driver, stamps) = (&mut self.driver, &self.stamps);
        poll_fn(|context| {
            loop {
                let mut turn = Turn::Waits;
                let mut piece = Pin::new(&mut *body).poll_frame(context);
                if piece.is_pending() {
                    turn = driver.turn(context);
                    piece = Pin::new(&mut *body).poll_frame(context);
                }
                let read_ns = stamps.last_read_ns();
                match piece {
                    Poll::Ready(None) => return Poll::Ready(Ok(())),
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(broken(error))),
                    Poll::Ready(Some(Ok(frame))) => {
                        if let Some(bytes) = frame.data_ref() {
                            on_piece(bytes, read_ns)?;
                        }
                    }
                    Poll::Pending if turn == Turn::Over => return Poll::Ready(Err(closed())),
                    Poll::Pending if turn == Turn::HasRead => {}
                    Poll::Pending => return timer.as_mut().poll(context).map(|()| Err(ExchangeError::Timeout)),
                }
                if read_ns > deadline_ns {
                    return Poll::Ready(Err(ExchangeError::Timeout));
                }
            }
        })
        .await
    }
}

impl Driver {
    fn turn(&mut self, context: &mut Context<'_>) -> Turn {
        let polled = match self {
            Self::Http1(driver) => Pin::new(driver).poll(context).map(drop).map(|()| Turn::Over),
            Self::Http2(driver) => driver.poll(context).map(|()| Turn::Over),
            Self::Over => return Turn::Over,
        };
        match polled {
            Poll::Ready(turn) => {
                *self = Self::Over;
                turn
            }
            Poll::Pending => match self {
                Self::Http2(driver) if driver.has_read() => Turn::HasRead,
                _ => Turn::Waits,
            },
        }
    }
}

fn broken(error: hyper::Error) -> ExchangeError {
    ExchangeError::Broken(Box::new(error))
}

fn closed() -> ExchangeError {
    ExchangeError::Broken("the connection closed before the answer was whole".into())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use hyper::server::conn::http2 as server;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioExecutor;
    use tokio::net::TcpListener;

    use super::*;

    const FRAME_BYTES: u64 = 4 << 10;
    const FRAMES: u64 = 256;

    /// Frames as fast as the socket takes them, each of its own.
    struct Flood(u64);

    impl hyper::body::Body for Flood {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
            let is_left = self.0 > 0;
            self.0 = self.0.saturating_sub(1);
            let frame = || Ok(hyper::body::Frame::data(Bytes::from_static(&[0; FRAME_BYTES as usize])));
            Poll::Ready(is_left.then(frame))
        }
    }

    async fn flood(listener: TcpListener) {
        let (stream, _) = listener.accept().await.unwrap();
        let answer = service_fn(|_| async { Ok::<_, Infallible>(Response::new(Flood(FRAMES))) });
        let _ = server::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await;
    }

    /// A client that is slow finds many frames in the socket: a frame must not get the time of a read that came after it.
    #[test]
    fn http2_reads_no_further_than_the_piece_in_hand() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = Address::base(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
            tokio::spawn(flood(listener));
            let limit = Duration::from_secs(30);
            let mut connection = Connection::open(&address, HttpVersion::Http2, Clock::start(), limit).await.unwrap();
            let request = Request::get("/").header("host", address.authority()).body(Full::default()).unwrap();
            let mut answer = connection.send(request, Instant::now() + limit).await.unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
            let stamps = Arc::clone(&connection.stamps);
            let (mut taken, mut furthest, mut times) = (0, 0, Vec::new());
            let on_piece = |piece: &[u8], t_ns: i64| {
                taken += piece.len() as u64;
                furthest = furthest.max(stamps.read_bytes().saturating_sub(taken));
                times.push(t_ns);
                Ok(())
            };
            connection.read(answer.body_mut(), Instant::now() + limit, on_piece).await.unwrap();
            assert_eq!(taken, FRAMES * FRAME_BYTES);
            assert!(furthest < 16 * FRAME_BYTES, "{furthest} bytes were read ahead");
            times.dedup();
            assert!(times.is_sorted() && times.len() as u64 > FRAMES / 16, "{} times", times.len());
            assert!(connection.is_usable().await);
        });
    }
}
