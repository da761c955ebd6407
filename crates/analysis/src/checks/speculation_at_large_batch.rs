//! Speculation that helps few streams and hurts many.

use crate::change::{first_token_stays, of_setting, token_time_falls};
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Hypothesis, Quantity};
use crate::drafting::{self, Compared, Drafting, LOW_FIRST, Runs, SPREAD};
use crate::phase::Phase;
use crate::record;
use crate::situation::Situation;
use crate::words::{count, digits, percent};

check! {
    /// Speculative decoding is left on at a batch size at which verifying its drafts is no longer free.
    ///
    /// ## Why it costs time
    /// A step over few sequences waits for memory, so verifying k more tokens of each costs hardly anything. With B
    /// sequences the step holds B x (k + 1) tokens; past the ridge of the device arithmetic sets the time and every refused
    /// draft is paid in full, while other requests wait in the same step.
    ///
    /// ## How to confirm
    /// The same load at several concurrencies with and without speculation: with it, time per token is shorter for few
    /// streams and longer for many.
    ///
    /// ## Fix
    /// Off, or fewer drafts, above the concurrency where both are equal.
    ///
    /// ## When this is wrong
    /// Where speculation loses for one stream already, acceptance or price is to blame, not the batch.
    id: "speculation_at_large_batch", layer: Speculation, rank: 98, phases: [Decode], bound: "compute", validated_on: "typed", run: find,
}

fn find(situation: &Situation<'_>) -> Answer {
    if let Some(why) = drafting::nothing_drafted(situation) {
        return clear(vec![("drafts", 0.0)], why);
    }
    let drafting = Drafting::read(situation.evidence);
    let pairs = Runs::read(situation).pairs();
    let loaded: Vec<&Compared> = pairs.iter().filter(|pair| pair.with.load > 0.0).collect();
    if let [few, .., many] = loaded.as_slice() {
        return by_sweep(situation, few, many);
    }
    let hardly = drafting.as_ref().filter(|drafting| drafting::hardly_any(drafting));
    if let Some(drafting) = hardly {
        let because = format!("{} tokens per step: refused drafts lose at any batch", digits(drafting.yield_tokens));
        return clear(vec![("tokens_per_step", drafting.yield_tokens)], because);
    }
    let Some(pair) = loaded.first() else {
        return Answer::CannotTell(record::plain_arm(situation, drafting.as_ref()));
    };
    at_one_load(situation, drafting.as_ref(), pair)
}

fn by_sweep(situation: &Situation<'_>, few: &Compared, many: &Compared) -> Answer {
    let margin = vec![("slowdown_at_few", few.slowdown()), ("slowdown_at_many", many.slowdown())];
    if many.slowdown() <= SPREAD {
        let because =
            format!("at {} streams speculation takes {} of plain decoding's time", count(many.with.load), percent(many.slowdown()));
        return clear(margin, because);
    }
    if few.slowdown() > SPREAD {
        let because = format!("speculation loses at {} already: the batch is not what makes it lose", count(few.with.load));
        return clear(margin, because);
    }
    Answer::Found(Box::new(found(situation, Some(few), many, Basis::Derived)))
}

/// One load only: past the ridge, with drafts that would pay for few streams.
fn at_one_load(situation: &Situation<'_>, drafting: Option<&Drafting>, pair: &Compared) -> Answer {
    let drafts = pair.with.drafts.or(drafting.map(|drafting| drafting.per_round)).unwrap_or(1.0);
    let tokens = pair.with.streams * (drafts + 1.0);
    let ridge = drafting::ridge_tokens(situation);
    let margin = vec![("slowdown", pair.slowdown()), ("tokens_per_step", tokens), ("ridge_tokens", ridge)];
    if pair.slowdown() <= SPREAD {
        return clear(margin, format!("speculation takes {} of plain decoding's time", percent(pair.slowdown())));
    }
    if tokens < ridge {
        return clear(
            margin,
            format!("{} tokens per step are below the ridge of {}: verifying waits for memory", count(tokens), count(ridge)),
        );
    }
    match drafting {
        Some(drafting) if drafting.first_acceptance() >= LOW_FIRST => Answer::Found(Box::new(found(situation, None, pair, Basis::Bound))),
        _ => Answer::CannotTell(record::plain_arm(situation, drafting)),
    }
}

/// Load at which both are equally fast, between the two measured, on a logarithmic scale as batches are.
fn break_even(few: &Compared, many: &Compared) -> f64 {
    let (low, high) = (few.slowdown().ln(), many.slowdown().ln());
    let part = if high > low { (-low / (high - low)).clamp(0.0, 1.0) } else { 0.5 };
    (few.with.load.ln() + part * (many.with.load / few.with.load).ln()).exp()
}

fn found(situation: &Situation<'_>, few: Option<&Compared>, many: &Compared, basis: Basis) -> Found {
    let decode_s = situation.phase_s(Phase::Decode);
    let mid = 1.0 - 1.0 / many.slowdown();
    let lo = (1.0 - SPREAD / many.slowdown()).max(0.0);
    let claim = Claim { phase: Phase::Decode, what: Extent::Fraction { lo, mid, hi: mid }, basis };
    let load = count(many.with.load);
    let at_few = few.map_or(String::new(), |few| {
        format!("; at {} it takes {} of plain decoding's time", count(few.with.load), percent(few.slowdown()))
    });
    let limit = few.map_or(many.with.load / 2.0, |few| break_even(few, many)).max(1.0);
    let drafts = many.with.drafts.unwrap_or(1.0);
    let mut rows = vec![figure("time per token with over without speculation", many.slowdown(), "ratio", &format!("at {load}"))];
    rows.extend(few.map(|few| figure("the same", few.slowdown(), "ratio", &format!("at {}", count(few.with.load)))));
    Found {
        summary: format!("at {load} streams speculation takes {} of plain decoding's time{at_few}", percent(many.slowdown())),
        sentence: format!(
            "At {load} streams speculation makes each token take {} of what it takes without{at_few}: verifying the drafts of so many leaves the memory-bound region.",
            percent(many.slowdown())
        ),
        claims: if decode_s > 0.0 { vec![claim] } else { Vec::new() },
        cost: (decode_s > 0.0).then(|| Quantity { value: mid * decode_s, unit: "s".into() }),
        evidence: rows,
        hypotheses: vec![Hypothesis {
            id: String::new(),
            change: of_setting(
                situation,
                "speculative_tokens",
                &count(drafts),
                "0",
                &format!("serve without speculation above about {} streams, or send them to a replica without it", count(limit)),
            ),
            risk: "quiet hours lose what speculation gains for few streams".into(),
            rollback: "speculation on again".into(),
            undo_if: "time per token does not fall at this concurrency".into(),
            predictions: vec![
                token_time_falls(situation, lo, mid, "the run without speculation at this load"),
                first_token_stays(situation),
            ],
            throughput: String::new(),
        }],
        falsified_by: format!("the same {load} streams without speculation, and time per token no shorter"),
        context_only: false,
        limit: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drafting::Run;

    fn pair(load: f64, with_s: f64, plain_s: f64) -> Compared {
        let run = |drafts: f64, token_s: f64| Run {
            drafts: Some(drafts),
            load,
            streams: load,
            token_s: Some(token_s),
            is_here: true,
            ..Run::default()
        };
        Compared { with: run(4.0, with_s), plain: run(0.0, plain_s) }
    }

    #[test]
    fn the_turning_point_lies_between() {
        let limit = break_even(&pair(1.0, 0.006, 0.010), &pair(64.0, 0.030, 0.020));
        assert!((8.0..16.0).contains(&limit), "{limit}");
    }
}
