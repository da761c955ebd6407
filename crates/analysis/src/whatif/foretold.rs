//! What `inferoscope whatif` would say of one arm, for those who diagnose it: one baseline, built at the first question, and
//! every answer kept. A figure in a hypothesis, a rung of the ladder and the gain of a remedy come from here, so that they never
//! contradict the verb.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use capture::Subject;

use super::baseline::Baseline;
use super::figures::Metric;
use super::levers;
use super::refused::Untold;
use super::scenario::{Holds, Scenario};
use super::trial::Trial;
use super::{Range, Refusal, WhatIf};
use crate::evidence::Evidence;

/// Predictions of one arm. A setting is written as for `--set`: `max_num_seqs=64`.
#[derive(Clone, Debug)]
pub struct Foretold<'a> {
    subject: &'a Subject,
    evidence: &'a Evidence,
    known: Rc<Known>,
}

#[derive(Debug, Default)]
struct Known {
    baseline: OnceCell<Result<Baseline, Refusal>>,
    best: OnceCell<Result<Baseline, Refusal>>,
    answers: RefCell<BTreeMap<String, Result<Rc<Told>, Refusal>>>,
}

/// One answer, with reasons that can be acted on.
#[derive(Clone, Debug)]
pub struct Told {
    /// The answer of the verb.
    pub what_if: WhatIf,
    untold: BTreeMap<&'static str, Untold>,
    queue: Result<Range, Untold>,
}

impl Told {
    /// New over old of `ttft.mean`, `tpot.mean`, `e2e.mean`, `throughput.output` or `queue.mean`, or why there is no number.
    pub fn ratio(&self, figure: &str) -> Result<Range, Untold> {
        if figure == "queue.mean" {
            return self.queue.clone();
        }
        let predicted = self.what_if.metrics.iter().find(|metric| metric.name == figure);
        let ratio = predicted.and_then(|metric| metric.ratio);
        ratio.ok_or_else(|| self.untold.get(figure).cloned().unwrap_or(Untold::NoFigure))
    }

    /// True when the run has the setting already.
    pub fn is_set(&self) -> bool {
        self.what_if.changes.iter().all(|change| change.from == change.to)
    }

    /// Requests per second at most, before and after, best figures.
    pub fn ceilings(&self) -> Option<(f64, f64)> {
        Some((self.what_if.ceiling_before?.mid, self.what_if.ceiling_after?.mid))
    }
}

impl<'a> Foretold<'a> {
    /// Of this arm; nothing is computed yet.
    pub fn new(subject: &'a Subject, evidence: &'a Evidence) -> Self {
        Self { subject, evidence, known: Rc::default() }
    }

    fn baseline(&self) -> Result<&Baseline, Refusal> {
        self.known.baseline.get_or_init(|| Baseline::of(self.subject, self.evidence)).as_ref().map_err(Clone::clone)
    }

    /// What this setting would do.
    pub fn ask(&self, setting: &str) -> Result<Rc<Told>, Refusal> {
        if let Some(known) = self.known.answers.borrow().get(setting) {
            return known.clone();
        }
        let answer = self.baseline().and_then(|baseline| told(baseline, setting)).map(Rc::new);
        self.known.answers.borrow_mut().insert(setting.to_string(), answer.clone());
        answer
    }

    /// The best figures of [`Self::ask`] by the best step law alone, at a third of its cost: enough where nothing moves.
    pub fn ask_best(&self, setting: &str) -> Result<Told, Refusal> {
        let best = self.known.best.get_or_init(|| self.baseline().map(Baseline::best));
        best.as_ref().map_err(Clone::clone).and_then(|baseline| told(baseline, setting))
    }

    /// Where the step law is from; nothing where it is only bounded or the simulation does not repeat the run, so that a ceiling
    /// would be a guess.
    pub fn law_from(&self) -> Option<&str> {
        self.baseline().ok().filter(|baseline| baseline.repeats_rates())?.law_from.as_deref()
    }

    /// Requests per second at most under this setting, by the best step law, and what holds them.
    pub fn ceiling_per_s(&self, setting: &str) -> Option<(f64, Holds)> {
        let (changed, _) = levers::apply(self.best()?, &[pair(setting)?]).ok()?;
        Some((changed.ceiling_per_s()?, changed.largest_batch().1))
    }

    /// Requests per second that no limit holds back, by the best step law: of so many sequences that more change nothing.
    pub fn limitless_per_s(&self) -> Option<f64> {
        self.best()?.rate_per_s(1e9)
    }

    fn best(&self) -> Option<&Scenario> {
        let scenarios = &self.baseline().ok()?.scenarios;
        scenarios.get(scenarios.len() / 2)
    }
}

fn pair(setting: &str) -> Option<(String, String)> {
    setting.split_once('=').map(|(key, value)| (key.to_string(), value.to_string()))
}

fn told(baseline: &Baseline, setting: &str) -> Result<Told, Refusal> {
    let set = pair(setting).unwrap_or_else(|| (setting.to_string(), String::new()));
    let trial = Trial::run(baseline, &[set])?;
    let untold = Metric::ALL.into_iter().filter_map(|metric| Some((metric.name(), trial.told(baseline, metric).err()?))).collect();
    Ok(Told { what_if: trial.what_if(baseline), untold, queue: trial.queue(baseline) })
}
