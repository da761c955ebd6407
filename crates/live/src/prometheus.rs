//! What a Prometheus server stored of a window, as a capture.
//!
//! Asked are the raw samples (an instant query of a range, `metric[10m]`): they carry the times at which they were
//! scraped, so that the result is what scraping live would have given. `query_range` makes up values at steps and is only
//! used where a step is named. Windows are asked in slices, smaller ones where an answer would be too large.

mod error;
mod query;
mod slices;

use std::time::Duration;

use capture::Capture;
use hyper::StatusCode;
use ingest::{AnswerError, Stored, StoredNames};
use tokio::runtime::Runtime;

use crate::address::Address;
use crate::authorization::Authorization;
use crate::fetch::{Fetch, FetchError};
use crate::window::runtime;

pub use error::PrometheusError;
pub use query::parse_time;

/// The server's own limit on a query is two minutes unless it is set otherwise.
const QUERY_TIMEOUT: Duration = Duration::from_secs(130);
/// Longest text of names or instances in one query: proxies refuse addresses beyond some 8 KB.
const MAX_LIST_BYTES: usize = 2_500;

/// What to ask for.
#[derive(Clone, Debug)]
pub struct StoredWindow {
    /// The server, see [`Address::base`].
    pub server: Address,
    /// Label matchers that narrow every query, as in PromQL without braces: `job="vllm"`. Empty for none.
    pub matchers: String,
    /// First moment, ns since the epoch.
    pub start_ns: i64,
    /// Last moment, ns since the epoch.
    pub end_ns: i64,
    /// Distance of values made up by the server; `None` for what was really scraped.
    pub step: Option<Duration>,
    /// Who asks.
    pub authorization: Option<Authorization>,
}

/// What a watcher learns after each answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Queries answered.
    pub query_count: usize,
    /// Samples held.
    pub sample_count: usize,
    /// How much of the work is done, of 1000.
    pub done_per_mille: u64,
}

/// Reads a window; `on_answer` is told after each answer. Blocks until it is there or there is none.
pub fn read_stored(window: &StoredWindow, on_answer: &dyn Fn(Asked)) -> Result<Capture, PrometheusError> {
    if window.end_ns <= window.start_ns {
        return Err(PrometheusError::NoWindow);
    }
    let runtime = runtime().map_err(PrometheusError::Runtime)?;
    let mut reader = Reader { window, runtime, stored: Stored::new(&window.server.at("").to_string()), asked: Asked::default(), on_answer };
    let names = reader.names()?;
    reader.stored.note_unmapped(names.unmapped_count);
    let lists = query::lists(&names.engine, MAX_LIST_BYTES);
    // What engines say is most of the work; what is asked after it counts as one list more.
    let total = lists.len() + 1;
    for (at, list) in lists.iter().enumerate() {
        reader.series(&query::selector(list, &window.matchers, &[]), (at, total))?;
    }
    let instances: Vec<String> = reader.stored.engine_instances().into_iter().map(ToString::to_string).collect();
    if instances.is_empty() {
        return Err(reader.nothing(true));
    }
    for list in query::lists(&instances, MAX_LIST_BYTES).iter().filter(|_| !names.shared.is_empty()) {
        reader.series(&query::selector(&names.shared, &window.matchers, list), (total - 1, total))?;
    }
    Ok(reader.stored.finish())
}

struct Reader<'a> {
    window: &'a StoredWindow,
    runtime: Runtime,
    stored: Stored,
    asked: Asked,
    on_answer: &'a dyn Fn(Asked),
}

/// Why one question has no answer.
enum Failure {
    /// A smaller question may have one.
    TooMuch(String),
    /// No question will.
    Lasting(PrometheusError),
}

