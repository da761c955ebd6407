//! By a profiler capture: between two steps the device is idle and the host has not launched the next one.

use crate::check::{Answer, clear, figure};
use crate::on_device::{GRAIN, OnDevice};
use crate::situation::Situation;
use crate::words::{count, percent, seconds};

use super::Host;

/// `None` where no device or no steps were recorded; else what was found, or why it is clear.
pub(super) fn host(situation: &Situation<'_>) -> Option<Result<Host, Answer>> {
    let device = OnDevice::of(situation).filter(|device| device.has_calls() && device.steps > 1)?;
    let between_ns = device.idle.between_steps_ns;
    let share = device.share(between_ns);
    if share < GRAIN {
        let because = format!("between steps the device waits {} of its time for the host", percent(share));
        return Some(Err(clear(vec![("between_steps", share)], because)));
    }
    let each_s = between_ns as f64 * 1e-9 / device.steps as f64;
    Some(Ok(Host {
        why: format!(
            "the device is idle {} of its time between steps ({} at each of {})",
            percent(share),
            seconds(each_s),
            count(device.steps as f64)
        ),
        share: Some([0.5 * share, share, share]),
        rows: vec![
            figure("device idle between steps, share of its time", share, "ratio", "trace"),
            figure("engine.host_gap", each_s, "s", "trace, mean over steps"),
        ],
    }))
}
