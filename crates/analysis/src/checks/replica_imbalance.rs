//! Some replicas drown while others idle.

use crate::change::{claims_on, cost_of, hypothesis, of_action};
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim};
use crate::contract::{Change, Direction, Evidence as Row, Hypothesis, Prediction};
use crate::evidence::{Engine, EngineId, Series};
use crate::members::Members;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::situation::Situation;
use crate::uneven_routing::leaves_seats_free;
use crate::words::{digits, percent, seconds};

check! {
    /// Requests are spread unevenly over replicas: some are full while others have room.
    ///
    /// ## Why it costs time
    /// A router that counts badly, hashes by user or session, or keeps long connections to one replica makes that one queue
    /// or run large batches. The capacity paid for stands beside it unused, and looks like overload on the average.
    ///
    /// ## How to confirm
    /// Running and waiting of every replica at the same moment, and requests served by each: the hot ones got more of them.
    ///
    /// ## Fix
    /// Route by requests in flight or by waiting, with weights that fit the devices; cap what one session may hold.
    ///
    /// ## When this is wrong
    /// Replicas on different hardware, or with the same number of requests and different work: then the slow one is what to
    /// look at. A few requests on either side differ by chance.
    id: "replica_imbalance", layer: Parallelism, rank: 67, phases: [Api, Queue, Prefill, Decode], bound: "logic", validated_on: "recorded", run: find,
}

/// Time means of running further apart than this, and than chance (three times the square root), are no accident
/// (attribution, section 0.13).
const APART: f64 = 2.0;
const DEVIATIONS: f64 = 3.0;
/// Requests that the hot replica served beyond the cold one's: below this the router shared fairly and the replica is slow.
const ROUTED: f64 = 1.5;
/// A cache this full holds requests back; below, a difference in use costs nobody anything.
const NEARLY_FULL: f64 = 0.8;
/// Finished requests from which a cold replica's means are a reference.
const MIN_FINISHED: f64 = 10.0;

/// One replica over the window.
#[derive(Clone, Debug, Default, PartialEq)]
struct Replica {
    name: String,
    running: f64,
    waiting: f64,
    finished: f64,
    /// Mean seconds per request by phase, where the server exports them.
    phase_s: Vec<(Phase, f64)>,
}

fn find(situation: &Situation<'_>) -> Answer {
    let replicas = replicas(situation);
    let (Some(hot), Some(cold)) = (extreme(&replicas, true), extreme(&replicas, false)) else {
        if !situation.is_typed() && situation.evidence.engines.len() == 1 {
            return clear(vec![("replicas", 1.0)], "one engine serves all");
        }
        return by_usage(situation);
    };
    let ratio = hot.running / cold.running.max(1e-9);
    let margin = vec![("running_hot", hot.running), ("running_cold", cold.running)];
    let (busy, idle) = (hot.running + hot.waiting, cold.running + cold.waiting);
    let is_chance = busy - idle <= DEVIATIONS * busy.sqrt() && !leaves_seats_free(situation);
    if busy <= APART * idle || is_chance {
        return clear(
            margin,
            format!(
                "the replicas run {} and {} requests on average, no further apart than chance",
                digits(hot.running),
                digits(cold.running)
            ),
        );
    }
    let routed = hot.finished / cold.finished.max(1.0);
    if hot.finished >= MIN_FINISHED && routed < ROUTED {
        return Answer::CannotTell(record::unseen(
            situation,
            &["hardware and work of each replica"],
            format!(
                "both replicas served about as many requests, and {} runs {} times as many at once: it is slower, not sent more",
                hot.name,
                digits(ratio)
            ),
            record::DEVICES,
            record::DEVICES_COST,
        ));
    }
    Answer::Found(Box::new(found(situation, &replicas, hot, cold)))
}

