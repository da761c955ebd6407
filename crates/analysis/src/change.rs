//! What a hypothesis changes, written once: a setting as the engine spells it, or an action outside the engine.

use crate::advice::{Advice, outside_change, setting_change};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Change, Direction, Hypothesis, Prediction};
use crate::phase::Phase;
use crate::predict::Movement;
use crate::situation::Situation;

/// A setting to move from what it is to `to`; without a known value `from` stands.
pub fn of_setting(situation: &Situation<'_>, key: &'static str, from: &str, to: &str, instruction: &str) -> Change {
    let change = setting_change(situation, key, to);
    let is_known = situation.evidence.settings.get(&format!("config.{key}")).is_some();
    let from = if is_known { change.from } else { known(from).into() };
    Change { from, instruction: instruction.into(), ..change }
}

/// A value that is only "as it is now" is not known.
fn known(from: &str) -> &str {
    if from == "now" { "" } else { from }
}

/// Something to do outside the engine's settings.
pub fn of_action(what: &str, from: &str, to: &str, needs: &str, instruction: &str) -> Change {
    let from = known(from);
    let from_source = if from.is_empty() { String::new() } else { "evidence".into() };
    Change { from_source, needs: needs.into(), ..outside_change(what, from, to, instruction) }
}

/// Time per output token, as measured in this arm: signal and seconds.
pub fn token_time(situation: &Situation<'_>) -> (&'static str, Option<f64>) {
    if let Some(mean) = situation.evidence.mean("server.tpot") {
        return ("server.tpot.mean", Some(mean));
    }
    let figures = &situation.evidence.figures;
    let typed = ["client.tpot", "server.tpot", "client.itl", "server.itl", "engine.step_time"];
    let known = typed.into_iter().find_map(|name| Some((name, figures.anywhere(name)?)));
    known.map_or(("client.tpot", None), |(name, seconds)| (name, Some(seconds)))
}

/// The primary prediction of most changes here: time per token falls by between `lo` and `hi` of itself.
pub fn token_time_falls(situation: &Situation<'_>, lo: f64, hi: f64, basis: &str) -> Prediction {
    let (signal, now_s) = token_time(situation);
    let movement = Movement::new(signal, "time per token", "s", Direction::Down, now_s).primary();
    match now_s {
        Some(s) => movement.to((1.0 - hi.clamp(0.0, 1.0)) * s, (1.0 - lo.clamp(0.0, 1.0)) * s, basis).build(),
        None => movement.refused(basis).build(),
    }
}

/// The guard of most changes here: time to first token stays within what two runs differ by.
pub fn first_token_stays(situation: &Situation<'_>) -> Prediction {
    let now_s = situation.account.first_token_mean_s();
    let guard = Movement::first_token(situation, Direction::Unchanged).guard();
    if now_s > 0.0 {
        guard.to(0.0, 1.25 * now_s, "two runs of one load differ by up to a quarter").build()
    } else {
        guard.refused("time to first token was not measured").build()
    }
}

/// One hypothesis of a change, its risk, the way back and what to watch; the first prediction decides.
pub fn hypothesis(change: Change, risk: &str, undo_if: &str, predictions: Vec<Prediction>) -> Vec<Hypothesis> {
    let rollback = format!("{} back to {}", change.flag, change.from);
    vec![Advice::of(change, rollback).risk(risk, undo_if).expect_all(predictions).build()]
}

/// A claim on one phase; none where the phase has no time, so that the finding is named without seconds.
pub fn claims_on(situation: &Situation<'_>, phase: Phase, share: [f64; 3], basis: Basis) -> Vec<Claim> {
    let [lo, mid, hi] = share.map(|share| if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 });
    let what = Extent::Fraction { lo: lo.min(mid), mid, hi: hi.max(mid) };
    if situation.claimable_s(phase) > 0.0 && mid > 0.0 { vec![Claim { phase, what, basis }] } else { Vec::new() }
}

/// Claims on decode and, at the same share, on prefill: for what makes every step longer.
pub fn claims_on_steps(situation: &Situation<'_>, share: [f64; 3], basis: Basis) -> Vec<Claim> {
    let both = [Phase::Prefill, Phase::Decode].into_iter();
    both.filter(|phase| situation.phase_s(*phase) > 0.0).flat_map(|phase| claims_on(situation, phase, share, basis)).collect()
}

/// What a share of decode costs, s per unit of the account.
pub fn cost_of(situation: &Situation<'_>, phase: Phase, share: f64) -> Option<crate::contract::Quantity> {
    let size_s = situation.claimable_s(phase);
    (size_s > 0.0).then(|| crate::contract::Quantity { value: share * size_s, unit: "s".into() })
}
