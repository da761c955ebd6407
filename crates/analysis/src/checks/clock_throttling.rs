//! The clock that governs the bound resource sits below what it could be, and steps take longer by the same ratio.

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::clocks::{self, Clock, Reason};
use crate::contract::{Direction, Evidence};
use crate::device_remedy::{first_token_kept, hypothesis, moves, outside, token_falls};
use crate::device_step::{claims, cost, figure_of, is_cpu};
use crate::evidence::{Evidence as Arm, Point};
use crate::phase::Phase;
use crate::record_device::{CLOCKS, undecided};
use crate::situation::Situation;
use crate::slower_arm::{change_names, compare, compare_prompts, faster_arm};
use crate::words::{digits, percent};

check! {
    /// The device runs at a lower clock than it could, and the work waits for that clock.
    ///
    /// ## Why it costs time
    /// Decoding waits for memory: its steps follow the memory clock. Computing prompts waits for arithmetic: it follows the
    /// clock of the multiprocessors. A governing clock 20 % low makes the phase a quarter longer. The other clock may fall
    /// without any cost.
    ///
    /// ## How to confirm
    /// Record both clocks beside the step time: the governing clock falls and the step gets longer by the same ratio. The
    /// reason (heat, power brake, power limit) tells what to repair; it is not needed as proof.
    ///
    /// ## Fix
    /// Cooling (fan curve, air flow, temperature of the room), the power limit or the supply. Locked clocks show what the
    /// device holds.
    ///
    /// ## When this is wrong
    /// An active power cap while the governing clock has not moved: true, and without cost. Steps that get longer with the
    /// context in the order of a sweep: the context is the cause.
    id: "clock_throttling", layer: Hardware, rank: 11, phases: [Prefill, Decode], bound: "logic", validated_on: "report", run: find,
}

/// A clock is below its best from this share on (attribution, section 6): boost steps alone move it by some percent.
const BELOW: f64 = 0.05;
/// Below this share of its best the multiprocessor clock also holds back reading memory: requests to memory are issued by
/// it, and a device reaches its full bandwidth from about 60 % of its clock on.
const ISSUES_ENOUGH: f64 = 0.6;
/// A clock this far below its nominal one is no matter of boost.
const FAR_BELOW: f64 = 0.30;
/// Devices slow down between 83 and 95 degrees; hotter than this for the whole run is near that point for all of them.
const HOT_C: f64 = 85.0;
/// Words in which people tell arms apart that differ in cooling or power.
const WORDS: [&str; 7] = ["power limit", "power cap", "fans", "cooling", "throttl", "nvidia-smi -pl", "locked clock"];
/// A limit that is active this share of the time is what sets the clock.
const HELD: f64 = 0.9;
/// Time follows a clock from half of the proportion on: the rest is memory, which has a clock of its own.
const FOLLOWS: f64 = 0.5;
/// A slowdown over time below this is not told from noise and mix.
const SLOWER: f64 = 0.10;

/// A governing clock below its best.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slow {
    phase: Phase,
    signal: &'static str,
    clock: Clock,
    /// Share of the phase that the lower clock takes.
    lost: f64,
}

fn find(situation: &Situation<'_>) -> Answer {
    let arm = situation.evidence;
    if is_cpu(situation) && clocks::reasons(arm).is_empty() {
        return clear(Vec::new(), "no accelerator whose clock could be low");
    }
    let reasons = clocks::reasons(arm);
    let clocks = [slow(situation, Phase::Decode), slow(situation, Phase::Prefill)];
    let worst = clocks.iter().flatten().filter(|slow| slow.lost >= BELOW).max_by(|a, b| a.lost.total_cmp(&b.lost));
    if let Some(worst) = worst {
        return by_clock(situation, worst, &reasons);
    }
    if let Some(answer) = by_heat(situation, &reasons).or_else(|| by_sweep(situation, &reasons)) {
        return answer;
    }
    let known = clocks.iter().flatten().max_by(|a, b| a.lost.total_cmp(&b.lost));
    match (known, reasons.first()) {
        (Some(known), Some((reason, share))) => Answer::Found(Box::new(harmless(known, *reason, *share))),
        (Some(known), None) if known.clock.is_nominal || has_figures_over_time(arm) => clear(
            vec![("governing_clock_over_best", known.clock.ratio())],
            format!(
                "{} stands at {} of its best, and no reason for a lower clock was reported",
                known.signal,
                percent(known.clock.ratio())
            ),
        ),
        (None, None) if reports_no_reason(arm) => clear(vec![("throttled_share", 0.0)], "no reason for a lower clock was active"),
        _ => undecided(
            situation,
            &["gpu.sm_clock", "gpu.mem_clock", "gpu.throttle_reasons", "gpu.temperature"],
            "no clock was recorded together with the step time",
            CLOCKS,
        ),
    }
}

