//! A socket that notes when its bytes came and went.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::clock::Clock;

/// What a socket noted; times in nanoseconds since the epoch, 0 for what did not happen since the last [`Stamps::reset`].
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    first_write_ns: AtomicI64,
    last_read_ns: AtomicI64,
    read_bytes: AtomicU64,
    begins_as_http1: AtomicBool,
    /// Reads are let through one by one.
    is_gated: AtomicBool,
    /// The one read was made.
    is_shut: AtomicBool,
}

impl Stamps {
    /// Forgets the times of the request before.
    pub(crate) fn reset(&self) {
        self.first_write_ns.store(0, Ordering::Relaxed);
        self.last_read_ns.store(0, Ordering::Relaxed);
    }

    /// When the first bytes were handed to the system.
    pub(crate) fn first_write_ns(&self) -> Option<i64> {
        Some(self.first_write_ns.load(Ordering::Relaxed)).filter(|ns| *ns != 0)
    }

    /// When bytes were last taken from the system. HTTP is read no further ahead than the piece in hand, so that this is the
    /// time of that piece.
    pub(crate) fn last_read_ns(&self) -> i64 {
        self.last_read_ns.load(Ordering::Relaxed)
    }

    /// Bytes read since the socket opened.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    /// Whether the first bytes read were those of an HTTP/1 answer.
    pub(super) fn begins_as_http1(&self) -> bool {
        self.begins_as_http1.load(Ordering::Relaxed)
    }

    /// Lets one read through, and none after it until the next call: nobody is woken for those.
    pub(super) fn let_one_through(&self) {
        self.is_gated.store(true, Ordering::Relaxed);
        self.is_shut.store(false, Ordering::Relaxed);
    }

    /// Whether the read that was let through was made.
    pub(super) fn has_let_through(&self) -> bool {
        self.is_shut.load(Ordering::Relaxed)
    }

    fn note_read(&self, bytes: &[u8], now_ns: i64) {
        self.last_read_ns.store(now_ns, Ordering::Relaxed);
        if self.read_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed) == 0 {
            self.begins_as_http1.store(bytes.starts_with(b"HTTP/1"), Ordering::Relaxed);
        }
        if self.is_gated.load(Ordering::Relaxed) {
            self.is_shut.store(true, Ordering::Relaxed);
        }
    }
}

/// A TCP socket with stamps.
#[derive(Debug)]
pub(crate) struct Stamped {
    stream: TcpStream,
    stamps: Arc<Stamps>,
    clock: Clock,
}

impl Stamped {
    pub(crate) fn new(stream: TcpStream, stamps: Arc<Stamps>, clock: Clock) -> Self {
        Self { stream, stamps, clock }
    }

    fn note_write(&self, written: &Poll<io::Result<usize>>, before_ns: i64) {
        if matches!(written, Poll::Ready(Ok(_))) && self.stamps.first_write_ns.load(Ordering::Relaxed) == 0 {
            self.stamps.first_write_ns.store(before_ns, Ordering::Relaxed);
        }
    }
}

impl AsyncRead for Stamped {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.stamps.is_shut.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.stamps.note_read(&buffer.filled()[before..], self.clock.now_ns());
        }
        result
    }
}

impl AsyncWrite for Stamped {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let before_ns = self.clock.now_ns();
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_write(&written, before_ns);
        written
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, context: &mut Context<'_>, slices: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let before_ns = self.clock.now_ns();
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note_write(&written, before_ns);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
