//! Speculative decoding whose drafts are thrown away: each step pays for drafting and verifying and yields one token.
//!
//! It decides from counters alone where they suffice whatever a draft costs. What the drafts cost in time stands between
//! two bounds, unless a run without speculation is there to compare with.

use model::speculation::{CostBounds, Payoff, payoff};
use model::step_law::StepLaw;

use crate::advice::setting_change;
use crate::check::{Answer, Found, Missing, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Change, Direction, Evidence, Hypothesis, Prediction, Quantity};
use crate::drafting::{self, Costs, Drafting, LOW_FIRST, Runs, SPREAD};
use crate::law::CPU_RIDGE_SEQS;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::situation::Situation;
use crate::timeline::intervals;
use crate::words::{count, digits, percent};

check! {
    /// Speculative decoding drafts tokens that are hardly ever accepted.
    ///
    /// ## Why it costs time
    /// Each step drafts k tokens per sequence and lets the model verify all of them besides the one it would have made
    /// anyway. If the drafts are refused the step yields that one token, and drafting and verifying were for nothing.
    /// Steps get longer, so more requests overlap, which makes steps longer still.
    ///
    /// ## How to confirm
    /// Accepted tokens over draft rounds stays near 0 (`vllm:spec_decode_num_accepted_tokens_total` over
    /// `vllm:spec_decode_num_drafts_total`); tokens per step, 1 plus that ratio, stays below 1.05. The same load without
    /// speculation has a shorter time per output token: hand that run over with `--baseline`.
    ///
    /// ## Fix
    /// Serve without speculation. Text that the drafter knows (code edits, summaries that quote the prompt, temperature
    /// near 0) may bring it back: prompt lookup finds nothing in text that repeats nothing, and a draft model must be
    /// trained on what the target says.
    ///
    /// ## When this is wrong
    /// A window with other traffic than usual: acceptance belongs to the workload, not to the server. Where decoding waits
    /// for memory and drafts come from a lookup, refused drafts cost next to nothing, and another layer is to blame.
    id: "low_acceptance", layer: Speculation, rank: 90, phases: [Decode], bound: "logic", validated_on: "recorded", run: find,
}

/// Below this many tokens per step two or more drafts lose whatever they cost: verifying them is never that cheap.
const HARDLY_ANY: f64 = 1.05;
/// Rounds from which the ratio is no chance: at 5 % acceptance 200 rounds expect 10 accepted tokens, and fewer than 1.05
/// tokens per step at a true 1.1 has odds below 1 %.
const MIN_ROUNDS: f64 = 200.0;
/// A bound below this much of decode sizes nothing: the finding is then named without seconds.
const NAMEABLE: f64 = 0.10;
/// Two runs of one load differ by up to a quarter without any change.
const RUN_SPREAD: f64 = 1.25;

fn find(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    let configured = evidence.settings.number("config.speculative_tokens");
    let scraped = evidence.observed("server.ttft").is_some();
    let Some(drafting) = Drafting::read(evidence) else {
        return match (evidence.growth("spec.drafts"), configured) {
            (Some(rounds), _) if rounds <= 0.0 => clear(vec![("drafts", 0.0)], "no draft was made in the window"),
            (None, Some(0.0)) => clear(vec![("speculative_tokens", 0.0)], "speculation is off"),
            (None, None) if evidence.has_timeline() || scraped => {
                clear(vec![("drafts", 0.0)], "the server exports no draft counters: speculation is off")
            }
            _ => Answer::CannotTell(record::scrapes(
                &["spec.drafts", "spec.draft_tokens", "spec.accepted_tokens"],
                "nothing says how many drafts were made and accepted",
                configured.filter(|_| !situation.is_typed()).map(|per_round| most_s(situation, per_round, 1.0)),
            )),
        };
    };
    let Drafting { rounds, per_round, yield_tokens, .. } = drafting;
    let margin = || vec![("tokens_per_step", yield_tokens), ("drafts_per_round", per_round)];
    let plain = plain_ratio(situation);
    if let Some(ratio) = plain.filter(|ratio| *ratio >= 1.0) {
        let because = format!("decoding takes {} of what it takes without speculation", percent(1.0 / ratio));
        return clear([margin(), vec![("decode_without_over_with", ratio)]].concat(), because);
    }
    let enough = rounds == 0.0 || rounds >= MIN_ROUNDS;
    if enough && yield_tokens < HARDLY_ANY && per_round >= 2.0 {
        return Answer::Found(Box::new(found(situation, &drafting, plain)));
    }
    let first = drafting.first_acceptance();
    if drafting::pays_for_few(situation) {
        return clear(margin(), "speculation pays for few streams with this acceptance: the batch is what makes it lose");
    }
    if enough && first < LOW_FIRST && (plain.is_some_and(|ratio| ratio < 1.0 / SPREAD) || loses_by_bounds(situation, &drafting)) {
        return Answer::Found(Box::new(found(situation, &drafting, plain)));
    }
    if situation.is_typed() && first >= 2.0 * LOW_FIRST {
        let because = format!("the first draft of a round is accepted in {} of the rounds: what drafting costs decides", percent(first));
        return clear([margin(), vec![("first_acceptance", first)]].concat(), because);
    }
    if enough && payoff(yield_tokens, per_round, dearest(situation, &drafting)) == Payoff::Pays {
        return clear(margin(), format!("{} tokens per step repay {} drafts whatever they cost", digits(yield_tokens), digits(per_round)));
    }
    Answer::CannotTell(match plain {
        Some(ratio) => which_of_two(situation, &drafting, ratio),
        None => without_speculation(situation, &drafting, enough),
    })
}

