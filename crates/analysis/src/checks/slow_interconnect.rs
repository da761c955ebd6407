//! The link between devices does far less than it can, or the library does not use it.

mod by_trace;

use crate::arms::load_differs;
use crate::change::{claims_on, cost_of, first_token_stays, hypothesis, of_action, token_time_falls};
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim};
use crate::evidence::Evidence;
use crate::pace::slowdown;
use crate::phase::Phase;
use crate::record;
use crate::sharding::{Collectives, Sharding, SlowLink, slow_link, slow_path, without_collectives};
use crate::situation::Situation;
use crate::words::percent;

check! {
    /// Data between devices goes over a path far slower than the one they have.
    ///
    /// ## Why it costs time
    /// The library falls back without an error: sockets instead of RDMA, host memory instead of peer access, a slot with four
    /// lanes instead of sixteen, an all-reduce of the engine switched off. Every layer of every step then waits for it.
    ///
    /// ## How to confirm
    /// The library's own start-up lines name the transport (`NCCL_DEBUG=INFO`: `via P2P`, `via SHM`, `NET/Socket`, `NET/IB`);
    /// nccl-tests measure bus bandwidth, to compare with the link's; `nvidia-smi topo -m` and the negotiated PCIe width.
    ///
    /// ## Fix
    /// The transport that the hardware has: peer access, the RDMA plugin and device, the right slot, the interface pinned.
    ///
    /// ## When this is wrong
    /// A warning about a transport that carries nothing per token (weights at start-up, a health check, a pipeline's hand-over),
    /// or small messages, which no link moves at its bandwidth.
    id: "slow_interconnect", layer: Parallelism, rank: 63, phases: [Prefill, Decode, Communication], bound: "network", validated_on: "typed", run: find,
}

/// Collectives below this share of a step are not worth repairing a link for.
const WORTH_IT: f64 = 0.10;
/// Arms differ by this much from run to run.
const SPREAD: f64 = 1.05;

fn find(situation: &Situation<'_>) -> Answer {
    if let Some(answer) = by_trace::answer(situation) {
        return answer;
    }
    if let Some(why) = without_collectives(situation) {
        return clear(vec![("devices", 1.0)], why);
    }
    let sharding = Sharding::read(situation.subject, situation.evidence);
    let collectives = Collectives::read(situation);
    let share = collectives.as_ref().map(Collectives::share);
    let has_path = sharding.has_layer_collectives() || share.is_some();
    let seen = slow_link(situation).filter(|_| has_path);
    if let (Some(share), Some(slow)) = (share.filter(|share| *share < WORTH_IT), &seen) {
        return clear(vec![("share", share)], format!("{}, but collectives take {} of a step only", slow.what, percent(share)));
    }
    let Some(slow) = seen else {
        return not_seen(situation, &sharding, share);
    };
    match repaired_arm(situation, &sharding) {
        Some((_, ratio)) if ratio < SPREAD => {
            clear(vec![("slowdown", ratio)], format!("{}, but an arm without it takes as long ({} of it)", slow.what, percent(1.0 / ratio)))
        }
        repaired => Answer::Found(Box::new(found(situation, collectives.as_ref(), &slow, repaired.map(|(_, ratio)| ratio)))),
    }
}

fn not_seen(situation: &Situation<'_>, sharding: &Sharding, share: Option<f64>) -> Answer {
    let figures = &situation.evidence.figures;
    let bandwidths = figures.anywhere("comm.bus_bandwidth").zip(figures.anywhere("comm.link_bandwidth"));
    if let Some((bus, link)) = bandwidths {
        let ratio = bus / link;
        return clear(vec![("bus_over_link", ratio)], format!("collectives move {} of the link's bandwidth", percent(ratio)));
    }
    if !situation.is_typed() && sharding.tensor <= 1.0 && !sharding.expert {
        return clear(vec![("tensor_parallel", sharding.tensor)], "no setting shards a layer over devices");
    }
    if sharding.pipeline > 1.0 && !sharding.has_layer_collectives() && share.is_none() {
        return clear(
            vec![("pipeline_parallel", sharding.pipeline)],
            "stages hand one activation per token over: no link is slow for that",
        );
    }
    Answer::CannotTell(record::unseen(
        situation,
        &["comm.bus_bandwidth", "comm.link_bandwidth", "comm.transport"],
        "neither the link's bandwidth nor the transport is known",
        record::LINK,
        record::LINK_COST,
    ))
}

