//! What checks read of the devices of a profiler capture, and how they claim time on them.
//!
//! Where the capture is all there is, the account is of devices and a claim is on its own part of their time. Where
//! requests were measured as well, what the devices lost of their window is what decoding lost of its time: steps follow one
//! another, and a token waits for each.

use model::hardware::Gpu;

use crate::claims::{Basis, Claim};
use crate::contract::Quantity;
use crate::device::{CopyFlow, DeviceView, Idle, IdleParts, LaneView};
use crate::device_step;
use crate::phase::Phase;
use crate::situation::Situation;
use crate::uneven_experts::{self, UnevenExperts};

/// Waits below this share of the devices' time are the grain of any engine.
pub const GRAIN: f64 = 0.10;

/// Idle stretches by what ended them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// The launch came late.
    pub late: u64,
    /// The work was queued.
    pub queued: u64,
}

/// Synchronizing calls that drained the devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Syncs {
    /// How many.
    pub gaps: u64,
    /// How many a well-made engine needs.
    pub planned: u64,
    /// Idle time after those beyond, ns.
    pub unplanned_ns: i64,
}

/// How a recording of devices lies to what was measured of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Beside {
    /// Inside it: this share of its time.
    Within(f64),
    /// At another time, or on a clock that nothing joins.
    Apart,
}

impl Beside {
    /// Reads it; nothing where only one of the two was given.
    pub fn of(situation: &Situation<'_>) -> Option<Self> {
        let view = situation.evidence.device_view.as_ref().filter(|_| !situation.account.is_of_devices())?;
        let (recorded, measured) = (view.window()?, situation.evidence.window()?);
        let overlap = recorded.1.min(measured.1).saturating_sub(recorded.0.max(measured.0));
        let whole = measured.1.saturating_sub(measured.0).max(1);
        Some(if overlap > 0 { Self::Within(overlap as f64 / whole as f64) } else { Self::Apart })
    }
}

/// How many ranks of a job were recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RanksSeen {
    /// Recorded.
    pub recorded: f64,
    /// Of the job, as far as told; at least 2, for something communicates.
    pub world: f64,
}

impl RanksSeen {
    /// True when others took part that were not recorded.
    pub fn is_partial(self) -> bool {
        self.recorded < self.world
    }
}

/// The devices of one arm, all together.
#[derive(Clone, Copy, Debug)]
pub struct OnDevice<'a> {
    /// What was recorded.
    pub view: &'a DeviceView,
    /// Windows of all devices, ns.
    pub window_ns: i64,
    /// Idle time that is certain, by cause, all devices, ns.
    pub idle: IdleParts,
    /// Steps on all devices.
    pub steps: u64,
}

impl<'a> OnDevice<'a> {
    /// Reads them; nothing where no work on a device was recorded.
    pub fn of(situation: &Situation<'a>) -> Option<Self> {
        let view = situation.evidence.device_view.as_ref().filter(|view| !view.is_capture_pass)?;
        let window_ns: i64 = view.lanes.iter().map(|lane| lane.account.window_ns).sum();
        let mut idle = IdleParts::default();
        for lane in view.lanes.iter().filter(|lane| lane.idle_is_reliable()) {
            idle.add(&lane.idle.trusted);
        }
        (window_ns > 0).then(|| Self { view, window_ns, idle, steps: view.step_count() })
    }

    /// Sum over devices, ns.
    pub fn sum_ns(&self, of: impl Fn(&LaneView) -> i64) -> i64 {
        self.view.lanes.iter().map(of).sum()
    }

    /// Share of the devices' time.
    pub fn share(&self, ns: i64) -> f64 {
        ns as f64 / self.window_ns as f64
    }

    /// Share of the kernels that come from graph replays.
    pub fn graph_share(&self) -> f64 {
        let count = |of: fn(&LaneView) -> u64| self.view.lanes.iter().map(of).sum::<u64>() as f64;
        count(|lane| lane.account.graph_kernels) / count(|lane| lane.account.kernels).max(1.0)
    }

    /// A figure of the hardware table for the device, by the recorder's name for it, else by the subject's.
    pub fn by_data_sheet(&self, situation: &Situation<'_>, figure: impl Fn(&Gpu) -> Option<f64>) -> Option<f64> {
        let recorded = self.view.lanes.iter().map(|lane| lane.name.as_str());
        recorded.chain([situation.subject.device.as_str()]).find_map(|name| figure(model::hardware::find(name)?))
    }

    /// True where calls were recorded at all: without them nothing tells of launches.
    pub fn has_calls(&self) -> bool {
        !self.view.calls.is_empty()
    }

    /// Idle time that a late launch ends, with the start of the work itself, less what [`Self::syncs`] owns and less stretches
    /// that are too long to be a launch, ns.
    pub fn late_launch_ns(&self) -> i64 {
        let late_start_ns = self.reliable_ns(|idle| idle.late_start_ns);
        (self.idle.host_ns + late_start_ns - self.long_host().0 - self.syncs().unplanned_ns).max(0)
    }

    /// Idle time in which the host did something that takes longer than any launch, ns, and the number of such stretches.
    pub fn long_host(&self) -> (i64, u64) {
        let gaps = self.view.lanes.iter().filter(|lane| lane.idle_is_reliable()).map(|lane| lane.idle.long_host_gaps).sum();
        (self.reliable_ns(|idle| idle.long_host_ns), gaps)
    }

