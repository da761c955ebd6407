//! Which kernels on several ranks are one collective.

use std::collections::{BTreeMap, BTreeSet};

use capture::{Name, SourceIdx};

use super::ops::op_of_kernel;
use crate::device::few::Few;
use crate::device::timeline::{Timeline, is_time};

/// The part of one rank in a collective.
#[derive(Clone, Debug)]
pub(super) struct Piece<'c> {
    pub(super) lane: usize,
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
    pub(super) op: &'c str,
    pub(super) group_size: u32,
    pub(super) bytes_in: i64,
    pub(super) bytes_out: i64,
}

impl Piece<'_> {
    pub(super) fn duration_ns(&self) -> i64 {
        self.end_ns - self.start_ns
    }
}

/// Hands over collectives, each as its pieces of different lanes, and tells how they were matched. `kernels` are the places
/// of communicating kernels in each lane.
pub(super) fn instances<'c>(timeline: &Timeline<'c>, kernels: &[Vec<u32>], mut take: impl FnMut(&[Piece<'c>])) -> &'static str {
    let (found, matched_by) = from_rows(timeline);
    for pieces in &found {
        take(pieces);
    }
    let told: BTreeSet<(usize, i64)> = found.iter().flatten().map(|piece| (piece.lane, piece.start_ns)).collect();
    by_overlap(from_kernels(timeline, kernels, &told), take);
    if told.is_empty() { "overlap" } else { matched_by }
}

/// Key of a collective within its group, and how it came to be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Sequence(i64),
    Order(u64),
}

fn from_rows<'c>(timeline: &Timeline<'c>) -> (Vec<Vec<Piece<'c>>>, &'static str) {
    let table = &timeline.capture().tables.collectives;
    let mut lanes: BTreeMap<(SourceIdx, u32), usize> = BTreeMap::new();
    for (at, lane) in timeline.lanes.iter().enumerate() {
        lanes.extend(lane.sources.iter().map(|source| ((*source, lane.device), at)));
    }
    let mut found: BTreeMap<(Name, Name, Place), Vec<Piece<'c>>> = BTreeMap::new();
    let mut order: BTreeMap<(usize, Name, Name), u64> = BTreeMap::new();
    let mut numbered = false;
    let mut rows: Vec<usize> = (0..table.t_start_ns.len()).filter(|at| table.run_idx[*at] == timeline.run_idx()).collect();
    rows.sort_by_key(|at| (table.t_start_ns[*at], table.t_end_ns[*at], table.source_idx[*at]));
    for at in rows {
        let (start_ns, end_ns) = (table.t_start_ns[at], table.t_end_ns[at]);
        let Some(&lane) = lanes.get(&(table.source_idx[at], table.device[at])) else { continue };
        if !is_time(start_ns) || !is_time(end_ns) {
            continue;
        }
        let (group, op) = (table.group[at], table.op[at]);
        let place = if table.sequence[at] >= 0 {
            numbered = true;
            Place::Sequence(table.sequence[at])
        } else {
            let next = order.entry((lane, group, op)).or_default();
            *next += 1;
            Place::Order(*next)
        };
        let piece = Piece {
            lane,
            start_ns,
            end_ns: end_ns.max(start_ns),
            op: timeline.text(op),
            group_size: table.group_size[at],
            bytes_in: table.bytes_in[at],
            bytes_out: table.bytes_out[at],
        };
        let pieces = found.entry((group, op, place)).or_default();
        // One number used twice by one rank (a send and its receive) is one piece of the collective.
        match pieces.iter_mut().find(|known| known.lane == lane) {
            Some(known) => (known.start_ns, known.end_ns) = (known.start_ns.min(piece.start_ns), known.end_ns.max(piece.end_ns)),
            None => pieces.push(piece),
        }
    }
    (found.into_values().collect(), if numbered { "sequence" } else { "order" })
}

/// Kernels that communicate, given by their places in each lane, and of which no row tells.
fn from_kernels<'c>(timeline: &Timeline<'c>, kernels: &[Vec<u32>], told: &BTreeSet<(usize, i64)>) -> Vec<Piece<'c>> {
    let mut ops: BTreeMap<Name, &'static str> = BTreeMap::new();
    let mut pieces = Vec::new();
    for (lane, places) in kernels.iter().enumerate() {
        for place in places {
            let event = timeline.event_at(&timeline.lanes[lane], *place as usize);
            let (start_ns, end_ns) = (event.start_ns, event.end_ns);
            if told.is_empty() || !told.contains(&(lane, start_ns)) {
                let op = *ops.entry(event.name).or_insert_with(|| op_of_kernel(timeline.text(event.name)));
                pieces.push(Piece { lane, start_ns, end_ns, op, group_size: 0, bytes_in: 0, bytes_out: 0 });
            }
        }
    }
    pieces.sort_by_key(|piece| (piece.start_ns, piece.end_ns, piece.lane));
    pieces
}

/// Pieces of different lanes and one operation that run at the same time are one.
fn by_overlap<'c>(pieces: Vec<Piece<'c>>, mut take: impl FnMut(&[Piece<'c>])) {
    let mut open: Few<&str, Vec<Piece<'c>>> = Few::default();
    for piece in pieces {
        let group = open.entry(piece.op, Vec::new);
        let first_end = group.iter().map(|known| known.end_ns).min().unwrap_or(i64::MAX);
        if !group.is_empty() && (piece.start_ns >= first_end || group.iter().any(|known| known.lane == piece.lane)) {
            take(group);
            group.clear();
        }
        group.push(piece);
    }
    for (_, group) in open.into_pairs().filter(|(_, group)| !group.is_empty()) {
        take(&group);
    }
}
