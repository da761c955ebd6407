//! Decode steps that run kernel by kernel although graphs could replay them.

mod by_trace;

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::contract::{Change, Direction, Evidence, Hypothesis};
use crate::decode_bound::{ACHIEVABLE, DecodeBound, NEAR, batch};
use crate::device_remedy::{first_token_kept, hypothesis, moves, outside, setting, token_falls};
use crate::device_step::{claims, cost, decode_is_most, is_cpu, step_s};
use crate::evidence::Evidence as Arm;
use crate::graphs::{
    Cliff, NotReplayed, Sizes, batches, cliff, default_largest, not_replayed, replayed_steps, runs_above, step_curve, tokens_per_seq,
};
use crate::launches::{LAUNCH_S, Launches, REPLAYED};
use crate::phase::Phase;
use crate::record_device::{LOG, SECOND_ARM, undecided};
use crate::situation::Situation;
use crate::slower_arm::{Contrast, change_names, faster_arm};
use crate::words::{count, digits, percent, seconds};

check! {
    /// Decode steps are launched kernel by kernel, because graphs are off, their capture failed, or the batch is larger
    /// than the largest captured size.
    ///
    /// ## Why it costs time
    /// A decode step of a small model is hundreds of kernels of a few microseconds each. Replayed from a graph they follow
    /// one another without the host; launched one by one the device waits for each launch, and the step takes two to ten
    /// times as long, whatever the batch is.
    ///
    /// ## How to confirm
    /// The start-up log lists the captured sizes; compare the largest with the running requests (times drafts + 1). Or the
    /// effective configuration says eager. Time per token jumps between two neighboring batch sizes.
    ///
    /// ## Fix
    /// Capture up to the largest batch that runs, or switch eager mode off.
    ///
    /// ## When this is wrong
    /// Prefill steps, which no engine replays whole. Devices without graphs. Steps so long that launching hides behind them:
    /// at the memory's limit nothing is lost.
    id: "graph_fallback", layer: Kernel, rank: 21, phases: [Decode, Idle], bound: "host", validated_on: "report", run: find,
}

/// Engines whose decode steps are replayed from graphs by default.
const REPLAYING: [&str; 6] = ["vllm", "sglang", "tensorrt-llm", "tokenspeed", "lmdeploy", "tgi"];

fn find(situation: &Situation<'_>) -> Answer {
    // What the configuration says is the reason; the trace alone shows only that nothing is replayed.
    if not_replayed(situation).is_none()
        && let Some(answer) = by_trace::answer(situation)
    {
        return answer;
    }
    let arm = situation.evidence;
    if is_cpu(situation) {
        return clear(Vec::new(), "this device has no graphs to fall back from");
    }
    let jump = cliff(&step_curve(arm));
    match not_replayed(situation) {
        Some(why) => {
            let at_limit = is_at_memory_limit(situation);
            if let Some(share) = at_limit.filter(|_| jump.is_none()) {
                return clear(
                    vec![("of_reachable_bandwidth", share)],
                    format!("{}, but steps are near the memory's limit all the same", why.words()),
                );
            }
            found(situation, &why, jump.as_ref())
        }
        None => jump
            .as_ref()
            .and_then(|jump| by_cliff(situation, jump))
            .or_else(|| by_arm(situation))
            .unwrap_or_else(|| not_seen(situation, arm)),
    }
}

/// Share of the reachable bandwidth where the steps are near the memory's limit.
fn is_at_memory_limit(situation: &Situation<'_>) -> Option<f64> {
    let bound = DecodeBound::read(situation.subject, situation.evidence)?;
    let (step, _) = step_s(situation.evidence)?;
    Some(bound.achievable_s() / step).filter(|share| *share >= 1.0 / NEAR)
}

fn not_seen(situation: &Situation<'_>, arm: &Arm) -> Answer {
    let sizes = Sizes::read(arm);
    let running = batches(situation);
    if let Some((sizes, (_, high, _))) = sizes.as_ref().zip(running) {
        return clear(
            vec![("largest_captured", sizes.largest()), ("running_max", high)],
            format!("graphs reach to {} and at most {} run", count(sizes.largest()), count(high)),
        );
    }
    if let Some((share, steps)) = replayed_steps(arm) {
        return clear(
            vec![("steps_replayed", share)],
            format!("{} of {} decode steps are replayed from graphs", percent(share), count(steps)),
        );
    }
    if let Some(share) = Launches::read(arm).and_then(|launches| launches.graph_share) {
        return clear(vec![("graph_share", share)], format!("{} of the kernels are replayed from graphs", percent(share)));
    }
    if arm.settings.flag("config.enforce_eager") == Some(false)
        && situation.evidence.logged.contains_key("graphs_captured")
        && running.is_none()
    {
        return clear(Vec::new(), "eager mode is off and graphs were captured");
    }
    undecided(
        situation,
        &["config.graph_sizes", "config.enforce_eager", "engine.running"],
        "the captured sizes, or the batches that run, are not known",
        LOG,
    )
}

