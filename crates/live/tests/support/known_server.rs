//! A server whose timing is known: it writes each chunk when its script says and notes when it really did. And a load on it.
//!
//! Raw HTTP over one thread, so that it costs little beside the client under test. Its own notes are the truth: a late tick
//! of the server is not charged to the client.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use live::Address;
use live::load::{Api, Dialect, HttpVersion, Plan, Schedule};
use simulate::workload::{Arrivals, Generator, Lengths};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What each request gets.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// From the request to the first chunk with tokens.
    pub(crate) ttft: Duration,
    /// Between chunks with tokens; zero is as fast as possible.
    pub(crate) interval: Duration,
    /// Chunks with tokens.
    pub(crate) chunks: u32,
    /// Of those, the first so many carry reasoning.
    pub(crate) reasoning: u32,
    /// Tokens per chunk.
    pub(crate) tokens: u32,
    /// Whether a chunk with the role comes at once.
    pub(crate) has_role: bool,
    /// What is told about tokens.
    pub(crate) usage: Usage,
    /// How the answer goes wrong.
    pub(crate) trouble: Trouble,
}

/// What is told about tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// Nothing.
    None,
    /// One chunk at the end.
    Total,
    /// In every chunk.
    PerChunk,
}

/// How an answer goes wrong; every third request is answered well in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It does not.
    None,
    /// Nothing more comes after half of the chunks.
    Hang,
    /// The connection is reset after half of the chunks.
    Reset,
    /// The body ends cleanly after half of the chunks.
    Short,
    /// Status 503.
    Status,
    /// An error object in the stream.
    Error,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            ttft: Duration::from_millis(200),
            interval: Duration::from_millis(20),
            chunks: 20,
            reasoning: 0,
            tokens: 1,
            has_role: true,
            usage: Usage::PerChunk,
            trouble: Trouble::None,
        }
    }
}

/// What the server did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Truth {
    /// From the request's last byte to the first chunk with tokens, seconds.
    pub(crate) ttft_s: Vec<f64>,
    /// Between chunks with tokens, seconds.
    pub(crate) gaps_s: Vec<f64>,
    /// Requests, answered or not.
    pub(crate) requests: u64,
    /// Words of their prompts.
    pub(crate) prompt_words: Vec<usize>,
}

impl Truth {
    /// An answer whose chunks with tokens were sent at these moments.
    pub(crate) fn note(&mut self, received: Instant, sent: &[Instant]) {
        self.ttft_s.push((sent[0] - received).as_secs_f64());
        self.gaps_s.extend(sent.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()));
    }
}

/// Nearest rank.
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    let rank = (share * values.len() as f64).ceil().max(1.0) as usize;
    values.get(rank - 1).copied().unwrap_or(f64::NAN)
}

/// A load on the server: so many requests, on an open loop so many per second, each of so many prompt and output tokens.
pub(crate) fn plan(server: Address, count: usize, per_s: f64, [prompt, output]: [u32; 2], schedule: Schedule) -> Plan {
    let (arrivals, prompts, outputs) = (Arrivals::Constant { per_s }, Lengths::Fixed(prompt), Lengths::Fixed(output));
    Plan {
        server,
        authorization: None,
        http: HttpVersion::Http1,
        tokenizer: None,
        api: Api::Chat,
        dialect: Dialect::OpenAi,
        model: "known".into(),
        is_streamed: true,
        may_end_early: false,
        workload: Generator { count, arrivals, prompts, outputs, prefix: None, seed: 1 }.generate(),
        schedule,
        warmup: 0,
        duration: None,
        timeout: Duration::from_secs(60),
        drain: Duration::from_secs(60),
        most_in_flight: 1024,
        seed: 1,
    }
}

/// Starts the server on a free port of this machine.
pub(crate) fn start(script: Script) -> (SocketAddr, Arc<Mutex<Truth>>) {
    accept_all(move |stream, truth| serve(stream, script.clone(), truth))
}

/// Serves each connection with a task of `serve`'s, all on one thread.
pub(crate) fn accept_all<F>(mut serve: impl FnMut(TcpStream, Arc<Mutex<Truth>>) -> F + Send + 'static) -> (SocketAddr, Arc<Mutex<Truth>>)
where
    F: Future<Output: Send> + Send + 'static,
{
    let truth = Arc::new(Mutex::new(Truth::default()));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let shared = Arc::clone(&truth);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
    });
    (address, truth)
}