/// Slower than without whatever a draft costs, or with what it was measured to cost: `m < v + k c`.
fn loses_by_bounds(situation: &Situation<'_>, drafting: &Drafting) -> bool {
    let bounds = drafting::draft_bounds(situation.evidence);
    let measured = Costs::read(situation, Some(drafting)).and_then(|costs| costs.draft_ratio());
    let draft_lo = measured.map_or(bounds.draft_lo, |draft| draft.max(bounds.draft_lo));
    payoff(drafting.yield_tokens, drafting.per_round, CostBounds { draft_lo, ..bounds }) == Payoff::Loses
}

/// The dearest that drafting and verifying can be here. A lookup is no exception: on a small model it was seen to cost as
/// much as a draft model. All of the slope over sequences may be the drafted tokens'.
fn dearest(situation: &Situation<'_>, drafting: &Drafting) -> CostBounds {
    let verify = situation.law.central().zip(Steps::read(situation, drafting)).map_or(1.0, |(law, steps)| {
        let drafted_s = steps.batch * drafting.per_round * law.b_s / (drafting.per_round + 1.0);
        let now_s = law.step_s(steps.batch, steps.prompt_tokens);
        now_s / (now_s - drafted_s)
    });
    CostBounds { verify, ..CostBounds::DRAFT_MODEL }
}

/// The baseline shows that speculation loses; whether too little is accepted or the drafts are too dear it does not.
fn which_of_two(situation: &Situation<'_>, drafting: &Drafting, ratio: f64) -> Missing {
    record::scrapes(
        &["spec.draft_time"],
        format!(
            "decoding takes {} of what it takes without speculation, but {} tokens per step are not few: dear drafts cost the same, and what a draft takes is not known",
            percent(1.0 / ratio),
            digits(drafting.yield_tokens)
        ),
        (!situation.is_typed()).then(|| (1.0 - ratio).max(0.0) * situation.phase_s(Phase::Decode)),
    )
}

fn without_speculation(situation: &Situation<'_>, drafting: &Drafting, enough: bool) -> Missing {
    let because = if enough {
        format!(
            "{} tokens per step at {} drafts pay or do not, by what a draft costs: it needs a run of the same load without speculation",
            digits(drafting.yield_tokens),
            digits(drafting.per_round)
        )
    } else {
        format!("{} draft rounds are too few to know the acceptance", count(drafting.rounds))
    };
    Missing {
        signals: vec!["--baseline: the same load without speculation".into()],
        because,
        at_most_s: (!situation.is_typed()).then(|| most_s(situation, drafting.per_round, drafting.yield_tokens)),
        record_with: format!("{} (once without speculation, handed over with --baseline)", record::SCRAPES),
        record_cost: "a restart without speculation and two minutes under the same load".into(),
    }
}

/// The most that drafting can cost: every drafted token as dear as a step of its own, and the dearest draft on top.
fn most_s(situation: &Situation<'_>, per_round: f64, yield_tokens: f64) -> f64 {
    situation.phase_s(Phase::Decode) * most_share(per_round, yield_tokens)
}

