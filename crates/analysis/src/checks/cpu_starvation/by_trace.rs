//! By a profiler capture with the scheduler's events: the launching thread was off its CPU while the device had nothing to do.

use crate::check::{Answer, Found, clear, figure};
use crate::claims::Basis;
use crate::device_remedy::{first_token_kept, hypothesis, outside, token_falls};
use crate::on_device::{GRAIN, OnDevice};
use crate::phase::Phase;
use crate::record_device::{SWITCHES, undecided_of_kernels};
use crate::situation::Situation;
use crate::words::{percent, seconds};

/// Nothing where no device was recorded, or beside requests no switch of threads, for then host counters tell more.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    if !device.view.switches_recorded {
        // Late launches own these seconds until the thread is seen to lose its CPU.
        let because = "when the launching thread was off its CPU was not recorded";
        return situation.account.is_of_devices().then(|| undecided_of_kernels(&["switches of threads"], because, SWITCHES));
    }
    let lost_ns = device.idle.off_cpu_ns;
    let share = device.share(lost_ns);
    if share < GRAIN {
        let because = format!("the launching thread was off its CPU for {} of the devices' time while they were idle", percent(share));
        return Some(clear(vec![("off_cpu", share)], because));
    }
    Some(Answer::Found(Box::new(found(situation, &device, lost_ns))))
}

fn found(situation: &Situation<'_>, device: &OnDevice<'_>, lost_ns: i64) -> Found {
    let share = device.share(lost_ns);
    let (unit, unit_s) = device.unit();
    Found {
        summary: format!("the device is idle {} of its time while the launching thread is off its CPU", percent(share)),
        sentence: format!(
            "The launching thread loses its CPU: for {} of each {unit} of {} the device is idle meanwhile, and the thread waits for nothing that was recorded.",
            seconds(share * unit_s),
            seconds(unit_s)
        ),
        claims: device.claims(situation, Phase::Idle, [7 * (lost_ns / 10), lost_ns, lost_ns], Basis::Measured),
        cost: device.cost(situation, lost_ns),
        evidence: vec![figure(
            "device idle while the thread is off its CPU, share of its time",
            share,
            "ratio",
            "trace with thread switches",
        )],
        hypotheses: vec![hypothesis(
            outside(
                "CPUs of the engine",
                "its own",
                "restart",
                "give the engine cores of its own (pinning, a larger quota), move what takes them away",
            ),
            "fewer cores for others",
            "the thread is off its CPU as long",
            vec![
                token_falls(situation, [0.7 * share, share, share], "the next launch is no longer late for that reason"),
                first_token_kept(situation),
            ],
        )],
        falsified_by: "the thread was off its CPU by its own choice (a lock, a queue)".into(),
        context_only: false,
        limit: false,
    }
}
