//! How to record what is missing: exact commands, by what is missing.

use crate::check::Missing;

/// Scrapes once a second for two minutes: gauges, counters and histograms of the engine.
pub const SCRAPES: &str = "inferoscope diagnose http://HOST:8000/metrics --window 120s";
/// What scraping costs.
pub const SCRAPES_COST: &str = "two minutes under load; one request per second to /metrics, about 10 ms of the API process each";
/// A client's view of every request and chunk.
pub const CLIENT: &str = "vllm bench serve --base-url http://GATEWAY --save-result --save-detailed --num-prompts 200 ...";
/// What the client's view costs.
pub const CLIENT_COST: &str = "200 requests through the same gateway as the users";

/// Missing scrapes of some signals.
pub fn scrapes(signals: &[&str], because: impl Into<String>, at_most_s: Option<f64>) -> Missing {
    missing(signals, because, at_most_s, SCRAPES, SCRAPES_COST)
}

/// The start-up log or command line beside what is there.
pub const SETTINGS: &str = "inferoscope diagnose INPUT... server.log";
/// What the start-up log costs.
pub const SETTINGS_COST: &str = "nothing: the log from start-up on, or a command.txt with the line that started the server";

/// Missing settings of some names.
pub fn settings(signals: &[&str], because: impl Into<String>, at_most_s: Option<f64>) -> Missing {
    missing(signals, because, at_most_s, SETTINGS, SETTINGS_COST)
}

/// Missing a client's view.
pub fn client(signals: &[&str], because: impl Into<String>, at_most_s: Option<f64>) -> Missing {
    missing(signals, because, at_most_s, CLIENT, CLIENT_COST)
}

fn missing(signals: &[&str], because: impl Into<String>, at_most_s: Option<f64>, command: &str, cost: &str) -> Missing {
    Missing {
        signals: signals.iter().map(ToString::to_string).collect(),
        because: because.into(),
        at_most_s,
        record_with: command.to_string(),
        record_cost: cost.to_string(),
    }
}

/// A gateway's own log of every request.
const GATEWAY_LOG: &str = "inferoscope diagnose INPUT... proxy.jsonl";
/// What a gateway's log costs.
const GATEWAY_LOG_COST: &str =
    "one line per request at the gateway: received, passed on, first byte from the upstream, first byte to the caller, done";

/// Missing stamps of a gateway.
pub fn gateway_log(signals: &[&str], because: impl Into<String>, at_most_s: Option<f64>) -> Missing {
    missing(signals, because, at_most_s, GATEWAY_LOG, GATEWAY_LOG_COST)
}

/// Which frames a process is in, and who holds the interpreter lock.
const PY_SPY: &str = "py-spy record -f raw -d 30 -o api.stacks --pid PID && inferoscope diagnose INPUT... api.stacks";
/// What sampling a process costs.
const PY_SPY_COST: &str = "30 seconds under load; py-spy pauses the process about 100 times a second for well under a millisecond";

/// Missing samples of a Python process.
pub fn py_spy(signals: &[&str], because: impl Into<String>, at_most_s: Option<f64>) -> Missing {
    missing(signals, because, at_most_s, PY_SPY, PY_SPY_COST)
}
