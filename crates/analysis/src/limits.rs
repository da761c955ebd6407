//! The ladder of ceilings, and what popular fixes would gain here.
//!
//! Gains come from a counterfactual, never from ownership: near saturation several remedies clear the same queue, each alone
//! (blame is not gain). The counterfactual is that of `inferoscope whatif` where the run can be replayed ([`simulated`]); facts
//! and the step law alone decide where it cannot.

mod simulated;

use model::step_law::StepLaw;

use crate::contract::{Limit, Remedy};
use crate::gates::{Gate, KV_NEAR_FULL, budget_share};
use crate::phase::Phase;
use crate::seats::{Headroom, headroom};
use crate::situation::{SATURATED_RHO, Situation};
use crate::words::{count, digits, left_of, percent, seconds};

/// Ordered ceilings in requests per second, lowest first: of the fitted simulation, else of the step law of the window. Empty
/// without a fitted law.
pub fn ladder(situation: &Situation<'_>) -> Vec<Limit> {
    let mut rungs = simulated::rungs(situation);
    if rungs.is_empty() {
        rungs = rungs_by_law(situation);
    }
    rungs.retain(|rung| rung.value.is_finite() && rung.value > 0.0);
    rungs.sort_by(|a, b| a.value.total_cmp(&b.value));
    rungs
}

/// Seats that the KV cache holds, where they are more than there are.
fn seats_in_kv(situation: &Situation<'_>) -> Option<f64> {
    let load = &situation.load;
    load.kv_seats().map(|kv| kv.min(4096.0)).filter(|kv| load.seats.is_none_or(|seats| *kv > seats))
}

fn rungs_by_law(situation: &Situation<'_>) -> Vec<Limit> {
    let (Some(law), load) = (situation.law.known(), &situation.load) else { return Vec::new() };
    let (Some(uncached), Some(output)) = (load.uncached_tokens, load.output_tokens) else { return Vec::new() };
    let engines = load.engines();
    let at = |batch: f64, what: String| Limit {
        value: engines * law.rate_per_s(batch, uncached, output),
        unit: "request/s".into(),
        what,
        from: if batch > 1e6 {
            format!("step law ({}) in the limit of a large batch", situation.law.from())
        } else {
            format!("step law ({}) at {} running per engine", situation.law.from(), count(batch))
        },
    };
    let mut rungs = Vec::new();
    if let Some(seats) = load.seats {
        rungs.push(at(seats, format!("{} seats", count(seats))));
        rungs.push(at(2.0 * seats, format!("{} seats", count(2.0 * seats))));
    }
    rungs.extend(seats_in_kv(situation).map(|kv| at(kv, "KV full".into())));
    rungs.push(at(1e9, NO_BATCH.into()));
    rungs
}

/// The last rung.
const NO_BATCH: &str = "device: no batch serves more";

/// What ten popular fixes would gain, for the cause found; `lever` is the setting of its first advice, empty where that has none.
pub fn remedies(situation: &Situation<'_>, cause: &str, lever: &str) -> Vec<Remedy> {
    let judged = |fix: &Fix| {
        let by_facts = (fix.judge)(situation, cause, fix);
        let own = if by_facts.verdict == "first_choice" && !lever.is_empty() { vec![lever.to_string()] } else { Vec::new() };
        let settings = if own.is_empty() { (fix.settings)(situation) } else { own };
        simulated::judge(situation, &settings, by_facts)
    };
    FIXES.iter().map(judged).collect()
}

