//! By a profiler capture: matrix kernels against the least that their sizes need, and kernels written for older devices.

use crate::check::{Answer, Found, clear, figure};
use crate::claims::Basis;
use crate::device::Operation;
use crate::device_remedy::{first_token_kept, hypothesis, setting, token_falls};
use crate::off_roofline::{OffRoofline, Outdated, far, is_product, outdated, share_words, time_ns};
use crate::on_device::{GRAIN, OnDevice};
use crate::phase::Phase;
use crate::record_device::{SHAPES, undecided_of_kernels};
use crate::situation::Situation;
use crate::words::{digits, percent};

/// Kernels without the newer instructions reach some 0.63 of Hopper's rate (Luo et al. 2024, "Benchmarking and Dissecting the
/// Nvidia Hopper GPU Architecture", mma against wgmma): what others would save where arithmetic is what they wait for.
const SAVED_BY_NEWER: [f64; 3] = [0.0, 0.2, 0.37];

/// Nothing where no device was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    let all_ns = time_ns(&device, is_product);
    let share = device.share(all_ns);
    if share < GRAIN {
        return Some(clear(vec![("products_share", share)], format!("matrix products take {}", share_words(&device, all_ns))));
    }
    let old = outdated(&device, is_product);
    let known = OffRoofline::read(situation, Operation::Product).filter(|known| 2 * known.time_ns >= all_ns);
    if let Some(known) = &known {
        let (factor, saved) = (known.factor(), device.share(known.excess_ns()[1]));
        let far = far(&device, old.is_some());
        if factor < far || saved < GRAIN {
            let because = format!("matrix kernels take {}", known.words());
            return Some(clear(vec![("time_over_least", factor), ("saved_by_good_kernels", saved)], because));
        }
        return Some(Answer::Found(Box::new(by_sizes(situation, &device, known, old.as_ref()))));
    }
    if let Some(old) = old.filter(|old| device.share(old.time_ns) >= 2.0 * GRAIN) {
        return Some(Answer::Found(Box::new(by_name(situation, &device, &old))));
    }
    let because = format!("matrix products take {}, and the sizes of most are not known", share_words(&device, all_ns));
    Some(undecided_of_kernels(&["sizes of matrix products"], because, SHAPES))
}

fn by_sizes(situation: &Situation<'_>, device: &OnDevice<'_>, known: &OffRoofline, old: Option<&Outdated>) -> Found {
    let words = format!("matrix kernels take {}", known.words());
    let named = old.map_or(String::new(), |old| format!("; {}", old.words));
    let mut rows = vec![figure("time of matrix kernels over the least", known.factor(), "factor", "trace, sizes and data sheet")];
    rows.extend(known.rows.iter().cloned());
    found(situation, device, known.excess_ns(), Basis::Counterfactual, rows, &format!("{words}{named}"))
}

fn by_name(situation: &Situation<'_>, device: &OnDevice<'_>, old: &Outdated) -> Found {
    let share = device.share(old.time_ns);
    let rows = vec![figure("kernels written for older devices, share of the devices' time", share, "ratio", "kernel names")];
    let words = format!("{} ({} of the devices' time)", old.words, percent(share));
    let saved = SAVED_BY_NEWER.map(|saved| (saved * old.time_ns as f64) as i64);
    found(situation, device, saved, Basis::Bound, rows, &words)
}

fn found(
    situation: &Situation<'_>,
    device: &OnDevice<'_>,
    saved_ns: [i64; 3],
    basis: Basis,
    rows: Vec<crate::contract::Evidence>,
    words: &str,
) -> Found {
    let ends = saved_ns.map(|ns| device.share(ns));
    Found {
        summary: words.to_string(),
        sentence: format!("Matrix kernels are not the ones for this device and these sizes: {words}."),
        claims: device.claims(situation, Phase::Compute, saved_ns, basis),
        cost: device.cost(situation, saved_ns[1]),
        evidence: rows,
        hypotheses: vec![hypothesis(
            setting(situation, "moe_backend", "one with kernels for this device and format"),
            "another backend may differ in rounding or lack a format",
            "the kernels keep their time",
            vec![token_falls(situation, ends, &format!("matrix kernels at {} of the peak", digits(0.6))), first_token_kept(situation)],
        )],
        falsified_by: "another backend with the same kernel time at these sizes".into(),
        context_only: false,
        limit: false,
    }
}
