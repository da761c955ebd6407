//! A swarm of kernels shorter than their own launch.

mod by_trace;

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::contract::Direction;
use crate::device_remedy::{first_token_kept, hypothesis, moves, outside, token_falls};
use crate::device_step::{claims, cost, figure_of, is_cpu};
use crate::graphs::not_replayed;
use crate::launches::{LAUNCH_S, Launches};
use crate::phase::Phase;
use crate::record_device::{TRACE, undecided};
use crate::situation::Situation;
use crate::slower_arm::faster_arm;
use crate::words::{count, percent, seconds};

check! {
    /// A step consists of very many kernels, each shorter than what launching it costs.
    ///
    /// ## Why it costs time
    /// Each kernel has a fixed price, on the host some microseconds and on the device one or two. Operations that a
    /// compiler would fuse into one kernel pay it ten times, and move their data through memory ten times.
    ///
    /// ## How to confirm
    /// Kernels per step and their mean time: thousands of kernels of two or three microseconds. Fused, a decoder layer
    /// needs 6 to 15.
    ///
    /// ## Fix
    /// Compile the model (`torch.compile`, the engine's own level), use the fused operations of the backend, or replay from
    /// graphs, which removes the host's part of the price.
    ///
    /// ## When this is wrong
    /// Long kernels with gaps between them (the host is slow), or graphs that replay the swarm: then the device's part
    /// remains.
    id: "unfused_small_kernels", layer: Kernel, rank: 41, phases: [Decode, Idle], bound: "host", validated_on: "typed", run: find,
}

/// The fixed price on the device of a kernel: start, drain, and the next one's start inside a graph.
const DEVICE_FIXED_S: f64 = 1.5e-6;
/// The swarm's price must be this share of the step.
const MATERIAL: f64 = 0.10;

fn find(situation: &Situation<'_>) -> Answer {
    if let Some(answer) = by_trace::answer(situation) {
        return answer;
    }
    let arm = situation.evidence;
    if is_cpu(situation) {
        return clear(Vec::new(), "nothing is launched on another device");
    }
    let Some((launches, kernels)) = Launches::read(arm).and_then(|launches| launches.count.map(|count| (launches, count))) else {
        return undecided(situation, &["kernel.count_per_step", "kernel.time"], "kernels per step are not known", TRACE);
    };
    let fused =
        faster_arm(situation, |_, there| figure_of(&there.figures, "kernel.count_per_step").is_some_and(|other| other < 0.7 * kernels));
    let mean = launches.mean_kernel_s().unwrap_or(0.0);
    let margin = vec![("kernels_per_step", kernels), ("mean_kernel_s", mean)];
    if let Some(fused) = &fused {
        let rows = vec![
            figure(fused.signal, fused.mine_s, "s", "this arm"),
            figure(fused.signal, fused.theirs_s, "s", &format!("arm `{}`", fused.other.run_name)),
        ];
        return Answer::Found(Box::new(found(situation, &launches, kernels, fused.ends(), Basis::Typed, rows)));
    }
    if launches.kernels_s.is_none() {
        return undecided(
            situation,
            &["kernel.time"],
            format!("{} kernels per step, and how long each is, is not known", count(kernels)),
            TRACE,
        );
    }
    if mean >= LAUNCH_S {
        return clear(margin, format!("a kernel takes {} in the mean, longer than its launch", seconds(mean)));
    }
    if let Some(why) = not_replayed(situation) {
        return undecided(
            situation,
            &["the same trace with graphs"],
            format!("{}: what the number of kernels costs shows once that is repaired", why.words()),
            TRACE,
        );
    }
    let replayed = launches.is_replayed();
    let device = kernels * DEVICE_FIXED_S / launches.step_s;
    let idle = launches.idle_share().map_or(0.0, |(share, _)| share);
    let share = if replayed { device } else { device.max(idle) };
    if share < MATERIAL {
        return clear(
            [margin, vec![("fixed_price_of_step", share)]].concat(),
            format!("{} kernels, whose fixed price is {} of the step", count(kernels), percent(share)),
        );
    }
    // Fusion leaves about a third of the kernels of an unfused decoder.
    let ends = [0.5 * share, 0.7 * share, share.min(1.0)];
    Answer::Found(Box::new(found(situation, &launches, kernels, ends, if idle > 0.0 { Basis::Derived } else { Basis::Bound }, Vec::new())))
}

fn found(
    situation: &Situation<'_>,
    launches: &Launches,
    kernels: f64,
    ends: [f64; 3],
    basis: Basis,
    more: Vec<crate::contract::Evidence>,
) -> Found {
    let mean = launches.mean_kernel_s().unwrap_or(0.0);
    let mut rows = vec![
        figure("kernel.count_per_step", kernels, "count", "trace"),
        figure("mean kernel", mean, "s", "kernel time over their number"),
        figure("step time", launches.step_s, "s", "typed or derived"),
    ];
    rows.extend(more);
    let predictions = vec![
        token_falls(situation, ends, "fixed price of the kernels that fusion removes"),
        moves(
            "kernel.count_per_step",
            "kernels per step",
            "count",
            Direction::Down,
            Some(kernels),
            Some([0.1 * kernels, 0.7 * kernels]),
            "fused operations",
        ),
        first_token_kept(situation),
    ];
    Found {
        summary: format!("{} kernels per step of {} each", count(kernels), seconds(mean)),
        sentence: format!(
            "A step is {} kernels of {} each, shorter than their own launch: {} of {} go to their fixed price.",
            count(kernels),
            seconds(mean),
            seconds(ends[1] * launches.step_s),
            seconds(launches.step_s)
        ),
        claims: claims(situation, Phase::Decode, ends, basis),
        cost: cost(situation, Phase::Decode, ends[1]),
        evidence: rows,
        hypotheses: vec![hypothesis(
            outside("compilation", "on", "restart", "compile the model, or use the backend's fused operations"),
            "a longer start-up; shapes that change recompile",
            "kernels per step do not fall",
            predictions,
        )],
        falsified_by: "the same kernels replayed from a graph in the same time".into(),
        context_only: false,
        limit: false,
    }
}
