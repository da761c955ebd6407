//! Verifying k drafts costs clearly more than a plain step, so that even accepted drafts bring little.

use crate::change::{first_token_stays, of_setting, token_time_falls};
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Hypothesis, Quantity};
use crate::drafting::{self, Costs, Drafting, Runs, SPREAD};
use crate::phase::Phase;
use crate::record;
use crate::situation::Situation;
use crate::words::{count, digits, seconds};

check! {
    /// The target takes far longer to verify drafted tokens than to make one token.
    ///
    /// ## Why it costs time
    /// Speculation lives from verifying several tokens in one pass at about the price of one: the weights are read once either
    /// way. Where each further token costs like the first (experts that differ per token, kernels without a path for small
    /// batches, a device near its arithmetic limit, a pass that falls off the captured graphs) accepted drafts save nothing.
    ///
    /// ## How to confirm
    /// Time the target's step at 1, 2, 4 and 8 tokens of one stream, or multiply time per token by tokens per step: the
    /// round less drafting, over a plain step. Near 1 it is free; near the number of verified tokens nothing is gained.
    ///
    /// ## Fix
    /// Fewer drafts, no tree, kernels for small batches, graphs that cover the verifying batch; else no speculation.
    ///
    /// ## When this is wrong
    /// At large batch the same ratio is the ordinary price of arithmetic (`speculation_at_large_batch`); a dear drafter hides
    /// in the same round (`expensive_draft`) until it is timed.
    id: "expensive_verification", layer: Speculation, rank: 97, phases: [Decode], bound: "compute", validated_on: "report", run: find,
}

/// From here verifying is clearly dearer than a plain step: runs differ by a quarter, and the drafts' own attention adds some.
const DEAR: f64 = 1.5;
/// Without known acceptance: verifying costs a whole plain step more, so the first accepted draft is paid away.
const ONE_STEP_MORE: f64 = 2.0;
/// Half of what accepted drafts bring is paid for verifying them.
const HALF_OF_GAIN: f64 = 0.5;

fn find(situation: &Situation<'_>) -> Answer {
    if let Some(clear) = drafting::ruled_out(situation) {
        return clear;
    }
    let evidence = situation.evidence;
    let drafting = Drafting::read(evidence);
    if let Some(clear) = drafting.as_ref().and_then(drafting::refused_at_any_price) {
        return clear;
    }
    let costs = Costs::read(situation, drafting.as_ref());
    let bounds = drafting::draft_bounds(evidence);
    let Some((costs, ratio)) = costs.and_then(|costs| Some((costs, costs.verify_ratio(bounds)?))) else {
        return Answer::CannotTell(record::plain_arm(situation, drafting.as_ref()));
    };
    let margin = vec![("verify_over_plain", ratio), ("drafts", costs.per_round)];
    if ratio < DEAR {
        return clear(margin, format!("verifying takes {} of a plain step", digits(ratio.max(0.0))));
    }
    if costs.draft_s.is_none() && !costs.is_verify_measured && drafting::verifies_for_free(situation, costs.per_round) {
        return clear(margin, "so few tokens are nearly free to verify on this GPU: drafting holds the rest of the round");
    }
    if drafting::verified_per_step(situation, costs.per_round).is_some_and(|tokens| tokens > drafting::ridge_tokens(situation)) {
        return clear(margin, "at this batch the ordinary price of arithmetic, not of verifying");
    }
    if eats_the_gain(situation, drafting.as_ref(), &costs, ratio) {
        return Answer::Found(Box::new(found(situation, drafting.as_ref(), &costs, ratio)));
    }
    clear(margin, format!("verifying takes {} plain steps, and accepted drafts repay it", digits(ratio)))
}

