//! The server: sockets on one side, the simulation on the other, one thread.
//!
//! A task drives the simulation with the clock: it sleeps until the next thing is due, lets the simulation do it, and hands
//! tokens to the answers. Listens on the loopback unless it was told another address and given a token.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use simulate::config::ConfigError;
use simulate::cost::LinearCost;
use simulate::online::{Delivery, Online};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::{LocalSet, spawn_local};

use super::answer::{AnswerBody, Voice};
use super::fault::Setup;
use super::log::{self, Totals};
use super::metrics::{About, Counts, page};
use super::prompt;
use crate::clock::Clock;
use crate::load::Api;
use crate::window::runtime;

/// Largest body of a request.
const MAX_BODY_BYTES: usize = 64 << 20;
/// Most connections at a time.
const MOST_CONNECTIONS: usize = 16_384;
/// Between two state lines of the log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// How often a stop is looked for.
const LOOK_UP: Duration = Duration::from_millis(50);
/// Longest wait for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Where and what is served.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Address to listen on; port 0 is a free one.
    pub listen: SocketAddr,
    /// A bearer token that every request must have; needed beyond the loopback.
    pub token: Option<String>,
    /// Model name to tell.
    pub model: String,
    /// The system.
    pub setup: Setup,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address that others can reach, without a token.
    #[error("`{0}` can be reached from other machines; expected a token for it, found none")]
    Open(IpAddr),
    /// A name that would break the lines it stands in.
    #[error("expected a model name of letters, digits and `-_./:`, found another")]
    Model,
    /// The address cannot be had.
    #[error("could not listen on `{address}`")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Cause.
        source: io::Error,
    },
    /// The system cannot be simulated.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The runtime could not be built.
    #[error("could not set up network I/O")]
    Runtime(#[source] io::Error),
}

/// A server that listens and does not serve yet.
#[derive(Debug)]
pub struct Server {
    listener: std::net::TcpListener,
    config: ServeConfig,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn bind(config: ServeConfig) -> Result<Self, ServeError> {
        if !config.listen.ip().is_loopback() && config.token.is_none() {
            return Err(ServeError::Open(config.listen.ip()));
        }
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:".contains(letter);
        if config.model.is_empty() || config.model.len() > 200 || !config.model.chars().all(is_plain) {
            return Err(ServeError::Model);
        }
        config.setup.system.check()?;
        let failed = |source| ServeError::Listen { address: config.listen, source };
        let listener = std::net::TcpListener::bind(config.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self { listener, config })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is set. `on_line` gets the lines of the log.
    ///
    /// # Errors
    /// See [`ServeError`]; what goes wrong with one connection ends that connection.
    pub fn serve(self, stop: &Arc<AtomicBool>, on_line: &dyn Fn(&str)) -> Result<(), ServeError> {
        let runtime = runtime().map_err(ServeError::Runtime)?;
        let engine = Online::new(self.config.setup.system.clone(), self.config.setup.cost)?;
        let clock = Clock::start();
        let start_ns = clock.now_ns();
        for line in log::start(start_ns, &self.config.model, &self.config.setup) {
            on_line(&line);
        }
        let replicas = engine.states().len();
        let service = Rc::new(Service {
            state: RefCell::new(State { engine, answers: Vec::new(), counts: vec![Counts::default(); replicas] }),
            wake: Notify::new(),
            clock,
            start_ns,
            config: self.config,
        });
        let listener = self.listener;
        let local = LocalSet::new();
        local
            .block_on(&runtime, async {
                let listener = TcpListener::from_std(listener)?;
                spawn_local(Rc::clone(&service).drive());
                spawn_local(Rc::clone(&service).accept(listener));
                service.write_log(stop, on_line).await;
                Ok(())
            })
            .map_err(ServeError::Runtime)
    }
}

/// An answer on its way.
struct Answer {
    voice: Voice,
    pieces: Option<UnboundedSender<Bytes>>,
    is_streamed: bool,
    /// What a proxy gathered.
    gathered: String,
    /// Tokens delivered.
    told: u32,
    /// When the engine made its latest token.
    made_ns: Option<i64>,
}

struct State {
    engine: Online<LinearCost>,
    /// By number of the request; finished ones are empty.
    answers: Vec<Option<Answer>>,
    /// Per replica.
    counts: Vec<Counts>,
}

struct Service {
    state: RefCell<State>,
    wake: Notify,
    clock: Clock,
    start_ns: i64,
    config: ServeConfig,
}

impl Service {
    /// Lets the simulation run along with the clock.
    async fn drive(self: Rc<Self>) {
        loop {
            let next_ns = {
                let now_ns = self.clock.now_ns();
                let mut state = self.state.borrow_mut();
                state.advance(now_ns, &self.config.setup);
                state.engine.next_ns()
            };
            match next_ns {
                None => self.wake.notified().await,
                Some(next_ns) => {
                    let until = tokio::time::sleep_until(self.clock.moment(next_ns).into());
                    tokio::select! {
                        () = until => {}
                        () = self.wake.notified() => {}
                    }
                }
            }
        }
    }

