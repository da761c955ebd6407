//! Slices: device events by stream, host events by thread, engine steps.

use std::collections::HashMap;
use std::io;

use capture::{Capture, Name, SourceIdx};

use super::super::{Categories, arm_prefix, device_title};
use super::lanes::{Row, Scene};
use super::sink::{Detail, Sink, Slice, Text};

/// Keeps the numbers of processes for them.
pub(super) fn reserve_processes<S: Sink>(capture: &Capture, scene: &mut Scene<S>) {
    capture.tables.host_events.process.iter().for_each(|process| scene.reserve_pid(process));
    scene.reserve_pid(0);
}

fn named(capture: &Capture, name: Name) -> Text<'_> {
    Text { id: Some(name.0), text: capture.text(name) }
}

/// Rows by start, of equal starts the longest first.
fn order(starts: &[i64], ends: &[i64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..starts.len() as u32).collect();
    order.sort_by_key(|&at| (starts[at as usize], std::cmp::Reverse(ends[at as usize])));
    order
}

/// The arrow from a launching call to what it launched; numbers of calls repeat across processes and files.
fn flow(run: u32, source: SourceIdx, process: u32, correlation: u32) -> u64 {
    if correlation == 0 {
        return 0;
    }
    let mut mixed = (u64::from(process) << 32 | u64::from(correlation)) ^ (u64::from(run) << 48 ^ u64::from(source.0) << 20);
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        mixed = (mixed ^ mixed >> 30).wrapping_mul(factor);
    }
    (mixed ^ mixed >> 31).max(1)
}

/// Writes the device events, a group per device and a row per stream.
pub(super) fn write_device_events<S: Sink>(capture: &Capture, scene: &mut Scene<S>) -> io::Result<()> {
    let events = &capture.tables.device_events;
    let mut categories = Categories::new(capture);
    let mut groups: HashMap<(u32, SourceIdx, u32, u32), u32> = HashMap::new();
    let mut rows: HashMap<(u32, u32), Row> = HashMap::new();
    for at in order(&events.t_start_ns, &events.t_end_ns) {
        let at = at as usize;
        let (run, source, process) = (events.run_idx[at], events.source_idx[at], events.process[at]);
        let key = (run, source, process, events.device[at]);
        let group = match groups.get(&key) {
            Some(&group) => group,
            None => *groups.entry(key).or_insert(scene.group(None, &device_title(capture, at))?),
        };
        let stream = events.stream[at];
        let row = *rows.entry((group, stream)).or_insert_with(|| scene.row(group, stream, &format!("stream {stream}")));
        let (mut details, mut count) = ([("", Detail::Count(0)); 4], 0);
        let mut tell = |name, detail| {
            details[count] = (name, detail);
            count += 1;
        };
        if events.byte_count[at] > 0 {
            tell("bytes", Detail::Count(events.byte_count[at]));
        }
        if events.shape[at] != Name::EMPTY {
            tell("launch", Detail::Text(named(capture, events.shape[at])));
        }
        if events.correlation[at] != 0 {
            tell("correlation", Detail::Count(i64::from(events.correlation[at])));
        }
        if events.graph[at] != 0 {
            tell("graph node", Detail::Count(i64::from(events.graph[at])));
        }
        let slice = Slice {
            name: named(capture, events.name[at]),
            category: categories.of(capture, events.kind[at], events.name[at]),
            details: &details[..count],
            flow_out: 0,
            flow_in: flow(run, source, process, events.correlation[at]),
        };
        scene.slice(row, events.t_start_ns[at], events.t_end_ns[at], &slice)?;
    }
    Ok(())
}

/// Kinds of host events, as categories.
const KINDS: [&str; 9] = ["runtime", "driver", "op", "annotation", "device_annotation", "frame", "overhead", "os", "sync"];

/// Writes the host events, a group per process and a row per thread; what a recorder lays over a device has rows of its own.
pub(super) fn write_host_events<S: Sink>(capture: &Capture, scene: &mut Scene<S>) -> io::Result<()> {
    let events = &capture.tables.host_events;
    let mut groups: HashMap<(u32, SourceIdx, u32), u32> = HashMap::new();
    let mut processes: HashMap<u32, u32> = HashMap::new();
    let mut rows: HashMap<(u32, u32, bool), Row> = HashMap::new();
    for at in order(&events.t_start_ns, &events.t_end_ns) {
        let at = at as usize;
        let (run, source, process) = (events.run_idx[at], events.source_idx[at], events.process[at]);
        let group = if let Some(&group) = groups.get(&(run, source, process)) {
            group
        } else {
            // The first to come has the number; equal numbers of other hosts or arms get others.
            let own = (process != 0 && processes.insert(process, 1).is_none()).then_some(process);
            let group = scene.group(own, &format!("{}process {process}", arm_prefix(capture, run)))?;
            groups.insert((run, source, process), group);
            group
        };
        let kind_text = capture.text(events.kind[at]);
        let kind = KINDS.iter().find(|known| **known == kind_text).copied().unwrap_or("host");
        let (thread, over_device) = (events.thread[at], kind == "device_annotation");
        let title = || if over_device { format!("on stream {thread}") } else { format!("thread {thread}") };
        let row = *rows.entry((group, thread, over_device)).or_insert_with(|| scene.row(group, thread, &title()));
        let correlation = events.correlation[at];
        let is_launch = matches!(kind, "runtime" | "driver");
        let details = [("correlation", Detail::Count(i64::from(correlation)))];
        let slice = Slice {
            name: named(capture, events.name[at]),
            category: kind,
            details: if correlation == 0 { &[] } else { &details },
            flow_out: if is_launch { flow(run, source, process, correlation) } else { 0 },
            flow_in: 0,
        };
        scene.slice(row, events.t_start_ns[at], events.t_end_ns[at], &slice)?;
    }
    Ok(())
}

/// Writes the engine's steps, a row per replica.
pub(super) fn write_steps<S: Sink>(capture: &Capture, scene: &mut Scene<S>) -> io::Result<()> {
    let steps = &capture.tables.steps;
    let mut group = None;
    let mut rows: HashMap<(u32, Name), Row> = HashMap::new();
    for at in order(&steps.t_start_ns, &steps.t_end_ns) {
        let at = at as usize;
        let group = match group {
            Some(group) => group,
            None => *group.insert(scene.group(None, "engine steps")?),
        };
        let (run, replica) = (steps.run_idx[at], steps.replica[at]);
        let row = *rows.entry((run, replica)).or_insert_with(|| {
            let name = capture.text(replica);
            let name = if name.is_empty() { "steps" } else { name };
            scene.row(group, 1, &format!("{}{name}", arm_prefix(capture, run)))
        });
        let known =
            [("prompt tokens", steps.prefill_tokens[at]), ("sequences", steps.decode_seqs[at]), ("cached tokens", steps.cached_tokens[at])];
        let details: Vec<(&'static str, Detail<'_>)> =
            known.into_iter().filter_map(|(name, value)| Some((name, Detail::Count(value?)))).collect();
        let phase = named(capture, steps.phase[at]);
        let name = if phase.text.is_empty() { Text::once("step") } else { phase };
        let slice = Slice { name, category: "step", details: &details, flow_out: 0, flow_in: 0 };
        scene.slice(row, steps.t_start_ns[at], steps.t_end_ns[at], &slice)?;
    }
    Ok(())
}
