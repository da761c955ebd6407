//! By a profiler capture: what collectives reach on the bus against what the link carries.

use crate::advice::outside_change;
use crate::check::{Answer, Found, clear, figure};
use crate::claims::Basis;
use crate::device::collectives::OpTotal;
use crate::device_remedy::{first_token_kept, hypothesis, token_falls};
use crate::on_device::{GRAIN, OnDevice};
use crate::phase::Phase;
use crate::situation::Situation;
use crate::words::{digits, percent};

/// Collectives of large messages reach three quarters of a link; below a third of it something else limits them.
const POOR: f64 = 0.33;
/// Bytes per call from which bandwidth and not latency decides.
const LARGE_CALL: i64 = 8 << 20;

/// Nothing where no device, or no sized collective of large messages on a known link was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    let exposed_ns = device.sum_ns(|lane| lane.account.exposed_communication_ns) - device.skew_ns();
    let share = device.share(exposed_ns);
    if share < GRAIN {
        let because = format!("transfer between devices that nothing hides takes {} of their time", percent(share));
        return Some(clear(vec![("exposed_transfer", share)], because));
    }
    // One rank's kernels hold the wait for the others as well: what they reach then is a lower bound, and no sign.
    if device.ranks_seen().is_partial() {
        return None;
    }
    let link = device.by_data_sheet(situation, |gpu| gpu.link_bytes_per_s)?;
    let collectives = device.view.collectives.as_ref()?;
    let large = |of: &&OpTotal| of.count > 0 && of.bytes / of.count.cast_signed() >= LARGE_CALL;
    let largest = collectives.ops.iter().filter(large).find(|of| of.bus_bytes_per_s.is_some())?;
    let rate = largest.bus_bytes_per_s?;
    let reached = rate / link;
    if reached >= POOR {
        return Some(clear(vec![("of_link", reached)], format!("{} reaches {} of the link", largest.op, percent(reached))));
    }
    let lost = |best: f64| (exposed_ns as f64 * (1.0 - reached / best).max(0.0)) as i64;
    let ns = [lost(POOR), lost(0.6), lost(0.75)];
    let ends = ns.map(|ns| device.share(ns));
    Some(Answer::Found(Box::new(Found {
        summary: format!("{} runs at {} GB/s on a link of {} GB/s", largest.op, digits(rate * 1e-9), digits(link * 1e-9)),
        sentence: format!(
            "Large collectives reach {} of what the link between the devices carries ({} of {} GB/s).",
            percent(reached),
            digits(rate * 1e-9),
            digits(link * 1e-9)
        ),
        claims: device.claims(situation, Phase::Communication, ns, Basis::Derived),
        cost: device.cost(situation, ns[1]),
        evidence: vec![
            figure(&format!("{} on the bus", largest.op), rate, "byte/s", "trace"),
            figure("link between devices", link, "byte/s", "data sheet"),
        ],
        hypotheses: vec![hypothesis(
            outside_change(
                "link",
                "",
                "direct",
                "check which transport is used (NCCL_DEBUG=INFO; nvidia-smi topo -m) and enable peer access",
            ),
            "none known",
            "the rate stays",
            vec![token_falls(situation, ends, "large messages at three quarters of the link"), first_token_kept(situation)],
        )],
        falsified_by: "all_reduce_perf reaches no more on this link".into(),
        context_only: false,
        limit: false,
    })))
}
