//! Seats: the configured number of sequences is full while requests wait and the device could carry more.

mod shown;

use crate::advice::setting_change;
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Change, Direction, Hypothesis, Quantity};
use crate::foretell::foretell;
use crate::gates::{Gate, KV_NEAR_FULL, at_cap};
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::seats::{Headroom, Seats, equilibrium, headroom};
use crate::situation::Situation;
use crate::uneven_routing::leaves_seats_free;
use crate::words::{count, digits, left_of, percent, plural, seconds};

check! {
    /// Requests wait for a seat (`max_num_seqs`, slots) while KV cache and steps have room.
    ///
    /// ## Why it costs time
    /// The scheduler admits a request only when fewer than the configured number run. With the seats taken, everyone
    /// else waits in the queue although the device could carry more sequences per step: decoding is bound by reading
    /// the weights, and a larger batch reads them for more requests at once.
    ///
    /// ## How to confirm
    /// `engine.running` stands at the configured number while `engine.waiting` is above 0, KV usage is far from full and
    /// no request is preempted. By the server's own step law, utilization at the cap is at or above 0.85 and below it
    /// with more seats.
    ///
    /// ## Fix
    /// Raise the seat limit to the smallest number that holds the equilibrium's p99. Queue time falls to near zero; time
    /// per token follows the step law to the new batch.
    ///
    /// ## When this is wrong
    /// A client or gateway that limits concurrency (waiting is 0 then); KV-bound admission (usage near full); a device
    /// at its limit, where full seats are a symptom and more of them only move the wait (`overload`); a benchmark whose
    /// concurrency equals the cap.
    id: "batch_cap_reached", layer: Scheduling, rank: 105, phases: [Queue], bound: "logic", validated_on: "recorded", run: find,
}

/// The gate must own at least this share of the queue (attribution, section 6).
const GATE_SHARE: f64 = 0.5;
/// Seats that stand empty on average while somebody waits: with a quarter of them free the limit is not what refuses.
const IDLE_SEATS: f64 = 0.25;

fn find(situation: &Situation<'_>) -> Answer {
    if let Some(shown) = shown::by_more_seats(situation) {
        return Answer::Found(Box::new(shown_by(situation, &shown)));
    }
    if leaves_seats_free(situation) {
        return clear(vec![], "another replica has seats free all the while: who waits, waits for the router");
    }
    let Some(cap) = situation.load.seats.or_else(|| shown::standing(situation)) else {
        if situation.evidence.has_timeline() && situation.gates.waited_s <= 0.0 {
            return clear(vec![("waiting_max", 0.0)], "nobody waited at any scrape; the seat limit itself is not known");
        }
        if let Some(usage) = situation.load.kv_usage_max.filter(|&usage| usage >= KV_NEAR_FULL) {
            return clear(
                vec![("kv_usage_max", usage)],
                format!("the KV cache is full ({}): no seat more could be filled", percent(usage)),
            );
        }
        let because = "the seat limit is not known: neither a start-up dump nor a flag nor a version with one default names it";
        // Typed figures that tell of nobody waiting make it no rival.
        let told = situation.evidence.has_timeline() || situation.load.waiting_max > 0.0 || situation.phase_s(Phase::Queue) > 0.0;
        let at_most_s = told.then(|| situation.phase_s(Phase::Queue) + situation.unsplit_first_token_s());
        return Answer::CannotTell(if situation.evidence.has_timeline() {
            record::settings(&["config.max_num_seqs"], because, at_most_s)
        } else {
            record::scrapes(&["config.max_num_seqs", "engine.running", "engine.waiting"], because, at_most_s)
        });
    };
    if situation.evidence.has_timeline() { from_timeline(situation, cap) } else { from_figures(situation, cap) }
}

