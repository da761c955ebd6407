//! Overload in typed figures and sweeps: more is offered than served, or the sweep goes beyond its knee.

use crate::check::{Answer, Found, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Evidence as Row};
use crate::evidence::Point;
use crate::gates::{KV_NEAR_FULL, at_cap};
use crate::phase::Phase;
use crate::predict::Movement;
use crate::readings::{by_load, knee, throughput};
use crate::remedy::{self, token_time_stays};
use crate::situation::Situation;
use crate::symptom::MATERIAL_EXCESS;
use crate::words::{count, digits, percent, plural};

/// Offered over served from which the backlog grows whatever the end of the run does to the mean.
const BEYOND: f64 = 1.1;
/// A sweep that goes on for at least this many times its knee shows a plateau and not the last step of a rise.
const PAST_KNEE: f64 = 2.0;
/// First-token time at the highest rate over the lowest from which requests pile up: sharing steps alone makes less.
const PILES_UP: f64 = 10.0;
/// What every request feels past the knee: time per token or requests running grow with the load.
const GROWS: f64 = 1.5;

/// What figures without a timeline, or a sweep, say; `None` where they say nothing.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let timeline = situation.evidence.has_timeline();
    if timeline && situation.evidence.sweep_point_count <= 1 {
        return None;
    }
    let shown = beyond_knee(situation).or_else(|| (!timeline).then(|| offered_beyond_served(situation)).flatten())?;
    if let Some(limit) = limit_first(situation) {
        return Some(clear(vec![("offered_over_knee_or_served", shown.ratio)], limit));
    }
    Some(Answer::Found(Box::new(found(situation, shown))))
}

/// What shows it.
struct Shown {
    why: String,
    ratio: f64,
    /// Share of the time per token that is beyond the knee's.
    decode: f64,
    rows: Vec<Row>,
}

/// A limit that can be moved comes before demand.
fn limit_first(situation: &Situation<'_>) -> Option<String> {
    if situation.evidence.has_timeline() {
        return super::limit_before(situation)
            .map(|(gate, share)| format!("{} holds {} of the waiting: it comes first", gate.as_str(), percent(share)));
    }
    let load = &situation.load;
    let seats = load.seats.filter(|&seats| load.running_max > 0.0 && at_cap(load.running_max, seats));
    let full = load.kv_usage_max.filter(|&usage| usage >= KV_NEAR_FULL);
    match (seats, full) {
        (Some(seats), _) => Some(format!("all of {} are taken: that limit comes first", plural(seats, "seat"))),
        (_, Some(usage)) => Some(format!("the KV cache is full ({}): that limit comes first", percent(usage))),
        _ => None,
    }
}

/// A sweep beyond its knee: throughput stands while what every request feels grows with the load.
fn beyond_knee(situation: &Situation<'_>) -> Option<Shown> {
    let all = by_load(situation.evidence);
    let rows: Vec<(f64, f64)> = all.iter().filter_map(|(load, point)| Some((*load, throughput(point)?))).collect();
    let knee = knee(&rows).filter(|knee| knee.last_load >= PAST_KNEE * knee.load)?;
    let at = |load: f64| all.iter().find(|(other, point)| *other == load && throughput(point).is_some()).map(|(_, point)| *point);
    let (at_knee, last) = at(knee.load).zip(at(knee.last_load))?;
    // Requests that stand outside the engine do not make its tokens slower: that is somebody else's limit.
    let pair = |names: &[&str]| names.iter().find_map(|name| at_knee.typical(name).zip(last.typical(name)));
    let grows = |pair: Option<(f64, f64)>| pair.filter(|(before, after)| *after >= GROWS * before);
    let tokens = grows(pair(&["client.tpot", "client.itl", "server.tpot", "server.itl"]));
    let running = grows(pair(&["engine.running"]));
    if tokens.is_none() && running.is_none() {
        return None;
    }
    let stands = knee.last_rate >= 0.8 * knee.rate;
    let felt = tokens.map_or_else(String::new, |(before, after)| format!(", and time per token grows {} times", digits(after / before)));
    stands.then(|| Shown {
        why: format!(
            "throughput stands at {} from {} offered on, {} are offered{felt}",
            digits(knee.rate),
            count(knee.load),
            count(knee.last_load)
        ),
        ratio: knee.last_load / knee.load,
        decode: tokens.map_or(0.0, |(before, after)| 1.0 - before / after),
        rows: vec![
            figure("knee of the sweep", knee.load, "", "first load from which doubling gains less than a tenth"),
            figure("highest load", knee.last_load, "", "sweep"),
            figure("throughput at the knee", knee.rate, "", "sweep"),
            figure("throughput at the highest load", knee.last_rate, "", "sweep"),
        ],
    })
}

