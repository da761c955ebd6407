//! Graph replays: how many were launched, how many left kernels in the recording, and what a capture pass looks like.

use crate::device::timeline::{Api, Event, Timeline};

/// Graph replays on one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graphs {
    /// Replays with kernels, or recorded as one block.
    pub replays: u64,
    /// Of those, recorded as one block: their kernels are not in the recording.
    pub opaque_replays: u64,
    /// Launches of graphs by the processes that work on this device, up to the last event on it.
    pub launches: u64,
    /// Launches that left nothing on any device: the recorder lost their kernels. Idle time cannot be trusted then.
    pub lost_replays: u64,
    /// Kernels of a replay, the median over replays.
    pub kernels_per_replay: u64,
}

/// Collects replays in order of start.
#[derive(Clone, Debug)]
pub(super) struct GraphTally {
    opaque_replays: u64,
    last_end_ns: i64,
    /// Launching call of each event of a replay.
    calls: Vec<u32>,
}

impl Default for GraphTally {
    fn default() -> Self {
        Self { opaque_replays: 0, last_end_ns: i64::MIN, calls: Vec::new() }
    }
}

impl GraphTally {
    /// Adds an event.
    #[inline]
    pub(super) fn add(&mut self, event: &Event) {
        self.last_end_ns = self.last_end_ns.max(event.end_ns);
        self.opaque_replays += u64::from(event.is_replay);
        if event.by_graph_launch {
            self.calls.push(event.call);
        }
    }

    /// The replays, beside the launches of the arm.
    pub(super) fn graphs(mut self, timeline: &Timeline<'_>) -> Graphs {
        if !self.calls.is_sorted() {
            self.calls.sort_unstable();
        }
        let mut sizes: Vec<u64> = self.calls.chunk_by(|a, b| a == b).map(|replay| replay.len() as u64).collect();
        self.calls.dedup();
        sizes.sort_unstable();
        let mut graphs = Graphs {
            replays: (self.calls.len() as u64).max(self.opaque_replays),
            opaque_replays: self.opaque_replays,
            kernels_per_replay: sizes.get(sizes.len() / 2).copied().unwrap_or(0),
            ..Graphs::default()
        };
        graphs.count_launches(timeline, &self.calls, self.last_end_ns);
        graphs
    }
}

impl Graphs {
    /// Launches of the threads that are seen to replay on this device; a process may serve several.
    fn count_launches(&mut self, timeline: &Timeline<'_>, replayed: &[u32], last_end: i64) {
        let calls = &timeline.calls;
        let threads: std::collections::BTreeSet<_> = replayed.iter().map(|call| calls.thread(*call)).collect();
        for &call in calls.graph_launches() {
            let is_ours = threads.contains(&calls.thread(call)) || (timeline.lanes.len() == 1 && threads.is_empty());
            if is_ours && calls.end_ns(call) <= last_end {
                self.launches += 1;
                self.lost_replays += u64::from(replayed.binary_search(&call).is_err() && self.opaque_replays == 0);
            }
        }
    }

    /// True when so many replays are lost that idle time means nothing.
    pub fn hide_work(&self) -> bool {
        self.lost_replays > 0
    }
}

/// True when the recording is of a pass that captures graphs: kernels are put into graphs and not run.
pub fn is_capture_pass(timeline: &Timeline<'_>, kernels: u64) -> bool {
    let (captures, launches, replays) = [Api::Capture, Api::Launch, Api::GraphLaunch].map(|api| timeline.calls.count(api)).into();
    // A serving process captures before it serves: then replays follow, or most launches leave a kernel.
    captures > 0 && replays == 0 && kernels * 2 < launches
}
