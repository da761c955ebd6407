//! The KV cache is too small for what was admitted: running requests are pushed out and computed again.

mod signs;

use crate::advice::setting_change;
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Change, Direction, Hypothesis, Quantity};
use crate::evidence::Evidence;
use crate::gates::{Gate, KV_NEAR_FULL};
use crate::phase::Phase;
use crate::predict::Movement;
use crate::readings::preemptions;
use crate::record;
use crate::situation::Situation;
use crate::words::{count, digits, percent, seconds};

check! {
    /// The KV cache runs full and pushes running requests out; they wait again and are computed again.
    ///
    /// ## Why it costs time
    /// Each running request grows by a block every few tokens. When no block is free the engine preempts the youngest
    /// request: its cache is dropped, it returns to the queue, and its prompt and tokens so far are prefilled again.
    /// Requests already queued stay out all the while.
    ///
    /// ## How to confirm
    /// `kv.preemptions` rises inside the window (not since boot), at 2 % or more of finished requests, while `kv.usage`
    /// is near 1 and `engine.waiting` is above 0. The integral of waiting exceeds the sum of queue times by what was
    /// requeued.
    ///
    /// ## Fix
    /// More blocks (more memory, FP8 KV cache, smaller weights), or fewer sequences than the cache can hold to their
    /// full length. Preemptions fall to zero, p99 falls most.
    ///
    /// ## When this is wrong
    /// One long prefill stalls others (preemptions 0); overload without preemption; a counter that moved once long ago.
    id: "kv_thrash", layer: Memory, rank: 80, phases: [Queue, Prefill, Decode], bound: "memory", validated_on: "recorded", run: find,
}

/// Preempted over finished requests from which preemption recurs (attribution, section 6).
const PREEMPTED_SHARE: f64 = 0.02;

fn find(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    let usage = situation.load.kv_usage_max;
    let Some((preempted, finished)) = preemptions(situation) else {
        return match signs::of_thrash(situation) {
            Some(sign) => Answer::Found(Box::new(signed(situation, &sign))),
            None => without_counter(situation, usage),
        };
    };
    // A mean or median below full says nothing of the moments at which somebody was pushed out.
    let usage = usage.filter(|&usage| usage >= KV_NEAR_FULL || evidence.has_timeline() || says_peak(evidence));
    if finished <= 0.0 && preempted > 0.0 && usage.is_none_or(|usage| usage >= KV_NEAR_FULL) && situation.load.waiting_max <= 0.0 {
        return Answer::CannotTell(record::scrapes(
            &["kv.preemptions", "server.finished"],
            "preemptions are counted, but not over which requests",
            None,
        ));
    }
    let share = if finished > 0.0 { preempted / finished } else { 1.0 };
    if preempted <= 0.0 || share < PREEMPTED_SHARE || usage.is_some_and(|usage| usage < KV_NEAR_FULL) {
        return clear(
            vec![("preempted_per_finished", if preempted > 0.0 { share } else { 0.0 }), ("kv_usage_max", usage.unwrap_or(0.0))],
            cleared(preempted, finished, usage),
        );
    }
    Answer::Found(Box::new(found(situation, preempted, finished, share)))
}

/// Counts whole, rates with their digits.
fn number(value: f64) -> String {
    if value >= 10.0 || value.fract() == 0.0 { count(value) } else { digits(value) }
}

/// The usage given is a largest one, or one of the whole run.
fn says_peak(evidence: &Evidence) -> bool {
    let has = |statistic: &str| {
        let name = format!("kv.usage{statistic}");
        evidence.figures.get(&name).is_some() || evidence.figures.points().any(|point| point.get(&name).is_some())
    };
    [".max", ".p99", ".p95", ""].iter().any(|statistic| has(statistic))
}

fn cleared(preempted: f64, finished: f64, usage: Option<f64>) -> String {
    let over = if finished > 0.0 { format!(" over {} finished requests", count(finished)) } else { String::new() };
    let peak = usage.map_or_else(String::new, |usage| format!(", KV usage peaks at {}", percent(usage)));
    format!("{} preemptions{over}{peak}", count(preempted))
}

fn without_counter(situation: &Situation<'_>, usage: Option<f64>) -> Answer {
    match usage {
        Some(usage) if usage < KV_NEAR_FULL => {
            clear(vec![("kv_usage_max", usage)], format!("KV usage is at most {}: nothing needs to be pushed out", percent(usage)))
        }
        _ => Answer::CannotTell(record::scrapes(
            &["kv.preemptions", "kv.usage"],
            if usage.is_some() {
                "the cache is full, and whether anybody is pushed out is not told"
            } else {
                "no preemption counter and no KV usage"
            },
            at_most_s(situation),
        )),
    }
}

