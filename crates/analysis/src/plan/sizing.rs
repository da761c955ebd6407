//! How few devices would do, how more would help, and what no number of them can do.

use model::deployment::{Deployment, Load};
use model::memory::Dtype;
use model::models::Kind;
use model::prediction::{SATURATED, bound};
use model::roofline;

use super::case::{Candidate, Case, Effort, Setting, widest};
use super::document::{Kept, Sizing};
use super::memory_footprint::formats as formats_of;
use super::operating::{Operating, with_goodput};
use super::order::{Ordered, more_replicas};
use crate::words::{plural, seconds};

/// Most devices that are suggested.
const MOST_DEVICES: u32 = 64;

/// More devices: twice to 16 times as many, as wider replicas and as more of them.
pub(super) fn widened<'a>(setting: &Setting<'a>) -> Vec<Candidate<'a>> {
    let deployment = setting.deployment;
    let mut found = Vec::new();
    for (factor, id) in [(2, "devices_x2"), (4, "devices_x4"), (8, "devices_x8"), (16, "devices_x16")] {
        let gpu_count = deployment.gpu_count() * factor;
        if gpu_count > MOST_DEVICES {
            break;
        }
        let wider = deployment.tensor * factor;
        let mut settings = vec![more_replicas(setting, factor)];
        if wider <= 8 && deployment.model.heads.is_multiple_of(wider) && deployment.attention_dp == 1 {
            settings.push(setting.with(Deployment { tensor: wider, kv_tokens: None, ..deployment }));
        }
        found.extend(settings.into_iter().map(|setting| Candidate {
            id,
            step: "memory_footprint",
            what: format!("{gpu_count} GPUs instead of {} ({})", deployment.gpu_count(), setting.layout()),
            flag: None,
            setting,
            effort: Effort::Devices,
            risk: Some("cost grows with the devices"),
        }));
    }
    found
}

/// The smallest number of devices that keeps the limits, in the formats given, those of the plan, or 8-bit weights.
/// Nothing without limits or a rate.
pub(super) fn smallest<'a>(case: &Case<'a>, ordered: &Ordered<'a>) -> Option<Sizing> {
    if !case.slo().is_set() || case.offered.rate_per_s.is_none() {
        return None;
    }
    let mut formats = vec![case.start];
    if ordered.last.deployment.weights != case.start.deployment.weights || ordered.last.deployment.kv != case.start.deployment.kv {
        formats.push(ordered.last);
    }
    // An 8-bit checkpoint often halves the devices; 4 bits are not suggested for that.
    formats.extend(formats_of(&case.start).into_iter().filter(|format| format.effort != Effort::FourBits).map(|format| format.setting));
    // What the plan ends with counts too, drafts and all.
    let planned = ordered.after.as_ref().filter(|after| after.kept >= Kept::Likely);
    let most = planned.map_or(MOST_DEVICES, |after| after.gpu_count);
    let counts = (0..=6).map(|power| 1u32 << power).filter(|count| *count <= most);
    let found = counts.flat_map(|count| formats.iter().map(move |format| (count, format))).find_map(|(count, format)| {
        let mut fitting: Vec<(Setting<'a>, Operating)> =
            layouts(case, format, count).filter_map(|setting| kept(case, &setting).map(|found| (setting, found))).collect();
        fitting.sort_by(|a, b| b.1.kept.cmp(&a.1.kept).then(a.1.tpot_s.mid.total_cmp(&b.1.tpot_s.mid)));
        let (setting, found) = fitting.into_iter().next()?;
        let found = with_goodput(case, &setting, found);
        Some(Sizing { gpu_count: count, layout: setting.layout(), predicted: found.document(case) })
    });
    found.or_else(|| {
        planned.map(|after| Sizing { gpu_count: after.gpu_count, layout: after.layout.clone(), predicted: after.document(case) })
    })
}