/// KV use or queues by replica, where running is not told.
fn by_usage(situation: &Situation<'_>) -> Answer {
    let read = |name: &str| Members::by(situation.evidence, name, "replica").or_else(|| of_engines(situation, name));
    let waiting = read("engine.waiting");
    let usage = read("kv.usage");
    if let Some(members) = waiting.filter(|members| members.max > DEVIATIONS * members.max.sqrt() && members.min <= members.max / 10.0) {
        let [hot, cold] = [members.hottest(), members.coldest()].map(|member| member.cloned().unwrap_or_default());
        let replica = |(name, waiting): (String, f64)| Replica { name, waiting, ..Replica::default() };
        let (hot, cold) = (replica(hot), replica(cold));
        return Answer::Found(Box::new(found(situation, &[hot.clone(), cold.clone()], &hot, &cold)));
    }
    // What each was sent, and how full its cache is, tell the same where nobody looked at running.
    let sent = ["client.completed", "server.finished", "client.throughput.requests", "client.request_rate"];
    let sent = sent.iter().find_map(|name| Members::told(situation.evidence, name)).filter(|members| {
        members.max > APART * members.min && (members.max < 1.0 || members.max - members.min > DEVIATIONS * members.max.sqrt())
    });
    let full = usage.clone().filter(|members| members.max >= NEARLY_FULL && members.min <= members.max / APART);
    if let Some((members, what)) = full.map(|members| (members, "KV in use")).or_else(|| sent.map(|members| (members, "requests"))) {
        return Answer::Found(Box::new(by_figure(situation, &members, what)));
    }
    match usage {
        Some(members) if members.max <= APART * members.min => {
            clear(vec![("usage_hot", members.max), ("usage_cold", members.min)], "the replicas hold about the same")
        }
        _ => Answer::CannotTell(record::unseen(
            situation,
            &["engine.running by replica", "engine.waiting by replica"],
            "nothing tells the replicas apart",
            record::REPLICAS,
            record::REPLICAS_COST,
        )),
    }
}

/// Replicas told apart by one figure, without seconds unless somebody waits.
fn by_figure(situation: &Situation<'_>, members: &Members, what: &str) -> Found {
    let [hot, cold] = [members.hottest(), members.coldest()].map(|member| member.cloned().unwrap_or_default());
    let queue_s = situation.claimable_s(Phase::Queue);
    let seen = format!("{what}: {} at {}, {} at {}", digits(hot.1), hot.0, digits(cold.1), cold.0);
    Found {
        summary: seen.clone(),
        sentence: format!("The load is spread unevenly over the replicas ({seen})."),
        claims: claims_on(situation, Phase::Queue, [0.4, 0.7, 1.0], Basis::Typed),
        cost: cost_of(situation, Phase::Queue, 0.7),
        evidence: vec![
            figure(&format!("{what} of {}", hot.0), hot.1, "", "typed by replica"),
            figure(&format!("{what} of {}", cold.0), cold.1, "", "typed by replica"),
        ],
        hypotheses: remedy(situation, 0.7 * queue_s),
        falsified_by: format!("as many requests sent to both, and {} still as full", hot.0),
        context_only: false,
        limit: false,
    }
}

fn of_engines(situation: &Situation<'_>, name: &str) -> Option<Members> {
    let engines = situation.evidence.engines.iter();
    Members::of(engines.filter_map(|(id, engine)| Some((id.text(), engine.series(name)?.mean()))).collect())
}

/// Replicas by scrapes, else by typed figures with a label.
fn replicas(situation: &Situation<'_>) -> Vec<Replica> {
    let engines = &situation.evidence.engines;
    let scraped: Vec<Replica> = engines.iter().filter_map(|(id, engine)| of_engine(id, engine)).collect();
    if scraped.len() >= 2 {
        return scraped;
    }
    let running = Members::told(situation.evidence, "engine.running");
    let waiting = Members::told(situation.evidence, "engine.waiting");
    let waiting_of = |name: &str| {
        let of = waiting.as_ref().and_then(|members| members.each.iter().find(|(member, _)| member == name));
        of.map_or(0.0, |(_, value)| *value)
    };
    let each = running.map(|members| members.each).unwrap_or_default().into_iter();
    each.map(|(name, running)| Replica { waiting: waiting_of(&name), name, running, ..Replica::default() }).collect()
}

fn of_engine(id: &EngineId, engine: &Engine) -> Option<Replica> {
    let mean = |name: &str| engine.series(name).map_or(0.0, Series::mean);
    engine.series("engine.running")?;
    let observed = |name: &str| engine.observed(name).and_then(|delta| delta.mean());
    let finished = engine.observed("server.e2e").map_or(0.0, |delta| delta.count);
    let parts = [(Phase::Queue, "server.queue_time"), (Phase::Prefill, "server.prefill_time"), (Phase::Decode, "server.decode_time")];
    let mut phase_s: Vec<(Phase, f64)> = parts.iter().filter_map(|(phase, name)| Some((*phase, observed(name)?))).collect();
    if let (Some(ttft), true) = (observed("server.ttft"), phase_s.len() == parts.len()) {
        phase_s.push((Phase::Api, (ttft - phase_s[0].1 - phase_s[1].1).max(0.0)));
    }
    Some(Replica {
        name: format!("replica {}", id.text()),
        running: mean("engine.running"),
        waiting: mean("engine.waiting"),
        finished,
        phase_s,
    })
}

