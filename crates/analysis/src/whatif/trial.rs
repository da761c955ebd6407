//! One change simulated under every step law that fits the run, and what that says.

use super::baseline::Baseline;
use super::figures::{Figures, Metric};
use super::refused::{Untold, untold};
use super::scenario::Scenario;
use super::{Predicted, Range, Refusal, Set, WHATIF_SCHEMA, WhatIf, interval, levers};

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// What was changed.
    pub(super) changes: Vec<Set>,
    /// The changed system by law, in the order of the baseline's.
    pub(super) changed: Vec<Scenario>,
    /// Each of them simulated.
    pub(super) figures: Vec<Figures>,
    /// True when anything differs from the run.
    is_changed: bool,
}

impl Trial {
    /// Applies `sets` to every scenario of the baseline and simulates it.
    pub(super) fn run(baseline: &Baseline, sets: &[(String, String)]) -> Result<Self, Refusal> {
        let (mut changes, mut changed) = (Vec::new(), Vec::new());
        for scenario in &baseline.scenarios {
            let (scenario, made) = levers::apply(scenario, sets)?;
            changed.push(scenario);
            changes = made;
        }
        let is_set = changes.iter().all(|change| change.from == change.to);
        let figures = if is_set { Ok(baseline.simulated.clone()) } else { changed.iter().map(Figures::simulate).collect() };
        let figures: Vec<Figures> = figures?;
        let is_changed = baseline.simulated != figures || changes.iter().any(|change| change.from != change.to);
        Ok(Self { changes, changed, figures, is_changed })
    }

    /// The law in the middle: the best.
    fn middle(&self) -> usize {
        self.figures.len() / 2
    }

    /// New over old of a figure; nothing where the run has none.
    fn ratio(&self, baseline: &Baseline, is_tail: bool, figure: impl Fn(&Figures) -> f64) -> Option<Range> {
        if !self.is_changed {
            return Some(Range::exact(1.0));
        }
        let pairs: Vec<(f64, f64)> = baseline.simulated.iter().zip(&self.figures).map(|(old, new)| (figure(old), figure(new))).collect();
        interval::ratio(&pairs, self.middle(), interval::width(&self.changed[self.middle()]), is_tail)
    }

    /// The ratio of a figure, or why there is none.
    pub(super) fn told(&self, baseline: &Baseline, metric: Metric) -> Result<Range, Untold> {
        let ratio = self.ratio(baseline, metric.is_tail(), |figures| figures.get(metric));
        if !self.is_changed {
            return ratio.ok_or(Untold::NoFigure);
        }
        let (old, new, changed) = (&baseline.simulated[self.middle()], &self.figures[self.middle()], &self.changed[self.middle()]);
        match untold(metric, baseline.vouched(metric, old), old, new, ratio, changed) {
            Some(why) => Err(why),
            None => ratio.ok_or(Untold::NoFigure),
        }
    }

    /// The ratio of the wait for the first step. It is part of the time to the first token: where that is not told, it is not.
    pub(super) fn queue(&self, baseline: &Baseline) -> Result<Range, Untold> {
        self.told(baseline, Metric::TtftMean)?;
        self.ratio(baseline, false, |figures| figures.queue_mean_s).ok_or(Untold::NoFigure)
    }

    /// The whole answer.
    pub(super) fn what_if(&self, baseline: &Baseline) -> WhatIf {
        let (old, new, changed) = (&baseline.simulated[self.middle()], &self.figures[self.middle()], &self.changed[self.middle()]);
        let fidelity = baseline.fidelity(old);
        let repeats = fidelity.iter().all(|(_, ratio)| (0.75..=1.34).contains(ratio));
        let mut warnings: Vec<String> = changed.warnings.clone();
        if !repeats {
            warnings.push("the simulation does not repeat the measured run within a quarter: read the ratios as directions".to_string());
        }
        WhatIf {
            schema: WHATIF_SCHEMA.into(),
            simulated: true,
            tier: if repeats && baseline.is_measured() { "ratio" } else { "bound" }.into(),
            changes: self.changes.clone(),
            metrics: Metric::ALL.iter().map(|&metric| self.predicted(baseline, metric)).collect(),
            binding_before: old.binding().into(),
            binding_after: new.binding().into(),
            ceiling_before: ceiling(&baseline.scenarios).filter(|_| baseline.repeats_rates()),
            ceiling_after: ceiling(&self.changed).filter(|_| baseline.repeats_rates()),
            saturated: new.saturated,
            requests: baseline.scenarios[self.middle()].workload.requests().len() as u64,
            fidelity,
            measured: baseline.told.clone(),
            assumed: changed.assumed.clone(),
            warnings,
        }
    }

    fn predicted(&self, baseline: &Baseline, metric: Metric) -> Predicted {
        let (measured, simulated) = (baseline.measured.get(metric), baseline.simulated[self.middle()].get(metric));
        let told = self.told(baseline, metric);
        Predicted {
            name: metric.name().into(),
            unit: metric.unit().into(),
            measured,
            simulated,
            ratio: told.as_ref().ok().copied(),
            value: told.as_ref().ok().map(|ratio| ratio.times(measured.unwrap_or(simulated))),
            refused: told.err().map(|why| why.words()),
        }
    }
}

/// What the systems serve at most, the middle one being the best.
fn ceiling(scenarios: &[Scenario]) -> Option<Range> {
    let rates: Option<Vec<f64>> = scenarios.iter().map(Scenario::ceiling_per_s).collect();
    let rates = rates.filter(|rates| !rates.is_empty())?;
    let (low, high) = rates.iter().fold((f64::INFINITY, 0.0f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
    Some(Range { low, mid: rates[rates.len() / 2], high })
}
