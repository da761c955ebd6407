//! Triage: the questions that the decision path of a symptom asks a person, in its order, until something is settled.
//!
//! Pure. The questions are a table (`questions.rs`); an answer becomes typed evidence, the same text that anybody could
//! write into an `observations.toml`, and the ordinary diagnosis decides. Asking, reading and writing belong to the caller.

mod answer;
mod observations;
mod order;
mod questions;

use crate::contract::{Report, Status};

pub use answer::{Answer, parse};
pub use order::{Branch, ORDERS, Order, Place};
pub use questions::QUESTIONS;

/// One question and where its answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Id, the key in a file of answers.
    pub id: &'static str,
    /// As asked.
    pub text: &'static str,
    /// Signal or setting that takes the answer; empty for what is said about the subject.
    pub signal: &'static str,
    /// What may be answered.
    pub kind: Kind,
    /// Which run it is about.
    pub arm: Arm,
    /// Why the path asks it.
    pub why: &'static str,
    /// Engine id and how to obtain the answer there; an empty id serves every engine that has no row.
    pub obtain: &'static [(&'static str, &'static str)],
}

/// What may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number in the unit of the signal.
    Quantity,
    /// Yes or no.
    YesNo,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One of these words, about the subject: which engine.
    Engine(&'static [&'static str]),
    /// One of these words: what was changed.
    Changed(&'static [&'static str]),
}

/// Which run a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// As it is now.
    Now,
    /// Before the change, or on fewer devices.
    Before,
}

impl Question {
    /// How to obtain the answer on this engine.
    pub fn how(&self, engine: &str) -> &'static str {
        let of = |id: &str| self.obtain.iter().find(|(engine, _)| *engine == id).map(|(_, how)| *how);
        of(engine).or_else(|| of("")).unwrap_or_default()
    }

    /// Symptoms whose path asks it.
    pub fn symptoms(&self) -> Vec<&'static str> {
        ORDERS.iter().filter(|order| order.questions.iter().any(|place| place.id == self.id)).map(|order| order.symptom).collect()
    }
}

/// The question with this id.
pub fn question(id: &str) -> Option<&'static Question> {
    QUESTIONS.iter().find(|question| question.id == id)
}

/// Answers so far, in the order they were given.
#[derive(Clone, Debug, PartialEq)]
pub struct Triage {
    order: &'static Order,
    answers: Vec<(&'static Question, Answer)>,
}

impl Triage {
    /// Starts on the path of a symptom; `None` for a word that is no symptom.
    pub fn new(symptom: &str) -> Option<Self> {
        let order = ORDERS.iter().find(|order| order.symptom == symptom)?;
        Some(Self { order, answers: Vec::new() })
    }

    /// The symptom.
    pub fn symptom(&self) -> &'static str {
        self.order.symptom
    }

    /// What the path needs next; `None` when it has asked everything.
    pub fn next(&self) -> Option<&'static Question> {
        self.open().next()
    }

    /// Questions that are still to come, as far as the answers so far tell.
    pub fn open(&self) -> impl Iterator<Item = &'static Question> + '_ {
        let places = self.order.questions.iter().filter(|place| self.is_on_way(place.branch));
        places.filter_map(|place| question(place.id)).filter(|question| self.answers.iter().all(|(known, _)| known.id != question.id))
    }

    /// Takes an answer.
    pub fn put(&mut self, question: &'static Question, answer: Answer) {
        self.answers.retain(|(known, _)| known.id != question.id);
        self.answers.push((question, answer));
    }

    /// Takes the last answer back; its question comes next again.
    pub fn back(&mut self) -> Option<&'static Question> {
        self.answers.pop().map(|(question, _)| question)
    }

    /// What was answered with something, and what was not known.
    pub fn answers(&self) -> &[(&'static Question, Answer)] {
        &self.answers
    }

    /// Number of answers that say something.
    pub fn known_count(&self) -> usize {
        self.answers.iter().filter(|(_, answer)| *answer != Answer::Unknown).count()
    }

    /// The engine, empty until it is said.
    pub fn engine(&self) -> &str {
        self.text_of("engine")
    }

    /// The answers as an `observations.toml`.
    pub fn observations(&self) -> String {
        observations::write(self)
    }

    /// The answers about one run by themselves, as an `observations.toml`; `None` when there is none about it.
    pub fn observations_of(&self, arm: Arm) -> Option<String> {
        observations::alone(self, arm)
    }

    fn text_of(&self, id: &str) -> &str {
        match self.answers.iter().find(|(question, _)| question.id == id) {
            Some((_, Answer::Known(text))) => text,
            _ => "",
        }
    }

    fn base_value(&self, id: &str) -> Option<f64> {
        answer::base_value(question(id)?, self.text_of(id))
    }

    /// Before the first token the path forks: where both are known, only the larger of queue and prefill is followed.
    fn is_on_way(&self, branch: Branch) -> bool {
        match (branch, self.base_value("queue_time"), self.base_value("prefill_time")) {
            (Branch::Queue, Some(queue), Some(prefill)) => queue >= prefill,
            (Branch::Prefill, Some(queue), Some(prefill)) => prefill > queue,
            (Branch::Speculation, ..) => matches!(self.text_of("changed"), "" | "speculation" | "upgrade" | "several things"),
            _ => true,
        }
    }
}

/// True when the diagnosis names a failure mode: nothing more need be asked.
pub fn is_settled(report: &Report) -> bool {
    report.verdict.status == Status::Localized && report.verdict.check.is_some()
}

/// The one recording that would decide most: what the check needs that could own most, else what the first question of
/// the path needs that has no answer. With the question it would answer.
pub fn recording(report: &Report) -> Option<(String, String)> {
    let owner = report.unknown.iter().find(|unknown| unknown.could_own_share.is_some_and(|share| share > 0.0));
    if let Some(owner) = owner.filter(|owner| !owner.record_with.is_empty()) {
        return Some((format!("whether it is {}", owner.check), owner.record_with.clone()));
    }
    report.path.iter().find_map(|step| {
        let command = step.because.split("record with `").nth(1)?.strip_suffix('`')?;
        Some((step.question.clone(), command.to_string()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::PATHS;

    #[test]
    fn every_path_has_its_questions_and_every_question_a_path() {
        for path in PATHS {
            assert!(Triage::new(path.symptom).is_some_and(|triage| triage.next().is_some()), "{}", path.symptom);
        }
        assert_eq!(ORDERS.len(), PATHS.len());
        for question in QUESTIONS {
            assert!(!question.symptoms().is_empty(), "{} is never asked", question.id);
        }
        for order in ORDERS {
            for place in order.questions {
                assert!(question(place.id).is_some(), "{}: no question `{}`", order.symptom, place.id);
            }
        }
    }

    #[test]
    fn the_larger_half_of_the_first_token_is_followed() {
        let mut triage = Triage::new("high_ttft").unwrap();
        let ids = |triage: &Triage| triage.open().map(|question| question.id).collect::<Vec<_>>();
        assert!(ids(&triage).contains(&"kv_usage") && ids(&triage).contains(&"prefix_caching"));
        triage.put(question("queue_time").unwrap(), Answer::Known("2.4 s".into()));
        triage.put(question("prefill_time").unwrap(), Answer::Known("70 ms".into()));
        assert!(ids(&triage).contains(&"kv_usage") && !ids(&triage).contains(&"prefix_caching"));
        assert_eq!(triage.back().map(|question| question.id), Some("prefill_time"));
        assert!(ids(&triage).contains(&"prefix_caching"));
    }
}
