//! Hypotheses in few words: a setting of this engine or a change outside it, what must move, what must not.

use crate::contract::{Change, Direction, Hypothesis};
use crate::flags::flag;
use crate::predict::Movement;
use crate::situation::Situation;

/// A hypothesis under construction.
#[derive(Clone, Debug)]
pub struct Remedy {
    hypothesis: Hypothesis,
}

impl Remedy {
    /// Sets `key` (without `config.`) to `to`; the flag is spelled as this engine does. It needs a restart.
    pub fn setting(situation: &Situation<'_>, key: &'static str, to: impl Into<String>) -> Self {
        let (name, valid_for) = flag(situation.subject, key);
        let full = format!("config.{key}");
        let from = situation.evidence.settings.get(&full).map(|setting| setting.value.clone()).unwrap_or_default();
        let to = to.into();
        let change = Change {
            instruction: format!("{name} {to}"),
            from_source: situation.setting_origin(&full),
            needs: "restart".into(),
            reload_s: situation.evidence.reload_s,
            valid_for,
            flag: name,
            from,
            to,
        };
        Self::of(change)
    }

    /// A change outside the engine's flags, with a short name for it.
    pub fn outside(what: &str, instruction: impl Into<String>) -> Self {
        let instruction = instruction.into();
        Self::of(Change {
            flag: what.into(),
            from: String::new(),
            to: String::new(),
            from_source: String::new(),
            needs: "none".into(),
            reload_s: None,
            valid_for: String::new(),
            instruction,
        })
    }

    fn of(change: Change) -> Self {
        let rollback = match change.from.as_str() {
            "" if change.to.is_empty() => "undo it".to_string(),
            "" => format!("without {}", change.flag),
            from => format!("{} {from}", change.flag),
        };
        let hypothesis = Hypothesis {
            id: String::new(),
            change,
            risk: String::new(),
            rollback,
            undo_if: String::new(),
            predictions: Vec::new(),
            throughput: String::new(),
        };
        Self { hypothesis }
    }

    /// The imperative in other words than `flag value`.
    #[must_use]
    pub fn saying(mut self, instruction: impl Into<String>) -> Self {
        self.hypothesis.change.instruction = instruction.into();
        self
    }

    /// `restart`, `reload`, `none`.
    #[must_use]
    pub fn needing(mut self, needs: &str) -> Self {
        self.hypothesis.change.needs = needs.into();
        self
    }

    /// What it risks, and when to go back.
    #[must_use]
    pub fn risking(mut self, risk: impl Into<String>, undo_if: impl Into<String>) -> Self {
        self.hypothesis.risk = risk.into();
        self.hypothesis.undo_if = undo_if.into();
        self
    }

    /// The movement that decides.
    #[must_use]
    pub fn moves(mut self, movement: Movement) -> Self {
        self.hypothesis.predictions.push(movement.primary().build());
        self
    }

    /// One that must not get worse.
    #[must_use]
    pub fn guards(mut self, movement: Movement) -> Self {
        self.hypothesis.predictions.push(movement.guard().build());
        self
    }

    /// The finished hypothesis.
    pub fn build(self) -> Hypothesis {
        self.hypothesis
    }
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
