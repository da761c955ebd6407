//! Packets one after another: slices that begin and end, whole slices, counters.

use capture::{DeviceEvent, HostEvent, Name, Severity};
use hashbrown::HashMap;

use crate::builder::Builder;
use crate::formats::collective_kernels;

use super::clocks::Clocks;
use super::sequences::{Sequence, Sequences};
use super::tracks::{Lane, Tracks};
use super::wire::{Fields, Value, fields, text};
use super::{MAX_UNPACKED_BYTES, packet};

/// Most slices of one trace.
const MAX_EVENTS: usize = 48_000_000;
/// Most slices that are open at once, over all tracks.
const MAX_OPEN: usize = 1_000_000;
/// Longest believable slice.
const MAX_EVENT_NS: i64 = 1_000_000_000_000_000;
/// Longest name of a slice of the host that is kept.
const MAX_NAME_BYTES: usize = 512;

/// Fields of a track event.
mod field {
    pub(super) const CATEGORY_IIDS: u32 = 3;
    pub(super) const ANNOTATIONS: u32 = 4;
    pub(super) const LEGACY: u32 = 6;
    pub(super) const TYPE: u32 = 9;
    pub(super) const NAME_IID: u32 = 10;
    pub(super) const TRACK: u32 = 11;
    pub(super) const CATEGORIES: u32 = 22;
    pub(super) const NAME: u32 = 23;
    pub(super) const COUNTER: u32 = 30;
    pub(super) const DOUBLE_COUNTER: u32 = 44;
}

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const COUNTER: u64 = 4;

/// Categories as PyTorch's and AMD's writers spell them, and the kind they become; the first four are of the device.
const CATEGORIES: &[(&str, &str)] = &[
    ("kernel_dispatch", "kernel"),
    ("kernel", "kernel"),
    ("memory_copy", "memcpy"),
    ("gpu_memcpy", "memcpy"),
    ("gpu_memset", "memset"),
    ("cuda_runtime", "runtime"),
    ("hip_api", "runtime"),
    ("hip_runtime_api", "runtime"),
    ("cuda_driver", "driver"),
    ("hsa_api", "driver"),
    ("cpu_op", "op"),
    ("python_function", "frame"),
    ("gpu_user_annotation", "device_annotation"),
    ("overhead", "overhead"),
    ("cuda_sync", "sync"),
];

/// A slice that has begun.
struct Open {
    start_ns: i64,
    event: Told,
}

/// What an event tells.
#[derive(Clone, Debug, Default)]
struct Told {
    kind: &'static str,
    name: String,
    correlation: u32,
    device: Option<u32>,
    stream: Option<u32>,
    byte_count: i64,
    counter: Option<f64>,
    /// Whole slices tell how long they are.
    duration_ns: Option<i64>,
    event_type: u64,
    track: u64,
}

/// See the module.
#[derive(Default)]
pub(super) struct Reading {
    clocks: Clocks,
    sequences: Sequences,
    tracks: Tracks,
    open: HashMap<u64, Vec<Open>>,
    open_count: usize,
    counters_left_out: u64,
}

/// A packet's fields.
#[derive(Default)]
struct Packet<'a> {
    timestamp: u64,
    clock: Option<u32>,
    sequence: u64,
    flags: u64,
    was_dropped: bool,
    snapshot: Option<&'a [u8]>,
    interned: Option<&'a [u8]>,
    defaults: Option<&'a [u8]>,
    descriptor: Option<&'a [u8]>,
    event: Option<&'a [u8]>,
    packed: Option<&'a [u8]>,
}

impl<'a> Packet<'a> {
    /// Reads a packet; false beside it when it is damaged.
    fn read(bytes: &'a [u8]) -> (Self, bool) {
        let mut it = Self::default();
        for field in Fields::new(bytes) {
            let Ok((number, value)) = field else { return (it, false) };
            match number {
                packet::TIMESTAMP => it.timestamp = value.int(),
                packet::CLOCK_ID => it.clock = Some(value.int() as u32),
                packet::SEQUENCE => it.sequence = value.int(),
                packet::FLAGS => it.flags = value.int(),
                packet::DROPPED => it.was_dropped = value.int() != 0,
                packet::CLOCK_SNAPSHOT => it.snapshot = Some(value.bytes()),
                packet::INTERNED => it.interned = Some(value.bytes()),
                packet::DEFAULTS => it.defaults = Some(value.bytes()),
                packet::TRACK_DESCRIPTOR => it.descriptor = Some(value.bytes()),
                packet::TRACK_EVENT => it.event = Some(value.bytes()),
                packet::COMPRESSED => it.packed = Some(value.bytes()),
                _ => {}
            }
        }
        (it, true)
    }
}

