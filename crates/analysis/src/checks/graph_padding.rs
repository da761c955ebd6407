//! Steps replayed at a captured size far above the batch that runs.

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::contract::Direction;
use crate::device_remedy::{first_token_kept, hypothesis, moves, setting, token_falls};
use crate::device_step::{claims, cost, is_cpu};
use crate::graphs::{Sizes, batches, step_curve, tokens_per_seq};
use crate::phase::Phase;
use crate::record_device::{SECOND_ARM, undecided};
use crate::situation::Situation;
use crate::slower_arm::faster_arm;
use crate::words::{count, digits, percent};

check! {
    /// Batches are padded to a captured size well above them.
    ///
    /// ## Why it costs time
    /// A graph has one size. A batch of 70 that is replayed at 128 computes 58 rows for nothing: free while the step waits
    /// for the weights, dear where rows cost time (attention, expert routing, large batches).
    ///
    /// ## How to confirm
    /// The captured sizes in the start-up log against the running requests; time per token is the same at every batch up to
    /// a size and jumps behind it.
    ///
    /// ## Fix
    /// Capture sizes near the batches that run (the median and the 90th percentile of running).
    ///
    /// ## When this is wrong
    /// The step costs the same at both sizes: then padding is free.
    id: "graph_padding", layer: Kernel, rank: 75, phases: [Decode], bound: "logic", validated_on: "typed", run: find,
}

/// Padding below this factor is the grain of any list of sizes.
const PADDED: f64 = 1.25;
/// A padded step must be longer by this share to be worth a size of its own.
const MATERIAL: f64 = 0.05;

fn find(situation: &Situation<'_>) -> Answer {
    let arm = situation.evidence;
    if is_cpu(situation) {
        return clear(Vec::new(), "this device replays no graphs");
    }
    if arm.settings.flag("config.enforce_eager") == Some(true) {
        return clear(Vec::new(), "eager mode: nothing is padded");
    }
    let Some((sizes, (typical, _, batch_from))) = Sizes::read(arm).filter(|sizes| sizes.is_complete).zip(batches(situation)) else {
        return undecided(
            situation,
            &["config.graph_sizes", "engine.running"],
            "the list of captured sizes, or the batch that runs, is not known",
            SECOND_ARM,
        );
    };
    let rows = typical * tokens_per_seq(situation.subject, arm);
    let Some(replayed) = sizes.replayed(rows) else {
        return clear(
            vec![("batch", rows), ("largest_captured", sizes.largest())],
            "the batch is above every captured size: nothing is padded",
        );
    };
    let factor = replayed / rows.max(1.0);
    let margin = vec![("replayed_over_batch", factor)];
    if factor < PADDED {
        return clear(margin, format!("a batch of {} is replayed at {}", digits(rows), count(replayed)));
    }
    let slope = slope(situation);
    let finer =
        faster_arm(situation, |_, there| Sizes::read(there).and_then(|other| other.replayed(rows)).is_some_and(|other| other < replayed));
    let (ends, basis, from) = match (&finer, slope) {
        (Some(finer), _) => (finer.ends(), Basis::Typed, format!("arm `{}`", finer.other.run_name)),
        (None, Some((slope, step))) => (
            ends(slope * (replayed - rows) / tokens_per_seq(situation.subject, arm) / step),
            Basis::Counterfactual,
            "step law over captured sizes".to_string(),
        ),
        (None, None) => {
            let why = format!("a batch of {} is replayed at {}, and what a row costs is not known", digits(rows), count(replayed));
            return undecided(situation, &["engine.step_time at two batch sizes"], why, SECOND_ARM);
        }
    };
    if ends[1] < MATERIAL {
        return clear(
            [margin, vec![("of_step", ends[1])]].concat(),
            format!("padding to {} makes the step {} longer: rows are nearly free here", count(replayed), percent(ends[1])),
        );
    }
    let padded = Padded { rows, replayed, ends, basis, from, batch_from, sizes_from: sizes.from };
    Answer::Found(Box::new(found(situation, &padded)))
}

/// A padded batch.
struct Padded {
    /// Sequences (times tokens each) that run.
    rows: f64,
    /// Size they are replayed at.
    replayed: f64,
    /// Share of the step.
    ends: [f64; 3],
    basis: Basis,
    from: String,
    batch_from: &'static str,
    sizes_from: String,
}

fn found(situation: &Situation<'_>, padded: &Padded) -> Found {
    let Padded { rows, replayed, ends, .. } = *padded;
    let wanted = (rows / 8.0).ceil().max(1.0) * 8.0;
    let change = setting(situation, "graph_sizes", &format!("with {} in the list", count(wanted)));
    let predictions = vec![
        token_falls(situation, ends, "the step at the batch that runs"),
        moves(
            "config.graph_sizes",
            "captured sizes",
            "count",
            Direction::Up,
            None,
            None,
            "one size more; its graph takes memory from the KV cache",
        ),
        first_token_kept(situation),
    ];
    Found {
        summary: format!("a batch of {} is replayed at {}", digits(rows), count(replayed)),
        sentence: format!(
            "Steps of {} sequences are replayed at the captured size {}: {} of the step computes rows that nobody asked for.",
            digits(rows),
            count(replayed),
            percent(ends[1])
        ),
        claims: claims(situation, Phase::Decode, ends, padded.basis),
        cost: cost(situation, Phase::Decode, ends[1]),
        evidence: vec![
            figure("batch", rows, "request", padded.batch_from),
            figure("captured size it is replayed at", replayed, "count", &padded.sizes_from),
            figure("padding, share of the step", ends[1], "ratio", &padded.from),
        ],
        hypotheses: vec![hypothesis(
            change,
            "graph memory; a longer start-up",
            "KV capacity falls so far that requests are preempted",
            predictions,
        )],
        falsified_by: "the step at a captured size next to the batch as long as now".into(),
        context_only: false,
        limit: false,
    }
}

/// Half of the law's share is sure; the law itself was read at sizes, not at batches.
fn ends(share: f64) -> [f64; 3] {
    [0.6 * share, share, (1.4 * share).min(1.0)]
}

/// Seconds that one sequence more adds to a step, and the step, from the server's law or a sweep over captured sizes.
fn slope(situation: &Situation<'_>) -> Option<(f64, f64)> {
    if let Some(law) = situation.law.known() {
        return Some((law.b_s, law.step_s(situation.load.running_mean.max(1.0), 0.0)));
    }
    let curve = step_curve(situation.evidence);
    let (first, last) = (curve.first()?, curve.last()?);
    (last.0 >= 2.0 * first.0).then(|| ((last.1 - first.1) / (last.0 - first.0), last.1)).filter(|(slope, _)| *slope > 0.0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_share_keeps_its_order() {
        let [lo, mid, hi] = super::ends(0.3);
        assert!(lo < mid && mid < hi && hi < 1.0);
        assert!(super::ends(0.9)[2] <= 1.0);
    }
}
