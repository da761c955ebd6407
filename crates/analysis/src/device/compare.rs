//! Two recordings per unit of work: what moved, by how much. A fixed window is no unit: it holds as much work as fits.

use std::collections::BTreeMap;

use super::account::LaneAccount;
use super::families::FamilyTotal;
use super::kernels::Category;
use super::{DeviceView, IdleParts, LaneView};

/// One figure per unit before and after, ns.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// Category, cause of idle time or kernel family.
    pub what: String,
    /// Mean per unit before, ns.
    pub before_ns: f64,
    /// Mean per unit after, ns.
    pub after_ns: f64,
    /// Events per unit before and after; equal zeros for what is no event.
    pub count: [f64; 2],
}

impl Moved {
    /// Growth per unit, ns.
    pub fn delta_ns(&self) -> f64 {
        self.after_ns - self.before_ns
    }
}

/// One device compared per unit of work.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneComparison {
    /// Label of the device.
    pub lane: String,
    /// What a unit is: `decode step`, `2 x flash_fwd_kernel`, `token`.
    pub unit: String,
    /// Units before and after.
    pub units: [u64; 2],
    /// Mean time of a unit before and after, ns.
    pub mean_ns: [f64; 2],
    /// Median time of a unit before and after, ns.
    pub p50_ns: [i64; 2],
    /// Rows of the account per unit: `compute`, `exposed communication`, `exposed copy`, and idle by cause. They add up to the
    /// mean but for what reaches over the end of the last unit.
    pub account: Vec<Moved>,
    /// Categories per unit, the largest movement first.
    pub categories: Vec<Moved>,
    /// Kernel families per unit, the largest movement first.
    pub kernels: Vec<Moved>,
}

impl LaneComparison {
    /// After over before, of the mean unit.
    pub fn ratio(&self) -> f64 {
        self.mean_ns[1] / self.mean_ns[0]
    }
}

/// Two recordings compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Devices that both have, with a unit that both do.
    pub lanes: Vec<LaneComparison>,
    /// Devices that could not be compared, with the reason.
    pub left_out: Vec<(String, String)>,
}

/// Fewest units on either side.
const FEWEST: u64 = 3;

/// Compares device by device.
pub fn compare(before: &DeviceView, after: &DeviceView) -> Comparison {
    let mut comparison = Comparison::default();
    for lane in &before.lanes {
        let Some(other) = after.lanes.iter().find(|other| other.label == lane.label) else {
            comparison.left_out.push((lane.label.clone(), "only before".into()));
            continue;
        };
        match by_step(lane, other).or_else(|| by_kernel(lane, other)) {
            Some(lane) => comparison.lanes.push(lane),
            None => comparison.left_out.push((lane.label.clone(), "no unit of work that both recordings repeat".into())),
        }
    }
    let is_new = |lane: &&LaneView| before.lanes.iter().all(|other| other.label != lane.label);
    comparison.left_out.extend(after.lanes.iter().filter(is_new).map(|lane| (lane.label.clone(), "only after".into())));
    comparison
}

/// One side of a comparison.
struct Side<'v> {
    units: u64,
    mean_ns: f64,
    p50_ns: i64,
    account: &'v LaneAccount,
    idle: [(&'static str, i64); IdleParts::COUNT],
    families: &'v [FamilyTotal],
}

/// By engine steps of the phase with most time, where both have enough of it. Steps of different size are no unit: then
/// the token is.
fn by_step(before: &LaneView, after: &LaneView) -> Option<LaneComparison> {
    let phase = before.steps.phases.iter().filter(|phase| phase.steps >= FEWEST).max_by_key(|phase| phase.account.window_ns)?;
    let other = after.steps.phases.iter().find(|other| other.phase == phase.phase && other.steps >= FEWEST)?;
    let per_step = |phase: &super::PhaseTotal| phase.tokens as f64 / phase.steps as f64;
    let (here, there) = (per_step(phase), per_step(other));
    let by_token = here > 0.0 && there > 0.0 && (there / here - 1.0).abs() > 0.1;
    let side = |phase: &'_ super::PhaseTotal| {
        let units = if by_token { phase.tokens as u64 } else { phase.steps };
        (units, phase.account.window_ns as f64 / units.max(1) as f64, if by_token { 0 } else { phase.time.p50_ns })
    };
    let make = |phase| {
        let (units, mean_ns, p50_ns) = side(phase);
        Side { units, mean_ns, p50_ns, account: &phase.account, idle: phase.idle.parts.named(), families: &phase.families }
    };
    let name = match (by_token, phase.phase.is_empty()) {
        (true, true) => "token".to_string(),
        (true, false) => format!("token of {}", phase.phase),
        (false, true) => "step".to_string(),
        (false, false) => format!("{} step", phase.phase),
    };
    Some(lane_comparison(&before.label, name, &make(phase), &make(other)))
}

