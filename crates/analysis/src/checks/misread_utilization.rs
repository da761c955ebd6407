//! "100 % GPU" that says only that some kernel was in flight.

mod by_trace;

use crate::check::{Answer, Found, check, clear, figure};
use crate::contract::{Direction, Evidence, Hypothesis};
use crate::device_remedy::{hypothesis, moves, outside, token_kept};
use crate::device_step::{figure_of, is_cpu};
use crate::record_device::{COUNTERS, undecided};
use crate::situation::Situation;
use crate::words::percent;

check! {
    /// The utilization people look at is high although the device does little.
    ///
    /// ## Why it costs time
    /// It costs none by itself: `utilization.gpu` is the share of time in which any kernel or copy was in flight, be it one
    /// thread wide. It sends people to buy hardware while kernels wait for the host, for memory latency or for a link.
    ///
    /// ## How to confirm
    /// Beside it, record what explains a busy device: active multiprocessors, matrix units, memory interface. All far below
    /// the utilization, or a power draw far below its limit, and the device mostly waits.
    ///
    /// ## Fix
    /// Look at the dimensions instead, then at launches, kernels and the scheduler: another check names the cause.
    ///
    /// ## When this is wrong
    /// One dimension is near what it reaches (memory near 0.8, matrix units near 0.6 of their counters): then it is busy.
    id: "misread_utilization", layer: Hardware, rank: 230, phases: [], bound: "logic", validated_on: "typed", run: find,
}

/// From here on people call a device busy.
const CALLED_BUSY: f64 = 0.7;
/// The best explaining dimension below this share of the utilization: more than half of "busy" is something else.
const EXPLAINS: f64 = 0.5;

/// Dimensions with the value their counter tops out at (attribution, section 6).
const DIMENSIONS: [(&str, f64); 4] =
    [("gpu.sm_active", 1.0), ("gpu.tensor_active", 0.6), ("gpu.dram_active", 0.8), ("gpu.memory_busy", 1.0)];

fn find(situation: &Situation<'_>) -> Answer {
    let figures = &situation.evidence.figures;
    if is_cpu(situation) {
        return clear(Vec::new(), "no accelerator whose utilization could be misread");
    }
    let Some(busy) = figure_of(figures, "gpu.busy").or_else(|| figures.highest("gpu.busy")) else {
        if let Some(answer) = by_trace::answer(situation) {
            return answer;
        }
        return undecided(
            situation,
            &["gpu.busy", "gpu.sm_active", "gpu.dram_active", "gpu.tensor_active"],
            "no utilization was given",
            COUNTERS,
        );
    };
    let known: Vec<(&str, f64, f64)> = DIMENSIONS
        .into_iter()
        .filter_map(|(name, top)| figure_of(figures, name).map(|value| (name, value, (value / top).min(1.0))))
        .collect();
    let power = figure_of(figures, "gpu.power_share")
        .or_else(|| Some(figure_of(figures, "gpu.power")? / figure_of(figures, "gpu.power_limit").filter(|limit| *limit > 0.0)?));
    // Memory "busy" by itself says that transfers happen, not what the multiprocessors do: one dimension is not enough.
    let best = known.iter().map(|(_, _, reached)| *reached).chain(power).reduce(f64::max);
    let Some(best) = best.filter(|_| known.len() >= 2 || power.is_some()) else {
        return undecided(
            situation,
            &["gpu.sm_active", "gpu.dram_active", "gpu.tensor_active"],
            format!("busy {} of the time, and nothing says what it does meanwhile", percent(busy)),
            COUNTERS,
        );
    };
    let margin = vec![("busy", busy), ("best_explaining_dimension", best)];
    if busy < CALLED_BUSY {
        return clear(margin, format!("nobody would call {} busy", percent(busy)));
    }
    if best > EXPLAINS * busy {
        return clear(
            margin,
            format!("{} of what one dimension reaches explains a device busy {} of the time", percent(best), percent(busy)),
        );
    }
    Answer::Found(Box::new(found(situation, busy, best, &known, power)))
}

/// Watching something else than utilization, which stays as it is.
fn look_elsewhere(situation: &Situation<'_>, busy: f64, to: &str, instruction: &str) -> Hypothesis {
    let why = "it says that something is in flight, whatever is repaired";
    let unchanged = moves("gpu.busy", "utilization", "ratio", Direction::Unchanged, Some(busy), None, why);
    hypothesis(outside("what is watched", to, "none", instruction), "none", "nothing to undo", vec![unchanged, token_kept(situation)])
}

fn found(situation: &Situation<'_>, busy: f64, best: f64, known: &[(&str, f64, f64)], power: Option<f64>) -> Found {
    let mut rows: Vec<Evidence> = vec![figure("gpu.busy", busy, "ratio", "share of time with anything in flight")];
    rows.extend(known.iter().map(|(name, value, _)| figure(name, *value, "ratio", "counter")));
    rows.extend(power.map(|power| figure("power over its limit", power, "ratio", "counter")));
    let look = look_elsewhere(
        situation,
        busy,
        "active multiprocessors, matrix units and memory",
        "watch sm_active, tensor_active and dram_active instead of utilization",
    );
    Found {
        summary: format!("\"{}\" busy, but the busiest dimension is at {} of what it reaches", percent(busy), percent(best)),
        sentence: format!(
            "The device counts as busy {} of the time while nothing in it is used beyond {}: it waits; look at launches, kernels and the scheduler.",
            percent(busy),
            percent(best)
        ),
        evidence: rows,
        hypotheses: vec![look],
        falsified_by: "sm_active, tensor_active or dram_active near the utilization over the same seconds".into(),
        context_only: true,
        ..Found::default()
    }
}