/// A popular fix and how it is judged.
struct Fix {
    /// Check whose first choice it is.
    for_cause: &'static str,
    name: &'static str,
    price: &'static str,
    judge: fn(&Situation<'_>, &str, &Fix) -> Remedy,
    /// The same as settings of `inferoscope whatif`; the first that the capture can answer counts.
    settings: fn(&Situation<'_>) -> Vec<String>,
}

const FIXES: &[Fix] = &[
    Fix {
        for_cause: "batch_cap_reached",
        name: "more seats",
        price: "free flag, restart",
        judge: more_seats,
        settings: |situation| twice("max_num_seqs", situation.load.seats),
    },
    Fix {
        for_cause: "kv_thrash",
        name: "more KV memory",
        price: "flag, restart",
        judge: more_kv,
        settings: |_| vec!["kv_tokens=x2".into()],
    },
    Fix {
        for_cause: "",
        name: "larger token budget",
        price: "free flag, restart",
        judge: larger_budget,
        settings: |situation| twice("max_num_batched_tokens", situation.evidence.settings.number("config.max_num_batched_tokens")),
    },
    Fix { for_cause: "", name: "shorter max_model_len", price: "free flag, restart", judge: shorter_model_len, settings: |_| Vec::new() },
    Fix {
        for_cause: "",
        name: "prefix caching",
        price: "free flag, restart",
        judge: prefix_caching,
        settings: |_| vec!["prefix_caching=on".into()],
    },
    Fix { for_cause: "", name: "FP8 weights", price: "accuracy, restart", judge: fp8_weights, settings: |_| vec!["weights=fp8".into()] },
    Fix {
        for_cause: "",
        name: "FP8 KV cache",
        price: "accuracy, restart",
        judge: fp8_kv,
        settings: |_| vec!["kv_cache_dtype=fp8".into(), "kv_tokens=x2".into()],
    },
    Fix {
        for_cause: "",
        name: "speculative decoding",
        price: "memory, restart",
        judge: speculation,
        settings: |_| vec!["num_speculative_tokens=4".into()],
    },
    Fix {
        for_cause: "overload",
        name: "a second GPU",
        price: "money",
        judge: second_replica,
        settings: |situation| twice("replicas", Some(situation.load.engines())),
    },
    Fix {
        for_cause: "proxy_buffering",
        name: "response buffering off",
        price: "free, reload",
        judge: buffering_off,
        settings: |_| vec!["proxy_buffering=off".into()],
    },
];

fn twice(lever: &str, now: Option<f64>) -> Vec<String> {
    now.map(|now| format!("{lever}={:.0}", 2.0 * now)).into_iter().collect()
}

fn remedy(fix: &Fix, verdict: &str, gain_s: Option<f64>, because: impl Into<String>) -> Remedy {
    Remedy { fix: fix.name.into(), verdict: verdict.into(), gain_s, lever: String::new(), price: fix.price.into(), because: because.into() }
}

fn first_choice(situation: &Situation<'_>, fix: &Fix, phase: Phase) -> Remedy {
    remedy(fix, "first_choice", Some(situation.phase_s(phase)), "removes what the verdict names")
}

fn more_seats(situation: &Situation<'_>, cause: &str, fix: &Fix) -> Remedy {
    if cause == fix.for_cause {
        return first_choice(situation, fix, Phase::Queue);
    }
    let share = situation.gates.share(Gate::SeqCap);
    if cause == "overload" {
        return remedy(fix, "no_gain", Some(0.0), "more seats only make the batch larger: what arrives exceeds what the engine serves");
    }
    match headroom(&situation.law, &situation.load) {
        Headroom::Yes(_) | Headroom::Maybe { .. } if share >= 0.1 => remedy(
            fix,
            "also_works",
            Some(share * situation.phase_s(Phase::Queue)),
            format!("seats hold {} of the waiting", percent(share)),
        ),
        Headroom::No { rho } if share >= 0.1 => remedy(fix, "no_gain", Some(0.0), format!("utilization stays at {}", percent(rho))),
        _ if situation.evidence.has_timeline() => {
            remedy(fix, "no_gain", Some(0.0), format!("running peaks at {}; seats are not the gate", count(situation.load.running_max)))
        }
        _ => remedy(fix, "cannot_tell", None, "no series over time"),
    }
}

fn more_kv(situation: &Situation<'_>, cause: &str, fix: &Fix) -> Remedy {
    if cause == fix.for_cause {
        return first_choice(situation, fix, Phase::Queue);
    }
    match situation.load.kv_usage_max {
        Some(usage) if usage < KV_NEAR_FULL => remedy(fix, "no_gain", Some(0.0), format!("{} of the KV cache is free", left_of(usage))),
        Some(usage) => remedy(fix, "cannot_tell", None, format!("KV usage reaches {}", percent(usage))),
        None => remedy(fix, "cannot_tell", None, "KV usage is not known"),
    }
}

fn larger_budget(situation: &Situation<'_>, _cause: &str, fix: &Fix) -> Remedy {
    let budget = situation.evidence.settings.number("config.max_num_batched_tokens");
    let share = budget.and_then(|budget| situation.evidence.engines.values().find_map(|engine| budget_share(engine, budget)));
    match (share, busiest_step_share(situation, budget)) {
        (Some(share), _) if share >= 0.25 => {
            remedy(fix, "cannot_tell", None, format!("{} of the steps spend the whole budget", percent(share)))
        }
        (Some(share), _) => remedy(fix, "no_gain", Some(0.0), format!("{} of the steps spend the whole budget", percent(share))),
        (None, Some(of_budget)) if of_budget < 0.5 => {
            remedy(fix, "no_gain", Some(0.0), format!("99 % of the steps use under {} of the budget", percent(of_budget)))
        }
        _ => remedy(fix, "cannot_tell", None, "tokens per step or the budget are not known"),
    }
}

/// Upper bound of the 99th percentile step over the budget.
fn busiest_step_share(situation: &Situation<'_>, budget: Option<f64>) -> Option<f64> {
    let delta = situation.evidence.observed("engine.step_tokens")?;
    let mut seen = 0.0;
    for (bound, count) in delta.bounds.iter().zip(&delta.buckets) {
        seen += count;
        if delta.count > 0.0 && seen >= 0.99 * delta.count {
            return Some(bound / budget?).filter(|share| share.is_finite());
        }
    }
    None
}

fn shorter_model_len(situation: &Situation<'_>, _cause: &str, fix: &Fix) -> Remedy {
    if situation.subject.engine.starts_with("vllm") || situation.subject.engine.starts_with("sglang") {
        remedy(fix, "no_gain", Some(0.0), "paged KV reserves nothing for length nobody sends")
    } else {
        remedy(fix, "cannot_tell", None, "whether this engine reserves by length is not known")
    }
}

fn prefix_caching(situation: &Situation<'_>, _cause: &str, fix: &Fix) -> Remedy {
    let hits = situation.evidence.growth("kv.prefix_hits");
    let queries = situation.evidence.growth("kv.prefix_queries");
    match (situation.evidence.settings.flag("config.prefix_caching"), hits.zip(queries)) {
        (Some(true), Some((hits, queries))) if queries > 0.0 => {
            remedy(fix, "no_gain", Some(0.0), format!("it is on and finds {} of the prompt tokens", percent(hits / queries)))
        }
        _ => remedy(fix, "cannot_tell", None, "how much the prompts share is not known"),
    }
}

/// Whether a law with cheaper steps brings utilization at the present seats below saturation.
fn clears_queue(situation: &Situation<'_>, scale: impl Fn(&StepLaw) -> StepLaw, arrivals_scale: f64) -> Option<(f64, f64)> {
    let law = situation.law.known()?;
    let seats = situation.load.seats?;
    let now = situation.load.rho(law, seats)?;
    let then = situation.load.rho(&scale(law), seats)? * arrivals_scale;
    (now >= SATURATED_RHO).then_some((now, then))
}

fn judge_cheaper(situation: &Situation<'_>, fix: &Fix, change: Option<(f64, f64)>) -> Remedy {
    match change {
        Some((now, then)) if then < SATURATED_RHO => remedy(
            fix,
            "also_works",
            Some(situation.phase_s(Phase::Queue)),
            format!("utilization at the present seats falls from {} to {}: clears this queue too", percent(now), percent(then)),
        ),
        Some((now, then)) => remedy(fix, "no_gain", None, format!("utilization only falls from {} to {}", percent(now), percent(then))),
        None => remedy(fix, "cannot_tell", None, "needs a fitted step law and a saturated cap"),
    }
}

/// FP8 halves the bytes of the weights, the constant of a bandwidth-bound step: at best. 0.6 allows for what does not
/// shrink (embeddings, launch, sampling).
fn fp8_weights(situation: &Situation<'_>, cause: &str, fix: &Fix) -> Remedy {
    if cause == "proxy_buffering" {
        return remedy(fix, "no_gain", Some(0.0), "the engine is not what the user waits for");
    }
    if situation.subject.device == "CPU" {
        return remedy(fix, "cannot_tell", None, "no FP8 arithmetic on this device");
    }
    judge_cheaper(situation, fix, clears_queue(situation, |law| StepLaw::from_parts(0.6 * law.a_s, law.b_s, law.c_s), 1.0))
}

fn fp8_kv(situation: &Situation<'_>, cause: &str, fix: &Fix) -> Remedy {
    match situation.load.kv_usage_max {
        _ if cause == "kv_thrash" && situation.evidence.settings.get("config.num_gpu_blocks_override").is_none() => {
            remedy(fix, "first_choice", None, "doubles the tokens the cache holds")
        }
        _ if cause == "kv_thrash" => remedy(fix, "also_works", None, "doubles the tokens the cache holds"),
        Some(usage) if usage < KV_NEAR_FULL => remedy(fix, "no_gain", Some(0.0), format!("{} of the KV cache is free", left_of(usage))),
        _ => remedy(fix, "cannot_tell", None, "KV usage is not known"),
    }
}

fn speculation(situation: &Situation<'_>, _cause: &str, fix: &Fix) -> Remedy {
    match situation.evidence.growth("spec.accepted_tokens").zip(situation.evidence.growth("spec.drafts")) {
        Some((accepted, drafts)) if drafts > 0.0 => {
            remedy(fix, "no_gain", Some(0.0), format!("it is on and yields {} tokens per step", digits(1.0 + accepted / drafts)))
        }
        _ => remedy(fix, "cannot_tell", None, "no acceptance data for this workload"),
    }
}

fn second_replica(situation: &Situation<'_>, cause: &str, fix: &Fix) -> Remedy {
    match cause {
        "overload" => remedy(fix, "first_choice", None, "adds the capacity that is missing"),
        "proxy_buffering" => remedy(fix, "no_gain", Some(0.0), "the engine is not what the user waits for"),
        "kv_thrash" => remedy(fix, "also_works", None, "halves the tokens each cache must hold"),
        _ => judge_cheaper(situation, fix, clears_queue(situation, StepLaw::clone, 0.5)),
    }
}

fn buffering_off(situation: &Situation<'_>, cause: &str, fix: &Fix) -> Remedy {
    let held_s = situation.phase_s(Phase::Stream);
    if cause == fix.for_cause {
        remedy(fix, "first_choice", Some(held_s), "the first token arrives when it is made")
    } else if situation.evidence.client.is_empty() {
        remedy(fix, "cannot_tell", None, "nothing was measured outside the server")
    } else {
        remedy(
            fix,
            "no_gain",
            Some(held_s),
            format!("{} held on the way", if held_s > 0.0 { seconds(held_s) } else { "nothing is".into() }),
        )
    }
}