    /// Idle time of the starts of kernels that were queued, ns.
    pub fn queued_start_ns(&self) -> i64 {
        self.reliable_ns(|idle| idle.short_start_ns)
    }

    fn reliable_ns(&self, of: impl Fn(&Idle) -> i64) -> i64 {
        self.view.lanes.iter().filter(|lane| lane.idle_is_reliable()).map(|lane| of(&lane.idle)).sum()
    }

    /// Idle stretches by what ended them, all devices.
    pub fn gaps(&self) -> Gaps {
        let add =
            |sum: Gaps, lane: &LaneView| Gaps { late: sum.late + lane.idle.host_late_gaps, queued: sum.queued + lane.idle.queued_gaps };
        self.view.lanes.iter().fold(Gaps::default(), add)
    }

    /// Synchronizing calls that drained the devices. One per step is how engines get their sampled tokens; without steps one
    /// per device ends the recording.
    pub fn syncs(&self) -> Syncs {
        let (gaps, ns) =
            self.view.lanes.iter().fold((0, 0), |sum, lane| (sum.0 + lane.idle.after_sync_gaps, sum.1 + lane.idle.after_sync_ns));
        let planned = if self.steps > 0 { self.steps } else { self.view.lanes.len() as u64 };
        // Half a wait more per step may be the recording's edge.
        let is_more = 2 * gaps > 3 * planned;
        let beyond = if is_more { 1.0 - planned as f64 / gaps as f64 } else { 0.0 };
        Syncs { gaps, planned, unplanned_ns: (ns as f64 * beyond) as i64 }
    }

    /// Flows of copies on all devices that `takes` accepts, the most time first.
    pub fn flows(&self, takes: impl Fn(&CopyFlow) -> bool) -> Vec<&'a CopyFlow> {
        let mut flows: Vec<&CopyFlow> = self.view.lanes.iter().flat_map(|lane| &lane.copies).filter(|flow| takes(flow)).collect();
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.total_ns));
        flows
    }

    /// Exposed copy time of some flows, ns: of each device's exposed time the share these flows have of its copies.
    pub fn exposed_copies_ns(&self, takes: impl Fn(&CopyFlow) -> bool) -> i64 {
        let of_lane = |lane: &LaneView| {
            let all: i64 = lane.copies.iter().map(|flow| flow.union_ns).sum();
            let taken: i64 = lane.copies.iter().filter(|flow| takes(flow)).map(|flow| flow.union_ns).sum();
            (lane.account.exposed_copy_ns as f64 * taken as f64 / all.max(1) as f64) as i64
        };
        self.sum_ns(of_lane)
    }

    /// Of exposed communication, waiting for the rank that is known to come last, ns; 0 where none is known.
    pub fn skew_ns(&self) -> i64 {
        let collectives = self.view.collectives.as_ref().filter(|collectives| collectives.straggler.is_some());
        let wait = collectives.and_then(crate::device::Collectives::wait_share).unwrap_or(0.0);
        (wait * self.sum_ns(|lane| lane.account.exposed_communication_ns) as f64) as i64
    }

    /// Of exposed communication, waiting for the rank whose experts have most to do, ns; 0 where experts are even.
    pub fn expert_wait_ns(&self) -> i64 {
        uneven_experts::read(self).filter(UnevenExperts::is_material).map_or(0, |uneven| uneven.waited_ns)
    }

    /// Ranks recorded, of how many.
    pub fn ranks_seen(&self) -> RanksSeen {
        let recorded = self.view.lanes.len() as f64;
        let world = self.view.lanes.iter().map(|lane| f64::from(lane.world_size)).fold(0.0, f64::max);
        let in_group = self.view.collectives.iter().flat_map(|collectives| &collectives.ops).map(|of| f64::from(of.group_size));
        RanksSeen { recorded, world: in_group.fold(world, f64::max).max(if recorded > 1.0 { recorded } else { 2.0 }) }
    }

    /// `of each step` or `of the recording`, and that length, s.
    pub fn unit(&self) -> (&'static str, f64) {
        let (word, count) = if self.steps > 0 { ("step", self.steps) } else { ("recording", self.view.lanes.len() as u64) };
        (word, self.window_ns as f64 * 1e-9 / count.max(1) as f64)
    }

    /// Claims `[lo, mid, hi]` ns of a part of the devices' time.
    pub fn claims(&self, situation: &Situation<'_>, part: Phase, ns: [i64; 3], basis: Basis) -> Vec<Claim> {
        if situation.account.is_of_devices() {
            let size = situation.account.part_ns(part).max(1) as f64;
            return device_step::claims(situation, part, ns.map(|ns| ns as f64 / size), basis);
        }
        device_step::claims(situation, Phase::Decode, ns.map(|ns| self.share(ns)), basis.max(Basis::Derived))
    }

    /// What that costs: s per step, recording or request.
    pub fn cost(&self, situation: &Situation<'_>, ns: i64) -> Option<Quantity> {
        if situation.account.is_of_devices() {
            let value = ns as f64 * 1e-9 / situation.n();
            return (ns > 0).then(|| Quantity { value, unit: "s".into() });
        }
        device_step::cost(situation, Phase::Decode, self.share(ns))
    }
}
