//! The eight decision paths, as data: for each symptom the questions in the seed's order.
//!
//! A question looks at the situation and answers with the number that answered it, or says what is missing. Which
//! question comes next follows from the answer only where the path forks; everything else is a list.

mod questions;

use crate::contract::PathStep;
use crate::settlement::Settlement;
use crate::situation::Situation;

pub use questions::{Asked, Question};

/// A path: the symptom it belongs to and its questions.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Symptom id.
    pub symptom: &'static str,
    /// Questions in order.
    pub questions: &'static [Question],
}

/// All paths: the seed's six, then two more.
pub const PATHS: &[Path] = &[
    Path {
        symptom: "high_ttft",
        questions: &[
            questions::SLOW_BEFORE_FIRST,
            questions::CLIENT_GAP,
            questions::QUEUE_OR_PREFILL,
            questions::KV_FULL,
            questions::PREEMPTED,
            questions::STEP_AT_BUDGET,
            questions::SEATS_TAKEN,
            questions::HEADROOM,
            questions::PREFILL_OWN,
        ],
    },
    Path {
        symptom: "throughput_plateau",
        questions: &[
            questions::CLIENT_LIMITED,
            questions::SEATS_TAKEN,
            questions::GATES,
            questions::HOST_GAP,
            questions::PREEMPTED,
            questions::DEVICE_AT_LIMIT,
            questions::GROWING,
        ],
    },
    Path {
        symptom: "busy_but_slow",
        questions: &[questions::CLASSIFY, questions::GAPS, questions::GRAPHS, questions::ROOFLINE, questions::DEVICE_AT_LIMIT],
    },
    Path {
        symptom: "multi_gpu_slower",
        questions: &[questions::FITS_ON_FEWER, questions::COMMUNICATION, questions::SKEW, questions::BUBBLES, questions::REPLICAS_EVEN],
    },
    Path {
        symptom: "slower_after_feature",
        questions: &[
            questions::COMPARABLE,
            questions::PART_THAT_GREW,
            questions::SPECULATION,
            questions::GRAPHS,
            questions::CONFIG_DIFFERENCES,
        ],
    },
    Path {
        symptom: "users_slow",
        questions: &[
            questions::SERVER_CLEAN,
            questions::CLIENT_LIMITED,
            questions::CONNECT,
            questions::GATEWAY_QUEUE,
            questions::RHYTHM,
            questions::RETRIES,
        ],
    },
    Path {
        symptom: "uniformly_slow_decode",
        questions: &[questions::SHARING, questions::CLASSIFY, questions::GAPS, questions::CLOCKS, questions::HOST_GAP, questions::GROWING],
    },
    Path {
        symptom: "tail_spikes",
        questions: &[questions::PREFILL_STEPS, questions::PREEMPTED, questions::RECOMPILES, questions::HOST_GAP],
    },
];

/// Walks the path of `symptom`; `none` walks the path of high TTFT, which asks about everything that queues.
pub fn walk(situation: &Situation<'_>, settlement: &Settlement, symptom: &str) -> Vec<PathStep> {
    let path = PATHS.iter().find(|path| path.symptom == symptom).unwrap_or(&PATHS[0]);
    let mut steps = Vec::new();
    for question in path.questions {
        let asked = (question.ask)(situation, settlement);
        let step = PathStep {
            question: question.text.into(),
            short: short(question, &asked),
            answer: asked.answer,
            because: asked.because,
            eliminates: asked.eliminates,
        };
        let stop = asked.ends_path;
        steps.push(step);
        if stop {
            break;
        }
    }
    steps
}

/// The step on a screen: the number for an answer, nothing more for what could not be told.
fn short(question: &Question, asked: &Asked) -> String {
    match asked.brief() {
        "" => format!("{} {}", question.short, asked.answer),
        brief => format!("{} {}, {brief}", question.short, asked.answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_symptom_has_a_path_and_every_path_a_symptom() {
        for id in crate::symptom::IDS.iter().filter(|id| **id != "none") {
            assert!(PATHS.iter().any(|path| path.symptom == *id), "{id}");
        }
        assert_eq!(PATHS.len() + 1, crate::symptom::IDS.len());
        assert!(PATHS.iter().all(|path| path.questions.len() >= 4));
    }
}
