//! One GET (or a POST without a body) of one address, with a limit on everything.

use std::io::Read as _;
use std::time::Duration;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, LOCATION};
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::Instant;

use crate::address::Address;
use crate::authorization::Authorization;
use crate::clock::Clock;
use crate::http::{self, Connection, ExchangeError, HttpVersion};

/// Most room made for a body before it came.
const MAX_EXPECTED_BYTES: u64 = 1 << 20;

/// Stage of a connection that does not come about.
const UNREACHED: &str = "could not be reached";

/// A GET and its limits.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// What to read.
    pub address: Address,
    /// Longest wait for the name look-up and the connection.
    pub connect_timeout: Duration,
    /// Longest wait for the whole answer, connecting included.
    pub total_timeout: Duration,
    /// Largest body taken.
    pub max_body_bytes: usize,
    /// Who asks, where the address does not say.
    pub authorization: Option<Authorization>,
    /// Whether the server may pack its answer.
    pub accepts_gzip: bool,
    /// Asks with POST and an empty body, as engines want it that start or stop their profiler.
    pub posts: bool,
}

/// The connection of one reading, for the next one of the same address.
#[derive(Default)]
pub(crate) struct Kept(Option<Connection>);

/// Why there is no answer. Addresses are shown without credentials.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The name did not resolve, nobody listens, or the certificate is not trusted.
    #[error("could not connect to `{address}`")]
    Connect {
        /// Address.
        address: Address,
        /// Cause.
        source: std::io::Error,
    },
    /// A limit on time was reached.
    #[error("`{address}` {stage} within {} s", .limit.as_secs_f64())]
    Timeout {
        /// Address.
        address: Address,
        /// What did not happen in time.
        stage: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// The answer is not HTTP, or its head is too large, or it ended early.
    #[error("`{address}` did not send a whole HTTP answer")]
    Protocol {
        /// Address.
        address: Address,
        /// Cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The body went on beyond the limit.
    #[error("`{address}` sent more than {limit} bytes; expected a metrics page")]
    TooLarge {
        /// Address.
        address: Address,
        /// The limit.
        limit: usize,
    },
    /// The body is packed in a way that was not asked for and is not known.
    #[error("`{address}` sent its answer in the encoding `{encoding}`; expected plain text, or gzip")]
    Encoding {
        /// Address.
        address: Address,
        /// What the header says.
        encoding: String,
    },
    /// The body is not the gzip its header announced.
    #[error("`{address}` sent an answer that cannot be unpacked as gzip")]
    Unpack {
        /// Address.
        address: Address,
        /// Cause.
        source: std::io::Error,
    },
    /// The server points elsewhere.
    #[error("`{address}` answered {status} and points {target}; redirects are not followed, name the final address")]
    Redirect {
        /// Address.
        address: Address,
        /// Status line.
        status: StatusCode,
        /// Where to, as far as it can be shown.
        target: String,
    },
    /// Any status but 200.
    #[error("`{address}` answered {status}, expected 200 OK")]
    Status {
        /// Address.
        address: Address,
        /// Status line.
        status: StatusCode,
    },
}

impl FetchError {
    /// One word for the kind of failure, as written into a recording.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Connect { .. } => "connect",
            Self::Timeout { .. } => "timeout",
            Self::Protocol { .. } => "protocol",
            Self::TooLarge { .. } => "too_large",
            Self::Encoding { .. } | Self::Unpack { .. } => "encoding",
            Self::Redirect { .. } => "redirect",
            Self::Status { .. } => "status",
        }
    }

    /// The same, told of another address: the query of a long question would hide what happened.
    pub(crate) fn told_of(mut self, told: Address) -> Self {
        match &mut self {
            Self::Connect { address, .. }
            | Self::Timeout { address, .. }
            | Self::Protocol { address, .. }
            | Self::TooLarge { address, .. }
            | Self::Encoding { address, .. }
            | Self::Unpack { address, .. }
            | Self::Redirect { address, .. }
            | Self::Status { address, .. } => *address = told,
        }
        self
    }

    /// True if trying again soon will hardly help: nobody there, or a server that answers and says no.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Encoding { .. } | Self::Redirect { .. } => true,
            Self::Timeout { stage, .. } => *stage == UNREACHED,
            Self::Status { status, .. } => status.is_client_error(),
            Self::Protocol { .. } | Self::TooLarge { .. } | Self::Unpack { .. } => false,
        }
    }
}

impl Fetch {
    /// A GET with the limits of a metrics scrape: 3 s to connect, 10 s in all, 32 MiB.
    pub fn new(address: Address) -> Self {
        let (connect_timeout, total_timeout) = (Duration::from_secs(3), Duration::from_secs(10));
        Self { address, connect_timeout, total_timeout, max_body_bytes: 32 << 20, authorization: None, accepts_gzip: false, posts: false }
    }

    /// Reads the body. Needs a tokio runtime with I/O and time.
    pub async fn get(&self) -> Result<Vec<u8>, FetchError> {
        self.get_again(&mut Kept::default()).await
    }

    /// Reads the body on the connection of the time before, where the server left it open, and keeps it for the next time.
    pub(crate) async fn get_again(&self, kept: &mut Kept) -> Result<Vec<u8>, FetchError> {
        Ok(self.get_if(|status| status == StatusCode::OK, kept).await?.1)
    }

    /// Reads status and body of any answer but a redirect: an API says in the body why it refuses.
    pub(crate) async fn get_any(&self) -> Result<(StatusCode, Vec<u8>), FetchError> {
        self.get_if(|_| true, &mut Kept::default()).await
    }

