//! Calls of the runtime and driver, and which of them launched an event: one call can launch many (a graph replay).

use std::collections::BTreeMap;

use capture::{Capture, DeviceEvents, HostEvents, Name, SourceIdx};

use super::{NO_CALL, is_time};

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
    pub(in crate::device) rows: Vec<u32>,
    apis: Vec<Option<Api>>,
    groups: Vec<Group>,
    index: BTreeMap<(SourceIdx, u32), usize>,
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
    pub(super) fn read(capture: &'c Capture, run_idx: u32) -> Self {
        let table = &capture.tables.host_events;
        let kinds = [capture.names.find("runtime"), capture.names.find("driver")];
        let mut calls = Self { table, rows: Vec::new(), apis: vec![None; capture.names.len()], groups: Vec::new(), index: BTreeMap::new() };
        let mut pairs: Vec<Vec<(u32, u32)>> = Vec::new();
        let (mut last_key, mut last) = ((SourceIdx(u32::MAX), 0), 0);
        for row in 0..table.t_start_ns.len() {
            let is_call = table.run_idx[row] == run_idx && kinds.contains(&Some(table.kind[row]));
            if !is_call || !is_time(table.t_start_ns[row]) || !is_time(table.t_end_ns[row]) {
                continue;
            }
            calls.rows.push(row as u32);
            let name = table.name[row];
            let Some(slot) = calls.apis.get_mut(name.0 as usize) else { continue };
            let api = *slot.get_or_insert_with(|| Api::of(capture.text(name)));
            if table.correlation[row] == 0 || !api.is_launch() {
                continue;
            }
            let key = (table.source_idx[row], table.process[row]);
            if key != last_key || pairs.is_empty() {
                last = *calls.index.entry(key).or_insert_with(|| {
                    pairs.push(Vec::new());
                    pairs.len() - 1
                });
                last_key = key;
            }
            pairs[last].push((table.correlation[row], row as u32));
        }
        if !calls.rows.is_sorted_by_key(|row| table.t_start_ns[*row as usize]) {
            calls.rows.sort_by_key(|row| table.t_start_ns[*row as usize]);
        }
        calls.groups = pairs.into_iter().map(Group::new).collect();
        calls
    }

    /// True when no call was recorded.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The call behind each device event.
    pub(super) fn of(&self, events: &DeviceEvents, rows: &[u32]) -> Vec<u32> {
        let (mut last_key, mut last) = ((SourceIdx(u32::MAX), 0), None);
        rows.iter()
            .map(|&row| {
                let at = row as usize;
                let key = (events.source_idx[at], events.process[at]);
                if key != last_key {
                    (last_key, last) = (key, self.group(key));
                }
                match (last, events.correlation[at]) {
                    (Some(group), id) if id != 0 => group.find(id),
                    _ => NO_CALL,
                }
            })
            .collect()
    }

    /// The calls of a process; where a recorder does not tell the process of device events, those of the only one.
    fn group(&self, key: (SourceIdx, u32)) -> Option<&Group> {
        let of_source = || {
            let mut processes = self.index.range((key.0, 0)..=(key.0, u32::MAX));
            let only = processes.next().filter(|_| key.1 == 0);
            only.filter(|_| processes.next().is_none()).map(|(_, at)| at)
        };
        self.index.get(&key).or_else(of_source).map(|at| &self.groups[*at])
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
