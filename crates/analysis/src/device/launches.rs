//! Who waits for whom: how work gets from the host to a device, and what gets in its way.

mod calls;
mod code;
mod graphs;

pub use calls::{CallTotal, call_totals};
pub use code::{CodeLoad, code_loads, is_code};
pub use graphs::{Graphs, is_capture_pass};

use super::distribution::{Distribution, Quantiles};
use super::timeline::{Api, Event, NamedCalls, Timeline};
use graphs::GraphTally;

/// How kernels get to one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launches {
    /// Start of the launching call to start of the kernel, of kernels launched one by one. Negative where the clocks of host
    /// and device disagree.
    pub delay: Distribution,
    /// End of the launching call to start of the kernel: how far the host runs ahead.
    pub lead: Distribution,
    /// Kernels without a launch in the recording. They are busy time and no launch statistics.
    pub unlinked_kernels: u64,
    /// Their time, ns.
    pub unlinked_kernel_ns: i64,
    /// Launched and not yet running, on average over the window.
    pub mean_queue_depth: f64,
    /// Start to start of successive launches by one thread, median ns: the pace at which this host launches. Waits of the
    /// host for the device are left out as far as it makes synchronizing calls.
    pub host_period_ns: Option<i64>,
    /// Time inside the launching call that is made most often, median ns.
    pub call_ns: Option<i64>,
    /// Kernels launched one by one that run shorter than that pace: they cannot hide the next launch.
    pub short_kernels: u64,
    /// Kernels launched one by one, in the recording.
    pub single_kernels: u64,
    /// Kernels' median length, ns.
    pub kernel_p50_ns: i64,
    /// Graphs.
    pub graphs: Graphs,
}

/// How fast a host launches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Start to start of successive launches by one thread with no synchronizing call between, median ns.
    pub period_ns: Option<i64>,
    /// Time inside the launching call that is made most often, median ns.
    pub call_ns: Option<i64>,
}

impl Pace {
    /// Fewest launches that make a pace.
    const FEWEST: u64 = 8;

    /// Reads the calls of an arm.
    pub fn of(timeline: &Timeline<'_>) -> Self {
        let median = |times: Distribution| (times.count >= Self::FEWEST).then_some(times.p50_ns);
        let launching = timeline.calls.by_name().iter().filter(|calls| calls.api == Api::Launch);
        let times = launching.map(NamedCalls::time).max_by_key(|times| (times.count, times.total_ns));
        Self { period_ns: median(timeline.calls.periods()), call_ns: times.and_then(median) }
    }
}

/// Adds kernels up by how they got to the device.
#[derive(Clone, Debug, Default)]
pub struct LaunchTally {
    launches: Launches,
    delays: Quantiles,
    leads: Quantiles,
    lengths: Quantiles,
    graphs: GraphTally,
}

impl LaunchTally {
    /// Begins one lane of an arm with a pace.
    pub fn new(pace: Pace) -> Self {
        Self { launches: Launches { host_period_ns: pace.period_ns, call_ns: pace.call_ns, ..Launches::default() }, ..Self::default() }
    }

    /// Adds an event.
    pub fn add(&mut self, timeline: &Timeline<'_>, event: &Event) {
        self.graphs.add(event);
        if !event.is_kernel() {
            return;
        }
        let length = event.duration_ns();
        self.lengths.add(length);
        let launches = &mut self.launches;
        if !event.is_launched() {
            launches.unlinked_kernels += 1;
            launches.unlinked_kernel_ns = launches.unlinked_kernel_ns.saturating_add(length);
        } else if !event.in_graph {
            launches.single_kernels += 1;
            launches.short_kernels += u64::from(launches.host_period_ns.is_some_and(|period| length < period));
            self.delays.add(event.start_ns - timeline.calls.start_ns(event.call));
            self.leads.add(event.start_ns - timeline.calls.end_ns(event.call));
        }
    }

    /// The figures of the lane, whose window is given.
    pub fn launches(self, timeline: &Timeline<'_>, window_ns: i64) -> Launches {
        let delay = self.delays.distribution();
        let mean_queue_depth = if window_ns > 0 { delay.total_ns.max(0) as f64 / window_ns as f64 } else { 0.0 };
        Launches {
            delay,
            lead: self.leads.distribution(),
            mean_queue_depth,
            kernel_p50_ns: self.lengths.distribution().p50_ns,
            graphs: self.graphs.graphs(timeline),
            ..self.launches
        }
    }
}
