//! Which annotations are steps.

use std::collections::BTreeMap;

use capture::{Name, SourceIdx};

use super::label::StepLabel;
use crate::device::intervals::Run;
use crate::device::timeline::Timeline;

/// How steps were told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepSource {
    /// The engine's own annotations.
    Engine,
    /// `ProfilerStep#N` of a training or evaluation loop.
    Profiler,
    /// A range that repeats, put there by whoever wrote the program.
    Range,
    /// Replays of a graph that holds a whole step.
    Replay,
}

impl StepSource {
    /// The words used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Engine => "engine annotations",
            Self::Profiler => "profiler steps",
            Self::Range => "repeating ranges",
            Self::Replay => "graph replays",
        }
    }
}

/// One step as annotated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostStep {
    /// File, and process; of annotations on a device file and device.
    pub key: (SourceIdx, u32),
    /// Start, ns.
    pub start_ns: i64,
    /// End, ns.
    pub end_ns: i64,
    /// What it says.
    pub label: StepLabel,
}

/// Steps of one arm in order of start; those of one process do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// How they were told; nothing without steps.
    pub source: Option<StepSource>,
    /// The steps.
    pub steps: Vec<HostStep>,
    /// True where only the device's rows of annotations are there.
    pub on_device: bool,
    /// Places in `steps` by file and process, or device.
    pub(super) by_key: BTreeMap<(SourceIdx, u32), Vec<usize>>,
}

/// Fewest ranges of one name that make steps.
const FEWEST: u64 = 3;

impl Steps {
    /// Finds the steps of an arm: the engine's, else the profiler's, else ranges that repeat.
    pub fn find(timeline: &Timeline<'_>) -> Self {
        let marks = &timeline.marks;
        for source in [StepSource::Engine, StepSource::Profiler, StepSource::Range] {
            for (rows, on_device) in [(&marks.annotations, false), (&marks.device_annotations, true)] {
                let found = if source == StepSource::Range { ranges(timeline, rows) } else { labelled(timeline, rows, source) };
                // A mark on the host holds what it launched only where launches were recorded.
                let is_usable = !found.is_empty() && (on_device || !timeline.calls.is_empty() || timeline.lanes.is_empty());
                if is_usable {
                    return Self::new(source, found, on_device, timeline);
                }
            }
        }
        Self::arranged(StepSource::Replay, replays(timeline), false)
    }

    fn new(source: StepSource, rows: Vec<(u32, StepLabel)>, on_device: bool, timeline: &Timeline<'_>) -> Self {
        let table = &timeline.capture().tables.host_events;
        let step = |(row, label): (u32, StepLabel)| {
            let at = row as usize;
            let key = (table.source_idx[at], table.process[at]);
            HostStep { key, start_ns: table.t_start_ns[at], end_ns: table.t_end_ns[at], label }
        };
        Self::arranged(source, rows.into_iter().map(step).collect(), on_device)
    }

    /// Puts steps in order.
    fn arranged(source: StepSource, mut steps: Vec<HostStep>, on_device: bool) -> Self {
        steps.sort_by_key(|step| (step.start_ns, std::cmp::Reverse(step.end_ns), step.key));
        // Of nested steps the outer one counts; one that is only overlapped begins where that one ends.
        let mut last_end: BTreeMap<(SourceIdx, u32), i64> = BTreeMap::new();
        steps.retain_mut(|step| {
            let end = last_end.entry(step.key).or_insert(i64::MIN);
            step.start_ns = step.start_ns.max(*end);
            *end = (*end).max(step.end_ns);
            step.end_ns > step.start_ns
        });
        let mut by_key: BTreeMap<(SourceIdx, u32), Vec<usize>> = BTreeMap::new();
        for (at, step) in steps.iter().enumerate() {
            by_key.entry(step.key).or_default().push(at);
        }
        Self { source: (!steps.is_empty()).then_some(source), steps, on_device, by_key }
    }

    /// The step of a process at a moment on its host; none where only the device's marks are there.
    pub fn at(&self, key: (SourceIdx, u32), t_ns: i64) -> Option<&HostStep> {
        let own = self.by_key.get(&key).filter(|_| !self.on_device)?;
        let behind = own.partition_point(|at| self.steps[*at].start_ns <= t_ns);
        let step = &self.steps[own[behind.checked_sub(1)?]];
        (t_ns < step.end_ns).then_some(step)
    }

    /// Steps as the host's time by file and process; empty for marks on a device.
    pub fn host_runs(&self) -> BTreeMap<(SourceIdx, u32), Vec<Run>> {
        let mut runs: BTreeMap<(SourceIdx, u32), Vec<Run>> = BTreeMap::new();
        // Replays follow each other without anything between by their making.
        for step in self.steps.iter().filter(|_| !self.on_device && self.source != Some(StepSource::Replay)) {
            runs.entry(step.key).or_default().push((step.start_ns, step.end_ns));
        }
        runs
    }
}

/// A graph of a whole step holds hundreds of kernels, one of a layer a dozen.
const WHOLE_STEP: u64 = 100;

