//! The way from the caller: heads are held until they are whole, all else passes at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::{Exchange, Link, READ_BYTES, read};
use crate::tap::framing::Framing;
use crate::tap::head::{self, MAX_HEAD_BYTES, RequestHead};
use crate::tap::prefix;
use crate::tap::rows::Passage;
use crate::window::host_time_ns;

/// Bytes of a request's body that are copied to find the prompt.
const MAX_PROMPT_BYTES: usize = 1 << 20;
/// Longest wait for the upstream to take a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Requests of one connection that may wait for their answers.
const MAX_PIPELINED: usize = 64;
/// How HTTP/2 begins where both sides know (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

/// The way from the caller.
pub(super) struct Requests {
    pub(super) link: Arc<Link>,
    pub(super) from: OwnedReadHalf,
    /// A head that is not whole, or bytes behind one that were not sent.
    pub(super) held: Vec<u8>,
    pub(super) body: Framing,
    pub(super) prompt: Option<Vec<u8>>,
    pub(super) count: u64,
}

/// An answer of the proxy itself.
fn refusal(status: &str, sentence: &str) -> String {
    let body = format!("inferoscope tap: {sentence}\n");
    format!("HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

impl Requests {
    /// Waits for the first byte and connects to the upstream; `None` when the caller leaves without a word.
    pub(super) async fn begin(&mut self) -> Result<Option<TcpStream>, String> {
        let mut buffer = vec![0; 4096];
        let count = self.from.read(&mut buffer).await.unwrap_or(0);
        if count == 0 {
            return Ok(None);
        }
        self.held.extend_from_slice(&buffer[..count]);
        if self.link.shared.token.is_some() {
            // Nothing of a caller who is not known may reach the upstream, not even a connection.
            self.hold_head().await?;
            self.check_token()?;
        }
        let upstream = &self.link.shared.upstream;
        match timeout(CONNECT, TcpStream::connect((upstream.host(), upstream.port()))).await {
            Ok(Ok(stream)) => Ok(Some(stream)),
            _ => Err(refusal("502 Bad Gateway", "the upstream could not be reached")),
        }
    }

    async fn hold_head(&mut self) -> Result<(), String> {
        let mut buffer = vec![0; 4096];
        while head::end_of(&self.held, 0).is_none() {
            let count = self.from.read(&mut buffer).await.unwrap_or(0);
            if count == 0 || self.held.len() > MAX_HEAD_BYTES {
                return Err(refusal("431 Request Header Fields Too Large", "expected a request head of at most 64 KiB"));
            }
            self.held.extend_from_slice(&buffer[..count]);
        }
        Ok(())
    }

    fn check_token(&self) -> Result<(), String> {
        let Some(token) = &self.link.shared.token else { return Ok(()) };
        let head = head::end_of(&self.held, 0).map_or(&self.held[..], |end| &self.held[..end]);
        let is_clear = RequestHead::read(head).is_some();
        if is_clear && head::has_token(head, token) {
            Ok(())
        } else {
            Err(refusal("401 Unauthorized", "expected the token in `x-inferoscope-token`"))
        }
    }

    pub(super) async fn run(mut self, mut to: OwnedWriteHalf) -> io::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        let first = std::mem::take(&mut self.held);
        self.forward(&first, host_time_ns(), &mut to).await?;
        loop {
            let count = match read(&self.link, &mut self.from, &mut buffer).await {
                Ok(count) => count,
                Err(error) => {
                    let _ = to.as_ref().set_zero_linger();
                    to.forget(); // a reset reaches the upstream as one, not as a good end
                    return Err(error);
                }
            };
            let t_ns = host_time_ns();
            if count == 0 {
                to.write_all(&self.held).await?;
                self.link.state().1 += 1;
                return to.shutdown().await;
            }
            self.forward(&buffer[..count], t_ns, &mut to).await?;
        }
    }

    /// Passes bytes on: a head when it is whole, all else at once.
    async fn forward(&mut self, mut bytes: &[u8], t_ns: i64, to: &mut OwnedWriteHalf) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.link.is_unseen() {
                let held = std::mem::take(&mut self.held);
                to.write_all(&held).await?;
                return to.write_all(bytes).await;
            }
            if !self.body.is_done() {
                let prompt = &mut self.prompt;
                let mut keep = |data: &[u8]| keep_prompt(prompt, data);
                let Ok(taken) = self.body.take(bytes, &mut keep) else {
                    self.look_away()?;
                    continue;
                };
                to.write_all(&bytes[..taken]).await?;
                bytes = &bytes[taken..];
                if self.body.is_done() {
                    self.end_body();
                }
                continue;
            }
            let known = self.held.len();
            self.held.extend_from_slice(bytes);
            if self.held.starts_with(HTTP2_PREFACE) {
                bytes = &bytes[bytes.len()..];
                self.look_away()?;
                let held = std::mem::take(&mut self.held);
                to.write_all(&held).await?;
                continue;
            }
            let Some(end) = head::end_of(&self.held, known) else {
                if self.held.len() > MAX_HEAD_BYTES {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "expected a request head of at most 64 KiB"));
                }
                return Ok(());
            };
            bytes = &bytes[end - known..];
            self.held.truncate(end);
            self.head(t_ns, to).await?;
        }
        Ok(())
    }

    /// With a token every request must be seen.
    fn look_away(&self) -> io::Result<()> {
        if self.link.shared.token.is_some() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "expected requests of clear framing where a token is needed"));
        }
        self.link.look_away();
        Ok(())
    }

    /// Sends a whole head and notes the request.
    async fn head(&mut self, t_ns: i64, to: &mut OwnedWriteHalf) -> io::Result<()> {
        self.check_token().map_err(|_| io::Error::new(io::ErrorKind::PermissionDenied, "expected the token"))?;
        let mut sent = std::mem::take(&mut self.held);
        let Some(request) = RequestHead::read(&sent) else {
            self.look_away()?;
            return to.write_all(&sent).await;
        };
        let shared = Arc::clone(&self.link.shared);
        if shared.token.is_some() {
            sent = head::without_token(&sent);
        }
        let mut id = request.id.clone();
        if shared.adds_ids {
            let mut more = String::new();
            if !request.has_id {
                let own = format!("tap-{:016x}", shared.random());
                more.push_str(&format!("x-request-id: {own}\r\n"));
                id = Some(own);
            }
            if !request.has_trace {
                // W3C Trace Context: version, trace id, parent id, flags.
                more.push_str(&format!("traceparent: 00-{:016x}{:016x}-{:016x}-01\r\n", shared.random(), shared.random(), shared.random()));
            }
            sent = head::with_headers(&sent, &more);
        }
        self.begin_exchange(&request, id, t_ns).await;
        to.write_all(&sent).await?;
        if let Some(exchange) = self.link.exchanges().back_mut() {
            exchange.passage.upstream_sent_ns = Some(host_time_ns());
        }
        self.body = request.framing;
        if self.body.is_done() {
            self.end_body();
        }
        Ok(())
    }

    async fn begin_exchange(&mut self, request: &RequestHead, id: Option<String>, t_ns: i64) {
        // A caller that sends without end and reads nothing waits here.
        while self.link.exchanges().len() >= MAX_PIPELINED {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let shared = &self.link.shared;
        let id = id.unwrap_or_else(|| format!("tap-{:016x}", shared.random()));
        let passage = Passage { id, received_ns: t_ns, is_new_connection: self.count == 0, ..Passage::default() };
        self.count += 1;
        shared.under_way.fetch_add(1, Ordering::Relaxed);
        if !request.is_completion {
            shared.others.fetch_add(1, Ordering::Relaxed);
        }
        self.prompt = request.is_completion.then(Vec::new);
        let exchange = Exchange { passage, is_completion: request.is_completion, is_head: request.is_head, answer: None };
        self.link.exchanges().push_back(exchange);
    }

    /// The body is over: hashes the prompt and forgets it.
    fn end_body(&mut self) {
        let Some(prompt) = self.prompt.take().filter(|prompt| !prompt.is_empty()) else { return };
        let hashes = prefix::blocks(&prompt, &self.link.shared.salt);
        let known = self.link.exchanges().back().map(|exchange| (exchange.passage.id.clone(), exchange.passage.received_ns));
        if let Some((id, t_ns)) = known.filter(|_| !hashes.is_empty()) {
            self.link.shared.rows.prefix(&id, t_ns, &hashes);
        }
    }
}

/// Copies content up to the limit; beyond it nothing is kept.
fn keep_prompt(prompt: &mut Option<Vec<u8>>, data: &[u8]) {
    match prompt {
        Some(kept) if kept.len() + data.len() <= MAX_PROMPT_BYTES => kept.extend_from_slice(data),
        _ => *prompt = None,
    }
}
