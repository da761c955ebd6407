//! One GET of one address, with a limit on everything.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, LOCATION, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout_at;

use crate::address::Address;

/// Room for the response's head; a metrics endpoint needs a few hundred bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;

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
}

/// Why there is no answer. Addresses are shown without credentials.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The name did not resolve, or nobody listens.
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
        source: hyper::Error,
    },
    /// The body went on beyond the limit.
    #[error("`{address}` sent more than {limit} bytes; expected a metrics page")]
    TooLarge {
        /// Address.
        address: Address,
        /// The limit.
        limit: usize,
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
            Self::Redirect { .. } => "redirect",
            Self::Status { .. } => "status",
        }
    }
}

impl Fetch {
    /// A GET with the limits of a metrics scrape: 3 s to connect, 10 s in all, 32 MiB.
    pub fn new(address: Address) -> Self {
        let (connect_timeout, total_timeout) = (Duration::from_secs(3), Duration::from_secs(10));
        Self { address, connect_timeout, total_timeout, max_body_bytes: 32 << 20 }
    }

    /// Reads the body. Needs a tokio runtime with I/O and time.
    pub async fn get(&self) -> Result<Vec<u8>, FetchError> {
        let start = tokio::time::Instant::from_std(Instant::now());
        let limit = self.connect_timeout.min(self.total_timeout);
        let stream = self.within(start + limit, limit, "could not be reached", self.connect()).await??;
        let deadline = start + self.total_timeout;
        let response = self.within(deadline, self.total_timeout, "did not answer", self.ask(stream)).await??;
        self.check_status(&response)?;
        self.within(deadline, self.total_timeout, "did not finish its answer", self.body(response)).await?
    }

    async fn within<T>(
        &self,
        deadline: tokio::time::Instant,
        limit: Duration,
        stage: &'static str,
        work: impl Future<Output = T>,
    ) -> Result<T, FetchError> {
        timeout_at(deadline, work).await.map_err(|_| FetchError::Timeout { address: self.address.clone(), stage, limit })
    }

    async fn connect(&self) -> Result<TcpStream, FetchError> {
        let target = (self.address.host(), self.address.port());
        TcpStream::connect(target).await.map_err(|source| FetchError::Connect { address: self.address.clone(), source })
    }

    async fn ask(&self, stream: TcpStream) -> Result<Response<Incoming>, FetchError> {
        let (mut sender, connection) =
            http1::Builder::new().max_buf_size(MAX_HEAD_BYTES).handshake(TokioIo::new(stream)).await.map_err(|e| self.protocol(e))?;
        // Ends with the response or with the runtime; its error also reaches the response.
        tokio::spawn(connection);
        sender.send_request(self.request()).await.map_err(|e| self.protocol(e))
    }

    fn request(&self) -> Request<Empty<Bytes>> {
        let mut request = Request::get(self.address.path_and_query())
            .header(HOST, self.address.authority())
            .header(USER_AGENT, concat!("inferoscope/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "text/plain;version=0.0.4, */*;q=0.1");
        if let Some(authorization) = self.address.authorization() {
            request = request.header(AUTHORIZATION, authorization);
        }
        request.body(Empty::new()).expect("an address that parsed makes a valid request")
    }

    fn check_status(&self, response: &Response<Incoming>) -> Result<(), FetchError> {
        let (address, status) = (self.address.clone(), response.status());
        if status.is_redirection() {
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            return Err(FetchError::Redirect { address, status, target: shown_target(location) });
        }
        if status == StatusCode::OK { Ok(()) } else { Err(FetchError::Status { address, status }) }
    }

    async fn body(&self, response: Response<Incoming>) -> Result<Vec<u8>, FetchError> {
        let mut body = response.into_body();
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| self.protocol(e))?;
            let data = frame.data_ref().map_or(&[][..], |data| data.as_ref());
            if bytes.len() + data.len() > self.max_body_bytes {
                return Err(FetchError::TooLarge { address: self.address.clone(), limit: self.max_body_bytes });
            }
            bytes.extend_from_slice(data);
        }
        Ok(bytes)
    }

    fn protocol(&self, source: hyper::Error) -> FetchError {
        FetchError::Protocol { address: self.address.clone(), source }
    }
}

/// A redirect's target, if showing it can reveal nothing.
fn shown_target(location: Option<&str>) -> String {
    let Some(location) = location else { return "nowhere".to_string() };
    if let Ok(address) = location.parse::<Address>() {
        return format!("to `{address}`");
    }
    match location {
        location if location.starts_with("https://") => "to an `https://` address".to_string(),
        location if location.starts_with('/') && !location.contains('?') && location.len() < 200 => format!("to `{location}`"),
        _ => "elsewhere".to_string(),
    }
}