/// The fullest or the emptiest.
fn extreme(replicas: &[Replica], is_hot: bool) -> Option<&Replica> {
    let in_system = |replica: &Replica| replica.running + replica.waiting;
    let order = |a: &&Replica, b: &&Replica| in_system(a).total_cmp(&in_system(b));
    if replicas.len() < 2 {
        return None;
    }
    if is_hot { replicas.iter().max_by(order) } else { replicas.iter().min_by(order) }
}

/// Seconds per request, by phase, that replicas took beyond the cold one.
fn excess_s(situation: &Situation<'_>, replicas: &[Replica], cold: &Replica) -> Vec<(Phase, f64)> {
    let total: f64 = replicas.iter().map(|replica| replica.finished).sum();
    let reference = |phase: Phase| {
        let own = cold.phase_s.iter().find(|(known, _)| *known == phase).filter(|_| cold.finished >= MIN_FINISHED);
        own.map_or_else(|| situation.floors.s(phase), |(_, seconds)| *seconds)
    };
    let beyond = |phase: Phase| {
        let of = |replica: &Replica| {
            let own = replica.phase_s.iter().find(|(known, _)| *known == phase);
            own.map_or(0.0, |(_, seconds)| (seconds - reference(phase)).max(0.0) * replica.finished)
        };
        replicas.iter().map(of).sum::<f64>() / total.max(1.0)
    };
    [Phase::Api, Phase::Queue, Phase::Prefill, Phase::Decode].into_iter().map(|phase| (phase, beyond(phase))).collect()
}

/// Part of the excess that an even spread would remove: by the step law at the batch that even arrivals make, half of it
/// where the law is not known. The rest is what sharing a replica costs anyway.
fn removable(situation: &Situation<'_>, excess_s: f64) -> f64 {
    let load = &situation.load;
    let even_s = || {
        let law = situation.law.central()?;
        let arrivals = load.arrivals_per_engine()?;
        Some(law.equilibrium_batch(arrivals, load.uncached_tokens?, load.output_tokens?)? / arrivals)
    };
    let part = even_s().map(|even_s| (situation.account.total_mean_s() - even_s) / excess_s);
    part.filter(|part| part.is_finite()).map_or(0.5, |part| part.clamp(0.5, 0.95))
}

fn claims(situation: &Situation<'_>, replicas: &[Replica], cold: &Replica) -> (Vec<Claim>, f64) {
    let excess = excess_s(situation, replicas, cold);
    let total: f64 = excess.iter().map(|(_, seconds)| seconds).sum();
    if total <= 0.0 {
        // Typed gauges only: the queue of the hot replica is the imbalance's, as far as anybody waits.
        let claims = if situation.claimable_s(Phase::Queue) > 0.0 {
            claims_on(situation, Phase::Queue, [0.5, 0.8, 1.0], Basis::Typed)
        } else {
            Vec::new()
        };
        return (claims, 0.8 * situation.claimable_s(Phase::Queue));
    }
    let part = removable(situation, total);
    let of_phase = |(phase, seconds): &(Phase, f64)| {
        let share = situation.share_of(*phase, *seconds);
        claims_on(situation, *phase, [0.5 * share, part * share, share], Basis::Derived)
    };
    (excess.iter().flat_map(of_phase).collect(), part * total)
}

fn found(situation: &Situation<'_>, replicas: &[Replica], hot: &Replica, cold: &Replica) -> Found {
    let (claims, cost_s) = claims(situation, replicas, cold);
    let served: f64 = replicas.iter().map(|replica| replica.finished).sum();
    let sent = if served > 0.0 { format!(", having served {} of the requests", percent(hot.finished / served)) } else { String::new() };
    let queue = if hot.waiting >= 0.5 { format!(" and {} waiting", digits(hot.waiting)) } else { String::new() };
    let costs = if cost_s > 0.0 { format!("; an even spread would save about {} per request", seconds(cost_s)) } else { String::new() };
    Found {
        summary: format!("{} has {} running{queue}, {} has {}{sent}", hot.name, digits(hot.running), cold.name, digits(cold.running)),
        sentence: format!(
            "The load is spread unevenly: {} has {} requests running{queue} where {} has {}{sent}{costs}.",
            hot.name,
            digits(hot.running),
            cold.name,
            digits(cold.running)
        ),
        cost: (cost_s > 0.0).then(|| crate::contract::Quantity { value: cost_s, unit: "s".into() }),
        claims,
        evidence: rows(hot, cold),
        hypotheses: shares_evenly(predictions(situation, replicas, cold, cost_s)),
        falsified_by: format!("as many requests sent to both, and {} still as full", hot.name),
        context_only: false,
        limit: false,
    }
}