fn reports_no_reason(arm: &Arm) -> bool {
    arm.figures.iter().any(|(name, figure)| name.starts_with("gpu.throttle_") && figure.value == 0.0)
}

fn has_figures_over_time(arm: &Arm) -> bool {
    ["gpu.mem_clock.max", "gpu.sm_clock.max"].iter().any(|name| arm.figures.get(name).is_some()) || reports_no_reason(arm)
}

/// The governing clock of a phase, and what it loses.
fn slow(situation: &Situation<'_>, phase: Phase) -> Option<Slow> {
    let name = if phase == Phase::Prefill { "prefill" } else { "decode" };
    let (memory, multiprocessors) = (best_of(situation, "gpu.mem_clock", name), best_of(situation, "gpu.sm_clock", name));
    let sm = |clock: Clock, scale: f64| Slow { phase, signal: "gpu.sm_clock", clock, lost: (1.0 - clock.ratio() / scale).max(0.0) };
    if phase == Phase::Prefill {
        let known = situation.claimable_s(phase) > 0.0 && situation.phase_s(Phase::Decode) < situation.account.total_mean_s();
        return multiprocessors.filter(|_| known).map(|clock| sm(clock, 1.0));
    }
    let memory = memory.map(|clock| Slow { phase, signal: "gpu.mem_clock", clock, lost: 1.0 - clock.ratio() });
    let issuing = multiprocessors.map(|clock| sm(clock, ISSUES_ENOUGH));
    // Without a memory clock a lower multiprocessor clock proves nothing about decoding unless it is very low.
    [memory, issuing]
        .into_iter()
        .flatten()
        .max_by(|a, b| a.lost.total_cmp(&b.lost))
        .filter(|slow| slow.signal == "gpu.mem_clock" || slow.lost > 0.0)
}

/// A clock of this arm, with the best of all arms of its system where no nominal clock is known.
fn best_of(situation: &Situation<'_>, signal: &str, phase: &str) -> Option<Clock> {
    let own = clocks::read(situation.evidence, signal, phase)?;
    if own.is_nominal {
        return Some(own);
    }
    let others = situation.other_arms().filter_map(|arm| clocks::read(arm, signal, phase));
    Some(others.fold(own, |own, other| Clock { best_hz: own.best_hz.max(other.best_hz), ..own }))
}

/// Time here over time in the fastest arm of this system with a better clock.
fn measured_ratio(situation: &Situation<'_>, slow: &Slow) -> Option<f64> {
    let phase = if slow.phase == Phase::Prefill { "prefill" } else { "decode" };
    let faster = |arm: &&Arm| clocks::read(arm, slow.signal, phase).is_some_and(|clock| clock.now_hz > slow.clock.now_hz * (1.0 + BELOW));
    let here = situation.evidence;
    let compared = |arm| if slow.phase == Phase::Prefill { compare_prompts(here, arm) } else { compare(here, arm) };
    let ratios = situation.other_arms().filter(faster).filter_map(compared);
    ratios.map(|contrast| contrast.mine_s / contrast.theirs_s).reduce(f64::max)
}

