//! One lane per device: which rows belong to the same device when several files, ranks and processes use its number.

use std::collections::BTreeMap;

use capture::{Capture, Name, SourceIdx};

use super::calls::{Calls, Group};
use super::is_time;
use crate::device::few::Few;

/// What ran on one device.
#[derive(Clone, Debug, Default)]
pub struct Lane {
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
    /// Files that tell of it.
    pub sources: Vec<SourceIdx>,
    /// Rows of `device_events`, by start and end.
    pub(super) rows: Vec<u32>,
    /// Row of the launching call in `host_events` for each.
    pub(super) calls: Vec<u32>,
}

impl Lane {
    /// Events on it.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Never true: a device without events has no lane.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// Rows that one file and process put on one device number.
struct Part<'t> {
    source: SourceIdx,
    process: u32,
    device: u32,
    rank: Option<u32>,
    host: u32,
    span: (i64, i64),
    rows: Vec<u32>,
    calls: Vec<u32>,
    /// Calls of the process by correlation id.
    group: Option<&'t Group>,
    /// Where in them the last event's was found.
    near: usize,
}

/// Most devices looked at; no recording of a real system has more, a damaged one may.
const MOST: usize = 1_024;

/// The lanes of an arm by rank and device, and how many rows have no usable time. `meet` is shown each name.
pub(super) fn read(capture: &Capture, run_idx: u32, calls: &Calls<'_>, meet: impl FnMut(Name)) -> (Vec<Lane>, u64) {
    let described = Described::new(capture, run_idx);
    let (parts, dropped) = parts(&described, run_idx, calls, meet);
    let mut groups: BTreeMap<(u32, u32), Vec<Vec<Part<'_>>>> = BTreeMap::new();
    for part in parts {
        let alike = groups.entry((part.device, part.host)).or_default();
        match alike.iter_mut().find(|group| is_same_device(group, &part)) {
            Some(group) => group.push(part),
            None => alike.push(vec![part]),
        }
    }
    let all = groups.into_values().flatten();
    let mut lanes: Vec<(SourceIdx, Lane)> = all.map(|group| (group[0].source, lane(&described, group))).collect();
    lanes.sort_by_key(|(source, lane)| (lane.rank, lane.device, *source));
    label(capture, &mut lanes);
    let beyond: usize = lanes.iter().skip(MOST).map(|(_, lane)| lane.len()).sum();
    (lanes.into_iter().take(MOST).map(|(_, lane)| lane).collect(), dropped + beyond as u64)
}

fn parts<'t>(described: &Described<'_>, run_idx: u32, calls: &'t Calls<'_>, mut meet: impl FnMut(Name)) -> (Vec<Part<'t>>, u64) {
    let table = &described.capture.tables.device_events;
    let count = table.t_start_ns.len();
    let (starts, ends, runs, names) = (&table.t_start_ns[..count], &table.t_end_ns[..count], &table.run_idx, &table.name[..count]);
    let (sources, processes, devices) = (&table.source_idx, &table.process, &table.device);
    let correlations = &table.correlation[..count];
    let mut parts: Few<(SourceIdx, u32, u32), Part<'t>> = Few::default();
    let mut dropped = 0;
    for row in (0..count).filter(|row| runs[*row] == run_idx) {
        let (start, end) = (starts[row], ends[row]);
        if !is_time(start) || !is_time(end) {
            dropped += 1;
            continue;
        }
        let (source, process, device) = (sources[row], processes[row], devices[row]);
        let part = parts.entry((source, process, device), || {
            let ((rank, host), group) = (described.rank(source, device), calls.group((source, process)));
            Part { source, process, device, rank, host, span: (start, end), rows: Vec::new(), calls: Vec::new(), group, near: 0 }
        });
        part.span = (part.span.0.min(start), part.span.1.max(end));
        part.rows.push(row as u32);
        part.calls.push(calls.find(part.group, correlations[row], &mut part.near));
        meet(names[row]);
    }
    (parts.into_pairs().map(|(_, part)| part).collect(), dropped)
}

/// What files tell of their devices, by file.
struct Described<'c> {
    capture: &'c Capture,
    own: BTreeMap<(SourceIdx, u32), usize>,
    of_source: BTreeMap<SourceIdx, OfSource>,
}

/// What the devices of one file have in common.
struct OfSource {
    first: usize,
    rank: Option<u32>,
    are_alike: bool,
}