fn from_timeline(situation: &Situation<'_>, cap: f64) -> Answer {
    let share = situation.gates.share(Gate::SeqCap);
    let queue_s = situation.phase_s(Phase::Queue);
    let running_max = situation.load.running_max;
    if share < GATE_SHARE {
        let because = if situation.gates.waited_s <= 0.0 {
            format!("nobody waited; running peaked at {} of {} seats", count(running_max), count(cap))
        } else {
            format!("seats were the gate in {} of the waiting", percent(share))
        };
        return clear(vec![("gate_share", share), ("running_max", running_max), ("seats", cap)], because);
    }
    let (basis, extent, seats) = match headroom(&situation.law, &situation.load) {
        Headroom::No { rho } => {
            return clear(
                vec![("gate_share", share), ("rho_more_seats", rho)],
                format!("all {} seats are taken, but more would not serve this load: utilization stays at {}", count(cap), percent(rho)),
            );
        }
        Headroom::Yes(seats) => (measured(situation), owned(situation, share), Some(seats)),
        // Both bounds of the law agree that more seats gain: what is owned does not hang on where the truth lies.
        Headroom::Maybe { seats, low: true } => (Basis::Derived, owned(situation, share), Some(seats)),
        Headroom::Maybe { seats, low: false } => (Basis::Bound, Extent::Fraction { lo: 0.0, mid: share, hi: share }, Some(seats)),
        Headroom::Unknown => (Basis::Bound, Extent::Fraction { lo: 0.0, mid: share, hi: share }, None),
    };
    let kv = situation.load.kv_usage_max.map_or_else(String::new, |usage| format!(" while {} of the KV cache is free", left_of(usage)));
    let wait = if queue_s > 0.0 {
        format!("Requests wait {}", seconds(queue_s))
    } else {
        format!("Up to {} requests wait", count(situation.load.waiting_max))
    };
    // Gauges alone (a log) name the gate; they hold no seconds of any request.
    let claims = if situation.account.is_empty() { Vec::new() } else { vec![Claim { phase: Phase::Queue, what: extent, basis }] };
    Answer::Found(Box::new(Found {
        summary: format!("running stands at {} in {} of the waiting{kv}", plural(cap, "seat"), percent(share)),
        sentence: format!("{wait} for one of {} seats ({}){kv}, steps have room.", count(cap), named(situation)),
        claims,
        cost: (queue_s > 0.0).then(|| Quantity { value: queue_s * share, unit: "s".into() }),
        evidence: evidence(situation, cap, share, seats.as_ref()),
        hypotheses: vec![hypothesis(situation, cap, seats)],
        falsified_by: format!("engine.running above {} while requests wait, or waiting unmoved after the cap was raised", count(cap)),
        context_only: false,
        limit: false,
    }))
}

