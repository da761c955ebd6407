//! By a profiler capture: copies that nothing hides and that need not be, through pageable memory or within the device.

use crate::check::{Answer, Found, clear, figure};
use crate::claims::Basis;
use crate::contract::Direction;
use crate::device::CopyFlow;
use crate::device_remedy::{first_token_kept, hypothesis, moves, outside, token_falls};
use crate::on_device::OnDevice;
use crate::phase::Phase;
use crate::situation::Situation;
use crate::words::{digits, percent, seconds};

use super::MATERIAL;

/// Nothing where no device was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    let exposed_ns = device.exposed_copies_ns(is_needless);
    let share = device.share(exposed_ns);
    let all = device.share(device.sum_ns(|lane| lane.account.exposed_copy_ns));
    let margin = vec![("needless_copies", share), ("exposed_copies", all)];
    if share < MATERIAL {
        return Some(clear(margin, format!("copies that could be pinned or left out hold the device for {} of its time", percent(share))));
    }
    Some(Answer::Found(Box::new(found(situation, &device, exposed_ns))))
}

/// Pageable memory is staged by the driver; a copy within the device is work a kernel could do in place.
fn is_needless(flow: &CopyFlow) -> bool {
    flow.is_pageable() || flow.direction == "DtoD"
}

fn found(situation: &Situation<'_>, device: &OnDevice<'_>, exposed_ns: i64) -> Found {
    let share = device.share(exposed_ns);
    let (unit, unit_s) = device.unit();
    let mut rows = vec![figure("exposed copies that need not be, share of the device's time", share, "ratio", "trace")];
    for flow in device.flows(is_needless).into_iter().take(3) {
        let what = format!("{} {}", flow.direction, [flow.from.as_str(), flow.to.as_str()].join(" to ").trim());
        rows.push(figure(&what, flow.total_ns as f64 * 1e-9, "s", "trace"));
        rows.extend(flow.bandwidth_bytes_per_s().map(|rate| figure(&format!("{what}, rate"), rate, "byte/s", "trace")));
    }
    let largest = device.flows(is_needless).into_iter().next().cloned().unwrap_or_default();
    let (what, instruction) = if largest.is_pageable() {
        ("through pageable memory", "copy from pinned memory (pin_memory, cudaHostRegister) and asynchronously")
    } else {
        ("within the device", "write in place or let the consumer read the original layout")
    };
    let rate = largest.bandwidth_bytes_per_s().map_or(String::new(), |rate| format!(" at {} GB/s", digits(rate * 1e-9)));
    let ends = [0.5 * share, 0.8 * share, share];
    Found {
        summary: format!("copies {what}{rate} hold the device for {} of its time", percent(share)),
        sentence: format!(
            "Copies {what}{rate} take {} of each {unit} of {} while no kernel runs.",
            seconds(share * unit_s),
            seconds(unit_s)
        ),
        claims: device.claims(situation, Phase::Copy, [exposed_ns / 2, 4 * (exposed_ns / 5), exposed_ns], Basis::Measured),
        cost: device.cost(situation, exposed_ns),
        evidence: rows,
        hypotheses: vec![hypothesis(
            outside("copies", "pinned or none", "restart", instruction),
            "pinned memory is taken from the host",
            "exposed copies stay",
            vec![
                token_falls(situation, ends, "pinned copies run at the link's rate and beside kernels"),
                moves(
                    "exposed copies",
                    "exposed copies",
                    "s",
                    Direction::Down,
                    Some(share * unit_s),
                    Some([0.0, 0.5 * share * unit_s]),
                    "as above",
                ),
                first_token_kept(situation),
            ],
        )],
        falsified_by: "the same copies from pinned memory take as long".into(),
        context_only: false,
        limit: false,
    }
}