/// What moves when the load is shared. Of the time to first token and the whole request, the one decides that moves further
/// against itself, as noise is a share of it; the other is said as well.
fn predictions(situation: &Situation<'_>, replicas: &[Replica], cold: &Replica, cost_s: f64) -> Vec<Prediction> {
    let excess = excess_s(situation, replicas, cold);
    let of = |wanted: fn(Phase) -> bool| excess.iter().filter(|(phase, _)| wanted(*phase)).map(|(_, seconds)| seconds).sum::<f64>();
    let (first_s, all_s) = (of(|phase| phase != Phase::Decode), of(|_| true));
    let (now_s, e2e_s) = (situation.account.first_token_mean_s(), situation.account.total_mean_s());
    if !situation.is_timed() || all_s <= 0.0 || first_s <= 0.0 || now_s <= 0.0 {
        return vec![evens_out(situation, cost_s).primary().build()];
    }
    let saved_s = cost_s * first_s / all_s;
    let first = Movement::first_token(situation, Direction::Down).to(
        (now_s - 1.3 * first_s).max(0.0),
        (now_s - 0.5 * saved_s).max(0.0),
        "the cold replica's seconds per request until the first token",
    );
    let whole = evens_out(situation, cost_s);
    if saved_s / now_s >= cost_s / e2e_s {
        vec![first.primary().build(), whole.build()]
    } else {
        vec![whole.primary().build(), first.build()]
    }
}

fn remedy(situation: &Situation<'_>, cost_s: f64) -> Vec<Hypothesis> {
    shares_evenly(vec![evens_out(situation, cost_s).primary().build()])
}

fn shares_evenly(predictions: Vec<Prediction>) -> Vec<Hypothesis> {
    let change = of_action(
        "routing policy",
        "now",
        "fewest requests in flight",
        "reload",
        "route by requests in flight (or waiting) per replica, with equal weights for equal devices",
    );
    hypothesis(
        Change { lever: "routing=least_requests".into(), ..change },
        "requests leave the replica that holds their prefix",
        "the emptiest replica becomes the fullest",
        predictions,
    )
}

fn rows(hot: &Replica, cold: &Replica) -> Vec<Row> {
    let mut rows = vec![
        figure(&format!("engine.running of {}", hot.name), hot.running, "request", "mean over the window, or typed"),
        figure(&format!("engine.running of {}", cold.name), cold.running, "request", "mean over the window, or typed"),
    ];
    if hot.finished > 0.0 {
        rows.push(figure(&format!("requests served by {}", hot.name), hot.finished, "request", "scrapes"));
        rows.push(figure(&format!("requests served by {}", cold.name), cold.finished, "request", "scrapes"));
    }
    rows
}

fn evens_out(situation: &Situation<'_>, cost_s: f64) -> Movement {
    let e2e_s = situation.account.total_mean_s();
    let signal = match situation.account.vantage {
        "client" => "client.e2e.mean",
        "typed" => "client.e2e",
        _ => "server.e2e.mean",
    };
    let movement = Movement::new(signal, "e2e mean", "s", Direction::Down, (e2e_s > 0.0).then_some(e2e_s));
    if e2e_s > 0.0 && cost_s > 0.0 {
        movement.to(
            (e2e_s - 1.3 * cost_s).max(0.0),
            (e2e_s - 0.5 * cost_s).max(0.0),
            "the cold replica's seconds per request, and the step law at even arrivals",
        )
    } else {
        movement.refused("seconds per request of each replica were not measured: direction only")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(name: &str, running: f64, finished: f64, decode_s: f64) -> Replica {
        Replica { name: name.into(), running, waiting: 0.0, finished, phase_s: vec![(Phase::Decode, decode_s)] }
    }

    #[test]
    fn the_fullest_and_the_emptiest_are_told() {
        let replicas = [replica("a", 80.0, 420.0, 9.0), replica("b", 0.7, 53.0, 0.6), replica("c", 5.0, 60.0, 0.7)];
        assert_eq!(extreme(&replicas, true).unwrap().name, "a");
        assert_eq!(extreme(&replicas, false).unwrap().name, "b");
        assert!(extreme(&replicas[..1], true).is_none());
    }
}