/// An arm with the same sharding and load that does not show the sign, and how much longer this one takes.
fn repaired_arm<'a>(situation: &Situation<'a>, sharding: &Sharding) -> Option<(&'a Evidence, f64)> {
    situation.other_arms().find_map(|arm| {
        let same = Sharding::read(situation.subject, arm).tensor == sharding.tensor;
        let clean = slow_path(arm).is_none()
            && arm.figures.anywhere("comm.bus_bandwidth") != situation.evidence.figures.anywhere("comm.bus_bandwidth").or(Some(-1.0));
        let ratio = slowdown(situation.evidence, arm)?;
        (same && clean && !load_differs(situation.evidence, arm)).then_some((arm, ratio))
    })
}

fn found(situation: &Situation<'_>, collectives: Option<&Collectives>, slow: &SlowLink, repaired: Option<f64>) -> Found {
    let phase = collectives.map_or(Phase::Decode, |collectives| collectives.phase);
    let (share, basis, from) = match (repaired, collectives) {
        (Some(ratio), _) => ([1.0 - SPREAD / ratio, 1.0 - 1.0 / ratio, 1.0 - 1.0 / ratio], Basis::Derived, "an arm on the other path"),
        (None, Some(collectives)) if slow.excess.is_some() => {
            let basis = if slow.should_be > 0.0 { Basis::Counterfactual } else { Basis::Bound };
            (slow.excess.unwrap_or_default().map(|excess| excess * collectives.share()), basis, collectives.from)
        }
        (None, _) => ([0.0; 3], Basis::Bound, "not measured"),
    };
    let claims: Vec<Claim> = if share[1] > 0.0 { claims_on(situation, phase, share, basis) } else { Vec::new() };
    let cost = cost_of(situation, phase, share[1]).filter(|_| share[1] > 0.0);
    let measured = if share[1] > 0.0 { format!("; it holds {} of each step (by {from})", percent(share[1])) } else { String::new() };
    let mut rows = Vec::new();
    if slow.should_be > 0.0 {
        rows.push(figure("measured", slow.value, slow.unit, "typed or logged"));
        rows.push(figure("a sound link", slow.should_be, slow.unit, "link's own figure or fitted table"));
    }
    rows.extend(collectives.map(|collectives| figure("collectives, share of a step", collectives.share(), "ratio", collectives.from)));
    rows.extend(repaired.map(|ratio| figure("time per token over the other path's", ratio, "ratio", "arms")));
    let predicted = if share[1] > 0.0 {
        token_time_falls(situation, share[0].max(0.0), share[2], from)
    } else {
        token_time_falls(situation, 0.0, 0.0, "direction only: what the exchange takes of a step was not measured")
    };
    Found {
        summary: format!("{}{measured}", slow.what),
        sentence: format!("The devices exchange every layer over a slow path: {}{measured}.", slow.what),
        claims,
        cost,
        evidence: rows,
        hypotheses: hypothesis(
            of_action(
                "transport between devices",
                "the path in use",
                "the fastest path the hardware has",
                "restart",
                "enable peer access or RDMA, or move the card, and check with nccl-tests before serving",
            ),
            "a path that is switched off may have been switched off for its hangs: test it alone first",
            "nccl-tests show the same bandwidth, or calls hang",
            vec![predicted, first_token_stays(situation)],
        ),
        falsified_by: "nccl-tests at the serving message size within a factor of two of the link".into(),
        context_only: false,
        limit: false,
    }
}
