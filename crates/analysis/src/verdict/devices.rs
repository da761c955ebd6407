//! What is said of a profiler capture in which no failure mode owns a material part.

use crate::check::{Answer, Check};
use crate::contract::{Status, Verdict};
use crate::device::{Category, DeviceView, IdleParts};
use crate::phase::Phase;
use crate::settlement::Settlement;
use crate::situation::Situation;
use crate::words::{percent, plural, seconds};

use super::{OF_SIZE, insufficient};

/// True where all that was recorded is a pass that captures graphs.
pub(super) fn is_capture_pass(situation: &Situation<'_>) -> bool {
    situation.account.is_empty() && view(situation).is_some_and(|view| view.is_capture_pass)
}

fn view<'a>(situation: &Situation<'a>) -> Option<&'a DeviceView> {
    situation.evidence.device_view.as_ref()
}

/// Healthy only where computing was held against what the device can do; else what is known, and what would decide.
pub(super) fn without_cause(situation: &Situation<'_>, answers: &[(&'static Check, Answer)], settlement: &Settlement) -> Verdict {
    let Some(view) = view(situation) else { return insufficient(String::new()) };
    if view.is_capture_pass {
        return insufficient(
            "This recording is of a pass that captures graphs, not of work: record steps that serve requests, after the warm-up.".into(),
        );
    }
    let whole_s = situation.account.total_mean_s();
    let share = |phase: Phase| situation.phase_s(phase) / whole_s.max(f64::MIN_POSITIVE);
    let waits = share(Phase::Communication) + share(Phase::Copy) + share(Phase::Idle);
    let devices = plural(view.lanes.len() as f64, "device");
    let scale = format!(
        "{} of the time recorded ({}, {devices})",
        percent(share(Phase::Compute)),
        seconds(whole_s * situation.n() / view.lanes.len() as f64)
    );
    if settlement.unowned_of_size() >= OF_SIZE {
        return insufficient(format!(
            "Devices compute in {scale}; {} of the rest nobody owns: {}.",
            percent(settlement.unowned_of_size()),
            unowned(view)
        ));
    }
    if waits < OF_SIZE && at_its_bound(answers) {
        return Verdict {
            status: Status::Healthy,
            confidence: 0.6,
            confidence_because: "judged by a recording of steps alone: what passes outside of them does not show".into(),
            sentence: format!("The devices compute in {scale}, at the bound of memory or arithmetic; nothing they wait for is material."),
            falsified_by: "counters that show neither memory nor matrix units near their limit".into(),
            ..insufficient(String::new())
        };
    }
    insufficient(format!("The devices compute in {scale}; what they wait for explains {}. {}", percent(waits), largest(view)))
}

/// A limit of the hardware was found: computing runs at it.
fn at_its_bound(answers: &[(&'static Check, Answer)]) -> bool {
    crate::settlement::found(answers).any(|(_, found)| found.limit)
}

/// What the unowned time is, in words.
fn unowned(view: &DeviceView) -> String {
    let (idle, unlinked) =
        view.lanes.iter().fold((0, 0), |(idle, unlinked), lane| (idle + lane.account.idle_ns, unlinked + lane.idle.parts.unlinked_ns));
    if view.lanes.iter().any(|lane| !lane.idle_is_reliable()) {
        return "graph replays were lost by the recorder, so that idle time here may be work".into();
    }
    if unlinked * 2 >= idle.max(1) {
        return "before most of the idle stretches the recording holds no launch, so that their cause does not show; record with the host's calls".into();
    }
    let named = |of: fn(&IdleParts) -> i64| view.lanes.iter().map(|lane| of(&lane.idle.parts)).sum::<i64>();
    for (ns, what) in [
        (
            named(|parts| parts.allocation_ns),
            "in calls that allocate or free device memory, of which the first also sets the device up: keep buffers, or let a caching allocator hold them",
        ),
        (named(|parts| parts.data_ns), "while the host waits for the data loader: more loader processes, or batches prepared ahead"),
    ] {
        if ns * 2 >= idle.max(1) {
            return format!("{} of the idle time pass {what}", seconds(ns as f64 * 1e-9));
        }
    }
    let long = view.lanes.iter().fold((0, 0), |sum, lane| (sum.0 + lane.idle.long_host_ns, sum.1 + lane.idle.long_host_gaps));
    if long.0 * 2 >= idle.max(1) {
        return format!(
            "{} of the idle time lie in {} in which the host launches nothing for over a millisecond (none of data loading, allocation and code loading was recorded there)",
            seconds(long.0 as f64 * 1e-9),
            plural(long.1 as f64, "stretch")
        );
    }
    "idle, copies and communication by cause stand in the account below".into()
}

/// The largest kind of kernel, and what would tell whether it could be faster.
fn largest(view: &DeviceView) -> String {
    let mut totals: Vec<(Category, i64)> = Vec::new();
    for of in view.lanes.iter().flat_map(|lane| &lane.account.categories) {
        match totals.iter_mut().find(|(category, _)| *category == of.category) {
            Some((_, total)) => *total += of.total_ns,
            None => totals.push((of.category, of.total_ns)),
        }
    }
    let kernels: i64 = view.lanes.iter().map(|lane| lane.account.kernel_total_ns).sum();
    let Some((category, total)) = totals.into_iter().filter(|(category, _)| *category != Category::Copy).max_by_key(|(_, total)| *total)
    else {
        return "No kernel was recorded.".into();
    };
    format!(
        "Of the kernels, {} of the time is {}; whether it could be faster shows with memory and matrix activity beside it, or with model, device and shapes.",
        percent(total as f64 / kernels.max(1) as f64),
        category.as_str()
    )
}
