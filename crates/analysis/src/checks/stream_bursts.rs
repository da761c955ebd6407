//! The serving layer collects tokens by a timer or a count before it sends them.

use crate::advice::Advice;
use crate::arms::at_equal_load;
use crate::check::{Answer, Found, TOKEN_SECONDS, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::clumps::{at_once_s, behind_server, names_gateway};
use crate::contract::{Direction, Evidence, Hypothesis, Quantity};
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::situation::Situation;
use crate::words::{digits, percent, seconds};

check! {
    /// The server itself sends tokens in bursts, by a timer or by a count.
    ///
    /// ## Why it costs time
    /// A serving layer that collects tokens for 50 ms, or for eight of them, delivers the first one late by up to the
    /// timer and every other one late by half a burst. The whole request takes hardly longer: it is a cost in what users
    /// see, not in throughput.
    ///
    /// ## How to confirm
    /// Chunks carry several tokens although nothing speculates, gaps between chunks stand at the timer, and the time to
    /// first token of a short prompt is at least the timer. The bare engine under the same load has neither.
    ///
    /// ## Fix
    /// Send every token (`--stream-interval 1`), or set the collecting time to 0 (Ray Serve LLM:
    /// `MODEL_RESPONSE_BATCH_TIMEOUT_MS`). Tokens per chunk fall to 1, the first token comes earlier by the timer.
    ///
    /// ## When this is wrong
    /// Speculation emits several tokens per step by nature. A proxy on the way makes bursts too, but then the server's own
    /// figures are even (`proxy_buffering`).
    id: "stream_bursts", layer: Application, rank: 8, phases: [Stream, Transfer], bound: "logic", validated_on: "report", run: find,
}

/// Tokens per chunk beyond what one step yields from which a stream is bursty.
const BURSTY: f64 = 1.5;
/// The first token must come this share later than without the timer.
const LATER: f64 = 0.1;

/// A stream that stands still this long is seen to: a tenth of a second is about what passes for at once (Miller 1968, Nielsen
/// 1993).
const FELT_PAUSE_S: f64 = 0.1;

/// Tokens that lie ready and are held back, times how long, per request: half of a gap for all but the last of a chunk.
fn held_token_s(situation: &Situation<'_>, tokens: f64) -> f64 {
    let gaps_s = situation.evidence.gaps.iter().map(|gap| gap.gap_ns).sum::<i64>() as f64 * 1e-9;
    0.5 * (tokens - 1.0).max(0.0) * gaps_s / situation.n()
}

/// Median gap between the chunks that callers get, s.
fn pause_s(situation: &Situation<'_>) -> f64 {
    let mut gaps: Vec<i64> = situation.evidence.gaps.iter().map(|gap| gap.gap_ns).collect();
    let middle = gaps.len() / 2;
    if gaps.is_empty() { 0.0 } else { *gaps.select_nth_unstable(middle).1 as f64 * 1e-9 }
}

fn find(situation: &Situation<'_>) -> Answer {
    if situation.is_typed() && behind_server(situation).is_some() {
        return clear(vec![("held_behind_server", 1.0)], "the server sends evenly: what collects its tokens stands behind it");
    }
    if let Some(held_s) = at_once_s(situation).filter(|_| situation.is_typed() && !names_gateway(situation)) {
        return Answer::Found(Box::new(all_at_once(situation, held_s)));
    }
    let timer = situation.evidence.settings.number("config.stream_batch_time").filter(|timer| *timer > 0.0);
    let interval = situation.evidence.settings.number("config.stream_interval").filter(|tokens| *tokens > 1.0);
    if let Some(timer) = timer {
        return by_timer(situation, timer);
    }
    let per_chunk = tokens_per_chunk(situation);
    let per_step = situation.evidence.figures.typical("spec.acceptance_length").unwrap_or(1.0).max(1.0) * steps_yield(situation);
    match (per_chunk, interval) {
        (Some(tokens), _) if tokens >= BURSTY * per_step && held_upstream(situation) => by_count(situation, tokens),
        (_, Some(tokens)) => by_count(situation, tokens),
        (Some(tokens), None) => {
            clear(vec![("tokens_per_chunk", tokens)], format!("{} tokens per chunk, {} per step", digits(tokens), digits(per_step)))
        }
        (None, None) => Answer::CannotTell(record::client(
            &["client.chunk_tokens", "config.stream_interval"],
            "nothing says how many tokens a chunk carries",
            situation.is_timed().then_some(0.0),
        )),
    }
}

/// Tokens per delivered chunk: typed, else rows over gaps.
fn tokens_per_chunk(situation: &Situation<'_>) -> Option<f64> {
    let evidence = situation.evidence;
    let typed = evidence.figures.typical("client.chunk_tokens");
    let rows = || {
        let tokens: i64 = evidence.client.iter().filter(|row| row.ok).filter_map(|row| row.tokens_out).sum();
        let requests = evidence.client.iter().filter(|row| row.ok && row.tokens_out.is_some()).count();
        let chunks = evidence.gaps.len() + requests;
        (requests > 0 && !evidence.gaps.is_empty()).then(|| tokens as f64 / chunks as f64)
    };
    typed.or_else(rows)
}

/// Tokens one step yields by the engine's counters: above 1 only with speculation.
fn steps_yield(situation: &Situation<'_>) -> f64 {
    let evidence = situation.evidence;
    let counted = evidence.growth("spec.accepted_tokens").zip(evidence.growth("spec.drafts")).filter(|(_, drafts)| *drafts > 0.0);
    counted.map_or(1.0, |(accepted, drafts)| 1.0 + accepted / drafts)
}

/// True unless the server's own gaps are known to be much longer than the chunks' tokens arrive apart: then what comes in
/// bursts left the server evenly.
fn held_upstream(situation: &Situation<'_>) -> bool {
    let figures = &situation.evidence.figures;
    let server = figures.typical("server.itl").or_else(|| situation.evidence.mean("server.itl"));
    let client = figures.typical("client.itl");
    !server.zip(client).is_some_and(|(server, client)| client < 0.5 * server)
}

fn by_timer(situation: &Situation<'_>, timer_s: f64) -> Answer {
    let bare = situation
        .other_arms()
        .filter(|arm| arm.settings.number("config.stream_batch_time").unwrap_or(0.0) < timer_s)
        .flat_map(|arm| {
            at_equal_load(situation.evidence, arm, "client.ttft", "client.concurrency").into_iter().chain(at_equal_load(
                situation.evidence,
                arm,
                "client.ttft.p50",
                "client.concurrency",
            ))
        })
        // The least loaded point shows the timer alone.
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let ttft_s = situation.account.first_token_mean_s();
    if let Some((load, mine, theirs)) = bare {
        let later = mine - theirs;
        // The timer starts with the first token: it holds it back by up to itself; what is more is another's.
        if later < LATER * theirs {
            return clear(
                vec![("ttft_ratio", mine / theirs)],
                format!("TTFT {} with a timer of {}, {} without", seconds(mine), seconds(timer_s), seconds(theirs)),
            );
        }
        let held = later.min(timer_s);
        let mut rows = vec![
            figure("config.stream_batch_time", timer_s, "s", "setting"),
            figure("client.ttft", mine, "s", "this arm"),
            figure("client.ttft without", theirs, "s", "the other arm at the same load"),
        ];
        if load > 0.0 {
            rows.push(figure("client.concurrency", load, "request", "both arms"));
        }
        return Answer::Found(Box::new(found(situation, held, ttft_s, rows, timer(situation, timer_s))));
    }
    if ttft_s > 0.0 && timer_s >= LATER * ttft_s {
        let rows =
            vec![figure("config.stream_batch_time", timer_s, "s", "setting"), figure("time to first token", ttft_s, "s", "measured")];
        return Answer::Found(Box::new(found(situation, timer_s.min(ttft_s), ttft_s, rows, timer(situation, timer_s))));
    }
    clear(
        vec![("timer_s", timer_s)],
        format!("a timer of {} is {} of the time to first token", seconds(timer_s), percent(timer_s / ttft_s.max(timer_s))),
    )
}

fn found(situation: &Situation<'_>, held_s: f64, ttft_s: f64, evidence: Vec<Evidence>, hypothesis: Hypothesis) -> Found {
    let share = situation.share_of(Phase::Stream, held_s);
    Found {
        summary: format!("the first token is held for {} by a timer of the serving layer", seconds(held_s)),
        sentence: format!(
            "The serving layer collects tokens before it sends them: the first is held for {} of {}, the others come in bursts; the whole request takes no longer.",
            seconds(held_s),
            seconds(ttft_s.max(held_s))
        ),
        claims: if share > 0.0 {
            vec![Claim { phase: Phase::Stream, what: Extent::Fraction { lo: 0.5 * share, mid: share, hi: share }, basis: Basis::Typed }]
        } else {
            Vec::new()
        },
        cost: Some(Quantity { value: held_s, unit: "s".into() }),
        evidence,
        hypotheses: vec![hypothesis],
        falsified_by: "the time to first token stays with the timer at 0".into(),
        ..Found::default()
    }
}

fn timer(situation: &Situation<'_>, timer_s: f64) -> Hypothesis {
    let ttft_s = situation.account.first_token_mean_s();
    Advice::outside("stream batching", &seconds(timer_s), "0", "set the time for which the serving layer collects tokens to 0")
        .needs("restart")
        .risk("more and smaller messages: the serving layer's CPU grows", "the serving layer's process reaches a full core")
        .expect(
            Movement::first_token(situation, Direction::Down)
                .primary()
                .to(0.8 * (ttft_s - timer_s).max(0.0), (ttft_s - 0.25 * timer_s).max(0.0), "a quarter to all of the timer removed")
                .build(),
        )
        .expect(
            Movement::new(
                "client.e2e.mean",
                "e2e mean",
                "s",
                Direction::Unchanged,
                Some(situation.account.total_mean_s()).filter(|s| *s > 0.0),
            )
            .guard()
            .refused("the engine does the same work")
            .build(),
        )
        .throughput("unchanged while the serving layer has CPU to spare")
        .build()
}

/// Nothing stands between, and the first token comes with the last: the serving layer sends when it has everything.
fn all_at_once(situation: &Situation<'_>, held_s: f64) -> Found {
    let ttft_s = situation.account.first_token_mean_s();
    let rows = vec![
        figure("client.ttft", ttft_s, "s", "typed"),
        figure("client.e2e", situation.account.total_mean_s(), "s", "typed"),
        figure("decoding by the server's own pace", held_s, "s", "time per token x tokens"),
    ];
    let hypothesis = Advice::outside("streaming", "all at once", "every token", "let the serving layer flush every token as it is made")
        .needs("restart")
        .risk("more and smaller messages: the serving layer's CPU grows", "the serving layer's process reaches a full core")
        .expect(
            Movement::first_token(situation, Direction::Down)
                .primary()
                .to(0.0, (ttft_s - 0.5 * held_s).max(0.0), "at least half of decoding no longer passes before the first token")
                .build(),
        )
        .throughput("unchanged")
        .build();
    Found {
        summary: format!("the first token arrives with the last, after {}, of which decoding takes {}", seconds(ttft_s), seconds(held_s)),
        sentence: format!(
            "The server sends nothing until it has everything: the first token arrives after {}, of which {} are decoding; the whole request takes no longer.",
            seconds(ttft_s),
            seconds(held_s)
        ),
        ..found(situation, held_s.min(ttft_s), ttft_s, rows, hypothesis)
    }
}

/// Bursts by count hold tokens back, not requests: true, and no part of any request's time.
fn by_count(situation: &Situation<'_>, tokens: f64) -> Answer {
    let pause_s = if situation.is_timed() { pause_s(situation) } else { 0.0 };
    let is_felt = pause_s >= FELT_PAUSE_S;
    let hypothesis = Advice::setting(situation, "stream_interval", "1")
        .risk("more and smaller messages: the API process works more", "the API process reaches a full core")
        .expect(
            Movement::new("client.chunk_tokens", "tokens per chunk", "token", Direction::Down, Some(tokens))
                .primary()
                .to(1.0, 1.2, "one token a message")
                .build(),
        )
        .throughput("unchanged while the API process has CPU to spare")
        .build();
    Answer::Found(Box::new(Found {
        summary: format!("a chunk carries {} tokens", digits(tokens)),
        sentence: if is_felt {
            format!(
                "Tokens are sent {} at a time, so that a stream stands still for {} again and again, although no request takes longer.",
                digits(tokens),
                seconds(pause_s)
            )
        } else {
            format!("Tokens are sent {} at a time: users see bursts, although no request takes longer.", digits(tokens))
        },
        evidence: [figure("tokens per chunk", tokens, "token", "client rows, typed, or the setting")]
            .into_iter()
            .chain((pause_s > 0.0).then(|| figure("gap between chunks, median", pause_s, "s", "client rows")))
            .collect(),
        hypotheses: vec![hypothesis],
        falsified_by: "chunks carry one token each at the server's socket".into(),
        context_only: situation.is_timed() && !is_felt,
        cost: is_felt.then(|| Quantity { value: held_token_s(situation, tokens), unit: TOKEN_SECONDS.into() }),
        ..Found::default()
    }))
}
