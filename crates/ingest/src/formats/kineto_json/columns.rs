//! Events to columns: each parser thread fills a set of its own, with times, names and numbers as the file has them.
//!
//! What the whole file tells (base time, process, rank) is not known here; `rows.rs` brings it in.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use capture::tables::{Collectives, DeviceEvent, DeviceEvents, HostEvent, HostEvents, OpSize, OpSizes};
use capture::{Name, SourceIdx};

use super::args::Args;
use super::category::Category;
use super::enclosing::{Candidates, Enclosing};
use super::event::{Arguments, Event, Whole};
use super::losses::Losses;
use super::numbers::microseconds;
use super::scan::Cursor;
use super::texts::{Form, Texts, number_of};
use super::{collective, counters, op_sizes};

/// Longest believable device work: longer ones are damage that would own all of a window.
const MAX_WORK_NS: i64 = 3_600_000_000_000;
/// Longest believable call or range.
const MAX_HOST_NS: i64 = 24 * MAX_WORK_NS;

/// Frames that are shorter enclose no call that costs time.
const MIN_FRAME_NS: i64 = 5_000;

/// What a reader is told before it starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) run_idx: u32,
    pub(super) source_idx: SourceIdx,
    /// Operators and frames become rows.
    pub(super) host_frames: bool,
    /// Operators and frames held for what encloses a call.
    pub(super) max_candidates: usize,
}

/// Names of what told its vendor.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Seen {
    pub(super) cuda: bool,
    pub(super) hip: bool,
    pub(super) xpu: bool,
    pub(super) mtia: bool,
    pub(super) calls: bool,
}

impl Seen {
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            cuda: self.cuda | other.cuda,
            hip: self.hip | other.hip,
            xpu: self.xpu | other.xpu,
            mtia: self.mtia | other.mtia,
            calls: self.calls | other.calls,
        }
    }
}

/// One value of a counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct CounterValue {
    pub(super) t_ns: i64,
    pub(super) device: u32,
    pub(super) signal: &'static str,
    pub(super) value: f64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) settings: Settings,
    pub(super) texts: Texts,
    pub(super) device: DeviceEvents,
    pub(super) host: HostEvents,
    pub(super) collectives: Collectives,
    pub(super) op_sizes: OpSizes,
    pub(super) counters: Vec<CounterValue>,
    pub(super) candidates: Candidates,
    pub(super) losses: Losses,
    /// Host processes by the calls (or, without any, ranges) they made.
    pub(super) processes: BTreeMap<(bool, u32), u64>,
    pub(super) seen: Seen,
    shape: String,
}

/// Start and end of an event, as the file has them.
#[derive(Clone, Copy, Debug)]
struct Span {
    start_ns: i64,
    end_ns: i64,
}

