//! Drafting itself takes more of a round than a drafter of this kind should.

use crate::change::{first_token_stays, of_setting, token_time_falls};
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Hypothesis, Quantity};
use crate::drafting::{self, Costs, Drafting, Runs, SPREAD};
use crate::phase::Phase;
use crate::record;
use crate::situation::Situation;
use crate::words::{count, digits, percent, seconds};

check! {
    /// The drafter of speculative decoding takes too much of each step.
    ///
    /// ## Why it costs time
    /// Every round first drafts, then verifies; the target waits for the drafter. A lookup in the prompt should take next to
    /// nothing, a draft model or head between a fiftieth and a quarter of a target step per drafted token. Drafting on the CPU,
    /// on one thread, once per rank, or with a model that is not small enough takes more, and the tokens it wins do not repay it.
    ///
    /// ## How to confirm
    /// Time the drafter per step beside the whole step (a trace, or the engine's own figure): its share, and per drafted
    /// token its ratio to a plain target step. Acceptance is good at the first position, and the verifying pass takes about
    /// what a plain step takes.
    ///
    /// ## Fix
    /// A cheaper drafter (a head instead of a model, lookup on one rank only, more threads), fewer drafts per round, or none.
    ///
    /// ## When this is wrong
    /// Drafts that are hardly ever accepted (`low_acceptance`), drafts too many for their acceptance (`overlong_draft`), or a
    /// verifying pass that costs far more than a plain step (`expensive_verification`).
    id: "expensive_draft", layer: Speculation, rank: 96, phases: [Decode], bound: "logic", validated_on: "report", run: find,
}

/// A drafter below this share of a round cannot be worth a change.
const MIN_SHARE: f64 = 0.10;

/// How dear drafting is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Price {
    /// One draft in target steps.
    per_draft: f64,
    /// The same of a reasonable drafter of this kind, at most.
    reasonable: f64,
    /// Drafting as a share of the round.
    share: f64,
    /// Drafting per round, s.
    draft_s: f64,
    basis: Basis,
    from: &'static str,
}

impl Price {
    /// Share of the round that a reasonable drafter would not take.
    fn excess(&self) -> f64 {
        self.share * (1.0 - self.reasonable / self.per_draft).clamp(0.0, 1.0)
    }
}

fn find(situation: &Situation<'_>) -> Answer {
    if let Some(clear) = drafting::ruled_out(situation) {
        return clear;
    }
    let drafting = Drafting::read(situation.evidence);
    if let Some(clear) = drafting.as_ref().and_then(drafting::refused_at_any_price) {
        return clear;
    }
    let costs = Costs::read(situation, drafting.as_ref());
    let Some((costs, price)) = costs.and_then(|costs| Some((costs, price(situation, &costs)?))) else {
        return Answer::CannotTell(record::draft_time(situation, drafting.as_ref()));
    };
    let is_dear = price.per_draft > price.reasonable && price.share >= MIN_SHARE;
    if is_dear || loses_by_drafting(situation, drafting.as_ref(), &costs, &price) {
        return Answer::Found(Box::new(found(situation, &costs, &price)));
    }
    clear(
        vec![("draft_share", price.share), ("draft_over_step", price.per_draft)],
        format!(
            "drafting takes {} of a round, {} of a target step per draft; up to {} is usual",
            percent(price.share),
            digits(price.per_draft),
            digits(price.reasonable)
        ),
    )
}

