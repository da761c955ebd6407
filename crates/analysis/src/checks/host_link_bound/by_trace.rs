//! By a profiler capture: copies between host and device run while no kernel does.

use crate::check::{Answer, Found, clear, figure};
use crate::claims::Basis;
use crate::device::CopyFlow;
use crate::on_device::{GRAIN, OnDevice};
use crate::phase::Phase;
use crate::situation::Situation;
use crate::words::{digits, percent, seconds};

use super::{PRACTICAL, keep_on_device};

/// Nothing where no device was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    let exposed_ns = device.exposed_copies_ns(is_of_link);
    let share = device.share(exposed_ns);
    if share < GRAIN {
        let margin = vec![("exposed_link_copies", share)];
        return Some(clear(margin, format!("copies to and from the host hold the device for {} of its time", percent(share))));
    }
    Some(Answer::Found(Box::new(found(situation, &device, exposed_ns))))
}

/// Pageable copies are slow for another reason than the link.
fn is_of_link(flow: &CopyFlow) -> bool {
    flow.crosses_host_link() && !flow.is_pageable()
}

fn found(situation: &Situation<'_>, device: &OnDevice<'_>, exposed_ns: i64) -> Found {
    let share = device.share(exposed_ns);
    let (unit, unit_s) = device.unit();
    let flows = device.flows(is_of_link);
    let bytes: i64 = flows.iter().map(|flow| flow.bytes).sum();
    let told_ns: i64 = flows.iter().map(|flow| flow.told_ns).sum();
    let rate = (told_ns > 0).then(|| bytes as f64 / (told_ns as f64 * 1e-9));
    let link = device.by_data_sheet(situation, |gpu| gpu.pcie_bytes_per_s);
    let mut rows = vec![
        figure("exposed copies over the host link, share of the device's time", share, "ratio", "trace"),
        figure("bytes over the link", bytes as f64, "byte", "trace"),
    ];
    rows.extend(rate.map(|rate| figure("rate of one device's copies", rate, "byte/s", "trace")));
    rows.extend(link.map(|link| figure("what the link carries", PRACTICAL * link, "byte/s", "data sheet")));
    let words = rate.map_or(String::new(), |rate| format!(" at {} GB/s per device", digits(rate * 1e-9)));
    let ends = [0.7 * share, share, share];
    Found {
        summary: format!("copies between host and device{words} hold the device for {} of its time", percent(share)),
        sentence: format!(
            "The device waits for what lies in host memory: copies{words} take {} of each {unit} of {} while no kernel runs. It is bound by the link, not idle.",
            seconds(share * unit_s),
            seconds(unit_s)
        ),
        claims: device.claims(situation, Phase::Copy, [7 * (exposed_ns / 10), exposed_ns, exposed_ns], Basis::Measured),
        cost: device.cost(situation, exposed_ns),
        evidence: rows,
        hypotheses: vec![keep_on_device(situation, ends, rate)],
        falsified_by: "kernels run as rarely once the copies are gone".into(),
        context_only: false,
        limit: false,
    }
}
