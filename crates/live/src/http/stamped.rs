//! A socket that notes when its bytes came and went.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
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
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        let got = buffer.filled().len() - before;
        if got > 0 {
            self.stamps.last_read_ns.store(self.clock.now_ns(), Ordering::Relaxed);
            self.stamps.read_bytes.fetch_add(got as u64, Ordering::Relaxed);
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
