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

/// What is missing where it counts only if the server can have such a fault: with a timeline the reference is the server's
/// own law, which holds whatever is the same at every load, so nothing can be owned (attribution, section 0.15).
pub fn unseen(
    situation: &crate::situation::Situation<'_>,
    signals: &[&str],
    because: impl Into<String>,
    command: &str,
    cost: &str,
) -> Missing {
    missing(signals, because, (!situation.is_typed()).then_some(0.0), command, cost)
}

/// A device trace of a few steps, collectives named.
pub const COLLECTIVES: &str =
    "nsys profile -t cuda,nvtx --duration 20 -o steps PROGRAM...; nsys stats --report cuda_gpu_kern_sum steps.nsys-rep";
/// What the trace costs.
pub const COLLECTIVES_COST: &str = "20 s of steps a few percent slower, and a restart under nsys";
/// The link by itself.
pub const LINK: &str = "nvidia-smi topo -m; all_reduce_perf -b 8K -e 64M -f 4 -g RANKS (nccl-tests)";
/// What measuring the link costs.
pub const LINK_COST: &str = "a minute with the server stopped";
/// Clocks and activity of every device at once.
pub const DEVICES: &str = "dcgmi dmon -e 100,1002,1005,1011,1012 -d 1000 -c 120 (or nvidia-smi dmon -s puct -c 120)";
/// What watching devices costs.
pub const DEVICES_COST: &str = "nothing noticeable; two minutes under load";
/// Every replica or rank by itself.
pub const REPLICAS: &str = "inferoscope diagnose http://HOST-A:8000/metrics http://HOST-B:8000/metrics --window 120s";
/// What that costs.
pub const REPLICAS_COST: &str = "two minutes under load; one request per second to each /metrics";
/// The same load without speculation.
const PLAIN: &str = "serve once without speculation under the same load, and hand that run over with --baseline";
const PLAIN_COST: &str = "a restart without speculation and two minutes under the same load";

/// Missing a run without speculation; `most` bounds what drafting could own.
pub fn plain_arm(situation: &crate::situation::Situation<'_>, drafting: Option<&crate::drafting::Drafting>) -> Missing {
    let most_s = most_drafting_s(situation, drafting);
    missing(
        &["--baseline: the same load without speculation"],
        "what a plain step takes is not known, and without it no price of verifying",
        most_s,
        PLAIN,
        PLAIN_COST,
    )
}

/// Missing the drafter's time per step.
pub fn draft_time(situation: &crate::situation::Situation<'_>, drafting: Option<&crate::drafting::Drafting>) -> Missing {
    let most_s = most_drafting_s(situation, drafting);
    missing(&["spec.draft_time"], "what drafting takes of a step is not known", most_s, COLLECTIVES, COLLECTIVES_COST)
}

/// Missing acceptance by position.
pub fn positions(situation: &crate::situation::Situation<'_>) -> Missing {
    let most_s = most_drafting_s(situation, None);
    missing(&["spec.position_acceptance", "spec.acceptance_length"], "acceptance by position is not known", most_s, SCRAPES, SCRAPES_COST)
}

/// The most that drafting could cost, s per request: the dearest drafter and every verified token like a step of its own.
/// `None` for typed figures, which it is no rival of.
fn most_drafting_s(situation: &crate::situation::Situation<'_>, drafting: Option<&crate::drafting::Drafting>) -> Option<f64> {
    let decode_s = situation.phase_s(crate::phase::Phase::Decode);
    let drafts = drafting.map_or(1.0, |drafting| drafting.per_round);
    let tokens = drafting.map_or(1.0, |drafting| drafting.yield_tokens);
    let share = 1.0 - tokens / (1.0 + drafts * (1.0 + model::speculation::CostBounds::DRAFT_MODEL.draft_hi));
    (!situation.is_typed()).then(|| share.clamp(0.0, 1.0) * decode_s)
}
