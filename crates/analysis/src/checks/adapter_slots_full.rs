//! More adapters are asked for than have a slot: requests wait for one to be swapped in.

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Quantity};
use crate::contrast::{better_arm, better_row, numbers};
use crate::gates::{Gate, at_cap};
use crate::phase::Phase;
use crate::predict::Movement;
use crate::readings::peak;
use crate::record;
use crate::remedy::{self, throughput_stays};
use crate::situation::Situation;
use crate::words::{count, percent, plural};

check! {
    /// Requests wait for an adapter (LoRA) slot while seats and KV cache are free.
    ///
    /// ## Why it costs time
    /// Only so many adapters can be in one batch. A request for another one is held back, *deferred*, until a slot is free,
    /// although the batch has room. With more adapters in use than slots they are swapped in and out all the time.
    ///
    /// ## How to confirm
    /// `engine.waiting` with the reason *deferred* is most of the waiting, LoRA is on, `engine.running` is below the seat limit.
    /// Typed: adapters loaded stand at the slots while requests for others wait.
    ///
    /// ## Fix
    /// More slots (`--max-loras`), or a router that sends each adapter to one replica. Deferred requests go to zero.
    ///
    /// ## When this is wrong
    /// Seats full (`batch_cap_reached`); deferred for another reason: a grammar, remote KV.
    id: "adapter_slots_full", layer: Scheduling, rank: 104, phases: [Queue], bound: "logic", validated_on: "typed", run: find,
}

/// Deferred waiting that counts as the queue's gate (attribution, section 6).
const GATE_SHARE: f64 = 0.5;

fn find(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    let slots = evidence.settings.number("config.max_adapters").or_else(|| peak(evidence, "config.max_adapters"));
    let on = evidence.settings.flag("config.lora").unwrap_or(slots.is_some());
    if evidence.has_timeline() {
        let share = situation.gates.share(Gate::Deferred);
        if !on {
            return clear(vec![("deferred_share", share)], "no adapters are served");
        }
        if share < GATE_SHARE {
            return clear(
                vec![("deferred_share", share)],
                format!("{} of the waiting is deferred: slots hold nobody back", percent(share)),
            );
        }
        let runs = situation.gates.stretches(Gate::Deferred).iter().map(|stretch| (stretch.t_start_ns, stretch.t_end_ns)).collect();
        let what = if situation.load.engine_count <= 1 { Extent::Intervals(runs) } else { Extent::exactly(share) };
        let claims =
            if situation.account.is_empty() { Vec::new() } else { vec![Claim { phase: Phase::Queue, what, basis: Basis::Derived }] };
        let why = format!("{} of the waiting is deferred with adapters on", percent(share));
        return Answer::Found(Box::new(found(situation, slots, &why, claims)));
    }
    from_figures(situation, slots, on)
}

fn from_figures(situation: &Situation<'_>, slots: Option<f64>, on: bool) -> Answer {
    let evidence = situation.evidence;
    let loaded = peak(evidence, "engine.adapters_loaded");
    let deferred =
        peak(evidence, "engine.adapter_waiting").or_else(|| peak(evidence, "engine.waiting{reason=\"deferred\"}").filter(|_| on));
    let seats_full =
        situation.load.seats.is_some_and(|seats| situation.load.running_max > 0.0 && at_cap(situation.load.running_max, seats));
    let slots_full = slots.zip(loaded).is_some_and(|(slots, loaded)| loaded >= slots);
    let waiting = situation.load.waiting_max;
    let why = match (deferred.filter(|&deferred| deferred > 0.0), slots_full) {
        (Some(deferred), _) => Some(format!("{} for an adapter slot{}", waits(deferred), of_slots(slots))),
        (None, true) if waiting > 0.0 && !seats_full => {
            Some(format!("{} while all {} adapter slots are taken", waits(waiting), count(slots.unwrap_or(0.0))))
        }
        _ => more_slots_help(situation).or_else(|| more_adapters_hurt(situation, slots?)),
    };
    if let Some(why) = why {
        return Answer::Found(Box::new(found(situation, slots, &why, claims(situation))));
    }
    match (deferred, slots.zip(loaded)) {
        (Some(_), _) => clear(vec![("adapter_waiting", 0.0)], "nobody waits for an adapter slot"),
        (_, Some((slots, loaded))) if loaded < slots => {
            clear(vec![("loaded", loaded), ("slots", slots)], format!("{} adapters use {}", count(loaded), plural(slots, "slot")))
        }
        _ => Answer::CannotTell(record::scrapes(
            &["engine.adapters_loaded", "engine.adapter_waiting", "config.max_adapters"],
            "nothing says how many adapters ask for how many slots",
            None,
        )),
    }
}

