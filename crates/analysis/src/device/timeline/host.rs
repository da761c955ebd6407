//! One pass over the host's rows: calls by correlation id and by name, the pace of launches, and rows of other kinds.

use capture::{Capture, HostEvents, Name, SourceIdx};

use super::api::Api;
use super::calls::{CallNames, Calls, Group};
use super::is_time;
use crate::device::distribution::{Distribution, Quantiles};
use crate::device::few::Few;

/// Rows of `host_events` that are no calls, by kind, in order of start.
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
    /// Calls of the operating system.
    pub os_calls: Vec<u32>,
    /// When threads were off their CPU.
    pub off_cpu: Vec<u32>,
}

/// What a row is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowKind {
    Call,
    Annotation,
    DeviceAnnotation,
    Overhead,
    Scope,
    OsCall,
    OffCpu,
    Other,
}

/// A thread that calls.
#[derive(Default)]
struct Thread {
    /// Start of its last launch, where no synchronizing call followed.
    launched_ns: Option<i64>,
    /// Place of its process.
    process: usize,
}

/// What the pass fills.
struct Pass<'c> {
    capture: &'c Capture,
    calls: Calls<'c>,
    marks: Marks,
    threads: Few<(SourceIdx, u32, u32), Thread>,
    /// Launches of each process.
    processes: Few<(SourceIdx, u32), Vec<u32>>,
    periods: Quantiles,
}

/// Reads the host's rows of one arm.
pub(super) fn read(capture: &Capture, run_idx: u32) -> (Calls<'_>, Marks) {
    let table = &capture.tables.host_events;
    let kinds = kinds(capture);
    let mut pass = Pass::new(capture, table);
    let count = table.t_start_ns.len();
    let (starts, ends, runs, row_kinds) = (&table.t_start_ns[..count], &table.t_end_ns[..count], &table.run_idx, &table.kind);
    let mut visit = |row: usize| {
        if runs[row] == run_idx && is_time(starts[row]) && is_time(ends[row]) {
            let kind = kinds.get(row_kinds[row].0 as usize).copied().unwrap_or(RowKind::Other);
            pass.take(row, kind, starts[row], ends[row].max(starts[row]));
        }
    };
    if starts.is_sorted() {
        (0..count).for_each(&mut visit);
    } else {
        let mut order: Vec<u32> = (0..count as u32).collect();
        order.sort_by_key(|row| starts[*row as usize]);
        for row in order {
            visit(row as usize);
        }
    }
    pass.finish()
}

impl<'c> Pass<'c> {
    fn new(capture: &'c Capture, table: &'c HostEvents) -> Self {
        let calls = Calls {
            table,
            syncs: Vec::new(),
            copies: Vec::new(),
            graph_launches: Vec::new(),
            loads: Vec::new(),
            allocations: Vec::new(),
            names: CallNames::new(capture.names.len()),
            groups: Few::default(),
            periods: Distribution::default(),
        };
        Self { capture, calls, marks: Marks::default(), threads: Few::default(), processes: Few::default(), periods: Quantiles::default() }
    }

    #[inline]
    fn take(&mut self, row: usize, kind: RowKind, start_ns: i64, end_ns: i64) {
        let rows = match kind {
            RowKind::Call => return self.take_call(row, start_ns, end_ns),
            RowKind::Annotation => &mut self.marks.annotations,
            RowKind::DeviceAnnotation => &mut self.marks.device_annotations,
            RowKind::Overhead => &mut self.marks.overheads,
            RowKind::Scope => &mut self.marks.scopes,
            RowKind::OsCall => &mut self.marks.os_calls,
            RowKind::OffCpu => &mut self.marks.off_cpu,
            RowKind::Other => return,
        };
        rows.push(row as u32);
    }

    #[inline]
    fn take_call(&mut self, row: usize, start_ns: i64, end_ns: i64) {
        let table = self.calls.table;
        let (name, at) = (table.name[row], row as u32);
        let Some(named) = self.calls.names.entry(name, || self.capture.text(name)) else { return };
        named.lengths.add(end_ns - start_ns);
        let api = named.api;
        match api {
            Api::Sync => self.calls.syncs.push(at),
            Api::Copy => self.calls.copies.push(at),
            Api::GraphLaunch => self.calls.graph_launches.push(at),
            Api::Load => self.calls.loads.push(at),
            Api::Memory => self.calls.allocations.push(at),
            _ => {}
        }
        if !api.is_launch() && api != Api::Sync {
            return;
        }
        let (source, process) = (table.source_idx[row], table.process[row]);
        let processes = &mut self.processes;
        let thread = self.threads.entry((source, process, table.thread[row]), || {
            processes.entry((source, process), Vec::new);
            Thread { launched_ns: None, process: processes.place((source, process)).unwrap_or(0) }
        });
        match api {
            Api::Sync => thread.launched_ns = None,
            Api::Launch => {
                if let Some(before) = thread.launched_ns.replace(start_ns) {
                    self.periods.add(start_ns - before);
                }
            }
            _ => {}
        }
        if table.correlation[row] != 0 && api != Api::Sync {
            self.processes.at(thread.process).push(at);
        }
    }

    fn finish(self) -> (Calls<'c>, Marks) {
        let mut calls = self.calls;
        for (key, launches) in self.processes.into_pairs() {
            calls.groups.entry(key, || Group::new(calls.table, launches));
        }
        calls.periods = self.periods.distribution();
        (calls, self.marks)
    }
}

/// What the words of the column `kind` mean, by name.
fn kinds(capture: &Capture) -> Vec<RowKind> {
    let mut kinds = vec![RowKind::Other; capture.names.len()];
    let words = [
        ("runtime", RowKind::Call),
        ("driver", RowKind::Call),
        ("annotation", RowKind::Annotation),
        ("device_annotation", RowKind::DeviceAnnotation),
        ("overhead", RowKind::Overhead),
        ("op", RowKind::Scope),
        ("frame", RowKind::Scope),
        ("os", RowKind::OsCall),
        ("off_cpu", RowKind::OffCpu),
    ];
    for (word, kind) in words {
        if let Some(Name(at)) = capture.names.find(word) {
            kinds[at as usize] = kind;
        }
    }
    kinds
}
