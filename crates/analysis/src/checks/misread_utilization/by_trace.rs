//! By a profiler capture: kernels are in flight most of the time, and most of that is exchange between devices.

use crate::check::{Answer, Found, clear, figure};
use crate::device_roofline::{self, DeviceRoofline, Reached};
use crate::on_device::OnDevice;
use crate::record_device::{DEVICE_COUNTERS, undecided_of_kernels};
use crate::situation::Situation;
use crate::words::percent;

use super::{CALLED_BUSY, EXPLAINS, look_elsewhere};

/// Nothing where no device was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    let computing = device.share(device.sum_ns(|lane| lane.account.compute_ns));
    let exchange = device.share(device.sum_ns(|lane| lane.account.exposed_communication_ns));
    // Utilization counts kernels, of which those that exchange wait while they run; copies are none.
    let shown = computing + exchange;
    let margin = vec![("utilization", shown), ("computing", computing)];
    if shown < CALLED_BUSY {
        return Some(clear(margin, format!("kernels are in flight {} of the time: nobody would call that busy", percent(shown))));
    }
    if computing < EXPLAINS * shown {
        return Some(Answer::Found(Box::new(found(situation, shown, computing))));
    }
    let reached: Option<Vec<_>> =
        device_roofline::read(situation.subject, situation.evidence).iter().map(DeviceRoofline::reached).collect();
    let Some(reached) = reached.filter(|reached| !reached.is_empty()) else {
        let because = format!("kernels compute {} of the time, and nothing says what of the device they use", percent(computing));
        return Some(undecided_of_kernels(&["gpu.sm_active", "gpu.dram_active", "gpu.tensor_active"], because, DEVICE_COUNTERS));
    };
    let sum = |of: fn(&Reached) -> f64| reached.iter().map(of).sum::<f64>() / reached.iter().map(|of| of.time_s).sum::<f64>();
    let best = (sum(|of| of.memory_s) / MEMORY_TOP).max(sum(|of| of.compute_s) / COMPUTE_TOP);
    let because =
        format!("kernels compute {} of the time and reach {} of what memory or arithmetic allow", percent(computing), percent(best));
    Some(clear(vec![("utilization", shown), ("best_explaining_dimension", best)], because))
}

/// What good kernels reach of the memory's peak, and of the arithmetic's.
const MEMORY_TOP: f64 = 0.8;
const COMPUTE_TOP: f64 = 0.7;

fn found(situation: &Situation<'_>, shown: f64, computing: f64) -> Found {
    let look = look_elsewhere(
        situation,
        shown,
        "time in which kernels compute",
        "watch sm_active, tensor_active and the time in collectives instead",
    );
    Found {
        summary: format!("utilization would show {}, of which kernels compute {}", percent(shown), percent(computing)),
        sentence: format!(
            "Utilization would show {}, and kernels compute only {} of the time: the rest is kernels that wait for other devices.",
            percent(shown),
            percent(computing)
        ),
        evidence: vec![
            figure("kernels in flight, share of the devices' time", shown, "ratio", "trace"),
            figure("kernels computing, share of the devices' time", computing, "ratio", "trace"),
        ],
        hypotheses: vec![look],
        falsified_by: "sm_active near the utilization over the same seconds".into(),
        context_only: true,
        ..Found::default()
    }
}
