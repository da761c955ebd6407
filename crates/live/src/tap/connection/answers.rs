//! The way to the caller: bytes are written as they were read, and looked at afterwards.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::{Link, READ_BYTES, read};
use crate::tap::answer::Answer;
use crate::tap::framing::Framing;
use crate::tap::head::{self, AnswerHead, MAX_HEAD_BYTES};
use crate::window::host_time_ns;

/// The way to the caller.
pub(super) struct Answers {
    pub(super) link: Arc<Link>,
    pub(super) from: OwnedReadHalf,
    pub(super) to: OwnedWriteHalf,
    /// A head that is not whole; its bytes have been sent.
    pub(super) held: Vec<u8>,
    pub(super) body: Framing,
}

impl Answers {
    pub(super) async fn run(mut self) -> io::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let count = match read(&self.link, &mut self.from, &mut buffer).await {
                Ok(count) => count,
                Err(error) => {
                    let _ = self.to.as_ref().set_zero_linger();
                    self.to.forget(); // a reset reaches the caller as one, not as a good end
                    return Err(error);
                }
            };
            let (read_at, t_ns) = (Instant::now(), host_time_ns());
            if count == 0 {
                self.end_of_stream(t_ns);
                self.link.state().1 += 1;
                return self.to.shutdown().await;
            }
            self.to.write_all(&buffer[..count]).await?;
            self.link.shared.delays.add(u64::try_from(read_at.elapsed().as_nanos()).unwrap_or(u64::MAX));
            if !self.link.is_unseen() {
                self.look(&buffer[..count], t_ns);
            }
        }
    }

    /// An answer without a length ends with the connection.
    fn end_of_stream(&mut self, t_ns: i64) {
        if self.body == Framing::UntilClose {
            let exchange = self.link.exchanges().pop_front();
            if let Some(exchange) = exchange {
                self.link.end(exchange, t_ns, None);
            }
        }
    }

    /// Looks at bytes that have passed.
    fn look(&mut self, mut bytes: &[u8], t_ns: i64) {
        while !bytes.is_empty() {
            if self.body.is_done() {
                let known = self.held.len();
                self.held.extend_from_slice(bytes);
                let Some(end) = head::end_of(&self.held, known) else {
                    if self.held.len() > MAX_HEAD_BYTES {
                        self.held = Vec::new();
                        self.link.look_away();
                    } else if let Some(exchange) = self.link.exchanges().front_mut() {
                        exchange.passage.upstream_first_ns.get_or_insert(t_ns);
                    }
                    return;
                };
                bytes = &bytes[end - known..];
                self.held.truncate(end);
                if !self.head(t_ns) {
                    self.link.look_away();
                    return;
                }
                continue;
            }
            let link = Arc::clone(&self.link);
            let mut exchanges = link.exchanges();
            let Some(exchange) = exchanges.front_mut() else { return };
            let mut chunks = 0;
            let (passage, answer) = (&mut exchange.passage, &mut exchange.answer);
            let mut look = |data: &[u8]| {
                if let Some(answer) = answer {
                    chunks += answer.take(data, t_ns, passage, &link.shared.rows);
                }
            };
            let Ok(taken) = self.body.take(bytes, &mut look) else {
                link.look_away();
                return;
            };
            link.shared.chunks.fetch_add(chunks, Ordering::Relaxed);
            bytes = &bytes[taken..];
            if self.body.is_done() {
                let exchange = exchanges.pop_front();
                drop(exchanges);
                if let Some(exchange) = exchange {
                    link.end(exchange, t_ns, None);
                }
            }
        }
    }

    /// Notes the head of an answer; false when it is none that can be followed.
    fn head(&mut self, t_ns: i64) -> bool {
        let head = std::mem::take(&mut self.held);
        let mut exchanges = self.link.exchanges();
        let Some(exchange) = exchanges.front_mut() else { return false };
        let Some(answer) = AnswerHead::read(&head, exchange.is_head) else { return false };
        exchange.passage.upstream_first_ns.get_or_insert(t_ns);
        if answer.status < 200 {
            return true; // 100 Continue and its like: the answer is still to come
        }
        exchange.passage.headers_ns = Some(t_ns);
        exchange.passage.status = Some(answer.status);
        exchange.answer = exchange.is_completion.then(|| Answer::new(answer.is_stream, answer.is_packed));
        self.body = answer.framing;
        if self.body.is_done() {
            let exchange = exchanges.pop_front();
            drop(exchanges);
            if let Some(exchange) = exchange {
                self.link.end(exchange, t_ns, None);
            }
        }
        true
    }
}
