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

/// Host counters of the engine's threads.
pub const HOST: &str = "while sleep 1; do date +%s.%N; cat /proc/ENGINE_PID/schedstat /sys/fs/cgroup/cpu.stat; done > host.txt";
/// What host counters cost.
pub const HOST_COST: &str = "two minutes under load; two small reads per second";
/// Where the engine's host code spends its time.
pub const PROFILE: &str = "py-spy record --gil --rate 100 --duration 30 --format raw -o engine.raw.txt --pid ENGINE_CORE_PID";
/// What a host profile costs.
pub const PROFILE_COST: &str = "30 s under load; about 1 % of the engine's CPU";

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
