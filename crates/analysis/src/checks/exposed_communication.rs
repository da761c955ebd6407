//! Collectives that nothing overlaps carry the step.

mod by_trace;

use crate::arms::load_differs;
use crate::change::{claims_on, cost_of, first_token_stays, hypothesis, of_setting, token_time_falls};
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::contract::Direction;
use crate::contrast::RUN_SPREAD;
use crate::evidence::Evidence;
use crate::pace::slowdown;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::sharding::{Collectives, Sharding, slow_link, without_collectives};
use crate::situation::Situation;
use crate::slower_arm::compare_prompts;
use crate::words::{count, digits, percent, seconds};

check! {
    /// Ranks spend a large part of each step exchanging data, with nothing computed meanwhile.
    ///
    /// ## Why it costs time
    /// Tensor parallelism exchanges activations twice per layer. What compute does not cover adds to every step, and each
    /// further rank makes the computing part smaller and the exchange no shorter: at some number of ranks it is most of the
    /// step. In decode the messages are small and the calls' latency counts; in prefill the bytes do.
    ///
    /// ## How to confirm
    /// Collective kernels over all kernel time in a device trace of a few steps, decode and prefill apart, with the wait for
    /// the last rank (skew) taken out; and the same number times calls against the link's latency and bandwidth.
    ///
    /// ## Fix
    /// Fewer ranks and more replicas, a fused or custom all-reduce, peer access or a faster link, overlap with compute.
    ///
    /// ## When this is wrong
    /// Ten to twenty percent is ordinary for sharded decode. Waiting inside the collective for one slow rank is
    /// `straggler_rank`; a link far below what it can do is `slow_interconnect`.
    id: "exposed_communication", layer: Parallelism, rank: 64, phases: [Prefill, Decode, Communication], bound: "network", validated_on: "trace", run: find,
}

/// Sharded decode spends 10 to 20 % in collectives anyway (attribution, section 6); above a quarter they carry the step.
const CARRIES: f64 = 0.25;
/// Collectives within this multiple of their floor are at the link's limit (attribution, section 6).
const NEAR_FLOOR: f64 = 1.5;
/// Above half of the step it is the sharding that is wrong, at its link's limit or not.
const MOST_OF_STEP: f64 = 0.5;
/// Beyond the floor, a tenth of the step is worth a change.
const WORTH_IT: f64 = 0.10;

fn find(situation: &Situation<'_>) -> Answer {
    if let Some(answer) = by_trace::answer(situation) {
        return answer;
    }
    if let Some(why) = without_collectives(situation) {
        return clear(vec![("devices", 1.0)], why);
    }
    let sharding = Sharding::read(situation.subject, situation.evidence);
    let Some(collectives) = Collectives::read(situation) else {
        if let Some(answer) = by_arm(situation, &sharding) {
            return answer;
        }
        if !situation.is_typed() && sharding.tensor <= 1.0 && !sharding.expert {
            return clear(vec![("tensor_parallel", sharding.tensor)], "no setting shards a layer over devices");
        }
        return Answer::CannotTell(record::unseen(
            situation,
            &["comm.exposed_time", "engine.step_time"],
            "the time in collectives is not known",
            record::COLLECTIVES,
            record::COLLECTIVES_COST,
        ));
    };
    let share = collectives.share();
    let over_floor = collectives.floor_s.map(|floor_s| collectives.exposed_s / floor_s);
    let is_near = over_floor.is_some_and(|ratio| ratio <= NEAR_FLOOR);
    let beyond = collectives.floor_s.map_or(share, |floor_s| (collectives.exposed_s - floor_s).max(0.0) / collectives.step_s);
    let margin = vec![("share", share), ("over_floor", over_floor.unwrap_or(f64::NAN))];
    let sound = share * (1.0 - of_link(situation));
    if sound < share && sound < CARRIES {
        let because = format!("over a sound link collectives would take {} of a step: the link is what is slow", percent(sound));
        return clear(margin, because);
    }
    let carries = share >= CARRIES || (over_floor.is_some_and(|ratio| ratio > NEAR_FLOOR) && beyond >= WORTH_IT);
    if !carries {
        return clear(margin, format!("collectives take {} of a step; up to {} is usual", percent(share), percent(CARRIES)));
    }
    Answer::Found(Box::new(found(situation, &collectives, &sharding, is_near && share < MOST_OF_STEP)))
}

