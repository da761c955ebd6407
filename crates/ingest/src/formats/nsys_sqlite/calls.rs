//! What the host did for the device: calls of CUDA, waits, calls of the operating system, and the profiler's own work.

use capture::{HostEvent, Name, Severity};
use hashbrown::HashSet;

use crate::sqlite::Row;

use super::kinds;
use super::part::{Export, NameById, Part};

/// `eventClass` of driver calls.
const DRIVER_CLASS: i64 = 1;
/// Calls of the operating system beyond this many are kept only where they are long.
const MANY_OS_CALLS: i64 = 2_000_000;
/// A call shorter than this explains no gap on a device.
const SHORT_OS_CALL_NS: i64 = 10_000;
/// Most switches of threads kept.
const MAX_SWITCHES: usize = 8_000_000;
/// A large reservation is made for no more rows than this.
const MAX_RESERVED: usize = 16_000_000;

const RUNTIME: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";
const SYNC: &str = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";

pub(super) fn read(export: &Export<'_>) -> Part {
    let mut part = Part::default();
    let rows = |table: &str| export.database.table(table).and_then(|table| export.database.last_rowid(table)).unwrap_or(0).max(0);
    let total = usize::try_from(rows(RUNTIME).saturating_add(rows(SYNC))).unwrap_or(usize::MAX);
    part.host.reserve(total.min(export.database.byte_count() / 20).min(MAX_RESERVED));
    calls(export, &mut part);
    syncs(export, &mut part);
    os_calls(export, &mut part);
    off_cpu(export, &mut part);
    for table in ["CUPTI_ACTIVITY_KIND_OVERHEAD", "PROFILER_OVERHEAD"] {
        overhead(export, table, &mut part);
    }
    part
}

/// What the tables share: `start`, `end` and `globalTid` or `globalPid` are their first columns here.
pub(super) fn event(export: &Export<'_>, row: &Row<'_>, table: &'static str, part: &mut Part) -> Option<HostEvent> {
    let Some((t_start_ns, t_end_ns)) = export.span(row.int(0), row.int(1)) else {
        part.impossible(table);
        return None;
    };
    let id = row.int(2);
    Some(HostEvent {
        t_start_ns,
        t_end_ns,
        run_idx: export.run_idx,
        process: kinds::process(id),
        thread: kinds::thread(id),
        source_idx: export.source_idx,
        ..HostEvent::default()
    })
}

fn calls(export: &Export<'_>, part: &mut Part) {
    let (runtime, driver) = (part.intern("runtime"), part.intern("driver"));
    let mut names = NameById::default();
    let columns = ["start", "end", "globalTid", "correlationId", "nameId", "eventClass"];
    part.scan(export.database, RUNTIME, &columns, |row, part| {
        let Some(event) = event(export, row, RUNTIME, part) else { return };
        let name = names.get(row.int(4), &export.strings, part, kinds::call);
        let is_driver = match row.int(5) {
            Some(class) => class == DRIVER_CLASS,
            None => is_driver_call(part, name),
        };
        let kind = if is_driver { driver } else { runtime };
        let correlation = part.correlation(row.int(3));
        part.host.push(HostEvent { kind, name, correlation, ..event });
    });
}

/// Where the export does not say: calls of the driver begin with `cu` and a capital.
fn is_driver_call(part: &Part, name: Name) -> bool {
    part.names.text(name).strip_prefix("cu").is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_uppercase()))
}

fn syncs(export: &Export<'_>, part: &mut Part) {
    let kind = part.intern("sync");
    let columns = ["start", "end", "globalPid", "correlationId", "syncType"];
    part.scan(export.database, SYNC, &columns, |row, part| {
        // The row names a device, which is 0 for every process: the process tells it.
        let Some(event) = event(export, row, SYNC, part) else { return };
        let name = part.intern(kinds::sync(row.int(4)));
        let correlation = part.correlation(row.int(3));
        part.host.push(HostEvent { kind, name, correlation, ..event });
    });
}

