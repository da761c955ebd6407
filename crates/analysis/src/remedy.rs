//! Hypotheses in few words: a setting of this engine or a change outside it, what must move, what must not.

use crate::advice::{Advice, outside_change, setting_change};
use crate::contract::{Change, Direction};
use crate::predict::Movement;
use crate::situation::Situation;

/// Advice to set `key` (without `config.`) to `to`; the way back names the flag.
pub fn setting(situation: &Situation<'_>, key: &'static str, to: impl Into<String>) -> Advice {
    by_flag(setting_change(situation, key, &to.into()))
}

/// Advice outside the engine's flags, with a short name for it.
pub fn outside(what: &str, instruction: impl Into<String>) -> Advice {
    by_flag(outside_change(what, "", "", instruction))
}

fn by_flag(change: Change) -> Advice {
    let rollback = match change.from.as_str() {
        "" if change.to.is_empty() => "undo it".to_string(),
        "" => format!("without {}", change.flag),
        from => format!("{} {from}", change.flag),
    };
    Advice::of(change, rollback)
}

/// Why a guard has no number where no law says how far it moves.
pub const DIRECTION_ONLY: &str = "direction only: what it becomes depends on the load that follows";

/// Throughput of tokens must not fall.
pub fn throughput_stays(situation: &Situation<'_>) -> Movement {
    let now = situation.evidence.figures.typical("client.throughput.output");
    Movement::new("client.throughput.output", "output", "token/s", Direction::Unchanged, now).refused(DIRECTION_ONLY)
}

/// Time per token must not rise: the typed figure, else the server's mean.
pub fn token_time_stays(situation: &Situation<'_>) -> Movement {
    match situation.evidence.mean("server.tpot") {
        Some(tpot_s) => Movement::new("server.tpot.mean", "TPOT mean", "s", Direction::Unchanged, Some(tpot_s)),
        None => Movement::new("client.tpot", "TPOT", "s", Direction::Unchanged, situation.evidence.figures.anywhere("client.tpot")),
    }
    .refused(DIRECTION_ONLY)
}

/// First-token time falls by `seconds` of what it is, give or take a fifth of them.
pub fn first_token_falls(situation: &Situation<'_>, seconds: f64, basis: &str) -> Movement {
    let movement = Movement::first_token(situation, Direction::Down);
    let now = situation.account.first_token_mean_s();
    if now > 0.0 && seconds > 0.0 {
        movement.to((now - 1.2 * seconds).max(0.0), (now - 0.8 * seconds).max(0.0), basis)
    } else {
        movement.refused("the first-token time of this load was not given: direction only")
    }
}
