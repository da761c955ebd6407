//! The eight decision paths, as data: for each symptom the questions in the seed's order.
//!
//! A question looks at the evidence and answers with the number that answered it, else takes the answer of a check, else
//! says what would have to be recorded. Which question comes next follows from an answer only where the path forks (queue
//! or prefill); everything else is a list.

mod questions;

use crate::contract::PathStep;
use crate::settlement::Settlement;
use crate::situation::Situation;

pub use questions::{Asked, Question};
use questions::{device, feature, first_token, parallel, queue, tail, users};

/// A path: the symptom it belongs to and its questions.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Symptom id.
    pub symptom: &'static str,
    /// Questions in order.
    pub steps: &'static [Step],
}

/// A question and the branch it stands on.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The question.
    pub question: Question,
    /// When it is asked.
    pub branch: Branch,
}

/// Where a path forks: before the first token either the queue or computing the prompt is larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// Asked on every way.
    Trunk,
    /// Asked when the queue is larger, or neither is known.
    Queue,
    /// Asked when computing the prompt is larger, or neither is known.
    Prefill,
}

const fn ask(question: Question) -> Step {
    Step { question, branch: Branch::Trunk }
}

const fn queued(question: Question) -> Step {
    Step { question, branch: Branch::Queue }
}

const fn computing(question: Question) -> Step {
    Step { question, branch: Branch::Prefill }
}

/// All paths: the seed's six, then two more.
pub const PATHS: &[Path] = &[
    Path {
        symptom: "high_ttft",
        steps: &[
            ask(first_token::SLOW_BEFORE_FIRST),
            ask(first_token::CLIENT_GAP),
            ask(first_token::BEFORE_ENGINE),
            ask(first_token::QUEUE_OR_PREFILL),
            queued(queue::KV_FULL),
            queued(queue::PREEMPTED),
            queued(queue::STEP_AT_BUDGET),
            queued(queue::SEATS_TAKEN),
            queued(queue::HEADROOM),
            computing(first_token::PREFILL_OWN),
            computing(first_token::BACKEND),
            computing(first_token::REUSE),
            computing(device::GRAPHS),
            computing(parallel::COMMUNICATION),
            computing(first_token::CO_BATCHED),
            computing(first_token::LONG_AHEAD),
        ],
    },
    Path {
        symptom: "throughput_plateau",
        steps: &[
            ask(users::CLIENT_LIMITED),
            ask(queue::STANDS_STILL),
            ask(queue::GATES),
            ask(device::HOST_GAP),
            ask(tail::CPU_WAIT),
            ask(queue::PREEMPTED),
            ask(queue::EVICTIONS),
            ask(device::DEVICE_AT_LIMIT),
            ask(queue::GROWING),
        ],
    },
    Path {
        symptom: "busy_but_slow",
        steps: &[ask(device::CLASSIFY), ask(device::GAPS), ask(device::GRAPHS), ask(device::ROOFLINE), ask(device::DEVICE_AT_LIMIT)],
    },
    Path {
        symptom: "multi_gpu_slower",
        steps: &[
            ask(parallel::FITS_ON_FEWER),
            ask(parallel::COMMUNICATION),
            ask(parallel::SKEW),
            ask(parallel::TRANSPORT),
            ask(parallel::BUBBLES),
            ask(parallel::EXPERTS_EVEN),
            ask(parallel::RANKS_EVEN),
            ask(parallel::REPLICAS_EVEN),
            ask(parallel::ROUTING),
        ],
    },
    Path {
        symptom: "slower_after_feature",
        steps: &[
            ask(feature::COMPARABLE),
            ask(feature::PART_THAT_GREW),
            ask(feature::SPECULATION),
            ask(feature::VERIFY_OFF_GRAPH),
            ask(device::GRAPHS),
            ask(feature::RECOMPILES),
            ask(feature::CONFIG_DIFFERENCES),
        ],
    },
    Path {
        symptom: "users_slow",
        steps: &[
            ask(users::SERVER_CLEAN),
            ask(users::CLIENT_LIMITED),
            ask(users::CONNECT),
            ask(users::BODY_TRANSFER),
            ask(users::GATEWAY_QUEUE),
            ask(users::RHYTHM),
            ask(users::BURSTS),
            ask(users::RETRIES),
        ],
    },
    Path {
        symptom: "uniformly_slow_decode",
        steps: &[
            ask(device::SHARING),
            ask(device::CLASSIFY),
            ask(device::GAPS),
            ask(device::GRAPHS),
            ask(device::ROOFLINE),
            ask(device::DEVICE_AT_LIMIT),
            ask(device::CLOCKS),
            ask(device::HOST_GAP),
            ask(queue::GROWING),
        ],
    },
    Path {
        symptom: "tail_spikes",
        steps: &[ask(tail::PREFILL_STEPS), ask(queue::PREEMPTED), ask(feature::RECOMPILES), ask(tail::CPU_WAIT), ask(tail::SCRAPED)],
    },
];

/// Walks the path of `symptom`; `none` walks the path of high TTFT, which asks about everything that queues, and for devices
/// that of a busy one.
pub fn walk(situation: &Situation<'_>, settlement: &Settlement, symptom: &str) -> Vec<PathStep> {
    let symptom = if symptom == "none" && situation.account.is_of_devices() { "busy_but_slow" } else { symptom };
    let path = PATHS.iter().find(|path| path.symptom == symptom).unwrap_or(&PATHS[0]);
    let mut steps = Vec::new();
    for Step { question, .. } in path.steps.iter().filter(|step| is_on_way(situation, step.branch)) {
        let asked = question.answer(situation, settlement);
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

fn is_on_way(situation: &Situation<'_>, branch: Branch) -> bool {
    let unknown = situation.account.is_empty();
    match branch {
        Branch::Trunk => true,
        Branch::Queue => unknown || first_token::queue_is_larger(situation),
        Branch::Prefill => unknown || !first_token::queue_is_larger(situation),
    }
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
        assert!(PATHS.iter().all(|path| path.steps.len() >= 4));
    }
}
