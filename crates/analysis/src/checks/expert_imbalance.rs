//! Some expert ranks get far more tokens than others, and the step waits for the hottest.

mod by_trace;

use crate::change::{claims_on_steps, cost_of, first_token_stays, hypothesis, of_setting, token_time_falls};
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::contract::Hypothesis;
use crate::drafting::SPREAD;
use crate::evidence::Evidence;
use crate::members::Members;
use crate::pace::slowdown;
use crate::phase::Phase;
use crate::record;
use crate::sharding::Sharding;
use crate::situation::Situation;
use crate::words::{count, digits, percent};

check! {
    /// Tokens are spread unevenly over expert-parallel ranks, so that all wait for the one with the most.
    ///
    /// ## Why it costs time
    /// A layer of experts ends when its busiest rank ends. Routers prefer some experts, and with a fixed placement the rank
    /// that holds them computes while the others wait in the exchange that follows.
    ///
    /// ## How to confirm
    /// Tokens (or expert kernel time) per rank and step: largest over mean, above what chance gives for so many tokens; the
    /// hot rank stays the same from step to step.
    ///
    /// ## Fix
    /// Redundant copies of hot experts, rebalancing by measured load, a larger batch, fewer expert ranks.
    ///
    /// ## When this is wrong
    /// Largest over mean is above 1 by chance at any small batch; ranks whose *input* differs are `dp_lockstep`; equal tokens and
    /// long exchanges are a slow all-to-all.
    id: "expert_imbalance", layer: Parallelism, rank: 61, phases: [Prefill, Decode, Communication], bound: "logic", validated_on: "simulated", run: find,
}

/// Experts' share of a step where it was not measured: attention and the exchange take the rest.
const EXPERTS_OF_STEP: [f64; 3] = [0.35, 0.6, 0.9];
/// Beyond chance, a tenth above the mean is the least that is worth moving experts for.
const ABOVE: f64 = 1.1;

fn find(situation: &Situation<'_>) -> Answer {
    let sharding = Sharding::read(situation.subject, situation.evidence);
    let tokens = Members::read(situation.evidence, "engine.rank_tokens");
    let times = expert_times(situation);
    let Some((members, is_time)) = times.map(|members| (members, true)).or_else(|| tokens.map(|members| (members, false))) else {
        if let Some(ratio) = balanced_arm(situation, &sharding) {
            return if ratio > SPREAD {
                Answer::Found(Box::new(by_arm(situation, ratio)))
            } else {
                clear(vec![("slowdown", ratio)], "an arm that balances experts is no faster")
            };
        }
        if let Some(answer) = by_trace::answer(situation) {
            return answer;
        }
        if !sharding.expert && (!situation.is_typed() || sharding.is_one_device()) {
            return clear(vec![("expert_parallel", 0.0)], "experts are not spread over ranks");
        }
        return Answer::CannotTell(record::unseen(
            situation,
            &["engine.rank_tokens by rank"],
            "tokens per expert rank are not known",
            record::COLLECTIVES,
            record::COLLECTIVES_COST,
        ));
    };
    let ratio = members.max_over_mean();
    let chance = if is_time { 1.0 } else { by_chance(members.mean, ranks(&members, &sharding)) };
    let margin = vec![("max_over_mean", ratio), ("by_chance", chance)];
    if ratio <= chance.max(ABOVE) {
        return clear(
            margin,
            format!("the busiest rank has {} times the mean; chance alone gives up to {}", digits(ratio), digits(chance)),
        );
    }
    Answer::Found(Box::new(found(situation, &members, &sharding, chance, is_time)))
}

/// Settings that spread experts by load.
const BALANCERS: [&str; 3] = ["config.enable_eplb", "config.expert_balancing", "config.ep_num_redundant_experts"];

fn balances(evidence: &Evidence) -> bool {
    BALANCERS
        .iter()
        .any(|key| evidence.settings.get(key).is_some_and(|setting| !matches!(setting.value.as_str(), "" | "0" | "false" | "False")))
}

/// An arm that differs by balancing experts: time here over time there.
fn balanced_arm(situation: &Situation<'_>, sharding: &Sharding) -> Option<f64> {
    let may = (sharding.expert || sharding.devices > 1.0) && !balances(situation.evidence);
    situation.other_arms().filter(|arm| may && balances(arm)).find_map(|arm| slowdown(situation.evidence, arm))
}

fn by_arm(situation: &Situation<'_>, ratio: f64) -> Found {
    let share = [1.0 - SPREAD / ratio, 1.0 - 1.0 / ratio, 1.0 - 1.0 / ratio];
    Found {
        summary: format!("with experts balanced by load a token takes {} of its time", percent(1.0 / ratio)),
        sentence: format!(
            "Experts are unevenly loaded: spread by measured load, a token takes {} of what it takes here.",
            percent(1.0 / ratio)
        ),
        claims: claims_on_steps(situation, share, Basis::Derived),
        cost: cost_of(situation, Phase::Decode, share[1]),
        evidence: vec![figure("time per token over that with balancing", ratio, "ratio", "arms")],
        hypotheses: remedy(situation, share),
        falsified_by: "tokens per expert rank equal in both arms".into(),
        context_only: false,
        limit: false,
    }
}

