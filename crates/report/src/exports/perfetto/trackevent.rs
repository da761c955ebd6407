//! The protobuf form: a sequence of `TracePacket`s with `TrackEvent`s, as Perfetto's trace processor and UI read them.
//!
//! One packet sequence; names, categories and words of details are interned, each written where it is first used.

use std::collections::HashSet;
use std::io::{self, Write};

use super::protobuf::{bytes, double, fixed64, int, uint};
use super::sink::{Curve, Detail, Group, Lane, Sink, Slice, Text};

/// Field numbers of the published protos (`perfetto/trace/trace_packet.proto`, `track_event.proto`, `interned_data.proto`).
mod field {
    pub(super) const TRACE_PACKET: u32 = 1;
    pub(super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE_ID: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED_DATA: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
    pub(super) const FIRST_ON_SEQUENCE: u32 = 87;
    /// Of `TrackEvent`.
    pub(super) const CATEGORY_IID: u32 = 3;
    pub(super) const DEBUG_ANNOTATION: u32 = 4;
    pub(super) const EVENT_TYPE: u32 = 9;
    pub(super) const NAME_IID: u32 = 10;
    pub(super) const TRACK: u32 = 11;
    pub(super) const NAME: u32 = 23;
    pub(super) const DOUBLE_VALUE: u32 = 44;
    pub(super) const FLOW: u32 = 47;
    pub(super) const LAST_FLOW: u32 = 48;
    /// Of `InternedData`.
    pub(super) const CATEGORIES: u32 = 1;
    pub(super) const NAMES: u32 = 2;
    pub(super) const DETAIL_NAMES: u32 = 3;
    pub(super) const DETAIL_TEXTS: u32 = 29;
}

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const COUNTER: u64 = 4;
/// `SEQ_INCREMENTAL_STATE_CLEARED`: what was interned before this packet does not count.
const STATE_CLEARED: u64 = 1;
/// `SEQ_NEEDS_INCREMENTAL_STATE`: this packet uses interned text.
const NEEDS_STATE: u64 = 2;
/// Any number but 0; this writer has one sequence.
const SEQUENCE: u64 = 1;
/// Bits above the tracks of lanes and curves keep those of groups apart.
const GROUP_TRACK: u64 = 1 << 40;
/// `BUILTIN_CLOCK_BOOTTIME`, the clock of a trace, and `BUILTIN_CLOCK_REALTIME`.
const TRACE_CLOCK: u64 = 6;
const WALL_CLOCK: u64 = 1;

/// Writes packets.
#[derive(Debug)]
pub(super) struct TrackEvents<W> {
    out: W,
    packet: Vec<u8>,
    event: Vec<u8>,
    interned: Vec<u8>,
    part: Vec<u8>,
    names: HashSet<u32>,
    texts: HashSet<u32>,
    /// Categories and names of details, by number less 1.
    words: [Vec<&'static str>; 2],
}

impl<W: Write> TrackEvents<W> {
    /// Starts a trace. Where its times are wall time, `wall_ns` is one of them.
    pub(super) fn start(out: W, wall_ns: Option<u64>) -> io::Result<Self> {
        let mut trace = Self {
            out,
            packet: Vec::new(),
            event: Vec::new(),
            interned: Vec::new(),
            part: Vec::new(),
            names: HashSet::new(),
            texts: HashSet::new(),
            words: [Vec::new(), Vec::new()],
        };
        uint(&mut trace.packet, field::SEQUENCE_FLAGS, STATE_CLEARED);
        uint(&mut trace.packet, field::FIRST_ON_SEQUENCE, 1);
        if let Some(wall_ns) = wall_ns {
            trace.say_wall_clock(wall_ns);
        }
        trace.write_packet()?;
        Ok(trace)
    }

    fn say_wall_clock(&mut self, wall_ns: u64) {
        let mut snapshot = Vec::new();
        for clock in [TRACE_CLOCK, WALL_CLOCK] {
            let mut message = Vec::new();
            uint(&mut message, 1, clock);
            uint(&mut message, 2, wall_ns);
            bytes(&mut snapshot, 1, &message);
        }
        uint(&mut self.packet, field::TIMESTAMP, wall_ns);
        bytes(&mut self.packet, field::CLOCK_SNAPSHOT, &snapshot);
    }

    fn write_packet(&mut self) -> io::Result<()> {
        uint(&mut self.packet, field::SEQUENCE_ID, SEQUENCE);
        self.part.clear();
        bytes(&mut self.part, field::TRACE_PACKET, &self.packet);
        self.packet.clear();
        self.out.write_all(&self.part)
    }

    fn describe(&mut self, descriptor: &[u8]) -> io::Result<()> {
        bytes(&mut self.packet, field::TRACK_DESCRIPTOR, descriptor);
        self.write_packet()
    }

    /// Starts an event in `self.event`.
    fn event(&mut self, kind: u64, track: u64) {
        self.event.clear();
        self.interned.clear();
        uint(&mut self.event, field::EVENT_TYPE, kind);
        uint(&mut self.event, field::TRACK, track);
    }