/// Seconds come from the cliff of a sweep, an arm without the fault, or the gaps between launches; else none.
fn found(situation: &Situation<'_>, why: &NotReplayed, jump: Option<&Cliff>) -> Answer {
    let arm = situation.evidence;
    let replayed = faster_arm(situation, |here, there| {
        let above = |arm: &Arm| runs_above(situation.subject, arm);
        is_replayed_there(here, there) || (above(here) == Some(true) && above(there) == Some(false))
    });
    let gaps = Launches::read(arm).and_then(|launches| launches.idle_share());
    let mut rows = why.rows();
    let (ends, basis) = if let Some(faster) = &replayed {
        rows.extend(arm_rows(faster));
        (Some(faster.ends()), Basis::Typed)
    } else if let Some(jump) = jump.filter(|jump| is_on_the_far_side(situation, jump)) {
        rows.extend(cliff_rows(jump));
        (Some(jump.ends()), Basis::Counterfactual)
    } else if let Some((share, from)) = gaps {
        rows.push(figure("device idle between launches, share of the step", share, "ratio", from));
        (Some([0.8 * share, share, share]), Basis::Derived)
    } else {
        (None, Basis::Bound)
    };
    if ends.is_none()
        && let Some(doubt) = doubt(situation, why)
    {
        return undecided(situation, &["engine.step_time", "kernel.launch_gap"], format!("{}, but {doubt}", why.words()), SECOND_ARM);
    }
    Answer::Found(Box::new(answer(situation, why, ends, basis, rows)))
}

/// Why a setting without seconds is no accusation.
fn doubt(situation: &Situation<'_>, why: &NotReplayed) -> Option<String> {
    if !decode_is_most(situation) {
        return Some("most of the time passes before the first token".into());
    }
    let times_a_request = situation.account.total_mean_s() > 0.0;
    if matches!(why, NotReplayed::Eager { .. }) && times_a_request && step_s(situation.evidence).is_none() {
        return Some("how long a step takes is not known: the request may be long, or may have waited".into());
    }
    if let NotReplayed::AboveLargest { from, .. } = why
        && from.contains("default")
    {
        return Some("the largest size is this engine's default, not what it said".into());
    }
    let step = step_s(situation.evidence).map(|(step, _)| step).filter(|step| *step >= HIDES_S && !is_beyond_reading(situation, *step))?;
    Some(format!("a step takes {}: launching may hide behind its kernels", seconds(step)))
}

/// Up to this many sequences a step reads; it hardly computes.
const FEW: f64 = 8.0;

/// A step of few sequences that reading cannot fill, so that its kernels do not hide their launches: beyond reading the
/// weights by far, or where those are not known beyond reading everything the device's memory can hold.
fn is_beyond_reading(situation: &Situation<'_>, step_s: f64) -> bool {
    let (subject, arm) = (situation.subject, situation.evidence);
    let is_few = arm.figures.anywhere("client.concurrency").is_some() && batch(arm) <= FEW;
    let by_weights = || DecodeBound::read_widest(subject, arm).map(|bound| 2.0 * NEAR * bound.achievable_s());
    let device = if arm.device.is_empty() { &subject.device } else { &arm.device };
    let all = || model::hardware::find(device).map(|gpu| gpu.memory_bytes as f64 / (ACHIEVABLE * gpu.dram_bytes_per_s));
    is_few && by_weights().or_else(all).is_some_and(|most_s| step_s > most_s)
}

/// A hundred layers of fifty launches, from a slow framework, take the host this long; a longer step can hide all of them.
const HIDES_S: f64 = 100.0 * 50.0 * 2.0 * LAUNCH_S;

/// Words in which people tell arms apart that differ in this.
const WORDS: [&str; 6] = ["cuda graph", "cuda-graph", "cudagraph", "cuda_graph", "eager", "graph capture"];

/// An arm that is faster and told apart by its graphs, although neither states its setting.
fn by_arm(situation: &Situation<'_>) -> Option<Answer> {
    let is_covered = Sizes::read(situation.evidence).is_some() && batches(situation).is_some();
    let faster = faster_arm(situation, |here, there| (!is_covered && change_names(here, there, &WORDS)) || is_full_there(here, there))?;
    let why = NotReplayed::Eager { from: format!("arm `{}`", faster.other.run_name) };
    Some(Answer::Found(Box::new(answer(situation, &why, Some(faster.ends()), Basis::Typed, arm_rows(&faster)))))
}

/// Whole steps in one graph there, pieces with attention between them here.
fn is_full_there(here: &Arm, there: &Arm) -> bool {
    let is_full = |arm: &Arm| arm.settings.get("config.graph_mode").map(|mode| mode.value.to_ascii_lowercase().contains("full"));
    is_full(here) == Some(false) && is_full(there) == Some(true)
}

/// True for an arm that is replayed where this one is not.
fn is_replayed_there(here: &Arm, there: &Arm) -> bool {
    let eager = |arm: &Arm| arm.settings.flag("config.enforce_eager");
    let largest = |arm: &Arm| Sizes::read(arm).map(|sizes| sizes.largest());
    (eager(here) == Some(true) && eager(there) == Some(false))
        || change_names(here, there, &WORDS)
        || is_full_there(here, there)
        || largest(here).zip(largest(there)).is_some_and(|(mine, theirs)| theirs > mine)
}

