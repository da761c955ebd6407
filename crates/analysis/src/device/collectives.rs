//! Collectives across ranks: waiting for the last rank to arrive told apart from the transfer itself.
//!
//! A collective ends when all have arrived. So the shortest of its kernels is the transfer, and what the others take
//! longer they waited. Rows are matched by group and number, else by their order, else (kernels of one recording without
//! such rows) by overlap in time.

mod matched;
mod ops;

use std::collections::BTreeMap;

pub use ops::{bus_factor, op_of_kernel};

use super::timeline::Timeline;
use matched::Piece;

/// One operation over all its instances.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpTotal {
    /// `allreduce`, `all_gather`, `sendrecv`; empty where the kernel does not tell.
    pub op: String,
    /// Ranks in the group, 0 where not told.
    pub group_size: u32,
    /// Instances: kernels of several ranks that are one collective count once.
    pub count: u64,
    /// Bytes of all instances, each as the operation counts them, 0 where not told.
    pub bytes: i64,
    /// Transfer of all instances, ns; an upper bound where only one rank is recorded.
    pub transfer_ns: i64,
    /// Bytes/s on the bus over the instances whose bytes are told; a lower bound where only one rank is recorded.
    pub bus_bytes_per_s: Option<f64>,
}

/// One rank among the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankWait {
    /// Label of its lane.
    pub lane: String,
    /// Time in collectives that are matched, ns.
    pub time_ns: i64,
    /// Of that, waiting for others, ns.
    pub wait_ns: i64,
    /// Collectives to which it came last.
    pub last: u64,
}

/// Collectives of one arm.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collectives {
    /// Instances seen on more than one rank.
    pub matched: u64,
    /// Instances seen on one rank only.
    pub unmatched: u64,
    /// How they were matched: `sequence`, `order`, `overlap`; empty where none was.
    pub matched_by: &'static str,
    /// By operation, the most time first.
    pub ops: Vec<OpTotal>,
    /// By rank, in order of lanes; only ranks that take part in matched ones.
    pub ranks: Vec<RankWait>,
    /// The rank that comes last to most of the matched ones, with its share, where that is [`STRAGGLES`] or more.
    pub straggler: Option<(String, f64)>,
}

/// Who is last in this share of all collectives is a straggler and not chance.
pub const STRAGGLES: f64 = 0.6;
/// Fewest matched collectives that tell a straggler.
const FEWEST: u64 = 5;

impl Collectives {
    /// Reads them; nothing where no communication was recorded. `kernels` are the places of the communicating ones in each
    /// lane.
    pub fn read(timeline: &Timeline<'_>, kernels: &[Vec<u32>]) -> Option<Self> {
        let mut collectives = Self::default();
        let mut ranks: BTreeMap<usize, RankWait> = BTreeMap::new();
        let mut ops: BTreeMap<(&str, u32), (OpTotal, f64, i64)> = BTreeMap::new();
        let matched_by = matched::instances(timeline, kernels, |pieces| {
            let transfer_ns = pieces.iter().map(Piece::duration_ns).min().unwrap_or(0);
            if pieces.len() > 1 {
                collectives.matched += 1;
                charge(&mut ranks, timeline, pieces, transfer_ns);
            } else {
                collectives.unmatched += 1;
            }
            add_op(&mut ops, pieces, transfer_ns);
        });
        if ops.is_empty() {
            return None;
        }
        collectives.matched_by = if collectives.matched > 0 { matched_by } else { "" };
        collectives.ops = ops
            .into_values()
            .map(|(total, on_bus, told_ns)| OpTotal {
                bus_bytes_per_s: (told_ns > 0 && on_bus > 0.0).then(|| on_bus / (told_ns as f64 * 1e-9)),
                ..total
            })
            .collect();
        collectives.ops.sort_by(|a, b| b.transfer_ns.cmp(&a.transfer_ns).then_with(|| (&a.op, a.group_size).cmp(&(&b.op, b.group_size))));
        collectives.ranks = ranks.into_values().collect();
        collectives.straggler = collectives.find_straggler();
        Some(collectives)
    }

    fn find_straggler(&self) -> Option<(String, f64)> {
        let most = self.ranks.iter().max_by_key(|rank| rank.last)?;
        let share = most.last as f64 / self.matched.max(1) as f64;
        (self.matched >= FEWEST && share >= STRAGGLES).then(|| (most.lane.clone(), share))
    }

    /// Waiting as a share of the time in matched collectives, all ranks together.
    pub fn wait_share(&self) -> Option<f64> {
        let sum = |part: fn(&RankWait) -> i64| self.ranks.iter().map(part).fold(0, i64::saturating_add);
        let (time, wait) = (sum(|rank| rank.time_ns), sum(|rank| rank.wait_ns));
        (time > 0).then(|| wait as f64 / time as f64)
    }
}

/// Charges each rank its wait, and the one that arrived last by itself.
fn charge(ranks: &mut BTreeMap<usize, RankWait>, timeline: &Timeline<'_>, pieces: &[Piece<'_>], transfer_ns: i64) {
    let last_start = pieces.iter().map(|piece| piece.start_ns).max().unwrap_or(0);
    let together = pieces.iter().filter(|piece| piece.start_ns == last_start).count() > 1;
    for piece in pieces {
        let rank =
            ranks.entry(piece.lane).or_insert_with(|| RankWait { lane: timeline.lanes[piece.lane].label.clone(), ..RankWait::default() });
        rank.time_ns = rank.time_ns.saturating_add(piece.duration_ns());
        rank.wait_ns = rank.wait_ns.saturating_add(piece.duration_ns() - transfer_ns);
        rank.last += u64::from(piece.start_ns == last_start && !together);
    }
}

fn add_op<'c>(ops: &mut BTreeMap<(&'c str, u32), (OpTotal, f64, i64)>, pieces: &[Piece<'c>], transfer_ns: i64) {
    let Some(first) = pieces.first() else { return };
    let group_size = if first.group_size > 0 {
        first.group_size
    } else if pieces.len() > 1 {
        pieces.len() as u32
    } else {
        0
    };
    let told = pieces.iter().filter(|piece| piece.bytes_in > 0 || piece.bytes_out > 0);
    let bytes = told.map(|piece| ops::payload_bytes(first.op, piece.bytes_in, piece.bytes_out)).max().unwrap_or(0);
    let (total, on_bus, told_ns) = ops.entry((first.op, group_size)).or_default();
    if total.count == 0 {
        (total.op, total.group_size) = (first.op.to_string(), group_size);
    }
    total.count += 1;
    total.transfer_ns = total.transfer_ns.saturating_add(transfer_ns);
    total.bytes = total.bytes.saturating_add(bytes);
    if bytes > 0
        && transfer_ns > 0
        && let Some(factor) = bus_factor(first.op, group_size)
    {
        *on_bus += bytes as f64 * factor;
        *told_ns = told_ns.saturating_add(transfer_ns);
    }
}
