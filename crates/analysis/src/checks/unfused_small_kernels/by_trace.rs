//! By a profiler capture: work is queued, and yet the device is idle between kernels that are too short to hide their start.

use crate::check::{Answer, Found, clear, figure};
use crate::claims::Basis;
use crate::device_remedy::{first_token_kept, hypothesis, outside, token_falls};
use crate::on_device::{GRAIN, OnDevice};
use crate::phase::Phase;
use crate::record_device::{TRACE, undecided};
use crate::situation::Situation;
use crate::words::{count, percent, seconds};

/// Nothing where no device was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    if !device.has_calls() {
        return Some(undecided(situation, &["launch calls"], "the capture holds device activities only: launches are not known", TRACE));
    }
    let queued_ns = device.queued_start_ns();
    let share = device.share(queued_ns);
    let late = device.share(device.idle.host_late_ns());
    let margin = vec![("queued_idle", share), ("late_idle", late)];
    if share < GRAIN {
        return Some(clear(margin, format!("between kernels that are queued the device is idle {} of its time", percent(share))));
    }
    if late > share {
        return Some(clear(margin, "the host is late more than the start of kernels takes: that comes first"));
    }
    Some(Answer::Found(Box::new(found(situation, &device, queued_ns))))
}

fn found(situation: &Situation<'_>, device: &OnDevice<'_>, queued_ns: i64) -> Found {
    let share = device.share(queued_ns);
    let (unit, unit_s) = device.unit();
    let kernels = device.view.lanes.iter().map(|lane| lane.account.kernels).sum::<u64>();
    let per_unit = kernels as f64 * unit_s / (device.window_ns as f64 * 1e-9);
    let kernel_s = device.view.lanes.iter().map(|lane| lane.launches.kernel_p50_ns).max().unwrap_or(0) as f64 * 1e-9;
    let ends = [0.4 * share, 0.8 * share, share];
    Found {
        summary: format!("starting {} kernels per {unit} leaves the device idle {} of its time", count(per_unit), percent(share)),
        sentence: format!(
            "Each {unit} is {} kernels, half of them no longer than {}: their starts alone leave the device idle for {} of {}, with work queued.",
            count(per_unit),
            seconds(kernel_s),
            seconds(share * unit_s),
            seconds(unit_s)
        ),
        claims: device.claims(situation, Phase::Idle, [2 * (queued_ns / 5), 4 * (queued_ns / 5), queued_ns], Basis::Measured),
        cost: device.cost(situation, queued_ns),
        evidence: vec![
            figure("device idle before queued work, share of its time", share, "ratio", "trace"),
            figure(&format!("kernels per {unit}"), per_unit, "count", "trace"),
            figure("kernel length, median", kernel_s, "s", "trace"),
        ],
        hypotheses: vec![hypothesis(
            outside("fusion", "fewer kernels", "restart", "fuse or compile the small kernels, or give each more work (a larger batch)"),
            "the first run of each shape compiles",
            "kernels per step stay",
            vec![token_falls(situation, ends, "fewer starts; about 1 us each between kernels of one stream"), first_token_kept(situation)],
        )],
        falsified_by: "half as many kernels and the same idle time".into(),
        context_only: false,
        limit: false,
    }
}
