//! HTTP/1.1 with stamps: every time is taken inside the socket's own read and write, before anything is parsed.
//!
//! Left out: TLS (it would bring a second large dependency into every build; put a local terminator in front) and HTTP/2
//! (all engines serve their streams over HTTP/1.1).

pub(crate) mod exchange;
pub(crate) mod stamped;

pub(crate) use exchange::{Connection, ExchangeError};
