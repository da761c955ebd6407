//! Everything that touches a running system: reading `/metrics` for a while, and asking a Prometheus server for what it
//! stored; putting a load on a server ([`load`]); and measuring the host at hand ([`bench`]).
//!
//! There is one HTTP client (`http`). Metrics are read with no redirects and no compression asked for (gzip that comes anyway
//! is unpacked): what is read is what the server said. Every wait and every buffer has a limit, since the server at the other end may hang, send
//! forever or not speak HTTP at all.

#![cfg_attr(test, allow(clippy::unwrap_used))]
#![allow(clippy::result_large_err)] // an error ends the program: its size costs nothing

mod address;
mod authorization;
pub mod bench;
mod clock;
mod fetch;
mod http;
mod interrupt;
mod launched;
pub mod load;
mod prometheus;
mod record;
pub mod simulated;
mod tap;
mod watch;
mod window;

pub use crate::address::{Address, AddressError};
pub use crate::authorization::{Authorization, AuthorizationError, secret};
pub use crate::clock::Clock;
pub use crate::fetch::{Fetch, FetchError};
pub use crate::interrupt::on_interrupt;
pub use crate::launched::{Launch, LaunchError, Launched, ask_to_end, end_now};
pub use crate::prometheus::{Asked, PrometheusError, StoredWindow, parse_time, read_stored};
pub use crate::record::{NVML, Processes, RecordError, RecordPlan, Recorded, record};
pub use crate::tap::{TapError, TapPlan, Tapped, tap};
pub use crate::watch::{ServeError, ServedPage};
pub use crate::window::{LiveError, OwnedScrape, Seen, capture_of, scrape_window};