    async fn get_if(&self, is_read: fn(StatusCode) -> bool, kept: &mut Kept) -> Result<(StatusCode, Vec<u8>), FetchError> {
        let deadline = Instant::now() + self.total_timeout;
        let (mut connection, mut response) = self.ask(deadline, kept).await?;
        self.check_status(&response, is_read)?;
        let status = response.status();
        let is_gzip = self.is_gzip(response.headers())?;
        let body = self.body(&mut connection, response.body_mut(), deadline).await?;
        kept.0 = Some(connection);
        Ok((status, if is_gzip { self.unpacked(&body)? } else { body }))
    }

    /// Sends the request. A kept connection that the server closed meanwhile is no failure: it is asked on a new one.
    async fn ask(&self, deadline: Instant, kept: &mut Kept) -> Result<(Connection, Response<Incoming>), FetchError> {
        if let Some(mut connection) = kept.0.take()
            && connection.is_usable().await
        {
            match connection.send(self.request(), deadline).await {
                Ok(response) => return Ok((connection, response)),
                Err(ExchangeError::Broken(_)) => {}
                Err(error) => return Err(self.failed(error, "did not answer")),
            }
        }
        let limit = self.connect_timeout.min(self.total_timeout);
        let left = limit.min(deadline.saturating_duration_since(Instant::now()));
        let opened = Connection::open(&self.address, HttpVersion::Http1, Clock::start(), left).await;
        let mut connection = opened.map_err(|error| match error {
            ExchangeError::Timeout => FetchError::Timeout { address: self.address.clone(), stage: UNREACHED, limit },
            error => self.failed(error, UNREACHED),
        })?;
        let response = connection.send(self.request(), deadline).await.map_err(|error| self.failed(error, "did not answer"))?;
        Ok((connection, response))
    }

    /// A failure once connected.
    fn failed(&self, error: ExchangeError, stage: &'static str) -> FetchError {
        let address = self.address.clone();
        match error {
            ExchangeError::Connect(source) => FetchError::Connect { address, source },
            ExchangeError::Timeout => FetchError::Timeout { address, stage, limit: self.total_timeout },
            ExchangeError::Broken(source) => FetchError::Protocol { address, source },
            ExchangeError::NoHttp2 => FetchError::Protocol { address, source: "the server speaks no HTTP/2".into() },
            ExchangeError::TooLarge => FetchError::TooLarge { address, limit: self.max_body_bytes },
        }
    }

    fn request(&self) -> Request<Full<Bytes>> {
        let method = if self.posts { Method::POST } else { Method::GET };
        let mut request = http::request(method, &self.address, self.authorization.as_ref());
        request = request.header(ACCEPT, "text/plain;version=0.0.4, */*;q=0.1");
        if self.accepts_gzip {
            request = request.header(ACCEPT_ENCODING, "gzip");
        }
        request.body(Full::default()).expect("an address that parsed makes a valid request")
    }

    fn check_status(&self, response: &Response<Incoming>, is_read: fn(StatusCode) -> bool) -> Result<(), FetchError> {
        let (address, status) = (self.address.clone(), response.status());
        if status.is_redirection() {
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            return Err(FetchError::Redirect { address, status, target: shown_target(location) });
        }
        if is_read(status) { Ok(()) } else { Err(FetchError::Status { address, status }) }
    }

    async fn body(&self, connection: &mut Connection, body: &mut Incoming, deadline: Instant) -> Result<Vec<u8>, FetchError> {
        let expected = body.size_hint().lower().min(MAX_EXPECTED_BYTES).min(self.max_body_bytes as u64);
        let mut bytes = Vec::with_capacity(expected as usize);
        let take = |piece: &[u8], _| {
            if bytes.len() + piece.len() > self.max_body_bytes {
                return Err(ExchangeError::TooLarge);
            }
            bytes.extend_from_slice(piece);
            Ok(())
        };
        connection.read(body, deadline, take).await.map_err(|error| self.failed(error, "did not finish its answer"))?;
        Ok(bytes)
    }

    /// Whether the body is packed; an encoding nobody asked for and that is not known is an error.
    fn is_gzip(&self, headers: &HeaderMap) -> Result<bool, FetchError> {
        let named: Vec<_> = headers.get_all(CONTENT_ENCODING).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        let encoding = named.join(", ");
        match encoding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(false),
            "gzip" | "x-gzip" => Ok(true),
            _ => Err(FetchError::Encoding { address: self.address.clone(), encoding: encoding.chars().take(60).collect() }),
        }
    }

    /// A packed body, unpacked up to the limit of any body.
    fn unpacked(&self, body: &[u8]) -> Result<Vec<u8>, FetchError> {
        let mut bytes = Vec::new();
        let read = MultiGzDecoder::new(body).take(self.max_body_bytes as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|source| FetchError::Unpack { address: self.address.clone(), source })?;
        if bytes.len() > self.max_body_bytes {
            return Err(FetchError::TooLarge { address: self.address.clone(), limit: self.max_body_bytes });
        }
        Ok(bytes)
    }
}

/// A redirect's target, if showing it can reveal nothing.
fn shown_target(location: Option<&str>) -> String {
    let Some(location) = location else { return "nowhere".to_string() };
    if let Ok(address) = location.parse::<Address>() {
        return format!("to `{address}`");
    }
    match location {
        location if location.starts_with('/') && !location.contains('?') && location.len() < 200 => format!("to `{location}`"),
        _ => "elsewhere".to_string(),
    }
}
