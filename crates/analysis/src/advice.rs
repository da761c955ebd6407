//! Advice under construction: one change, what it risks, how to go back, and what must then move.

use crate::contract::{Change, Hypothesis, Prediction};
use crate::flags::{self, flag};
use crate::predict::Movement;
use crate::situation::Situation;
use crate::whatif;

/// A change of an engine's setting (`max_num_seqs`) to `to`, spelled as this engine spells it. It needs a restart.
pub fn setting_change(situation: &Situation<'_>, key: &'static str, to: &str) -> Change {
    let (name, valid_for) = flag(situation.subject, key);
    let lever = whatif::setting_of(key, to);
    let to = flags::value(situation.subject, key, to);
    let config = format!("config.{key}");
    let now = situation.evidence.settings.get(&config);
    Change {
        instruction: format!("{name} {to}"),
        from: now.map(|setting| setting.value.clone()).unwrap_or_default(),
        from_source: situation.setting_origin(&config),
        flag: name,
        lever,
        to: to.into(),
        needs: "restart".into(),
        reload_s: situation.evidence.reload_s,
        valid_for,
    }
}

/// A change outside the engine: a short name for it, its value now and then, and the imperative on one line.
pub fn outside_change(what: &str, from: &str, to: &str, instruction: impl Into<String>) -> Change {
    Change {
        flag: what.into(),
        from: from.into(),
        to: to.into(),
        from_source: String::new(),
        needs: "none".into(),
        reload_s: None,
        valid_for: String::new(),
        instruction: instruction.into(),
        lever: String::new(),
    }
}

/// A hypothesis under construction.
#[derive(Clone, Debug)]
pub struct Advice {
    hypothesis: Hypothesis,
}

impl Advice {
    /// [`setting_change`].
    pub fn setting(situation: &Situation<'_>, key: &'static str, to: &str) -> Self {
        Self::set_back(setting_change(situation, key, to))
    }

    /// [`outside_change`].
    pub fn outside(what: &str, from: &str, to: &str, instruction: &str) -> Self {
        Self::set_back(outside_change(what, from, to, instruction))
    }

    fn set_back(change: Change) -> Self {
        let rollback = if change.from.is_empty() { "take the change back".into() } else { format!("set it back to {}", change.from) };
        Self::of(change, rollback)
    }

    /// A change and how to go back.
    pub fn of(change: Change, rollback: String) -> Self {
        Self {
            hypothesis: Hypothesis {
                id: String::new(),
                change,
                risk: String::new(),
                rollback,
                undo_if: String::new(),
                predictions: Vec::new(),
                throughput: String::new(),
            },
        }
    }

    /// The imperative in other words than `flag value`.
    #[must_use]
    pub fn saying(mut self, instruction: impl Into<String>) -> Self {
        self.hypothesis.change.instruction = instruction.into();
        self
    }

    /// `restart`, `reload` or `none`.
    #[must_use]
    pub fn needs(mut self, needs: &str) -> Self {
        self.hypothesis.change.needs = needs.into();
        self
    }

    /// The same as a setting of `inferoscope whatif`, for what is no flag of the engine.
    #[must_use]
    pub fn lever(mut self, setting: impl Into<String>) -> Self {
        self.hypothesis.change.lever = setting.into();
        self
    }

    /// What it risks, and the sign by which to undo it.
    #[must_use]
    pub fn risk(mut self, risk: impl Into<String>, undo_if: impl Into<String>) -> Self {
        self.hypothesis.risk = risk.into();
        self.hypothesis.undo_if = undo_if.into();
        self
    }

    /// One movement more.
    #[must_use]
    pub fn expect(mut self, prediction: Prediction) -> Self {
        self.hypothesis.predictions.push(prediction);
        self
    }

    /// The movement that decides.
    #[must_use]
    pub fn moves(self, movement: Movement) -> Self {
        self.expect(movement.primary().build())
    }

    /// One that must not get worse.
    #[must_use]
    pub fn guards(self, movement: Movement) -> Self {
        self.expect(movement.guard().build())
    }

    /// What must move and what must not, the first of them deciding.
    #[must_use]
    pub fn expect_all(mut self, predictions: Vec<Prediction>) -> Self {
        self.hypothesis.predictions.extend(predictions);
        self
    }

    /// Consequence for throughput.
    #[must_use]
    pub fn throughput(mut self, words: &str) -> Self {
        self.hypothesis.throughput = words.into();
        self
    }

    /// The finished hypothesis.
    pub fn build(self) -> Hypothesis {
        self.hypothesis
    }
}
