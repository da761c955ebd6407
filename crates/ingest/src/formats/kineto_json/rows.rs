//! Columns of all parsers to the rows of the capture: joined without a second copy, times brought to host time.

use std::collections::BTreeSet;
use std::hash::BuildHasher as _;

use capture::tables::{DeviceEvents, HostEvents, Table};
use capture::{Name, Severity, labels};

use crate::builder::Builder;
use crate::duplicates::keep_rows;

use super::columns::Columns;
use super::devices;
use super::enclosing::{Candidates, RowOf};
use super::losses::Losses;
use super::told::Told;

/// Work farther from the middle of all work than this is damage: it would make the window years long.
const MAX_DISTANCE_NS: i64 = 10 * 24 * 3_600_000_000_000;
/// Times looked at to find the middle.
const MIDDLE_SAMPLES: usize = 4_095;

/// Writes everything read into the builder.
pub(super) fn write(told: &Told, parts: Vec<Columns>, builder: &mut Builder<'_>) {
    let Some(mut all) = join(parts, builder) else { return };
    let mut losses = std::mem::take(&mut all.losses);
    shift(&mut all, told.base_ns, &mut losses);
    let process = process_of(&all);
    all.device.process.fill(process);
    all.host.process.fill(process);
    all.op_sizes.process.fill(process);
    let rank = told.rank.and_then(|rank| i32::try_from(rank).ok()).unwrap_or(-1);
    all.collectives.rank.iter_mut().for_each(|it| *it = rank);
    enclose(&mut all, process, told.base_ns, builder);
    cover(&all.device.t_start_ns, &all.device.t_end_ns, builder);
    cover(&all.host.t_start_ns, &all.host.t_end_ns, builder);
    write_counters(&all, told.base_ns, builder);
    let used: BTreeSet<u32> = all.device.device.changes().collect();
    devices::add(told, all.seen, &used, builder);
    builder.source_row().unmapped_count = losses.unmapped_counters.count;
    losses.tell(builder);
    tell(told, &all, builder);
    let tables = &mut builder.capture.tables;
    tables.device_events.append(all.device);
    tables.host_events.append(all.host);
    tables.collectives.append(all.collectives);
    tables.op_sizes.append(all.op_sizes);
}

/// Brings the columns of all parsers into the index space of the capture.
fn join(parts: Vec<Columns>, builder: &mut Builder<'_>) -> Option<Columns> {
    let mut joined: Option<Columns> = None;
    for mut part in parts {
        let names = builder.capture.names.absorb(&part.texts.names);
        // There is one source, and every row has its index already.
        part.device.remap(&names, &[]);
        part.host.remap(&names, &[]);
        part.collectives.remap(&names, &[]);
        part.op_sizes.remap(&names, &[]);
        part.candidates.remap(&names);
        let Some(all) = &mut joined else {
            joined = Some(part);
            continue;
        };
        all.device.append(part.device);
        all.host.append(part.host);
        all.collectives.append(part.collectives);
        all.op_sizes.append(part.op_sizes);
        all.counters.append(&mut part.counters);
        all.candidates.append(part.candidates);
        all.losses.join(&part.losses);
        for (process, count) in part.processes {
            *all.processes.entry(process).or_default() += count;
        }
        all.seen = all.seen.or(part.seen);
    }
    joined
}

/// Adds the base time; what leaves the range of times, or lies far from all other work, is lost.
fn shift(all: &mut Columns, base_ns: i64, losses: &mut Losses) {
    let mut is_sound = true;
    for times in [&mut all.device.t_start_ns, &mut all.device.t_end_ns, &mut all.host.t_start_ns, &mut all.host.t_end_ns] {
        for t_ns in times {
            is_sound &= t_ns.checked_add(base_ns).is_some();
            *t_ns = t_ns.saturating_add(base_ns);
        }
    }
    let told_beside =
        [&mut all.collectives.t_start_ns, &mut all.collectives.t_end_ns, &mut all.op_sizes.t_start_ns, &mut all.op_sizes.t_end_ns];
    for times in told_beside {
        for t_ns in times {
            *t_ns = t_ns.saturating_add(base_ns);
        }
    }
    let middle = middle(&all.device.t_start_ns).or_else(|| middle(&all.host.t_start_ns));
    let Some(middle) = middle else { return };
    let is_near = |t_ns: &i64| t_ns.abs_diff(middle) <= MAX_DISTANCE_NS as u64;
    is_sound &= [&all.device.t_start_ns, &all.host.t_start_ns].iter().all(|times| times.iter().all(is_near));
    if is_sound {
        return;
    }
    let mut drop_far = |keep: Vec<bool>| {
        let lost = keep.iter().filter(|keep| !**keep).count();
        losses.far += lost as u64;
        keep
    };
    let keep = drop_far(all.device.t_start_ns.iter().map(is_near).collect());
    keep_rows(&mut all.device, &keep);
    let keep = drop_far(all.host.t_start_ns.iter().map(is_near).collect());
    keep_rows(&mut all.host, &keep);
    let keep: Vec<bool> = all.collectives.t_start_ns.iter().map(is_near).collect();
    keep_rows(&mut all.collectives, &keep);
    let keep: Vec<bool> = all.op_sizes.t_start_ns.iter().map(is_near).collect();
    keep_rows(&mut all.op_sizes, &keep);
}