impl Reading {
    /// Takes one packet.
    pub(super) fn packet(&mut self, bytes: &[u8], builder: &mut Builder<'_>) {
        let (packet, is_whole) = Packet::read(bytes);
        if !is_whole {
            builder.mark_damaged();
            builder.issue_once(Severity::Warning, "damaged_packets", "", || {
                "expected packets made of whole fields, found others; what stands behind the damage in them is left out".to_string()
            });
        }
        if let Some(packed) = packet.packed {
            self.unpack(packed, builder);
        }
        if packet.was_dropped {
            builder.issue_once(Severity::Warning, "packets_lost", "", || {
                "expected every packet, found that the recorder dropped some: slices may be missing; record with a larger buffer"
                    .to_string()
            });
        }
        if let Some(snapshot) = packet.snapshot {
            self.clocks.snapshot(snapshot, packet.sequence);
        }
        if let Some(descriptor) = packet.descriptor
            && !self.tracks.describe(descriptor)
        {
            too_many("tracks", builder);
        }
        let Some(sequence) = self.sequences.enter(packet.sequence, packet.flags, packet.was_dropped) else {
            builder.issue_once(Severity::Warning, "packets_without_state", "", || {
                "expected packets whose names are in the trace, found some that refer to lost ones; they are left out".to_string()
            });
            return;
        };
        if let Some(defaults) = packet.defaults {
            set_defaults(sequence, defaults);
        }
        let clock = packet.clock.or(sequence.default_clock);
        if let Some(interned) = packet.interned
            && !self.sequences.intern(packet.sequence, interned)
        {
            too_many("names", builder);
        }
        if let Some(event) = packet.event {
            self.event(event, &packet, clock, builder);
        }
    }

    /// Packets within a packet, packed with zlib.
    fn unpack(&mut self, packed: &[u8], builder: &mut Builder<'_>) {
        let mut bytes = Vec::new();
        let decoder = flate2::read::ZlibDecoder::new(packed);
        let outcome = std::io::Read::read_to_end(&mut std::io::Read::take(decoder, MAX_UNPACKED_BYTES), &mut bytes);
        if outcome.is_err() || bytes.len() as u64 == MAX_UNPACKED_BYTES {
            builder.mark_damaged();
            builder.issue_once(Severity::Warning, "damaged_packets", "", || {
                format!("expected packed packets of at most {MAX_UNPACKED_BYTES} bytes, found others; the rest of them is left out")
            });
        }
        for (number, inner) in fields(&bytes) {
            // Packed packets in packed packets would be a bomb.
            if number == 1 && fields(inner.bytes()).all(|(number, _)| number != packet::COMPRESSED) {
                self.packet(inner.bytes(), builder);
            }
        }
    }

    fn event(&mut self, message: &[u8], packet: &Packet<'_>, clock: Option<u32>, builder: &mut Builder<'_>) {
        let Some(t_ns) = self.clocks.time(packet.timestamp, clock, packet.sequence) else {
            builder.issue_once(Severity::Warning, "impossible_times", "", || {
                "expected times of a clock that the trace defines, found others; their slices are left out".to_string()
            });
            return;
        };
        let Some(sequence) = self.sequences.get(packet.sequence) else { return };
        let told = Told::read(message, sequence);
        match told.event_type {
            SLICE_BEGIN => self.begin(t_ns, told, builder),
            SLICE_END => self.end(t_ns, told.track, builder),
            COUNTER => self.counter(t_ns, &told, builder),
            _ => {
                if let Some(duration_ns) = told.duration_ns {
                    self.slice(t_ns, t_ns.saturating_add(duration_ns), told, builder);
                }
            }
        }
    }

    fn begin(&mut self, start_ns: i64, event: Told, builder: &mut Builder<'_>) {
        if self.open_count >= MAX_OPEN {
            too_many("open slices", builder);
            return;
        }
        self.open_count += 1;
        self.open.entry(event.track).or_default().push(Open { start_ns, event });
    }

    fn end(&mut self, t_ns: i64, track: u64, builder: &mut Builder<'_>) {
        let Some(Open { start_ns, event }) = self.open.get_mut(&track).and_then(Vec::pop) else {
            builder.issue_once(Severity::Note, "ends_without_start", "", || {
                "expected slices to begin within the recording, found ends without a beginning; they are left out".to_string()
            });
            return;
        };
        self.open_count -= 1;
        self.slice(start_ns, t_ns, event, builder);
    }