    async fn accept(self: Rc<Self>, listener: TcpListener) {
        let open = Rc::new(());
        loop {
            match listener.accept().await {
                Ok((stream, _)) if Rc::strong_count(&open) <= MOST_CONNECTIONS => {
                    let (service, held) = (Rc::clone(&self), Rc::clone(&open));
                    spawn_local(async move {
                        service.connection(stream).await;
                        drop(held);
                    });
                }
                Ok(_) => {}
                // Out of descriptors: others have to end first.
                Err(_) => tokio::time::sleep(LOOK_UP).await,
            }
        }
    }

    async fn connection(self: Rc<Self>, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let serve = service_fn(move |request| {
            let service = Rc::clone(&self);
            async move { Ok::<_, Infallible>(service.answer(request).await) }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(256 << 10);
        // What goes wrong with a connection is its client's to tell.
        let _ = builder.serve_connection(TokioIo::new(stream), serve).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<AnswerBody> {
        if !self.may_ask(&request) {
            return refusal(StatusCode::UNAUTHORIZED, "expected the bearer token of this server");
        }
        let path = request.uri().path().to_string();
        match (request.method(), path.as_str()) {
            (&Method::GET, "/metrics") => whole(StatusCode::OK, "text/plain; version=0.0.4", self.metrics()),
            (&Method::GET, "/health") => whole(StatusCode::OK, "text/plain", String::new()),
            (&Method::GET, "/v1/models") => whole(StatusCode::OK, "application/json", self.models()),
            (&Method::POST, "/v1/chat/completions") => self.complete(request, Api::Chat).await,
            (&Method::POST, "/v1/completions") => self.complete(request, Api::Completions).await,
            _ => refusal(StatusCode::NOT_FOUND, "expected /v1/chat/completions, /v1/completions, /v1/models, /metrics or /health"),
        }
    }

    fn may_ask(&self, request: &Request<Incoming>) -> bool {
        let Some(token) = &self.config.token else { return true };
        let given = request.headers().get(AUTHORIZATION).map(hyper::header::HeaderValue::as_bytes).unwrap_or_default();
        is_same(given, format!("Bearer {token}").as_bytes())
    }

    fn models(&self) -> String {
        serde_json::json!({
            "object": "list",
            "data": [{ "id": self.config.model, "object": "model", "owned_by": crate::load::SIMULATED_OWNER }],
        })
        .to_string()
    }

    fn metrics(&self) -> String {
        let mut state = self.state.borrow_mut();
        state.advance(self.clock.now_ns(), &self.config.setup);
        let engine = &self.config.setup.system.engine;
        let about = About {
            model: &self.config.model,
            start_s: self.start_ns as f64 / 1e9,
            block_tokens: engine.block_tokens,
            has_prefix_caching: engine.prefix_caching,
            depth: engine.depth(),
            kv_dtype: self.config.setup.kv_dtype,
        };
        let replicas: Vec<_> = state.engine.states().into_iter().zip(&state.counts).collect();
        page(&about, &replicas)
    }

    async fn complete(&self, request: Request<Incoming>, api: Api) -> Response<AnswerBody> {
        let body = match Limited::new(request.into_body(), MAX_BODY_BYTES).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return refusal(StatusCode::PAYLOAD_TOO_LARGE, "expected a body of at most 64 MiB");
            }
            Err(_) => return refusal(StatusCode::BAD_REQUEST, "the body did not come whole"),
        };
        let asked = match prompt::read(&body, self.config.setup.system.engine.block_tokens) {
            Ok(asked) => asked,
            Err(why) => return refusal(StatusCode::BAD_REQUEST, why),
        };
        drop(body);
        let now_ns = self.clock.now_ns();
        let (pieces, receiver) = unbounded_channel();
        let mut state = self.state.borrow_mut();
        state.advance(now_ns, &self.config.setup);
        let Some(number) = state.engine.submit(now_ns, asked.prompt_tokens, asked.output_tokens, &asked.blocks) else {
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "this server answered as many requests as it keeps books about; restart it");
        };
        let voice = Voice {
            api,
            id: number,
            model: self.config.model.clone(),
            created_s: now_ns / 1_000_000_000,
            prompt_tokens: asked.prompt_tokens,
            cached_tokens: 0,
            has_usage: asked.has_usage,
            has_usage_per_chunk: asked.has_usage_per_chunk,
        };
        let answer =
            Answer { voice, pieces: Some(pieces), is_streamed: asked.is_streamed, gathered: String::new(), told: 0, made_ns: None };
        state.answers.push(Some(answer));
        drop(state);
        self.wake.notify_one();
        let kind = if asked.is_streamed { "text/event-stream; charset=utf-8" } else { "application/json" };
        respond(StatusCode::OK, kind, AnswerBody::Pieces(receiver))
    }

