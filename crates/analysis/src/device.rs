//! The device timeline: what ran on each device, why it was idle, and how work got there.
//!
//! [`DeviceView::read`] turns the tables that profiler captures fill into figures, once. Everything is integers in ns;
//! every account adds up to its window. It judges nothing: checks do.

pub mod account;
pub mod collectives;
pub mod compare;
pub mod copies;
pub mod distribution;
pub mod families;
mod few;
pub mod fill;
pub mod idle;
pub mod intervals;
pub mod kernels;
pub mod launches;
mod near;
mod shown;
pub mod steps;
pub mod timeline;
pub mod units;
pub mod work;

use capture::Capture;

pub use account::{CategoryTotal, LaneAccount, Tally};
pub use collectives::Collectives;
pub use compare::{Comparison, compare};
pub use copies::CopyFlow;
pub use distribution::Distribution;
pub use families::FamilyTotal;
pub use fill::{Fill, Thin};
pub use idle::{Idle, IdleParts};
pub use kernels::{Category, MatrixUnits};
pub use launches::{CallTotal, CodeLoad, Graphs, Launches, Pace};
pub use shown::shown;
pub use steps::{LaneStep, LaneSteps, PhaseTotal, StepLabel, StepPhase, StepSource};
pub use timeline::Timeline;
pub use units::Unit;
pub use work::{Operation, Work};

use copies::CopyTally;
use families::FamilyTally;
use few::Few;
use fill::FillTally;
use idle::{HostStates, Last};
use launches::LaunchTally;
use steps::{Steps, StepsTally};
use work::{Operators, WorkTally};

/// Everything known of one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneView {
    /// `2`, or `rank3/0` where several ranks use one number.
    pub label: String,
    /// Device as the recorder numbers it.
    pub device: u32,
    /// Rank of its process within the whole job.
    pub rank: Option<u32>,
    /// Ranks of the whole job, 0 where not told.
    pub world_size: u32,
    /// Name as the recorder writes it; empty where not told.
    pub name: String,
    /// `nvidia`, `amd`, `intel`, `meta`; empty where not told.
    pub vendor: String,
    /// Multiprocessors or compute units, 0 where not told.
    pub sm_count: u32,
    /// Memory bandwidth, bytes/s, 0 where not told.
    pub bandwidth_bytes_per_s: i64,
    /// Where its time went.
    pub account: LaneAccount,
    /// Why it was idle.
    pub idle: Idle,
    /// How kernels get to it.
    pub launches: Launches,
    /// Copies and memsets by direction and memory.
    pub copies: Vec<CopyFlow>,
    /// Kernels by family, the most time first.
    pub families: Vec<FamilyTotal>,
    /// Steps of the engine on it.
    pub steps: LaneSteps,
    /// Work that repeats on it.
    pub unit: Option<Unit>,
    /// What its kernels had to compute and move, as far as sizes were recorded; the most time first.
    pub work: Vec<Work>,
    /// How much of it long kernels fill.
    pub fill: Fill,
}

impl LaneView {
    /// True when idle time of this device means something: no replay is lost, and no block hides what ran.
    pub fn idle_is_reliable(&self) -> bool {
        !self.launches.graphs.hide_work()
    }
}

/// The device timeline of one arm.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceView {
    /// One per device; empty where only calls were recorded.
    pub lanes: Vec<LaneView>,
    /// Pace of the host's launches.
    pub pace: Pace,
    /// Calls by name, the most time first.
    pub calls: Vec<CallTotal>,
    /// Code compiled or loaded, the most time first.
    pub code_loads: Vec<CodeLoad>,
    /// Collectives; nothing where none was recorded.
    pub collectives: Option<Collectives>,
    /// Steps as annotated, also those without work on a device.
    pub annotated_steps: u64,
    /// True when the recording is of a pass that captures graphs, which is no work.
    pub is_capture_pass: bool,
    /// Events left out since their times are no times.
    pub dropped_events: u64,
    /// True where switches of threads between CPUs were recorded, with the calls in which they wait by choice.
    pub switches_recorded: bool,
}