async fn serve(mut stream: TcpStream, script: Script, truth: Arc<Mutex<Truth>>) {
    let mut buffer = Vec::new();
    while let Some((is_get, body)) = read_request(&mut stream, &mut buffer).await {
        let received = Instant::now();
        if is_get {
            let list = r#"{"data":[{"id":"known","owned_by":"vllm"}]}"#;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{list}", list.len());
            if stream.write_all(head.as_bytes()).await.is_err() {
                return;
            }
            continue;
        }
        let number = {
            let mut truth = truth.lock().unwrap();
            truth.requests += 1;
            truth.prompt_words.push(prompt_words(&body));
            truth.requests
        };
        let trouble = if number.is_multiple_of(3) { Trouble::None } else { script.trouble };
        if answer(&mut stream, &script, trouble, received, &truth).await.is_none() {
            return;
        }
    }
}

fn prompt_words(body: &[u8]) -> usize {
    let body = String::from_utf8_lossy(body);
    let content = body.split_once(r#""content":""#).and_then(|(_, rest)| rest.split_once('"'));
    content.map_or(0, |(content, _)| content.split_whitespace().count())
}

/// Reads one request; whether it is a GET, and its body.
async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(bool, Vec<u8>)> {
    loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
            let length: usize =
                head.lines().find_map(|line| line.strip_prefix("content-length:")).map_or(0, |text| text.trim().parse().unwrap());
            if buffer.len() >= end + 4 + length {
                let body = buffer.drain(..end + 4 + length).skip(end + 4).collect();
                return Some((head.starts_with("get"), body));
            }
        }
        let mut piece = vec![0; 16 << 10];
        match stream.read(&mut piece).await {
            Ok(count) if count > 0 => buffer.extend_from_slice(&piece[..count]),
            _ => return None,
        }
    }
}

fn event(data: &str) -> String {
    format!("data: {data}\n\n")
}

fn chunk(data: &str) -> String {
    chunked(&event(data))
}

fn chunked(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// The role.
pub(crate) fn role() -> String {
    event(r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#)
}

/// What comes after the last chunk with tokens.
pub(crate) fn end(script: &Script) -> String {
    let mut end = event(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#);
    let total = script.chunks * script.tokens;
    if script.usage != Usage::None {
        end.push_str(&event(&format!(
            r#"{{"choices":[],"usage":{{"prompt_tokens":7,"completion_tokens":{total},"total_tokens":{}}}}}"#,
            total + 7
        )));
    }
    end + &event("[DONE]")
}

async fn answer(stream: &mut TcpStream, script: &Script, trouble: Trouble, received: Instant, truth: &Mutex<Truth>) -> Option<()> {
    if trouble == Trouble::Status {
        return stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy").await.ok();
    }
    let mut head = String::from("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
    if script.has_role {
        head.push_str(&chunked(&role()));
    }
    stream.write_all(head.as_bytes()).await.ok()?;
    let mut sent: Vec<Instant> = Vec::with_capacity(script.chunks as usize);
    for at in 0..script.chunks {
        if at == script.chunks / 2 && trouble != Trouble::None {
            return trouble_now(stream, trouble).await;
        }
        let due = received + script.ttft + script.interval * at;
        if due > Instant::now() {
            tokio::time::sleep_until(due.into()).await;
        }
        let text = chunked(&body(script, at));
        let now = Instant::now();
        stream.write_all(text.as_bytes()).await.ok()?;
        sent.push(now);
    }
    let end = chunked(&end(script)) + "0\r\n\r\n";
    stream.write_all(end.as_bytes()).await.ok()?;
    truth.lock().unwrap().note(received, &sent);
    Some(())
}

/// A chunk with tokens.
pub(crate) fn body(script: &Script, at: u32) -> String {
    let words = "tok ".repeat(script.tokens as usize);
    let field = if at < script.reasoning { "reasoning_content" } else { "content" };
    let usage = if script.usage == Usage::PerChunk {
        let told = (at + 1) * script.tokens;
        format!(r#","usage":{{"prompt_tokens":7,"completion_tokens":{told},"total_tokens":{}}}"#, told + 7)
    } else {
        String::new()
    };
    event(&format!(
        r#"{{"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk","created":1796036992,"model":"known","choices":[{{"index":0,"delta":{{"{field}":"{words}"}},"logprobs":null,"finish_reason":null}}]{usage}}}"#
    ))
}

async fn trouble_now(stream: &mut TcpStream, trouble: Trouble) -> Option<()> {
    match trouble {
        Trouble::Hang => {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            None
        }
        Trouble::Short => stream.write_all(b"0\r\n\r\n").await.ok(),
        Trouble::Error => {
            let end = chunk(r#"{"error":{"message":"out of memory","code":500}}"#) + &chunk("[DONE]") + "0\r\n\r\n";
            stream.write_all(end.as_bytes()).await.ok()
        }
        _ => {
            let _ = stream.set_zero_linger();
            None
        }
    }
}