    fn counter(&mut self, t_ns: i64, told: &Told, builder: &mut Builder<'_>) {
        let signal = self.tracks.counter(told.track).and_then(capture::signals::resolve).map(|resolved| resolved.signal.name);
        match (signal, told.counter.filter(|value| value.is_finite())) {
            (Some(signal), Some(value)) => builder.sample(t_ns, signal, "", value),
            _ => self.counters_left_out += 1,
        }
    }

    fn slice(&mut self, t_start_ns: i64, t_end_ns: i64, told: Told, builder: &mut Builder<'_>) {
        if !(0..=MAX_EVENT_NS).contains(&t_end_ns.saturating_sub(t_start_ns)) {
            builder.issue_once(Severity::Warning, "impossible_times", "", || {
                "expected slices to end after their start, found others; they are left out".to_string()
            });
            return;
        }
        let tables = &builder.capture.tables;
        if tables.device_events.t_start_ns.len() + tables.host_events.t_start_ns.len() >= MAX_EVENTS {
            too_many("slices", builder);
            return;
        }
        let lane = self.tracks.lane(told.track);
        let is_device =
            matches!(told.kind, "kernel" | "memcpy" | "memset") || (told.kind.is_empty() && matches!(lane, Lane::Device { .. }));
        if is_device {
            add_device((t_start_ns, t_end_ns), told, lane, builder);
        } else {
            add_host((t_start_ns, t_end_ns), &told, lane, builder);
        }
    }

    /// Ends the reading: moves times to the host clock and says what was left out. Gives the offset that was added.
    pub(super) fn finish(self, builder: &mut Builder<'_>) -> Option<i64> {
        if self.open_count > 0 {
            let sentence = "expected slices to end within the recording, found some that do not; they are left out";
            builder.issue(Severity::Note, "open_ranges", "", self.open_count, sentence);
        }
        if self.counters_left_out > 0 {
            builder.source_row().unmapped_count += self.counters_left_out;
            let sentence = "expected counters that are named like signals, found others; their values are left out";
            builder.issue(Severity::Note, "unknown_metrics", "", self.counters_left_out, sentence);
        }
        let offset_ns = self.clocks.to_real()?;
        let tables = &mut builder.capture.tables;
        let times = [
            &mut tables.device_events.t_start_ns,
            &mut tables.device_events.t_end_ns,
            &mut tables.host_events.t_start_ns,
            &mut tables.host_events.t_end_ns,
            &mut tables.collectives.t_start_ns,
            &mut tables.collectives.t_end_ns,
            &mut tables.samples.t_ns,
        ];
        for t_ns in times.into_iter().flatten() {
            *t_ns = t_ns.saturating_add(offset_ns);
        }
        Some(offset_ns)
    }
}

fn too_many(what: &str, builder: &mut Builder<'_>) {
    builder.issue_once(Severity::Warning, "too_many_events", "", || {
        format!("expected fewer {what} in one trace, found more; the rest is left out")
    });
}

fn set_defaults(sequence: &mut Sequence, message: &[u8]) {
    for (number, value) in fields(message) {
        match number {
            packet::CLOCK_ID => sequence.default_clock = Some(value.int() as u32),
            packet::TRACK_EVENT => {
                let track = fields(value.bytes()).find(|(number, _)| *number == field::TRACK);
                sequence.default_track = track.map_or(0, |(_, track)| track.int());
            }
            _ => {}
        }
    }
}

impl Told {
    fn read(message: &[u8], sequence: &Sequence) -> Self {
        let mut it = Self { track: sequence.default_track, ..Self::default() };
        let mut set_kind = |category: &str| {
            let category = category.to_ascii_lowercase();
            CATEGORIES.iter().find(|(known, _)| *known == category).map_or("", |(_, kind)| *kind)
        };
        for (number, value) in fields(message) {
            match number {
                field::TYPE => it.event_type = value.int(),
                field::TRACK => it.track = value.int(),
                field::NAME => it.name = text(value).into_owned(),
                field::NAME_IID => it.name = sequence.event_name(value.int()).unwrap_or_default().to_string(),
                field::CATEGORIES => it.kind = set_kind(&text(value)),
                field::CATEGORY_IIDS => it.kind = sequence.category(value.int()).map_or("", &mut set_kind),
                field::COUNTER => it.counter = Some(value.signed() as f64),
                field::DOUBLE_COUNTER => it.counter = Some(f64::from_bits(value.int())),
                field::ANNOTATIONS => it.annotation(value.bytes(), sequence),
                field::LEGACY => it.legacy(value.bytes()),
                _ => {}
            }
        }
        it
    }

