//! By profiler captures of several ranks: who comes last to the collectives, and how long the others wait there.

use crate::advice::outside_change;
use crate::check::{Answer, Found, Missing, clear, figure};
use crate::claims::Basis;
use crate::device_remedy::{first_token_kept, hypothesis, token_falls};
use crate::on_device::{GRAIN, OnDevice};
use crate::phase::Phase;
use crate::record;
use crate::situation::Situation;
use crate::words::{count, percent, seconds};

/// Nothing where no device was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    let seen = device.ranks_seen();
    let exposed = device.share(device.sum_ns(|lane| lane.account.exposed_communication_ns));
    let margin = vec![("exposed_communication", exposed)];
    if exposed < GRAIN {
        return Some(clear(margin, format!("devices wait in collectives for {} of their time at most", percent(exposed))));
    }
    let Some(collectives) = device.view.collectives.as_ref().filter(|collectives| collectives.matched > 0) else {
        // The seconds are those of `exposed_communication`, which holds them until the other ranks are seen.
        return Some(Answer::CannotTell(Missing {
            signals: vec!["traces of all ranks".into()],
            because: format!(
                "{} of {} ranks were recorded: waiting for a late one cannot be told from transfer",
                count(seen.recorded),
                count(seen.world)
            ),
            at_most_s: Some(0.0),
            record_with: record::COLLECTIVES.into(),
            record_cost: record::COLLECTIVES_COST.into(),
        }));
    };
    let skew_ns = (device.skew_ns() - device.expert_wait_ns()).max(0);
    let share = device.share(skew_ns);
    match &collectives.straggler {
        Some((lane, last)) if share >= GRAIN => Some(Answer::Found(Box::new(found(situation, &device, lane, *last)))),
        Some((lane, last)) => Some(clear(
            vec![("skew", share), ("last", *last)],
            format!(
                "device {lane} comes last to {} of the collectives, but the others wait {} of their time only",
                percent(*last),
                percent(share)
            ),
        )),
        None => Some(clear(vec![("skew", share)], "no rank comes last to most of the collectives")),
    }
}

fn found(situation: &Situation<'_>, device: &OnDevice<'_>, lane: &str, last: f64) -> Found {
    let skew_ns = (device.skew_ns() - device.expert_wait_ns()).max(0);
    let share = device.share(skew_ns);
    let (unit, unit_s) = device.unit();
    let mut rows = vec![
        figure("waiting for the last rank, share of the devices' time", share, "ratio", "traces of several ranks"),
        figure("collectives to which it comes last", last, "ratio", "traces of several ranks"),
    ];
    let waits = device.view.collectives.iter().flat_map(|collectives| &collectives.ranks);
    rows.extend(waits.take(8).map(|rank| figure(&format!("device {} waits", rank.lane), rank.wait_ns as f64 * 1e-9, "s", "trace")));
    Found {
        summary: format!(
            "device {lane} comes last to {} of the collectives; the others wait {} of their time",
            percent(last),
            percent(share)
        ),
        sentence: format!(
            "Device {lane} comes last to {} of the collectives, and the others wait there for {} of each {unit} of {}.",
            percent(last),
            seconds(share * unit_s),
            seconds(unit_s)
        ),
        claims: device.claims(situation, Phase::Communication, [8 * (skew_ns / 10), skew_ns, skew_ns], Basis::Measured),
        cost: device.cost(situation, skew_ns),
        evidence: rows,
        hypotheses: vec![hypothesis(
            outside_change(
                "late rank",
                lane,
                "another device",
                format!("look at what device {lane} does before the collectives; swap device or host"),
            ),
            "work moves to another device",
            "another rank comes last as often",
            vec![
                token_falls(situation, [0.5 * share, 0.8 * share, share], "the others wait for it no longer"),
                first_token_kept(situation),
            ],
        )],
        falsified_by: "clocks of the ranks are off by as much as the others wait".into(),
        context_only: false,
        limit: false,
    }
}
