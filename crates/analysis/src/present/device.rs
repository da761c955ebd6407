//! The device account as the report prints it.

use std::collections::BTreeMap;

use capture::Subject;
use model::roofline::Limit;

use crate::contract::{
    DelayFigures, DeviceAccount, DeviceCategory, DeviceDimensions, DevicePhase, DeviceUnit, Roofline, RooflineKernel, RooflineStep,
};
use crate::device::{DeviceView, IdleParts, LaneView};
use crate::device_roofline::{self, Bound, DeviceRoofline};
use crate::dimensions::{dimensions, sync_wait_ns};
use crate::evidence::Evidence;

/// One account per device.
pub(crate) fn accounts(subject: &Subject, evidence: &Evidence, view: &DeviceView) -> Vec<DeviceAccount> {
    let sync_ns = sync_wait_ns(view);
    let mut rooflines = device_roofline::read(subject, evidence).into_iter();
    let with_roofline = |lane: &LaneView| {
        let roofline = rooflines.next().map(|of| roofline(&of, lane)).unwrap_or_default();
        account(lane, dimensions(evidence, lane, sync_ns), roofline)
    };
    view.lanes.iter().map(with_roofline).collect()
}

/// Families of kernels in the report; the rest is in `covered`.
const FAMILIES: usize = 24;

fn roofline(of: &DeviceRoofline<'_>, lane: &LaneView) -> Roofline {
    let kernels = of.kernels.iter().take(FAMILIES).map(|kernel| {
        let over_time = |part: fn(&Bound) -> f64| kernel.bound.as_ref().map(|bound| part(bound) / kernel.time_s.max(f64::MIN_POSITIVE));
        RooflineKernel {
            family: kernel.family.to_string(),
            operation: kernel.operation.as_str().into(),
            sizes: kernel.sizes.to_string(),
            dtype: kernel.dtype.to_string(),
            count: kernel.count,
            time_s: kernel.time_s,
            flops: kernel.flops,
            bytes: kernel.bytes,
            is_at_most: kernel.is_at_most,
            bound_s: kernel.bound.map(|bound| bound.bound_s),
            limit: kernel.bound.map(|bound| limit_word(bound.limit()).into()),
            achieved: kernel.achieved(),
            compute_share: over_time(|bound| bound.compute_s),
            memory_share: over_time(|bound| bound.memory_s),
            is_short: kernel.bound.is_some() && kernel.judged().is_none(),
        }
    });
    let steps = of.steps.iter().map(|step| RooflineStep {
        phase: step.phase.as_str().into(),
        steps: step.steps,
        time_s: step.time_s,
        bound_s: step.bound.bound_s,
        limit: limit_word(step.bound.limit()).into(),
        compute_share: step.compute_share(),
        memory_share: step.memory_share(),
        from: if step.by_model { "model" } else { "sizes" }.into(),
    });
    Roofline {
        gpu: of.gpu.map(|gpu| gpu.id.clone()).unwrap_or_default(),
        covered: of.covered,
        kernels: kernels.collect(),
        steps: steps.collect(),
        not_known: not_known(of, lane),
    }
}

fn limit_word(limit: Limit) -> &'static str {
    match limit {
        Limit::Memory => "memory",
        Limit::Compute => "compute",
    }
}

/// What keeps kernels or steps from being held against the device, and how to record it.
fn not_known(of: &DeviceRoofline<'_>, lane: &LaneView) -> String {
    let mut missing = Vec::new();
    if of.gpu.is_none() {
        missing.push("peaks of the device: it is none of the hardware table, or its name was not recorded".to_string());
    }
    // What a step must read and compute says more than its kernels' sizes.
    let by_model = of.steps.iter().any(|step| step.by_model);
    if of.covered < 0.5 && lane.account.kernels > 0 && !by_model {
        let share = crate::words::percent(1.0 - of.covered);
        missing.push(if lane.account.graph_kernels * 2 > lane.account.kernels {
            format!(
                "sizes of {share} of the kernels' time: most kernels are replayed from graphs, which carry none; hand in the server's log or \
                 command line for the model, or record some steps eagerly with {RECORD_SHAPES}"
            )
        } else {
            format!("sizes of {share} of the kernels' time: record with {RECORD_SHAPES}")
        });
    }
    missing.join("; ")
}

/// How PyTorch's profiler records sizes.
const RECORD_SHAPES: &str = "torch.profiler.profile(record_shapes=True)";

fn account(lane: &LaneView, dimensions: DeviceDimensions, roofline: Roofline) -> DeviceAccount {
    let sums = &lane.account;
    let delay = lane.launches.delay;
    DeviceAccount {
        device: lane.label.clone(),
        name: lane.name.clone(),
        vendor: lane.vendor.clone(),
        rank: lane.rank,
        window_ns: sums.window_ns,
        busy_ns: sums.busy_ns,
        compute_ns: sums.compute_ns,
        communication_ns: sums.communication_ns,
        exposed_communication_ns: sums.exposed_communication_ns,
        copy_ns: sums.copy_ns,
        exposed_copy_ns: sums.exposed_copy_ns,
        idle_ns: sums.idle_ns,
        gpu_events: sums.gpu_events,
        kernels: sums.kernels,
        graph_kernels: sums.graph_kernels,
        categories: sums
            .categories
            .iter()
            .map(|total| DeviceCategory { category: total.category.as_str().into(), count: total.count, total_ns: total.total_ns })
            .collect(),
        idle: causes(&lane.idle.parts),
        trusted_idle: causes(&lane.idle.trusted),
        idle_is_reliable: lane.idle_is_reliable(),
        dimensions,
        roofline,
        launch_delay: (delay.count > 0).then_some(DelayFigures { count: delay.count, p50_ns: delay.p50_ns, p99_ns: delay.p99_ns }),
        steps: lane
            .steps
            .phases
            .iter()
            .map(|phase| DevicePhase {
                phase: phase.phase.clone(),
                steps: phase.steps,
                tokens: phase.tokens,
                p50_ns: phase.time.p50_ns,
                window_ns: phase.account.window_ns,
                busy_ns: phase.account.busy_ns,
                idle_ns: phase.account.idle_ns,
                kernels: phase.account.kernels,
            })
            .collect(),
        unit: lane.unit.as_ref().map(|unit| DeviceUnit {
            anchor: unit.anchor.clone(),
            anchors_per_unit: unit.anchors_per_unit,
            count: unit.count,
            mean_ns: unit.mean_ns(),
            p50_ns: unit.time.p50_ns,
        }),
    }
}

/// Causes that hold time.
fn causes(parts: &IdleParts) -> BTreeMap<String, i64> {
    parts.named().into_iter().filter(|(_, ns)| *ns > 0).map(|(name, ns)| (name.to_string(), ns)).collect()
}
