//! By a profiler capture: collectives run while no kernel computes.

use crate::advice::outside_change;
use crate::check::{Answer, Found, clear, figure};
use crate::claims::Basis;
use crate::contract::{Change, Evidence};
use crate::device_remedy::{first_token_kept, hypothesis, token_falls};
use crate::on_device::{GRAIN, OnDevice};
use crate::phase::Phase;
use crate::situation::Situation;
use crate::stages;
use crate::words::{count, digits, percent, seconds};

use super::CARRIES;

/// Nothing where no device was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    let exposed_ns = device.sum_ns(|lane| lane.account.exposed_communication_ns);
    let busy_ns = device.sum_ns(|lane| lane.account.busy_ns);
    let (share, of_busy) = (device.share(exposed_ns), exposed_ns as f64 / busy_ns.max(1) as f64);
    let margin = vec![("exposed_share", share), ("exposed_of_busy", of_busy)];
    // What has another cause is claimed there: a late rank, uneven experts, stages that take turns.
    let stages_ns = stages::read(situation, &device).map_or(0, |stages| stages.exchange_ns);
    let own_ns = (exposed_ns - device.skew_ns().max(device.expert_wait_ns()) - stages_ns).max(0);
    let own = device.share(own_ns);
    if of_busy < CARRIES || own < GRAIN {
        let because = format!(
            "communication that nothing hides takes {} of the devices' time, {} of what they are busy",
            percent(share),
            percent(of_busy)
        );
        return Some(clear(margin, because));
    }
    Some(Answer::Found(Box::new(found(situation, &device, own_ns))))
}

fn found(situation: &Situation<'_>, device: &OnDevice<'_>, own_ns: i64) -> Found {
    let own = device.share(own_ns);
    let (unit, unit_s) = device.unit();
    let seen = device.ranks_seen();
    let mut rows = vec![figure("exposed communication, share of the devices' time", own, "ratio", "trace")];
    rows.extend(by_operation(device));
    // Without the other ranks a slow link and a rank that comes late look the same.
    let (basis, lo, blind) = if seen.is_partial() {
        (
            Basis::Counterfactual,
            own_ns / 2,
            format!(
                " Only {} of {} ranks were recorded: whether the link is slow or another rank late shows with all of them.",
                count(seen.recorded),
                count(seen.world)
            ),
        )
    } else {
        (Basis::Measured, 9 * (own_ns / 10), String::new())
    };
    let ends = [device.share(lo) * 0.5, 0.7 * own, own];
    Found {
        summary: format!("communication that nothing hides takes {} of the devices' time", percent(own)),
        sentence: format!(
            "{} of each {unit} of {} is exchange between devices while nothing computes.{blind}",
            seconds(own * unit_s),
            seconds(unit_s)
        ),
        claims: device.claims(situation, Phase::Communication, [lo, own_ns, own_ns], basis),
        cost: device.cost(situation, own_ns),
        evidence: rows,
        hypotheses: vec![hypothesis(
            change(seen.is_partial()),
            "fewer ranks hold more weights each and leave less room for KV",
            "time per token rises",
            vec![token_falls(situation, ends, "exchange overlapped or left out"), first_token_kept(situation)],
        )],
        falsified_by: format!(
            "a recording in which communication takes less than {} of what the devices are busy, or overlaps with compute",
            percent(CARRIES)
        ),
        context_only: false,
        limit: false,
    }
}

fn change(is_partial: bool) -> Change {
    if is_partial {
        return outside_change(
            "recording",
            "one rank",
            "all ranks",
            "record the same steps on every rank, then repair the link or the late rank; else fewer ranks per replica",
        );
    }
    outside_change("exchange", "", "overlapped", "a fused all-reduce, overlap with compute, a faster link, or fewer ranks per replica")
}

/// The operations that take most, with what they reach on the bus.
fn by_operation(device: &OnDevice<'_>) -> Vec<Evidence> {
    let Some(collectives) = &device.view.collectives else { return Vec::new() };
    let mut rows = Vec::new();
    for of in collectives.ops.iter().take(3) {
        let name = if of.op.is_empty() { "collectives" } else { of.op.as_str() };
        rows.push(figure(&format!("{name}, {} calls", digits(of.count as f64)), of.transfer_ns as f64 * 1e-9, "s", "trace"));
        rows.extend(of.bus_bytes_per_s.map(|rate| figure(&format!("{name} on the bus"), rate, "byte/s", "trace")));
    }
    rows
}
