//! Requests wait in a gateway, router or rate limiter before the engine sees them.

use crate::advice::Advice;
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::clumps::{behind_server, direct_arm};
use crate::connections::{Pool, upstream_pool};
use crate::contract::{Direction, Evidence, Quantity};
use crate::evidence::Figures;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::situation::Situation;
use crate::words::{percent, seconds};

check! {
    /// Requests wait in front of the engine: in a gateway's queue, a router's scheduler, an external processor, a rate limiter.
    ///
    /// ## Why it costs time
    /// What a gateway does before it passes a request on is added to every first token, and no metric of the engine shows
    /// it: the engine's queue is empty and its times are fine. A limit on requests in flight turns it into a queue.
    ///
    /// ## How to confirm
    /// Stamp a request where it enters the gateway and where it leaves towards the engine: the difference is this time. The
    /// server's own time to first token is shorter than the gateway's by it.
    ///
    /// ## Fix
    /// Raise or remove the limit (concurrency, tokens per minute, pending requests), take slow work (auth, inspection,
    /// endpoint picking) off the path or give it more workers. Gateway wait goes to 0; the engine's waiting may rise by the
    /// same number, so judge by the whole request.
    ///
    /// ## When this is wrong
    /// A body that arrives slowly (`slow_request_transfer`) and a full connection pool (`connection_cap`) also pass between
    /// those two stamps.
    id: "admission_queue", layer: Application, rank: 6, phases: [Gateway, Transfer], bound: "logic", validated_on: "typed", run: find,
}

/// Gateway time below this share of the time to first token is the price of having a gateway.
const MATERIAL: f64 = 0.1;
/// Parts of a gateway's time that wait for the caller's body, not for the gateway.
const BODY_PARTS: [&str; 2] = ["body_stream", "header_to_first_body"];

/// Time in the gateway before the engine sees the request, and how it is known.
struct Held {
    seconds: f64,
    phase: Phase,
    basis: Basis,
    from: &'static str,
}

fn find(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    if let Some(pool) = upstream_pool(&evidence.gateway).filter(Pool::is_full) {
        return clear(vec![("pool_full_share", pool.full_share)], "the gateway holds requests for one of a fixed number of connections");
    }
    let Some(held) = held(situation) else { return without(situation) };
    let ttft_s = first_token_s(situation);
    let share = held.seconds / ttft_s.max(held.seconds);
    if share < MATERIAL {
        return clear(
            vec![("gateway_share_of_ttft", share), ("gateway_s", held.seconds)],
            format!("the gateway holds a request for {}, {} of the time to first token", seconds(held.seconds), percent(share)),
        );
    }
    Answer::Found(Box::new(found(situation, &held, ttft_s)))
}

fn first_token_s(situation: &Situation<'_>) -> f64 {
    let figures = &situation.evidence.figures;
    let typed = figures.typical("gateway.ttft").or_else(|| figures.typical("client.ttft"));
    Some(situation.account.first_token_mean_s()).filter(|ttft| *ttft > 0.0).or(typed).unwrap_or(0.0)
}

fn held(situation: &Situation<'_>) -> Option<Held> {
    let stamped = situation.phase_s(Phase::Gateway);
    if !situation.evidence.gateway.is_empty() {
        return Some(Held {
            seconds: stamped,
            phase: Phase::Gateway,
            basis: Basis::Measured,
            from: "gateway stamps: received to passed on",
        });
    }
    let figures = &situation.evidence.figures;
    let typed = |seconds: f64, from: &'static str| {
        let phase = if stamped > 0.0 { Phase::Gateway } else { Phase::Transfer };
        Some(Held { seconds, phase, basis: Basis::Typed, from })
    };
    if let Some(queue) = figures.typical("gateway.queue_time") {
        return typed(queue, "gateway.queue_time");
    }
    if let Some(setup) = figures.typical("gateway.upstream_setup_time") {
        let body: f64 = part(situation, &BODY_PARTS);
        return typed((setup - body).max(0.0), "gateway.upstream_setup_time without the body");
    }
    let parts = figures.by_label("gateway.time", "part");
    let own: f64 =
        parts.iter().filter(|(name, _)| name != "total" && !BODY_PARTS.contains(&name.as_str())).map(|(_, seconds)| seconds).sum();
    if !parts.is_empty() {
        let total = parts.iter().find(|(name, _)| name == "total").map(|(_, seconds)| *seconds - part(situation, &BODY_PARTS));
        return typed(if own > 0.0 { own } else { total?.max(0.0) }, "gateway.time without the body");
    }
    if let Some((outer, inner)) = figures.typical("gateway.ttft").zip(figures.typical("server.ttft")) {
        return typed((outer - inner).max(0.0), "gateway.ttft less server.ttft");
    }
    typed(beyond_direct_s(situation)?, "this arm less the one without the gateway")
}

