//! Two profiler captures: what moved per unit of work, and the signals that predictions about devices name.
//!
//! Two windows of one length hold as much work as fits: only time per step, or per work that repeats, can be compared.

use crate::contract::{DeviceMovement, Direction, Hypothesis, MovedPart};
use crate::device::{LaneStep, LaneView, compare};
use crate::evidence::Evidence;
use crate::predict::Movement;

use super::measure::{Measured, average};

/// Kernels named per device.
const KERNELS: usize = 5;

/// What moved on each device; empty where one side has no devices or they share no unit of work.
pub(super) fn moved(before: &Evidence, after: &Evidence) -> Vec<DeviceMovement> {
    let (Some(before), Some(after)) = (&before.device_view, &after.device_view) else { return Vec::new() };
    let seconds = |ns: f64| ns * 1e-9;
    let part = |kind: &str, moved: &crate::device::compare::Moved| MovedPart {
        kind: kind.into(),
        what: moved.what.clone(),
        before_s: seconds(moved.before_ns),
        after_s: seconds(moved.after_ns),
    };
    compare(before, after)
        .lanes
        .into_iter()
        .map(|lane| {
            let account = lane.account.iter().map(|moved| part("account", moved));
            let kernels = lane.kernels.iter().take(KERNELS).map(|moved| part("kernel", moved));
            DeviceMovement {
                rows: account.chain(kernels).collect(),
                device: lane.lane,
                unit: lane.unit,
                units: lane.units,
                mean_s: lane.mean_ns.map(seconds),
            }
        })
        .collect()
}

/// What anybody who changes something about a device hopes for.
pub(super) fn shorter_steps() -> Hypothesis {
    let why = "no hypothesis of the first report proposes it: a change is at least meant to help";
    super::hoped(vec![Movement::new("engine.step_time", "step", "s", Direction::Down, None).primary().refused(why).build()])
}

/// A signal per step of one run: the step on the device, its kernels, its idle time. The steps are those of the device that
/// is idle longest, so that one device stands for one side.
pub(super) fn measure(evidence: &Evidence, signal: &str, batches: usize) -> Option<Measured> {
    let lane = evidence.device_view.as_ref()?.idlest()?;
    let value = |step: &LaneStep| match signal {
        "kernel.time" => step.account.compute_ns,
        "kernel.launch_gap" => step.account.idle_ns,
        _ => step.account.window_ns,
    };
    let steps: Vec<(i64, f64)> = lane.steps.steps.iter().map(|step| (step.account.start_ns, value(step) as f64 * 1e-9)).collect();
    average(&steps, batches).or_else(|| by_unit(lane, signal))
}

/// By the work that repeats, where no steps were found: a mean without batches.
fn by_unit(lane: &LaneView, signal: &str) -> Option<Measured> {
    let unit = lane.unit.as_ref().filter(|unit| unit.count > 0)?;
    let whole_ns = match signal {
        "kernel.time" => unit.account.compute_ns,
        "kernel.launch_gap" => unit.account.idle_ns,
        _ => unit.time.total_ns,
    };
    Some(Measured { mean: whole_ns as f64 * 1e-9 / unit.count as f64, batches: Vec::new() })
}