fn most_share(per_round: f64, yield_tokens: f64) -> f64 {
    (1.0 - yield_tokens / (1.0 + per_round * (1.0 + CostBounds::DRAFT_MODEL.draft_hi))).max(0.0)
}

/// Decode time without speculation over decode time with it, from a baseline arm that drafted nothing under the same
/// arrivals, or for as many users.
fn plain_ratio(situation: &Situation<'_>) -> Option<f64> {
    if situation.is_typed() {
        return Runs::read(situation).against_plain().map(|pair| 1.0 / pair.slowdown());
    }
    let base = situation.baseline.as_deref()?;
    let plain = base.evidence.growth("spec.drafts").unwrap_or(0.0) <= 0.0
        && base.evidence.settings.number("config.speculative_tokens").unwrap_or(0.0) <= 0.0;
    let rates = situation.load.arrivals_per_s? / base.load.arrivals_per_s?;
    // Users who wait for their answer ask more often of the faster one.
    let users = |evidence: &crate::evidence::Evidence| evidence.figures.get("client.concurrency");
    let same_users = users(situation.evidence).zip(users(base.evidence)).is_some_and(|(here, there)| here == there);
    let lengths = situation.load.output_tokens? / base.load.output_tokens?;
    let ratio = base.phase_s(Phase::Decode) * lengths / situation.phase_s(Phase::Decode);
    let same_rate = (1.0 / RUN_SPREAD..=RUN_SPREAD).contains(&rates);
    (plain && (same_rate || same_users) && ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

/// Share of decode that drafting and verifying take, and how it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Wasted {
    lo: f64,
    mid: f64,
    hi: f64,
    basis: Basis,
    from: &'static str,
}

impl Wasted {
    fn new(ends: [f64; 3], basis: Basis, from: &'static str) -> Self {
        let [lo, mid, hi] = ends.map(|share| if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 });
        Self { lo: lo.min(mid), mid, hi: hi.max(mid), basis, from }
    }
}

/// Of a round, the part that it takes beyond a plain step, as far as its drafts were refused: what is lost to them is more
/// than what a run without speculation gains, since the few accepted ones paid some of it back.
fn refused_share(situation: &Situation<'_>, drafting: &Drafting) -> Option<f64> {
    let ratio = Costs::read(situation, Some(drafting)).filter(|_| situation.is_typed())?.round_ratio()?;
    let refused = 1.0 - (drafting.yield_tokens - 1.0) / drafting.per_round;
    Some((refused * (1.0 - 1.0 / ratio)).clamp(0.0, 1.0)).filter(|share| share.is_finite())
}

fn wasted(situation: &Situation<'_>, drafting: &Drafting, plain: Option<f64>) -> Wasted {
    if let Some(ratio) = plain {
        if let Some(refused) = refused_share(situation, drafting).filter(|share| ratio < 1.0 / SPREAD && *share > 1.0 - ratio) {
            return Wasted::new([1.0 - ratio, refused, refused], Basis::Derived, "the run without speculation");
        }
        let spread = if situation.is_typed() { SPREAD } else { RUN_SPREAD };
        let ends = [1.0 - spread * ratio, 1.0 - ratio, 1.0 - ratio / spread];
        return Wasted::new(ends, Basis::Derived, "the run without speculation");
    }
    let draft_lo = drafting::draft_bounds(situation.evidence).draft_lo;
    let least = 1.0 - drafting.yield_tokens / (1.0 + drafting.per_round * draft_lo);
    let by_law = situation.law.central().zip(Steps::read(situation, drafting));
    let Some((law, steps)) = by_law.filter(|(law, steps)| law.step_s(steps.batch, steps.prompt_tokens) > 0.0) else {
        return Wasted::new([least, least, most_share(drafting.per_round, drafting.yield_tokens)], Basis::Bound, "bounds on draft costs");
    };
    let compute_bound = situation.subject.device == "CPU" && steps.batch * (drafting.per_round + 1.0) > CPU_RIDGE_SEQS;
    Wasted::new(
        by_step_law(&law, &steps, drafting, draft_lo, compute_bound),
        Basis::Counterfactual,
        "the step law without drafted tokens, draft costs bounded",
    )
}

/// What a mean step held, and the load behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Steps {
    /// Sequences per step.
    batch: f64,
    /// Prompt tokens per step.
    prompt_tokens: f64,
    /// Arrivals per engine and second, prompt tokens computed and output tokens per request.
    load: Option<(f64, f64, f64)>,
}