impl Reader<'_> {
    /// Names that were stored in the window, as far as the server tells windows apart.
    fn names(&mut self) -> Result<StoredNames, PrometheusError> {
        let window = self.window;
        let times = query::names(&window.matchers, Some((window.start_ns, window.end_ns)));
        let names = self.ask(&times, |_, body| ingest::read_names(body)).map_err(|failure| self.lasting(failure))?;
        if names.engine.is_empty() { Err(self.nothing(false)) } else { Ok(names) }
    }

    /// Says why a window is empty, by what the server has beside it.
    fn nothing(&mut self, had_names: bool) -> PrometheusError {
        let server = self.window.server.at("");
        let everywhere = match self.ask(&query::names("", None), |_, body| ingest::read_names(body)) {
            Ok(names) => names,
            Err(failure) => return self.lasting(failure),
        };
        let matchers = self.window.matchers.clone();
        if had_names || !everywhere.engine.is_empty() {
            return PrometheusError::EmptyWindow {
                server: Box::new(server),
                start: query::shown_time(self.window.start_ns),
                end: query::shown_time(self.window.end_ns),
                matchers,
            };
        }
        PrometheusError::NoEngine { server, name_count: everywhere.total_count }
    }

    /// Asks for all samples of a selector, slice by slice. `part`: which list of how many this is.
    fn series(&mut self, selector: &str, part: (usize, usize)) -> Result<(), PrometheusError> {
        let window = self.window;
        let mut slices = slices::Slices::new(window.start_ns, window.end_ns, window.step);
        while let Some(slice) = slices.next() {
            let question = query::samples(selector, slice, window.step);
            let (from_ns, to_ns) = slices.taken(slice);
            self.stored.begin_slice(from_ns, to_ns);
            match self.ask(&question, |stored, body| stored.add(body).map(|_| body.len())) {
                Ok(byte_count) => {
                    slices.answered(byte_count);
                    let within = slices.done_per_mille();
                    self.asked.done_per_mille = (1000 * part.0 as u64 + within) / part.1 as u64;
                    self.asked.sample_count = self.stored.sample_count();
                    (self.on_answer)(self.asked);
                }
                Err(Failure::TooMuch(reason)) if !slices.halve() => {
                    return Err(PrometheusError::TooMuch { server: window.server.at(""), reason });
                }
                Err(Failure::TooMuch(_)) => {}
                Err(Failure::Lasting(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Asks one question and reads the answer.
    fn ask<T>(&mut self, question: &str, read: impl FnOnce(&mut Stored, &[u8]) -> Result<T, AnswerError>) -> Result<T, Failure> {
        let server = self.window.server.at("");
        let address = self.window.server.at(question);
        let authorization = self.window.authorization.clone();
        let has_authorization = authorization.is_some() || address.has_credentials();
        let fetch = Fetch { total_timeout: QUERY_TIMEOUT, authorization, accepts_gzip: true, ..Fetch::new(address) };
        let (status, body) = match self.runtime.block_on(fetch.get_any()) {
            Ok(answer) => answer,
            Err(FetchError::TooLarge { limit, .. }) => return Err(Failure::TooMuch(format!("an answer is larger than {limit} bytes"))),
            Err(source) => return Err(Failure::Lasting(PrometheusError::unreached(server, source))),
        };
        self.asked.query_count += 1;
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(Failure::Lasting(PrometheusError::Unauthorized { server, status, has_authorization }));
        }
        match read(&mut self.stored, &body) {
            Ok(value) if status.is_success() => Ok(value),
            Err(AnswerError::Refused { kind, words }) if error::is_too_much(&kind, &words) => {
                Err(Failure::TooMuch(format!("the server answers `{kind}`: {words}")))
            }
            Err(source) => Err(Failure::Lasting(PrometheusError::of_answer(server, status, source))),
            Ok(_) => Err(Failure::Lasting(PrometheusError::Status { server, status })),
        }
    }

    /// A question that cannot be made smaller.
    fn lasting(&self, failure: Failure) -> PrometheusError {
        match failure {
            Failure::TooMuch(reason) => PrometheusError::TooMuch { server: self.window.server.at(""), reason },
            Failure::Lasting(error) => error,
        }
    }
}