/// A shortage of blocks would stop the batch short of its seats: who runs at exactly the limit has blocks. Who types
/// figures types the preemptions that were seen; without them it is no rival.
fn at_most_s(situation: &Situation<'_>) -> Option<f64> {
    let most_s = situation.phase_s(Phase::Queue) + situation.unsplit_first_token_s();
    situation.evidence.has_timeline().then_some(if running_at_seats(situation) { 0.0 } else { most_s })
}

fn running_at_seats(situation: &Situation<'_>) -> bool {
    situation.load.seats.is_some_and(|seats| crate::gates::at_cap(situation.load.running_max, seats))
}

fn found(situation: &Situation<'_>, preempted: f64, finished: f64, share: f64) -> Found {
    let requeued_s = requeued_s(situation);
    let recomputed_s = recomputed_s(situation, preempted);
    let claims = claims(situation, requeued_s, recomputed_s);
    let usage = situation.load.kv_usage_max.unwrap_or(1.0);
    let n = situation.n();
    let waits = if situation.phase_s(Phase::Queue) > 0.0 {
        format!(", and requests wait {} for blocks", seconds(situation.phase_s(Phase::Queue)))
    } else {
        String::new()
    };
    let over = if finished > 0.0 {
        format!("{} preemptions over {} finished requests", number(preempted), number(finished))
    } else {
        format!("{} preemptions", number(preempted))
    };
    // Below full only a middle was given: those who were pushed out say that its peaks are full.
    let full = if usage >= KV_NEAR_FULL { percent(usage) } else { format!("at its peaks; {} is a middle", percent(usage)) };
    Found {
        summary: format!("{over} at KV usage up to {}", if usage >= KV_NEAR_FULL { percent(usage) } else { "full".into() }),
        sentence: format!("The KV cache is full ({full}) and pushes running requests out: {over}{waits}."),
        claims,
        cost: (situation.account.n > 1).then(|| Quantity {
            value: (requeued_s + recomputed_s) / n + situation.gates.share(Gate::Kv) * situation.phase_s(Phase::Queue),
            unit: "s".into(),
        }),
        evidence: vec![
            figure("kv.preemptions", preempted, "count", "growth in the window"),
            figure("preempted per finished request", share, "ratio", "counters"),
            figure("kv.usage.max", usage, "ratio", "scrapes"),
            figure("requeue wait", requeued_s, "request_s", "integral of waiting minus sum of queue times"),
            figure(
                "recomputed prefill",
                recomputed_s,
                "request_s",
                "preemptions x mean held tokens x step law's prefill cost; no engine counts it",
            ),
        ],
        hypotheses: hypotheses(situation, preempted, finished),
        falsified_by: "no preemption in a window with the same load and usage near full".into(),
        context_only: false,
        limit: false,
    }
}

/// Requests preempted wait again, in what the engine's histograms call decode: the integral of waiting has it, the sum
/// of queue times does not.
fn requeued_s(situation: &Situation<'_>) -> f64 {
    let queued_s = situation.evidence.observed("server.queue_time").map_or(0.0, |delta| delta.sum);
    if situation.evidence.has_timeline() { (situation.gates.waited_s - queued_s).max(0.0) } else { 0.0 }
}

fn recomputed_s(situation: &Situation<'_>, preempted: f64) -> f64 {
    let cost_s = situation.law.central().map_or(0.0, |law| law.c_s);
    let held = situation.load.prompt_tokens.unwrap_or(0.0) + 0.5 * situation.load.output_tokens.unwrap_or(0.0);
    if situation.evidence.has_timeline() { preempted * held * cost_s } else { 0.0 }
}

