//! Calls of the runtime and driver, and which of them launched an event: one call can launch many (a graph replay).

use capture::{Capture, DeviceEvents, HostEvents, Name, SourceIdx};

use super::{NO_CALL, REPLAYS, is_time};
use crate::device::few::Few;

/// What a call does, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Api {
    /// Launches one kernel.
    Launch,
    /// Replays a graph.
    GraphLaunch,
    /// Copies.
    Copy,
    /// Fills.
    Memset,
    /// Waits for the device.
    Sync,
    /// Begins or ends the capture of a graph.
    Capture,
    /// Loads or links code.
    Load,
    /// Allocates or frees.
    Memory,
    /// Anything else.
    Other,
}

impl Api {
    const COUNT: usize = Self::Other as usize + 1;

    /// True for the replay of a graph.
    pub fn is_graph_launch(self) -> bool {
        self == Self::GraphLaunch
    }

    /// True for a call that can put work on a device.
    pub fn is_launch(self) -> bool {
        matches!(self, Self::Launch | Self::GraphLaunch | Self::Copy | Self::Memset)
    }

    /// Reads the name of a call of CUDA or HIP.
    pub fn of(name: &str) -> Self {
        if name.contains("GraphLaunch") {
            Self::GraphLaunch
        } else if name.contains("Launch") {
            Self::Launch
        } else if name.contains("Memcpy") {
            Self::Copy
        } else if name.contains("Memset") {
            Self::Memset
        } else if name.contains("Synchronize") {
            Self::Sync
        } else if name.contains("BeginCapture") || name.contains("EndCapture") {
            Self::Capture
        } else if ["ModuleLoad", "LibraryLoad", "LinkComplete", "LinkCreate", "nvrtcCompile", "hiprtcCompile"]
            .iter()
            .any(|part| name.contains(part))
        {
            Self::Load
        } else if name.contains("Malloc") || name.contains("Free") || name.contains("MemAlloc") {
            Self::Memory
        } else {
            Self::Other
        }
    }
}

/// Calls of one arm.
#[derive(Debug)]
pub struct Calls<'c> {
    table: &'c HostEvents,
    /// Rows of `host_events` that are calls, in order of start.
    rows: Vec<u32>,
    /// Of those the ones that wait, replay graphs, and load code.
    syncs: Vec<u32>,
    graph_launches: Vec<u32>,
    loads: Vec<u32>,
    counts: [u64; Api::COUNT],
    apis: Vec<Option<Api>>,
    groups: Few<(SourceIdx, u32), Group>,
}

/// Rows of `host_events` that are no calls, by kind, in the order of the table.
#[derive(Debug, Default)]
pub struct Marks {
    /// Ranges on the host.
    pub annotations: Vec<u32>,
    /// Ranges on a device.
    pub device_annotations: Vec<u32>,
    /// What the profiler did.
    pub overheads: Vec<u32>,
    /// Ops and frames.
    pub scopes: Vec<u32>,
}

/// What a row of `host_events` is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowKind {
    Call,
    Annotation,
    DeviceAnnotation,
    Overhead,
    Scope,
    Other,
}

/// Calls of one process in one file by correlation id. Ids repeat across processes.
#[derive(Debug, Default)]
struct Group {
    first_id: u32,
    /// Row by id less the first one; [`NO_CALL`] where there is none.
    dense: Vec<u32>,
    /// By id, where ids lie too far apart for that.
    sparse: Vec<(u32, u32)>,
}

impl<'c> Calls<'c> {
    pub(super) fn read(capture: &'c Capture, run_idx: u32) -> (Self, Marks) {
        let table = &capture.tables.host_events;
        let mut calls = Self {
            table,
            rows: Vec::new(),
            syncs: Vec::new(),
            graph_launches: Vec::new(),
            loads: Vec::new(),
            counts: [0; Api::COUNT],
            apis: vec![None; capture.names.len()],
            groups: Few::default(),
        };
        let (mut marks, kinds) = (Marks::default(), kinds(capture));
        let mut pairs: Few<(SourceIdx, u32), Vec<(u32, u32)>> = Few::default();
        for row in 0..table.t_start_ns.len() {
            if table.run_idx[row] != run_idx || !is_time(table.t_start_ns[row]) || !is_time(table.t_end_ns[row]) {
                continue;
            }
            let kind = kinds.iter().find(|(name, _)| *name == table.kind[row]).map_or(RowKind::Other, |(_, kind)| *kind);
            let at = row as u32;
            match kind {
                RowKind::Call | RowKind::Other => {}
                RowKind::Annotation => marks.annotations.push(at),
                RowKind::DeviceAnnotation => marks.device_annotations.push(at),
                RowKind::Overhead => marks.overheads.push(at),
                RowKind::Scope => marks.scopes.push(at),
            }
            if kind == RowKind::Call && calls.take(capture, at) {
                pairs.entry((table.source_idx[row], table.process[row]), Vec::new).push((table.correlation[row], at));
            }
        }
        for (key, pairs) in pairs.into_pairs() {
            calls.groups.entry(key, || Group::new(pairs));
        }
        for rows in [&mut calls.rows, &mut calls.syncs, &mut calls.graph_launches, &mut calls.loads] {
            if !rows.is_sorted_by_key(|row| table.t_start_ns[*row as usize]) {
                rows.sort_by_key(|row| table.t_start_ns[*row as usize]);
            }
        }
        (calls, marks)
    }