    /// An argument that tells where the work ran or what launched it.
    fn annotation(&mut self, message: &[u8], sequence: &Sequence) {
        let (mut key, mut number) = (String::new(), None);
        for (field, value) in fields(message) {
            match (field, value) {
                (1, id) => key = sequence.annotation_name(id.int()).unwrap_or_default().to_string(),
                (10, name) => key = text(name).into_owned(),
                (3 | 4, Value::Int(value)) => number = Some(value),
                _ => {}
            }
        }
        let small = number.and_then(|value| u32::try_from(value).ok());
        match key.as_str() {
            "corr_id" | "correlation" | "correlation_id" => self.correlation = small.unwrap_or(0),
            "device" => self.device = small,
            "stream" | "queue" => self.stream = self.stream.or(small),
            "copy_bytes" | "bytes" => self.byte_count = number.and_then(|value| i64::try_from(value).ok()).unwrap_or(0),
            _ => {}
        }
    }

    /// An event in the old form: a letter for its type, and how long it is.
    fn legacy(&mut self, message: &[u8]) {
        for (number, value) in fields(message) {
            match number {
                2 => {
                    self.event_type = match value.int() as u8 {
                        b'B' => SLICE_BEGIN,
                        b'E' => SLICE_END,
                        _ => self.event_type,
                    };
                }
                3 => self.duration_ns = value.signed().checked_mul(1_000),
                _ => {}
            }
        }
    }
}

fn add_device((t_start_ns, t_end_ns): (i64, i64), told: Told, lane: Lane, builder: &mut Builder<'_>) {
    let (process, device, stream, on_copy_track) = match lane {
        Lane::Device { process, device, stream, is_copy } => (process, device, stream, is_copy),
        Lane::Host { process, thread } => (process, 0, thread, false),
    };
    let copy = copy_name(&told.name);
    let kind = match (told.kind, &copy) {
        ("", Some(_)) => "memcpy",
        ("", None) if told.name.starts_with("Memset") => "memset",
        ("", None) if on_copy_track => "memcpy",
        ("", None) => "kernel",
        (kind, _) => kind,
    };
    let name = if kind == "memcpy" { copy.unwrap_or(told.name) } else { told.name };
    let told_collective = collective_kernels::told(&name);
    let row = DeviceEvent {
        t_start_ns,
        t_end_ns,
        run_idx: builder.context.run_idx,
        process,
        device: told.device.unwrap_or(device),
        stream: told.stream.unwrap_or(stream),
        kind: builder.intern(kind),
        name: builder.intern(&name),
        shape: Name::EMPTY,
        correlation: told.correlation,
        graph: 0,
        byte_count: told.byte_count.max(0),
        source_idx: builder.source(),
    };
    builder.capture.tables.device_events.push(row);
    if let Some(told) = told_collective {
        let (op, dtype) = (builder.intern(told.op), builder.intern(told.dtype));
        let events = &builder.capture.tables.device_events;
        let row = collective_kernels::row(events, events.t_start_ns.len() - 1, op, dtype);
        builder.capture.tables.collectives.push(row);
    }
}

fn add_host((t_start_ns, t_end_ns): (i64, i64), told: &Told, lane: Lane, builder: &mut Builder<'_>) {
    let (Lane::Host { process, thread } | Lane::Device { process, stream: thread, .. }) = lane;
    let kind = if told.kind.is_empty() { "annotation" } else { told.kind };
    let line = told.name.lines().next().unwrap_or_default();
    let end = (0..=MAX_NAME_BYTES.min(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    let name = builder.capture.names.find(&line[..end]);
    let name = name.unwrap_or_else(|| builder.intern(&crate::secrets::redact(&line[..end])));
    let row = HostEvent {
        t_start_ns,
        t_end_ns,
        run_idx: builder.context.run_idx,
        process,
        thread,
        kind: builder.intern(kind),
        name,
        correlation: told.correlation,
        source_idx: builder.source(),
    };
    builder.capture.tables.host_events.push(row);
}

/// A copy as `HtoD Host -> Device`, out of `MEMORY_COPY_HOST_TO_DEVICE` and `Memcpy HtoD (Pinned -> Device)`.
fn copy_name(name: &str) -> Option<String> {
    if let Some(rest) = name.strip_prefix("Memcpy ") {
        return Some(rest.replace(['(', ')'], ""));
    }
    let direction = name.strip_prefix("MEMORY_COPY_").unwrap_or(name);
    let spelled = match direction {
        "HOST_TO_DEVICE" => "HtoD Host -> Device",
        "DEVICE_TO_HOST" => "DtoH Device -> Host",
        "DEVICE_TO_DEVICE" => "DtoD Device -> Device",
        "HOST_TO_HOST" => "HtoH Host -> Host",
        _ => return None,
    };
    Some(spelled.to_string())
}
