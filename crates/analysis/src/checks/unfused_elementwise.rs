//! Memory-bound elementwise, norm and cast kernels that move the same data several times.

mod by_trace;

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::contract::Direction;
use crate::device_remedy::{first_token_kept, hypothesis, moves, outside, token_falls};
use crate::device_step::{claims, cost, is_cpu};
use crate::kernel_time::family;
use crate::launches::Launches;
use crate::phase::Phase;
use crate::record_device::{TRACE, undecided};
use crate::situation::Situation;
use crate::words::{percent, seconds};

check! {
    /// Norms, activations, casts and additions take a large share of the device's time.
    ///
    /// ## Why it costs time
    /// Each such kernel reads its input from memory and writes its result back. Fused into the neighboring matrix product or
    /// into one another, most of that traffic vanishes.
    ///
    /// ## How to confirm
    /// Kernel time by category: norm and elementwise kernels above a fifth of the step, each long enough to hide its own
    /// launch. Fused engines stay near a tenth and below.
    ///
    /// ## Fix
    /// Compile the model, or use the backend's fused norm, activation and quantization operations.
    ///
    /// ## When this is wrong
    /// The kernels are very short and many: then their number costs, not their bytes.
    id: "unfused_elementwise", layer: Kernel, rank: 74, phases: [Decode, Compute], bound: "memory", validated_on: "trace", run: find,
}

/// Share of the step that well-fused engines do not exceed by far; twice their usual tenth.
const LARGE: f64 = 0.20;
/// What fusing saves of such a chain: two operations fused move two thirds of the bytes, long chains a fifth.
const SAVED: [f64; 3] = [0.33, 0.55, 0.8];

/// Words that mark these categories.
const WORDS: [&str; 6] = ["elementwise", "norm", "cast", "activation", "pointwise", "residual"];

fn find(situation: &Situation<'_>) -> Answer {
    if let Some(answer) = by_trace::answer(situation) {
        return answer;
    }
    let arm = situation.evidence;
    if is_cpu(situation) && family(arm, &WORDS).is_none() {
        return clear(Vec::new(), "no kernels of a device to fuse");
    }
    let Some(kind) = family(arm, &WORDS) else {
        return undecided(situation, &["kernel.time by category"], "device time by kind of kernel is not known", TRACE);
    };
    let margin = vec![("share_of_step", kind.share)];
    if kind.share < LARGE {
        return clear(margin, format!("norms and elementwise kernels take {} of the step", percent(kind.share)));
    }
    if Launches::read(arm).is_some_and(|launches| launches.is_swarm()) {
        return clear(margin, "these kernels are shorter than their launch: their number costs, not their bytes");
    }
    let (ends, basis) = match kind.excess() {
        Some(ends) => (ends, Basis::Counterfactual),
        None => (SAVED.map(|saved| saved * kind.share), Basis::Bound),
    };
    if ends[1] < 0.05 {
        return clear(margin, "they are near what their own bytes take");
    }
    let mut rows = vec![
        figure("kernel.time of norms and elementwise", kind.time_s, "s", &kind.names.join(", ")),
        figure("share of the step", kind.share, "ratio", "kernel time"),
    ];
    rows.extend(kind.ideal_s.map(|ideal| figure("kernel.time_ideal", ideal, "s", "their own bytes")));
    let predictions = vec![
        token_falls(situation, ends, "bytes that fused kernels do not move"),
        moves(
            "kernel.time{category=\"norm/elementwise\"}",
            "norm and elementwise",
            "s",
            Direction::Down,
            Some(kind.time_s),
            Some([0.2 * kind.time_s, 0.67 * kind.time_s]),
            "two to five operations per fused kernel",
        ),
        first_token_kept(situation),
    ];
    Answer::Found(Box::new(Found {
        summary: format!("norms and elementwise kernels take {} of the step", percent(kind.share)),
        sentence: format!(
            "Norms, casts and elementwise kernels take {} per step ({}): most of their memory traffic vanishes when they are fused.",
            seconds(kind.time_s),
            percent(kind.share)
        ),
        claims: claims(situation, Phase::Decode, ends, basis),
        cost: cost(situation, Phase::Decode, ends[1]),
        evidence: rows,
        hypotheses: vec![hypothesis(
            outside(
                "fusion",
                "on",
                "restart",
                "compile the model, or use the backend's fused norm, activation and quantization operations",
            ),
            "a longer start-up; small differences in rounding",
            "device time of these kernels does not fall",
            predictions,
        )],
        falsified_by: "a fused build with the same time in these kernels".into(),
        context_only: false,
        limit: false,
    }))
}
