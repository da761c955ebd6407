//! By a profiler capture: the device ran dry while the host sat in a synchronizing call, and more often than a step needs.

use crate::check::{Answer, Found, clear, figure};
use crate::claims::Basis;
use crate::contract::Direction;
use crate::device::timeline::Api;
use crate::device_remedy::{first_token_kept, hypothesis, moves, outside, token_falls};
use crate::on_device::OnDevice;
use crate::phase::Phase;
use crate::record_device::{TRACE, undecided};
use crate::situation::Situation;
use crate::words::{count, percent, seconds};

use super::MATERIAL;

/// Nothing where no device was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    if !device.has_calls() {
        return Some(undecided(situation, &["synchronizing calls"], "the capture holds device activities only", TRACE));
    }
    let syncs = device.syncs();
    let share = device.share(syncs.unplanned_ns);
    let margin = vec![("idle_after_syncs", share), ("syncs_that_drained", syncs.gaps as f64), ("planned", syncs.planned as f64)];
    if share < MATERIAL {
        let (calls, time_ns) = device.view.calls_that(Api::Sync);
        let waited = seconds(time_ns as f64 * 1e-9);
        return Some(clear(
            margin,
            format!(
                "the host waits {waited} in {} calls; beyond one per step they leave the device idle for {}",
                count(calls as f64),
                percent(share)
            ),
        ));
    }
    Some(Answer::Found(Box::new(found(situation, &device, share))))
}

fn found(situation: &Situation<'_>, device: &OnDevice<'_>, share: f64) -> Found {
    let syncs = device.syncs();
    let (unit, unit_s) = device.unit();
    let mut rows = vec![
        figure("device idle after a synchronizing call, share of its time", share, "ratio", "trace"),
        figure("synchronizing calls that drained the device", syncs.gaps as f64, "count", "trace"),
    ];
    let calls: Vec<_> = device.view.calls.iter().filter(|call| call.api == Api::Sync).take(3).collect();
    rows.extend(calls.iter().map(|call| figure(&call.name, call.time.total_ns as f64 * 1e-9, "s", "trace, time inside")));
    let made_in = calls.iter().flat_map(|call| &call.made_in).map(|(place, _)| place.as_str()).next();
    let made_in = made_in.map_or(String::new(), |place| format!(", most often in `{place}`"));
    let ends = [0.5 * share, share, share];
    Found {
        summary: format!("the device is idle {} of its time after the host waited for it{made_in}", percent(share)),
        sentence: format!(
            "The host waits for the device {} times where {} would do{made_in}: nothing is queued behind, and the device is idle for {} of each {unit} of {}.",
            count(syncs.gaps as f64),
            count(syncs.planned as f64),
            seconds(share * unit_s),
            seconds(unit_s)
        ),
        claims: device.claims(situation, Phase::Idle, [syncs.unplanned_ns / 2, syncs.unplanned_ns, syncs.unplanned_ns], Basis::Measured),
        cost: device.cost(situation, syncs.unplanned_ns),
        evidence: rows,
        hypotheses: vec![hypothesis(
            outside(
                "synchronizing calls",
                "one per step",
                "restart",
                "keep values on the device: no .item(), .cpu() or synchronize() inside a step",
            ),
            "what the value decided must be decided on the device",
            "idle after the call stays",
            vec![
                token_falls(situation, ends, "the host runs ahead again and its launches are queued"),
                moves(
                    "kernel.sync_wait",
                    "waits of the host",
                    "s",
                    Direction::Down,
                    None,
                    None,
                    "direction only: one wait per step remains",
                ),
                first_token_kept(situation),
            ],
        )],
        falsified_by: "the device stays idle as long with the calls removed".into(),
        context_only: false,
        limit: false,
    }
}
