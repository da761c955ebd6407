//! What holds the queue: seats, KV cache, token budget, or demand.

use super::read::total;
use super::{Asked, question};
use crate::contract::Layer;
use crate::gates::{Gate, KV_NEAR_FULL, at_cap, budget_share};
use crate::record;
use crate::seats::{Headroom, Seats, headroom};
use crate::situation::Situation;
use crate::words::{count, digits, percent};

question!(
    KV_FULL,
    "KV full?",
    "Is the KV cache full while requests wait?",
    [("kv_capacity_short", "yes", "no")],
    record::SCRAPES,
    |s, _| match s.load.kv_usage_max {
        Some(usage) => Asked::yes_no(usage >= KV_NEAR_FULL, percent(usage)).eliminating(Layer::Memory, "no"),
        None => Asked::cannot_tell("KV usage is not exported"),
    }
);

question!(PREEMPTED, "preempted?", "Were running requests pushed out?", [("kv_thrash", "yes", "no")], record::SCRAPES, |s, _| match s
    .evidence
    .growth("kv.preemptions")
    .or_else(|| s.evidence.figures.typical("kv.preemptions"))
{
    Some(0.0) => Asked::new("no", "0"),
    Some(preempted) => {
        let finished = s.load.finished_or_typed(s.evidence);
        Asked::new("yes", if finished > 0.0 { format!("{} over {} finished", count(preempted), count(finished)) } else { count(preempted) })
    }
    None => Asked::cannot_tell("no preemption counter"),
});

question!(
    STEP_AT_BUDGET,
    "step at token budget?",
    "Do steps spend the whole token budget?",
    [("token_budget_reached", "yes", "no")],
    record::SETTINGS,
    |s, _| {
        let budget = s.evidence.settings.number("config.max_num_batched_tokens");
        match budget.and_then(|budget| s.evidence.engines.values().find_map(|engine| budget_share(engine, budget))) {
            Some(share) => Asked::yes_no(share >= 0.5, percent(share)),
            None => match budget.zip(s.evidence.figures.typical("engine.step_tokens")) {
                Some((budget, tokens)) => Asked::yes_no(tokens >= 0.9 * budget, format!("{} of {} tokens", count(tokens), count(budget))),
                None => Asked::cannot_tell("budget or tokens per step unknown"),
            },
        }
    }
);

question!(
    SEATS_TAKEN,
    "seats taken?",
    "Does running stand at a configured number while requests wait?",
    [("batch_cap_reached", "yes", "no")],
    record::SETTINGS,
    |s, _| {
        let Some(seats) = s.load.seats else { return Asked::cannot_tell("the seat limit is unknown") };
        if s.load.running_max <= 0.0 {
            return Asked::cannot_tell("how many ran is not known");
        }
        if !s.evidence.has_timeline() {
            return Asked::new(
                if s.load.running_max >= seats { "yes" } else { "no" },
                format!("{} of {}", count(s.load.running_max), count(seats)),
            );
        }
        if s.gates.waited_s <= 0.0 {
            return Asked::new("no", format!("{} of {} at the peak, nobody waited", count(s.load.running_max), count(seats)));
        }
        let share = s.gates.share(Gate::SeqCap);
        Asked::yes_no(share >= 0.5, format!("{} of {} in {} of the waiting", count(s.load.running_max), count(seats), percent(share)))
    }
);

/// Ceiling with more seats over the present one, as the advice to set them has it.
fn more_served(s: &Situation<'_>, seats: &Seats) -> f64 {
    let simulated = s.foretold.ask(&format!("max_num_seqs={:.0}", seats.to)).ok().and_then(|told| told.ceilings());
    let (now, then) = simulated.unwrap_or((seats.ceiling_now, seats.ceiling_then));
    then / now
}