/// All ways to divide `count` devices, the widest first.
fn layouts<'a>(case: &Case<'a>, format: &Setting<'a>, count: u32) -> impl Iterator<Item = Setting<'a>> {
    let heads = case.input.model.heads;
    let base = *format;
    let ranks = count.min(8);
    let shared = (case.input.model.kind() == Kind::Latent && ranks > 1)
        .then(|| base.with(Deployment { tensor: 1, attention_dp: ranks, replicas: count / ranks, kv_tokens: None, ..base.deployment }));
    [8, 4, 2, 1]
        .into_iter()
        .filter(move |tensor| count.is_multiple_of(*tensor) && heads.is_multiple_of(*tensor))
        .map(move |tensor| base.with(Deployment { tensor, replicas: count / tensor, attention_dp: 1, kv_tokens: None, ..base.deployment }))
        .chain(shared)
}

/// How a setting runs if it keeps the limits; those that cannot are dropped before they are rehearsed.
fn kept<'a>(case: &Case<'a>, setting: &Setting<'a>) -> Option<Operating> {
    let rate = case.offered.rate_per_s?;
    let load = case.offered.load(0.0);
    let most = setting.deployment.sequences_that_fit(load.mean_context()) * setting.attention_ranks();
    let full = Load { concurrency: most.max(1.0), ..load };
    let served = model::prediction::predict(&setting.deployment, &full, &case.calibration(setting)).ok()?.tokens_per_s.mid;
    // With prefixes found again more can be served than this says, so only hopeless ones are dropped.
    let hopeless = if case.offered.has_blocks() { 4.0 } else { 1.0 };
    if rate * case.offered.output_tokens > served * SATURATED * hopeless {
        return None;
    }
    case.operate(setting).ok().filter(|found| found.kept >= Kept::Likely)
}

/// What no number of these devices can do, with the bound: peaks of the data sheet, one request alone, up to eight devices
/// a replica, any format. Nothing where every limit is at least possible.
pub(super) fn out_of_reach(case: &Case<'_>) -> Option<String> {
    let d = &case.start.deployment;
    let formats = [d.weights, Dtype::Fp8, Dtype::Int4G128, Dtype::Nvfp4];
    let settings = formats.iter().flat_map(|weights| [1, 2, 4, 8].map(|tensor| (*weights, tensor)));
    let settings: Vec<Deployment<'_>> = settings
        .filter(|(_, tensor)| d.model.heads.is_multiple_of(*tensor))
        .map(|(weights, tensor)| Deployment { weights, tensor, replicas: 1, attention_dp: 1, weight_bytes: None, kv_tokens: None, ..*d })
        .collect();
    let load = Load { concurrency: 1.0, ..case.offered.load(0.0) };
    let least = |values: Vec<f64>| values.into_iter().reduce(f64::min);
    if let Some((_, limit_s)) = case.slo().tpot
        && let Some(least_s) = least(settings.iter().filter_map(|d| bound(d, &load).ok()).map(|bound| bound.tpot_s).collect())
        && least_s > limit_s
    {
        return Some(format!(
            "TPOT {} is below the bound of {} for one request on 8 {} at 4 bits: no number of them does it",
            seconds(limit_s),
            seconds(least_s),
            d.gpu.name
        ));
    }
    let cached = if case.offered.has_blocks() { case.offered.prompt_tokens * case.offered.reuse(1).ceiling_frac() } else { 0.0 };
    let prefill_s = |d: &Deployment<'_>| {
        let shape = roofline::Deployment { weights: d.weights, kv: d.kv, ranks: d.tensor };
        roofline::prefill_bound_s(d.model, shape, case.offered.prompt_tokens - cached, cached, d.gpu)
    };
    let (_, limit_s) = case.slo().ttft?;
    let least_s = least(settings.iter().filter_map(prefill_s).collect())?;
    (least_s > limit_s).then(|| {
        let replica = plural(f64::from(widest(d.model.heads, 8)), "GPU");
        format!(
            "TTFT {} is below the bound of {} for a mean prompt on {replica}: no number of replicas does it",
            seconds(limit_s),
            seconds(least_s)
        )
    })
}