/// Measured, else what a round takes beyond a plain step where a roofline makes verifying nearly free.
fn price(situation: &Situation<'_>, costs: &Costs) -> Option<Price> {
    let bounds = drafting::draft_bounds(situation.evidence);
    if let Some((per_draft, draft_s)) = costs.draft_ratio().zip(costs.draft_s) {
        let round_s = costs.round_s.or_else(|| costs.verify_s.or(costs.plain_s).map(|step| step + draft_s))?;
        let share = (draft_s / round_s).clamp(0.0, 1.0);
        return Some(Price { per_draft, reasonable: bounds.draft_hi, share, draft_s, basis: Basis::Derived, from: "drafting timed" });
    }
    let (round_s, plain_s) = costs.round_s.zip(costs.plain_s)?;
    let slower = Runs::read(situation).against_plain().is_some_and(|pair| pair.slowdown() > SPREAD);
    let draft_s = round_s - 1.1 * plain_s;
    (slower && draft_s > 0.0 && drafting::verifies_for_free(situation, costs.per_round)).then(|| Price {
        per_draft: draft_s / (costs.per_round * plain_s),
        reasonable: bounds.draft_hi,
        share: draft_s / round_s,
        draft_s,
        basis: Basis::Bound,
        from: "a round less a plain step; verifying so few tokens is nearly free on this GPU",
    })
}

/// Speculation loses, verifying takes less of the excess than drafting, and no shorter draft would gain.
fn loses_by_drafting(situation: &Situation<'_>, drafting: Option<&Drafting>, costs: &Costs, price: &Price) -> bool {
    let Some((drafting, verify_s, plain_s)) = drafting.and_then(|drafting| Some((drafting, costs.verify_s?, costs.plain_s?))) else {
        return false;
    };
    let loses = Runs::read(situation).against_plain().is_some_and(|pair| pair.slowdown() > SPREAD);
    let is_too_long = drafting::measured_cost(costs).is_some_and(|cost| drafting::best_length(drafting, cost).0 >= 1.0);
    loses && !is_too_long && price.draft_s > (verify_s - plain_s).max(0.0) && price.share >= MIN_SHARE
}

fn found(situation: &Situation<'_>, costs: &Costs, price: &Price) -> Found {
    let decode_s = situation.phase_s(Phase::Decode);
    let excess = price.excess();
    let (lo, mid) = if excess > 0.0 { (0.8 * excess, excess) } else { (0.5 * price.share, price.share) };
    let claim = Claim { phase: Phase::Decode, what: Extent::Fraction { lo, mid, hi: price.share }, basis: price.basis };
    let drafts = count(costs.per_round);
    Found {
        summary: format!(
            "drafting takes {} per round, {} of it: {} of a target step per draft",
            seconds(price.draft_s),
            percent(price.share),
            digits(price.per_draft)
        ),
        sentence: format!(
            "Drafting {drafts} tokens takes {} of each round ({}), {} of a target step per draft where at most {} is usual ({}).",
            percent(price.share),
            seconds(price.draft_s),
            digits(price.per_draft),
            digits(price.reasonable),
            price.from
        ),
        claims: if decode_s > 0.0 { vec![claim] } else { Vec::new() },
        cost: (decode_s > 0.0).then(|| Quantity { value: mid * decode_s, unit: "s".into() }),
        evidence: vec![
            figure("spec.draft_time", price.draft_s, "s", price.from),
            figure("drafting, share of a round", price.share, "ratio", price.from),
            figure("one draft over a target step", price.per_draft, "ratio", price.from),
        ],
        hypotheses: vec![Hypothesis {
            id: String::new(),
            change: of_setting(
                situation,
                "speculative_tokens",
                &drafts,
                &count((costs.per_round / 2.0).floor().max(1.0)),
                "draft with something cheaper (on one rank, more threads, a head instead of a model), or half as many tokens",
            ),
            risk: "fewer or worse drafts: tokens per step fall".into(),
            rollback: format!("{drafts} drafts again"),
            undo_if: "time per token does not fall".into(),
            predictions: vec![
                token_time_falls(situation, 0.5 * lo, price.share, "drafting's share of a round above a usual drafter's"),
                first_token_stays(situation),
            ],
            throughput: String::new(),
        }],
        falsified_by: "drafting timed in a trace at no more than a usual share of a step".into(),
        context_only: false,
        limit: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_usual_drafter_would_not_take_is_excess() {
        let price = Price { per_draft: 0.066, reasonable: 0.02, share: 0.25, draft_s: 0.07, basis: Basis::Derived, from: "" };
        assert!((price.excess() - 0.174).abs() < 0.001);
        assert_eq!(Price { per_draft: 0.01, ..price }.excess(), 0.0);
    }
}