fn claims(situation: &Situation<'_>, requeued_s: f64, recomputed_s: f64) -> Vec<Claim> {
    let mut claims = Vec::new();
    if !situation.evidence.has_timeline() {
        if situation.phase_s(Phase::Queue) > 0.0 {
            claims.push(Claim { phase: Phase::Queue, what: Extent::Fraction { lo: 0.5, mid: 1.0, hi: 1.0 }, basis: Basis::Typed });
        }
        return claims;
    }
    let runs = thrashing_runs(situation);
    if situation.load.engine_count <= 1 && !runs.is_empty() {
        claims.push(Claim { phase: Phase::Queue, what: Extent::Intervals(runs), basis: Basis::Measured });
    } else if situation.load.engine_count > 1 {
        claims.push(Claim { phase: Phase::Queue, what: Extent::exactly(situation.gates.share(Gate::Kv)), basis: Basis::Derived });
    }
    let decode_s = situation.account.part_ns(Phase::Decode) as f64 * 1e-9;
    if decode_s > 0.0 {
        let share = |s: f64| (s / decode_s).min(1.0);
        // Held tokens are between the prompt alone and the whole request.
        claims.push(Claim {
            phase: Phase::Decode,
            what: Extent::Fraction {
                lo: share(requeued_s),
                mid: share(requeued_s + recomputed_s),
                hi: share(requeued_s + 1.5 * recomputed_s),
            },
            basis: Basis::Derived,
        });
    }
    claims
}

/// Stretches of KV-gated moments in which at least one request was preempted.
fn thrashing_runs(situation: &Situation<'_>) -> Vec<(i64, i64)> {
    let stretches = situation.gates.stretches(Gate::Kv).into_iter().filter(|stretch| stretch.preempted);
    stretches.map(|stretch| (stretch.t_start_ns, stretch.t_end_ns)).collect()
}

/// Found by what thrashing does, where nobody counted preemptions.
fn signed(situation: &Situation<'_>, sign: &signs::Sign) -> Found {
    let usage = situation.load.kv_usage_max;
    let full = usage.map_or_else(String::new, |usage| format!(" at KV usage up to {}", percent(usage)));
    let decode = situation.phase_s(Phase::Decode) > 0.0;
    let share = sign.share.filter(|_| decode);
    let claim = |share: f64| Claim {
        phase: Phase::Decode,
        what: Extent::Fraction { lo: 0.5 * share, mid: share, hi: (1.2 * share).min(1.0) },
        basis: Basis::Bound,
    };
    let mut evidence = sign.rows.clone();
    evidence.extend(usage.map(|usage| figure("kv.usage.max", usage, "ratio", "as given")));
    Found {
        summary: format!("{}{full}", sign.why),
        sentence: format!("The KV cache pushes running requests out and computes them again: {}{full}.", sign.why),
        claims: share.map(claim).into_iter().collect(),
        evidence,
        hypotheses: hypotheses(situation, 0.0, 0.0),
        falsified_by: "a preemption counter that stands still at the same load".into(),
        ..Found::default()
    }
}

fn hypotheses(situation: &Situation<'_>, preempted: f64, finished: f64) -> Vec<Hypothesis> {
    std::iter::once(more_blocks(situation, preempted, finished)).chain(fewer_sequences(situation, preempted, finished)).collect()
}

/// KV tokens that the load's equilibrium needs at its p99, every request at full length.
fn needed_tokens(situation: &Situation<'_>) -> Option<f64> {
    let load = &situation.load;
    let (uncached, output) = (load.uncached_tokens?, load.output_tokens?);
    let law = situation.law.central()?;
    let running = crate::seats::equilibrium(&law, load.arrivals_per_engine()?, uncached, output)?;
    Some(model::queueing::poisson_quantile(running, 0.99)? as f64 * (load.prompt_tokens? + output))
}

fn more_blocks(situation: &Situation<'_>, preempted: f64, finished: f64) -> Hypothesis {
    let settings = &situation.evidence.settings;
    let block =
        situation.evidence.engines.values().find_map(|engine| engine.series("kv.block_size")).map_or(16.0, |series| series.max().max(1.0));
    let overridden = settings.number("config.num_gpu_blocks_override");
    let change = if let Some(blocks) = overridden {
        let needed = needed_tokens(situation).map_or(2.0 * blocks, |tokens| (tokens / block).ceil() + 1.0).max(blocks + 1.0);
        let change = setting_change(situation, "num_gpu_blocks_override", &count(needed));
        Change { from: count(blocks), instruction: format!("{}, or drop the override", change.instruction), ..change }
    } else {
        let now = settings.get("config.kv_dtype").map_or("auto", |setting| setting.value.as_str()).to_string();
        let change = setting_change(situation, "kv_dtype", "fp8");
        Change { from: now, instruction: format!("{} (halves what a token holds)", change.instruction), ..change }
    };
    Hypothesis {
        id: String::new(),
        risk: if overridden.is_some() {
            "blocks need memory: the engine refuses to start if it is not there".into()
        } else {
            "FP8 KV may cost accuracy: check an evaluation".into()
        },
        rollback: format!("{} {}", change.flag, change.from),
        undo_if: "preemptions go on or the engine runs out of memory".into(),
        predictions: predictions(situation, preempted, finished, Some(if overridden.is_some() { 0.0 } else { stays_short(situation) })),
        throughput: String::new(),
        change,
    }
}

