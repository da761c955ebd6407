//! By a profiler capture: attention kernels against the least that their lengths need, attention put together from products
//! and a softmax, and kernels written for older devices.

use crate::check::{Answer, Found, clear, figure};
use crate::claims::Basis;
use crate::contract::Evidence;
use crate::device::kernels::{capability, made_for};
use crate::device::{Category, FamilyTotal, LaneView, Operation};
use crate::device_remedy::{first_token_kept, hypothesis, setting, token_falls};
use crate::off_roofline::{OffRoofline, far, is_long, share_words, time_ns};
use crate::on_device::{GRAIN, OnDevice};
use crate::phase::Phase;
use crate::record_device::{SHAPES, undecided_of_kernels};
use crate::situation::Situation;
use crate::unfused_attention::UnfusedAttention;
use crate::words::{count, percent};

/// FlashAttention-3 takes 1/1.5 to 1/2 of the time of FlashAttention-2 for long prompts on Hopper (Shah et al. 2024): what is
/// saved where prompts are what attention computes.
const SAVED_ON_HOPPER: [f64; 3] = [0.0, 0.2, 0.5];

/// Nothing where no device was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    if let Some(of) = UnfusedAttention::read(&device) {
        return Some(by_parts(situation, &device, &of));
    }
    let all_ns = time_ns(&device, is_attention);
    let share = device.share(all_ns);
    if share < GRAIN {
        return Some(clear(vec![("attention_share", share)], format!("attention takes {}", share_words(&device, all_ns))));
    }
    let old = second_generation_on_hopper(&device);
    let known = OffRoofline::read(situation, Operation::Attention).filter(|known| 2 * known.time_ns >= all_ns);
    if let Some(known) = &known {
        let (factor, saved) = (known.factor(), device.share(known.excess_ns()[1]));
        let far = far(&device, old.is_some());
        if factor < far || saved < GRAIN {
            let because = format!("attention kernels take {}", known.words());
            return Some(clear(vec![("time_over_least", factor), ("saved_by_good_kernels", saved)], because));
        }
        let named = old.map_or(String::new(), |(words, _)| format!("; {words}"));
        let mut rows = vec![figure("time of attention over the least", factor, "factor", "trace, lengths and data sheet")];
        rows.extend(known.rows.iter().cloned());
        let words = format!("attention kernels take {}{named}", known.words());
        return Some(Answer::Found(Box::new(found(situation, &device, known.excess_ns(), Basis::Counterfactual, rows, &words))));
    }
    if let Some((words, old_ns)) = old.filter(|(_, old_ns)| device.share(*old_ns) >= 2.0 * GRAIN) {
        let rows = vec![figure("such kernels, share of the devices' time", device.share(old_ns), "ratio", "kernel names")];
        let saved = SAVED_ON_HOPPER.map(|saved| (saved * old_ns as f64) as i64);
        return Some(Answer::Found(Box::new(found(situation, &device, saved, Basis::Bound, rows, &words))));
    }
    let because = format!("attention takes {}, and the lengths it works on are not known", share_words(&device, all_ns));
    Some(undecided_of_kernels(&["sizes of attention"], because, SHAPES))
}

/// Kernels that attend; what only moves the cache or joins parts is none.
fn is_attention(of: &FamilyTotal) -> bool {
    of.category == Category::Attention
}

/// FlashAttention-2 on a device with the instructions of its third version: its kernels carry `flash_fwd` and no generation.
fn second_generation_on_hopper(device: &OnDevice<'_>) -> Option<(String, i64)> {
    let is_old = |lane: &LaneView, of: &FamilyTotal| {
        let lower = of.name.to_ascii_lowercase();
        // With the keys split it waits for memory, which no instruction makes faster.
        let is_second = lower.contains("flash_fwd") && !lower.contains("splitkv") && made_for(&of.name).is_none_or(|made| made < 90);
        let is_cutlass = lower.contains("fmha") && made_for(&of.name).is_some_and(|made| made < 90);
        capability(&lane.name) == Some(90) && is_attention(of) && is_long(of) && (is_second || is_cutlass)
    };
    let each = device.view.lanes.iter().flat_map(|lane| lane.families.iter().filter(|of| is_old(lane, of)));
    let (name, total_ns) = each.fold((String::new(), 0i64), |sum, of| {
        (if sum.0.is_empty() { of.family.clone() } else { sum.0 }, sum.1.saturating_add(of.total_ns))
    });
    (total_ns > 0).then(|| (format!("{name} is FlashAttention of the second generation on a Hopper device"), total_ns))
}

/// Without fusion the scores of all pairs go to memory and back; how much the products around the softmax would save is not
/// told by their names, so only the softmax counts.
fn by_parts(situation: &Situation<'_>, device: &OnDevice<'_>, of: &UnfusedAttention) -> Answer {
    let share = device.share(of.softmax_ns);
    let what = format!("attention is unfused: products and {} softmaxes by themselves ({})", count(of.softmaxes as f64), of.name);
    if share < GRAIN {
        let because = format!("{what}, which take {}", share_words(device, of.softmax_ns));
        return clear(vec![("softmax_share", share)], because);
    }
    let words = format!("{what}, the softmaxes alone take {}", percent(share));
    let rows = vec![
        figure("softmaxes by themselves, share of the devices' time", share, "ratio", "trace"),
        figure("softmaxes", of.softmaxes as f64, "count", "trace"),
    ];
    let saved = [7 * (of.softmax_ns / 10), 9 * (of.softmax_ns / 10), of.softmax_ns];
    Answer::Found(Box::new(found(situation, device, saved, Basis::Counterfactual, rows, &words)))
}

fn found(situation: &Situation<'_>, device: &OnDevice<'_>, saved_ns: [i64; 3], basis: Basis, rows: Vec<Evidence>, words: &str) -> Found {
    let ends = saved_ns.map(|ns| device.share(ns));
    Found {
        summary: words.to_string(),
        sentence: format!("The attention kernels are not the ones for this device and these lengths: {words}."),
        claims: device.claims(situation, Phase::Compute, saved_ns, basis),
        cost: device.cost(situation, saved_ns[1]),
        evidence: rows,
        hypotheses: vec![hypothesis(
            setting(situation, "attention_backend", "one made for this device and these lengths"),
            "another backend may lack a feature (KV format, sliding window) or differ in rounding",
            "attention keeps its time",
            vec![token_falls(situation, ends, "attention at the speed of its own bytes and operations"), first_token_kept(situation)],
        )],
        falsified_by: "another backend with the same attention time at these lengths".into(),
        context_only: false,
        limit: false,
    }
}
