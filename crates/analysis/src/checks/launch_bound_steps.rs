//! The device waits for the host to launch the next kernel.

mod by_trace;

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::contract::Direction;
use crate::device_remedy::{first_token_kept, hypothesis, moves, setting, token_falls};
use crate::device_step::{claims, cost, decode_is_most, figure_of, is_cpu};
use crate::graphs::not_replayed;
use crate::launches::Launches;
use crate::phase::Phase;
use crate::record_device::{TRACE, undecided};
use crate::situation::Situation;
use crate::words::{count, percent, seconds};

check! {
    /// Kernels wait for their launch: the host is slower than the device.
    ///
    /// ## Why it costs time
    /// A launch takes the host some microseconds. With kernels of the same size the device is idle between them, and a
    /// faster device changes nothing.
    ///
    /// ## How to confirm
    /// A trace shows a kernel starting right after its launch call (launch-to-start near zero) and the device idle before
    /// it, many times per step. Launch gaps summed over a step are a good part of it.
    ///
    /// ## Fix
    /// Replay steps from graphs, fuse kernels, or give the device more per launch (a larger batch).
    ///
    /// ## When this is wrong
    /// The host waits for the device (a sync) and launches late for that reason; there is no work; graphs replay the step
    /// and a trace shows the replay as one block.
    id: "launch_bound_steps", layer: Kernel, rank: 40, phases: [Decode, Idle], bound: "host", validated_on: "trace", run: find,
}

/// Idle between launches below this share of a step is the grain of any engine.
const MATERIAL: f64 = 0.10;
/// A kernel that starts this soon after its launch call was waited for: nothing was queued before it.
const STARVED_S: f64 = 20e-6;

fn find(situation: &Situation<'_>) -> Answer {
    if let Some(answer) = by_trace::answer(situation) {
        return answer;
    }
    let arm = situation.evidence;
    if is_cpu(situation) {
        return clear(Vec::new(), "nothing is launched on another device");
    }
    let Some(launches) = Launches::read(arm) else {
        return undecided(
            situation,
            &["kernel.launch_gap", "kernel.count_per_step", "engine.step_time"],
            "launches were not recorded",
            TRACE,
        );
    };
    if let Some(start) = launches.launch_to_start_s.filter(|start| *start > 10.0 * STARVED_S) {
        return clear(
            vec![("launch_to_start_s", start)],
            format!("kernels wait {} in the device's queue: the host runs ahead", seconds(start)),
        );
    }
    let idle = launches.idle_share();
    if let Some(answer) = other_owner(situation, &launches) {
        return answer;
    }
    if let Some((share, from)) = idle.filter(|(share, _)| *share >= MATERIAL) {
        if launches.is_swarm() && launches.gap_s.is_some() {
            return clear(
                vec![("idle_share", share), ("mean_kernel_s", launches.mean_kernel_s().unwrap_or(0.0))],
                "the kernels are shorter than any launch: their number is the cause, not the host",
            );
        }
        let ends = [0.8 * share, share, share];
        return Answer::Found(Box::new(found(situation, &launches, ends, Basis::Derived, from)));
    }
    if let Some((share, _)) = idle {
        return clear(vec![("idle_share", share)], format!("the device waits {} of a step for launches", percent(share)));
    }
    if launches.is_replayed() {
        return clear(vec![("graph_share", launches.graph_share.unwrap_or(0.0))], "graphs replay the step");
    }
    by_count(situation, &launches)
}

/// Gaps that something before this in the order owns: steps that are not replayed, and waits of the host.
fn other_owner(situation: &Situation<'_>, launches: &Launches) -> Option<Answer> {
    if let Some(why) = not_replayed(situation) {
        return Some(undecided(
            situation,
            &["the same trace with graphs"],
            format!("{}: what is left of the gaps shows once that is repaired", why.words()),
            TRACE,
        ));
    }
    let waits = figure_of(&situation.evidence.figures, "kernel.sync_wait")? / launches.step_s;
    (waits >= MATERIAL).then(|| {
        clear(
            vec![("sync_wait_of_step", waits)],
            format!("the host waits {} of a step for the device: it launches late because of that", percent(waits)),
        )
    })
}