impl Columns {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            texts: Texts::default(),
            device: DeviceEvents::default(),
            host: HostEvents::default(),
            collectives: Collectives::default(),
            op_sizes: OpSizes::default(),
            counters: Vec::new(),
            candidates: Candidates::new(settings.max_candidates),
            losses: Losses::default(),
            processes: BTreeMap::new(),
            seen: Seen::default(),
            shape: String::new(),
        }
    }

    /// Frames that are shorter are not taken.
    #[inline]
    pub(super) fn min_frame_ns(&self) -> i64 {
        if self.settings.host_frames { 0 } else { self.candidates.min_ns().max(MIN_FRAME_NS) }
    }

    /// Operators that are shorter are not taken.
    #[inline]
    pub(super) fn min_op_ns(&self) -> i64 {
        if self.settings.host_frames { 0 } else { self.candidates.min_ns() }
    }

    /// Takes an event that stands at `offset` of the file in `bytes`.
    pub(super) fn add<'a>(&mut self, whole: &Whole<'a>, bytes: &'a [u8], offset: u64) {
        let event = &whole.event;
        if let (Category::Op, Arguments::At(at)) = (event.category, event.arguments) {
            self.add_sizes(event, bytes, at);
        }
        match event.arguments {
            Arguments::Read => self.add_with(event, &whole.args, offset),
            Arguments::At(at) if event.category.has_arguments() => {
                let mut args = Args::default();
                if args.read(&mut Cursor::new(bytes, at)).is_ok() {
                    self.add_with(event, &args, offset);
                } else {
                    self.losses.damaged.add(offset);
                }
            }
            _ => self.add_with(event, &Args::default(), offset),
        }
    }

    fn add_with(&mut self, event: &Event<'_>, args: &Args<'_>, offset: u64) {
        let category = event.category;
        match event.ph {
            b'X' => {}
            b'C' => return self.add_counter(event, category, args, offset),
            b'B' | b'E' | b'b' | b'e' | b'n' => return self.losses.other_phases.add(offset),
            _ => return,
        }
        match category {
            Category::Skipped | Category::Counter => {}
            Category::Unknown => {
                if event.cat.is_some() {
                    self.losses.unknown.add(offset);
                }
            }
            Category::Op | Category::Frame => self.add_enclosing(event, category, offset),
            Category::MtiaWork if memchr::memmem::find(event.name.raw, b"wait").is_some() => {
                self.add_host(event, Category::Sync, args, offset);
            }
            Category::Kernel | Category::Memcpy | Category::Memset | Category::MtiaWork => {
                self.add_device(event, category, args, offset);
            }
            _ => self.add_host(event, category, args, offset),
        }
    }

    fn span(&mut self, event: &Event<'_>, longest_ns: i64, offset: u64) -> Option<Span> {
        let start = microseconds(event.ts);
        let duration = event.dur.map_or(Some(0), microseconds);
        let span = start
            .zip(duration)
            .filter(|(_, duration)| (0..=longest_ns).contains(duration))
            .and_then(|(start_ns, duration)| Some(Span { start_ns, end_ns: start_ns.checked_add(duration)? }));
        if span.is_none() {
            self.losses.impossible.add(offset);
        }
        span
    }

    fn add_device(&mut self, event: &Event<'_>, category: Category, args: &Args<'_>, offset: u64) {
        if event.dur.is_none() {
            return self.losses.without_duration.add(offset);
        }
        let Some(span) = self.span(event, MAX_WORK_NS, offset) else { return };
        let kind = match category {
            Category::Memcpy => "memcpy",
            Category::Memset => "memset",
            _ => "kernel",
        };
        self.seen.mtia |= category == Category::MtiaWork;
        let form = if category == Category::Memcpy { Form::Copy } else { Form::Plain };
        let name = self.texts.name(event.name, form, &mut self.losses, offset);
        let shape = self.shape(args);
        let row = DeviceEvent {
            t_start_ns: span.start_ns,
            t_end_ns: span.end_ns,
            run_idx: self.settings.run_idx,
            process: 0,
            device: args.device.map_or_else(|| number_of(event.pid), fold),
            stream: args.stream.map_or_else(|| number_of(event.tid), fold),
            kind: self.texts.word(kind),
            name,
            shape,
            correlation: args.correlation.filter(|id| *id > 0).map_or(0, fold),
            graph: graph_node(args.graph_node),
            byte_count: args.bytes.unwrap_or_default().max(0),
            source_idx: self.settings.source_idx,
        };
        if category == Category::Kernel && args.collective.is_told() {
            let told = collective::row(&args.collective, &row, &mut self.texts, &mut self.losses, offset);
            self.collectives.push(told);
        }
        self.device.push(row);
    }

    /// Launch as text; only what is told.
    fn shape(&mut self, args: &Args<'_>) -> Name {
        self.shape.clear();
        for (key, [x, y, z]) in [("grid", args.grid), ("block", args.block)] {
            if x > 0 {
                let _ = write!(self.shape, "{key}={x},{y},{z} ");
            }
        }
        for (key, value) in [("regs", args.registers), ("smem", args.shared_memory)] {
            if let Some(value) = value.filter(|_| !self.shape.is_empty()) {
                let _ = write!(self.shape, "{key}={value} ");
            }
        }
        self.texts.names.intern(self.shape.trim_end())
    }

    fn add_host(&mut self, event: &Event<'_>, category: Category, args: &Args<'_>, offset: u64) {
        let Some(span) = self.span(event, MAX_HOST_NS, offset) else { return };
        let is_call = matches!(category, Category::Runtime | Category::Driver);
        if is_call || category == Category::Annotation {
            *self.processes.entry((!is_call, number_of(event.pid))).or_default() += 1;
        }
        let kind = match category {
            Category::Runtime => "runtime",
            Category::Driver => "driver",
            Category::Sync => "sync",
            Category::Overhead => "overhead",
            Category::DeviceAnnotation => "device_annotation",
            _ => "annotation",
        };
        let is_kind_told = category == Category::Sync && !args.sync_kind.raw.is_empty();
        if is_call {
            self.seen.calls = true;
            self.seen.hip |= event.name.raw.starts_with(b"hip");
            self.seen.cuda |= event.name.raw.starts_with(b"cu");
            self.seen.xpu |= event.name.raw.starts_with(b"ze") || event.name.raw.starts_with(b"ur");
        }
        let form = match category {
            Category::Runtime | Category::Driver => Form::Call,
            Category::Annotation | Category::DeviceAnnotation => Form::Annotation,
            _ => Form::Plain,
        };
        let name = self.texts.name(if is_kind_told { args.sync_kind } else { event.name }, form, &mut self.losses, offset);
        let row = HostEvent {
            t_start_ns: span.start_ns,
            t_end_ns: span.end_ns,
            run_idx: self.settings.run_idx,
            process: 0,
            thread: number_of(event.tid),
            kind: self.texts.word(kind),
            name,
            correlation: args.correlation.filter(|id| *id > 0).map_or(0, fold),
            source_idx: self.settings.source_idx,
        };
        self.host.push(row);
    }

    fn add_enclosing(&mut self, event: &Event<'_>, category: Category, offset: u64) {
        // Until 2022 the steps of the profiler were operators.
        if category == Category::Op && event.name.raw.starts_with(b"ProfilerStep#") {
            return self.add_host(event, Category::Annotation, &Args::default(), offset);
        }
        let Some(duration_ns) = event.dur.and_then(microseconds) else { return };
        let min_ns = match category {
            Category::Frame => self.min_frame_ns(),
            _ => self.min_op_ns(),
        };
        if !(min_ns..=MAX_HOST_NS).contains(&duration_ns) {
            return;
        }
        let Some(start_ns) = microseconds(event.ts) else { return };
        let name = self.texts.name(event.name, Form::Frame, &mut self.losses, offset);
        let thread = number_of(event.tid);
        if !self.settings.host_frames {
            let kind = match category {
                Category::Op => Enclosing::Op,
                _ if event.name.raw.starts_with(b"<") => Enclosing::BuiltIn,
                _ => Enclosing::Frame,
            };
            return self.candidates.add(start_ns, duration_ns, thread, name, kind);
        }
        let row = HostEvent {
            t_start_ns: start_ns,
            t_end_ns: start_ns.saturating_add(duration_ns),
            run_idx: self.settings.run_idx,
            thread,
            kind: self.texts.word(if category == Category::Frame { "frame" } else { "op" }),
            name,
            source_idx: self.settings.source_idx,
            ..HostEvent::default()
        };
        self.host.push(row);
    }

    /// Keeps what the arguments of an operator tell of its sizes.
    fn add_sizes(&mut self, event: &Event<'_>, bytes: &[u8], at: usize) {
        let Some(told) = op_sizes::read(event.name.raw, bytes, at) else { return };
        let duration = event.dur.and_then(microseconds).filter(|ns| (0..=MAX_HOST_NS).contains(ns));
        let (Some(start_ns), Some(duration_ns)) = (microseconds(event.ts), duration) else { return };
        self.op_sizes.push(OpSize {
            t_start_ns: start_ns,
            t_end_ns: start_ns.saturating_add(duration_ns),
            run_idx: self.settings.run_idx,
            process: 0,
            thread: number_of(event.tid),
            op: self.texts.word(told.op),
            sizes: self.texts.names.intern(&told.sizes),
            dtype: self.texts.word(told.dtype),
            source_idx: self.settings.source_idx,
        });
    }

    fn add_counter(&mut self, event: &Event<'_>, category: Category, args: &Args<'_>, offset: u64) {
        if category != Category::Counter {
            return;
        }
        let name = self.texts.text(event.name, &mut self.losses, offset);
        let value = std::str::from_utf8(args.value).ok().and_then(|text| text.parse::<f64>().ok()).filter(|value| value.is_finite());
        let signal = counters::signal_of(&name);
        match (signal, microseconds(event.ts), value) {
            (Some((signal, divisor)), Some(t_ns), Some(value)) => {
                self.counters.push(CounterValue { t_ns, device: number_of(event.pid), signal, value: value / divisor });
            }
            _ => self.losses.unmapped_counters.add(offset),
        }
    }
}

/// A graph node's id, which holds the graph's in its upper half, in 32 bits; 0 stays 0, and no other id becomes it.
fn graph_node(id: i64) -> u32 {
    match id {
        0 => 0,
        id => fold(id).max(1),
    }
}

/// An identifier in 32 bits: small ones stay as they are, -1 is the largest, and what is wider is mixed.
pub(super) fn fold(id: i64) -> u32 {
    let (low, high) = (id as u32, (id >> 32) as u32);
    match high {
        0 | u32::MAX => low,
        high => low ^ high.wrapping_mul(0x9e37_79b1),
    }
}