impl Steps {
    fn read(situation: &Situation<'_>, drafting: &Drafting) -> Option<Self> {
        let load = &situation.load;
        let (mut steps, mut prompts, mut outputs) = (0.0, 0.0, 0.0);
        for interval in situation.evidence.engines.values().flat_map(intervals) {
            steps += interval.steps;
            prompts += interval.computed_tokens;
            outputs += interval.output_tokens;
        }
        let per_engine = load.arrivals_per_engine();
        (steps > 0.0).then(|| Self {
            batch: outputs / steps / drafting.yield_tokens,
            prompt_tokens: prompts / steps,
            load: per_engine.zip(load.uncached_tokens).zip(load.output_tokens).map(|((rate, uncached), output)| (rate, uncached, output)),
        })
    }
}

/// Low: at the present batch, cheapest draft, and a drafted token costs what a prompt token does if arithmetic sets the
/// step, else nothing. Middle: the slope over sequences is its k + 1 tokens' (half of it below the ridge), at the batch
/// the same arrivals then make. High: the dearest draft besides.
fn by_step_law(law: &StepLaw, steps: &Steps, drafting: &Drafting, draft_lo: f64, compute_bound: bool) -> [f64; 3] {
    let Drafting { per_round: k, yield_tokens, .. } = *drafting;
    let token_s = law.b_s / (k + 1.0);
    let now_s = law.step_s(steps.batch, steps.prompt_tokens);
    let low_s = if compute_bound { token_s.min(law.c_s) } else { 0.0 };
    let mid_s = if compute_bound { token_s } else { 0.5 * token_s };
    let plain = |drafted_s: f64, draft: f64| StepLaw::from_parts(law.a_s / (1.0 + k * draft), law.b_s - k * drafted_s, law.c_s);
    let here = |plain: &StepLaw| plain.step_s(steps.batch, steps.prompt_tokens);
    let settled = |plain: &StepLaw| {
        let (rate, uncached, output) = steps.load?;
        let batch = plain.equilibrium_batch(rate, uncached, output)?.clamp(1.0, steps.batch.max(1.0));
        Some(plain.tpot_s(batch, uncached, output))
    };
    let least = plain(low_s, draft_lo);
    let middle = plain(mid_s, draft_lo);
    let most = plain(token_s, CostBounds::DRAFT_MODEL.draft_hi);
    let share = |step_s: f64| 1.0 - yield_tokens * step_s / now_s;
    [
        share(here(&least)),
        share(settled(&middle).unwrap_or_else(|| here(&middle)).min(here(&middle))),
        share(settled(&most).unwrap_or_else(|| here(&most)).min(here(&most))),
    ]
}

fn found(situation: &Situation<'_>, drafting: &Drafting, plain: Option<f64>) -> Found {
    let wasted = wasted(situation, drafting, plain);
    let decode_s = situation.phase_s(Phase::Decode);
    // Typed counts without a time to compare: what refused drafts cost may be next to nothing or most of the step.
    let is_sized = decode_s > 0.0 && !(situation.is_typed() && wasted.basis == Basis::Bound && wasted.lo < NAMEABLE);
    let yields = format!("{} tokens per step at {} drafts", digits(drafting.yield_tokens), digits(drafting.per_round));
    let accepted = (drafting.yield_tokens - 1.0) / drafting.per_round;
    let claim =
        Claim { phase: Phase::Decode, what: Extent::Fraction { lo: wasted.lo, mid: wasted.mid, hi: wasted.hi }, basis: wasted.basis };
    let cost = if wasted.lo < wasted.mid {
        format!("{} to {} of decode", percent(wasted.lo), percent(wasted.hi))
    } else {
        format!("at least {} of decode", percent(wasted.mid))
    };
    Found {
        summary: format!("{} of the drafted tokens are accepted: {yields}", percent(accepted)),
        sentence: format!(
            "Speculation drafts {} tokens per step and {} are accepted, so a step yields {} tokens; drafting and verifying take {cost} (by {}).",
            digits(drafting.per_round),
            percent(accepted),
            digits(drafting.yield_tokens),
            wasted.from
        ),
        claims: if is_sized { vec![claim] } else { Vec::new() },
        cost: is_sized.then(|| Quantity { value: wasted.mid * decode_s, unit: "s".into() }),
        evidence: rows(drafting, accepted, &wasted, plain),
        hypotheses: vec![hypothesis(situation, drafting, &wasted)],
        falsified_by: "the same load without speculation, and time per token no shorter".into(),
        context_only: false,
        limit: false,
    }
}