/// A time in the middle of all, from evenly spaced ones.
fn middle(times: &[i64]) -> Option<i64> {
    let mut some: Vec<i64> = times.iter().step_by((times.len() / MIDDLE_SAMPLES).max(1)).copied().collect();
    let at = some.len() / 2;
    (!some.is_empty()).then(|| *some.select_nth_unstable(at).1)
}

/// One process for a file: the one with most calls, else with most ranges. Device work says no process of its own.
fn process_of(all: &Columns) -> u32 {
    let order = |(process, count): &(&(bool, u32), &u64)| (!process.0, **count, std::cmp::Reverse(process.1));
    all.processes.iter().max_by_key(order).map_or(0, |((_, process), _)| *process)
}

/// Adds the host code around waits and copies, or all operators where a trace has nothing but them.
fn enclose(all: &mut Columns, process: u32, base_ns: i64, builder: &mut Builder<'_>) {
    let row = RowOf {
        run_idx: builder.context.run_idx,
        process,
        op: builder.intern("op"),
        frame: builder.intern("frame"),
        source_idx: builder.source(),
        base_ns,
    };
    let candidates = std::mem::replace(&mut all.candidates, Candidates::new(0));
    if all.device.row_count() == 0 && !all.seen.calls {
        return candidates.into_all(&row, &mut all.host);
    }
    let calls = waits_and_copies(&all.host, base_ns, builder);
    candidates.into_enclosing(calls, &row, &mut all.host);
}

/// Thread, start and end of each call that waits or copies, in the times of the file.
fn waits_and_copies(host: &HostEvents, base_ns: i64, builder: &Builder<'_>) -> Vec<(u32, i64, i64)> {
    let find = |word: &str| builder.capture.names.find(word);
    let kinds: [Option<Name>; 2] = [find("runtime"), find("driver")];
    let wanted: Vec<bool> = builder.capture.names.iter().map(|name| name.contains("Synchronize") || name.contains("Memcpy")).collect();
    let is_wanted =
        |at: &usize| kinds.contains(&Some(host.kind[*at])) && wanted.get(host.name[*at].0 as usize).copied().unwrap_or_default();
    let call = |at: usize| (host.thread[at], host.t_start_ns[at] - base_ns, host.t_end_ns[at] - base_ns);
    (0..host.row_count()).filter(is_wanted).map(call).collect()
}

fn cover(starts: &[i64], ends: &[i64], builder: &mut Builder<'_>) {
    if let (Some(start), Some(end)) = (starts.iter().min(), ends.iter().max()) {
        builder.covers(*start);
        builder.covers(*end);
    }
}

fn write_counters(all: &Columns, base_ns: i64, builder: &mut Builder<'_>) {
    for counter in &all.counters {
        let Some(t_ns) = counter.t_ns.checked_add(base_ns) else { continue };
        let labels = labels::canonical(&[("device", &counter.device.to_string())]);
        builder.sample(t_ns, counter.signal, &labels, counter.value);
    }
}

/// Says what a reader of the verdict should know of the recording.
fn tell(told: &Told, all: &Columns, builder: &mut Builder<'_>) {
    for message in &told.messages {
        let message: String = crate::secrets::redact(message).chars().take(300).collect();
        builder.issue(Severity::Note, "profiler_message", "", 1, format!("the profiler said: {message}"));
    }
    if told.with_stack || told.record_shapes {
        let what = if told.with_stack { "Python stacks" } else { "shapes of operators" };
        let sentence = format!("recorded with {what}, which slows the host: times between launches are upper bounds");
        builder.issue(Severity::Note, "host_slowed_by_recording", "", 1, sentence);
    }
    if all.device.row_count() == 0 {
        let sentence = "expected work of a device, found none: the trace tells of the host alone";
        builder.issue(Severity::Note, "no_device_events", "", 1, sentence);
    }
    let doubles = doubles(&all.device);
    if doubles > 0 {
        let sentence = "expected each piece of device work once, found the same again (same name, stream, launch and times); all are kept";
        builder.issue(Severity::Note, "duplicate_events", "", doubles, sentence);
    }
}

/// Work that is told again with the same times, place, name and launch.
fn doubles(device: &DeviceEvents) -> usize {
    let key = |at: usize| {
        (device.t_start_ns[at], device.t_end_ns[at], device.stream[at], device.device[at], device.name[at], device.correlation[at])
    };
    let hasher = hashbrown::DefaultHashBuilder::default();
    let mut hashes: Vec<u64> = (0..device.row_count()).map(|at| hasher.hash_one(key(at))).collect();
    hashes.sort_unstable();
    hashes.windows(2).filter(|pair| pair[0] == pair[1]).count()
}
