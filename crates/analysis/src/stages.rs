//! Stages of a pipeline on recorded devices: how long they wait for one another.
//!
//! A stage without work waits inside the kernel that receives, or is idle while its host waits. Both are the pipe's, as long as
//! no stage computes nearly all the time: then that one is the slow one, and the others wait for it whatever is in flight.

use crate::device::{Category, LaneView};
use crate::on_device::OnDevice;
use crate::sharding::Sharding;
use crate::situation::Situation;

/// Stages as recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stages {
    /// Stages of the pipe, as set, else as recorded.
    pub count: f64,
    /// Devices recorded.
    pub recorded: usize,
    /// Time in sends and receives that nothing hides, all devices, ns.
    pub exchange_ns: i64,
    /// Idle time that is certain, all devices, ns.
    pub idle_ns: i64,
    /// Both as a share of the devices' time.
    pub waits: f64,
    /// Largest share of its time that one stage computes.
    pub busiest: f64,
}

/// Reads them; nothing where no setting and no operation tells of stages.
pub fn read(situation: &Situation<'_>, device: &OnDevice<'_>) -> Option<Stages> {
    let told = device.view.collectives.iter().flat_map(|collectives| &collectives.ops);
    let sends = told.filter(|of| matches!(of.op.as_str(), "send" | "recv")).map(|of| of.count).sum::<u64>();
    let set = Sharding::read(situation.subject, situation.evidence).pipeline;
    let exchanges: Vec<i64> = device.view.lanes.iter().map(exchange_ns).collect();
    // Exchange of all with all runs on the same kernels: only a setting or the operation's own name tells stages apart from it.
    if exchanges.iter().all(|ns| *ns == 0) || (set <= 1.0 && sends == 0) {
        return None;
    }
    let exchange_ns: i64 = exchanges.iter().sum();
    let idle_ns = device.idle.total_ns();
    let busiest = device.view.lanes.iter().map(|lane| lane.account.share(lane.account.compute_ns)).fold(0.0, f64::max);
    Some(Stages {
        count: if set > 1.0 { set } else { (device.view.lanes.len() as f64).max(2.0) },
        recorded: device.view.lanes.len(),
        exchange_ns,
        idle_ns,
        waits: device.share(exchange_ns.saturating_add(idle_ns)),
        busiest,
    })
}

/// Of a device's exposed communication the share that its sends and receives have of all its communication, ns.
fn exchange_ns(lane: &LaneView) -> i64 {
    let communication = || lane.families.iter().filter(|of| of.category == Category::Communication);
    let all: i64 = communication().map(|of| of.total_ns).sum();
    let exchange: i64 = communication().filter(|of| is_exchange(&of.name)).map(|of| of.total_ns).sum();
    (lane.account.exposed_communication_ns as f64 * exchange as f64 / all.max(1) as f64) as i64
}

fn is_exchange(name: &str) -> bool {
    crate::device::collectives::op_of_kernel(name) == "sendrecv"
}
