//! HTTP/1.1 and HTTP/2 with stamps: every time is taken inside the socket's own read and write, before anything is parsed.
//! Over TLS they are the times of the packed bytes.
//!
//! Left out: several requests at a time on one connection. One at a time keeps connection and answer in one task, so that
//! the stamp of a piece is exact; over HTTP/2 a load therefore opens as many connections as it has requests in flight.

pub(crate) mod exchange;
mod http2;
pub(crate) mod stamped;
pub(crate) mod wire;

use hyper::header::{AUTHORIZATION, HOST, USER_AGENT};
use hyper::http::request::Builder;
use hyper::{Method, Request};

pub(crate) use exchange::{Connection, ExchangeError};

use crate::address::Address;
use crate::authorization::Authorization;

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2: agreed upon in the TLS handshake (ALPN), and taken for granted without TLS.
    Http2,
}

/// The beginning of every request: what is asked for, of whom, and who asks: as stated, else as the address says.
pub(crate) fn request(method: Method, address: &Address, stated: Option<&Authorization>) -> Builder {
    let request = Request::builder()
        .method(method)
        .uri(address.path_and_query())
        .header(HOST, address.authority())
        .header(USER_AGENT, concat!("inferoscope/", env!("CARGO_PKG_VERSION")));
    match stated.map(|stated| stated.header().to_string()).or_else(|| address.authorization()) {
        Some(authorization) => request.header(AUTHORIZATION, authorization),
        None => request,
    }
}
