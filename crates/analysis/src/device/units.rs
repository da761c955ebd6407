//! A unit of work that repeats on a device: the stretch from one call of an anchor kernel to the next, or to the next but
//! one where its calls alternate, as self- and cross-attention of one block do.
//!
//! A window of fixed length proves nothing: half the work in it looks like twice the speed. A unit is the same work in
//! both of two recordings.

use super::account::LaneAccount;
use super::distribution::Distribution;
use super::families::{FamilyTotal, families};
use super::idle::{HostStates, Idle};
use super::kernels::family;
use super::timeline::{Lane, Timeline};

/// What repeats on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Family of the kernel that begins it.
    pub anchor: String,
    /// Calls of that kernel in one unit.
    pub anchors_per_unit: u32,
    /// Complete units.
    pub count: u64,
    /// Time of one: from one start of the anchor to the start of the unit's next.
    pub time: Distribution,
    /// Account of all complete units together.
    pub account: LaneAccount,
    /// Idle time in them by cause.
    pub idle: Idle,
    /// Their kernels.
    pub families: Vec<FamilyTotal>,
}

impl Unit {
    /// Mean time of one unit, ns.
    pub fn mean_ns(&self) -> i64 {
        self.time.total_ns / i64::try_from(self.count).unwrap_or(i64::MAX).max(1)
    }

    /// The unit of a lane with its busiest stream; nothing where no kernel returns with the same work between.
    pub fn of(timeline: &Timeline<'_>, lane: &Lane, stream: u32, totals: &[FamilyTotal], host: &HostStates) -> Option<Self> {
        // Many anchors would do; the one with most time is named alike in most versions.
        let anchors: Vec<&str> =
            totals.iter().filter(|total| total.count >= 2 * FEWEST).take(TRIED).map(|total| total.family.as_str()).collect();
        let tried = calls_of(timeline, lane, stream, &anchors, LOOKED_AT);
        let (at, per_unit) = tried.iter().enumerate().find_map(|(at, calls)| Some((at, period(calls)?)))?;
        let calls = calls_of(timeline, lane, stream, &anchors[at..=at], MOST * per_unit + 1).pop()?;
        let first = longest_place(&calls, per_unit);
        let starts: Vec<&AnchorCall> = calls.iter().skip(first).step_by(per_unit).collect();
        let places = starts.first()?.place..starts.last()?.place;
        // The stretch before the next unit's anchor belongs to the last unit.
        let mut account = LaneAccount::at(timeline, lane, places.clone());
        let closing_ns = (starts.last()?.start_ns - account.end_ns).max(0);
        account.end_ns += closing_ns;
        account.window_ns += closing_ns;
        account.idle_ns += closing_ns;
        let idle = Idle::at(timeline, lane, places.start..places.end + 1, host);
        let mut lengths: Vec<i64> = starts.windows(2).map(|pair| pair[1].start_ns - pair[0].start_ns).collect();
        (starts.len() > FEWEST as usize).then(|| Self {
            anchor: anchors[at].to_string(),
            anchors_per_unit: per_unit as u32,
            count: lengths.len() as u64,
            time: Distribution::of(&mut lengths),
            account,
            idle,
            families: families(timeline, lane, places),
        })
    }
}

/// Fewest complete units.
const FEWEST: u64 = 3;
/// Families tried as anchors.
const TRIED: usize = 6;
/// Calls of an anchor by which the period is found.
const LOOKED_AT: usize = 4_096;
/// Complete units taken; so many say as much as all.
const MOST: usize = 10_000;
/// Most calls of the anchor in one unit.
const MOST_PER_UNIT: usize = 8;
/// Share of stretches that must be like the one a unit before.
const ALIKE: f64 = 0.8;

/// One call of the anchor and what follows until the next.
struct AnchorCall {
    place: usize,
    start_ns: i64,
    length_ns: i64,
    /// Kernels on the same stream from this call to the next.
    kernels: u32,
}

impl AnchorCall {
    /// The same work, give or take a tenth of its kernels and the noise of clocks.
    fn is_like(&self, other: &Self) -> bool {
        let (few, many) = (self.kernels.min(other.kernels), self.kernels.max(other.kernels));
        let (short, long) = (self.length_ns.min(other.length_ns), self.length_ns.max(other.length_ns));
        many - few <= many / 10 && long - short <= long / 4 + 500
    }
}

/// Calls of some families on a stream, at most so many of the first of them.
fn calls_of(timeline: &Timeline<'_>, lane: &Lane, stream: u32, anchors: &[&str], most: usize) -> Vec<Vec<AnchorCall>> {
    let mut anchor_of: Vec<Option<Option<usize>>> = vec![None; timeline.capture().names.len()];
    let mut calls: Vec<Vec<AnchorCall>> = anchors.iter().map(|_| Vec::new()).collect();
    let mut last_kernel: Vec<u32> = vec![0; anchors.len()];
    let mut kernel = 0u32;
    for (place, event) in timeline.events(lane).enumerate() {
        if !event.is_kernel() || event.stream != stream {
            continue;
        }
        kernel += 1;
        let Some(slot) = anchor_of.get_mut(event.name.0 as usize) else { continue };
        let of_name = || Some(family(timeline.text(event.name))).and_then(|name| anchors.iter().position(|anchor| *anchor == name));
        let Some(anchor) = *slot.get_or_insert_with(of_name) else { continue };
        if let Some(before) = calls[anchor].last_mut() {
            before.kernels = kernel - last_kernel[anchor];
        }
        if calls[anchor].len() >= most {
            // The first anchor is tried first; where it has enough the others have what it takes.
            if anchor == 0 {
                break;
            }
            continue;
        }
        last_kernel[anchor] = kernel;
        calls[anchor].push(AnchorCall { place, start_ns: event.start_ns, length_ns: event.duration_ns(), kernels: 0 });
    }
    calls
}

/// Calls in a unit: the smallest number after which the work is the same again.
fn period(calls: &[AnchorCall]) -> Option<usize> {
    // What follows the last call is cut by the end of the recording.
    let whole = &calls[..calls.len().saturating_sub(1)];
    (1..=MOST_PER_UNIT).find(|per_unit| {
        let pairs = whole.len().saturating_sub(*per_unit);
        let alike = (0..pairs).filter(|at| whole[*at].is_like(&whole[at + per_unit])).count();
        calls.len().saturating_sub(1) / per_unit >= FEWEST as usize && pairs > 0 && alike as f64 >= ALIKE * pairs as f64
    })
}

/// Which of the calls in a unit begins it: the one that takes longest, so that units of two recordings begin alike.
fn longest_place(calls: &[AnchorCall], per_unit: usize) -> usize {
    let time = |first: usize| calls.iter().skip(first).step_by(per_unit).map(|call| call.length_ns).fold(0i64, i64::saturating_add);
    let mean = |first: usize| time(first) / i64::try_from((calls.len() - first).div_ceil(per_unit)).unwrap_or(i64::MAX);
    (0..per_unit).rev().max_by_key(|first| mean(*first)).unwrap_or(0)
}
