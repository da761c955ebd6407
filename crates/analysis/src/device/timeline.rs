//! What ran on each device of one arm, in order of start, each event with the call that launched it.
//!
//! Rows stay where they are: a lane is a list of row numbers, so that ten million events cost eight bytes each. Names are
//! read once, not once per event.

mod api;
mod calls;
mod host;
mod lanes;

use std::collections::BTreeMap;

use capture::{Capture, DeviceEvents, Name};

pub use api::Api;
pub use calls::{Calls, NamedCalls};
pub use host::Marks;
pub use lanes::Lane;

use super::kernels::{self, Category, MatrixUnits};

/// Times beyond this many ns from zero are damage; within it no difference of two times overflows.
const FURTHEST_NS: i64 = 1 << 61;
/// Marks an event without a launching call in the recording.
pub const NO_CALL: u32 = u32::MAX;
/// Marks, in a lane's list of calls, one that replays a graph.
const REPLAYS: u32 = 1 << 31;

/// What kind of work an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A kernel that computes, or a graph replay recorded as one block.
    Compute,
    /// A kernel that communicates.
    Communication,
    /// A copy.
    Copy,
    /// A memset.
    Memset,
}

/// One event on a device.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Row in `device_events`.
    pub row: u32,
    /// Start, ns.
    pub start_ns: i64,
    /// End, ns, not before the start.
    pub end_ns: i64,
    /// Stream.
    pub stream: u32,
    /// Kernel name, or direction of a copy.
    pub name: Name,
    /// Kind of work.
    pub class: Class,
    /// What it does.
    pub category: Category,
    /// Row in `host_events` of the call that launched it, or [`NO_CALL`].
    pub call: u32,
    /// Replayed from a graph.
    pub in_graph: bool,
    /// Launched by a call that replays a graph.
    pub by_graph_launch: bool,
    /// A replay recorded as one block.
    pub is_replay: bool,
}

impl Event {
    /// True for a kernel.
    pub fn is_kernel(&self) -> bool {
        matches!(self.class, Class::Compute | Class::Communication) && !self.is_replay
    }

    /// Length, ns.
    pub fn duration_ns(&self) -> i64 {
        self.end_ns - self.start_ns
    }

    /// True when the call that launched it is in the recording.
    pub fn is_launched(&self) -> bool {
        self.call != NO_CALL
    }
}

/// What a row of `device_events` says by kind and name; of a kernel's name read once.
#[derive(Clone, Copy, Debug)]
struct Meaning {
    class: Class,
    category: Category,
    is_replay: bool,
}

const COPY: Meaning = Meaning { class: Class::Copy, category: Category::Copy, is_replay: false };
const MEMSET: Meaning = Meaning { class: Class::Memset, category: Category::Copy, is_replay: false };
const REPLAY: Meaning = Meaning { class: Class::Compute, category: Category::Graph, is_replay: true };
const UNKNOWN: Meaning = Meaning { class: Class::Compute, category: Category::Other, is_replay: false };

/// Everything that ran on the devices of one arm.
#[derive(Debug)]
pub struct Timeline<'c> {
    capture: &'c Capture,
    run_idx: u32,
    /// One per device, by name.
    pub lanes: Vec<Lane>,
    /// Calls of the runtime and driver.
    pub calls: Calls<'c>,
    /// What else the host's threads did.
    pub marks: Marks,
    /// Rows of `device_events` left out since their times are no times.
    pub dropped: u64,
    /// By name; of names that no kernel has [`UNKNOWN`].
    meanings: Vec<Meaning>,
    matrix: BTreeMap<Name, MatrixUnits>,
    kinds: RowKinds,
}

/// The interned words of the column `kind`.
#[derive(Clone, Copy, Debug)]
struct RowKinds {
    kernel: Option<Name>,
    memcpy: Option<Name>,
    memset: Option<Name>,
    graph: Option<Name>,
}

