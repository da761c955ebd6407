//! More tokens are drafted per round than are ever accepted: the last ones are work for nothing.

use crate::change::{first_token_stays, of_setting, token_time_falls};
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Hypothesis, Quantity};
use crate::drafting::{self, Costs, Drafting, LOW_FIRST, Runs, SPREAD};
use crate::phase::Phase;
use crate::record;
use crate::situation::Situation;
use crate::words::{count, digits, percent};

check! {
    /// Each round drafts more tokens than acceptance carries: the last positions are hardly ever accepted.
    ///
    /// ## Why it costs time
    /// A draft counts only if all before it were accepted, so acceptance falls from position to position while each draft costs
    /// the same. Beyond the point where a draft brings less than it costs every further one makes the round longer for nothing.
    ///
    /// ## How to confirm
    /// Acceptance by position (`vllm:spec_decode_num_accepted_tokens_per_pos` over the number of drafts), or time per token at
    /// several numbers of drafts: it has a minimum, and the present number lies beyond it.
    ///
    /// ## Fix
    /// The number of drafts at the minimum. It moves with the text: measure it on the traffic served.
    ///
    /// ## When this is wrong
    /// Where the first position is already refused (`low_acceptance`), or where drafting or verifying is dear at any length.
    id: "overlong_draft", layer: Speculation, rank: 95, phases: [Decode], bound: "logic", validated_on: "report", run: find,
}

/// Two drafts are no length to shorten.
const MIN_DRAFTS: f64 = 3.0;
/// A last draft accepted this often is worth having: then the price, not the length, makes a sweep turn.
const STILL_ACCEPTED: f64 = 0.25;

/// The better length, and what it is worth.
#[derive(Clone, Debug, PartialEq)]
struct Shorter {
    /// Drafts now.
    now: f64,
    /// Drafts to use.
    best: f64,
    /// Share of the time per token that goes, low, middle, high.
    share: [f64; 3],
    basis: Basis,
    from: String,
}

fn find(situation: &Situation<'_>) -> Answer {
    if let Some(clear) = drafting::ruled_out(situation) {
        return clear;
    }
    let drafting = Drafting::read(situation.evidence);
    if let Some(drafting) = drafting.as_ref().filter(|drafting| drafting.first_acceptance() < LOW_FIRST) {
        let because = format!("already the first draft is accepted in {} of the rounds only", percent(drafting.first_acceptance()));
        return clear(vec![("first_acceptance", drafting.first_acceptance())], because);
    }
    let drafts = drafting.as_ref().map(|drafting| drafting.per_round).or_else(|| drafting::configured(situation.evidence));
    if let Some(drafts) = drafts.filter(|drafts| *drafts < MIN_DRAFTS) {
        return clear(vec![("drafts", drafts)], format!("{} drafts per round are not many", count(drafts)));
    }
    let shorter = by_sweep(situation, drafting.as_ref())
        .or_else(|| drafting.as_ref().and_then(|drafting| by_measured_cost(situation, drafting)))
        .or_else(|| drafting.as_ref().and_then(|drafting| by_acceptance(situation, drafting)));
    match (shorter, &drafting) {
        (Some(shorter), _) if shorter.best < shorter.now && shorter.share[1] > 0.0 => {
            Answer::Found(Box::new(found(situation, drafting.as_ref(), &shorter)))
        }
        (Some(shorter), _) => clear(
            vec![("drafts", shorter.now), ("best_drafts", shorter.best)],
            format!("{} drafts are the best tried ({})", count(shorter.now), shorter.from),
        ),
        (None, Some(drafting)) => {
            let last = drafting.accepted_at(drafting.per_round);
            clear(
                vec![("last_acceptance", last), ("drafts", drafting.per_round)],
                format!("the last of {} drafts is still accepted in {} of the rounds", count(drafting.per_round), percent(last)),
            )
        }
        (None, None) => Answer::CannotTell(record::positions(situation)),
    }
}

/// A sweep over the number of drafts shows the minimum itself.
fn by_sweep(situation: &Situation<'_>, drafting: Option<&Drafting>) -> Option<Shorter> {
    let (own, all) = Runs::read(situation).over_drafts()?;
    let now = own.drafts?;
    let speculating: Vec<_> = all.iter().filter(|run| run.drafts.is_some_and(|drafts| drafts > 0.0)).collect();
    let best = all.iter().min_by(|a, b| a.over(&own).unwrap_or(1.0).total_cmp(&b.over(&own).unwrap_or(1.0)))?;
    let ratio = best.over(&own)?;
    if speculating.len() < 2 || best.drafts == Some(0.0) {
        return None;
    }
    let last = drafting.map_or(0.0, |drafting| drafting.accepted_at(now));
    // With a minimum inside the sweep, or at two drafts and more, speculation pays at that length: then the length is wrong
    // and not the price, however often the last draft is accepted.
    let is_inside = all.iter().any(|run| run.drafts < best.drafts && run.over(best).is_some_and(|ratio| ratio > SPREAD));
    let is_length = last < STILL_ACCEPTED || is_inside || best.drafts? >= 2.0;
    let is_longer = now > best.drafts? && ratio < 1.0 / SPREAD && now >= MIN_DRAFTS && is_length;
    let gain = if is_longer { 1.0 - ratio } else { 0.0 };
    let share = [(1.0 - SPREAD * ratio).max(0.0).min(gain), gain, gain];
    let best = if is_longer { best.drafts? } else { now };
    Some(Shorter { now, best, share, basis: Basis::Derived, from: format!("a sweep over {} numbers of drafts", speculating.len()) })
}