fn by_clock(situation: &Situation<'_>, slow: &Slow, reasons: &[(Reason, Option<f64>)]) -> Answer {
    let expected = 1.0 / (1.0 - slow.lost);
    let margin = vec![("governing_clock_over_best", slow.clock.ratio())];
    let measured = measured_ratio(situation, slow);
    if let Some(ratio) = measured.filter(|ratio| *ratio < 1.0 + 0.3 * (expected - 1.0)) {
        return clear(
            margin,
            format!(
                "steps take {} times as long as with the better clock, where the clock alone would make it {}",
                digits(ratio),
                digits(expected)
            ),
        );
    }
    let lost = measured.map_or(slow.lost, |ratio| (1.0 - 1.0 / ratio).min(slow.lost));
    // A nominal clock is a maximum that few boards hold: without a reason or a second arm half of it is sure at best.
    let (lo, basis) = match measured {
        Some(_) => (0.8 * lost, Basis::Typed),
        // No board boosts that far above what it holds.
        None if reasons.is_empty() && lost >= FAR_BELOW => (0.3 * lost, Basis::Bound),
        None if reasons.is_empty() => (0.0, Basis::Bound),
        None => (0.5 * lost, Basis::Counterfactual),
    };
    let reason = reasons.first().map_or("an unknown reason", |(reason, _)| reason.as_str());
    let mut rows = vec![
        figure(slow.signal, slow.clock.now_hz, "Hz", "counter"),
        figure("its best", slow.clock.best_hz, "Hz", if slow.clock.is_nominal { "nominal clock" } else { "highest seen" }),
    ];
    rows.extend(measured.map(|ratio| figure("time over time at the better clock", ratio, "factor", "other arm")));
    rows.extend(heat(situation.evidence));
    let ends = [lo, lost, slow.lost.max(lost)];
    Answer::Found(Box::new(Found {
        summary: format!("{} at {} of its best, for {reason}", slow.signal, percent(slow.clock.ratio())),
        sentence: format!(
            "{} runs at {} MHz where {} are possible, for {reason}: {} of {} goes to the lower clock.",
            slow.signal,
            digits(slow.clock.now_hz * 1e-6),
            digits(slow.clock.best_hz * 1e-6),
            percent(lost),
            slow.phase.as_str()
        ),
        claims: claims(situation, slow.phase, ends, basis),
        cost: cost(situation, slow.phase, lost),
        evidence: rows,
        hypotheses: vec![cooling(situation, slow.signal, Some(slow.clock), ends, reasons)],
        falsified_by: "the clock back at its best and the step as long as before".into(),
        context_only: false,
        limit: false,
    }))
}

fn heat(arm: &Arm) -> Vec<Evidence> {
    let known = [("gpu.temperature", "degC"), ("gpu.power", "W"), ("gpu.power_limit", "W"), ("gpu.fan_speed", "rpm")];
    let typical = |name: &str| figure_of(&arm.figures, name).or_else(|| arm.figures.highest(name)).or_else(|| arm.figures.lowest(name));
    known.into_iter().filter_map(|(name, unit)| Some(figure(name, typical(name)?, unit, "counter"))).collect()
}