fn fewer_sequences(situation: &Situation<'_>, preempted: f64, finished: f64) -> Option<Hypothesis> {
    let load = &situation.load;
    let whole = load.prompt_tokens? + load.output_tokens?;
    let fits = (load.kv_capacity_tokens? / whole).floor().max(1.0);
    let from = load.seats.map_or_else(String::new, count);
    if load.seats.is_some_and(|seats| fits >= seats) {
        return None;
    }
    let change = Change { from, ..setting_change(situation, "max_num_seqs", &count(fits)) };
    Some(Hypothesis {
        id: String::new(),
        rollback: format!("{} {}", change.flag, change.from),
        change,
        risk: "the queue stays: this stops the recomputing, it adds no room".into(),
        undo_if: "throughput falls".into(),
        predictions: predictions(situation, preempted, finished, None),
        throughput: String::new(),
    })
}

/// Share of the most that ever waited which twice the cache still has no room for: 0 where all would fit.
fn stays_short(situation: &Situation<'_>) -> f64 {
    let load = &situation.load;
    let whole = load.prompt_tokens.zip(load.output_tokens).map(|(prompt, output)| prompt + output);
    let fits = load.kv_capacity_tokens.zip(whole).map(|(tokens, whole)| (2.0 * tokens / whole).floor());
    let beyond = fits.map_or(0.0, |fits| load.running_max + load.waiting_max - fits);
    if load.waiting_max > 0.0 { (beyond / load.waiting_max).clamp(0.0, 1.0) } else { 0.0 }
}

/// `room` is given where blocks are added: the share of the queue that may stay although they are.
fn predictions(situation: &Situation<'_>, preempted: f64, finished: f64, room: Option<f64>) -> Vec<crate::contract::Prediction> {
    let stays = room.unwrap_or(0.0);
    let least = if stays > 0.0 { 1.0 } else { 0.1 };
    let rate = (finished > 0.0).then(|| preempted / finished);
    let mut list = vec![
        Movement::new("kv.preemptions.rate", "preempted", "per request", Direction::Down, rate)
            .primary()
            .to(0.0, rate.map_or(0.0, |rate| least * rate), "requests that fit to their full length are not pushed out")
            .build(),
    ];
    let queue_s = situation.phase_s(Phase::Queue);
    if queue_s > 0.0 && room.is_some() && situation.evidence.has_timeline() {
        let kept = (1.0 - situation.gates.share(Gate::Kv)).max(stays);
        list.push(
            Movement::new("server.queue_time.mean", "queue", "s", Direction::Down, Some(queue_s))
                .to(0.0, (kept * queue_s).max(0.1 * queue_s), "the KV-gated share of the queue removed; the rest stays")
                .build(),
        );
        let ttft_s = situation.account.first_token_mean_s();
        list.push(
            Movement::first_token(situation, Direction::Down)
                .to(
                    0.5 * (ttft_s - queue_s).max(0.0),
                    (ttft_s - queue_s).max(0.0) + (kept * queue_s).max(0.1 * queue_s),
                    "measured queue removed",
                )
                .build(),
        );
    }
    if let Some(tpot_s) = situation.evidence.mean("server.tpot").filter(|_| room.is_some()) {
        list.push(
            Movement::new("server.tpot.mean", "TPOT mean", "s", Direction::Unchanged, Some(tpot_s))
                .guard()
                .to(0.5 * tpot_s, tpot_upper_s(situation, tpot_s), "requeue waits leave decode, larger batches enter it")
                .build(),
        );
    }
    list
}

/// TPOT once all that wait run together: measured x law at the equilibrium / at the present batch.
fn tpot_upper_s(situation: &Situation<'_>, tpot_s: f64) -> f64 {
    let load = &situation.load;
    let ratio = || {
        let law = situation.law.central()?;
        let (uncached, output) = (load.uncached_tokens?, load.output_tokens?);
        let now = load.running_mean.max(1.0);
        let then = crate::seats::equilibrium(&law, load.arrivals_per_engine()?, uncached, output)?.max(now);
        Some(law.tpot_s(then, uncached, output) / law.tpot_s(now, uncached, output))
    };
    tpot_s * ratio().unwrap_or(1.5).max(1.0) * 1.15
}
