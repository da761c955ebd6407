//! By a profiler capture: long kernels on so few blocks that most multiprocessors have nothing to do.

use crate::check::{Answer, Found, clear, figure};
use crate::claims::Basis;
use crate::device::Thin;
use crate::device_remedy::{first_token_kept, hypothesis, outside, token_falls};
use crate::on_device::{GRAIN, OnDevice};
use crate::phase::Phase;
use crate::record_device::{ONE_KERNEL, undecided_of_kernels};
use crate::situation::Situation;
use crate::words::{count, percent};

/// Nothing where no device was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    let long_ns = device.sum_ns(|lane| lane.fill.long_ns);
    let long = device.share(long_ns);
    if long < GRAIN {
        let because = format!("kernels long enough to fill the device take {} of its time", percent(long));
        return Some(clear(vec![("long_kernels", long)], because));
    }
    let known = device.sum_ns(|lane| lane.fill.known_ns) as f64 / long_ns.max(1) as f64;
    let thin_ns = device.sum_ns(|lane| lane.fill.thin_ns());
    let share = device.share(thin_ns);
    if share >= GRAIN {
        return Some(Answer::Found(Box::new(found(situation, &device, thin_ns))));
    }
    if known < 0.5 {
        let because = format!("blocks of {} of the long kernels' time were not recorded", percent(1.0 - known));
        return Some(undecided_of_kernels(&["grid of each kernel", "kernel.occupancy"], because, ONE_KERNEL));
    }
    let because = format!("kernels on an eighth of the multiprocessors or less take {} of the devices' time", percent(share));
    Some(clear(vec![("thin_kernels", share)], because))
}

fn found(situation: &Situation<'_>, device: &OnDevice<'_>, thin_ns: i64) -> Found {
    let share = device.share(thin_ns);
    let lanes = &device.view.lanes;
    let each: Vec<(&Thin, u32)> = lanes.iter().flat_map(|lane| lane.fill.thin.iter().map(|thin| (thin, lane.sm_count))).collect();
    let worst = each.iter().max_by_key(|(thin, _)| thin.total_ns);
    let named = worst.map_or(String::new(), |(thin, sms)| {
        format!("{} on {} blocks of {} multiprocessors", thin.family, count(thin.blocks as f64), count(f64::from(*sms)))
    });
    // On all multiprocessors the same work takes its share of them at best; reductions between blocks and memory take from it.
    let at_best: f64 = each.iter().map(|(thin, sms)| thin.total_ns as f64 * (1.0 - thin.blocks as f64 / f64::from((*sms).max(1)))).sum();
    let saved = [0.25, 0.5, 1.0].map(|part| (part * at_best) as i64);
    let mut rows = vec![figure("long kernels on few blocks, share of the devices' time", share, "ratio", "trace")];
    rows.extend(each.iter().take(3).map(|(thin, _)| figure(&thin.family, thin.total_ns as f64 * 1e-9, "s", "trace")));
    Found {
        summary: format!("kernels on a few blocks take {} of the devices' time ({named})", percent(share)),
        sentence: format!(
            "Kernels leave most of the device empty for {} of its time ({named}): the rest of it has nothing to do.",
            percent(share)
        ),
        claims: device.claims(situation, Phase::Compute, saved, Basis::Counterfactual),
        cost: device.cost(situation, saved[1]),
        evidence: rows,
        hypotheses: vec![hypothesis(
            outside(
                "work per launch",
                "more",
                "restart",
                "give the kernel more blocks: a larger batch, split-k or split-kv, or another backend for this shape",
            ),
            "a larger batch raises time per token; a split kernel needs a reduction",
            "the kernel's time does not fall",
            vec![
                token_falls(situation, saved.map(|ns| device.share(ns)), "the same work on all multiprocessors"),
                first_token_kept(situation),
            ],
        )],
        falsified_by: "the same kernels on more blocks take as long".into(),
        context_only: false,
        limit: false,
    }
}
