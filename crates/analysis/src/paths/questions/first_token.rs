//! What passes before the first token: outside the engine, in its queue, computing the prompt.

use super::read::{level, mean, setting, total};
use super::{Asked, DEVICE_TRACE, GATEWAY_LOG, question};
use crate::contract::Layer;
use crate::evidence::RequestRow;
use crate::phase::Phase;
use crate::record;
use crate::situation::Situation;
use crate::words::{digits, percent, seconds};

question!(
    SLOW_BEFORE_FIRST,
    "slow before the first token?",
    "Is the time before the first token in excess, with decoding normal?",
    [],
    record::SCRAPES,
    |s, _| {
        let first = s.account.first_token_mean_s();
        let excess = (first - s.floors.first_token_s()).max(0.0);
        if s.account.is_empty() {
            return Asked::cannot_tell("no request was measured");
        }
        Asked::yes_no(
            excess >= 0.25 * first,
            format!("{} of {}; beyond the reference, decode takes {}", seconds(excess), seconds(first), seconds(s.phase_s(Phase::Decode))),
        )
    }
);

question!(
    CLIENT_GAP,
    "lost outside the server?",
    "Does the client wait longer for the first token than the server takes?",
    [("proxy_buffering", "yes", "no")],
    record::CLIENT,
    |s, _| {
        let Some(server) = mean(s, "server.ttft") else { return Asked::cannot_tell("the server's own time to first token is not known") };
        let recorded = (!s.evidence.client.is_empty()).then(|| s.account.first_token_mean_s());
        let Some(client) = recorded.or_else(|| level(s, "client.ttft")) else { return Asked::cannot_tell("no client evidence") };
        Asked::yes_no(client - server >= 0.25 * server, format!("{} at the client, {} at the server", seconds(client), seconds(server)))
            .eliminating(Layer::Application, "no")
    }
);

question!(
    QUEUE_OR_PREFILL,
    "queue or prefill?",
    "Which is larger before the first token: the queue, or computing the prompt?",
    [],
    record::SCRAPES,
    |s, _| {
        let (queue, prefill) = (s.phase_s(Phase::Queue), s.phase_s(Phase::Prefill) + s.phase_s(Phase::Api));
        if queue + prefill <= 0.0 {
            return Asked::cannot_tell("no queue or prefill time");
        }
        Asked::new(
            if queue >= prefill { "queue" } else { "prefill" },
            format!("{} queued; {} in api and prefill", seconds(queue), seconds(prefill)),
        )
    }
);

question!(PREFILL_OWN, "prefill its own?", "Is prefill time what the request's own tokens cost?", [], record::SCRAPES, |s, _| {
    let (measured, floor) = (s.phase_s(Phase::Prefill), s.floors.s(Phase::Prefill));
    if measured <= 0.0 || floor <= 0.0 {
        return Asked::cannot_tell("no prefill time or no step law");
    }
    Asked::yes_no(measured < 1.5 * floor, format!("{}x its own tokens' cost", digits(measured / floor)))
});

question!(
    BEFORE_ENGINE,
    "gateway or tokenizing?",
    "Does the time pass before the engine sees the request: connection, gateway, body, tokenizing?",
    [("admission_queue", "yes", "no"), ("slow_tokenization", "yes", "no"), ("slow_request_transfer", "yes", "no")],
    GATEWAY_LOG,
    |s, _| {
        let first = s.account.first_token_mean_s();
        let parts = [Phase::Client, Phase::Gateway, Phase::Transfer, Phase::Api];
        let measured: f64 = parts.into_iter().map(|phase| s.phase_s(phase)).sum();
        let typed: f64 =
            ["gateway.queue_time", "server.tokenize_time", "client.connect_time"].iter().filter_map(|name| level(s, name)).sum();
        if first <= 0.0 || (measured <= 0.0 && typed <= 0.0) {
            return Asked::cannot_tell("nothing was measured before the engine");
        }
        let outside = measured.max(typed);
        Asked::yes_no(outside >= 0.25 * first, format!("{} of {}", seconds(outside), seconds(first)))
    }
);

question!(
    REUSE,
    "prompts reused?",
    "Is what prompts have in common taken from the cache?",
    [("missed_prefix_reuse", "no", "yes"), ("scattered_prefix_routing", "no", "yes")],
    record::SCRAPES,
    |s, _| {
        if s.evidence.settings.flag("config.prefix_caching") == Some(false) {
            return Asked::new("no", "prefix caching is off");
        }
        let counted = total(s, "kv.prefix_hits").zip(total(s, "kv.prefix_queries")).filter(|(_, queries)| *queries > 0.0);
        let Some(hit) = counted.map(|(hits, queries)| hits / queries).or_else(|| level(s, "kv.prefix_hit_ratio")) else {
            return Asked::cannot_tell("no prefix cache counters");
        };
        match level(s, "kv.prefix_reusable") {
            Some(offered) => {
                Asked::yes_no(hit >= 0.5 * offered, format!("{} of the prompt tokens; {} could be", percent(hit), percent(offered)))
            }
            None => {
                Asked::new("as far as told", format!("{} of the prompt tokens; what the prompts have in common is not known", percent(hit)))
            }
        }
    }
);