/// The run without speculation says what a draft costs, its verifying included; acceptance says where to stop.
fn by_measured_cost(situation: &Situation<'_>, drafting: &Drafting) -> Option<Shorter> {
    let costs = Costs::read(situation, Some(drafting))?;
    // Drafts dearer than a usual drafter's are lost to their price, which no length mends.
    if costs.draft_ratio().is_some_and(|draft| draft > drafting::draft_bounds(situation.evidence).draft_hi) {
        return None;
    }
    let cost = drafting::measured_cost(&costs)?;
    let (best, ratio) = drafting::best_length(drafting, cost);
    let gain = 1.0 - ratio;
    let is_longer =
        best >= 1.0 && best < drafting.per_round && ratio < 1.0 / SPREAD && drafting.accepted_at(drafting.per_round) < STILL_ACCEPTED;
    is_longer.then(|| Shorter {
        now: drafting.per_round,
        best,
        share: [0.5 * gain, gain, gain],
        basis: Basis::Counterfactual,
        from: format!("{} of a plain step per draft by the run without speculation", digits(cost)),
    })
}

/// Positions that bring less than the cheapest drafter costs are wasted at any price; how much depends on the price.
fn by_acceptance(situation: &Situation<'_>, drafting: &Drafting) -> Option<Shorter> {
    let bounds = drafting::draft_bounds(situation.evidence);
    let measured = Costs::read(situation, Some(drafting)).and_then(|costs| costs.draft_ratio()).map(|draft| draft.min(bounds.draft_hi));
    let least = measured.unwrap_or(bounds.draft_lo);
    let most = drafting.per_round.min(64.0) as usize;
    let useful = (1..=most).take_while(|at| drafting.accepted_at(*at as f64) > least).count() as f64;
    let wasted = drafting.per_round - useful;
    // A lookup costs nothing at its lower bound: then only a measured price can accuse.
    if wasted < 1.0 || least <= 0.0 || useful < 1.0 {
        return None;
    }
    let lost = |cost: f64| wasted * cost / (1.0 + drafting.per_round * cost);
    let middle = measured.unwrap_or(0.1);
    let share = [lost(least), lost(middle), lost(measured.unwrap_or(bounds.draft_hi))];
    let basis = if measured.is_some() { Basis::Derived } else { Basis::Bound };
    let from = if measured.is_some() { "acceptance by position, drafting timed" } else { "acceptance by position, draft costs bounded" };
    Some(Shorter { now: drafting.per_round, best: useful, share, basis, from: from.into() })
}

fn found(situation: &Situation<'_>, drafting: Option<&Drafting>, shorter: &Shorter) -> Found {
    let decode_s = situation.phase_s(Phase::Decode);
    let [lo, mid, hi] = shorter.share;
    let claim = Claim { phase: Phase::Decode, what: Extent::Fraction { lo, mid, hi }, basis: shorter.basis };
    let (now, best) = (count(shorter.now), count(shorter.best));
    let yields = drafting.map_or(String::new(), |drafting| {
        let last = drafting.accepted_at(drafting.per_round);
        format!(", a round yields {} tokens and the last draft is accepted in {} of them", digits(drafting.yield_tokens), percent(last))
    });
    let mut rows = vec![
        figure("drafts per round", shorter.now, "token", "settings"),
        figure("drafts that repay themselves", shorter.best, "token", &shorter.from),
        figure("time per token for drafts beyond them", mid, "ratio", &shorter.from),
    ];
    if let Some(drafting) = drafting {
        rows.push(figure("tokens per target step", drafting.yield_tokens, "token", "typed or counted"));
    }
    Found {
        summary: format!("{now} drafts per round where {best} would do: {} of the time per token", percent(mid)),
        sentence: format!(
            "Speculation drafts {now} tokens per round{yields}; beyond {best} they cost {} of the time per token (by {}).",
            percent(mid),
            shorter.from
        ),
        claims: if decode_s > 0.0 { vec![claim] } else { Vec::new() },
        cost: (decode_s > 0.0).then(|| Quantity { value: mid * decode_s, unit: "s".into() }),
        evidence: rows,
        hypotheses: vec![Hypothesis {
            id: String::new(),
            change: of_setting(situation, "speculative_tokens", &now, &best, &format!("draft {best} tokens per round instead of {now}")),
            risk: "text that is easier to draft than this loses a little".into(),
            rollback: format!("{now} drafts again"),
            undo_if: "time per token does not fall".into(),
            predictions: vec![token_time_falls(situation, 0.5 * lo, hi, &shorter.from), first_token_stays(situation)],
            throughput: String::new(),
        }],
        falsified_by: format!("time per token at {best} drafts no shorter than at {now}"),
        context_only: false,
        limit: false,
    }
}
