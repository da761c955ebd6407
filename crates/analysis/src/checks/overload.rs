//! More arrives than the engine can serve with every limit raised.

mod figures;

use crate::check::{Answer, Found, Missing, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Change, Direction, Hypothesis, Quantity};
use crate::gates::Gate;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::seats::{Headroom, headroom};
use crate::situation::{SATURATED_RHO, Situation};
use crate::words::{count, digits, percent, seconds};

check! {
    /// Requests arrive faster than this engine can finish them, whatever its limits are set to.
    ///
    /// ## Why it costs time
    /// Near saturation every request waits for others: in the queue if seats are few, inside ever larger batches if they
    /// are many. The wait grows nonlinearly and without bound while arrivals exceed capacity.
    ///
    /// ## How to confirm
    /// Requests in the system (running + waiting) grow over the window on every replica, or arrivals times the service
    /// time of the step law reach 0.85 with as many seats as KV holds. Seats, KV, token budget and replicas' balance are
    /// clear: each of them is a cheaper answer.
    ///
    /// ## Fix
    /// More replicas, or less work per request (quantized weights, prefix reuse, shorter outputs), or admission control.
    ///
    /// ## When this is wrong
    /// Any fixable cap ahead of it; one replica that gets all the traffic while another idles; a closed loop of clients
    /// at its plateau, which offers no more than is served.
    id: "overload", layer: Scheduling, rank: 110, phases: [Api, Queue, Prefill, Decode], bound: "demand", validated_on: "recorded", run: find,
}

/// A gate that owns this much of the queue comes before overload.
const OTHER_GATE: f64 = 0.5;

/// Attempts per unique request from which retries are a load of their own: one in ten, the usual retry budget.
const STORM: f64 = 1.1;

fn find(situation: &Situation<'_>) -> Answer {
    let load = &situation.load;
    if let Some(answer) = figures::answer(situation) {
        return answer;
    }
    if let Some(missing) = undecidable(situation) {
        return Answer::CannotTell(missing);
    }
    let rho = load.rho_uncapped(&situation.law);
    let saturated = rho.is_some_and(|rho| rho >= SATURATED_RHO);
    let margin = vec![("rho", rho.unwrap_or(0.0)), ("running_max", load.running_max)];
    if let Some((gate, share)) = limit_before(situation) {
        return clear(margin, format!("{} holds {} of the waiting: a limit that can be moved comes first", gate.as_str(), percent(share)));
    }
    if let Some(unique_rho) = rho.filter(|_| load.attempts_per_request >= STORM).map(|rho| rho / load.attempts_per_request)
        && unique_rho < SATURATED_RHO
    {
        return clear(margin, format!("retries make the load: each request sent once would take {} of the capacity", percent(unique_rho)));
    }
    if load.growing || saturated {
        return match contradiction(situation) {
            Some(missing) => Answer::CannotTell(missing),
            None => Answer::Found(Box::new(found(situation, rho))),
        };
    }
    match rho {
        _ if load.growing_engines > 0 => Answer::CannotTell(record::scrapes(
            &["requests per replica at the router"],
            format!("requests pile up on {} of {} engines only: the others may have room", load.growing_engines, load.engine_count),
            Some(excess_s(situation)),
        )),
        Some(rho) => {
            clear(margin, format!("utilization is {} with every limit raised, and the number in the system does not grow", percent(rho)))
        }
        None if situation.evidence.engines.len() > 1 || load.waiting_max <= 0.0 => {
            clear(margin, "the number of requests in the system does not grow on every engine")
        }
        None => Answer::CannotTell(record::scrapes(
            &["engine.step_time"],
            format!("the step law could not be fitted ({})", situation.law.from()),
            Some(situation.gates.share(Gate::Compute) * situation.phase_s(Phase::Queue)),
        )),
    }
}

/// Whole requests beyond their floor, s: the most that overload could own.
fn excess_s(situation: &Situation<'_>) -> f64 {
    (situation.account.total_mean_s() - situation.floors.total_s()).max(0.0)
}

/// Evidence that cannot answer, whatever it holds.
fn undecidable(situation: &Situation<'_>) -> Option<Missing> {
    if !situation.evidence.has_timeline() {
        return Some(record::scrapes(&["engine.running", "engine.waiting", "server.e2e"], "capacity shows only over time", None));
    }
    if situation.evidence.sweep_point_count > 1 {
        let because = "a sweep changes the load by itself: what grows with it is the sweep";
        return Some(record::scrapes(&["one level of load for two minutes"], because, None));
    }
    let seats_unknown = situation.load.seats.is_none() && situation.gates.waited_s > 0.0 && situation.gates.share(Gate::Kv) < OTHER_GATE;
    seats_unknown.then(|| {
        record::settings(&["config.max_num_seqs"], "requests wait, and whether for a seat is not known", Some(excess_s(situation)))
    })
}