    async fn write_log(&self, stop: &AtomicBool, on_line: &dyn Fn(&str)) {
        let mut totals = vec![Totals::default(); self.state.borrow().counts.len()];
        let mut last_ns = self.clock.now_ns();
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK_UP).await;
            let now_ns = self.clock.now_ns();
            let span_s = (now_ns - last_ns) as f64 / 1e9;
            if span_s < LOG_INTERVAL.as_secs_f64() {
                continue;
            }
            last_ns = now_ns;
            let state = self.state.borrow();
            for (at, (replica, counts)) in state.engine.states().iter().zip(&state.counts).enumerate() {
                on_line(&log::state(now_ns, at, replica, counts, totals[at], span_s));
                totals[at] = Totals::of(counts);
            }
        }
    }
}

/// Compares without telling by its time where the difference is.
fn is_same(given: &[u8], wanted: &[u8]) -> bool {
    given.len() == wanted.len() && given.iter().zip(wanted).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

impl State {
    /// Does what is due by `now_ns`.
    fn advance(&mut self, now_ns: i64, setup: &Setup) {
        let mut deliveries = Vec::new();
        self.engine.advance(now_ns, |delivery| deliveries.push(delivery));
        for report in self.engine.take_steps() {
            let tokens = u64::from(report.decode_seqs) + report.prefill_tokens;
            self.counts[report.replica as usize].step_tokens.add(tokens as f64);
        }
        for delivery in deliveries {
            match delivery {
                Delivery::Made { request, at_ns, tokens, is_last } => self.made(request, at_ns, tokens, is_last, setup),
                Delivery::Tokens { request, tokens, is_last, .. } => self.tokens(request, tokens, is_last, setup),
                Delivery::Rejected { request, .. } => self.rejected(request),
            }
        }
    }

    /// Books what the engine made.
    fn made(&mut self, request: u32, at_ns: i64, tokens: u32, is_last: bool, setup: &Setup) {
        let row = *self.engine.row(request);
        let asked = *self.engine.request(request);
        let counts = &mut self.counts[row.replica as usize];
        counts.output_tokens += u64::from(tokens);
        // The API server gets a request behind the gateway and before its tokenizer.
        let arrival_ns = row.arrival_ns + setup.system.front.gateway_ns;
        let seconds = |ns: i64| ns as f64 / 1e9;
        let answer = self.answers[request as usize].as_mut();
        let before = answer.and_then(|answer| {
            answer.voice.cached_tokens = row.cached_tokens;
            answer.made_ns.replace(at_ns)
        });
        if let Some(before) = before {
            counts.gap.add(seconds(at_ns - before));
        } else {
            counts.ttft.add(seconds(at_ns - arrival_ns));
            counts.prompt_tokens += u64::from(asked.prompt_tokens);
            counts.prefix_queries += u64::from(asked.prompt_tokens);
            counts.prefix_hits += u64::from(row.cached_tokens);
        }
        if is_last {
            counts.finished += 1;
            counts.e2e.add(seconds(at_ns - arrival_ns));
            counts.queue.add(seconds(row.admitted_ns - row.reached_ns));
            counts.prefill.add(seconds(row.first_token_ns - row.admitted_ns));
            counts.decode.add(seconds(at_ns - row.first_token_ns));
            counts.inference.add(seconds(at_ns - row.admitted_ns));
            counts.prompt_length.add(f64::from(asked.prompt_tokens));
            counts.output_length.add(f64::from(asked.output_tokens));
            if asked.output_tokens > 1 {
                counts.tpot.add(seconds(at_ns - row.first_token_ns) / f64::from(asked.output_tokens - 1));
            }
        }
    }

    /// Passes tokens on to the caller.
    fn tokens(&mut self, request: u32, tokens: u32, is_last: bool, setup: &Setup) {
        let slot = &mut self.answers[request as usize];
        let Some(answer) = slot else { return };
        let is_first = answer.told == 0;
        answer.told += tokens;
        if answer.is_streamed {
            if let Some(role) = answer.voice.role().filter(|_| is_first) {
                answer.gathered.push_str(&role);
            }
            answer.gathered.push_str(&answer.voice.tokens(tokens, answer.told, is_last));
            if is_last {
                answer.gathered.push_str(&answer.voice.end(answer.told));
            }
        } else if is_last {
            answer.gathered = answer.voice.whole(answer.told);
        }
        if (is_last || answer.gathered.len() > setup.proxy_buffer_bytes) && !answer.gathered.is_empty() {
            let piece = Bytes::from(std::mem::take(&mut answer.gathered));
            // A caller that went away is no concern of the engine.
            let _ = answer.pieces.as_ref().map(|pieces| pieces.send(piece));
        }
        if is_last {
            *slot = None;
        }
    }

    fn rejected(&mut self, request: u32) {
        if let Some(answer) = self.answers[request as usize].take() {
            let error = r#"{"error":{"message":"the request is longer than the KV cache","type":"BadRequestError","code":400}}"#;
            let text = if answer.is_streamed { format!("data: {error}\n\ndata: [DONE]\n\n") } else { error.to_string() };
            let _ = answer.pieces.as_ref().map(|pieces| pieces.send(Bytes::from(text)));
        }
    }
}

fn respond(status: StatusCode, kind: &'static str, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response.headers_mut().insert("x-simulated-by", hyper::header::HeaderValue::from_static("inferoscope"));
    response
}

fn whole(status: StatusCode, kind: &'static str, text: String) -> Response<AnswerBody> {
    respond(status, kind, AnswerBody::Whole(Some(Bytes::from(text))))
}

fn refusal(status: StatusCode, why: &str) -> Response<AnswerBody> {
    let error = serde_json::json!({ "error": { "message": why, "code": status.as_u16() } });
    whole(status, "application/json", error.to_string())
}