/// Without gaps: launches alone, one after the other, take so much of the step that the device cannot be ahead.
fn by_count(situation: &Situation<'_>, launches: &Launches) -> Answer {
    let Some(count) = launches.count else {
        return undecided(situation, &["kernel.launch_gap", "kernel.count_per_step"], "launches were not recorded", TRACE);
    };
    let share = count * launches.launch_s() / launches.step_s;
    let margin = vec![("launches_over_step", share)];
    if let Some(idle) = idle_by_busy(situation, launches, count) {
        return Answer::Found(Box::new(found(situation, launches, [0.5 * idle, idle, idle], Basis::Bound, "gpu.busy")));
    }
    if share < 0.5 {
        return clear(margin, format!("launching {} kernels takes {} of the step at most", crate::words::count(count), percent(share)));
    }
    if launches.graph_share.is_none() {
        return undecided(
            situation,
            &["kernel.graph_share", "kernel.launch_gap"],
            "whether graphs replay these kernels is not known",
            TRACE,
        );
    }
    // Between the driver's own cost and a framework's, and never all of the step: some of it is kernels.
    let ends = [0.25 * share.min(1.0), (0.7 * share).min(0.7), share.min(0.9)];
    Answer::Found(Box::new(found(situation, launches, ends, Basis::Bound, "launches x their cost over the step")))
}

/// A framework's dispatcher takes up to this many times the plain cost of a launch.
const DISPATCHER: f64 = 4.0;

/// The device is seen without any kernel for much of the time while it decodes, and launching explains that time.
fn idle_by_busy(situation: &Situation<'_>, launches: &Launches, count: f64) -> Option<f64> {
    let idle = 1.0 - situation.evidence.figures.typical("gpu.busy")?;
    let per_launch = idle * launches.step_s / count;
    let is_launching = (0.5 * launches.launch_s()..=DISPATCHER * launches.launch_s()).contains(&per_launch);
    (decode_is_most(situation) && !launches.is_replayed() && idle >= HALF_IDLE && is_launching).then_some(idle)
}

/// Busy counts any kernel at all: a device below half of it lacks work more often than it has some.
const HALF_IDLE: f64 = 0.5;

fn found(situation: &Situation<'_>, launches: &Launches, ends: [f64; 3], basis: Basis, from: &str) -> Found {
    let mut rows = vec![
        figure("step time", launches.step_s, "s", "typed or derived"),
        figure("device idle between launches, share of the step", ends[1], "ratio", from),
    ];
    rows.extend(launches.count.map(|kernels| figure("kernel.count_per_step", kernels, "count", "trace")));
    rows.extend(launches.launch_to_start_s.map(|start| figure("kernel.launch_to_start", start, "s", "trace")));
    let kernels = launches.count.map_or(String::new(), |kernels| format!(" in {} launches", count(kernels)));
    let predictions = vec![
        token_falls(situation, ends, "the gaps between launches vanish in a replayed step"),
        moves(
            "kernel.launch_gap",
            "launch gaps",
            "s",
            Direction::Down,
            launches.gap_s,
            launches.gap_s.map(|gap| [0.0, 0.3 * gap]),
            "a graph has one launch",
        ),
        first_token_kept(situation),
    ];
    let change = setting(situation, "enforce_eager", "");
    let change = crate::contract::Change {
        instruction: format!("replay decode steps from graphs ({} off, sizes up to the batch), or fuse kernels", change.flag),
        to: "graphs on".into(),
        ..change
    };
    Found {
        summary: format!("the device waits {} of a step for launches", percent(ends[1])),
        sentence: format!(
            "The host launches slower than the device computes: {} of {} per step{kernels} the device is idle between kernels.",
            seconds(ends[1] * launches.step_s),
            seconds(launches.step_s)
        ),
        claims: claims(situation, Phase::Decode, ends, basis),
        cost: cost(situation, Phase::Decode, ends[1]),
        evidence: rows,
        hypotheses: vec![hypothesis(change, "graph memory is taken from the KV cache", "steps do not get shorter", predictions)],
        falsified_by: "a trace in which kernels queue on the device before they start".into(),
        context_only: false,
        limit: false,
    }
}
