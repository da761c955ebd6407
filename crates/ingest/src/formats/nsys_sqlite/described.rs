//! What an export says of itself: when the session began, which devices there were, what the profiler complained about.
//!
//! Only the values named here are read. Environment, command lines, paths, hosts and users stand in the same tables or in
//! neighbors of them and never leave the file.

use std::collections::{BTreeMap, BTreeSet};

use capture::{ClockAlignment, Device, Severity};

use crate::builder::Builder;
use crate::captures::EARLIEST_NS;
use crate::sqlite::{Database, Row};

use super::part::{Export, Part, Strings, cut};

/// Most rows of a small table.
const MAX_DESCRIBED: u64 = 100_000;
/// Most GPUs of one export.
const MAX_DEVICES: usize = 4_096;
/// The session start is taken when the clock is read, a little beside the zero of the device events.
const SESSION_ERROR_NS: i64 = 1_000_000;
/// Complaints of the profiler that are shown.
const MAX_COMPLAINTS: usize = 12;
const MAX_COMPLAINT_BYTES: usize = 240;
/// `severity` of warnings and errors in `DIAGNOSTIC_EVENT`.
const COMPLAINTS: [i64; 2] = [2, 3];

/// How times of the export become host times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    pub(super) offset_ns: i64,
    is_known: bool,
}

/// The numbers by which devices are called here.
#[derive(Debug, Default)]
pub(super) struct Ordinals {
    /// Number of the GPU on its machine, by process and the process's own number.
    gpu_of: BTreeMap<(u32, u32), u32>,
    /// True when two processes call different GPUs by the same number: then the number on the machine counts.
    conflict: bool,
}

impl Ordinals {
    fn new(rows: impl Iterator<Item = (u32, u32, u32)>) -> Self {
        let mut it = Self::default();
        let mut first: BTreeMap<u32, u32> = BTreeMap::new();
        for (process, ordinal, gpu) in rows.take(MAX_DEVICES) {
            it.conflict |= *first.entry(ordinal).or_insert(gpu) != gpu;
            it.gpu_of.insert((process, ordinal), gpu);
        }
        it
    }

    /// The number of a device that a process calls `ordinal`.
    pub(super) fn device(&self, process: u32, ordinal: u32) -> u32 {
        if self.conflict { self.gpu_of.get(&(process, ordinal)).copied().unwrap_or(ordinal) } else { ordinal }
    }

    /// The number of a GPU of the machine; `None` when processes call others by its number and none uses it.
    pub(super) fn of_gpu(&self, gpu: u32) -> Option<u32> {
        if self.conflict || self.gpu_of.is_empty() {
            return Some(gpu);
        }
        self.gpu_of.iter().find(|(_, known)| **known == gpu).map(|((_, ordinal), _)| *ordinal)
    }
}