question!(HEADROOM, "headroom with more?", "Could the device carry more sequences?", [], record::SCRAPES, |s, _| match headroom(
    &s.law, &s.load
) {
    Headroom::Yes(seats) => Asked::new(
        "yes",
        format!(
            "{}x at {}; utilization {} -> {}",
            digits(more_served(s, &seats)),
            count(seats.to),
            percent(seats.rho_now),
            percent(seats.rho_then)
        )
    ),
    Headroom::Maybe { seats, low } => Asked::new(
        if low { "yes" } else { "perhaps" },
        format!("up to {}x at {} seats; the batch did not vary, so only bounds are known", digits(more_served(s, &seats)), count(seats.to))
    ),
    Headroom::No { rho } => Asked::new("no", format!("utilization stays at {}", percent(rho))),
    Headroom::Unknown => Asked::cannot_tell("no step law from this window"),
});

question!(GATES, "who holds the queue?", "Which limit keeps the next request out?", [], record::SCRAPES, |s, _| match s.gates.largest() {
    Some((gate, share)) => Asked::new(gate.as_str(), percent(share)),
    None if s.evidence.has_timeline() => Asked::new("nobody", "nothing waited"),
    None => Asked::cannot_tell("no series over time"),
});

question!(
    GROWING,
    "more arriving than served?",
    "Does the number of requests in the system grow?",
    [("overload", "yes", "no")],
    record::SCRAPES,
    |s, _| {
        if !s.evidence.has_timeline() {
            return Asked::cannot_tell("no series over time");
        }
        let rho = s.rho_at_seats().map_or_else(String::new, |rho| format!("; utilization {}", percent(rho)));
        Asked::yes_no(s.load.growing, format!("{} running at the peak{rho}", count(s.load.running_max)))
    }
);

question!(
    STANDS_STILL,
    "running stands still?",
    "Does the number of running requests stand at a number, and whose is it?",
    [("batch_cap_reached", "yes", "no"), ("connection_cap", "yes", "no")],
    record::SETTINGS,
    |s, _| {
        let running = s.load.running_max;
        if running <= 0.0 {
            return Asked::cannot_tell("how many ran is not known");
        }
        if let Some(seats) = s.load.seats.filter(|&seats| at_cap(running, seats)) {
            let whose = if s.load.seats_inferred { "by a limit nobody names" } else { "max_num_seqs" };
            return Asked::new("yes", format!("{} of {}; {whose}", count(running), count(seats)));
        }
        let (at, all) =
            s.evidence.engines.values().filter_map(|engine| engine.series("engine.running")).fold((0, 0), |(at, all), series| {
                let own = series.max();
                (at + series.value.iter().filter(|&&value| own >= 2.0 && at_cap(value, own)).count(), all + series.len())
            });
        if all < 10 {
            return Asked::cannot_tell("no series over time");
        }
        let share = at as f64 / all as f64;
        let outside = if s.load.waiting_max < 1.0 { "; nobody waits inside: a limit outside the engine" } else { "" };
        Asked::yes_no(
            share >= 0.5,
            format!("at {} in {} of the scrapes{}", count(running), percent(share), if share >= 0.5 { outside } else { "" }),
        )
    }
);

question!(
    EVICTIONS,
    "cache thrown out?",
    "Are cached blocks thrown out that requests need again?",
    [("kv_thrash", "yes", "no"), ("missed_prefix_reuse", "yes", "no")],
    record::SCRAPES,
    |s, _| match total(s, "kv.evictions") {
        Some(0.0) => Asked::new("no", "0"),
        Some(evicted) => {
            let hits = total(s, "kv.prefix_hits").zip(total(s, "kv.prefix_queries")).filter(|(_, queries)| *queries > 0.0);
            let ratio = hits.map_or_else(String::new, |(hits, queries)| {
                format!("; {} of the prompt tokens came from the cache", percent(hits / queries))
            });
            Asked::new("yes", format!("{} thrown out{ratio}", count(evicted)))
        }
        None => Asked::cannot_tell("evictions are not exported"),
    }
);
