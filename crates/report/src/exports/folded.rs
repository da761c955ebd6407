//! Folded stacks, one a line: frames separated by semicolons, a space, a weight. Flame graph tools and speedscope read them.
//!
//! Time on devices and samples of host threads have different units, so each has a file of its own.

use std::collections::BTreeMap;
use std::io::{self, Write};

use capture::{Capture, Name, SourceIdx};

use super::{Categories, device_title};

/// Time on devices as `device;category;kernel ns`, in the order of the text. Returns the number of lines.
pub fn write_device_time(capture: &Capture, out: &mut impl Write) -> io::Result<usize> {
    let events = &capture.tables.device_events;
    let mut categories = Categories::new(capture);
    let mut titles: BTreeMap<(u32, SourceIdx, u32, u32), String> = BTreeMap::new();
    let mut sums: BTreeMap<(u32, SourceIdx, u32, u32, Name, Name), i64> = BTreeMap::new();
    for at in 0..events.t_start_ns.len() {
        let (run, source, process, device) = (events.run_idx[at], events.source_idx[at], events.process[at], events.device[at]);
        titles.entry((run, source, process, device)).or_insert_with(|| device_title(capture, at));
        let duration_ns = events.t_end_ns[at].saturating_sub(events.t_start_ns[at]).max(0);
        let sum = sums.entry((run, source, process, device, events.kind[at], events.name[at])).or_default();
        *sum = sum.saturating_add(duration_ns);
    }
    let mut lines: BTreeMap<String, i64> = BTreeMap::new();
    for ((run, source, process, device, kind, name), sum_ns) in sums {
        let title = &titles[&(run, source, process, device)];
        let stack = [frame(title), frame(categories.of(capture, kind, name)), frame(capture.text(name))].join(";");
        let line = lines.entry(stack).or_default();
        *line = line.saturating_add(sum_ns);
    }
    write_lines(&lines, out)
}

/// Samples of host threads as `role;state;frames samples`, in the order of the text. Returns the number of lines.
pub fn write_stacks(capture: &Capture, out: &mut impl Write) -> io::Result<usize> {
    let stacks = &capture.tables.stacks;
    let mut sums: BTreeMap<(Name, Name, Name), f64> = BTreeMap::new();
    for at in 0..stacks.weight.len() {
        *sums.entry((stacks.role[at], stacks.state[at], stacks.folded[at])).or_default() += stacks.weight[at];
    }
    let mut lines: BTreeMap<String, i64> = BTreeMap::new();
    for ((role, state, folded), weight) in sums {
        let frames = [role, state].map(|name| frame(capture.text(name)));
        let mut stack: Vec<String> = frames.into_iter().filter(|frame| !frame.is_empty()).collect();
        stack.push(capture.text(folded).replace(['\n', '\r'], " "));
        *lines.entry(stack.join(";")).or_default() += weight.round() as i64;
    }
    write_lines(&lines, out)
}

/// A frame may hold spaces, but neither the separator nor a line end.
fn frame(text: &str) -> String {
    let cleaned = text.replace(';', ",").replace(['\n', '\r'], " ");
    cleaned.trim().to_string()
}

fn write_lines(lines: &BTreeMap<String, i64>, out: &mut impl Write) -> io::Result<usize> {
    for (stack, weight) in lines {
        writeln!(out, "{stack} {weight}")?;
    }
    Ok(lines.len())
}

#[cfg(test)]
mod tests {
    use capture::{DeviceEvent, Stack};
    use expect_test::expect;

    use super::*;

    #[test]
    fn time_adds_up_per_device_category_and_kernel() {
        let mut capture = Capture::new();
        let rows = [(0, "kernel", "flash_fwd<a; b>", 10), (0, "kernel", "flash_fwd<a; b>", 32), (1, "memcpy", "HtoD Pinned -> Device", 5)];
        for (device, kind, name, duration_ns) in rows {
            let (kind, name) = (capture.intern(kind), capture.intern(name));
            capture.tables.device_events.push(DeviceEvent { t_end_ns: duration_ns, device, kind, name, ..DeviceEvent::default() });
        }
        let mut out = Vec::new();
        assert_eq!(write_device_time(&capture, &mut out).expect("memory does not fail"), 2);
        expect![[r"
            GPU 0;attention;flash_fwd<a, b> 42
            GPU 1;copy;HtoD Pinned -> Device 5
        "]]
        .assert_eq(&String::from_utf8(out).expect("text"));
    }

    #[test]
    fn samples_add_up_per_stack() {
        let mut capture = Capture::new();
        let (role, state, folded) = (capture.intern("engine_core/MainThread"), capture.intern("gil"), capture.intern("run;step;schedule"));
        for weight in [2.0, 3.0] {
            capture.tables.stacks.push(Stack { role, state, folded, weight, ..Stack::default() });
        }
        let mut out = Vec::new();
        write_stacks(&capture, &mut out).expect("memory does not fail");
        expect![[r"
            engine_core/MainThread;gil;run;step;schedule 5
        "]]
        .assert_eq(&String::from_utf8(out).expect("text"));
    }
}