fn eats_the_gain(situation: &Situation<'_>, drafting: Option<&Drafting>, costs: &Costs, ratio: f64) -> bool {
    let loses = Runs::read(situation).against_plain().is_some_and(|pair| pair.slowdown() > SPREAD);
    let Some(drafting) = drafting else { return ratio >= ONE_STEP_MORE };
    let is_too_long = drafting::measured_cost(costs).is_some_and(|cost| {
        let (best, ratio) = drafting::best_length(drafting, cost);
        best >= 1.0 && best < drafting.per_round && ratio < 1.0 / SPREAD && !no_length_gains(situation)
    });
    loses || (!is_too_long && ratio - 1.0 >= HALF_OF_GAIN * (drafting.yield_tokens - 1.0).max(0.1))
}

/// A sweep over several numbers of drafts in which none is faster than this one: length is not the matter.
fn no_length_gains(situation: &Situation<'_>) -> bool {
    Runs::read(situation).over_drafts().is_some_and(|(own, all)| {
        let others: Vec<f64> = all
            .iter()
            .filter(|run| run.drafts.is_some_and(|drafts| drafts > 0.0) && run.drafts != own.drafts)
            .filter_map(|run| run.over(&own))
            .collect();
        !others.is_empty() && others.iter().all(|ratio| *ratio > 1.0 / SPREAD)
    })
}

fn found(situation: &Situation<'_>, drafting: Option<&Drafting>, costs: &Costs, ratio: f64) -> Found {
    let decode_s = situation.phase_s(Phase::Decode);
    let plain_s = costs.plain_s.unwrap_or_default();
    let round_s = costs.round_s.unwrap_or(ratio * plain_s).max(ratio * plain_s);
    let share = ((ratio - 1.0) * plain_s / round_s).clamp(0.0, 1.0);
    let basis = if costs.is_verify_measured || costs.draft_s.is_some() { Basis::Derived } else { Basis::Bound };
    let claim = Claim { phase: Phase::Decode, what: Extent::Fraction { lo: 0.8 * share, mid: share, hi: (1.1 * share).min(1.0) }, basis };
    let tokens = costs.per_round + 1.0;
    let per_token_s = ratio * plain_s / tokens;
    let yields = drafting.map_or(String::new(), |drafting| format!(" for {} tokens", digits(drafting.yield_tokens)));
    let drafts = count(costs.per_round);
    Found {
        summary: format!("verifying {} tokens takes {} plain steps{yields}", count(tokens), digits(ratio)),
        sentence: format!(
            "The target takes {} to verify {} tokens, {} times its plain step of {}{yields}: each verified token costs {} and speculation cannot pay.",
            seconds(ratio * plain_s),
            count(tokens),
            digits(ratio),
            seconds(plain_s),
            seconds(per_token_s)
        ),
        claims: if decode_s > 0.0 { vec![claim] } else { Vec::new() },
        cost: (decode_s > 0.0).then(|| Quantity { value: share * decode_s, unit: "s".into() }),
        evidence: vec![
            figure("verifying over a plain step", ratio, "ratio", if costs.is_verify_measured { "timed" } else { "a round less drafting" }),
            figure("plain step", plain_s, "s", "without speculation"),
            figure("verifying beyond a plain step, share of a round", share, "ratio", "computed"),
        ],
        hypotheses: vec![Hypothesis {
            id: String::new(),
            change: of_setting(
                situation,
                "speculative_tokens",
                &drafts,
                if costs.per_round > 1.0 { "1" } else { "0" },
                "draft one token, or none, and time the target's step at 1, 2, 4 and 8 tokens",
            ),
            risk: "streams whose drafts are accepted lose that gain".into(),
            rollback: format!("{drafts} drafts again"),
            undo_if: "time per token does not fall".into(),
            predictions: vec![
                token_time_falls(situation, 0.25 * share, share, "verifying beyond a plain step, and the accepted tokens given up"),
                first_token_stays(situation),
            ],
            throughput: String::new(),
        }],
        falsified_by: format!("a target step over {} tokens that takes about as long as one over a single token", count(tokens)),
        context_only: false,
        limit: false,
    }
}
