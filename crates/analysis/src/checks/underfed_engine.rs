//! The engine has room for far more: throughput is what the callers offer.

use crate::check::{Answer, Found, check, clear, figure};
use crate::contract::Direction;
use crate::predict::Movement;
use crate::readings::{by_load, knee, offered, peak, throughput};
use crate::record;
use crate::remedy::{self, token_time_stays};
use crate::situation::{SATURATED_RHO, Situation};
use crate::words::{count, percent};

check! {
    /// Far fewer requests run than the engine could carry, and nobody waits: throughput is the callers'.
    ///
    /// ## Why it costs time
    /// It costs no request any time; it costs throughput. A device that decodes for a few sequences reads all weights for
    /// them. Throughput grows with the requests offered until the knee.
    ///
    /// ## How to confirm
    /// `engine.running` stays far below the seats and the knee of a sweep while `engine.waiting` is 0, and more load raises
    /// throughput at the same time per token.
    ///
    /// ## Fix
    /// Offer more requests at once, or serve them with less hardware. Throughput rises with the load up to the knee.
    ///
    /// ## When this is wrong
    /// Something outside the engine holds requests back: a connection pool, a gateway, the load client itself.
    id: "underfed_engine", layer: Scheduling, rank: 108, phases: [Queue], bound: "demand", validated_on: "typed", run: find,
}

/// Running at or below this share of the seats is far below the cap.
const FAR_BELOW: f64 = 0.25;
/// Symptoms about throughput; a quiet night is no problem of anybody's (attribution, section 6).
const ABOUT_THROUGHPUT: [&str; 2] = ["throughput_plateau", "busy_but_slow"];
/// A middle this close to the largest value says that the number stands.
const STANDS: f64 = 0.9;

fn find(situation: &Situation<'_>) -> Answer {
    let load = &situation.load;
    let Some(running) = peak(situation.evidence, "engine.running").or_else(|| offered(situation.evidence)).filter(|&running| running > 0.0)
    else {
        return Answer::CannotTell(record::scrapes(
            &["engine.running", "engine.waiting"],
            "nothing says how many requests run",
            at_most(situation),
        ));
    };
    if load.waiting_max > 0.0 {
        return clear(
            vec![("waiting_max", load.waiting_max)],
            format!("up to {} requests wait: there is enough to do", count(load.waiting_max)),
        );
    }
    if let Some(rho) = situation.rho_at_seats().filter(|&rho| rho >= SATURATED_RHO) {
        return clear(vec![("rho", rho)], format!("the server is used to {}", percent(rho)));
    }
    let rows: Vec<(f64, f64)> =
        by_load(situation.evidence).into_iter().filter_map(|(load, point)| Some((load, throughput(point)?))).collect();
    if let Some(knee) = knee(&rows).filter(|knee| knee.last_load > 2.0 * knee.load) {
        return clear(vec![("knee", knee.load)], format!("the sweep goes beyond its knee at {}", count(knee.load)));
    }
    let Some(seats) = load.seats.or_else(|| load.kv_seats()) else {
        return Answer::CannotTell(record::settings(
            &["config.max_num_seqs"],
            "how many requests may run is not known",
            at_most(situation),
        ));
    };
    let asked = ABOUT_THROUGHPUT.contains(&situation.subject.stated_symptom.as_str()) || offered(situation.evidence).is_some();
    if running > FAR_BELOW * seats || !asked {
        let why = if asked { "" } else { "; nobody complains of throughput" };
        return clear(
            vec![("running_max", running), ("seats", seats)],
            format!("{} run of {} that may{why}", count(running), count(seats)),
        );
    }
    Answer::Found(Box::new(found(situation, running, seats, is_closed_loop(situation))))
}

/// It never owns a request's time.
fn at_most(situation: &Situation<'_>) -> Option<f64> {
    situation.evidence.has_timeline().then_some(0.0)
}

/// Running stands at one number far below the seats, nobody waits, and nobody states how many are offered: a closed loop
/// of that many callers, whose next request comes only when one is done. Where the number of callers is stated the user
/// knows it, and asks for something else.
fn is_closed_loop(situation: &Situation<'_>) -> bool {
    let figures = &situation.evidence.figures;
    let stated = ABOUT_THROUGHPUT.contains(&situation.subject.stated_symptom.as_str()) && offered(situation.evidence).is_none();
    let nobody_waits = figures.highest("engine.waiting") == Some(0.0);
    let usual = ["engine.running.p50", "engine.running.min", "engine.running.mean"].iter().find_map(|name| figures.get(name));
    let stands = usual.zip(figures.get("engine.running.max")).is_some_and(|(usual, most)| most > 1.5 && usual >= STANDS * most);
    stated && nobody_waits && stands && !situation.evidence.has_timeline()
}

fn found(situation: &Situation<'_>, running: f64, seats: f64, closed_loop: bool) -> Found {
    let loop_of = if closed_loop { format!(": {} is where the callers stop", count(running)) } else { String::new() };
    let why = format!("at most {} of {} requests run and nobody waits{loop_of}", count(running), count(seats));
    let now = situation.evidence.figures.typical("client.throughput.output");
    let hypothesis = remedy::outside("load", "offer more requests at once")
        .moves(
            Movement::new("client.throughput.output", "output", "token/s", Direction::Up, now)
                .refused("grows with the load up to a knee that this load does not show"),
        )
        .guards(token_time_stays(situation))
        .risk("beyond the knee only latency grows", "time per token grows as fast as the load")
        .build();
    Found {
        summary: why.clone(),
        sentence: format!("The engine is underfed: {why}; throughput is what the callers offer."),
        evidence: vec![
            figure("engine.running.max", running, "request", "gauges or offered"),
            figure("seats", seats, "request", "setting or cache size"),
        ],
        hypotheses: vec![hypothesis],
        falsified_by: "more requests at once without more throughput".into(),
        context_only: !closed_loop,
        ..Found::default()
    }
}
