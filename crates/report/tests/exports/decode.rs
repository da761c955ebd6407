//! A small reader of protobuf traces, written after the published protos and independent of the writer.

use std::collections::{BTreeMap, HashMap};

/// A field of a message.
#[derive(Clone, Debug)]
enum Field<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("a number ends");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than ten bytes")
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (eight, rest) = bytes.split_at(8);
                bytes = rest;
                Field::Fixed(u64::from_le_bytes(eight.try_into().unwrap()))
            }
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(value)
            }
            other => panic!("wire type {other}"),
        };
        found.push((tag >> 3, field));
    }
    found
}

fn number(message: &[(u64, Field<'_>)], wanted: u64) -> Option<u64> {
    message.iter().find_map(|(field, value)| match value {
        Field::Number(value) | Field::Fixed(value) if *field == wanted => Some(*value),
        _ => None,
    })
}

fn message<'a>(of: &[(u64, Field<'a>)], wanted: u64) -> Option<&'a [u8]> {
    of.iter().find_map(|(field, value)| match value {
        Field::Bytes(bytes) if *field == wanted => Some(*bytes),
        _ => None,
    })
}

fn text(of: &[(u64, Field<'_>)], wanted: u64) -> Option<String> {
    message(of, wanted).map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

/// A slice as a viewer shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slice {
    pub(crate) name: String,
    pub(crate) category: String,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) depth: usize,
    pub(crate) details: Vec<String>,
    pub(crate) flow_out: Option<u64>,
    pub(crate) flow_in: Option<u64>,
}

/// A trace as a viewer shows it: tracks by `group / track`.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) slices: BTreeMap<String, Vec<Slice>>,
    pub(crate) values: BTreeMap<String, Vec<(u64, f64)>>,
    /// Wall time the trace's clock is tied to.
    pub(crate) wall_ns: Option<u64>,
}

/// Interned text by table and number.
#[derive(Default)]
struct Interned(HashMap<(u64, u64), String>);

impl Interned {
    fn take(&mut self, data: &[u8]) {
        for (table, entry) in fields(data) {
            let Field::Bytes(entry) = entry else { panic!("interned data holds messages") };
            let entry = fields(entry);
            let known = self.0.insert((table, number(&entry, 1).unwrap()), text(&entry, 2).unwrap());
            assert!(known.is_none(), "text is interned once");
        }
    }

    fn get(&self, table: u64, iid: u64) -> String {
        self.0[&(table, iid)].clone()
    }
}

/// Reads a trace; whatever breaks the rules of the format panics.
pub(crate) fn trace(bytes: &[u8]) -> Trace {
    let (mut trace, mut interned) = (Trace::default(), Interned::default());
    let mut tracks: HashMap<u64, String> = HashMap::new();
    let mut open: HashMap<u64, Vec<Slice>> = HashMap::new();
    for (at, (field, packet)) in fields(bytes).into_iter().enumerate() {
        let Field::Bytes(packet) = packet else { panic!("a trace holds packets") };
        assert_eq!(field, 1);
        let packet = fields(packet);
        assert_eq!(number(&packet, 10), Some(1), "every packet names its sequence");
        assert_eq!(number(&packet, 13) == Some(1), at == 0, "state is cleared by the first packet");
        if let Some(snapshot) = message(&packet, 6) {
            trace.wall_ns = fields(snapshot).iter().find_map(|(_, clock)| match clock {
                Field::Bytes(clock) => number(&fields(clock), 2).filter(|_| number(&fields(clock), 1) == Some(1)),
                _ => None,
            });
        }
        if let Some(data) = message(&packet, 12) {
            interned.take(data);
        }
        if let Some(descriptor) = message(&packet, 60) {
            describe(&fields(descriptor), &mut tracks);
        }
        if let Some(event) = message(&packet, 11) {
            let t_ns = number(&packet, 8).expect("an event has a time");
            take_event(&fields(event), t_ns, &tracks, &interned, &mut open, &mut trace);
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice ends");
    trace
}

fn describe(descriptor: &[(u64, Field<'_>)], tracks: &mut HashMap<u64, String>) {
    let parent = number(descriptor, 5).map_or(String::new(), |parent| format!("{} / ", tracks[&parent]));
    let process = message(descriptor, 3).map(|process| text(&fields(process), 6).unwrap());
    let thread = message(descriptor, 4).map(|thread| text(&fields(thread), 5).unwrap());
    let name = process.or(thread).or_else(|| text(descriptor, 2)).unwrap();
    let known = tracks.insert(number(descriptor, 1).unwrap(), format!("{parent}{name}"));
    assert!(known.is_none(), "a track is described once");
}

fn take_event(
    event: &[(u64, Field<'_>)],
    t_ns: u64,
    tracks: &HashMap<u64, String>,
    interned: &Interned,
    open: &mut HashMap<u64, Vec<Slice>>,
    trace: &mut Trace,
) {
    let track = number(event, 11).unwrap();
    let name = tracks[&track].clone();
    let stack = open.entry(track).or_default();
    match number(event, 9) {
        Some(1) => {
            assert!(stack.last().is_none_or(|outer| outer.start_ns <= t_ns), "slices of a track begin in order");
            let slice = Slice {
                name: text(event, 23).unwrap_or_else(|| interned.get(2, number(event, 10).unwrap())),
                category: number(event, 3).map_or(String::new(), |iid| interned.get(1, iid)),
                start_ns: t_ns,
                end_ns: t_ns,
                depth: stack.len(),
                details: event.iter().filter(|(field, _)| *field == 4).map(|(_, detail)| detail_text(detail, interned)).collect(),
                flow_out: number(event, 47),
                flow_in: number(event, 48),
            };
            stack.push(slice);
        }
        Some(2) => {
            let slice = stack.pop().expect("a slice ends that began");
            assert!(t_ns >= slice.start_ns);
            trace.slices.entry(name).or_default().push(Slice { end_ns: t_ns, ..slice });
        }
        Some(4) => trace.values.entry(name).or_default().push((t_ns, f64::from_bits(number(event, 44).unwrap()))),
        other => panic!("event type {other:?}"),
    }
}

fn detail_text(detail: &Field<'_>, interned: &Interned) -> String {
    let Field::Bytes(detail) = detail else { panic!("a detail is a message") };
    let detail = fields(detail);
    let words = text(&detail, 6).or_else(|| Some(interned.get(29, number(&detail, 17)?)));
    let value = words
        .or_else(|| number(&detail, 4).map(|count| count.cast_signed().to_string()))
        .or_else(|| number(&detail, 5).map(|bits| f64::from_bits(bits).to_string()));
    format!("{}={}", interned.get(3, number(&detail, 1).unwrap()), value.unwrap())
}