/// By what repeats on the device, where both repeat the same.
fn by_kernel(before: &LaneView, after: &LaneView) -> Option<LaneComparison> {
    let (here, there) = (before.unit.as_ref()?, after.unit.as_ref()?);
    if (&here.anchor, here.anchors_per_unit) != (&there.anchor, there.anchors_per_unit) {
        return None;
    }
    let side = |unit: &'_ super::Unit| (unit.count, unit.time.total_ns as f64 / unit.count.max(1) as f64, unit.time.p50_ns);
    let make = |unit| {
        let (units, mean_ns, p50_ns) = side(unit);
        Side { units, mean_ns, p50_ns, account: &unit.account, idle: unit.idle.parts.named(), families: &unit.families }
    };
    let name = if here.anchors_per_unit == 1 { here.anchor.clone() } else { format!("{} x {}", here.anchors_per_unit, here.anchor) };
    Some(lane_comparison(&before.label, name, &make(here), &make(there)))
}

fn lane_comparison(label: &str, unit: String, before: &Side<'_>, after: &Side<'_>) -> LaneComparison {
    let per = |side: &Side<'_>, ns: i64| ns as f64 / side.units.max(1) as f64;
    let row = |what: &str, a: i64, b: i64| Moved { what: what.into(), before_ns: per(before, a), after_ns: per(after, b), count: [0.0; 2] };
    let (a, b) = (before.account, after.account);
    let mut account = vec![
        row("compute", a.compute_ns, b.compute_ns),
        row("exposed communication", a.exposed_communication_ns, b.exposed_communication_ns),
        row("exposed copy", a.exposed_copy_ns, b.exposed_copy_ns),
    ];
    account.extend(before.idle.iter().zip(&after.idle).map(|((name, a), (_, b))| row(&format!("idle: {name}"), *a, *b)));
    let categories = |side: &Side<'_>| {
        side.account.categories.iter().map(|total| (total.category.as_str().to_string(), total.count, total.total_ns)).collect()
    };
    let families = |side: &Side<'_>| side.families.iter().map(|total| (family_key(total), total.count, total.total_ns)).collect();
    LaneComparison {
        lane: label.to_string(),
        unit,
        units: [before.units, after.units],
        mean_ns: [before.mean_ns, after.mean_ns],
        p50_ns: [before.p50_ns, after.p50_ns],
        account,
        categories: moved([categories(before), categories(after)], [before.units, after.units]),
        kernels: moved([families(before), families(after)], [before.units, after.units]),
    }
}

/// Matrix products of one library change their tiles between versions, and so does how often each is called: they are
/// compared by family, all else too.
fn family_key(total: &FamilyTotal) -> String {
    if total.category == Category::Other { total.name.clone() } else { total.family.clone() }
}

/// Joins two lists by name; what moved most comes first.
fn moved(sides: [Vec<(String, u64, i64)>; 2], units: [u64; 2]) -> Vec<Moved> {
    let mut joined: BTreeMap<String, Moved> = BTreeMap::new();
    for (at, side) in sides.into_iter().enumerate() {
        let per_unit = units[at].max(1) as f64;
        for (what, count, total_ns) in side {
            let entry = joined.entry(what.clone()).or_insert(Moved { what, before_ns: 0.0, after_ns: 0.0, count: [0.0; 2] });
            let time = if at == 0 { &mut entry.before_ns } else { &mut entry.after_ns };
            *time += total_ns as f64 / per_unit;
            entry.count[at] += count as f64 / per_unit;
        }
    }
    let mut rows: Vec<Moved> = joined.into_values().collect();
    rows.sort_by(|a, b| b.delta_ns().abs().total_cmp(&a.delta_ns().abs()).then_with(|| a.what.cmp(&b.what)));
    rows
}
