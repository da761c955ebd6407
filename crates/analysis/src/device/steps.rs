//! Steps of an engine: what one forward pass took on a device, told by annotations.
//!
//! Engines annotate their steps on the host; what a step launched belongs to it wherever it runs. Where only the device
//! rows of annotations are there, what starts inside belongs to it.

mod find;
mod label;

use std::collections::BTreeMap;

use capture::SourceIdx;

pub use find::{HostStep, StepSource, Steps};
pub use label::{StepLabel, StepPhase};

use super::account::{LaneAccount, Tally};
use super::distribution::Distribution;
use super::families::{FamilyTally, FamilyTotal};
use super::idle::{HostStates, Idle, Last};
use super::timeline::{Event, Timeline};

/// One step on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStep {
    /// What its annotation says.
    pub label: StepLabel,
    /// Start of the annotation, ns.
    pub annotated_start_ns: i64,
    /// Time inside the annotation, ns.
    pub annotated_ns: i64,
    /// Its account between its first and last event on this device.
    pub account: LaneAccount,
}

/// Steps of one phase on one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseTotal {
    /// `prefill`, `decode`, `mixed`, or empty where annotations do not tell.
    pub phase: String,
    /// Steps.
    pub steps: u64,
    /// Tokens computed, as far as told.
    pub tokens: i64,
    /// Time from the first to the last event of a step.
    pub time: Distribution,
    /// Sums over the steps, ns and counts; `categories` by the largest first.
    pub account: LaneAccount,
    /// Idle time inside the steps by cause.
    pub idle: Idle,
    /// Kernels of the steps.
    pub families: Vec<FamilyTotal>,
}

/// Steps on one device, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneSteps {
    /// How they were found; empty without steps.
    pub source: Option<StepSource>,
    /// Each step with work on this device, at most [`LaneSteps::MOST`].
    pub steps: Vec<LaneStep>,
    /// Steps beyond those kept, which totals hold.
    pub more: u64,
    /// By phase.
    pub phases: Vec<PhaseTotal>,
    /// Kernels that belong to no step.
    pub outside_kernels: u64,
    /// Time between the last event of a step and the first of the next, where it is positive, median ns.
    pub gap: Distribution,
}

impl LaneSteps {
    /// Steps kept one by one.
    pub const MOST: usize = 20_000;

    /// Takes the steps in order and sums them up by phase.
    fn take(&mut self, steps: &Steps, tallies: &BTreeMap<usize, StepTally>) -> BTreeMap<StepPhase, PhaseTotal> {
        let mut lengths: BTreeMap<StepPhase, Vec<i64>> = BTreeMap::new();
        let mut totals: BTreeMap<StepPhase, PhaseTotal> = BTreeMap::new();
        let (mut gaps, mut last_end) = (Vec::new(), None);
        for (&at, (tally, _)) in tallies {
            let (step, account) = (&steps.steps[at], tally.account());
            gaps.extend(last_end.map(|end| account.start_ns - end).filter(|gap| *gap > 0));
            last_end = Some(last_end.unwrap_or(i64::MIN).max(account.end_ns));
            let phase = step.label.phase;
            lengths.entry(phase).or_default().push(account.window_ns);
            totals.entry(phase).or_default().add(&step.label, &account);
            if self.steps.len() < Self::MOST {
                let annotated_ns = step.end_ns - step.start_ns;
                self.steps.push(LaneStep { label: step.label.clone(), annotated_start_ns: step.start_ns, annotated_ns, account });
            } else {
                self.more += 1;
            }
        }
        self.gap = Distribution::of(&mut gaps);
        for (phase, total) in &mut totals {
            total.phase = phase.as_str().to_string();
            total.time = lengths.remove(phase).map(|mut lengths| Distribution::of(&mut lengths)).unwrap_or_default();
        }
        totals
    }

    /// Number of steps with work on this device.
    pub fn count(&self) -> u64 {
        self.steps.len() as u64 + self.more
    }
}

impl PhaseTotal {
    fn add(&mut self, label: &StepLabel, account: &LaneAccount) {
        self.steps += 1;
        self.tokens = self.tokens.saturating_add(label.tokens.unwrap_or(0));
        let sum = &mut self.account;
        sum.window_ns = sum.window_ns.saturating_add(account.window_ns);
        sum.busy_ns = sum.busy_ns.saturating_add(account.busy_ns);
        sum.compute_ns = sum.compute_ns.saturating_add(account.compute_ns);
        sum.communication_ns = sum.communication_ns.saturating_add(account.communication_ns);
        sum.exposed_communication_ns = sum.exposed_communication_ns.saturating_add(account.exposed_communication_ns);
        sum.copy_ns = sum.copy_ns.saturating_add(account.copy_ns);
        sum.exposed_copy_ns = sum.exposed_copy_ns.saturating_add(account.exposed_copy_ns);
        sum.idle_ns = sum.idle_ns.saturating_add(account.idle_ns);
        sum.gpu_events += account.gpu_events;
        sum.kernels += account.kernels;
        sum.graph_kernels += account.graph_kernels;
        sum.kernel_total_ns = sum.kernel_total_ns.saturating_add(account.kernel_total_ns);
        sum.graph_kernel_total_ns = sum.graph_kernel_total_ns.saturating_add(account.graph_kernel_total_ns);
        for total in &account.categories {
            match sum.categories.iter_mut().find(|known| known.category == total.category) {
                Some(known) => {
                    known.count += total.count;
                    known.total_ns = known.total_ns.saturating_add(total.total_ns);
                }
                None => sum.categories.push(*total),
            }
        }
        sum.categories.sort_by_key(|total| (-total.total_ns, total.category));
    }
}

