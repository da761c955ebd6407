//! Data-parallel ranks step together although their batches differ.

use crate::change::{claims_on_steps, cost_of, first_token_stays, hypothesis, of_setting, token_time_falls};
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::evidence::Engine;
use crate::members::Members;
use crate::phase::Phase;
use crate::record;
use crate::sharding::{Sharding, has_attention_copies};
use crate::situation::Situation;
use crate::timeline::intervals;
use crate::words::{count, digits, percent};

check! {
    /// Ranks that must step together get different amounts of work, so each step takes as long as the fullest rank's.
    ///
    /// ## Why it costs time
    /// With attention data-parallel and experts shared, all ranks meet in every layer. A rank with few tokens waits for the one
    /// with many, and a rank without any request still runs dummy steps. Balancing by number of requests does not help when
    /// their lengths differ.
    ///
    /// ## How to confirm
    /// Tokens per step and rank at the same moment: (largest - mean) / largest is the share of each step that waits.
    ///
    /// ## Fix
    /// Balance ranks by tokens, not by requests; fewer data-parallel ranks; chunks small enough that one prompt does not fill
    /// a whole step.
    ///
    /// ## When this is wrong
    /// Ranks of a dense model do not meet: there uneven load is `replica_imbalance`. Equal tokens per rank and unequal experts
    /// are `expert_imbalance`.
    id: "dp_lockstep", layer: Parallelism, rank: 62, phases: [Prefill, Decode], bound: "logic", validated_on: "typed", run: find,
}

/// A tenth of each step waited is the least that is worth another way of balancing.
const WAITED: f64 = 0.10;

fn find(situation: &Situation<'_>) -> Answer {
    let sharding = Sharding::read(situation.subject, situation.evidence);
    let is_lockstep = meets_in_layers(situation, &sharding);
    let ranks = Members::read(situation.evidence, "engine.step_tokens")
        .or_else(|| typed_tokens(situation).filter(|_| is_lockstep))
        .or_else(|| typed_sequences(situation));
    if let Some(members) = ranks.filter(|_| sharding.data > 1.0 || is_lockstep) {
        if !is_lockstep && !situation.subject.model.is_empty() && has_no_experts(situation) {
            return clear(vec![("max_over_mean", members.max_over_mean())], "ranks of a dense model step on their own");
        }
        let waited = waited_in_syncs(situation).unwrap_or_else(|| members.waited_frac());
        return judge(situation, &members, waited, Basis::Typed, "tokens per step by rank");
    }
    let scraped = scraped_ranks(situation);
    if scraped.len() >= 2 {
        if !is_lockstep {
            return clear(vec![("ranks", scraped.len() as f64)], "nothing says that experts are shared: the ranks step on their own");
        }
        let (members, waited) = over_time(&scraped);
        return match members {
            Some(members) => judge(situation, &members, waited, Basis::Derived, "tokens per interval by rank"),
            None => clear(vec![("ranks", scraped.len() as f64)], "no rank computed anything in the window"),
        };
    }
    if sharding.data == 1.0 || sharding.is_one_device() || (!situation.is_typed() && sharding.data <= 1.0) {
        return clear(vec![("data_parallel", sharding.data)], "no data-parallel ranks that step together");
    }
    Answer::CannotTell(record::unseen(
        situation,
        &["engine.step_tokens by rank"],
        "tokens per step and rank are not known",
        record::REPLICAS,
        record::REPLICAS_COST,
    ))
}

/// Ranks meet in every layer where experts are shared or attention alone is data-parallel.
fn meets_in_layers(situation: &Situation<'_>, sharding: &Sharding) -> bool {
    let experts = situation.evidence.figures.typical("model.experts").is_some_and(|experts| experts > 1.0);
    sharding.expert || has_attention_copies(situation.evidence) || (sharding.data > 1.0 && (experts || !has_no_experts(situation)))
}

fn has_no_experts(situation: &Situation<'_>) -> bool {
    let lower = situation.subject.model.to_ascii_lowercase();
    let named = ["moe", "mixtral", "deepseek-v", "deepseek-r", "qwen3-next", "gpt-oss", "kimi-k", "glm-4.5", "llama-4", "maverick"];
    crate::decode_bound::ModelName::read(&situation.subject.model).active_params.is_none() && !named.iter().any(|name| lower.contains(name))
}

/// Tokens of the whole run by rank: the ranks made the same number of steps.
fn typed_tokens(situation: &Situation<'_>) -> Option<Members> {
    let sums = ["server.prompt_tokens.sum", "server.computed_tokens", "server.throughput.prompt", "client.throughput.prompt"];
    let outputs = ["server.output_tokens.sum", "server.throughput.output", "client.throughput.output"];
    sums.iter().chain(&outputs).find_map(|name| Members::by(situation.evidence, name, "rank")).filter(|_| situation.is_typed())
}