/// Requests arrive faster than they are served, and something says that the limits are not what refuses them.
fn offered_beyond_served(situation: &Situation<'_>) -> Option<Shown> {
    let figures = &situation.evidence.figures;
    let pair = |get: &dyn Fn(&str) -> Option<f64>| get("client.request_rate").zip(get("client.throughput.requests"));
    let rows = figures.points().filter_map(|point: &Point| pair(&|name| point.typical(name)));
    let (offered, served) = pair(&|name| figures.typical(name)).into_iter().chain(rows).max_by(|a, b| a.0.total_cmp(&b.0))?;
    let load = &situation.load;
    let below_seats = load.seats.is_some_and(|seats| load.running_max > 0.0 && !at_cap(load.running_max, seats));
    let blocks_free = load.kv_usage_max.is_some_and(|usage| usage < KV_NEAR_FULL);
    let first: Vec<f64> = by_load(situation.evidence).iter().filter_map(|(_, point)| point.typical("client.ttft")).collect();
    let piles_up = first.first().zip(first.last()).is_some_and(|(low, high)| *high >= PILES_UP * low);
    // A run's last answers come after its last arrival: a mean below the offered rate alone is the end of a short run. A
    // backlog shows before the first token.
    let account = &situation.account;
    let waits_first = !account.is_empty() && account.first_token_mean_s() >= MATERIAL_EXCESS * account.total_mean_s();
    let backlog = piles_up || load.waiting_max > 0.0 || waits_first;
    (served > 0.0 && offered.is_finite() && offered >= BEYOND * served && backlog && (below_seats || blocks_free || load.seats.is_none()))
        .then(|| Shown {
            why: format!("{} req/s are offered and {} req/s are served", digits(offered), digits(served)),
            ratio: offered / served,
            decode: 0.0,
            rows: vec![
                figure("client.request_rate", offered, "request/s", "as given"),
                figure("client.throughput.requests", served, "request/s", "as given"),
            ],
        })
}

fn found(situation: &Situation<'_>, shown: Shown) -> Found {
    let Shown { why, ratio, decode, rows } = shown;
    let mut claims = Vec::new();
    if !situation.evidence.has_timeline() {
        let claim = |phase, share: f64| Claim {
            phase,
            what: Extent::Fraction { lo: 0.6 * share, mid: share, hi: (1.2 * share).min(1.0) },
            basis: Basis::Typed,
        };
        let waits = 1.0 - 1.0 / ratio.max(1.0);
        claims.extend((decode > 0.0 && situation.phase_s(Phase::Decode) > 0.0).then(|| claim(Phase::Decode, decode)));
        // A backlog that grows owns the whole queue, and of first-token time that nobody split what is not served.
        if situation.phase_s(Phase::Queue) > 0.0 {
            claims.push(Claim { phase: Phase::Queue, what: Extent::Fraction { lo: 0.5, mid: 0.9, hi: 1.0 }, basis: Basis::Typed });
        }
        claims.extend((situation.unsplit_first_token_s() > 0.0).then(|| claim(Phase::Api, waits)));
    }
    let now = situation.load.engines();
    // Room to 0.7 of each engine, so that the next burst does not saturate it again.
    let to = (now * ratio / 0.7).ceil().max(now + 1.0);
    let e2e_s = situation.account.total_mean_s();
    let hypothesis = remedy::outside("replicas", format!("{} replicas instead of {}, or admit less", count(to), count(now)))
        .lever(crate::whatif::setting_of("replicas", &count(to)))
        .moves(
            Movement::new("client.e2e", "e2e", "s", Direction::Down, (e2e_s > 0.0).then_some(e2e_s))
                .refused("saturated now: latencies near the stability edge are not predictable as numbers"),
        )
        .guards(token_time_stays(situation))
        .risk("money; each replica has a prefix cache of its own", "latency stays where it is")
        .build();
    Found {
        summary: why.clone(),
        sentence: format!("More is offered than this engine serves: {why}; no seat, block or budget is known to be the limit."),
        claims,
        evidence: rows,
        hypotheses: vec![hypothesis],
        falsified_by: "more throughput at the same load after any setting was raised".into(),
        ..Found::default()
    }
}