fn os_calls(export: &Export<'_>, part: &mut Part) {
    const TABLE: &str = "OSRT_API";
    let Some(table) = export.database.table(TABLE) else { return };
    let is_many = export.database.last_rowid(table).is_some_and(|rows| rows > MANY_OS_CALLS);
    let kind = part.intern("os");
    let mut names = NameById::default();
    let mut left_out = 0u64;
    part.scan(export.database, TABLE, &["start", "end", "globalTid", "nameId"], |row, part| {
        let Some(event) = event(export, row, TABLE, part) else { return };
        if is_many && event.t_end_ns - event.t_start_ns < SHORT_OS_CALL_NS {
            left_out += 1;
            return;
        }
        let name = names.get(row.int(3), &export.strings, part, |text| text);
        part.host.push(HostEvent { kind, name, ..event });
    });
    if left_out > 0 {
        let sentence = format!(
            "expected at most {MANY_OS_CALLS} calls of the operating system, found more; those below {SHORT_OS_CALL_NS} ns are left out"
        );
        part.issue(Severity::Note, "short_calls_left_out", "", left_out, || sentence);
    }
}

/// When threads that call CUDA ran on no CPU: from each switch out to the next switch in. Threads of which no call was
/// recorded launch nothing.
fn off_cpu(export: &Export<'_>, part: &mut Part) {
    const TABLE: &str = "SCHED_EVENTS";
    let calling: HashSet<(u32, u32)> = part.host.process.iter().zip(part.host.thread.iter()).collect();
    // Time, and whether the thread gets a CPU, by thread.
    let mut switches: Vec<(i64, i64, bool)> = Vec::new();
    let mut left_out = 0u64;
    part.scan(export.database, TABLE, &["start", "isSchedIn", "globalTid"], |row, _| {
        let (Some(t_ns), Some(is_in), Some(id)) = (row.int(0), row.int(1), row.int(2)) else { return };
        if !calling.contains(&(kinds::process(Some(id)), kinds::thread(Some(id)))) {
            return;
        }
        if switches.len() < MAX_SWITCHES {
            switches.push((id, t_ns, is_in != 0));
        } else {
            left_out += 1;
        }
    });
    switches.sort_unstable();
    let (kind, name) = (part.intern("off_cpu"), part.intern("off_cpu"));
    for pair in switches.windows(2) {
        let [(id, out_ns, false), (same, in_ns, true)] = [pair[0], pair[1]] else { continue };
        let Some((t_start_ns, t_end_ns)) = export.span(Some(out_ns), Some(in_ns)).filter(|_| id == same) else { continue };
        part.host.push(HostEvent {
            t_start_ns,
            t_end_ns,
            run_idx: export.run_idx,
            process: kinds::process(Some(id)),
            thread: kinds::thread(Some(id)),
            kind,
            name,
            source_idx: export.source_idx,
            ..HostEvent::default()
        });
    }
    if left_out > 0 {
        let sentence = format!("expected at most {MAX_SWITCHES} switches of threads that call CUDA, found more; the rest is left out");
        part.issue(Severity::Warning, "too_many_events", &format!("table {TABLE}"), left_out, || sentence);
    }
}

fn overhead(export: &Export<'_>, table: &'static str, part: &mut Part) {
    let kind = part.intern("overhead");
    let mut names = NameById::default();
    part.scan(export.database, table, &["start", "end", "globalTid", "nameId", "overheadType"], |row, part| {
        let Some(event) = event(export, row, table, part) else { return };
        let has_name = row.int(3).is_some_and(|id| export.strings.get(id).is_some());
        let name = match row.int(4) {
            None if has_name => names.get(row.int(3), &export.strings, part, |text| text),
            kind => part.intern(kinds::overhead(kind)),
        };
        part.host.push(HostEvent { kind, name, ..event });
    });
}