/// Who names the seats: the setting, or only the number at which running stands.
fn named(situation: &Situation<'_>) -> &'static str {
    if situation.load.seats_inferred { "no setting names them: running stands there" } else { "max_num_seqs" }
}

fn measured(situation: &Situation<'_>) -> Basis {
    match situation.load.little {
        Some((gap, tolerance)) if gap <= tolerance => Basis::Measured,
        _ => Basis::Derived,
    }
}

/// With one engine the seconds are intervals; with several their waiting overlaps in time and only a share is known.
fn owned(situation: &Situation<'_>, share: f64) -> Extent {
    if situation.load.engine_count > 1 {
        return Extent::exactly(share);
    }
    let runs = situation.gates.gated.iter().filter(|gated| gated.gate == Gate::SeqCap);
    Extent::Intervals(runs.map(|gated| (gated.moment.t_start_ns, gated.moment.t_end_ns)).collect())
}

fn evidence(situation: &Situation<'_>, cap: f64, share: f64, seats: Option<&Seats>) -> Vec<crate::contract::Evidence> {
    let mut rows = vec![
        figure("config.max_num_seqs", cap, "request", &seats_origin(situation)),
        figure("engine.running.max", situation.load.running_max, "request", "scrapes"),
        figure("engine.waiting.mean", situation.load.waiting_mean, "request", "scrapes"),
        figure("queue share gated by seats", share, "ratio", "scrapes: running at the cap while requests wait"),
    ];
    if let Some(usage) = situation.load.kv_usage_max {
        rows.push(figure("kv.usage.max", usage, "ratio", "scrapes"));
    }
    if let Some(seats) = seats {
        rows.push(figure("utilization at the cap", seats.rho_now, "ratio", situation.law.from()));
        rows.push(figure(&format!("utilization at {} seats", count(seats.to)), seats.rho_then, "ratio", situation.law.from()));
    }
    rows
}

fn seats_origin(situation: &Situation<'_>) -> String {
    if situation.load.seats_inferred { "read off running".into() } else { situation.setting_origin("config.max_num_seqs") }
}

fn from_figures(situation: &Situation<'_>, cap: f64) -> Answer {
    let load = &situation.load;
    let offered = situation.evidence.figures.highest("client.concurrency");
    let beyond = situation.evidence.figures.figure("client.concurrency").is_some_and(|figure| figure.at_least == Some(true));
    let waiting = load.waiting_max > 0.0;
    let crowded = waiting || offered.is_some_and(|offered| offered > cap || (beyond && offered >= cap));
    if load.running_max <= 0.0 && !crowded {
        return Answer::CannotTell(record::scrapes(
            &["engine.running", "engine.waiting"],
            format!("the limit is {}, but nothing says how many ran or waited", plural(cap, "seat")),
            None,
        ));
    }
    if let Some(knee) = shown::knee_below(situation, cap) {
        return clear(
            vec![("knee", knee), ("seats", cap)],
            format!("throughput stops growing at {} offered, below the {}: the device is full first", count(knee), plural(cap, "seat")),
        );
    }
    if load.running_max > 0.0 && !at_cap(load.running_max, cap) || !crowded {
        return clear(
            vec![("running_max", load.running_max), ("seats", cap)],
            format!("{} ran of {} seats, {} waited", count(load.running_max), count(cap), count(load.waiting_max)),
        );
    }
    if let Some(idle) = shown::idle_while_waiting(situation, cap).filter(|&idle| idle >= IDLE_SEATS) {
        return clear(
            vec![("idle_seats_while_waiting", idle)],
            format!(
                "{} of the {} stand empty on average while requests wait: something else refuses them",
                percent(idle),
                plural(cap, "seat")
            ),
        );
    }
    if let Some(usage) = load.kv_usage_max.filter(|&usage| usage >= KV_NEAR_FULL) {
        return clear(vec![("kv_usage_max", usage)], format!("seats are full, but so is the KV cache ({})", percent(usage)));
    }
    let queue_s = situation.phase_s(Phase::Queue);
    let typed = situation.evidence.figures.typical("server.queue_time").is_some();
    let queue = match queue_s > 0.0 {
        true if typed => format!("requests wait {} for one", seconds(queue_s)),
        true => format!("requests wait for one, about {} by Little's law", seconds(queue_s)),
        false => "others wait outside".into(),
    };
    let kv = load.kv_usage_max.map_or_else(String::new, |usage| format!(" while {} of the KV cache is free", left_of(usage)));
    let claims = vec![Claim { phase: Phase::Queue, what: Extent::Fraction { lo: 0.5, mid: 1.0, hi: 1.0 }, basis: Basis::Typed }];
    Answer::Found(Box::new(Found {
        summary: format!("{} and {queue}{kv}", all_taken(cap)),
        sentence: format!("{} (max_num_seqs) and {queue}{kv}.", all_taken(cap)),
        claims: if queue_s > 0.0 { claims } else { Vec::new() },
        cost: (queue_s > 0.0).then(|| Quantity { value: queue_s, unit: "s".into() }),
        evidence: evidence(situation, cap, 1.0, None),
        hypotheses: vec![hypothesis(situation, cap, None)],
        falsified_by: format!("running above {}, or KV near full while requests wait", count(cap)),
        context_only: false,
        limit: false,
    }))
}

/// Found because a run with more seats did better.
fn shown_by(situation: &Situation<'_>, shown: &shown::MoreSeats) -> Found {
    let why = format!("{} seats serve {} times what {} do ({})", count(shown.more), digits(shown.ratio), count(shown.cap), shown.by);
    let queue_s = situation.phase_s(Phase::Queue);
    let claim = Claim { phase: Phase::Queue, what: Extent::Fraction { lo: 0.5, mid: 0.9, hi: 1.0 }, basis: Basis::Typed };
    let mut change = hypothesis(situation, shown.cap, None);
    change.change.to = count(shown.more);
    change.change.lever = crate::whatif::setting_of("max_num_seqs", &count(shown.more));
    change.change.instruction = format!("{} {}", change.change.flag, count(shown.more));
    Found {
        summary: why.clone(),
        sentence: format!("The seats (max_num_seqs {}) are the limit: {why}.", count(shown.cap)),
        claims: if queue_s > 0.0 { vec![claim] } else { Vec::new() },
        evidence: vec![
            figure("config.max_num_seqs", shown.cap, "request", "as given"),
            figure(&format!("gain of {} seats", count(shown.more)), shown.ratio, "ratio", &shown.by),
        ],
        hypotheses: vec![change],
        falsified_by: format!("running below {} while requests wait", count(shown.cap)),
        ..Found::default()
    }
}

fn all_taken(cap: f64) -> String {
    if cap < 1.5 { "The only seat is taken".into() } else { format!("All {} seats are taken", count(cap)) }
}

fn hypothesis(situation: &Situation<'_>, cap: f64, seats: Option<Seats>) -> Hypothesis {
    let to =
        seats.map_or_else(|| (2.0 * cap).min(situation.load.kv_seats().unwrap_or(f64::INFINITY).max(cap + 1.0).floor()), |seats| seats.to);
    // A baseline that ran well with more seats says how many are enough.
    let proven = situation.baseline.as_ref().and_then(|baseline| baseline.load.seats).filter(|&seats| seats > cap);
    let to = proven.unwrap_or(to);
    let change = Change { from: count(cap), from_source: seats_origin(situation), ..setting_change(situation, "max_num_seqs", &count(to)) };
    let mut hypothesis = Hypothesis {
        id: String::new(),
        rollback: format!("{} {}", change.flag, count(cap)),
        throughput: throughput(situation, &change.lever, seats.as_ref()),
        change,
        risk: "more sequences per step: time per token rises by the step law; KV may fill and preempt".into(),
        undo_if: String::new(),
        predictions: predictions(situation, cap, to, seats.as_ref()),
    };
    foretell(situation, &mut hypothesis);
    hypothesis.undo_if = undo_if(&hypothesis);
    hypothesis
}

/// What the change does to throughput: nothing while arrivals are below the present ceiling, else it follows them.
fn throughput(situation: &Situation<'_>, lever: &str, seats: Option<&Seats>) -> String {
    let engines = situation.load.engines();
    let arrivals = situation.load.arrivals_per_s.unwrap_or_default();
    let simulated = situation.foretold.ask(lever).ok().and_then(|told| told.ceilings());
    let by_law = || seats.map(|seats| (seats.ceiling_now * engines, seats.ceiling_then * engines));
    let Some((mut now, mut then)) = simulated.filter(|_| seats.is_some()).or_else(by_law) else { return String::new() };
    // At its cap the server has shown its ceiling; the law gives the ratio.
    if let Some(served) = situation.load.finished_per_s.filter(|&served| arrivals > served && now > 0.0) {
        (now, then) = (served, served * then / now);
    }
    let ceiling = format!("ceiling {} -> {}", digits(now), digits(then));
    if arrivals <= now {
        format!("{} req/s, unchanged (arrivals); {ceiling}", digits(arrivals))
    } else {
        format!("{} -> {} req/s (arrivals); {ceiling}", digits(now), digits(arrivals.min(then)))
    }
}

fn undo_if(hypothesis: &Hypothesis) -> String {
    let guard = hypothesis.predictions.iter().find(|prediction| prediction.guard && prediction.signal == "server.tpot.mean");
    match guard.and_then(|guard| guard.to) {
        Some([_, limit]) => format!("preemptions move or TPOT mean passes {}", seconds(limit)),
        None => "preemptions move or TPOT grows faster than throughput".into(),
    }
}

/// Fidelity of a ratio on the measured baseline with one knob changed: median 4 %, 90 % within 11-19 % on 1,024
/// measured configurations; 10 % either way is printed.
const RATIO_SPREAD: f64 = 0.10;

/// TPOT after the change: measured TPOT x law(new batch) / law(present batch), over the span of the law.
fn tpot_interval(situation: &Situation<'_>, to: f64) -> Option<(f64, f64)> {
    let measured = situation.evidence.mean("server.tpot")?;
    let (uncached, output) = (situation.load.uncached_tokens?, situation.load.output_tokens?);
    let arrivals = situation.load.arrivals_per_engine()?;
    let running_now = (situation.load.running_mean / situation.load.engines()).max(1.0);
    let ratios = situation.law.span()?.map(|law| {
        let then = equilibrium(&law, arrivals, uncached, output).unwrap_or(to).min(to);
        law.tpot_s(then, uncached, output) / law.tpot_s(running_now, uncached, output)
    });
    let (lo, hi) = ratios.iter().fold((f64::INFINITY, 0.0f64), |(lo, hi), &ratio| (lo.min(ratio), hi.max(ratio)));
    (lo.is_finite() && hi.is_finite() && lo > 0.0).then_some((measured * lo * (1.0 - RATIO_SPREAD), measured * hi * (1.0 + RATIO_SPREAD)))
}

fn predictions(situation: &Situation<'_>, cap: f64, to: f64, seats: Option<&Seats>) -> Vec<crate::contract::Prediction> {
    let queue_s = situation.phase_s(Phase::Queue);
    let known = queue_s > 0.0;
    let ttft_s = situation.account.first_token_mean_s();
    let queue = Movement::new("server.queue_time.mean", "queue", "s", Direction::Down, known.then_some(queue_s)).primary();
    let ttft = Movement::first_token(situation, Direction::Down);
    let tpot_from = situation.evidence.mean("server.tpot");
    let tpot = Movement::new("server.tpot.mean", "TPOT mean", "s", Direction::Up, tpot_from).guard();
    let running = Movement::new("engine.running.max", "running", "request", Direction::Up, Some(cap)).to(cap + 1.0, to, "the cap itself");
    let wait = seats.filter(|_| known).map(|seats| wait_then_s(situation, seats));
    let (queue, ttft) = if let Some(wait_s) = wait {
        let rest = (ttft_s - queue_s).max(0.0);
        let basis = "measured queue removed; what is left waits by M/M/c at the new cap";
        // The rest of TTFT follows the step: prefill shares it with the larger batch.
        (queue.to(0.0, wait_s, basis), ttft.to(0.9 * rest, 2.0 * rest + wait_s, basis))
    } else {
        let why = "no step law from this window: direction only";
        (queue.refused(why), ttft.refused(why))
    };
    let tpot = match seats.and_then(|seats| tpot_interval(situation, seats.to)) {
        Some((lo, hi)) => tpot.to(lo, hi, "measured TPOT x step law at the new batch / at the present one, 10 % either way"),
        None => tpot.refused("no step law from this window: direction only"),
    };
    vec![ttft.build(), queue.build(), tpot.build(), running.build()]
}

/// Mean wait with the new cap, s: M/M/c with `to` servers; at least 2 % of the present wait or 50 ms is allowed for
/// bursts that no steady-state formula has.
fn wait_then_s(situation: &Situation<'_>, seats: &Seats) -> f64 {
    let arrivals = situation.load.arrivals_per_engine().unwrap_or_default();
    let service_s = if arrivals > 0.0 { seats.running_then / arrivals } else { 0.0 };
    let steady = model::queueing::mmc_wait_s(arrivals, service_s, seats.to as u32, 1.0).unwrap_or(0.0);
    steady.max(0.05).max(0.02 * situation.phase_s(Phase::Queue))
}