/// Rows at several power limits or locked clocks: the time of a token follows the clock, so the clock governs, whatever
/// would bound this work as a rule; and a limit holds the clock all the time.
fn by_sweep(situation: &Situation<'_>, reasons: &[(Reason, Option<f64>)]) -> Option<Answer> {
    let arm = situation.evidence;
    let token = |row: &Point| ["client.tpot", "server.tpot", "client.itl", "engine.step_time"].iter().find_map(|name| row.typical(name));
    let is_of_power = |row: &&Point| row.typical("gpu.power_limit").is_some() && row.typical("client.concurrency").is_none();
    let mut rows: Vec<(f64, f64)> =
        arm.figures.points().filter(is_of_power).filter_map(|row| Some((row.typical("gpu.sm_clock")?, token(row)?))).collect();
    rows.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (slow, fast) = (rows.first().copied()?, rows.last().copied()?);
    let (clocks, times) = (fast.0 / slow.0, slow.1 / fast.1);
    let held = reasons.iter().any(|(reason, share)| *reason == Reason::Power && share.is_none_or(|share| share >= HELD));
    let follows = clocks >= 1.0 + BELOW && times.ln() >= FOLLOWS * clocks.ln();
    if !(held && follows) {
        return None;
    }
    let lost = 1.0 - fast.1 / slow.1;
    let ends = [0.8 * lost, lost, 1.0 - 1.0 / clocks];
    let mut evidence = vec![
        figure("clock at the lowest limit", slow.0, "Hz", "sweep"),
        figure("clock at the highest limit", fast.0, "Hz", "sweep"),
        figure("time per token at the lowest limit", slow.1, "s", "sweep"),
        figure("time per token at the highest limit", fast.1, "s", "sweep"),
    ];
    evidence.extend(heat(arm));
    let words = format!(
        "a clock {} higher makes a token {} shorter, and the power limit holds it down {} of the time",
        percent(clocks - 1.0),
        percent(lost),
        percent(reasons.iter().filter_map(|(_, share)| *share).fold(0.0, f64::max))
    );
    Some(Answer::Found(Box::new(Found {
        summary: words.clone(),
        sentence: format!(
            "Decoding follows the clock, which the power limit sets: {words}. How much a higher limit brings, the rows do not show."
        ),
        // Beyond the highest row nothing was measured, so the rows size the cost only where they span it.
        claims: if lost >= SLOWER { claims(situation, Phase::Decode, ends, Basis::Typed) } else { Vec::new() },
        cost: cost(situation, Phase::Decode, lost),
        evidence,
        hypotheses: vec![cooling(situation, "gpu.sm_clock", None, ends, reasons)],
        falsified_by: "a higher power limit with a higher clock, and tokens as slow as before".into(),
        context_only: false,
        limit: false,
    })))
}

/// No clock was recorded, but the same work got slower while the device is hot.
fn by_heat(situation: &Situation<'_>, reasons: &[(Reason, Option<f64>)]) -> Option<Answer> {
    let arm = situation.evidence;
    let known = clocks::read(arm, "gpu.mem_clock", "decode").is_some() && clocks::read(arm, "gpu.sm_clock", "decode").is_some();
    let hottest = arm.figures.lowest("gpu.temperature").or_else(|| arm.figures.highest("gpu.temperature"));
    let by_reason =
        reasons.iter().any(|(reason, share)| matches!(reason, Reason::Heat | Reason::Brake) && share.is_none_or(|share| share >= 0.1));
    let hot = hottest.is_some_and(|celsius| celsius >= HOT_C) || by_reason;
    let told = || faster_arm(situation, |here, there| change_names(here, there, &WORDS)).is_some();
    if known || !(hot || told()) {
        return None;
    }
    let cooler = situation.other_arms().chain(situation.baseline.as_ref().map(|base| base.evidence)).filter(|other| {
        // Only what is typed of both can differ; the same prompt some minutes later differs in nothing.
        let same_settings =
            ["config.speculative_tokens", "config.max_num_seqs", "config.enforce_eager", "config.quantization"].iter().all(|key| {
                other.settings.get(key).is_none()
                    || arm.settings.get(key).is_none()
                    || other.settings.number(key) == arm.settings.number(key)
            });
        same_settings && other.figures.highest("gpu.temperature").is_none_or(|celsius| hottest.is_none_or(|here| celsius < here))
    });
    let fastest = cooler.filter_map(|other| compare(arm, other)).max_by(|a, b| a.excess().total_cmp(&b.excess()));
    let fastest = fastest.or_else(|| faster_arm(situation, |here, there| change_names(here, there, &WORDS)));
    let Some(fastest) = fastest else {
        return by_reason.then(|| {
            undecided(
                situation,
                &["gpu.sm_clock", "gpu.mem_clock"],
                "slowed down for heat or supply, but neither a clock nor a cooler run says by how much",
                CLOCKS,
            )
        });
    };
    let lost = fastest.excess();
    if lost < SLOWER {
        return Some(clear(vec![("slower_when_hot", lost)], format!("hot, but only {} slower than when cool", percent(lost))));
    }
    let ends = [0.5 * lost, lost, lost];
    let mut rows = vec![
        figure(fastest.signal, fastest.mine_s, "s", "this arm"),
        figure(fastest.signal, fastest.theirs_s, "s", &format!("arm `{}`", fastest.other.run_name)),
    ];
    rows.extend(heat(arm));
    let reason = reasons.first().map_or("heat", |(reason, _)| reason.as_str());
    Some(Answer::Found(Box::new(Found {
        summary: format!("the same work takes {} times as long on the hot device", digits(fastest.mine_s / fastest.theirs_s)),
        sentence: format!(
            "The same work takes {} times as long once the device is {}: clocks fall for {reason}; no clock was recorded.",
            digits(fastest.mine_s / fastest.theirs_s),
            hottest.map_or("slowed down".to_string(), |celsius| format!("at {} degrees", digits(celsius)))
        ),
        claims: [Phase::Decode, Phase::Prefill]
            .into_iter()
            .flat_map(|phase| claims(situation, phase, ends, Basis::Bound))
            .take(1)
            .collect(),
        cost: cost(situation, Phase::Decode, lost),
        evidence: rows,
        hypotheses: vec![cooling(situation, "gpu.sm_clock", None, ends, reasons)],
        falsified_by: "clocks at their nominal value while the work is slow, or as slow with full cooling".into(),
        context_only: false,
        limit: false,
    })))
}

