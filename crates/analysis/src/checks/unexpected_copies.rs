//! Copies inside steps that nobody asked for.

mod by_trace;

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::contract::{Direction, Evidence};
use crate::device_remedy::{first_token_kept, hypothesis, moves, outside, token_falls};
use crate::device_step::{claims, cost, is_cpu};
use crate::evidence::Evidence as Arm;
use crate::kernel_time::{Family, family};
use crate::phase::Phase;
use crate::record_device::{TRACE, undecided};
use crate::situation::Situation;
use crate::slower_arm::{change_names, faster_arm};
use crate::words::{percent, seconds};

check! {
    /// Steps contain copies: between host and device, within the device, or between formats.
    ///
    /// ## Why it costs time
    /// A copy moves its bytes twice through memory and computes nothing. From pageable host memory it also stops the host
    /// until it is done. Copies of large tensors in every step (a cache that is rearranged, a tensor made contiguous, a
    /// format widened) take their time in full.
    ///
    /// ## How to confirm
    /// Device time in copies per step, above a few percent; the trace names their size and direction.
    ///
    /// ## Fix
    /// Keep tensors where and as they are needed: pinned buffers, views instead of copies, one layout for producer and
    /// consumer.
    ///
    /// ## When this is wrong
    /// A transfer that is meant: KV blocks to another pool or to host memory, offloaded weights.
    id: "unexpected_copies", layer: Kernel, rank: 31, phases: [Decode, Copy], bound: "memory", validated_on: "simulated", run: find,
}

/// Copies of sampled tokens and small inputs stay below this share of a step.
const MATERIAL: f64 = 0.08;
/// Words that mark these categories.
const WORDS: [&str; 3] = ["copy", "memcpy", "transpose"];

fn find(situation: &Situation<'_>) -> Answer {
    if let Some(answer) = by_trace::answer(situation) {
        return answer;
    }
    let arm = situation.evidence;
    let Some(copies) = family(arm, &WORDS) else {
        return if is_cpu(situation) {
            clear(Vec::new(), "host and device are one: nothing is copied between them")
        } else {
            undecided(situation, &["kernel.time by category"], "device time in copies is not known", TRACE)
        };
    };
    let margin = vec![("copies_of_step", copies.share)];
    if copies.share < MATERIAL {
        return clear(margin, format!("copies take {} of a step", percent(copies.share)));
    }
    if is_meant(arm) {
        return clear(margin, "cache or weights are moved on purpose: the copies are those");
    }
    let without = faster_arm(situation, |here, there| {
        family(there, &WORDS).is_some_and(|other| other.share < 0.5 * copies.share)
            || change_names(here, there, &["copy", "copies", "memcpy", "pinned", "contiguous"])
    });
    let mut rows = vec![
        figure("kernel.time of copies", copies.time_s, "s", &copies.names.join(", ")),
        figure("share of the step", copies.share, "ratio", "kernel time"),
    ];
    let (ends, basis) = match &without {
        Some(without) => {
            rows.push(figure(without.signal, without.theirs_s, "s", &format!("arm `{}`", without.other.run_name)));
            (without.ends(), Basis::Typed)
        }
        // Some of it may run beside kernels.
        None => ([0.5 * copies.share, 0.85 * copies.share, copies.share], Basis::Derived),
    };
    Answer::Found(Box::new(found(situation, &copies, ends, basis, rows)))
}

/// A connector, offloading or partly offloaded weights move bytes on purpose.
fn is_meant(arm: &Arm) -> bool {
    let off = |value: &str| matches!(value.to_ascii_lowercase().as_str(), "" | "none" | "0" | "false" | "null");
    let moved = ["config.kv_connector", "config.kv_offload", "config.cpu_offload_gb"];
    moved.iter().any(|key| arm.settings.get(key).is_some_and(|setting| !off(&setting.value)))
        || arm.figures.typical("model.device_share").is_some_and(|share| share < 1.0)
}

fn found(situation: &Situation<'_>, copies: &Family, ends: [f64; 3], basis: Basis, rows: Vec<Evidence>) -> Found {
    let predictions = vec![
        token_falls(situation, ends, "copy time leaves the step"),
        moves(
            "kernel.time{category=\"copy\"}",
            "copies",
            "s",
            Direction::Down,
            Some(copies.time_s),
            Some([0.0, 0.3 * copies.time_s]),
            "only sampled tokens and small inputs are copied",
        ),
        first_token_kept(situation),
    ];
    Found {
        summary: format!("copies take {} of a step", percent(copies.share)),
        sentence: format!(
            "Each step copies for {} ({}): bytes that are moved and computed nothing with.",
            seconds(copies.time_s),
            percent(copies.share)
        ),
        claims: claims(situation, Phase::Decode, ends, basis),
        cost: cost(situation, Phase::Decode, ends[1]),
        evidence: rows,
        hypotheses: vec![hypothesis(
            outside(
                "copies on the step's path",
                "none",
                "restart",
                "keep tensors where and as they are needed: pinned buffers, views, one layout",
            ),
            "pinned memory is taken from the host",
            "copy time does not fall",
            predictions,
        )],
        falsified_by: "the same copies beside kernels, with steps as long without them".into(),
        context_only: false,
        limit: false,
    }
}
