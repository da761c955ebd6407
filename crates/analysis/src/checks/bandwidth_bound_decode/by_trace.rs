//! By a profiler capture: the memory's activity beside it, steps against the model's bytes, or kernels against theirs.

use model::roofline::Limit;

use crate::check::{Answer, Found, clear, figure};
use crate::decode_bound::{ACHIEVABLE, NEAR};
use crate::device::StepPhase;
use crate::device_roofline::{self, DeviceRoofline};
use crate::dimensions::dimensions;
use crate::on_device::OnDevice;
use crate::phase::Phase;
use crate::record_device::{DEVICE_COUNTERS, undecided_of_kernels};
use crate::situation::Situation;
use crate::words::{digits, percent, seconds};

use super::{IMPOSSIBLE, Nearness, found};

/// Devices that compute less than this share of the time are bound by what they wait for.
const COMPUTES: f64 = 0.3;

/// Nothing where no device was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    let computing = device.share(device.sum_ns(|lane| lane.account.compute_ns));
    if computing < COMPUTES {
        let because = format!("kernels compute {} of the time: the device waits for something else than its memory", percent(computing));
        return Some(clear(vec![("computing", computing)], because));
    }
    if device.view.lanes.iter().all(|lane| !lane.steps.phases.is_empty() && lane.steps.phases.iter().all(|of| of.phase == "prefill")) {
        return Some(clear(Vec::new(), "the steps recorded compute prompts only"));
    }
    let rooflines = device_roofline::read(situation.subject, situation.evidence);
    let near = by_counters(situation, &device, computing).or_else(|| by_steps(&rooflines)).or_else(|| by_kernels(&rooflines, computing));
    let Some(near) = near else {
        return Some(undecided_of_kernels(
            &["gpu.dram_active", "sizes of kernels", "config.model"],
            "neither the memory's activity nor the bytes of kernels or steps are known",
            DEVICE_COUNTERS,
        ));
    };
    let margin = vec![("of_reachable_bandwidth", near.share)];
    if near.share > 1.0 / (ACHIEVABLE * IMPOSSIBLE) {
        let because = format!("{}: faster than the memory allows, so these bytes are not the ones read", near.words);
        return Some(undecided_of_kernels(&["gpu.dram_active"], because, DEVICE_COUNTERS));
    }
    if near.share < 1.0 / NEAR {
        return Some(clear(margin, format!("{}: the memory could deliver more", near.words)));
    }
    let computed_ns = device.sum_ns(|lane| lane.account.compute_ns);
    let share = near.share.min(1.0);
    let claimed = [share * ACHIEVABLE, share, share].map(|share| (share * computed_ns as f64) as i64);
    let of_limit = found(situation, &near);
    Some(Answer::Found(Box::new(Found {
        claims: device.claims(situation, Phase::Compute, claimed, crate::claims::Basis::Counterfactual),
        cost: device.cost(situation, claimed[1]),
        ..of_limit
    })))
}

/// Counters over the window, brought to the time in which something computes.
fn by_counters(situation: &Situation<'_>, device: &OnDevice<'_>, computing: f64) -> Option<Nearness> {
    let mean = |signal: &str| {
        let each = device.view.lanes.iter().filter_map(|lane| {
            let read = dimensions(situation.evidence, lane, 0);
            read.counters.iter().find(|counter| counter.signal == signal).map(|counter| counter.mean)
        });
        let values: Vec<f64> = each.collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let dram = mean("gpu.dram_active")?;
    let active = dram / computing;
    let tensor = mean("gpu.tensor_active").map_or(0.0, |tensor| tensor / computing / super::COMPUTE_TOP);
    let share = active / ACHIEVABLE;
    (tensor < super::COMPUTE_TOO).then(|| Nearness {
        share,
        rows: vec![
            figure("gpu.dram_active", dram, "ratio", "counter"),
            figure("time in which kernels compute", computing, "ratio", "trace"),
        ],
        words: format!(
            "the memory interface is active {} of the time in which kernels compute, {} of what it reaches",
            percent(active),
            percent(share)
        ),
    })
}

/// Decode steps against what the model must read.
fn by_steps(rooflines: &[DeviceRoofline<'_>]) -> Option<Nearness> {
    let steps = || rooflines.iter().flat_map(|of| &of.steps).filter(|step| step.by_model && step.phase == StepPhase::Decode);
    let (time_s, memory_s): (f64, f64) = steps().fold((0.0, 0.0), |sum, step| (sum.0 + step.time_s, sum.1 + step.bound.memory_s));
    let count: u64 = steps().map(|step| step.steps).sum();
    let is_memory = steps().all(|step| step.bound.limit() == Limit::Memory);
    let share = memory_s / ACHIEVABLE / time_s;
    (time_s > 0.0 && is_memory).then(|| Nearness {
        share,
        rows: vec![
            figure("least step time", memory_s / count.max(1) as f64, "s", "model's bytes over the data sheet's bandwidth"),
            figure("step time", time_s / count.max(1) as f64, "s", "trace"),
        ],
        words: format!(
            "a decode step takes {}, reading what the model needs takes at least {} ({} of the memory's peak reached)",
            seconds(time_s / count.max(1) as f64),
            seconds(memory_s / count.max(1) as f64),
            percent(memory_s / time_s)
        ),
    })
}

/// Kernels of known sizes, where they are most of what computes and wait for memory.
fn by_kernels(rooflines: &[DeviceRoofline<'_>], computing: f64) -> Option<Nearness> {
    let reached: Vec<_> = rooflines.iter().map(DeviceRoofline::reached).collect::<Option<_>>()?;
    let sum = |of: fn(&device_roofline::Reached) -> f64| reached.iter().map(of).sum::<f64>();
    let (time_s, memory_s, compute_s) = (sum(|of| of.time_s), sum(|of| of.memory_s), sum(|of| of.compute_s));
    if time_s <= 0.0 || compute_s >= memory_s {
        return (time_s > 0.0).then(|| Nearness {
            share: 0.0,
            rows: vec![figure("bytes of kernels over their time and bandwidth", memory_s / time_s, "ratio", "sizes recorded")],
            words: format!("kernels of known sizes wait for arithmetic, not for memory ({} of the bandwidth)", percent(memory_s / time_s)),
        });
    }
    let share = memory_s / ACHIEVABLE / time_s;
    Some(Nearness {
        share,
        rows: vec![
            figure("bytes of kernels over their time and bandwidth", memory_s / time_s, "ratio", "sizes recorded"),
            figure("time in which kernels compute", computing, "ratio", "trace"),
        ],
        words: format!(
            "kernels of known sizes move {} of what the memory delivers ({}x what good kernels reach)",
            percent(memory_s / time_s),
            digits(share)
        ),
    })
}