/// Time of expert kernels by rank.
fn expert_times(situation: &Situation<'_>) -> Option<Members> {
    let of_experts = |(name, figure): (&str, crate::evidence::Figure)| {
        let text = name.strip_prefix("kernel.time{")?.trim_end_matches('}');
        let category = capture::labels::get(text, "category")?;
        let rank = capture::labels::get(text, "rank").or_else(|| capture::labels::get(text, "device"))?;
        (category == "moe").then_some((rank, figure.value))
    };
    Members::of(situation.evidence.figures.iter().filter_map(of_experts).collect())
}

fn ranks(members: &Members, sharding: &Sharding) -> f64 {
    if members.each.is_empty() { sharding.devices.max(2.0) } else { members.count() as f64 }
}

/// Largest over mean that 95 of 100 random spreads stay below: R ranks, each with `mean` tokens on average. The largest of
/// R normals lies near `sqrt(2 ln R)` deviations, and one deviation more covers its own spread.
fn by_chance(mean: f64, ranks: f64) -> f64 {
    if mean <= 0.0 {
        return 1.0;
    }
    1.0 + ((2.0 * ranks.ln()).sqrt() + 1.0) * ((1.0 - 1.0 / ranks) / mean).sqrt()
}

/// Share of a step that expert kernels take.
fn experts_of_step(situation: &Situation<'_>) -> ([f64; 3], &'static str) {
    let kernels = situation.evidence.figures.by_label("kernel.time", "category");
    let total: f64 = kernels.iter().map(|(_, seconds)| seconds).sum();
    let experts = kernels.iter().find(|(category, _)| category == "moe").map(|(_, seconds)| seconds / total);
    match experts.filter(|share| share.is_finite()) {
        Some(share) => ([share; 3], "expert kernels timed"),
        None => (EXPERTS_OF_STEP, "experts' share of a step not timed: 0.35 to 0.9"),
    }
}

fn found(situation: &Situation<'_>, members: &Members, sharding: &Sharding, chance: f64, is_time: bool) -> Found {
    let (of_step, from) = experts_of_step(situation);
    // What chance alone makes the hottest wait is not the placement's.
    let waited = ((members.max - chance * members.mean) / members.max).clamp(0.0, 1.0);
    let share = of_step.map(|experts| experts * waited);
    let ratio = members.max_over_mean();
    let what = if is_time { "expert time" } else { "tokens" };
    let hottest = members.hottest().map_or(String::new(), |(rank, _)| format!(" (rank {rank})"));
    let basis = if from.starts_with("expert kernels") { Basis::Derived } else { Basis::Bound };
    Found {
        summary: format!(
            "the busiest expert rank{hottest} has {} times the mean {what}; chance gives up to {}",
            digits(ratio),
            digits(chance)
        ),
        sentence: format!(
            "Experts are unevenly loaded: one of {} ranks{hottest} has {} times the mean {what}, and all wait for it ({} of each step; {from}).",
            count(ranks(members, sharding)),
            digits(ratio),
            percent(share[1])
        ),
        claims: claims_on_steps(situation, share, basis),
        cost: cost_of(situation, Phase::Decode, share[1]),
        evidence: vec![
            figure("busiest rank over the mean", ratio, "ratio", "typed or counted by rank"),
            figure("the same by chance, 95 of 100", chance, "ratio", "multinomial"),
            figure("waiting for the busiest, share of a step", share[1], "ratio", from),
        ],
        hypotheses: remedy(situation, share),
        falsified_by: "another rank is the busiest in every step, as chance makes it".into(),
        context_only: false,
        limit: false,
    }
}

fn remedy(situation: &Situation<'_>, share: [f64; 3]) -> Vec<Hypothesis> {
    let change =
        of_setting(situation, "expert_balancing", "off", "on", "spread experts by measured load, with redundant copies of the hot ones");
    let falls = token_time_falls(situation, 0.5 * share[0], share[2], "largest over mean down to what chance gives");
    hypothesis(
        change,
        "copies of experts take memory from the KV cache; moving them stalls for a moment",
        "the busiest rank keeps the same share of tokens",
        vec![falls, first_token_stays(situation)],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_batches_are_uneven_by_chance() {
        // 16 tokens per rank on 8 ranks: three times in four some rank has 1.4 times the mean and more.
        assert!(by_chance(16.0, 8.0) > 1.6);
        assert!(by_chance(4000.0, 8.0) < 1.06);
        assert_eq!(by_chance(0.0, 8.0), 1.0);
    }
}