    fn write_event(&mut self, t_ns: u64, needs_state: bool) -> io::Result<()> {
        uint(&mut self.packet, field::TIMESTAMP, t_ns);
        if needs_state {
            uint(&mut self.packet, field::SEQUENCE_FLAGS, NEEDS_STATE);
        }
        if !self.interned.is_empty() {
            bytes(&mut self.packet, field::INTERNED_DATA, &self.interned);
        }
        bytes(&mut self.packet, field::TRACK_EVENT, &self.event);
        self.write_packet()
    }

    fn intern(&mut self, table: u32, iid: u64, text: &str) {
        self.part.clear();
        uint(&mut self.part, 1, iid);
        bytes(&mut self.part, 2, text.as_bytes());
        bytes(&mut self.interned, table, &self.part);
    }

    /// Number of a category (kind 0) or of a name of a detail (kind 1).
    fn word(&mut self, kind: usize, word: &'static str) -> u64 {
        if let Some(at) = self.words[kind].iter().position(|known| *known == word) {
            return at as u64 + 1;
        }
        self.words[kind].push(word);
        let iid = self.words[kind].len() as u64;
        self.intern([field::CATEGORIES, field::DETAIL_NAMES][kind], iid, word);
        iid
    }

    fn detail(&mut self, name: &'static str, detail: Detail<'_>) {
        let name_iid = self.word(1, name);
        let text_iid = match detail {
            Detail::Text(Text { id: Some(id), text }) => {
                let iid = u64::from(id) + 1;
                if self.texts.insert(id) {
                    self.intern(field::DETAIL_TEXTS, iid, text);
                }
                Some(iid)
            }
            _ => None,
        };
        self.part.clear();
        uint(&mut self.part, 1, name_iid);
        match (detail, text_iid) {
            (Detail::Text(_), Some(iid)) => uint(&mut self.part, 17, iid),
            (Detail::Text(text), None) => bytes(&mut self.part, 6, text.text.as_bytes()),
            (Detail::Count(count), _) => int(&mut self.part, 4, count),
            (Detail::Number(number), _) => double(&mut self.part, 5, number),
        }
        bytes(&mut self.event, field::DEBUG_ANNOTATION, &self.part);
    }
}

impl<W: Write> Sink for TrackEvents<W> {
    fn group(&mut self, group: Group<'_>) -> io::Result<()> {
        let (mut process, mut descriptor) = (Vec::new(), Vec::new());
        uint(&mut process, 1, u64::from(group.pid));
        bytes(&mut process, 6, group.name.as_bytes());
        uint(&mut descriptor, 1, GROUP_TRACK | u64::from(group.pid));
        bytes(&mut descriptor, 3, &process);
        self.describe(&descriptor)
    }

    fn lane(&mut self, lane: Lane<'_>) -> io::Result<()> {
        let (mut thread, mut descriptor) = (Vec::new(), Vec::new());
        uint(&mut thread, 1, u64::from(lane.pid));
        uint(&mut thread, 2, u64::from(lane.tid));
        bytes(&mut thread, 5, lane.name.as_bytes());
        uint(&mut descriptor, 1, lane.track);
        uint(&mut descriptor, 5, GROUP_TRACK | u64::from(lane.pid));
        bytes(&mut descriptor, 4, &thread);
        self.describe(&descriptor)
    }

    fn curve(&mut self, curve: Curve<'_>) -> io::Result<()> {
        let (mut counter, mut descriptor) = (Vec::new(), Vec::new());
        bytes(&mut counter, 6, curve.unit.as_bytes());
        uint(&mut descriptor, 1, curve.track);
        bytes(&mut descriptor, 2, curve.name.as_bytes());
        uint(&mut descriptor, 5, GROUP_TRACK | u64::from(curve.pid));
        bytes(&mut descriptor, 8, &counter);
        self.describe(&descriptor)
    }

    fn begin(&mut self, track: u64, t_ns: u64, slice: &Slice<'_>) -> io::Result<()> {
        self.event(SLICE_BEGIN, track);
        match slice.name.id {
            Some(id) => {
                let iid = u64::from(id) + 1;
                if self.names.insert(id) {
                    self.intern(field::NAMES, iid, slice.name.text);
                }
                uint(&mut self.event, field::NAME_IID, iid);
            }
            None => bytes(&mut self.event, field::NAME, slice.name.text.as_bytes()),
        }
        if !slice.category.is_empty() {
            let iid = self.word(0, slice.category);
            uint(&mut self.event, field::CATEGORY_IID, iid);
        }
        for &(name, detail) in slice.details {
            self.detail(name, detail);
        }
        if slice.flow_out != 0 {
            fixed64(&mut self.event, field::FLOW, slice.flow_out);
        }
        if slice.flow_in != 0 {
            fixed64(&mut self.event, field::LAST_FLOW, slice.flow_in);
        }
        self.write_event(t_ns, true)
    }

    fn end(&mut self, track: u64, t_ns: u64) -> io::Result<()> {
        self.event(SLICE_END, track);
        self.write_event(t_ns, false)
    }

    fn value(&mut self, track: u64, t_ns: u64, value: f64) -> io::Result<()> {
        self.event(COUNTER, track);
        double(&mut self.event, field::DOUBLE_VALUE, value);
        self.write_event(t_ns, false)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