question!(
    BACKEND,
    "attention backend fits?",
    "Does attention take what its bytes and operations cost?",
    [("mismatched_attention_backend", "no", "yes")],
    DEVICE_TRACE,
    |s, _| match setting(s, "config.attention_backend") {
        "" => Asked::cannot_tell("needs the backend's name and a device trace"),
        name => Asked::cannot_tell(&format!("{name} is in use, its time against its own bytes is not known")),
    }
);

question!(
    CO_BATCHED,
    "prompts beside decoding?",
    "Are prompts computed in the same steps as other requests' tokens, in pieces too large for them?",
    [("prefill_blocks_decode", "yes", "no")],
    record::SCRAPES,
    |s, _| {
        if s.evidence.settings.flag("config.chunked_prefill") == Some(false) {
            return Asked::new("no", "prompts have steps of their own; chunked prefill is off");
        }
        let Some(delta) = s.evidence.observed("engine.step_tokens").filter(|delta| delta.count > 0.0) else {
            return Asked::cannot_tell("no tokens per step");
        };
        // A step that carries more than the whole batch and one shared chunk holds a long piece of somebody's prompt.
        let limit = s.load.running_max.max(1.0) + crate::floors::SHARED_CHUNK_TOKENS;
        let low = |at: usize| at.checked_sub(1).map_or(0.0, |below| delta.bounds[below]);
        let large: f64 = delta.buckets.iter().enumerate().filter(|(at, _)| low(*at) >= limit).map(|(_, count)| count).sum();
        Asked::yes_no(large >= 0.05 * delta.count, format!("{} of the steps hold more than a shared chunk", percent(large / delta.count)))
    }
);

question!(
    LONG_AHEAD,
    "short behind long?",
    "Do short requests wait for the prompts of long ones?",
    [("long_requests_block_short", "yes", "no")],
    record::CLIENT,
    |s, _| match behind_long(&s.evidence.client) {
        Some((behind, free)) =>
            Asked::yes_no(behind >= 2.0 * free, format!("{} behind a long prompt, {} otherwise", seconds(behind), seconds(free))),
        None => Asked::cannot_tell("needs first-token times beside prompt lengths of which some are far longer"),
    }
);

/// Mean time to first token of requests of at most median length: those sent while a prompt of eight times the median was
/// still being computed, and the others. `None` with fewer than five of either.
fn behind_long(rows: &[RequestRow]) -> Option<(f64, f64)> {
    const FAR_LONGER: i64 = 8;
    const ENOUGH: usize = 5;
    let mut lengths: Vec<i64> = rows.iter().filter_map(|row| row.tokens_in).collect();
    lengths.sort_unstable();
    let median = *lengths.get(lengths.len() / 2)?;
    let is_long = |row: &&RequestRow| row.tokens_in.is_some_and(|tokens| tokens >= FAR_LONGER * median.max(1));
    let mut spans: Vec<(i64, i64)> = rows.iter().filter(is_long).filter_map(|row| Some((row.t_sent_ns, row.t_first_ns?))).collect();
    spans.sort_unstable();
    let mut reach: Vec<(i64, i64)> = Vec::with_capacity(spans.len());
    for (start, end) in spans {
        let far = reach.last().map_or(end, |&(_, far)| far.max(end));
        reach.push((start, far));
    }
    let (mut behind, mut free) = (Vec::new(), Vec::new());
    for row in rows.iter().filter(|row| row.tokens_in.is_some_and(|tokens| tokens <= median)) {
        let Some(ttft_ns) = row.ttft_ns() else { continue };
        let before = reach.partition_point(|&(start, _)| start < row.t_sent_ns);
        let is_behind = before.checked_sub(1).is_some_and(|at| reach[at].1 > row.t_sent_ns);
        if is_behind { behind.push(ttft_ns) } else { free.push(ttft_ns) }
    }
    let mean_s = |values: &[i64]| values.iter().map(|&ns| ns as f64 * 1e-9).sum::<f64>() / values.len() as f64;
    (behind.len() >= ENOUGH && free.len() >= ENOUGH).then(|| (mean_s(&behind), mean_s(&free)))
}

/// True when the queue takes at least half of what passes before the first token: computing prompts is then no question.
pub(in crate::paths) fn queue_is_larger(situation: &Situation<'_>) -> bool {
    situation.phase_s(Phase::Queue) >= situation.phase_s(Phase::Prefill) + situation.phase_s(Phase::Api)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(sent_ms: i64, first_ms: i64, tokens: i64) -> RequestRow {
        RequestRow {
            t_sent_ns: sent_ms * 1_000_000,
            t_first_ns: Some(first_ms * 1_000_000),
            t_done_ns: Some(first_ms * 1_000_000),
            tokens_in: Some(tokens),
            tokens_out: Some(2),
            ok: true,
            ..RequestRow::default()
        }
    }

    #[test]
    fn short_requests_behind_a_long_prompt_are_told_from_others() {
        let mut rows: Vec<RequestRow> = (0..6).map(|at| row(10 * at, 10 * at + 50, 100)).collect();
        rows.push(row(1000, 3000, 20_000));
        rows.extend((0..6).map(|at| row(1100 + at, 3100, 100)));
        let (behind, free) = behind_long(&rows).unwrap();
        assert!((free - 0.05).abs() < 1e-9 && behind > 1.9, "{behind} {free}");
        rows.truncate(6);
        assert_eq!(behind_long(&rows), None);
    }
}