impl DeviceView {
    /// Reads one arm; nothing where neither a device nor a call was recorded.
    pub fn read(capture: &Capture, run_idx: u32) -> Option<Self> {
        let timeline = Timeline::read(capture, run_idx)?;
        let steps = Steps::find(&timeline);
        let host = HostStates::read(&timeline, steps.host_runs());
        let pace = Pace::of(&timeline);
        let of_arm = OfArm { steps: &steps, host: &host, operators: &Operators::read(&timeline), pace };
        let lanes = timeline.lanes.iter().map(|lane| lane_view(&timeline, lane, &of_arm));
        let (lanes, communication): (Vec<LaneView>, Vec<Vec<u32>>) = lanes.unzip();
        let kernels = lanes.iter().map(|lane| lane.account.kernels).sum();
        Some(Self {
            pace,
            calls: launches::call_totals(&timeline),
            code_loads: launches::code_loads(&timeline),
            collectives: Collectives::read(&timeline, &communication),
            annotated_steps: steps.steps.len() as u64,
            is_capture_pass: launches::is_capture_pass(&timeline, kernels),
            dropped_events: timeline.dropped,
            switches_recorded: !timeline.marks.off_cpu.is_empty() && !timeline.marks.os_calls.is_empty(),
            lanes,
        })
    }

    /// From the first to the last event on any device, ns.
    pub fn window(&self) -> Option<(i64, i64)> {
        let start = self.lanes.iter().map(|lane| lane.account.start_ns).min()?;
        Some((start, self.lanes.iter().map(|lane| lane.account.end_ns).max()?))
    }

    /// Steps of the engine on all devices.
    pub fn step_count(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.steps.count()).sum()
    }

    /// The lane with the most idle time, all else equal the first.
    pub fn idlest(&self) -> Option<&LaneView> {
        self.lanes.iter().rev().max_by_key(|lane| lane.account.idle_ns)
    }

    /// All calls that do one thing: number and time.
    pub fn calls_that(&self, api: timeline::Api) -> (u64, i64) {
        let of_kind = self.calls.iter().filter(|call| call.api == api);
        of_kind.fold((0, 0), |(count, total), call| (count + call.time.count, total.saturating_add(call.time.total_ns)))
    }
}

/// What all lanes of an arm share.
struct OfArm<'a> {
    steps: &'a Steps,
    host: &'a HostStates,
    operators: &'a Operators,
    pace: Pace,
}

/// Everything of one lane in one sweep, and the places of its communicating kernels.
fn lane_view(timeline: &Timeline<'_>, lane: &timeline::Lane, of_arm: &OfArm<'_>) -> (LaneView, Vec<u32>) {
    let (host, pace) = (of_arm.host, of_arm.pace);
    let (mut account, mut idle, mut last) = (Tally::default(), Idle::default(), Last::default());
    let (mut families, mut launches) = (FamilyTally::new(timeline), LaunchTally::new(pace));
    let (mut copies, mut steps) = (CopyTally::default(), StepsTally::new(timeline, host, of_arm.steps));
    let (mut work, mut fill) = (WorkTally::new(of_arm.operators), FillTally::new(lane));
    let mut streams: Few<u32, i64> = Few::default();
    let mut communication = Vec::new();
    for (place, event) in timeline.events(lane).enumerate() {
        account.add(&event);
        idle.add(timeline, host, &mut last, &event);
        launches.add(timeline, &event);
        copies.add(timeline, &event);
        steps.add(&event);
        work.add(timeline, &event);
        fill.add(timeline, &event);
        if event.is_kernel() {
            families.add(&event);
            let on_stream = streams.entry(event.stream, || 0);
            *on_stream = on_stream.saturating_add(event.duration_ns());
        }
        if event.class == timeline::Class::Communication {
            communication.push(place as u32);
        }
    }
    let (account, families) = (account.account(), families.families(timeline));
    assert_eq!(idle.parts.total_ns(), account.idle_ns, "the causes of idle time add up to it");
    let busiest = streams.into_pairs().max_by_key(|(stream, total_ns)| (*total_ns, std::cmp::Reverse(*stream)));
    let view = LaneView {
        label: lane.label.clone(),
        device: lane.device,
        rank: lane.rank,
        world_size: lane.world_size,
        name: lane.name.clone(),
        vendor: lane.vendor.clone(),
        sm_count: lane.sm_count,
        bandwidth_bytes_per_s: lane.bandwidth_bytes_per_s,
        launches: launches.launches(timeline, account.window_ns),
        copies: copies.flows(timeline),
        steps: steps.steps(),
        work: work.work(timeline, of_arm.steps),
        fill: fill.fill(timeline),
        unit: busiest.and_then(|(stream, _)| Unit::of(timeline, lane, stream, &families, host)),
        account,
        idle,
        families,
    };
    (view, communication)
}
