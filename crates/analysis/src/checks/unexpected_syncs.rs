//! The host waits for the device inside a step where the engine should run ahead.

mod by_trace;

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::contract::{Direction, Evidence};
use crate::device_remedy::{first_token_kept, hypothesis, moves, outside, token_falls};
use crate::device_step::{claims, cost, figure_of, is_cpu, step_s};
use crate::evidence::Evidence as Arm;
use crate::phase::Phase;
use crate::record_device::{TRACE, undecided};
use crate::situation::Situation;
use crate::slower_arm::{change_names, faster_arm};
use crate::words::{percent, seconds};

check! {
    /// Something on the step's path makes the host wait until the device has drained.
    ///
    /// ## Why it costs time
    /// An engine that schedules ahead prepares the next step while the device computes this one. One read of a device value
    /// (`.item()`, `.tolist()`, a copy to pageable memory, an index assignment) makes the host wait for the device; the
    /// preparation then begins when the device is already idle.
    ///
    /// ## How to confirm
    /// Call stacks or a trace show the host in a synchronize call for a good part of each step, although asynchronous
    /// scheduling is on, and the device idle after it.
    ///
    /// ## Fix
    /// Keep the value on the device, copy to pinned memory without waiting, or move the read after the next launch.
    ///
    /// ## When this is wrong
    /// Engines without run-ahead wait once per step for the sampled token by design; a host that has nothing to do waits
    /// for the device without any cost.
    id: "unexpected_syncs", layer: Kernel, rank: 30, phases: [Decode, Idle], bound: "host", validated_on: "report", run: find,
}

/// Idle after a wait below this share of a step is the grain of any engine (attribution, section 6).
const MATERIAL: f64 = 0.03;
/// Words in which people tell arms apart that differ in it.
const WORDS: [&str; 4] = ["synchron", ".item(", "tolist", " sync"];
/// A wait of this share of a step is not the short one for sampled tokens.
const LONG_WAIT: f64 = 0.15;

fn find(situation: &Situation<'_>) -> Answer {
    if let Some(answer) = by_trace::answer(situation) {
        return answer;
    }
    let arm = situation.evidence;
    let figures = &arm.figures;
    if is_cpu(situation) {
        return clear(Vec::new(), "host and device are one: nothing to wait for");
    }
    // Told rank by rank, what even the busiest one waits is a wait for the device; the rest is waiting for other ranks.
    let of_ranks = figures.points().filter(|point| point.get("proc.rank").is_some()).filter_map(|point| point.typical("kernel.sync_wait"));
    let wait = of_ranks.reduce(f64::min).or_else(|| figure_of(figures, "kernel.sync_wait"));
    let step = step_s(arm).map(|(step, _)| step);
    let (Some(wait), Some(step)) = (wait, step) else {
        return undecided(
            situation,
            &["kernel.sync_wait", "engine.step_time"],
            "waits of the host for the device were not recorded",
            TRACE,
        );
    };
    let waited = (wait / step).min(1.0);
    let idle = figure_of(figures, "engine.host_gap").or_else(|| figure_of(figures, "kernel.launch_gap")).map(|gap| (gap / step).min(1.0));
    let margin = vec![("sync_wait_of_step", waited)];
    let ahead = arm.settings.flag("config.async_scheduling");
    let without = faster_arm(situation, |here, there| {
        let fewer = figure_of(&there.figures, "kernel.sync_wait").is_some_and(|theirs| theirs < 0.5 * wait);
        fewer || change_names(here, there, &WORDS)
    })
    .filter(|_| waited >= MATERIAL);
    if let Some(without) = &without {
        let rows = vec![figure(without.signal, without.theirs_s, "s", &format!("arm `{}`", without.other.run_name))];
        return Answer::Found(Box::new(found(situation, without.ends(), Basis::Typed, wait, step, rows)));
    }
    if waited < MATERIAL {
        return clear(margin, format!("the host waits {} of a step for the device", percent(waited)));
    }
    if let Some(idle) = idle {
        if idle < MATERIAL {
            return clear(
                [margin, vec![("idle_of_step", idle)]].concat(),
                format!("the device is idle {} of a step: the waits cost nothing", percent(idle)),
            );
        }
        let ends = [0.5 * idle.min(waited), idle.min(waited), idle];
        return Answer::Found(Box::new(found(
            situation,
            ends,
            Basis::Derived,
            wait,
            step,
            vec![figure("device idle, share of the step", idle, "ratio", "typed")],
        )));
    }
    if ahead == Some(true) && waited >= LONG_WAIT {
        return Answer::Found(Box::new(found(situation, exposed(waited), Basis::Counterfactual, wait, step, Vec::new())));
    }
    if let Some(idle) = idle_beside_kernels(arm, step).filter(|idle| *idle >= MATERIAL && waited >= LONG_WAIT) {
        let ends = [0.3 * idle.min(waited), idle.min(waited), idle];
        let rows = vec![figure("step less its kernels, share of the step", idle, "ratio", "kernel.time by category")];
        return Answer::Found(Box::new(found(situation, ends, Basis::Bound, wait, step, rows)));
    }
    let why = format!("the host waits {} of a step for the device; whether the device is idle afterwards is not known", percent(waited));
    undecided(situation, &["kernel.launch_gap", "engine.host_gap", "config.async_scheduling"], why, TRACE)
}

