//! What waits to be written: a queue that never blocks who measures, and never holds more than its bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use capture::Capture;

use super::tail::Found;

/// Bytes that may wait.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// What a piece costs beside its bytes.
const PIECE_BYTES: usize = 128;

/// One thing that was measured.
#[derive(Debug)]
pub(super) enum Piece {
    /// A target answered.
    Scrape { target: usize, t_ns: i64, body: Vec<u8> },
    /// A target did not answer.
    Failure { target: usize, t_ns: i64, kind: &'static str },
    /// A moment of this host, as one line of a host sampler's log.
    Host { line: Vec<u8> },
    /// Something of a log.
    Log { log: usize, found: Found },
    /// What became of the engine's profiler.
    Profiler { sentence: String },
    /// What was seen of Python threads, about how many bytes it takes, and how many looks there were since the beginning.
    Threads { capture: Box<Capture>, byte_count: usize, look_count: u64 },
    /// The GPUs of this host, as a page of an exporter.
    Gpus { t_ns: i64, body: Vec<u8> },
    /// What could not be recorded, and what would allow it.
    Told { code: &'static str, sentence: String },
}

impl Piece {
    fn byte_count(&self) -> usize {
        PIECE_BYTES
            + match self {
                Self::Scrape { body, .. } | Self::Gpus { body, .. } => body.len(),
                Self::Host { line } => line.len(),
                Self::Log { found: Found::Lines { bytes, .. }, .. } => bytes.len(),
                Self::Threads { byte_count, .. } => *byte_count,
                Self::Failure { .. } | Self::Log { .. } | Self::Profiler { .. } | Self::Told { .. } => 0,
            }
    }
}

/// The end into which pieces are put.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    sender: Sender<Piece>,
    waiting: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
}

/// The end from which pieces are taken.
pub(super) struct Inbox {
    receiver: Receiver<Piece>,
    waiting: Arc<AtomicUsize>,
}

impl Outbox {
    pub(super) fn new() -> (Self, Inbox) {
        let (sender, receiver) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        (Self { sender, waiting: Arc::clone(&waiting), dropped: Arc::default() }, Inbox { receiver, waiting })
    }

    /// Puts a piece, or drops and counts it when too much waits already.
    pub(super) fn put(&self, piece: Piece) {
        let byte_count = piece.byte_count();
        if self.waiting.fetch_add(byte_count, Ordering::Relaxed) + byte_count > MAX_WAITING_BYTES {
            self.waiting.fetch_sub(byte_count, Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let _ = self.sender.send(piece); // after the end nobody takes it any more
    }

    /// Pieces dropped so far.
    pub(super) fn dropped_count(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Inbox {
    /// The next piece, if one comes in time.
    pub(super) fn next(&self, patience: Duration) -> Option<Piece> {
        let piece = self.receiver.recv_timeout(patience).ok()?;
        self.waiting.fetch_sub(piece.byte_count(), Ordering::Relaxed);
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let (outbox, inbox) = Outbox::new();
        let piece = || Piece::Host { line: vec![0; MAX_WAITING_BYTES / 2 - PIECE_BYTES] };
        (0..3).for_each(|_| outbox.put(piece()));
        assert_eq!(outbox.dropped_count(), 1);
        assert!(inbox.next(Duration::ZERO).is_some());
        outbox.put(piece());
        assert_eq!(outbox.dropped_count(), 1);
    }
}