impl<'c> Timeline<'c> {
    /// Reads one arm; nothing where neither a device nor a call was recorded.
    pub fn read(capture: &'c Capture, run_idx: u32) -> Option<Self> {
        let names = &capture.names;
        let (calls, marks) = host::read(capture, run_idx);
        let mut is_met = vec![false; names.len()];
        let mut met: Vec<Name> = Vec::new();
        let (lanes, dropped) = lanes::read(capture, run_idx, &calls, |name| {
            if let Some(is_met @ false) = is_met.get_mut(name.0 as usize) {
                *is_met = true;
                met.push(name);
            }
        });
        if lanes.is_empty() && calls.is_empty() {
            return None;
        }
        let [kernel, memcpy, memset, graph] = ["kernel", "memcpy", "memset", "graph"].map(|kind| names.find(kind));
        let kinds = RowKinds { kernel, memcpy, memset, graph };
        let meanings = vec![UNKNOWN; names.len()];
        let mut timeline = Self { capture, run_idx, lanes, calls, marks, dropped, meanings, matrix: BTreeMap::new(), kinds };
        for name in met {
            timeline.learn(name);
        }
        Some(timeline)
    }

    /// Reads the name of a kernel.
    fn learn(&mut self, name: Name) {
        let kind = kernels::kind(self.capture.text(name));
        let class = if kind.category == Category::Communication { Class::Communication } else { Class::Compute };
        self.meanings[name.0 as usize] = Meaning { class, category: kind.category, is_replay: false };
        self.matrix.insert(name, kind.matrix);
    }

    /// Events of a lane in order of start.
    pub fn events<'t>(&'t self, lane: &'t Lane) -> impl Iterator<Item = Event> + 't {
        self.events_at(lane, 0..lane.len())
    }

    /// Events at some places of a lane, in order of start.
    pub fn events_at<'t>(&'t self, lane: &'t Lane, places: std::ops::Range<usize>) -> impl Iterator<Item = Event> + 't {
        let table = &self.capture.tables.device_events;
        lane.rows[places.clone()].iter().zip(&lane.calls[places]).map(move |(&row, &call)| self.event(table, row, call))
    }

    /// The event at a place of a lane.
    pub fn event_at(&self, lane: &Lane, place: usize) -> Event {
        self.event(&self.capture.tables.device_events, lane.rows[place], lane.calls[place])
    }

    #[allow(clippy::inline_always)] // Every sweep calls it for every event.
    #[inline(always)]
    fn event(&self, table: &DeviceEvents, row: u32, marked: u32) -> Event {
        let at = row as usize;
        let call = if marked == NO_CALL { NO_CALL } else { marked & !REPLAYS };
        let name = table.name[at];
        let meaning = self.meaning(table.kind[at], name);
        let start_ns = table.t_start_ns[at];
        Event {
            row,
            start_ns,
            end_ns: table.t_end_ns[at].max(start_ns),
            stream: table.stream[at],
            name,
            class: meaning.class,
            category: meaning.category,
            call,
            in_graph: meaning.is_replay || table.graph[at] != 0 || (call != NO_CALL && marked & REPLAYS != 0),
            by_graph_launch: call != NO_CALL && marked & REPLAYS != 0,
            is_replay: meaning.is_replay,
        }
    }

    #[inline]
    fn meaning(&self, kind: Name, name: Name) -> Meaning {
        let kind = Some(kind);
        if kind == self.kinds.kernel {
            self.meanings.get(name.0 as usize).copied().unwrap_or(UNKNOWN)
        } else if kind == self.kinds.memcpy {
            COPY
        } else if kind == self.kinds.memset {
            MEMSET
        } else if kind == self.kinds.graph {
            REPLAY
        } else {
            UNKNOWN
        }
    }

    /// Whether a kernel computes on matrix units, by its name.
    pub fn matrix(&self, name: Name) -> MatrixUnits {
        self.matrix.get(&name).copied().unwrap_or(MatrixUnits::Unknown)
    }

    /// Bytes of a copy, 0 where not told.
    pub fn bytes(&self, event: &Event) -> i64 {
        self.capture.tables.device_events.byte_count[event.row as usize].max(0)
    }

    /// The text behind a name.
    pub fn text(&self, name: Name) -> &'c str {
        self.capture.text(name)
    }

    /// The capture it reads.
    pub fn capture(&self) -> &'c Capture {
        self.capture
    }

    /// The arm.
    pub fn run_idx(&self) -> u32 {
        self.run_idx
    }
}

/// True for a time from which differences can be taken.
#[inline]
pub(super) fn is_time(t_ns: i64) -> bool {
    // One comparison: far below wraps to far above.
    t_ns.wrapping_add(FURTHEST_NS).cast_unsigned() <= 2 * FURTHEST_NS.cast_unsigned()
}
