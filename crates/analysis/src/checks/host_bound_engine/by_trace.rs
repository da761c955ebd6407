//! By a profiler capture: between two steps the device is idle and the host has not launched the next one.

use crate::check::{Answer, Missing, clear, figure};
use crate::claims::Basis;
use crate::on_device::{GRAIN, OnDevice};
use crate::phase::Phase;
use crate::record;
use crate::situation::Situation;
use crate::words::{count, percent, seconds};

use super::Host;

/// `None` where no device was recorded; else what was found, or why not.
pub(super) fn host(situation: &Situation<'_>) -> Option<Result<Host, Answer>> {
    let device = OnDevice::of(situation)?;
    if !device.has_calls() || device.steps < 2 {
        // What is late inside a step and between steps is one and the same then, and `launch_bound_steps` holds it.
        return situation.account.is_of_devices().then(|| {
            Err(Answer::CannotTell(Missing {
                signals: vec!["steps".into()],
                because: "fewer than two steps were told in the recording: nothing between them shows".into(),
                at_most_s: Some(0.0),
                record_with: record::PROFILE.into(),
                record_cost: record::PROFILE_COST.into(),
            }))
        });
    }
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
        recorded: Some((
            device.claims(situation, Phase::Idle, [between_ns / 2, between_ns, between_ns], Basis::Measured),
            device.cost(situation, between_ns),
        )),
        rows: vec![
            figure("device idle between steps, share of its time", share, "ratio", "trace"),
            figure("engine.host_gap", each_s, "s", "trace, mean over steps"),
        ],
    }))
}
