//! Perfetto traces (`.pftrace`, `.perfetto-trace`) as far as they hold track events: slices, counters and their tracks.
//!
//! A trace is a list of packets; names are interned per sequence of packets, times may be differences to the packet
//! before. Slices become `device_events` where their category or the name of their track says that they ran on a device,
//! else `host_events`; what nobody names is an annotation. Times are brought to the host clock where a snapshot of the
//! clocks is in the trace. Left out: flows, the kernel's ftrace, samples of other data sources, texts in arguments.

mod clocks;
mod events;
mod sequences;
mod tracks;
mod wire;

use std::io::Read;

use capture::{ClockAlignment, Severity};

use crate::builder::Builder;
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;

use events::Reading;
use wire::{Fields, Value};

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "perfetto_trackevent", stage: Stage::Clocked, sniff, read };

/// Tag of a packet: field 1, with a length.
const PACKET_TAG: u64 = 0x0a;
/// Longest packet that is read; a packet holds one event or some hundred names.
const MAX_PACKET_BYTES: u64 = 64 << 20;
/// Most bytes that packed packets may unpack to at once.
const MAX_UNPACKED_BYTES: u64 = 64 << 20;
/// A snapshot reads one clock after the other.
const SNAPSHOT_ERROR_NS: i64 = 1_000_000;

/// Fields of a packet.
mod packet {
    pub(super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED: u32 = 12;
    pub(super) const FLAGS: u32 = 13;
    pub(super) const TRACE_CONFIG: u32 = 33;
    pub(super) const DROPPED: u32 = 42;
    pub(super) const COMPRESSED: u32 = 50;
    pub(super) const CLOCK_ID: u32 = 58;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
}

fn sniff(probe: &Probe<'_>) -> Confidence {
    let mut rest = probe.head;
    let mut confidence = Confidence::No;
    for _ in 0..64 {
        let Some((PACKET_TAG, at)) = wire::varint(rest, 0) else { break };
        let Some((length, at)) = wire::varint(rest, at) else { break };
        if length == 0 || length > MAX_PACKET_BYTES {
            return Confidence::No;
        }
        let end = at.saturating_add(length as usize).min(rest.len());
        let is_cut = end == rest.len() && !probe.is_whole;
        for field in Fields::new(&rest[at..end]) {
            match field {
                Ok((packet::TRACK_EVENT | packet::TRACK_DESCRIPTOR, Value::Bytes(_))) => return Confidence::Sure,
                Ok((packet::TRACE_CONFIG | packet::CLOCK_SNAPSHOT | packet::COMPRESSED, Value::Bytes(_))) => {
                    confidence = Confidence::Likely;
                }
                Ok(_) => {}
                Err(_) if is_cut => break,
                Err(_) => return Confidence::No,
            }
        }
        rest = &rest[end..];
    }
    confidence
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let mut reading = Reading::default();
    let mut packet = Vec::new();
    let mut at = 0u64;
    while let Some(next) = next_packet(input, &mut at, &mut packet) {
        match next {
            Ok(true) => reading.packet(&packet, builder),
            Ok(false) => {}
            Err(expected) => {
                builder.mark_damaged();
                let sentence = format!("expected {expected}, found something else; what was read before it is kept");
                builder.issue(Severity::Warning, "damaged_trace", &format!("byte {}", at + 1), 1, sentence);
                break;
            }
        }
    }
    let offset_ns = reading.finish(builder);
    let tables = &builder.capture.tables;
    if tables.device_events.t_start_ns.is_empty() && tables.host_events.t_start_ns.is_empty() && tables.samples.t_ns.is_empty() {
        builder.refuse("no_events", "expected slices of track events, found none; other data sources of Perfetto are not read");
        return;
    }
    tell_clock(offset_ns, builder);
}

/// Reads the next packet into `packet`; `Ok(false)` for another field of the trace, which is skipped.
fn next_packet(input: &mut Input<'_>, at: &mut u64, packet: &mut Vec<u8>) -> Option<Result<bool, &'static str>> {
    packet.clear();
    let mut byte = [0];
    if input.read(&mut byte).ok()? == 0 {
        return None;
    }
    if u64::from(byte[0]) != PACKET_TAG {
        return Some(Err("a packet"));
    }
    let mut length = Vec::with_capacity(10);
    loop {
        if input.read(&mut byte).unwrap_or(0) == 0 {
            return Some(Err("the length of a packet"));
        }
        length.push(byte[0]);
        if byte[0] < 0x80 || length.len() == 10 {
            break;
        }
    }
    let Some((count, _)) = wire::varint(&length, 0).filter(|(count, _)| *count <= MAX_PACKET_BYTES) else {
        return Some(Err("a packet of believable length"));
    };
    let got = input.take(count).read_to_end(packet).unwrap_or(0);
    if (got as u64) < count {
        return Some(Err("a whole packet"));
    }
    *at += 1 + length.len() as u64 + count;
    Some(Ok(true))
}

/// Moves everything to the host clock, or says that this cannot be done.
fn tell_clock(offset_ns: Option<i64>, builder: &mut Builder<'_>) {
    let Some(offset_ns) = offset_ns else {
        builder.issue(
            Severity::Note,
            "session_start_unknown",
            "",
            1,
            "expected a snapshot that compares the clock of the trace with real time, found none; times cannot be compared with other sources",
        );
        return;
    };
    builder.capture.manifest.clocks.push(ClockAlignment {
        source: builder.name().to_string(),
        domain: "trace clock".to_string(),
        offset_ns,
        error_ns: SNAPSHOT_ERROR_NS,
        method: "snapshot of the clocks in the trace".to_string(),
        ..ClockAlignment::default()
    });
    let tables = &builder.capture.tables;
    let starts = tables.device_events.t_start_ns.iter().chain(&tables.host_events.t_start_ns).min().copied();
    let ends = tables.device_events.t_end_ns.iter().chain(&tables.host_events.t_end_ns).max().copied();
    for t_ns in starts.into_iter().chain(ends) {
        builder.covers(t_ns);
    }
}