impl<'c> Described<'c> {
    fn new(capture: &'c Capture, run_idx: u32) -> Self {
        let table = &capture.tables.devices;
        let mut described = Self { capture, own: BTreeMap::new(), of_source: BTreeMap::new() };
        for at in (0..table.device.len()).filter(|at| table.run_idx[*at] == run_idx) {
            described.own.entry((table.source_idx[at], table.device[at])).or_insert(at);
            let of_source = described.of_source.entry(table.source_idx[at]).or_insert(OfSource { first: at, rank: None, are_alike: true });
            of_source.rank = of_source.rank.or(u32::try_from(table.rank[at]).ok());
            of_source.are_alike &= table.name[of_source.first] == table.name[at];
        }
        described
    }

    /// Rank and host of the process that wrote a file, by its devices.
    fn rank(&self, source: SourceIdx, device: u32) -> (Option<u32>, u32) {
        let table = &self.capture.tables.devices;
        let own = self.own.get(&(source, device)).copied();
        let of_source = self.of_source.get(&source);
        let rank = own.and_then(|at| u32::try_from(table.rank[at]).ok()).or(of_source.and_then(|all| all.rank));
        (rank, own.or(of_source.map(|all| all.first)).map_or(0, |at| table.host[at].0))
    }

    /// Fills in what the recorder tells of the device. Numbers of AMD's driver stand in no list of devices: then what all
    /// of a file's devices share is told.
    fn fill(&self, source: SourceIdx, lane: &mut Lane) {
        let table = &self.capture.tables.devices;
        let shared = || self.of_source.get(&source).filter(|all| all.are_alike).map(|all| all.first);
        let Some(at) = self.own.get(&(source, lane.device)).copied().or_else(shared) else { return };
        lane.world_size = table.world_size[at];
        lane.name = self.capture.text(table.name[at]).to_string();
        lane.vendor = self.capture.text(table.vendor[at]).to_string();
        lane.sm_count = table.sm_count[at];
        lane.bandwidth_bytes_per_s = table.bandwidth_bytes_per_s[at];
    }
}

/// One file tells its devices apart by number. Parts of one number and host from several files are one device when they are of one rank, or of one
/// process at other times.
fn is_same_device(group: &[Part<'_>], part: &Part<'_>) -> bool {
    group.iter().any(|other| {
        let apart = || part.span.0 >= other.span.1 || other.span.0 >= part.span.1;
        let one_rank = part.rank.is_some() && part.rank == other.rank;
        let one_process = part.rank == other.rank && part.process == other.process && part.process != 0 && apart();
        part.source == other.source || one_rank || one_process
    })
}

fn lane(described: &Described<'_>, mut group: Vec<Part<'_>>) -> Lane {
    let (source, device, rank) = (group[0].source, group[0].device, group[0].rank);
    let sources: std::collections::BTreeSet<SourceIdx> = group.iter().map(|part| part.source).collect();
    let table = &described.capture.tables.device_events;
    let key = |row: &u32| (table.t_start_ns[*row as usize], table.t_end_ns[*row as usize]);
    let first = group.swap_remove(0);
    let (mut rows, mut calls) = (first.rows, first.calls);
    for part in group {
        rows.extend(part.rows);
        calls.extend(part.calls);
    }
    if !rows.is_sorted_by_key(key) {
        let mut pairs: Vec<(u32, u32)> = rows.into_iter().zip(calls).collect();
        pairs.sort_by_key(|(row, _)| (key(row), *row));
        (rows, calls) = pairs.into_iter().unzip();
    }
    let mut lane = Lane { device, rank, rows, calls, sources: sources.into_iter().collect(), ..Lane::default() };
    described.fill(source, &mut lane);
    lane
}

/// Names lanes by number; where two have the same by rank, else by file.
fn label(capture: &Capture, lanes: &mut [(SourceIdx, Lane)]) {
    let mut uses: BTreeMap<u32, Vec<Option<u32>>> = BTreeMap::new();
    for (_, lane) in lanes.iter() {
        uses.entry(lane.device).or_default().push(lane.rank);
    }
    for (source, lane) in lanes {
        let ranks = &uses[&lane.device];
        let same_rank = ranks.iter().filter(|rank| **rank == lane.rank).count();
        lane.label = match (ranks.len(), lane.rank) {
            (1, _) => lane.device.to_string(),
            (_, Some(rank)) if same_rank == 1 => format!("rank{rank}/{}", lane.device),
            _ => {
                let file = capture.manifest.sources.get(source.0 as usize).map_or("", |source| source.name.as_str());
                format!("{}/{}", file.rsplit('/').next().unwrap_or(file), lane.device)
            }
        };
    }
}
