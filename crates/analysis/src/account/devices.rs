//! The account of devices, where a profiler capture is all there is: every nanosecond of every device's window computes,
//! communicates, copies or is idle.

use crate::evidence::Evidence;
use crate::phase::Phase;

use super::{AccountUnit, RequestAccount};

/// Reads it; empty where no work on a device was recorded, or only the capture of graphs, which is no work.
pub(super) fn read(evidence: &Evidence) -> RequestAccount {
    let Some(view) = evidence.device_view.as_ref().filter(|view| !view.is_capture_pass) else { return RequestAccount::default() };
    let mut account = RequestAccount { vantage: "device", ..RequestAccount::default() };
    for lane in &view.lanes {
        let of = &lane.account;
        account.total_ns += of.window_ns;
        for (phase, ns) in [
            (Phase::Compute, of.compute_ns),
            (Phase::Communication, of.exposed_communication_ns),
            (Phase::Copy, of.exposed_copy_ns),
            (Phase::Idle, of.idle_ns),
        ] {
            *account.parts.entry(phase).or_default() += ns;
        }
    }
    let steps = view.step_count();
    (account.n, account.unit) = if steps > 0 { (steps, AccountUnit::DeviceStep) } else { (view.lanes.len() as u64, AccountUnit::Device) };
    account
}