/// Replays as steps, from one launch to the next of the same thread; none where a step takes many replays.
fn replays(timeline: &Timeline<'_>) -> Vec<HostStep> {
    let calls = &timeline.calls;
    if calls.graph_launches().len() < FEWEST as usize {
        return Vec::new();
    }
    let mut kernels: BTreeMap<u32, u64> = BTreeMap::new();
    let mut stretch = (u32::MAX, 0);
    for event in timeline.lanes.iter().flat_map(|lane| timeline.events(lane)).filter(|event| event.by_graph_launch) {
        if event.call != stretch.0 {
            *kernels.entry(stretch.0).or_default() += stretch.1;
            stretch = (event.call, 0);
        }
        stretch.1 += u64::from(event.is_kernel());
    }
    *kernels.entry(stretch.0).or_default() += stretch.1;
    kernels.retain(|_, count| *count > 0);
    let mut sizes: Vec<u64> = kernels.values().copied().collect();
    sizes.sort_unstable();
    if sizes.len() < FEWEST as usize || sizes[sizes.len() / 2] < WHOLE_STEP {
        return Vec::new();
    }
    let mut steps: Vec<HostStep> = Vec::new();
    let mut last: BTreeMap<(SourceIdx, u32, u32), usize> = BTreeMap::new();
    for call in calls.graph_launches().iter().copied().filter(|call| kernels.contains_key(call)) {
        let (start_ns, end_ns) = (calls.start_ns(call), calls.end_ns(call).saturating_add(1));
        if let Some(before) = last.insert(calls.thread(call), steps.len()) {
            steps[before].end_ns = start_ns;
        }
        steps.push(HostStep { key: calls.process(call), start_ns, end_ns, label: StepLabel::default() });
    }
    steps
}

fn labelled(timeline: &Timeline<'_>, rows: &[u32], source: StepSource) -> Vec<(u32, StepLabel)> {
    let table = &timeline.capture().tables.host_events;
    let mut known: BTreeMap<Name, Option<StepLabel>> = BTreeMap::new();
    rows.iter()
        .filter_map(|&row| {
            let name = table.name[row as usize];
            let text = timeline.text(name);
            let label = known
                .entry(name)
                .or_insert_with(|| StepLabel::read(text).filter(|_| text.starts_with("ProfilerStep") == (source == StepSource::Profiler)));
            label.clone().map(|label| (row, label))
        })
        .collect()
}

/// One name of a range without its numbers.
#[derive(Default)]
struct Repeated {
    count: u64,
    total_ns: i64,
    last_end: i64,
    overlaps: bool,
    key: Option<(SourceIdx, u32, u32)>,
}

/// Ranges of the name that repeats without overlap and covers most time; what covers little is a part of a step.
fn ranges(timeline: &Timeline<'_>, rows: &[u32]) -> Vec<(u32, StepLabel)> {
    let table = &timeline.capture().tables.host_events;
    let mut stems: BTreeMap<Name, String> = BTreeMap::new();
    let mut repeated: BTreeMap<String, Repeated> = BTreeMap::new();
    let mut span: Option<(i64, i64)> = None;
    let is_long = |row: &&u32| table.t_end_ns[**row as usize] > table.t_start_ns[**row as usize];
    for row in rows.iter().filter(is_long) {
        let at = *row as usize;
        let (start, end) = (table.t_start_ns[at], table.t_end_ns[at]);
        span = Some(span.map_or((start, end), |span| (span.0.min(start), span.1.max(end))));
        let stem = stems.entry(table.name[at]).or_insert_with(|| stem(timeline.text(table.name[at])));
        let key = (table.source_idx[at], table.process[at], table.thread[at]);
        if !repeated.contains_key(stem.as_str()) {
            repeated.insert(stem.clone(), Repeated { last_end: i64::MIN, key: Some(key), ..Repeated::default() });
        }
        let Some(entry) = repeated.get_mut(stem.as_str()) else { continue };
        entry.overlaps |= start < entry.last_end || entry.key != Some(key);
        entry.count += 1;
        entry.total_ns = entry.total_ns.saturating_add(end - start);
        entry.last_end = entry.last_end.max(end);
    }
    let window = span.map_or(0, |span| span.1 - span.0);
    let usable = repeated
        .iter()
        .filter(|(stem, entry)| !stem.is_empty() && !entry.overlaps && entry.count >= FEWEST && entry.total_ns.saturating_mul(2) >= window);
    let Some((best, _)) = usable.max_by_key(|(stem, entry)| (entry.total_ns, std::cmp::Reverse((*stem).clone()))) else {
        return Vec::new();
    };
    let is_best = |row: &u32| stems.get(&table.name[*row as usize]).is_some_and(|stem| stem == best);
    rows.iter().copied().filter(is_best).map(|row| (row, StepLabel::default())).collect()
}

/// A name without its numbers; empty for marks of the compiler and of collectives, which are parts of steps.
fn stem(name: &str) -> String {
    if name.starts_with("##") || name.starts_with("nccl") || name.starts_with("aten") {
        return String::new();
    }
    name.chars().filter(|c| !c.is_ascii_digit()).take(128).collect()
}
