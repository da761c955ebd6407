//! Why a Prometheus server gave nothing, and what to do about it.

use hyper::StatusCode;
use ingest::AnswerError;

use crate::address::Address;
use crate::fetch::FetchError;

/// See the module. Addresses are shown without credentials.
#[derive(Debug, thiserror::Error)]
pub enum PrometheusError {
    /// The runtime could not be built.
    #[error("could not set up network I/O")]
    Runtime(#[source] std::io::Error),
    /// A window that ends before it begins.
    #[error("expected a window that ends after it begins")]
    NoWindow,
    /// Nobody there, or no HTTP.
    #[error(
        "could not ask the Prometheus server `{server}`; check that it runs and that this address reaches it, as in `curl {server}/-/ready`"
    )]
    Unreached {
        /// The server.
        server: Address,
        /// Cause.
        source: Box<FetchError>,
    },
    /// The server wants to know who asks, or does not like the answer.
    #[error(
        "`{server}` answered {status}; {}",
        if *has_authorization { "it does not accept the credentials given" } else { "name where its token or password stands, as in `--prometheus-bearer env:TOKEN` or `--prometheus-basic file:PATH`" }
    )]
    Unauthorized {
        /// The server.
        server: Address,
        /// Status line.
        status: StatusCode,
        /// True when credentials were sent.
        has_authorization: bool,
    },
    /// It answers, but not as Prometheus does.
    #[error(
        "`{server}` answers ({status}), but not as a Prometheus server; expected its base address, with its path prefix if it has one, as in `http://host:9090`"
    )]
    Foreign {
        /// The server.
        server: Address,
        /// Status line.
        status: StatusCode,
        /// Cause.
        source: Box<AnswerError>,
    },
    /// Some other status.
    #[error("`{server}` answered {status}, expected 200 OK; try again, or ask another server")]
    Status {
        /// The server.
        server: Address,
        /// Status line.
        status: StatusCode,
    },
    /// It understood the question and refuses it.
    #[error("`{server}` refuses the question; if it names a parse error, check `--match`")]
    Refused {
        /// The server.
        server: Address,
        /// Cause.
        source: Box<AnswerError>,
    },
    /// The answer is cut or damaged.
    #[error("`{server}` sent an answer that cannot be read; try again, and check what stands between here and there")]
    Damaged {
        /// The server.
        server: Address,
        /// Cause.
        source: Box<AnswerError>,
    },
    /// More than fits, however small the slices.
    #[error("`{server}` has more of this window than can be read ({reason}); name a shorter `--window`, or fewer servers by `--match`")]
    TooMuch {
        /// The server.
        server: Address,
        /// What is too much.
        reason: String,
    },
    /// The engine is known to the server, but not in this window.
    #[error(
        "`{server}` has metrics of an engine, but none from {start} to {end}{}; name another `--end` or `--window`{}",
        if matchers.is_empty() { String::new() } else { format!(" with {matchers}") },
        if matchers.is_empty() { "" } else { ", or other labels in `--match`" }
    )]
    EmptyWindow {
        /// The server.
        server: Box<Address>,
        /// Begin of the window.
        start: String,
        /// End of the window.
        end: String,
        /// Label matchers.
        matchers: String,
    },
    /// The server never scraped an engine.
    #[error(
        "`{server}` has {name_count} metric names, none of an engine known here; add the engine's `/metrics` to its scrape configuration, or read it directly, as in `inferoscope diagnose http://host:8000`"
    )]
    NoEngine {
        /// The server.
        server: Address,
        /// All names.
        name_count: usize,
    },
}

impl PrometheusError {
    pub(super) fn unreached(server: Address, source: FetchError) -> Self {
        Self::Unreached { source: Box::new(source.told_of(server.clone())), server }
    }

    pub(super) fn of_answer(server: Address, status: StatusCode, source: AnswerError) -> Self {
        match source {
            AnswerError::Refused { .. } => Self::Refused { server, source: Box::new(source) },
            AnswerError::Damaged { .. } if status.is_success() => Self::Damaged { server, source: Box::new(source) },
            AnswerError::TooMany { .. } => Self::TooMuch { server, reason: source.to_string() },
            _ if status.is_server_error() => Self::Status { server, status },
            _ => Self::Foreign { server, status, source: Box::new(source) },
        }
    }
}

/// True for a refusal that a smaller question may not meet.
pub(super) fn is_too_much(kind: &str, words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    kind == "timeout"
        || ["too many samples", "maximum resolution", "too many points", "limit", "timed out"].iter().any(|part| words.contains(part))
}
