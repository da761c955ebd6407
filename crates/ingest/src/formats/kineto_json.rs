//! Traces of PyTorch's profiler (Kineto) and other Chrome traces with its categories: `*.pt.trace.json`, packed or not.
//!
//! Every layout that is valid JSON reads: any order of keys, indented or not, re-dumped by Python, a bare array of events.
//! Times are decimal text to integer nanoseconds. Work of devices, calls of the runtime and driver, waits, ranges and what
//! the profiler itself took become rows; operators and Python frames, which are most of a trace, only where they enclose a
//! wait or a copy, unless [`Options::host_frames`](crate::Options::host_frames) asks for all. Links between events are
//! left out: a launch is linked by its correlation id. Damage costs the event it is in.

mod args;
mod blocks;
mod category;
mod collective;
mod columns;
mod counters;
mod devices;
mod enclosing;
mod event;
mod keys;
mod losses;
mod numbers;
mod op_sizes;
mod parse;
mod pipeline;
mod recovery;
mod rows;
mod scan;
#[cfg(test)]
mod tests;
mod texts;
mod told;

use crate::builder::Builder;
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;
use crate::json::{Json, JsonResult};

use blocks::usual_size;
use columns::{Columns, Settings};
use pipeline::Plan;
use told::Told;

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "kineto_json", stage: Stage::Clocked, sniff, read };

/// Bytes searched at a time for the events behind damage.
const SEARCH_BYTES: usize = 64 << 10;
/// The key of the events.
const EVENTS_KEY: &[u8] = b"\"traceEvents\"";

fn sniff(probe: &Probe<'_>) -> Confidence {
    let has = |keys: &[&str]| keys.iter().all(|key| probe.has(key));
    match probe.first_byte() {
        Some(b'{') if has(&["\"traceEvents\""]) => Confidence::Sure,
        Some(b'{') if has(&["\"schemaVersion\"", "\"deviceProperties\""]) => Confidence::Sure,
        Some(b'[') if has(&["\"ph\"", "\"pid\"", "\"ts\""]) => Confidence::Likely,
        _ => Confidence::No,
    }
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    read_with(input, builder, usual_size());
}

/// Like [`read`], with blocks of a size that tests choose.
fn read_with(input: &mut Input<'_>, builder: &mut Builder<'_>, block_bytes: usize) {
    let settings =
        Settings { run_idx: builder.context.run_idx, source_idx: builder.source(), host_frames: builder.host_frames, max_candidates: 0 };
    let mut trace = Trace {
        told: Told::default(),
        parts: Vec::new(),
        plan: Plan { settings, threads: builder.threads, block_bytes, offset: 0 },
        has_events: false,
    };
    while trace.document(input, builder) {}
    if !trace.has_events {
        return builder.refuse("no_trace_events", "expected a list of events as `traceEvents`, found none");
    }
    trace.write(builder);
}

/// What is read of a file.
struct Trace {
    told: Told,
    parts: Vec<Columns>,
    plan: Plan,
    has_events: bool,
}

impl Trace {
    /// Reads a document, or what is left of one behind damage; false at the end of the text. Files that were joined hold
    /// several, each with its own base time.
    fn document(&mut self, input: &mut Input<'_>, builder: &mut Builder<'_>) -> bool {
        let mut json = Json::new(&mut *input).starting_at(self.plan.offset);
        if json.peek().is_none() {
            return false;
        }
        let read = self.read(&mut json);
        self.plan.offset = json.offset();
        if let Err(error) = read {
            builder.damaged_json(&error);
            let skipped = find_events(input);
            self.plan.offset += skipped.unwrap_or_default();
            return skipped.is_some();
        }
        self.write(builder);
        true
    }

    fn read(&mut self, json: &mut Json<&mut Input<'_>>) -> JsonResult<()> {
        if json.peek() == Some(b'[') {
            return self.events(json);
        }
        json.object(|key, json| match key {
            "traceEvents" if json.peek() == Some(b'[') => self.events(json),
            _ => self.told.member(key, json),
        })
    }

    fn events(&mut self, json: &mut Json<&mut Input<'_>>) -> JsonResult<()> {
        self.has_events = true;
        let (plan, parts) = (self.plan, &mut self.parts);
        json.foreign_array(|input, offset| pipeline::run(input, Plan { offset, ..plan }, parts))
    }

    fn write(&mut self, builder: &mut Builder<'_>) {
        let parts = std::mem::take(&mut self.parts);
        rows::write(&std::mem::take(&mut self.told), parts, builder);
    }
}

/// Goes to the next list of events, whatever stands before it; returns the bytes passed over. The input is left as if an
/// object started there.
fn find_events(input: &mut Input<'_>) -> Option<u64> {
    let mut text = vec![0; SEARCH_BYTES];
    let (mut held, mut passed) = (0, 0);
    loop {
        let got = input.fill(&mut text[held..]);
        let len = held + got;
        if let Some(at) = memchr::memmem::find(&text[..len], EVENTS_KEY) {
            input.unread(&text[at..len]);
            input.unread(b"{");
            return Some((passed + at as u64).saturating_sub(1));
        }
        if got == 0 {
            return None;
        }
        held = len.min(EVENTS_KEY.len() - 1);
        text.copy_within(len - held..len, 0);
        passed += (len - held) as u64;
    }
}
