//! The request's body takes long to arrive.

use crate::advice::Advice;
use crate::arms::at_equal_load;
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Evidence, Quantity};
use crate::evidence::Evidence as Arm;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::situation::Situation;
use crate::words::{digits, percent, seconds};

check! {
    /// The body of the request (a long prompt, images) takes long to reach the server or to pass an external processor.
    ///
    /// ## Why it costs time
    /// Nothing is tokenized, queued or scheduled before the last byte of the body is there. A gateway that hands the body
    /// in small pieces to an external processor, a small window on a long line, or base64 images turn kilobytes into
    /// hundreds of milliseconds.
    ///
    /// ## How to confirm
    /// In the gateway's times the part of the body (first byte to last) carries the time, and it grows with the body's
    /// size. The engine's queue and prefill do not move.
    ///
    /// ## Fix
    /// Compress the body, send references instead of images, raise the window (HTTP/2 initial window, TCP buffers), keep
    /// the body out of the external processor or let it buffer instead of stream. That part falls, queue time stays.
    ///
    /// ## When this is wrong
    /// A gateway that queues before it reads (`admission_queue`) and a slow tokenizer (`slow_tokenization`) both grow with
    /// prompts too: their time passes before the first or after the last byte.
    id: "slow_request_transfer", layer: Application, rank: 5, phases: [Transfer, Gateway], bound: "network", validated_on: "typed", run: find,
}

/// The body's part from this share of the gateway's time, or of the time to first token, on is worth naming.
const MATERIAL: f64 = 0.25;
/// A body this slow is not limited by any line a server has, byte/s: 10 Mbit/s.
const SLOW_LINE: f64 = 1.25e6;

fn find(situation: &Situation<'_>) -> Answer {
    let parts = situation.evidence.figures.by_label("gateway.time", "part");
    let part = |name: &str| parts.iter().find(|(part, _)| part == name).map(|(_, seconds)| *seconds);
    let body = part("body_stream").map(|stream| stream + part("header_to_first_body").unwrap_or(0.0));
    if let Some(body_s) = body {
        let whole_s = part("total").into_iter().chain(Some(situation.account.first_token_mean_s())).fold(0.0, f64::max);
        return judge(situation, body_s, whole_s.max(body_s), "gateway.time by part");
    }
    if let Some((extra_s, whole_s)) = grows_with_body(situation) {
        return judge(situation, extra_s, whole_s, "the same request with a smaller body");
    }
    let at_most = (situation.account.vantage == "client" && situation.is_timed()).then(|| situation.phase_s(Phase::Transfer));
    let small = at_most.is_some_and(|outside| outside < MATERIAL * situation.account.first_token_mean_s());
    if small {
        let outside_s = at_most.unwrap_or(0.0);
        return clear(vec![("outside_s", outside_s)], format!("{} pass between client and server", seconds(outside_s)));
    }
    Answer::CannotTell(record::gateway_log(
        &["gateway.time{part=\"body_stream\"}", "gateway.body_bytes"],
        "nothing says when the last byte of a body arrived",
        at_most.or(situation.is_timed().then_some(0.0)),
    ))
}

/// Time to first token (or the upstream's set-up) over the bytes of the body, where nothing else differs: the excess of
/// the largest body over the smallest, and the whole there.
fn grows_with_body(situation: &Situation<'_>) -> Option<(f64, f64)> {
    let time = |get: &dyn Fn(&str) -> Option<f64>| {
        get("gateway.upstream_setup_time").or_else(|| get("gateway.ttft")).or_else(|| get("client.ttft"))
    };
    let mut rows: Vec<(f64, f64)> = situation
        .evidence
        .figures
        .points()
        .filter_map(|point| Some((point.typical("gateway.body_bytes")?, time(&|name| point.typical(name))?)))
        .collect();
    let of_arm = |arm: &Arm| Some((arm.figures.typical("gateway.body_bytes")?, time(&|name| arm.figures.typical(name))?));
    if rows.is_empty() {
        rows = std::iter::once(situation.evidence).chain(situation.other_arms()).filter_map(of_arm).collect();
    }
    if rows.len() < 2 {
        rows = other_bodies(situation)?;
    }
    let smallest = *rows.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let largest = *rows.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let rate = (largest.0 - smallest.0) / (largest.1 - smallest.1);
    (rate > 0.0 && rate < SLOW_LINE).then_some((largest.1 - smallest.1, largest.1))
}

/// This arm and another with other bodies, where both state a time to first token at one load: bytes and seconds of each.
fn other_bodies(situation: &Situation<'_>) -> Option<Vec<(f64, f64)>> {
    let here = situation.evidence;
    let bytes = |arm: &Arm| arm.figures.typical("gateway.body_bytes");
    let mine = bytes(here)?;
    situation.other_arms().find_map(|arm| {
        let theirs = bytes(arm).filter(|theirs| *theirs != mine)?;
        let pairs = at_equal_load(here, arm, "client.ttft", "client.concurrency");
        let (_, here_s, there_s) = pairs.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(vec![(mine, here_s), (theirs, there_s)])
    })
}

fn judge(situation: &Situation<'_>, body_s: f64, whole_s: f64, from: &str) -> Answer {
    let share = body_s / whole_s.max(f64::MIN_POSITIVE);
    if share < MATERIAL {
        return clear(vec![("body_share", share)], format!("the body takes {} of {}", seconds(body_s), seconds(whole_s)));
    }
    let bytes = situation.evidence.figures.typical("gateway.body_bytes");
    let phase = if situation.phase_s(Phase::Gateway) > 0.0 { Phase::Gateway } else { Phase::Transfer };
    let claimed = situation.share_of(phase, body_s);
    let claims = if claimed > 0.0 { vec![Claim { phase, what: Extent::exactly(claimed), basis: Basis::Typed }] } else { Vec::new() };
    let mut rows: Vec<Evidence> = vec![figure("body, first byte to last", body_s, "s", from), figure("of", whole_s, "s", from)];
    if let Some(bytes) = bytes {
        rows.push(figure("gateway.body_bytes", bytes, "byte", "typed"));
    }
    let size = bytes.map_or(String::new(), |bytes| format!(" of {} kB", digits(bytes * 1e-3)));
    let rest_s = (situation.account.first_token_mean_s() - body_s).max(0.0);
    Answer::Found(Box::new(Found {
        summary: format!("a body{size} takes {} to arrive, {} of the time there", seconds(body_s), percent(share)),
        sentence: format!(
            "The body{size} of a request takes {} to arrive, of {}; nothing can start before its last byte.",
            seconds(body_s),
            seconds(whole_s)
        ),
        claims,
        cost: Some(Quantity { value: body_s, unit: "s".into() }),
        evidence: rows,
        hypotheses: vec![
            Advice::outside(
                "request body",
                "streamed in small pieces",
                "compressed or kept out of the processor",
                "shorten the body's way: compress it, raise the window, keep it out of the external processor",
            )
            .needs("reload")
            .risk("what inspected the body no longer sees it", "requests are refused or routed wrongly")
            .expect(
                Movement::first_token(situation, Direction::Down)
                    .primary()
                    .to(0.8 * rest_s, rest_s + 0.5 * body_s, "at least half of the body's time removed")
                    .build(),
            )
            .expect(
                Movement::new("server.queue_time.mean", "queue", "s", Direction::Unchanged, situation.evidence.mean("server.queue_time"))
                    .guard()
                    .refused("the engine does the same work")
                    .build(),
            )
            .throughput("unchanged")
            .build(),
        ],
        falsified_by: "the time stays when the body is made smaller".into(),
        ..Found::default()
    }))
}