/// The operating point of the account lies beyond the cliff.
fn is_on_the_far_side(situation: &Situation<'_>, jump: &Cliff) -> bool {
    step_s(situation.evidence).is_none_or(|(step, _)| step >= 0.8 * jump.after.1)
}

fn arm_rows(faster: &Contrast<'_>) -> Vec<Evidence> {
    vec![
        figure(faster.signal, faster.mine_s, "s", "this arm"),
        figure(faster.signal, faster.theirs_s, "s", &format!("arm `{}`", faster.other.run_name)),
    ]
}

fn cliff_rows(jump: &Cliff) -> Vec<Evidence> {
    vec![
        figure(&format!("step at {} sequences", digits(jump.before.0)), jump.before.1, "s", "sweep"),
        figure(&format!("step at {} sequences", digits(jump.after.0)), jump.after.1, "s", "sweep"),
        figure("the most a step law allows there", jump.allowed_s.1, "s", "in proportion to the batch"),
    ]
}

/// A cliff alone: an engine that replays graphs, and a size grid of its defaults that the cliff fits.
fn by_cliff(situation: &Situation<'_>, jump: &Cliff) -> Option<Answer> {
    let arm = situation.evidence;
    let engine = situation.subject.engine.as_str();
    let replays = REPLAYING.iter().any(|known| engine.starts_with(known));
    let preempted = arm.figures.highest("kv.preemptions").is_some_and(|preempted| preempted > 0.0);
    let queued = arm.settings.number("config.max_num_seqs").is_some_and(|seats| jump.after.0 > seats);
    if !replays || preempted || queued || !is_on_the_far_side(situation, jump) {
        return None;
    }
    let largest = Sizes::read(arm)
        .map(|sizes| (sizes.largest(), sizes.from))
        .or_else(|| Some((default_largest(situation)?, "this engine's default sizes".into())));
    let (largest, from) = largest.filter(|(largest, _)| {
        let per_seq = tokens_per_seq(situation.subject, situation.evidence);
        jump.before.0 * per_seq <= *largest && *largest < jump.after.0 * per_seq
    })?;
    let why = NotReplayed::AboveLargest { largest, typical: jump.after.0, high: jump.after.0, from, batch_from: "sweep" };
    let mut rows = why.rows();
    rows.extend(cliff_rows(jump));
    Some(Answer::Found(Box::new(answer(situation, &why, Some(jump.ends()), Basis::Counterfactual, rows))))
}

fn answer(situation: &Situation<'_>, why: &NotReplayed, ends: Option<[f64; 3]>, basis: Basis, rows: Vec<Evidence>) -> Found {
    let shown = ends.unwrap_or([0.0; 3]);
    let size = ends.map_or(String::new(), |ends| match step_s(situation.evidence) {
        Some((step, _)) => format!(" {} of {} per step go to launching.", seconds(ends[1] * step), seconds(step)),
        None => format!(" {} of the time per token goes to launching.", percent(ends[1])),
    });
    Found {
        summary: why.words(),
        sentence: format!("Decode steps are launched kernel by kernel: {}.{size}", why.words()),
        claims: ends.map_or(Vec::new(), |ends| claims(situation, Phase::Decode, ends, basis)),
        cost: cost(situation, Phase::Decode, shown[1]),
        evidence: rows,
        hypotheses: vec![remedy(situation, why, shown)],
        falsified_by: "steps as long with graphs that hold every batch that runs".into(),
        context_only: false,
        limit: false,
    }
}

fn remedy(situation: &Situation<'_>, why: &NotReplayed, ends: [f64; 3]) -> Hypothesis {
    let change: Change = match why {
        NotReplayed::Eager { .. } => setting(situation, "enforce_eager", ""),
        NotReplayed::AboveLargest { high, .. } => {
            let to = (high * tokens_per_seq(situation.subject, situation.evidence)).max(1.0).log2().ceil().exp2();
            setting(situation, "graph_max_size", &count(to).replace(',', ""))
        }
        NotReplayed::CaptureFailed => outside(
            "graph capture",
            "succeeds",
            "restart",
            "repair what the log names (memory left for capture, an operation that cannot be captured), then restart",
        ),
        NotReplayed::FewReplayed { .. } | NotReplayed::FewSteps { .. } => {
            outside("graph capture", "all decode batches", "restart", "capture the batches that run and remove what breaks the graph")
        }
    };
    hypothesis(
        change,
        "graph memory is taken from the KV cache; start-up takes longer",
        "KV capacity falls so far that requests are preempted",
        vec![
            token_falls(situation, ends, "launching vanishes from the step"),
            moves(
                "kernel.graph_share",
                "replayed share",
                "ratio",
                Direction::Up,
                None,
                Some([REPLAYED, 1.0]),
                "every decode batch has a captured size",
            ),
            first_token_kept(situation),
        ],
    )
}