/// Share of the step in which no kernel runs, where a profile lists kernels by kind, matrix products among them.
fn idle_beside_kernels(arm: &Arm, step_s: f64) -> Option<f64> {
    let kinds = arm.figures.by_label("kernel.time", "category");
    let has_products = kinds.iter().any(|(kind, _)| ["gemm", "matmul", "linear", "moe"].iter().any(|word| kind.contains(word)));
    (kinds.len() >= 2 && has_products).then(|| 1.0 - kinds.iter().map(|(_, time)| time).sum::<f64>() / step_s)
}

/// The host prepares `1 - waited` of the step while the device, once drained, is idle. Ahead of it, the two overlap, and
/// the step is the longer of the two: what vanishes is the shorter.
fn exposed(waited: f64) -> [f64; 3] {
    let shorter = waited.min(1.0 - waited);
    [0.5 * shorter, shorter, shorter.max(waited)]
}

fn found(situation: &Situation<'_>, ends: [f64; 3], basis: Basis, wait: f64, step: f64, more: Vec<Evidence>) -> Found {
    let mut rows = vec![figure("kernel.sync_wait", wait, "s", "per step"), figure("step time", step, "s", "typed or derived")];
    if situation.evidence.settings.flag("config.async_scheduling") == Some(true) {
        rows.push(figure("config.async_scheduling", 1.0, "flag", &situation.setting_origin("config.async_scheduling")));
    }
    rows.extend(more);
    let predictions = vec![
        token_falls(situation, ends, "preparing the next step overlaps with this one again"),
        moves(
            "kernel.sync_wait",
            "host waiting for the device",
            "s",
            Direction::Down,
            Some(wait),
            Some([0.0, 0.3 * wait]),
            "the call that waits is gone",
        ),
        first_token_kept(situation),
    ];
    Found {
        summary: format!("the host waits {} of a step of {} for the device", seconds(wait), seconds(step)),
        sentence: format!(
            "The host stops {} in every step of {} until the device has drained, so the next step is prepared while the device is idle: about {} of the step.",
            seconds(wait),
            seconds(step),
            percent(ends[1])
        ),
        claims: claims(situation, Phase::Decode, ends, basis),
        cost: cost(situation, Phase::Decode, ends[1]),
        evidence: rows,
        hypotheses: vec![hypothesis(
            outside(
                "the call that waits",
                "none on the step's path",
                "restart",
                "remove the synchronizing call (.item(), .tolist(), a pageable copy) from the step, or copy to pinned memory without waiting",
            ),
            "a value read too early is a wrong value: keep its event",
            "the step does not get shorter",
            predictions,
        )],
        falsified_by: "a trace without idle time on the device after these waits".into(),
        context_only: false,
        limit: false,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_overlaps_is_the_shorter_of_wait_and_preparation() {
        let [lo, mid, hi] = super::exposed(10.0 / 19.0);
        assert!((mid - 9.0 / 19.0).abs() < 1e-9 && lo < mid && mid < hi);
        assert!(super::exposed(0.95)[1] < 0.06, "a host with little to do waits without cost");
    }
}