fn waits(requests: f64) -> String {
    format!("{} wait{}", plural(requests, "request"), if requests < 1.5 { "s" } else { "" })
}

fn of_slots(slots: Option<f64>) -> String {
    slots.map_or_else(String::new, |slots| format!(" ({} in all)", count(slots)))
}

/// An arm with more slots that does better.
fn more_slots_help(situation: &Situation<'_>) -> Option<String> {
    let more = |arm: &crate::evidence::Evidence| {
        numbers(situation.evidence, arm, "config.max_adapters").is_some_and(|(mine, theirs)| theirs > mine)
    };
    let text = |ratio: f64, text: String| format!("with more adapter slots the same load is {ratio:.1} times as fast ({text})");
    let by_rows = || better_row(&situation.evidence.figures, "config.max_adapters").map(|row| text(row.ratio, row.text()));
    better_arm(situation, more).map(|better| text(better.ratio, better.text())).or_else(by_rows)
}

/// More adapters than slots by the arm's own words, and an arm with fewer of them serves the same load clearly better.
fn more_adapters_hurt(situation: &Situation<'_>, slots: f64) -> Option<String> {
    let asked = asked_for(situation.evidence).filter(|&asked| asked > slots)?;
    let better = better_arm(situation, |arm| asked_for(arm).is_none_or(|theirs| theirs < asked) && same_slots(situation.evidence, arm))?;
    Some(format!(
        "{} adapters share {}, and with fewer of them the same load is {:.1} times as fast ({})",
        count(asked),
        plural(slots, "slot"),
        better.ratio,
        better.text()
    ))
}

fn same_slots(here: &crate::evidence::Evidence, there: &crate::evidence::Evidence) -> bool {
    numbers(here, there, "config.max_adapters").is_none()
}

/// Adapters that requests ask for, by the words of the arm (`16 tenants with 16 adapters`).
fn asked_for(arm: &crate::evidence::Evidence) -> Option<f64> {
    let text = format!("{} {}", arm.changed, arm.run_name).to_ascii_lowercase();
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let is_adapter = |word: &&str| word.starts_with("adapter") || word.starts_with("lora");
    // A number, perhaps one word on (`16 LoRA adapters`).
    let at = words.iter().position(is_adapter)?;
    words[at.saturating_sub(2)..at].iter().rev().find_map(|word| word.parse::<f64>().ok())
}

/// The queue is theirs; where it was not given by itself, a part of the time to the first token.
fn claims(situation: &Situation<'_>) -> Vec<Claim> {
    if situation.claimable_s(Phase::Queue) <= 0.0 {
        return Vec::new();
    }
    let (lo, basis) = if situation.phase_s(Phase::Queue) > 0.0 { (0.5, Basis::Typed) } else { (0.3, Basis::Bound) };
    vec![Claim { phase: Phase::Queue, what: Extent::Fraction { lo, mid: 0.9, hi: 1.0 }, basis }]
}

fn found(situation: &Situation<'_>, slots: Option<f64>, why: &str, claims: Vec<Claim>) -> Found {
    let mut rows = Vec::new();
    let mut row =
        |name: &str, value: Option<f64>, unit: &str| rows.extend(value.map(|value| figure(name, value, unit, "scrapes or as given")));
    row("config.max_adapters", slots, "count");
    row("engine.adapters_loaded", peak(situation.evidence, "engine.adapters_loaded"), "count");
    row("engine.adapter_waiting", peak(situation.evidence, "engine.adapter_waiting"), "request");
    row("engine.running.max", Some(situation.load.running_max).filter(|&running| running > 0.0), "request");
    let queue_s = situation.phase_s(Phase::Queue);
    let queue = Movement::new("server.queue_time.mean", "queue", "s", Direction::Down, (queue_s > 0.0).then_some(queue_s));
    let queue = if queue_s > 0.0 {
        queue.to(0.0, 0.5 * queue_s, "deferred requests run at once")
    } else {
        queue.refused("the queue was not measured by itself: direction only")
    };
    let to = slots.map_or_else(|| "as many as adapters are asked for".to_string(), |slots| count(2.0 * slots));
    let hypothesis = remedy::setting(situation, "max_adapters", to)
        .moves(queue)
        .guards(throughput_stays(situation))
        .risk("each slot takes device memory from the KV cache", "preemptions move, or the queue stays")
        .build();
    Found {
        summary: why.to_string(),
        sentence: format!("Adapter slots are full: {why}, seats and KV cache are not the limit."),
        cost: (queue_s > 0.0 && !claims.is_empty()).then(|| Quantity { value: queue_s, unit: "s".into() }),
        claims,
        evidence: rows,
        hypotheses: vec![hypothesis],
        falsified_by: "requests that wait for nothing but a seat, whatever adapter they ask for".into(),
        ..Found::default()
    }
}
