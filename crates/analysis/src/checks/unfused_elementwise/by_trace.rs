//! By a profiler capture: long pointwise kernels carry the device's time while the host runs ahead.

use crate::check::{Answer, Found, clear, figure};
use crate::claims::Basis;
use crate::device::{Category, LaneView};
use crate::device_remedy::{first_token_kept, hypothesis, outside, token_falls};
use crate::on_device::{GRAIN, OnDevice};
use crate::phase::Phase;
use crate::situation::Situation;
use crate::unfused_attention::UnfusedAttention;
use crate::words::{percent, seconds};

use super::SAVED;

/// Fused engines leave pointwise kernels a tenth of the time; from three times that on they carry it.
const CARRIES: f64 = 0.3;
/// What fusing can join.
const POINTWISE: [Category; 4] = [Category::Norm, Category::Elementwise, Category::Quantize, Category::CopyKernel];

/// Nothing where no device was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    let (pointwise_ns, kernels) = device.view.lanes.iter().map(pointwise).fold((0, 0), |sum, lane| (sum.0 + lane.0, sum.1 + lane.1));
    // A softmax that belongs to attention is not joined with its neighbors but replaced together with them.
    let pointwise_ns = (pointwise_ns - UnfusedAttention::read(&device).map_or(0, |of| of.softmax_ns)).max(0);
    let all_ns = device.sum_ns(|lane| lane.account.kernel_total_ns);
    let share = pointwise_ns as f64 / all_ns.max(1) as f64;
    let mean_ns = pointwise_ns / kernels.max(1);
    let margin = vec![("pointwise_of_kernel_time", share), ("mean_ns", mean_ns as f64)];
    if share < CARRIES {
        return Some(clear(margin, format!("pointwise kernels take {} of the kernel time", percent(share))));
    }
    let late = device.share(device.idle.host_late_ns());
    if late >= GRAIN {
        return Some(clear(margin, format!("the device waits {} of its time for launches: that comes first", percent(late))));
    }
    if device.view.pace.call_ns.is_some_and(|call_ns| mean_ns < call_ns) {
        return Some(clear(margin, "these kernels are shorter than a launch: their number is the matter, not their bytes"));
    }
    Some(Answer::Found(Box::new(found(situation, &device, pointwise_ns, share, mean_ns))))
}

fn pointwise(lane: &LaneView) -> (i64, i64) {
    let of = lane.account.categories.iter().filter(|total| POINTWISE.contains(&total.category));
    of.fold((0, 0), |sum, total| (sum.0 + total.total_ns, sum.1 + total.count.cast_signed()))
}

fn found(situation: &Situation<'_>, device: &OnDevice<'_>, pointwise_ns: i64, share: f64, mean_ns: i64) -> Found {
    let mut rows = vec![
        figure("pointwise kernels, share of kernel time", share, "ratio", "trace"),
        figure("their mean length", mean_ns as f64 * 1e-9, "s", "trace"),
    ];
    let families = device.view.lanes.iter().flat_map(|lane| &lane.families).filter(|family| POINTWISE.contains(&family.category));
    rows.extend(families.take(3).map(|family| figure(&family.family, family.total_ns as f64 * 1e-9, "s", "trace")));
    let saved = SAVED.map(|saved| saved * pointwise_ns as f64);
    let ends = saved.map(|ns| ns / device.window_ns as f64);
    Found {
        summary: format!("pointwise kernels of {} each take {} of the kernel time", seconds(mean_ns as f64 * 1e-9), percent(share)),
        sentence: format!(
            "Pointwise kernels take {} of the kernel time, and the host runs ahead: each reads and writes memory again what the one before had at hand.",
            percent(share)
        ),
        claims: device.claims(situation, Phase::Compute, saved.map(|ns| ns as i64), Basis::Counterfactual),
        cost: device.cost(situation, saved[1] as i64),
        evidence: rows,
        hypotheses: vec![hypothesis(
            outside("fusion", "fused", "restart", "compile the model (torch.compile, an engine with fused norms and activations)"),
            "the first run of each shape compiles",
            "kernel time does not fall",
            vec![
                token_falls(situation, ends, "two operations fused move two thirds of the bytes, long chains a fifth"),
                first_token_kept(situation),
            ],
        )],
        falsified_by: "these kernels run far below the memory's bandwidth".into(),
        context_only: false,
        limit: false,
    }
}