/// Two arms may differ by this share without any change.
const RUN_SPREAD: f64 = 0.25;

/// How much longer the first token, or the whole request, takes than in the arm of the same load without the gateway, s;
/// where only rates were given by Little's law on the users. Not where the stream is held or connecting explains it.
fn beyond_direct_s(situation: &Situation<'_>) -> Option<f64> {
    let arm = direct_arm(situation).filter(|_| behind_server(situation).is_none())?;
    let here = &situation.evidence.figures;
    if here.typical("client.connect_time").is_some() {
        return None;
    }
    let by_little = |figures: &Figures| {
        let rate = figures.typical("client.throughput.requests").filter(|rate| *rate > 0.0)?;
        Some(figures.typical("client.concurrency")? / rate)
    };
    let pair = |name: &str| here.typical(name).zip(arm.figures.typical(name));
    let slower = |name: &str| pair(name).is_some_and(|(mine, theirs)| mine > (1.0 + RUN_SPREAD) * theirs);
    // Tokens that come slower too are not the wait of a request to be let in.
    if slower("client.tpot") || slower("client.itl") {
        return None;
    }
    let (mine, theirs) = pair("client.ttft").or_else(|| pair("client.e2e")).or_else(|| by_little(here).zip(by_little(&arm.figures)))?;
    (mine > (1.0 + RUN_SPREAD) * theirs).then_some(mine - theirs)
}

fn part(situation: &Situation<'_>, names: &[&str]) -> f64 {
    let parts = situation.evidence.figures.by_label("gateway.time", "part");
    parts.iter().filter(|(name, _)| names.contains(&name.as_str())).map(|(_, seconds)| seconds).sum()
}

fn found(situation: &Situation<'_>, held: &Held, ttft_s: f64) -> Found {
    let rest_s = (ttft_s - held.seconds).max(0.0);
    let mut rows: Vec<Evidence> = vec![figure("time in the gateway before the engine", held.seconds, "s", held.from)];
    if ttft_s > 0.0 {
        rows.push(figure("time to first token", ttft_s, "s", "outermost vantage"));
    }
    let share = situation.share_of(held.phase, held.seconds);
    let claims = if share > 0.0 { vec![Claim { phase: held.phase, what: Extent::exactly(share), basis: held.basis }] } else { Vec::new() };
    Found {
        summary: format!("a request waits {} in front of the engine", seconds(held.seconds)),
        sentence: format!(
            "Requests wait {} in the gateway before the engine sees them, of {} to the first token; the engine's own times are not the cause.",
            seconds(held.seconds),
            seconds(ttft_s.max(held.seconds))
        ),
        claims,
        cost: Some(Quantity { value: held.seconds, unit: "s".into() }),
        evidence: rows,
        hypotheses: vec![
            Advice::outside("admission limit", "", "raised", "raise the gateway's admission limit, or take the slow step off the path")
                .needs("reload")
                .risk(
                    "the engine takes the load the gateway held: its own queue may grow by the same number",
                    "the whole request takes no less time",
                )
                .expect(
                    Movement::first_token(situation, Direction::Down)
                        .primary()
                        .to(0.8 * rest_s, 1.25 * rest_s, "the gateway's part removed; 25 % for run-to-run spread")
                        .build(),
                )
                .expect(
                    Movement::new("server.queue_time.mean", "queue", "s", Direction::Up, situation.evidence.mean("server.queue_time"))
                        .guard()
                        .refused("grows by at most what the gateway held")
                        .build(),
                )
                .throughput("unchanged below the engine's own limit")
                .build(),
        ],
        falsified_by: "the gateway's stamps: passed on as soon as received".into(),
        ..Found::default()
    }
}

/// Without any stamp of a gateway: the time outside the server bounds it.
fn without(situation: &Situation<'_>) -> Answer {
    let account = &situation.account;
    if account.vantage == "client" && situation.evidence.observed("server.ttft").is_some() {
        let outside_s = account.mean_s(Phase::Transfer);
        let share = outside_s / account.first_token_mean_s().max(f64::MIN_POSITIVE);
        if share < MATERIAL {
            return clear(
                vec![("outside_share", share)],
                format!("{} of the time to first token pass between client and server", percent(share)),
            );
        }
        return Answer::CannotTell(record::gateway_log(&["gateway.queue_time"], "no stamps of a gateway", Some(outside_s)));
    }
    Answer::CannotTell(record::gateway_log(
        &["gateway.queue_time", "gateway.ttft"],
        "no stamps of a gateway and no client beside the server",
        situation.is_timed().then_some(0.0),
    ))
}