/// What is added up of one step: its account, and the event so far to end last.
type StepTally = (Tally, Last);

/// Adds the events of a lane up by step.
pub struct StepsTally<'t, 'c> {
    timeline: &'t Timeline<'c>,
    host: &'t HostStates,
    steps: &'t Steps,
    finder: Finder<'t, 'c>,
    /// The step at hand, and all others; events of a step mostly follow each other.
    current: Option<(usize, StepTally)>,
    others: BTreeMap<usize, StepTally>,
    /// By [`StepPhase`], made where a step is of it.
    by_phase: [Option<(Idle, FamilyTally)>; StepPhase::ALL.len()],
    outside_kernels: u64,
}

impl<'t, 'c> StepsTally<'t, 'c> {
    /// Begins a lane.
    pub fn new(timeline: &'t Timeline<'c>, host: &'t HostStates, steps: &'t Steps) -> Self {
        let finder = Finder { timeline, steps, last: 0 };
        Self { timeline, host, steps, finder, current: None, others: BTreeMap::new(), by_phase: Default::default(), outside_kernels: 0 }
    }

    /// Adds an event in order of start.
    pub fn add(&mut self, event: &Event) {
        if self.steps.source.is_none() {
            return;
        }
        let Some(at) = self.finder.step_of(event) else {
            self.outside_kernels += u64::from(event.is_kernel());
            return;
        };
        if self.current.as_ref().is_none_or(|(current, _)| *current != at) {
            let next = self.others.remove(&at).unwrap_or_default();
            if let Some((old, tally)) = self.current.replace((at, next)) {
                self.others.insert(old, tally);
            }
        }
        let Some((_, (tally, last))) = &mut self.current else { return };
        tally.add(event);
        let of_phase = &mut self.by_phase[self.steps.steps[at].label.phase as usize];
        let (idle, families) = of_phase.get_or_insert_with(|| (Idle::default(), FamilyTally::new(self.timeline)));
        idle.add(self.timeline, self.host, last, event);
        families.add(event);
    }

    /// The steps of the lane.
    pub fn steps(mut self) -> LaneSteps {
        self.others.extend(self.current.take());
        let mut steps = LaneSteps { source: self.steps.source, outside_kernels: self.outside_kernels, ..LaneSteps::default() };
        for (phase, total) in steps.take(self.steps, &self.others) {
            let of_phase = self.by_phase[phase as usize].take();
            let (idle, families) = of_phase.map(|(idle, tally)| (idle, tally.families(self.timeline))).unwrap_or_default();
            steps.phases.push(PhaseTotal { idle, families, ..total });
        }
        steps
    }
}

/// Finds the step of an event; successive events are mostly of one step.
struct Finder<'t, 'c> {
    timeline: &'t Timeline<'c>,
    steps: &'t Steps,
    last: usize,
}

impl Finder<'_, '_> {
    fn step_of(&mut self, event: &Event) -> Option<usize> {
        let table = &self.timeline.capture().tables.device_events;
        let (key, t_ns) = if self.steps.on_device {
            // A row on a device is filed under the device's number or under the process.
            let (source, device) = (table.source_idx[event.row as usize], table.device[event.row as usize]);
            let by_device = self.steps.by_key.contains_key(&(source, device));
            ((source, if by_device { device } else { table.process[event.row as usize] }), event.start_ns)
        } else if event.is_launched() {
            (self.timeline.calls.process(event.call), self.timeline.calls.start_ns(event.call))
        } else {
            return None;
        };
        let holds = |step: &HostStep| step.key == key && step.start_ns <= t_ns && t_ns < step.end_ns;
        if self.steps.steps.get(self.last).is_some_and(holds) {
            return Some(self.last);
        }
        let at = self.search(key, t_ns).filter(|at| holds(&self.steps.steps[*at]))?;
        self.last = at;
        Some(at)
    }

    /// The last step of a process that starts no later.
    fn search(&self, key: (SourceIdx, u32), t_ns: i64) -> Option<usize> {
        let own = self.steps.by_key.get(&key)?;
        let behind = own.partition_point(|at| self.steps.steps[*at].start_ns <= t_ns);
        behind.checked_sub(1).map(|place| own[place])
    }
}
