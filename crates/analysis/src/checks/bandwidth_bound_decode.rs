//! Decoding at the speed of the memory: normal for this hardware, with the distance to the limit.

mod by_trace;

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::contract::{Direction, Evidence};
use crate::decode_bound::{ACHIEVABLE, DecodeBound, NEAR};
use crate::device_remedy::{first_token_kept, hypothesis, moves, setting, token_falls};
use crate::device_step::{claims, cost, figure_of, step_s};
use crate::phase::Phase;
use crate::record_device::{COUNTERS, undecided};
use crate::situation::Situation;
use crate::words::{digits, percent, seconds};

check! {
    /// A decode step takes about as long as reading the weights and the KV cache takes on this memory.
    ///
    /// ## Why it costs time
    /// Each step reads every weight it needs once, and the cache of every running sequence, whatever it computes with them.
    /// Bytes over bandwidth is a floor no setting removes. A good engine reaches about 80 % of the data sheet's bandwidth.
    ///
    /// ## How to confirm
    /// Step time (or time per token at one stream) over (weight bytes + KV bytes) / bandwidth is below about 1.7, or the
    /// memory interface is active most of the time (`dram_active` near 0.8) while the matrix units idle.
    ///
    /// ## Fix
    /// None is needed. Fewer bytes make it faster: quantized weights, an 8-bit KV cache, or a larger batch, which shares the
    /// weights' bytes among more sequences. A faster memory does the same.
    ///
    /// ## When this is wrong
    /// The step is short and the host is slower; the memory clock is throttled, so that the reachable bandwidth itself is
    /// low; the weights counted are not the ones read (experts, layers on another device).
    id: "bandwidth_bound_decode", layer: Hardware, rank: 220, phases: [Decode, Compute], bound: "memory", validated_on: "report", run: find,
}

/// A step faster than this share of the least possible is a wrong figure, not a fast step.
const IMPOSSIBLE: f64 = 0.9;
/// Matrix units busier than this share of what they reach (0.6 of their counter) compete with memory for being the limit.
const COMPUTE_TOO: f64 = 0.8;
/// What the counter of the matrix units reaches (attribution, section 6).
const COMPUTE_TOP: f64 = 0.6;

/// How near to the limit, as a share of what is reachable, and how it is known.
#[derive(Clone, Debug)]
struct Nearness {
    /// Reachable time over measured time, or reached bandwidth over reachable.
    share: f64,
    rows: Vec<Evidence>,
    words: String,
}

fn find(situation: &Situation<'_>) -> Answer {
    let figures = &situation.evidence.figures;
    let compute = figure_of(figures, "gpu.tensor_active").map_or(0.0, |active| active / COMPUTE_TOP);
    // What the memory did is better evidence than what a model's size says that it had to do.
    let Some(best) = by_bytes(situation).or_else(|| by_counter(situation)).or_else(|| by_step(situation)) else {
        if let Some(answer) = by_trace::answer(situation) {
            return answer;
        }
        return undecided(
            situation,
            &["model.weight_bytes", "gpu.dram_bandwidth", "gpu.dram_active"],
            "neither the bytes of a step nor the memory's activity is known",
            COUNTERS,
        );
    };
    let margin = vec![("of_reachable_bandwidth", best.share)];
    if best.share > 1.0 / (ACHIEVABLE * IMPOSSIBLE) {
        return undecided(
            situation,
            &["model.weight_bytes"],
            format!("{}: faster than the memory allows, so these bytes are not the ones read", best.words),
            COUNTERS,
        );
    }
    if best.share < 1.0 / NEAR {
        return clear(margin, format!("{}: the memory could deliver more", best.words));
    }
    if compute >= COMPUTE_TOO {
        return clear(margin, "the matrix units are as busy as the memory");
    }
    Answer::Found(Box::new(found(situation, &best)))
}

/// Bytes per second the device moved, against a read probe or the data sheet.
fn by_bytes(situation: &Situation<'_>) -> Option<Nearness> {
    let figures = &situation.evidence.figures;
    let moved = figure_of(figures, "gpu.dram_bytes")?;
    let sustained = figures.typical("gpu.dram_bandwidth_sustained");
    let reachable = sustained.or_else(|| figures.typical("gpu.dram_bandwidth").map(|peak| ACHIEVABLE * peak))?;
    let share = moved / reachable;
    Some(Nearness {
        share,
        rows: vec![
            figure("gpu.dram_bytes", moved, "byte/s", "counter"),
            figure("reachable bandwidth", reachable, "byte/s", "probe or 0.8 of the data sheet"),
        ],
        words: format!("memory moves {} of the reachable {} GB/s", percent(share), digits(reachable * 1e-9)),
    })
}

fn by_counter(situation: &Situation<'_>) -> Option<Nearness> {
    let active = figure_of(&situation.evidence.figures, "gpu.dram_active")?;
    let share = active / ACHIEVABLE;
    Some(Nearness {
        share,
        rows: vec![figure("gpu.dram_active", active, "ratio", "counter")],
        words: format!("the memory interface is active {} of the time, {} of what it reaches", percent(active), percent(share)),
    })
}

/// The step against bytes over bandwidth.
fn by_step(situation: &Situation<'_>) -> Option<Nearness> {
    let bound = DecodeBound::read(situation.subject, situation.evidence)?;
    let (step, from) = step_s(situation.evidence)?;
    let share = bound.achievable_s() / step;
    Some(Nearness {
        share,
        rows: vec![
            figure("least step time", bound.least_s(), "s", &bound.from),
            figure("step time", step, "s", from),
            figure("bytes per step", bound.weight_bytes + bound.kv_bytes, "byte", &bound.from),
        ],
        words: format!(
            "a step takes {}, reading {} GB takes at least {} ({} of the memory's peak reached)",
            seconds(step),
            digits((bound.weight_bytes + bound.kv_bytes) * 1e-9),
            seconds(bound.least_s()),
            percent(bound.least_s() / step)
        ),
    })
}

fn found(situation: &Situation<'_>, near: &Nearness) -> Found {
    let share = near.share.min(1.0);
    // Half the bytes is what one step of quantization brings; what is not weights does not shrink.
    let ends = [0.2, 0.4, 0.5];
    let fewer = hypothesis(
        setting(situation, "quantization", "a format with half the bytes"),
        "accuracy; kernels for the new format must be as good as the present ones",
        "time per token does not fall with the bytes",
        vec![
            token_falls(situation, ends, "time follows bytes: half the weight bytes at the same share of bandwidth"),
            moves(
                "gpu.dram_active",
                "memory active",
                "ratio",
                Direction::Unchanged,
                figure_of(&situation.evidence.figures, "gpu.dram_active"),
                None,
                "memory stays the limit",
            ),
            first_token_kept(situation),
        ],
    );
    Found {
        summary: near.words.clone(),
        sentence: format!(
            "Decoding runs at {} of what this memory reaches: {}. That is normal for this hardware, not a fault.",
            percent(share),
            near.words
        ),
        claims: claims(situation, Phase::Decode, [share * ACHIEVABLE, share, share], Basis::Counterfactual),
        cost: cost(situation, Phase::Decode, share),
        evidence: near.rows.clone(),
        hypotheses: vec![fewer],
        falsified_by: "the same model on the same device with clearly shorter steps, or a read probe far above this bandwidth".into(),
        context_only: false,
        limit: true,
    }
}
