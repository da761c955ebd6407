//! Advice under construction: one change, what it risks, how to go back, and what must then move.

use crate::contract::{Change, Hypothesis, Prediction};
use crate::flags::flag;
use crate::situation::Situation;

/// A hypothesis under construction.
#[derive(Clone, Debug)]
pub struct Advice {
    hypothesis: Hypothesis,
}

impl Advice {
    /// A change of an engine's setting (`max_num_seqs`), spelled as this engine spells it.
    pub fn setting(situation: &Situation<'_>, key: &'static str, to: &str) -> Self {
        let (name, valid_for) = flag(situation.subject, key);
        let config = format!("config.{key}");
        let now = situation.evidence.settings.get(&config);
        Self::of(Change {
            instruction: format!("{name} {to}"),
            from: now.map(|setting| setting.value.clone()).unwrap_or_default(),
            from_source: now.map(|setting| setting.origin.clone()).unwrap_or_default(),
            flag: name,
            to: to.into(),
            needs: "restart".into(),
            reload_s: situation.evidence.reload_s,
            valid_for,
        })
    }

    /// A change outside the engine: what is changed, its value now and then, and the imperative on one line.
    pub fn outside(what: &str, from: &str, to: &str, instruction: &str) -> Self {
        Self::of(Change {
            flag: what.into(),
            from: from.into(),
            to: to.into(),
            from_source: String::new(),
            needs: "none".into(),
            reload_s: None,
            valid_for: String::new(),
            instruction: instruction.into(),
        })
    }

    fn of(change: Change) -> Self {
        let rollback = if change.from.is_empty() { "take the change back".into() } else { format!("set it back to {}", change.from) };
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

    /// `restart`, `reload` or `none`.
    #[must_use]
    pub fn needs(mut self, needs: &str) -> Self {
        self.hypothesis.change.needs = needs.into();
        self
    }

    /// What it risks, and the sign by which to undo it.
    #[must_use]
    pub fn risk(mut self, risk: &str, undo_if: &str) -> Self {
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
