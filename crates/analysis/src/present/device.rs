//! The device account as the report prints it.

use std::collections::BTreeMap;

use crate::contract::{DelayFigures, DeviceAccount, DeviceCategory, DeviceDimensions, DevicePhase, DeviceUnit};
use crate::device::{DeviceView, IdleParts, LaneView};
use crate::dimensions::{dimensions, sync_wait_ns};
use crate::evidence::Evidence;

/// One account per device.
pub(crate) fn accounts(evidence: &Evidence, view: &DeviceView) -> Vec<DeviceAccount> {
    let sync_ns = sync_wait_ns(view);
    view.lanes.iter().map(|lane| account(lane, dimensions(evidence, lane, sync_ns))).collect()
}

fn account(lane: &LaneView, dimensions: DeviceDimensions) -> DeviceAccount {
    let sums = &lane.account;
    let delay = lane.launches.delay;
    DeviceAccount {
        device: lane.label.clone(),
        name: lane.name.clone(),
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