/// Calls `each` for the rows of a small table.
pub(super) fn small(database: &Database, table: &str, columns: &[&str], each: impl FnMut(&Row<'_>)) {
    if let Some(table) = database.table(table) {
        // A file that cannot be opened again has been told when its large tables were read.
        let _ = database.scan(table, columns, MAX_DESCRIBED, each);
    }
}

impl<'a> Export<'a> {
    /// Reads what the export says of itself.
    pub(super) fn describe(database: &'a Database, builder: &mut Builder<'_>) -> Self {
        let mut part = Part::default();
        let strings = Strings::read(database, &mut part);
        part.merge(builder);
        let clock = clock(database);
        tell_clock(clock, builder);
        let mut rows = Vec::new();
        small(database, "TARGET_INFO_CUDA_DEVICE", &["pid", "cudaId", "gpuId"], |row| {
            let number = |slot| row.int(slot).and_then(|value| u32::try_from(value).ok());
            if let (Some(process), Some(ordinal), Some(gpu)) = (number(0), number(1), number(2)) {
                rows.push((process & 0xff_ffff, ordinal, gpu));
            }
        });
        let ordinals = Ordinals::new(rows.into_iter());
        if ordinals.conflict {
            let sentence = "expected one number per GPU, found processes that call different GPUs by the same number; GPUs are numbered \
                            as on the machine";
            builder.issue(Severity::Note, "devices_renumbered", "", 1, sentence);
        }
        Self { database, strings, clock, ordinals, run_idx: builder.context.run_idx, source_idx: builder.source() }
    }
}

fn clock(database: &Database) -> Clock {
    let (mut epoch, mut system) = (None, None);
    small(database, "TARGET_INFO_SESSION_START_TIME", &["utcEpochNs", "systemClockNs"], |row| {
        epoch = epoch.or(row.int(0)).filter(|epoch| (EARLIEST_NS..4 * EARLIEST_NS).contains(epoch));
        system = system.or(row.int(1));
    });
    let mut started = None;
    small(database, "ANALYSIS_DETAILS", &["startTime"], |row| started = started.or(row.int(0)));
    match (epoch, started) {
        // Exported with `--ts-normalize`: the times are epoch times already.
        (_, Some(started)) if started >= EARLIEST_NS => Clock { offset_ns: 0, is_known: true },
        // Times of the machine's own clock, which stood at this value when the session began.
        (Some(epoch), Some(started)) if Some(started) == system => Clock { offset_ns: epoch.saturating_sub(started), is_known: true },
        (Some(epoch), _) => Clock { offset_ns: epoch, is_known: true },
        (None, _) => Clock::default(),
    }
}

fn tell_clock(clock: Clock, builder: &mut Builder<'_>) {
    if clock.is_known {
        builder.capture.manifest.clocks.push(ClockAlignment {
            source: builder.name().to_string(),
            domain: "nsys session".to_string(),
            offset_ns: clock.offset_ns,
            error_ns: SESSION_ERROR_NS,
            method: "session start told by the export".to_string(),
            ..ClockAlignment::default()
        });
    } else {
        let sentence = "expected the export to tell when its session began, found nothing of it; times count from the start of the session \
                        and cannot be compared with other sources";
        builder.issue(Severity::Note, "session_start_unknown", "", 1, sentence);
    }
}

/// Writes the devices, and what they say of the subject.
pub(super) fn devices(export: &Export<'_>, builder: &mut Builder<'_>) {
    const COLUMNS: [&str; 7] = ["id", "name", "smCount", "maxWarpsPerSm", "totalMemory", "memoryBandwidth", "cuDevice"];
    let mut described = BTreeSet::new();
    let events = &builder.capture.tables.device_events;
    let seen: BTreeSet<u32> = events.device.changes().collect();
    let mut rows = Vec::new();
    small(export.database, "TARGET_INFO_GPU", &COLUMNS, |row| {
        let number = |slot| row.int(slot).and_then(|value| u32::try_from(value).ok());
        let Some(id) = number(0) else { return };
        let ordinal = if export.ordinals.gpu_of.is_empty() { number(6).or(Some(id)) } else { export.ordinals.of_gpu(id) };
        if let Some(device) = ordinal.filter(|device| described.len() < MAX_DEVICES && described.insert(*device)) {
            let name = row.text(1).unwrap_or_default();
            rows.push(Described {
                name: cut(&name, 128).to_string(),
                row: Device {
                    device,
                    rank: -1,
                    sm_count: number(2).unwrap_or(0),
                    max_warps_per_sm: number(3).unwrap_or(0),
                    memory_bytes: row.int(4).unwrap_or(0).max(0),
                    bandwidth_bytes_per_s: row.int(5).unwrap_or(0).max(0),
                    ..Device::default()
                },
            });
        }
    });
    let used = rows.iter().find(|described| seen.contains(&described.row.device)).or(rows.first());
    let subject = &mut builder.capture.manifest.subject;
    if let Some(described) = used {
        subject.device.clone_from(&described.name);
    }
    subject.device_count = seen.len() as u32;
    let vendor = builder.intern("nvidia");
    for Described { name, row } in rows {
        let (run_idx, source_idx, name) = (builder.context.run_idx, builder.source(), builder.intern(&name));
        builder.capture.tables.devices.push(Device { run_idx, source_idx, name, vendor, ..row });
    }
    covers(export.clock, builder);
}

struct Described {
    name: String,
    row: Device,
}

/// The host times of the events, where they are host times.
fn covers(clock: Clock, builder: &mut Builder<'_>) {
    if !clock.is_known {
        return;
    }
    let tables = &builder.capture.tables;
    let starts = tables.device_events.t_start_ns.iter().chain(&tables.host_events.t_start_ns).min().copied();
    let ends = tables.device_events.t_end_ns.iter().chain(&tables.host_events.t_end_ns).max().copied();
    for t_ns in starts.into_iter().chain(ends) {
        builder.covers(t_ns);
    }
}

/// What the profiler complained about, among it events that it lost.
pub(super) fn diagnostics(export: &Export<'_>, builder: &mut Builder<'_>) {
    let mut complaints: BTreeMap<String, (Severity, u64)> = BTreeMap::new();
    small(export.database, "DIAGNOSTIC_EVENT", &["severity", "text"], |row| {
        let Some(text) = row.text(1) else { return };
        let lower = text.to_ascii_lowercase();
        let has_lost = ["lost", "dropped", "discard", "not all", "overflow"].iter().any(|word| lower.contains(word));
        if has_lost || row.int(0).is_some_and(|severity| COMPLAINTS.contains(&severity)) {
            let severity = if has_lost { Severity::Warning } else { Severity::Note };
            if complaints.len() < MAX_COMPLAINTS {
                complaints.entry(without_places(&text)).or_insert((severity, 0)).1 += 1;
            }
        }
    });
    for (number, (text, (severity, count))) in (1..).zip(complaints) {
        let sentence = format!("expected a recording without complaints, found one of the profiler: {text}");
        builder.issue(severity, "profiler_complaint", &format!("entry {number}"), count, sentence);
    }
}

/// A complaint without what may name files, hosts, users or settings.
fn without_places(text: &str) -> String {
    let is_place = |word: &str| word.contains(['/', '\\', '=', '@', '$', '~']);
    let words = text.split_whitespace().map(|word| if is_place(word) { "…" } else { word });
    let text = words.collect::<Vec<_>>().join(" ");
    cut(&crate::secrets::redact(&text), MAX_COMPLAINT_BYTES).to_string()
}

/// Says what was recorded and is not read.
pub(super) fn not_read(database: &Database, builder: &mut Builder<'_>) {
    let has_rows = |name: &str| database.table(name).is_some_and(|table| database.last_rowid(table).unwrap_or(0) > 0);
    let unread: Vec<&str> =
        ["COMPOSITE_EVENTS", "MPI_COLLECTIVES_EVENTS", "CUDA_UM_GPU_PAGE_FAULT_EVENTS"].into_iter().filter(|name| has_rows(name)).collect();
    if !unread.is_empty() {
        let sentence =
            format!("found rows in {}, which are not read; the timeline of devices and calls does not need them", unread.join(", "));
        builder.issue(Severity::Note, "tables_not_read", "", unread.len(), sentence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_renumbered_only_where_processes_disagree() {
        let plain = Ordinals::new([(7, 0, 0), (7, 1, 1)].into_iter());
        assert_eq!((plain.device(7, 1), plain.of_gpu(1), plain.of_gpu(5)), (1, Some(1), None));
        let shifted = Ordinals::new([(7, 0, 3)].into_iter());
        assert_eq!((shifted.device(7, 0), shifted.of_gpu(3), shifted.of_gpu(0)), (0, Some(0), None));
        let apart = Ordinals::new([(7, 0, 0), (8, 0, 1)].into_iter());
        assert_eq!((apart.device(7, 0), apart.device(8, 0), apart.of_gpu(1)), (0, 1, Some(1)));
    }

    #[test]
    fn complaints_name_no_file_and_no_setting() {
        let text = "Some events lost in /home/bob/run.nsys-rep (TOKEN=hf_abc) on bob@host: 12 buffers";
        assert_eq!(without_places(text), "Some events lost in … … on … 12 buffers");
    }
}
