//! A link that does less than it can: measured bandwidth or calls, lanes of a slot, or a path named by setting or log.

use crate::evidence::{Evidence, Point};
use crate::situation::Situation;
use crate::words::{count, digits, seconds};

use super::device_cost;

/// How far a link or its transport is behind what it should do.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowLink {
    /// Share of the collectives' time that a sound link would not take, low, middle, high; `None` where only a sign is known.
    pub excess: Option<[f64; 3]>,
    /// What was seen, with its figures.
    pub what: String,
    /// Measured, or the sign's.
    pub value: f64,
    /// What it should be.
    pub should_be: f64,
    /// Unit of both.
    pub unit: &'static str,
}

/// A link below half of what it can do is not what was bought: large messages reach 0.8 of it and more.
const HALF_OF_LINK: f64 = 0.5;
/// Messages from this size on are bound by bandwidth; smaller ones by latency, whatever the link.
const LARGE_MESSAGE_BYTES: f64 = 1e6;
/// Calls beyond this multiple of the fitted table are slow: the table itself is good to 15 %, engines differ by half.
const SLOW_CALL: f64 = 2.0;

/// A link that does not do what it can: measured, or by a slot, setting or transport that shows it.
pub fn slow_link(situation: &Situation<'_>) -> Option<SlowLink> {
    by_bandwidth(situation).or_else(|| by_call(situation)).or_else(|| lanes(situation)).or_else(|| sign(situation))
}

fn by_bandwidth(situation: &Situation<'_>) -> Option<SlowLink> {
    let figures = &situation.evidence.figures;
    let moved = || Some(figures.typical("comm.bytes")? / figures.typical("comm.time").filter(|seconds| *seconds > 0.0)?);
    let bus = figures.anywhere("comm.bus_bandwidth").or_else(moved)?;
    let device = if situation.evidence.device.is_empty() { &situation.subject.device } else { &situation.evidence.device };
    let by_table = || model::hardware::find(device)?.link_bytes_per_s;
    let link = figures.anywhere("comm.link_bandwidth").or_else(by_table).filter(|link| *link > 0.0)?;
    let is_small = figures.typical("comm.call_bytes").is_some_and(|bytes| bytes < LARGE_MESSAGE_BYTES);
    (bus < HALF_OF_LINK * link && !is_small).then(|| {
        let excess = 1.0 - bus / (0.8 * link);
        SlowLink {
            excess: Some([0.7 * excess, excess, 1.0 - bus / link]),
            what: format!("collectives move {} GB/s over a link of {} GB/s", digits(bus * 1e-9), digits(link * 1e-9)),
            value: bus,
            should_be: 0.8 * link,
            unit: "byte/s",
        }
    })
}

fn by_call(situation: &Situation<'_>) -> Option<SlowLink> {
    let figures = &situation.evidence.figures;
    let whole = || Some((figures.typical("comm.call_bytes")?, figures.typical("comm.call_time")?, figures.typical("comm.skew")));
    let row = |row: &Point| Some((row.typical("comm.call_bytes")?, row.typical("comm.call_time")?, row.typical("comm.skew")));
    // Large messages tell of the link, small ones of its latency.
    let largest = || figures.points().filter_map(row).max_by(|a, b| a.0.total_cmp(&b.0));
    let (bytes, call_s, skew) = whole().or_else(largest)?;
    let skew_s = skew.unwrap_or(0.0).min(call_s);
    let typed_link = figures.anywhere("comm.link_bandwidth").map(|link| bytes / (0.4 * link));
    let best_s = device_cost(situation).map(|cost| cost.time_s(bytes)).or(typed_link.filter(|_| bytes >= LARGE_MESSAGE_BYTES))?;
    let moving_s = call_s - skew_s;
    (moving_s > SLOW_CALL * best_s).then(|| {
        let excess = 1.0 - best_s / moving_s;
        SlowLink {
            excess: Some([0.7 * excess, excess, excess]),
            what: format!("a collective of {} bytes takes {} where {} is usual", count(bytes), seconds(moving_s), seconds(best_s)),
            value: moving_s,
            should_be: best_s,
            unit: "s",
        }
    })
}