fn cooling(
    situation: &Situation<'_>,
    signal: &str,
    clock: Option<Clock>,
    ends: [f64; 3],
    reasons: &[(Reason, Option<f64>)],
) -> crate::contract::Hypothesis {
    let power = reasons.first().is_some_and(|(reason, _)| *reason != Reason::Heat);
    let change = if power {
        outside(
            "power limit and supply",
            "the board's default",
            "none",
            "raise the power limit (nvidia-smi -pl) or repair the supply, then watch the governing clock",
        )
    } else {
        outside(
            "cooling",
            "fans fixed at maximum",
            "none",
            "fix the fans at maximum and clear the air flow, then watch the governing clock",
        )
    };
    hypothesis(
        change,
        "noise, heat, power; none to the answers",
        "the clock rises and the step does not fall with it",
        vec![
            token_falls(situation, ends, "step time follows the governing clock"),
            moves(
                signal,
                "governing clock",
                "Hz",
                Direction::Up,
                clock.map(|clock| clock.now_hz),
                clock.map(|clock| [0.95 * clock.best_hz, 1.02 * clock.best_hz]),
                "back to its best",
            ),
            first_token_kept(situation),
        ],
    )
}

/// A reason was reported, but the governing clock has not moved: true, and without cost.
fn harmless(known: &Slow, reason: Reason, share: Option<f64>) -> Found {
    let active = share.map_or(String::new(), |share| format!(" in {} of the samples", percent(share)));
    Found {
        summary: format!(
            "{} is reported{active}, but the governing clock ({}) stands at {} of its best",
            reason.as_str(),
            known.signal,
            percent(known.clock.ratio())
        ),
        sentence: format!(
            "{} is active{active}; the clock that governs {} has not moved, so it costs nothing there.",
            reason.as_str(),
            known.phase.as_str()
        ),
        evidence: vec![
            figure(known.signal, known.clock.now_hz, "Hz", "counter"),
            figure("its best", known.clock.best_hz, "Hz", if known.clock.is_nominal { "nominal clock" } else { "highest seen" }),
        ],
        falsified_by: "step time that falls when the cap is raised".into(),
        context_only: true,
        ..Found::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_memory_clock_is_half_the_decode_time() {
        let clock = Clock { now_hz: 1.3e9, best_hz: 2.6e9, is_nominal: true };
        assert!((1.0 - clock.ratio() - 0.5).abs() < 1e-9);
        let fast = Clock { now_hz: 2.7e9, ..clock };
        assert!((fast.ratio() - 1.0).abs() < 1e-9, "a clock above its nominal one loses nothing");
    }
}