fn rows(drafting: &Drafting, accepted: f64, wasted: &Wasted, plain: Option<f64>) -> Vec<Evidence> {
    let from = if drafting.rounds > 0.0 { "scrapes" } else { "typed or logged" };
    let mut rows = vec![
        figure("tokens per target step", drafting.yield_tokens, "token", from),
        figure("drafted tokens per round", drafting.per_round, "token", from),
        figure("accepted of drafted", accepted, "ratio", from),
        figure("drafting and verifying, share of decode", wasted.mid, "ratio", wasted.from),
    ];
    if drafting.rounds > 0.0 {
        rows.push(figure("spec.drafts", drafting.rounds, "count", "scrapes"));
    }
    if let Some(ratio) = plain {
        rows.push(figure("decode without speculation over with", ratio, "ratio", "baseline arm"));
    }
    rows
}

fn hypothesis(situation: &Situation<'_>, drafting: &Drafting, wasted: &Wasted) -> Hypothesis {
    let from = count(drafting.per_round);
    let off = setting_change(situation, "speculative_tokens", "0");
    let instruction = if off.flag.starts_with("--") {
        format!("drop {}: serve without speculative decoding", off.flag)
    } else {
        "serve without speculative decoding".into()
    };
    Hypothesis {
        id: String::new(),
        rollback: format!("speculate {from} tokens again"),
        change: Change { from, instruction, ..off },
        risk: "requests whose text the drafter does know lose what they gained".into(),
        undo_if: "TPOT mean does not fall".into(),
        predictions: predictions(situation, wasted),
        throughput: String::new(),
    }
}

fn predictions(situation: &Situation<'_>, wasted: &Wasted) -> Vec<Prediction> {
    let (signal, tpot_s) = crate::change::token_time(situation);
    let tpot = Movement::new(signal, "time per token", "s", Direction::Down, tpot_s).primary();
    let tpot = match tpot_s {
        // A tenth either way for what two runs differ by; the direction is part of the prediction.
        Some(s) => tpot.to(0.9 * (1.0 - wasted.hi) * s, (1.1 * (1.0 - wasted.lo)).min(1.0) * s, wasted.from),
        None => tpot.refused("time per token was not measured: direction only"),
    };
    let ttft_s = situation.account.first_token_mean_s();
    let ttft = Movement::first_token(situation, Direction::Unchanged).guard();
    let ttft = if ttft_s > 0.0 {
        ttft.to(0.25 * ttft_s, RUN_SPREAD * ttft_s, "prompts are computed as before, in steps that are no longer")
    } else {
        ttft.refused("time to first token was not measured")
    };
    vec![tpot.build(), ttft.build()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE_ACCEPTED: Drafting = Drafting { rounds: 4000.0, per_round: 4.0, yield_tokens: 1.006, positions: Vec::new() };

    fn shares(law: &StepLaw, batch: f64, compute_bound: bool) -> [f64; 3] {
        let steps = Steps { batch, prompt_tokens: 11.7, load: Some((1.43, 208.0, 64.0)) };
        by_step_law(law, &steps, &NONE_ACCEPTED, CostBounds::NGRAM.draft_lo, compute_bound)
    }

    #[test]
    fn the_measured_loss_lies_inside_the_interval() {
        // Recorded pair: decode takes 59 % less without the drafts.
        let [lo, mid, hi] = shares(&StepLaw::from_parts(0.0129, 0.00441, 0.000_674), 3.47, true);
        assert!(0.05 < lo && lo < mid && mid < 0.59 && 0.59 < hi && hi < 1.0, "{lo} {mid} {hi}");
    }

    #[test]
    fn free_verification_and_free_drafts_may_cost_nothing() {
        let [lo, ..] = shares(&StepLaw::from_parts(0.010, 0.000_1, 0.000_03), 8.0, false);
        assert!(lo <= 0.0, "{lo}");
    }

    #[test]
    fn the_most_is_less_than_everything() {
        assert!((most_share(4.0, 1.0) - 5.0 / 6.0).abs() < 1e-9);
        assert_eq!(most_share(4.0, 100.0), 0.0);
    }
}