    /// Takes a call; true where it can have launched something.
    fn take(&mut self, capture: &Capture, row: u32) -> bool {
        self.rows.push(row);
        let name = self.table.name[row as usize];
        let Some(slot) = self.apis.get_mut(name.0 as usize) else { return false };
        let api = *slot.get_or_insert_with(|| Api::of(capture.text(name)));
        self.counts[api as usize] += 1;
        match api {
            Api::Sync => self.syncs.push(row),
            Api::GraphLaunch => self.graph_launches.push(row),
            Api::Load => self.loads.push(row),
            _ => {}
        }
        api.is_launch() && self.table.correlation[row as usize] != 0
    }

    /// Calls that wait, in order of start.
    pub fn syncs(&self) -> &[u32] {
        &self.syncs
    }

    /// Calls that replay graphs, in order of start.
    pub fn graph_launches(&self) -> &[u32] {
        &self.graph_launches
    }

    /// Calls that load code, in order of start.
    pub fn loads(&self) -> &[u32] {
        &self.loads
    }

    /// How many calls do one thing.
    pub fn count(&self, api: Api) -> u64 {
        self.counts[api as usize]
    }

    /// True when no call was recorded.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The call behind each device event, with a mark where it replays a graph.
    pub(super) fn of(&self, events: &DeviceEvents, rows: &[u32]) -> Vec<u32> {
        let mut last: (Option<(SourceIdx, u32)>, Option<&Group>) = (None, None);
        let mut find = |row: &u32| {
            let at = *row as usize;
            let key = (events.source_idx[at], events.process[at]);
            if last.0 != Some(key) {
                last = (Some(key), self.group(key));
            }
            let (Some(group), id @ 1..) = (last.1, events.correlation[at]) else { return NO_CALL };
            match group.find(id) {
                call @ ..REPLAYS if self.api(call).is_graph_launch() => call | REPLAYS,
                call @ ..REPLAYS => call,
                _ => NO_CALL,
            }
        };
        rows.iter().map(&mut find).collect()
    }

    /// The calls of a process; where a recorder does not tell the process of device events, those of the only one.
    fn group(&self, key: (SourceIdx, u32)) -> Option<&Group> {
        let of_source = || {
            let mut processes = self.groups.pairs().filter(|((source, _), _)| *source == key.0);
            let only = processes.next().filter(|_| key.1 == 0);
            only.filter(|_| processes.next().is_none()).map(|(_, group)| group)
        };
        self.groups.get(key).or_else(of_source)
    }

    /// What a call does; [`Api::Other`] for none.
    #[inline]
    pub fn api(&self, call: u32) -> Api {
        let name = self.table.name.get(call as usize);
        name.and_then(|name| self.apis.get(name.0 as usize).copied().flatten()).unwrap_or(Api::Other)
    }

    /// Start of a call, ns.
    pub fn start_ns(&self, call: u32) -> i64 {
        self.table.t_start_ns[call as usize]
    }

    /// End of a call, ns, not before its start.
    pub fn end_ns(&self, call: u32) -> i64 {
        self.table.t_end_ns[call as usize].max(self.start_ns(call))
    }

    /// Name of a call.
    pub fn name(&self, call: u32) -> Name {
        self.table.name[call as usize]
    }

    /// File and process of a call.
    pub fn process(&self, call: u32) -> (SourceIdx, u32) {
        (self.table.source_idx[call as usize], self.table.process[call as usize])
    }

    /// File, process and thread of a call.
    pub fn thread(&self, call: u32) -> (SourceIdx, u32, u32) {
        let at = call as usize;
        (self.table.source_idx[at], self.table.process[at], self.table.thread[at])
    }

    /// All calls in order of start.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.rows.iter().copied()
    }
}

/// The words of the column `kind` with what they mean.
fn kinds(capture: &Capture) -> Vec<(Name, RowKind)> {
    let words = [
        ("runtime", RowKind::Call),
        ("driver", RowKind::Call),
        ("annotation", RowKind::Annotation),
        ("device_annotation", RowKind::DeviceAnnotation),
        ("overhead", RowKind::Overhead),
        ("op", RowKind::Scope),
        ("frame", RowKind::Scope),
    ];
    words.into_iter().filter_map(|(word, kind)| Some((capture.names.find(word)?, kind))).collect()
}

impl Group {
    /// Of several calls with one id the first counts.
    fn new(mut pairs: Vec<(u32, u32)>) -> Self {
        let first_id = pairs.iter().map(|pair| pair.0).min().unwrap_or(0);
        let span = pairs.iter().map(|pair| pair.0).max().map_or(0, |last| (last - first_id) as usize + 1);
        if span > 4 * pairs.len() + 1024 {
            pairs.sort_unstable();
            pairs.dedup_by_key(|pair| pair.0);
            return Self { first_id, dense: Vec::new(), sparse: pairs };
        }
        let mut dense = vec![NO_CALL; span];
        for (id, row) in pairs {
            let slot = &mut dense[(id - first_id) as usize];
            *slot = (*slot).min(row);
        }
        Self { first_id, dense, sparse: Vec::new() }
    }

    #[inline]
    fn find(&self, id: u32) -> u32 {
        if self.sparse.is_empty() {
            let at = id.wrapping_sub(self.first_id) as usize;
            return self.dense.get(at).copied().unwrap_or(NO_CALL);
        }
        self.sparse.binary_search_by_key(&id, |pair| pair.0).map_or(NO_CALL, |at| self.sparse[at].1)
    }
}