/// Mean wait of the ranks in each step, as a share of it, where it was measured.
fn waited_in_syncs(situation: &Situation<'_>) -> Option<f64> {
    let waits = Members::by(situation.evidence, "kernel.sync_wait", "rank")?;
    let step_s = situation.evidence.figures.typical("engine.step_time").filter(|step_s| *step_s > 0.0)?;
    Some((waits.mean - waits.min) / step_s).filter(|share| (0.0..1.0).contains(share))
}

/// Sequences per rank where no tokens were typed: in decode each makes one token a step.
fn typed_sequences(situation: &Situation<'_>) -> Option<Members> {
    situation
        .is_typed()
        .then(|| {
            Members::read(situation.evidence, "engine.step_seqs").or_else(|| Members::by(situation.evidence, "engine.running", "rank"))
        })
        .flatten()
}

/// Engine ranks inside one server.
fn scraped_ranks<'s>(situation: &'s Situation<'_>) -> Vec<&'s Engine> {
    let engines = &situation.evidence.engines;
    let ranks = engines.keys().filter(|id| !id.engine.is_empty()).count();
    let replicas: std::collections::BTreeSet<&str> = engines.keys().map(|id| id.replica.as_str()).collect();
    if ranks >= 2 && replicas.len() < engines.len() { engines.values().collect() } else { Vec::new() }
}

/// Work of each rank over the window, and the share of it that waits interval by interval.
fn over_time(engines: &[&Engine]) -> (Option<Members>, f64) {
    let work: Vec<Vec<f64>> = engines
        .iter()
        .map(|engine| intervals(engine).iter().map(|interval| interval.output_tokens + interval.computed_tokens).collect())
        .collect();
    let length = work.iter().map(Vec::len).min().unwrap_or(0);
    let (mut largest, mut mean) = (0.0, 0.0);
    for at in 0..length {
        let moment: Vec<f64> = work.iter().map(|rank| rank[at]).collect();
        largest += moment.iter().copied().fold(0.0, f64::max);
        mean += moment.iter().sum::<f64>() / moment.len() as f64;
    }
    let waited = if largest > 0.0 { 1.0 - mean / largest } else { 0.0 };
    let totals = work.iter().enumerate().map(|(rank, values)| (rank.to_string(), values.iter().sum())).collect();
    (Members::of(totals), waited)
}

fn judge(situation: &Situation<'_>, members: &Members, waited: f64, basis: Basis, from: &str) -> Answer {
    let margin = vec![("waited", waited), ("max_over_mean", members.max_over_mean())];
    if waited < WAITED {
        return clear(
            margin,
            format!("the fullest rank has {} times the mean: {} of a step waits", digits(members.max_over_mean()), percent(waited)),
        );
    }
    Answer::Found(Box::new(found(situation, members, waited, basis, from)))
}

fn found(situation: &Situation<'_>, members: &Members, waited: f64, basis: Basis, from: &str) -> Found {
    // A step has a part that does not depend on its tokens; that part nobody waits for.
    let share = [0.4 * waited, 0.7 * waited, waited];
    let hottest = members.hottest().map_or(String::new(), |(rank, _)| format!(" (rank {rank})"));
    Found {
        summary: format!(
            "the fullest rank{hottest} carries {} where the mean is {}: {} of each step waits",
            count(members.max),
            count(members.mean),
            percent(waited)
        ),
        sentence: format!(
            "Ranks that step together carry different load: {}{hottest} against a mean of {} tokens per step, so up to {} of each step is waiting for the fullest.",
            count(members.max),
            count(members.mean),
            percent(waited)
        ),
        claims: claims_on_steps(situation, share, basis),
        cost: cost_of(situation, Phase::Decode, share[1]),
        evidence: vec![
            figure("fullest rank", members.max, "token", from),
            figure("mean rank", members.mean, "token", from),
            figure("(largest - mean) / largest", waited, "ratio", from),
        ],
        hypotheses: hypothesis(
            of_setting(
                situation,
                "load_balance_method",
                "now",
                "by tokens",
                "send requests to the rank with the fewest tokens, or use fewer data-parallel ranks",
            ),
            "balancing by tokens sends requests away from the rank that holds their prefix",
            "time per token does not fall",
            vec![token_time_falls(situation, 0.5 * share[0], share[2], "largest rank down to the mean"), first_token_stays(situation)],
        ),
        falsified_by: "ranks with equal tokens per step and steps no shorter".into(),
        context_only: false,
        limit: false,
    }
}
