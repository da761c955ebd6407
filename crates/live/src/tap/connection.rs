//! One connection of a caller, and its own to the upstream: bytes pass both ways, each way in a task.

use std::collections::VecDeque;
use std::hash::RandomState;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::answer::Answer;
use super::delays::Delays;
use super::framing::Framing;
use super::head::{self, AnswerHead, MAX_HEAD_BYTES, RequestHead};
use super::prefix;
use super::rows::{Passage, Rows};
use super::{TapPlan, Tapped};
use crate::address::Address;
use crate::window::host_time_ns;

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes of a request's body that are copied to find the prompt.
const MAX_PROMPT_BYTES: usize = 1 << 20;
/// Longest wait for the upstream to take a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long one way may stay open without a byte once the other has ended.
const LINGER: Duration = Duration::from_secs(60);
/// Requests of one connection that may wait for their answers.
const MAX_PIPELINED: usize = 64;
/// How HTTP/2 begins where both sides know (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

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

/// The way from the caller.
struct Requests {
    link: Arc<Link>,
    from: OwnedReadHalf,
    /// A head that is not whole, or bytes behind one that were not sent.
    held: Vec<u8>,
    body: Framing,
    prompt: Option<Vec<u8>>,
    count: u64,
}

/// An answer of the proxy itself.
fn refusal(status: &str, sentence: &str) -> String {
    let body = format!("inferoscope tap: {sentence}\n");
    format!("HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

impl Requests {
    /// Waits for the first byte and connects to the upstream; `None` when the caller leaves without a word.
    async fn begin(&mut self) -> Result<Option<TcpStream>, String> {
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

    async fn run(mut self, mut to: OwnedWriteHalf) -> io::Result<()> {
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

/// The way to the caller.
struct Answers {
    link: Arc<Link>,
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    /// A head that is not whole; its bytes have been sent.
    held: Vec<u8>,
    body: Framing,
}

impl Answers {
    async fn run(mut self) -> io::Result<()> {
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
