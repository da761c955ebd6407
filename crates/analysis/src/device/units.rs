//! A unit of work that repeats on a device: the stretch from one call of an anchor kernel to the next, or to the next but
//! one where its calls alternate, as self- and cross-attention of one block do.
//!
//! A window of fixed length proves nothing: half the work in it looks like twice the speed. A unit is the same work in
//! both of two recordings.

use super::account::LaneAccount;
use super::families::{FamilyTotal, families};
use super::idle::{HostStates, Idle};
use super::kernels::family;
use super::launches::Distribution;
use super::timeline::{Event, Lane, Timeline};

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
        self.time.total_ns / (self.count as i64).max(1)
    }

    /// The unit of a lane; nothing where no kernel returns with the same work between.
    pub fn of(timeline: &Timeline<'_>, lane: &Lane, totals: &[FamilyTotal], host: &HostStates) -> Option<Self> {
        let stream = busiest_stream(timeline, lane)?;
        // Many anchors would do; the one with most time is named alike in most versions.
        let anchor = totals.iter().filter(|total| total.count >= 2 * FEWEST).take(TRIED).find_map(|total| {
            let calls = calls_of(timeline, lane, stream, &total.family);
            period(&calls).map(|per_unit| (total, calls, per_unit))
        });
        let (total, calls, per_unit) = anchor?;
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
            anchor: total.family.clone(),
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
/// Most calls of the anchor in one unit.
const MOST_PER_UNIT: usize = 8;
/// Share of stretches that must be like the one a unit before.
const ALIKE: f64 = 0.8;

/// One call of the anchor and what follows until the next.
struct AnchorCall {
    place: usize,
    start_ns: i64,
    length_ns: i64,
    /// Kernels on the same stream until the next call.
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

fn busiest_stream(timeline: &Timeline<'_>, lane: &Lane) -> Option<u32> {
    let mut streams: std::collections::BTreeMap<u32, i64> = std::collections::BTreeMap::new();
    for event in timeline.events(lane).filter(Event::is_kernel) {
        let total = streams.entry(event.stream).or_default();
        *total = total.saturating_add(event.duration_ns());
    }
    streams.into_iter().max_by_key(|(stream, total)| (*total, std::cmp::Reverse(*stream))).map(|(stream, _)| stream)
}

fn calls_of(timeline: &Timeline<'_>, lane: &Lane, stream: u32, of_family: &str) -> Vec<AnchorCall> {
    let mut is_anchor: Vec<Option<bool>> = vec![None; timeline.capture().names.len()];
    let mut calls: Vec<AnchorCall> = Vec::new();
    for (place, event) in timeline.events(lane).enumerate() {
        if !event.is_kernel() || event.stream != stream {
            continue;
        }
        let Some(slot) = is_anchor.get_mut(event.name.0 as usize) else { continue };
        if *slot.get_or_insert_with(|| family(timeline.text(event.name)) == of_family) {
            calls.push(AnchorCall { place, start_ns: event.start_ns, length_ns: event.duration_ns(), kernels: 0 });
        } else if let Some(call) = calls.last_mut() {
            call.kernels += 1;
        }
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
    let mean = |first: usize| time(first) / (calls.len() - first).div_ceil(per_unit) as i64;
    (0..per_unit).rev().max_by_key(|first| mean(*first)).unwrap_or(0)
}