/// The same devices without an exchange in every layer, by stages of layers, are faster: each token is computed by all of
/// them here and by one after the other there, so that computing alone would make it shorter here.
fn by_arm(situation: &Situation<'_>, sharding: &Sharding) -> Option<Answer> {
    let ratio_to = |arm: &Evidence| {
        let by_prompt = || compare_prompts(situation.evidence, arm).map(|contrast| contrast.mine_s / contrast.theirs_s);
        slowdown(situation.evidence, arm).or_else(by_prompt)
    };
    let without = situation.other_arms().filter(|arm| {
        let there = Sharding::read(situation.subject, arm);
        sharding.tensor > 1.0 && there.tensor <= 1.0 && there.pipeline > 1.0 && !load_differs(situation.evidence, arm)
    });
    // Where one device does it all, more than one is the question.
    if situation.other_arms().any(|arm| Sharding::read(situation.subject, arm).is_one_device()) {
        return None;
    }
    let (arm, ratio) = without.filter_map(|arm| Some((arm, ratio_to(arm)?))).max_by(|a, b| a.1.total_cmp(&b.1))?;
    if ratio < RUN_SPREAD {
        return None;
    }
    let prompts = situation.claimable_s(Phase::Prefill) > 0.0 && situation.phase_s(Phase::Decode) <= 0.0;
    let collectives = Collectives {
        phase: if prompts { Phase::Prefill } else { Phase::Decode },
        exposed_s: ratio - 1.0,
        skew_s: 0.0,
        step_s: ratio,
        call_s: None,
        call_bytes: None,
        floor_s: None,
        from: "time beyond the same devices in stages",
    };
    let share = collectives.share();
    let words = format!("the same devices take {} of the time when each holds some of the layers", percent(1.0 - share));
    let found = found(situation, &collectives, sharding, false);
    let mut evidence = vec![figure("time over time in stages", ratio, "ratio", &format!("arm `{}`", arm.run_name))];
    evidence.extend(found.evidence.into_iter().filter(|row| row.unit == "ratio" && row.signal == "share of the step"));
    Some(Answer::Found(Box::new(Found {
        summary: words.clone(),
        sentence: format!("Exchange in every layer costs more than sharing the layers' work saves: {words}."),
        evidence,
        ..found
    })))
}

/// Part of the collectives' time that a sound link would not take: another check's.
fn of_link(situation: &Situation<'_>) -> f64 {
    slow_link(situation).and_then(|slow| slow.excess).map_or(0.0, |excess| excess[1])
}

fn found(situation: &Situation<'_>, collectives: &Collectives, sharding: &Sharding, is_limit: bool) -> Found {
    let share = collectives.share();
    let own = share * (1.0 - of_link(situation));
    let lo = if collectives.from.starts_with("exposed") { 0.9 * own } else { 0.5 * own };
    let floor = collectives.floor_s.map_or(String::new(), |floor_s| format!("; the link's own floor is {}", seconds(floor_s)));
    let ranks = if sharding.tensor > 1.0 { format!("{} ranks", count(sharding.tensor)) } else { "the ranks".into() };
    let step = if collectives.phase == Phase::Prefill { "prefill step" } else { "step" };
    let call = collectives.call_s.map_or(String::new(), |call_s| format!(", {} per call", seconds(call_s)));
    let mut rows = vec![
        figure("comm.exposed_time", collectives.exposed_s, "s", collectives.from),
        figure("share of the step", share, "ratio", collectives.from),
    ];
    rows.extend(collectives.floor_s.map(|floor_s| figure("alpha + bytes / bandwidth", floor_s, "s", "fitted table of the device")));
    rows.extend(collectives.call_s.map(|call_s| figure("comm.call_time", call_s, "s", "typed")));
    Found {
        summary: format!("collectives take {} of a {step} ({}{call})", percent(share), seconds(collectives.exposed_s)),
        sentence: format!(
            "{} of each {step} ({} of {}) is exchange between {ranks} that nothing overlaps{call}{floor}.",
            percent(share),
            seconds(collectives.exposed_s),
            seconds(collectives.step_s)
        ),
        claims: claims_on(situation, collectives.phase, [lo, own, own], Basis::Derived),
        cost: cost_of(situation, collectives.phase, own),
        evidence: rows,
        hypotheses: hypothesis(
            of_setting(
                situation,
                "tensor_parallel",
                &if sharding.tensor > 1.0 { count(sharding.tensor) } else { "now".into() },
                &if sharding.tensor > 1.0 { count((sharding.tensor / 2.0).max(1.0)) } else { "half".into() },
                "half as many ranks per replica where the model fits; else peer access, a fused all-reduce or a faster link",
            ),
            "each rank then holds and reads twice the weights; less room for KV",
            "time per token rises",
            vec![falls(situation, collectives, lo, own), first_token_stays(situation)],
        ),
        falsified_by: format!("a trace in which collectives take less than {} of the step, or overlap with compute", percent(CARRIES)),
        context_only: false,
        limit: is_limit,
    }
}

/// Half the ranks compute twice as much each: what is won is the exchange less that.
fn falls(situation: &Situation<'_>, collectives: &Collectives, lo: f64, hi: f64) -> crate::contract::Prediction {
    let compute = 1.0 - collectives.share();
    let least = (lo - compute).max(0.0);
    if collectives.phase == Phase::Decode {
        return token_time_falls(situation, least, hi, "the exchange goes, and computing doubles at most");
    }
    let ttft_s = situation.account.first_token_mean_s();
    let movement = Movement::first_token(situation, Direction::Down).primary();
    if ttft_s > 0.0 {
        movement.to((1.0 - hi) * ttft_s, (1.0 - least) * ttft_s, "the exchange goes, and computing doubles at most").build()
    } else {
        movement.refused(&format!("direction only: {} of prefill is exchange", digits(hi))).build()
    }
}
