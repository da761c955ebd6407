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
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::{LocalSet, spawn_local};

use super::answer::AnswerBody;
use super::books::{Books, Form};
use super::fault::Setup;
use super::log;
use super::prompt;
use crate::clock::Clock;
use crate::load::Api;
use crate::window::runtime;

/// Largest body of a request.
const MAX_BODY_BYTES: usize = 64 << 20;
/// Most connections at a time.
const MOST_CONNECTIONS: usize = 16_384;
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
        let books = Books::new(&self.config.setup)?;
        let clock = Clock::start();
        let start_ns = clock.now_ns();
        for line in log::start(start_ns, &self.config.model, &self.config.setup) {
            on_line(&line);
        }
        let service = Rc::new(Service {
            state: RefCell::new(State { books, callers: Vec::new() }),
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

struct State {
    books: Books,
    /// Who waits for the pieces of an answer, by number of the request.
    callers: Vec<Option<UnboundedSender<Bytes>>>,
}

impl State {
    /// Lets the engine run up to `now_ns` and hands over what leaves.
    fn advance(&mut self, now_ns: i64) {
        let callers = &mut self.callers;
        self.books.advance(now_ns, &mut |piece| {
            let caller = &mut callers[piece.request as usize];
            // A caller that went away is no concern of the engine.
            let _ = caller.as_ref().map(|caller| caller.send(piece.bytes));
            if piece.is_last {
                *caller = None;
            }
        });
    }
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
                state.advance(now_ns);
                state.books.next_ns()
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
        state.advance(self.clock.now_ns());
        state.books.page(&self.config.model, self.start_ns)
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
        state.advance(now_ns);
        let form = Form { api, model: &self.config.model, asked: &asked };
        if state.books.submit(now_ns, &form).is_none() {
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "this server answered as many requests as it keeps books about; restart it");
        }
        state.callers.push(Some(pieces));
        drop(state);
        self.wake.notify_one();
        let kind = if asked.is_streamed { "text/event-stream; charset=utf-8" } else { "application/json" };
        respond(StatusCode::OK, kind, AnswerBody::Pieces(receiver))
    }

    async fn write_log(&self, stop: &AtomicBool, on_line: &dyn Fn(&str)) {
        let mut totals = Vec::new();
        let mut last_ns = self.clock.now_ns();
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK_UP).await;
            let now_ns = self.clock.now_ns();
            if now_ns - last_ns < log::INTERVAL_NS {
                continue;
            }
            let span_s = (now_ns - last_ns) as f64 / 1e9;
            last_ns = now_ns;
            self.state.borrow().books.log(now_ns, span_s, &mut totals).iter().for_each(|line| on_line(line));
        }
    }
}

/// Compares without telling by its time where the difference is.
fn is_same(given: &[u8], wanted: &[u8]) -> bool {
    given.len() == wanted.len() && given.iter().zip(wanted).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
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