/// What sockets take of a collective's time where it was not measured: RDMA and NVLink are ten times as fast.
const BY_SOCKETS: [f64; 3] = [0.6, 0.85, 0.95];

/// A setting or log line that says which path is taken, without a measurement of it. What peer access would bring over host
/// memory depends on the board, so nothing is claimed for it.
fn sign(situation: &Situation<'_>) -> Option<SlowLink> {
    let is_ordinary = |what: &String| what.ends_with("`shm`") && !situation.is_typed() && !has_fast_link(situation);
    let what = slow_path(situation.evidence).filter(|what| !is_ordinary(what))?;
    let by_sockets = what.to_ascii_lowercase().contains("socket");
    Some(SlowLink { excess: by_sockets.then_some(BY_SOCKETS), what, value: 0.0, should_be: 0.0, unit: "" })
}

/// A card whose own link is far faster than its slot. Without one, host memory may be all that two cards have.
pub fn has_fast_link(situation: &Situation<'_>) -> bool {
    let device = if situation.evidence.device.is_empty() { &situation.subject.device } else { &situation.evidence.device };
    let gpu = model::hardware::find(device);
    gpu.is_some_and(|gpu| gpu.link_bytes_per_s.zip(gpu.pcie_bytes_per_s).is_some_and(|(link, pcie)| link > 2.0 * pcie))
}

/// Settings and transports that are slow where a faster path exists.
pub fn slow_path(evidence: &Evidence) -> Option<String> {
    let text = |key: &str| evidence.settings.get(key).map(|setting| setting.value.to_ascii_lowercase());
    let is_on = |key: &str| text(key).is_some_and(|value| matches!(value.as_str(), "1" | "true" | "yes"));
    if let Some(transport) = text("comm.transport") {
        let is_slow = ["socket", "tcp", "shm", "host", "ethernet"].iter().any(|slow| transport.contains(slow));
        return is_slow.then(|| format!("the library moves data by `{transport}`"));
    }
    let switches = [
        ("env.NCCL_P2P_DISABLE", "peer access between the GPUs is switched off (NCCL_P2P_DISABLE=1): data goes through host memory"),
        ("env.NCCL_IB_DISABLE", "RDMA is switched off (NCCL_IB_DISABLE=1): data goes through sockets"),
        ("env.NCCL_SHM_DISABLE", "shared memory is switched off (NCCL_SHM_DISABLE=1): ranks of one host talk through the network"),
    ];
    if let Some((_, what)) = switches.iter().find(|(key, _)| is_on(key)) {
        return Some((*what).to_string());
    }
    text("env.NCCL_NET").filter(|net| net == "socket").map(|_| "the library is told to use sockets (NCCL_NET=Socket)".into())
}

/// Fewer lanes than half of the card's.
fn lanes(situation: &Situation<'_>) -> Option<SlowLink> {
    let figures = &situation.evidence.figures;
    let width = figures.lowest("gpu.pcie_width")?;
    let generation = figures.highest("gpu.pcie_gen").unwrap_or(4.0).clamp(1.0, 6.0);
    // An idle link steps its generation down, so the highest one seen counts.
    // 2.5 GT/s in the first generation, doubled (nearly) with each: 3.94 GB/s for four lanes of the third.
    let per_lane = 0.985e9 * 2f64.powf(generation - 3.0);
    let now = width * per_lane;
    if has_fast_link(situation) {
        return None;
    }
    let device = if situation.evidence.device.is_empty() { &situation.subject.device } else { &situation.evidence.device };
    let gpu = model::hardware::find(device);
    let card = gpu.and_then(|gpu| gpu.pcie_bytes_per_s).unwrap_or(16.0 * per_lane);
    (now < HALF_OF_LINK * card).then(|| {
        let excess = 1.0 - now / card;
        SlowLink {
            excess: Some([0.5 * excess, excess, excess]),
            what: format!(
                "the slot gives {} lanes of PCIe {} ({} GB/s) to a card that takes {} GB/s",
                count(width),
                count(generation),
                digits(now * 1e-9),
                digits(card * 1e-9)
            ),
            value: now,
            should_be: card,
            unit: "byte/s",
        }
    })
}
