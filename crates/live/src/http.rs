//! HTTP/1.1 with stamps: every time is taken inside the socket's own read and write, before anything is parsed.
//! Over TLS they are the times of the packed bytes.

pub(crate) mod exchange;
pub(crate) mod stamped;
pub(crate) mod wire;

pub(crate) use exchange::{Connection, ExchangeError};
