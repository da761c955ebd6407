//! By a profiler capture: prefill steps against the model's arithmetic, or kernels against theirs.

use model::roofline::Limit;

use crate::check::{Answer, Found, clear, figure};
use crate::claims::Basis;
use crate::contract::Evidence;
use crate::device::StepPhase;
use crate::device_roofline::{self, DeviceRoofline};
use crate::on_device::OnDevice;
use crate::phase::Phase;
use crate::record_device::{DEVICE_COUNTERS, undecided_of_kernels};
use crate::situation::Situation;
use crate::words::percent;

use super::{NEAR_PEAK, REACHABLE, found};

/// Devices that compute less than this share of the time are bound by what they wait for.
const COMPUTES: f64 = 0.3;

/// Nothing where no device was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    let computing = device.share(device.sum_ns(|lane| lane.account.compute_ns));
    if computing < COMPUTES {
        let because =
            format!("kernels compute {} of the time: the device waits for something else than its arithmetic", percent(computing));
        return Some(clear(vec![("computing", computing)], because));
    }
    if device.view.lanes.iter().all(|lane| !lane.steps.phases.is_empty() && lane.steps.phases.iter().all(|of| of.phase == "decode")) {
        return Some(clear(Vec::new(), "the steps recorded decode only"));
    }
    let rooflines = device_roofline::read(situation.subject, situation.evidence);
    let Some((utilization, rows)) = by_steps(&rooflines).or_else(|| by_kernels(&rooflines)) else {
        return Some(undecided_of_kernels(
            &["sizes of kernels", "config.model", "gpu.tensor_active"],
            "neither the sizes of most kernels nor model and tokens of the steps are known",
            DEVICE_COUNTERS,
        ));
    };
    if utilization > 1.0 {
        let because = "more arithmetic than the device can do: another format computes than the one told";
        return Some(undecided_of_kernels(&["config.dtype"], because, DEVICE_COUNTERS));
    }
    if utilization < NEAR_PEAK {
        let because = format!("computing kernels use {} of the device's arithmetic", percent(utilization));
        return Some(clear(vec![("of_peak_arithmetic", utilization)], because));
    }
    let computed_ns = device.sum_ns(|lane| lane.account.compute_ns) as f64;
    let share = (utilization / REACHABLE).min(1.0);
    let claimed = [utilization, share, share].map(|share| (share * computed_ns) as i64);
    let of_limit = found(situation, utilization, rows);
    Some(Answer::Found(Box::new(Found {
        claims: device.claims(situation, Phase::Compute, claimed, Basis::Counterfactual),
        cost: device.cost(situation, claimed[1]),
        ..of_limit
    })))
}

/// Prefill steps against what the model must compute.
fn by_steps(rooflines: &[DeviceRoofline<'_>]) -> Option<(f64, Vec<Evidence>)> {
    let steps = rooflines.iter().flat_map(|of| &of.steps).filter(|step| step.by_model && step.phase != StepPhase::Decode);
    let (time_s, compute_s) = steps.fold((0.0, 0.0), |sum, step| (sum.0 + step.time_s, sum.1 + step.bound.compute_s));
    let utilization = compute_s / time_s;
    let rows =
        vec![figure("steps with prompts, share of peak arithmetic", utilization, "ratio", "model's operations over the data sheet's rate")];
    (time_s > 0.0).then_some((utilization, rows))
}

/// Kernels of known sizes, where they are most of what computes: of those that wait for memory nothing is their arithmetic.
fn by_kernels(rooflines: &[DeviceRoofline<'_>]) -> Option<(f64, Vec<Evidence>)> {
    let reached: Vec<_> = rooflines.iter().map(DeviceRoofline::reached).collect::<Option<_>>()?;
    let time_s: f64 = reached.iter().map(|of| of.time_s).sum();
    let kernels = rooflines.iter().flat_map(|of| &of.kernels);
    let by_compute = kernels.filter_map(|kernel| kernel.bound.filter(|bound| bound.limit() == Limit::Compute).map(|bound| bound.compute_s));
    let utilization = by_compute.sum::<f64>() / time_s;
    let rows = vec![figure("kernels of known sizes, share of peak arithmetic", utilization, "ratio", "sizes recorded")];
    (time_s > 0.0).then_some((utilization, rows))
}
