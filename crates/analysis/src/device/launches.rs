//! Who waits for whom: how work gets from the host to a device, and what gets in its way.

mod calls;
mod code;
mod graphs;

pub use calls::{CallTotal, call_totals};
pub use code::{CodeLoad, code_loads, is_code};
pub use graphs::{Graphs, is_capture_pass};

use super::timeline::{Api, Event, Lane, Timeline};

/// Quantiles of some times, ns; nearest rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub total_ns: i64,
    /// Median.
    pub p50_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
}

impl Distribution {
    /// Of the values given, which are reordered.
    pub fn of(values: &mut [i64]) -> Self {
        let Some(last) = values.len().checked_sub(1) else { return Self::default() };
        let total_ns = values.iter().fold(0i64, |sum, value| sum.saturating_add(*value));
        // ceil(p * n) - 1 in integers.
        let rank = |percent: usize| (values.len() * percent).div_ceil(100).max(1) - 1;
        let (p50_at, p99_at) = (rank(50), rank(99).min(last));
        let (_, p99, _) = values.select_nth_unstable(p99_at);
        let p99_ns = *p99;
        let p50_ns = if p50_at == p99_at { p99_ns } else { *values[..p99_at].select_nth_unstable(p50_at).1 };
        Self { count: values.len() as u64, total_ns, p50_ns, p99_ns }
    }
}

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
    /// Time inside a launching call, median ns.
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

impl Launches {
    /// Reads one lane; `paces` are those of the whole arm.
    pub fn of(timeline: &Timeline<'_>, lane: &Lane, pace: Pace) -> Self {
        let mut launches = Self { host_period_ns: pace.period_ns, call_ns: pace.call_ns, ..Self::default() };
        let mut span: Option<(i64, i64)> = None;
        for event in timeline.events(lane) {
            span = Some(span.map_or((event.start_ns, event.end_ns), |span| (span.0, span.1.max(event.end_ns))));
            if !event.is_kernel() {
                continue;
            }
            let length = event.duration_ns();
            if !event.is_launched() {
                launches.unlinked_kernels += 1;
                launches.unlinked_kernel_ns = launches.unlinked_kernel_ns.saturating_add(length);
            } else if !event.in_graph {
                launches.single_kernels += 1;
                launches.short_kernels += u64::from(pace.period_ns.is_some_and(|period| length < period));
            }
        }
        // One list at a time: each is as long as the recording.
        let mut values: Vec<i64> = Vec::new();
        let mut of = |value: &dyn Fn(&Event) -> Option<i64>| {
            values.clear();
            values.extend(timeline.events(lane).filter(Event::is_kernel).filter_map(|event| value(&event)));
            Distribution::of(&mut values)
        };
        let is_single = |event: &Event| event.is_launched() && !event.in_graph;
        launches.delay = of(&|event| is_single(event).then(|| event.start_ns - timeline.calls.start_ns(event.call)));
        launches.lead = of(&|event| is_single(event).then(|| event.start_ns - timeline.calls.end_ns(event.call)));
        launches.kernel_p50_ns = of(&|event| Some(event.duration_ns())).p50_ns;
        let window = span.map_or(0, |span| span.1 - span.0);
        launches.mean_queue_depth = if window > 0 { launches.delay.total_ns.max(0) as f64 / window as f64 } else { 0.0 };
        launches.graphs = Graphs::of(timeline, lane);
        launches
    }

    /// Share of kernels launched one by one that are shorter than the pace of launches; nothing where either is unknown.
    pub fn short_share(&self) -> Option<f64> {
        self.host_period_ns?;
        (self.single_kernels > 0).then(|| self.short_kernels as f64 / self.single_kernels as f64)
    }

    /// Share of kernels without a launch in the recording.
    pub fn unlinked_share(&self, kernels: u64) -> f64 {
        self.unlinked_kernels as f64 / kernels.max(1) as f64
    }
}

/// How fast a host launches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Start to start of successive launches by one thread with no synchronizing call between, median ns.
    pub period_ns: Option<i64>,
    /// Time inside a launching call, median ns.
    pub call_ns: Option<i64>,
}

impl Pace {
    /// Fewest launches that make a pace.
    const FEWEST: usize = 8;

    /// Reads the calls of an arm.
    pub fn of(timeline: &Timeline<'_>) -> Self {
        let calls = &timeline.calls;
        let mut last: std::collections::BTreeMap<_, Option<i64>> = std::collections::BTreeMap::new();
        let (mut periods, mut lengths) = (Vec::new(), Vec::new());
        let (mut thread, mut before): (Option<_>, Option<i64>) = (None, None);
        for call in calls.iter() {
            let api = calls.api(call);
            if !matches!(api, Api::Launch | Api::Sync) {
                continue;
            }
            let key = calls.thread(call);
            if thread != Some(key) {
                if let Some(old) = thread.replace(key) {
                    last.insert(old, before);
                }
                before = last.get(&key).copied().flatten();
            }
            if api == Api::Sync {
                before = None;
                continue;
            }
            let start = calls.start_ns(call);
            periods.extend(before.map(|before| start - before));
            lengths.push(calls.end_ns(call) - start);
            before = Some(start);
        }
        let median = |mut values: Vec<i64>| (values.len() >= Self::FEWEST).then(|| Distribution::of(&mut values).p50_ns);
        Self { period_ns: median(periods), call_ns: median(lengths) }
    }
}
