//! Outside the server: the client, connections, gateways, the rhythm of the stream, retries.

use super::read::{level, mean};
use super::{Asked, GATEWAY_LOG, HOST_SAMPLES, question};
use crate::client_health::ClientHealth;
use crate::law::coalesced_share;
use crate::phase::Phase;
use crate::record;
use crate::symptom::excess_s;
use crate::words::{count, digits, percent, seconds};

question!(SERVER_CLEAN, "server clean?", "Is the server's own account clean?", [], record::SCRAPES, |s, _| {
    let inside: f64 = [Phase::Api, Phase::Queue, Phase::Prefill].into_iter().map(|phase| excess_s(s, phase)).sum();
    let Some(server) = mean(s, "server.ttft") else { return Asked::cannot_tell("the server's own time to first token is not known") };
    Asked::yes_no(inside < 0.25 * server, format!("{} of its {} TTFT in excess", seconds(inside), seconds(server)))
});

question!(
    CLIENT_LIMITED,
    "client the limit?",
    "Is the load client itself the limit?",
    [("client_bound", "yes", "no")],
    HOST_SAMPLES,
    |s, _| {
        match s.evidence.client_cpu_s() {
            Some((wait, run)) if run > 0.0 => {
                Asked::yes_no(wait > run, format!("{} s waiting for CPU per second it ran", digits(wait / run)))
            }
            _ if let Some(health) = ClientHealth::read(s) => match health.limit(s) {
                Some(why) => Asked::yes_no(true, why),
                None => Asked::yes_no(false, format!("its loop was {} late (p99)", seconds(health.lag_p99_s))),
            },
            _ => match level(s, "client.cpu") {
                Some(cpu) => Asked::yes_no(cpu >= 0.9, format!("{} of a core", percent(cpu))),
                None => Asked::cannot_tell("the client's own CPU was not recorded"),
            },
        }
    }
);

question!(
    CONNECT,
    "connecting?",
    "Do connections take the time?",
    [("connection_churn", "yes", "no"), ("connection_cap", "yes", "no")],
    record::CLIENT,
    |s, _| {
        let recorded = s.evidence.client.iter().any(|row| row.t_connected_ns.is_some()).then(|| s.phase_s(Phase::Client));
        let Some(wait) = recorded.or_else(|| level(s, "client.connect_time")) else {
            return Asked::cannot_tell("connection times were not recorded");
        };
        Asked::yes_no(wait >= 0.25 * s.account.first_token_mean_s(), seconds(wait))
    }
);

question!(
    GATEWAY_QUEUE,
    "queued at the gateway?",
    "Do requests wait at a gateway?",
    [("admission_queue", "yes", "no")],
    GATEWAY_LOG,
    |s, _| {
        let recorded = (!s.evidence.gateway.is_empty()).then(|| s.phase_s(Phase::Gateway));
        let Some(wait) = recorded.or_else(|| level(s, "gateway.queue_time")) else { return Asked::cannot_tell("no gateway log") };
        Asked::yes_no(wait >= 0.25 * s.account.first_token_mean_s(), seconds(wait))
    }
);

question!(RHYTHM, "chunks in clumps?", "Do pieces arrive in clumps?", [("proxy_buffering", "yes", "no")], record::CLIENT, |s, _| {
    if s.evidence.gaps.is_empty() {
        return Asked::cannot_tell("no gaps between pieces were recorded");
    }
    let share = coalesced_share(s.evidence);
    Asked::yes_no(share > 0.2, format!("{} of the gaps; {} held before the first", percent(share), seconds(s.phase_s(Phase::Stream))))
});

question!(RETRIES, "retries?", "Do retries or abandoned requests add load?", [("retry_storm", "yes", "no")], record::SCRAPES, |s, _| {
    match s.evidence.growth("server.http_requests") {
        Some(http) if s.load.finished > 0.0 => {
            Asked::yes_no(http > 1.05 * s.load.finished, format!("{} answered; {} finished", count(http), count(s.load.finished)))
        }
        _ => match level(s, "client.retries") {
            Some(retries) => {
                let finished = s.load.finished_or_typed(s.evidence);
                Asked::yes_no(retries > 0.05 * finished, format!("{} beyond the first; {} finished", count(retries), count(finished)))
            }
            None => Asked::cannot_tell("no HTTP request counter"),
        },
    }
});

question!(
    BODY_TRANSFER,
    "body slow to arrive?",
    "Does the request's body take long to reach the server?",
    [("slow_request_transfer", "yes", "no")],
    GATEWAY_LOG,
    |s, _| {
        let first = s.account.first_token_mean_s();
        let measured = (s.account.vantage == "client" && s.evidence.mean("server.ttft").is_some()).then(|| s.phase_s(Phase::Transfer));
        match level(s, "gateway.time").or(measured) {
            Some(part) if first > 0.0 => Asked::yes_no(part >= 0.25 * first, format!("{} of {}", seconds(part), seconds(first))),
            _ => Asked::cannot_tell("needs the client's and the server's view, or the gateway's parts"),
        }
    }
);

question!(
    BURSTS,
    "does the server clump?",
    "Does the server itself collect several tokens before it sends?",
    [("stream_bursts", "yes", "no")],
    record::CLIENT,
    |s, _| {
        let interval = s.evidence.settings.number("config.stream_interval").filter(|&tokens| tokens > 1.0);
        let timer = s.evidence.settings.number("config.stream_batch_time").filter(|&time_s| time_s > 0.0);
        match (interval, timer, level(s, "client.chunk_tokens")) {
            (Some(tokens), ..) => Asked::new("yes", format!("stream_interval {}", count(tokens))),
            (None, Some(time_s), _) => Asked::new("yes", format!("a timer of {}", seconds(time_s))),
            (None, None, Some(tokens)) => Asked::yes_no(tokens > 1.5, format!("{} tokens per piece", digits(tokens))),
            (None, None, None) => Asked::cannot_tell("needs tokens per delivered piece, or the stream settings"),
        }
    }
);