/// A gate that holds most of the queue and can be moved: it comes before demand.
fn limit_before(situation: &Situation<'_>) -> Option<(Gate, f64)> {
    let (gate, share) = situation.gates.largest().filter(|(gate, share)| *gate != Gate::Compute && *share >= OTHER_GATE)?;
    (gate != Gate::SeqCap || !seats_are_symptom(situation)).then_some((gate, share))
}

/// More finishes than arrives, and still the number in the system grows: not one server, or not one clock.
fn contradiction(situation: &Situation<'_>) -> Option<Missing> {
    let load = &situation.load;
    let (arrivals, served) = load.arrivals_per_s.zip(load.finished_per_s).filter(|(arrivals, served)| *arrivals < 0.9 * served)?;
    Some(record::scrapes(
        &["one server over one stretch of time"],
        format!(
            "the evidence contradicts itself: {} req/s arrive, {} req/s finish, and still the number in the system grows",
            digits(arrivals),
            digits(served)
        ),
        Some(excess_s(situation)),
    ))
}

fn claims(situation: &Situation<'_>) -> Vec<Claim> {
    let basis = if situation.load.growing { Basis::Derived } else { Basis::Counterfactual };
    let mut claims = Vec::new();
    let queue = situation.gates.share(Gate::Compute) + if seats_are_symptom(situation) { situation.gates.share(Gate::SeqCap) } else { 0.0 };
    let queue = if situation.gates.waited_s > 0.0 { queue } else { 1.0 };
    claims.push(Claim { phase: Phase::Queue, what: Extent::exactly(queue.min(1.0)), basis });
    for phase in [Phase::Api, Phase::Prefill, Phase::Decode] {
        let excess = (situation.phase_s(phase) - situation.floors.s(phase)).max(0.0);
        claims.push(Claim { phase, what: Extent::exactly(situation.share_of(phase, excess)), basis });
    }
    claims
}

fn seats_are_symptom(situation: &Situation<'_>) -> bool {
    matches!(headroom(&situation.law, &situation.load), Headroom::No { .. })
}

fn found(situation: &Situation<'_>, rho: Option<f64>) -> Found {
    let load = &situation.load;
    let arrivals = load.arrivals_per_s.unwrap_or_default();
    let served = load.finished_per_s.unwrap_or_default();
    let growth = if load.growing {
        format!("the number in the system grows to {}", count(load.in_system_max))
    } else {
        format!("utilization is {}", percent(rho.unwrap_or(1.0)))
    };
    let mut rows = vec![
        figure("client.request_rate", arrivals, "request/s", "arrivals"),
        figure("served", served, "request/s", "finished while any ran"),
        figure("engine.running.max", load.running_max, "request", "scrapes"),
    ];
    if let Some(rho) = rho {
        rows.push(figure("utilization with every limit raised", rho, "ratio", situation.law.from()));
    }
    Found {
        summary: format!("{} req/s arrive, {} req/s are served; {growth}", digits(arrivals), digits(served)),
        sentence: if arrivals > 1.05 * served {
            format!(
                "More arrives ({} req/s) than is served ({} req/s): {growth}; seats, KV and step budget are clear.",
                digits(arrivals),
                digits(served)
            )
        } else {
            format!(
                "The engine serves {} req/s and no limit is left to raise: {growth}; seats, KV and step budget are clear.",
                digits(served)
            )
        },
        claims: claims(situation),
        cost: Some(Quantity { value: excess_s(situation), unit: "s".into() }),
        evidence: rows,
        hypotheses: vec![hypothesis(situation, rho, served, arrivals)],
        falsified_by: format!("served rate above {} req/s at the same request mix", digits(served.max(1e-9))),
        context_only: false,
        limit: false,
    }
}

fn hypothesis(situation: &Situation<'_>, rho: Option<f64>, served: f64, arrivals: f64) -> Hypothesis {
    let now = situation.load.engines();
    let demand = rho.unwrap_or(if served > 0.0 { arrivals / served } else { 2.0 }).max(1.0);
    // Room to 0.7 of each engine, so that the next burst does not saturate it again.
    let to = (now * demand / 0.7).ceil().max(now + 1.0);
    let e2e_s = situation.account.total_mean_s();
    let signal = if situation.account.vantage == "client" { "client.e2e.mean" } else { "server.e2e.mean" };
    Hypothesis {
        id: String::new(),
        change: Change {
            flag: "replicas".into(),
            from: count(now),
            to: count(to),
            from_source: "engines seen".into(),
            needs: "none".into(),
            reload_s: None,
            valid_for: String::new(),
            instruction: format!("{} replicas instead of {}, or admit less", count(to), count(now)),
            lever: crate::whatif::setting_of("replicas", &count(to)),
        },
        risk: "money; each replica has a prefix cache of its own".into(),
        rollback: "remove them".into(),
        undo_if: format!("e2e mean stays above {}", seconds(0.5 * e2e_s)),
        predictions: vec![
            Movement::new(signal, "e2e mean", "s", Direction::Down, Some(e2e_s))
                .primary()
                .refused("saturated now: latencies near the stability edge are not predictable as numbers")
                .build(),
        ],
        throughput: format!("{} -> {} req/s if they are offered", digits(served), digits(arrivals)),
    }
}
