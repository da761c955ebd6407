//! Graph replays: how many were launched, how many left kernels in the recording, and what a capture pass looks like.

use crate::device::timeline::{Api, Lane, Timeline};

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

impl Graphs {
    /// Counts them on one lane.
    pub fn of(timeline: &Timeline<'_>, lane: &Lane) -> Self {
        let mut graphs = Self::default();
        let mut replayed: Vec<u32> = Vec::new();
        let mut last_end = i64::MIN;
        for event in timeline.events(lane) {
            last_end = last_end.max(event.end_ns);
            graphs.opaque_replays += u64::from(event.is_replay);
            if timeline.calls.api(event.call).is_graph_launch() {
                replayed.push(event.call);
            }
        }
        if !replayed.is_sorted() {
            replayed.sort_unstable();
        }
        let mut sizes: Vec<u64> = replayed.chunk_by(|a, b| a == b).map(|replay| replay.len() as u64).collect();
        replayed.dedup();
        graphs.replays = (replayed.len() as u64).max(graphs.opaque_replays);
        sizes.sort_unstable();
        graphs.kernels_per_replay = sizes.get(sizes.len() / 2).copied().unwrap_or(0);
        graphs.count_launches(timeline, &replayed, last_end);
        graphs
    }

    /// Launches of the threads that are seen to replay on this device; a process may serve several.
    fn count_launches(&mut self, timeline: &Timeline<'_>, replayed: &[u32], last_end: i64) {
        let calls = &timeline.calls;
        let threads: std::collections::BTreeSet<_> = replayed.iter().map(|call| calls.thread(*call)).collect();
        for call in calls.iter().filter(|call| calls.api(*call) == Api::GraphLaunch) {
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
    let count = |api: Api| timeline.calls.iter().filter(|call| timeline.calls.api(*call) == api).count() as u64;
    let (captures, launches, replays) = (count(Api::Capture), count(Api::Launch), count(Api::GraphLaunch));
    // A serving process captures before it serves: then replays follow, or most launches leave a kernel.
    captures > 0 && replays == 0 && kernels * 2 < launches
}
