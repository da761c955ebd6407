//! What to change about device and kernels, and what must then move: the parts such hypotheses have in common.

use crate::account::AccountUnit;
use crate::advice::{Advice, outside_change, setting_change};
use crate::contract::{Change, Direction, Hypothesis, Prediction};
use crate::device_step::figure_of;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::situation::Situation;

/// A change of an engine's setting; without a value the flag is dropped.
pub fn setting(situation: &Situation<'_>, key: &'static str, to: &str) -> Change {
    let change = setting_change(situation, key, to);
    if to.is_empty() { Change { instruction: format!("drop {}", change.flag), ..change } } else { change }
}

/// A change outside the engine's flags.
pub fn outside(name: &str, to: &str, needs: &str, instruction: impl Into<String>) -> Change {
    Change { needs: needs.into(), ..outside_change(name, "", to, instruction) }
}

/// A change with its risk and predictions.
pub fn hypothesis(change: Change, risk: &str, undo_if: &str, predictions: Vec<Prediction>) -> Hypothesis {
    let rollback = if change.from.is_empty() { "take the change back".to_string() } else { format!("{} {}", change.flag, change.from) };
    Advice::of(change, rollback).risk(risk, undo_if).expect_all(predictions).build()
}

/// Names of the time of a token at the vantage there is, and its value, s.
fn token(situation: &Situation<'_>) -> (&'static str, &'static str, Option<f64>) {
    if matches!(situation.account.unit, AccountUnit::Step | AccountUnit::DeviceStep) {
        return ("engine.step_time", "step", Some(situation.account.total_mean_s()));
    }
    if situation.account.unit == AccountUnit::Device {
        return ("engine.step_time", "step", None);
    }
    if let Some(tpot) = situation.evidence.mean("server.tpot") {
        return ("server.tpot.mean", "TPOT mean", Some(tpot));
    }
    let known =
        [("client.tpot", "TPOT"), ("server.tpot", "TPOT"), ("client.itl", "ITL"), ("server.itl", "ITL"), ("engine.step_time", "step")];
    let found = known.into_iter().find_map(|(signal, label)| Some((signal, label, figure_of(&situation.evidence.figures, signal)?)));
    found.map_or(("server.tpot", "TPOT", None), |(signal, label, value)| (signal, label, Some(value)))
}

/// Time per token falls by the share claimed, `[lo, mid, hi]`, 10 % either way for what two runs differ by.
pub fn token_falls(situation: &Situation<'_>, ends: [f64; 3], basis: &str) -> Prediction {
    let (signal, label, from) = token(situation);
    let movement = Movement::new(signal, label, "s", Direction::Down, from);
    match from.filter(|_| ends[2] > 0.0) {
        Some(now) => movement.to(0.9 * (1.0 - ends[2]).max(0.0) * now, (1.1 * (1.0 - ends[0])).min(1.0) * now, basis),
        None => movement.refused("no time per token beside it: direction only"),
    }
    .primary()
    .build()
}

/// Time per token must not rise.
pub fn token_kept(situation: &Situation<'_>) -> Prediction {
    let (signal, label, from) = token(situation);
    let movement = Movement::new(signal, label, "s", Direction::Unchanged, from);
    match from {
        Some(now) => movement.to(0.0, 1.1 * now, "nothing on the token's path gets longer"),
        None => movement.refused("time per token was not measured"),
    }
    .guard()
    .build()
}

/// Time to first token must not rise.
pub fn first_token_kept(situation: &Situation<'_>) -> Prediction {
    if situation.account.is_of_devices() {
        let compute_s = Some(situation.phase_s(Phase::Compute)).filter(|_| situation.account.unit == AccountUnit::DeviceStep);
        let movement = Movement::new("kernel.time", "kernels per step", "s", Direction::Unchanged, compute_s).guard();
        let movement = match compute_s {
            Some(now_s) => movement.to(0.0, 1.1 * now_s, "the same work is computed"),
            None => movement.refused("no steps were recorded: compared per work that repeats"),
        };
        return movement.build();
    }
    let now = situation.account.first_token_mean_s();
    let movement = Movement::first_token(situation, Direction::Unchanged).guard();
    let movement = if now > 0.0 {
        movement.to(0.0, 1.25 * now, "prompts are computed as before")
    } else {
        movement.refused("time to first token was not measured")
    };
    movement.build()
}

/// Another signal that moves in a direction, to an interval where one can be said.
pub fn moves(
    signal: &str,
    label: &str,
    unit: &str,
    direction: Direction,
    from: Option<f64>,
    to: Option<[f64; 2]>,
    basis: &str,
) -> Prediction {
    let movement = Movement::new(signal, label, unit, direction, from);
    match to {
        Some([lo, hi]) => movement.to(lo, hi, basis),
        None => movement.refused(basis),
    }
    .build()
}
