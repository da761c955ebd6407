//! Long prompts in a step: every stream of the batch stands still until it is done.
//!
//! It claims only what a knob removes: gaps beyond a decode step with one small chunk in it. Chunked prefill by design makes
//! some gaps longer than others, on every engine.

use model::step_law::StepLaw;

use crate::check::{Answer, Found, Missing, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Evidence as Row, Quantity};
use crate::contrast::{RUN_SPREAD, numbers};
use crate::evidence::{Evidence, Figures, Point, RequestRow};
use crate::floors::{SHARED_CHUNK_TOKENS, steps_by_size};
use crate::law::gaps_are_steps;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::remedy;
use crate::situation::Situation;
use crate::symptom::excess_s;
use crate::words::{count, digits, percent, seconds};

check! {
    /// Prompts computed in large pieces hold up the tokens of everybody in the batch.
    ///
    /// ## Why it costs time
    /// Decoding streams and prompts share steps. A step with thousands of prompt tokens takes many times a decode step, and
    /// each stream's next token waits for it. Users see text that stops and goes.
    ///
    /// ## How to confirm
    /// The longest gaps between tokens coincide with prompts that are computed; the effective chunk (token budget, long-prefill
    /// threshold) is far above the tokens that double a decode step. ITL p99 is many times ITL p50.
    ///
    /// ## Fix
    /// A smaller token budget or chunk, or separate pools for prefill and decode. ITL p99 falls to the smaller step; the first
    /// token of long prompts comes later by the fixed cost of the extra steps.
    ///
    /// ## When this is wrong
    /// Gaps from preemption (`kv_thrash`), from host or garbage-collector stalls, from recompiling; coalesced delivery, where
    /// gaps say nothing about the engine; many short prompts, which no smaller chunk divides.
    id: "prefill_blocks_decode", layer: Scheduling, rank: 93, phases: [Decode], bound: "logic", validated_on: "recorded", run: find,
}

/// Excess between tokens, as a share of decode, below which chunked prefill does its job (attribution, section 6).
const EXCESS_SHARE: f64 = 0.25;
/// ITL p99 over p50 from which gaps are uneven (attribution, section 7).
const UNEVEN: f64 = 3.0;
/// Where only lengths and settings point to prompts, gaps must differ by more than chunked prefill makes on healthy servers:
/// there ITL p99 is 2.5 to 14 times p50 (attribution, section 0.3).
const FAR_APART: f64 = 15.0;
/// A prompt this many times the chunk that a step can hide is a long one.
const LONG_PROMPT: f64 = 4.0;

fn find(situation: &Situation<'_>) -> Answer {
    if !situation.evidence.has_timeline() {
        return from_figures(situation);
    }
    let Some(law) = situation.law.central().filter(|law| law.c_s > 0.0) else {
        return Answer::CannotTell(unknown("what a prompt token costs in a step is not known", situation));
    };
    let batch = situation.load.running_mean.max(1.0);
    let small = small_chunk(situation, &law, batch);
    let chunk = chunk(situation.evidence);
    if chunk.is_some_and(|chunk| chunk <= small) {
        return clear(
            vec![("chunk", chunk.unwrap_or(0.0))],
            format!("prompts enter steps in pieces of {} tokens already", count(chunk.unwrap_or(0.0))),
        );
    }
    if situation.is_saturated() {
        return clear(vec![], "the server is saturated: smaller pieces would move the wait from the streams into the queue");
    }
    let Some(excess) = excess_by_gaps(situation, &law, small).or_else(|| excess_by_steps(situation, &law, small)) else {
        return Answer::CannotTell(unknown("neither gaps between tokens nor tokens per step were recorded", situation));
    };
    let decode_s = situation.phase_s(Phase::Decode);
    let share = if decode_s > 0.0 { excess.per_request_s / decode_s } else { 0.0 };
    if share < EXCESS_SHARE {
        return clear(
            vec![("excess_share_of_decode", share)],
            format!("prompts hold decoding up for {} of its time beyond a small chunk", percent(share)),
        );
    }
    Answer::Found(Box::new(from_timeline(situation, &law, small, chunk, &excess)))
}

fn unknown(because: &str, situation: &Situation<'_>) -> Missing {
    let most = situation.evidence.has_timeline().then(|| excess_s(situation, Phase::Decode));
    record::client(&["client.itl (every gap)", "engine.step_tokens"], because, most)
}

/// Most prompt tokens of one request that a step takes; `None` when nothing limits them.
fn chunk(evidence: &Evidence) -> Option<f64> {
    if evidence.settings.flag("config.chunked_prefill") == Some(false) {
        return None;
    }
    ["config.max_num_batched_tokens", "config.long_prefill_token_threshold"]
        .into_iter()
        .filter_map(|key| evidence.settings.number(key).filter(|&tokens| tokens >= 1.0))
        .reduce(f64::min)
}

/// The piece a knob would leave: 256 tokens where arithmetic sets the step, on a device with room in its steps the tokens
/// that double one (attribution, section 0.7).
fn small_chunk(situation: &Situation<'_>, law: &StepLaw, batch: f64) -> f64 {
    if situation.subject.device == "CPU" { SHARED_CHUNK_TOKENS } else { (law.step_s(batch, 0.0) / law.c_s).max(SHARED_CHUNK_TOKENS) }
}

/// What gaps have beyond a step with a small chunk.
struct Excess {
    per_request_s: f64,
    lo: f64,
    basis: Basis,
    from: &'static str,
}

/// Times and running token sums of rows, for lookups without a scan.
struct Upto {
    t_ns: Vec<i64>,
    tokens: Vec<f64>,
}

impl Upto {
    fn new(mut rows: Vec<(i64, f64)>) -> Self {
        rows.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut sum = 0.0;
        let tokens = rows
            .iter()
            .map(|(_, tokens)| {
                sum += tokens;
                sum
            })
            .collect();
        Self { t_ns: rows.into_iter().map(|(t, _)| t).collect(), tokens }
    }

    fn count(&self, t_ns: i64) -> usize {
        self.t_ns.partition_point(|&t| t <= t_ns)
    }

    fn tokens(&self, t_ns: i64) -> f64 {
        self.count(t_ns).checked_sub(1).map_or(0.0, |at| self.tokens[at])
    }
}

/// Sum over gaps of what exceeds a step of that batch with a small chunk, as far as long prompts in flight at that moment
/// explain it. Gaps that no such prompt meets are somebody else's, and short prompts no smaller chunk divides.
fn excess_by_gaps(situation: &Situation<'_>, law: &StepLaw, small: f64) -> Option<Excess> {
    let evidence = situation.evidence;
    if !gaps_are_steps(evidence) || evidence.client.iter().all(|row| row.tokens_in.is_none()) {
        return None;
    }
    let done: Vec<&RequestRow> =
        evidence.client.iter().filter(|row| row.ok && row.t_first_ns.is_some() && row.t_done_ns.is_some()).collect();
    let tokens = |row: &RequestRow| row.tokens_in.unwrap_or(0).max(0) as f64;
    let tokens = |row: &RequestRow| Some(tokens(row)).filter(|tokens| *tokens > small).unwrap_or(0.0);
    let sent = Upto::new(done.iter().map(|row| (row.t_sent_ns, tokens(row))).collect());
    let first = Upto::new(done.iter().filter_map(|row| Some((row.t_first_ns?, tokens(row)))).collect());
    let ends = Upto::new(done.iter().filter_map(|row| Some((row.t_done_ns?, 0.0))).collect());
    let excess: f64 = evidence
        .gaps
        .iter()
        .map(|gap| {
            let start = gap.t_end_ns - gap.gap_ns;
            let batch = first.count(start).saturating_sub(ends.count(start)).max(1) as f64;
            let met = (sent.tokens(gap.t_end_ns) - first.tokens(start)).max(0.0);
            let beyond = gap.gap_ns as f64 * 1e-9 - law.step_s(batch, small);
            beyond.min(law.c_s * (met - small)).max(0.0)
        })
        .sum();
    let n = done.len().max(1) as f64;
    Some(Excess {
        per_request_s: excess / n,
        lo: 0.8,
        basis: Basis::Derived,
        from: "gaps between tokens that meet a prompt, less a step with a small chunk",
    })
}

/// The same from the sizes of steps: what large ones take beyond a small chunk, felt by everybody who runs.
fn excess_by_steps(situation: &Situation<'_>, law: &StepLaw, small: f64) -> Option<Excess> {
    let batch = (situation.load.running_mean / situation.load.engines()).max(1.0);
    let steps = steps_by_size(situation.evidence, law, batch)?;
    let limit = law.step_s(batch, small);
    let beyond: f64 = steps.iter().map(|(count, step_s)| count * (step_s - limit).max(0.0)).sum();
    // In a step with a prompt one of the running is the prompt itself.
    let felt_by = (batch - 1.0).max(0.0);
    let excess = long_share(situation.evidence, small) * beyond * felt_by / situation.load.finished.max(1.0);
    Some(Excess { per_request_s: excess, lo: 0.4, basis: Basis::Counterfactual, from: "sizes of steps and the step law" })
}

/// Share of all prompt tokens that belong to prompts longer than a small chunk; all of them where lengths are not known.
fn long_share(evidence: &Evidence, small: f64) -> f64 {
    let Some(lengths) = evidence.observed("server.prompt_tokens").filter(|lengths| lengths.sum > 0.0) else { return 1.0 };
    let short: f64 = lengths
        .buckets
        .iter()
        .zip(&lengths.bounds)
        .enumerate()
        .filter(|(_, (_, upper))| **upper <= small)
        .map(|(at, (count, upper))| {
            let lower = at.checked_sub(1).map_or(0.0, |below| lengths.bounds[below]);
            count * f64::midpoint(lower, *upper)
        })
        .sum();
    (1.0 - short / lengths.sum).clamp(0.0, 1.0)
}

fn from_timeline(situation: &Situation<'_>, law: &StepLaw, small: f64, chunk: Option<f64>, excess: &Excess) -> Found {
    let share = situation.share_of(Phase::Decode, excess.per_request_s);
    let claim = Claim {
        phase: Phase::Decode,
        what: Extent::Fraction { lo: excess.lo * share, mid: share, hi: (1.1 * share).min(1.0) },
        basis: excess.basis,
    };
    let pieces = chunk.map_or_else(|| "whole".to_string(), |chunk| format!("in pieces of up to {} tokens", count(chunk)));
    let why = format!("prompts are computed {pieces}, which holds streams up for {} per request", seconds(excess.per_request_s));
    let rows = vec![
        figure("decode beyond a small chunk", excess.per_request_s, "s", excess.from),
        figure("share of decode", share, "ratio", excess.from),
        figure("effective chunk", chunk.unwrap_or(0.0), "token", "token budget and long-prefill threshold; 0 for none"),
        figure("cost of a prompt token", law.c_s, "s", situation.law.from()),
    ];
    // The long gaps shrink to a step with a small chunk. Their mean hardly moves: the same prompt tokens are computed between
    // the same output tokens, spread over more steps.
    let slow_s = p99_gap_s(situation);
    let small = small.max(least_budget(situation, law)).min(chunk.unwrap_or(f64::INFINITY));
    let small_step_s = law.step_s(situation.load.running_mean.max(1.0), small.max(SHARED_CHUNK_TOKENS));
    let mut itl = Movement::new("client.itl.p99", "ITL p99", "s", Direction::Down, slow_s);
    itl = match slow_s.filter(|slow_s| *slow_s > 2.0 * small_step_s) {
        Some(slow_s) => itl.to(
            0.5 * small_step_s,
            (2.0 * small_step_s).min(0.9 * slow_s),
            "a step with a small chunk by the step law; a factor of two for steps with several",
        ),
        None => itl.refused("no rows of gaps at the client: direction only"),
    };
    let cost = Some(Quantity { value: excess.per_request_s, unit: "s".into() });
    let first_s = situation.account.first_token_mean_s();
    let extra_s = prompt_steps_s(situation, law, small);
    let mut found = found(situation, &why, rows, itl, small);
    for guard in found.hypotheses.iter_mut().flat_map(|stated| &mut stated.predictions).filter(|prediction| prediction.guard) {
        let most_s = 1.15 * first_s + 3.0 * extra_s;
        *guard = Movement::first_token(situation, Direction::Up)
            .guard()
            .to(0.0, most_s, "the fixed cost of the steps that a prompt then takes, three times for those who wait behind it")
            .build();
    }
    Found { claims: vec![claim], cost, ..found }
}

/// Utilization that a smaller budget must leave: beyond it the time to first token moves nonlinearly.
const BUSY: f64 = 0.7;

/// The smallest token budget with which the prompts that arrive are still computed: in each second there are as many steps as
/// their length allows, and each computes no more than the budget. Endless where prompts alone fill the device.
fn least_budget(situation: &Situation<'_>, law: &StepLaw) -> f64 {
    let tokens_per_s = situation.load.arrivals_per_engine().zip(situation.load.uncached_tokens).map(|(rate, tokens)| rate * tokens);
    let Some(tokens_per_s) = tokens_per_s else { return 0.0 };
    let running = situation.load.running_mean.max(1.0);
    let left = BUSY - law.c_s * tokens_per_s;
    if left > 0.0 { tokens_per_s * law.step_s(running, 0.0) / left + running } else { f64::INFINITY }
}

/// What the steps of a mean prompt cost beyond computing it, s.
fn prompt_steps_s(situation: &Situation<'_>, law: &StepLaw, budget: f64) -> f64 {
    let tokens = situation.load.uncached_tokens.unwrap_or(0.0);
    tokens / budget.max(1.0) * law.step_s(situation.load.running_mean.max(1.0), 0.0)
}

/// The p99 of gaps between tokens at the client, s.
fn p99_gap_s(situation: &Situation<'_>) -> Option<f64> {
    let mut gaps: Vec<i64> = situation.evidence.gaps.iter().map(|gap| gap.gap_ns).collect();
    gaps.sort_unstable();
    let at = (gaps.len() * 99).div_ceil(100).checked_sub(1)?;
    (gaps.len() >= 200).then(|| gaps[at] as f64 * 1e-9)
}

fn found(situation: &Situation<'_>, why: &str, rows: Vec<Row>, itl: Movement, small: f64) -> Found {
    let to = count(small.max(SHARED_CHUNK_TOKENS)).replace(',', "");
    let hypothesis = remedy::setting(situation, "max_num_batched_tokens", to)
        .moves(itl)
        .guards(Movement::first_token(situation, Direction::Up).refused("rises for long prompts by the fixed cost of the extra steps"))
        .risk("long prompts take more steps: their first token comes later", "first-token time passes what users accept")
        .build();
    Found {
        summary: why.to_string(),
        sentence: format!("Prompts hold up the streams of others: {why}."),
        evidence: rows,
        hypotheses: vec![hypothesis],
        falsified_by: "gaps as long at moments without any prompt to compute".into(),
        ..Found::default()
    }
}

/// Statistics of time between tokens: the slow end and the middle, at the first vantage that has both. Where rows tell the
/// slow end (by prompt length or load), the slowest row counts; the middle is that row's, else the run's.
fn uneven(figures: &Figures) -> Option<(f64, f64, &'static str)> {
    const NAMES: [&str; 4] = ["client.itl", "server.itl", "client.tpot", "server.tpot"];
    let slow_of = |get: &dyn Fn(&str) -> Option<f64>, name: &str| ["p99", "max", "p95"].iter().find_map(|of| get(&format!("{name}.{of}")));
    let middle_of = |get: &dyn Fn(&str) -> Option<f64>, name: &str| {
        let own = ["p50", "mean", "min"].iter().find_map(|of| get(&format!("{name}.{of}"))).or_else(|| get(name));
        // A slow end of the gaps without their middle: the mean time per token stands for it, and is no shorter.
        own.or_else(|| get(&name.replace(".itl", ".tpot")))
    };
    NAMES.into_iter().find_map(|name| {
        let whole = |full: &str| figures.get(full);
        let rows = || {
            let row = |point: &Point| {
                let get = |full: &str| point.get(full);
                Some((slow_of(&get, name)?, middle_of(&get, name).or_else(|| middle_of(&whole, name))?))
            };
            figures.points().filter_map(row).max_by(|a, b| a.0.total_cmp(&b.0))
        };
        let (slow, middle) = slow_of(&whole, name).zip(middle_of(&whole, name)).or_else(rows)?;
        (middle > 0.0).then_some((slow, middle, name))
    })
}

fn from_figures(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    if let Some((why, rows)) = smaller_chunk_helps(situation).or_else(|| smaller_chunk_row(&evidence.figures)) {
        return Answer::Found(Box::new(typed(situation, &why, rows)));
    }
    let (prefill_step, decode_step) =
        (evidence.figures.get("engine.step_time{phase=\"prefill\"}"), evidence.figures.get("engine.step_time{phase=\"decode\"}"));
    let spread = uneven(&evidence.figures);
    let ratio =
        spread.map(|(slow, middle, _)| slow / middle).or_else(|| prefill_step.zip(decode_step).map(|(prefill, decode)| prefill / decode));
    let Some(ratio) = ratio else {
        return Answer::CannotTell(record::client(&["client.itl.p99", "client.itl.p50"], "nothing says how even the tokens come", None));
    };
    if ratio < UNEVEN {
        return clear(vec![("slow_over_typical_gap", ratio)], format!("the slowest gaps are {} times the typical one", digits(ratio)));
    }
    let Some(prompts) = long_prompts(situation, spread.map(|(slow, ..)| slow), ratio) else {
        return Answer::CannotTell(record::client(
            &["server.prompt_tokens", "server.prefill_time", "config.max_num_batched_tokens"],
            format!("the slowest gaps are {} times the typical one; whether prompts cause them is not told", digits(ratio)),
            None,
        ));
    };
    let (slow, middle, name) = spread.unwrap_or((prefill_step.unwrap_or(0.0), decode_step.unwrap_or(0.0), "engine.step_time"));
    let why = format!("tokens come every {}, the slowest gaps take {}, and {prompts}", seconds(middle), seconds(slow));
    let rows =
        vec![figure(&format!("{name}, slow end"), slow, "s", "as given"), figure(&format!("{name}, typical"), middle, "s", "as given")];
    Answer::Found(Box::new(typed(situation, &why, rows)))
}

/// Long prompts enter steps in large pieces, by settings and lengths, or by a prefill as long as the gap.
fn long_prompts(situation: &Situation<'_>, slow_s: Option<f64>, ratio: f64) -> Option<String> {
    let evidence = situation.evidence;
    let prompt = evidence.figures.highest("server.prompt_tokens");
    let chunk = chunk(evidence);
    let whole = evidence.settings.flag("config.chunked_prefill") == Some(false);
    let prefill_s = evidence.figures.highest("server.prefill_time");
    // The gap is a prefill: as long as one, give or take what a mean hides.
    if let Some((prefill, _)) = prefill_s.zip(slow_s).filter(|(prefill, slow)| (0.4..=1.6).contains(&(slow / prefill))) {
        return Some(format!("a prompt takes {} to compute", seconds(prefill)));
    }
    let long = prompt.is_some_and(|prompt| prompt >= LONG_PROMPT * SHARED_CHUNK_TOKENS);
    let large = whole || chunk.is_some_and(|chunk| chunk >= LONG_PROMPT * SHARED_CHUNK_TOKENS);
    (long && large && ratio >= FAR_APART).then(|| {
        let pieces = if whole { "whole".to_string() } else { format!("in pieces of up to {}", count(chunk.unwrap_or(0.0))) };
        format!("prompts of {} tokens are computed {pieces}", count(prompt.unwrap_or(0.0)))
    })
}

/// Another arm with a smaller chunk has clearly shorter slow gaps.
fn smaller_chunk_helps(situation: &Situation<'_>) -> Option<(String, Vec<Row>)> {
    let here = situation.evidence;
    let (slow, _, name) = uneven(&here.figures)?;
    let arm = situation.other_arms().find(|arm| {
        let budget = numbers(here, arm, "config.max_num_batched_tokens").is_some_and(|(mine, theirs)| theirs < mine);
        let threshold = arm.settings.number("config.long_prefill_token_threshold").is_some_and(|theirs| {
            theirs > 0.0 && here.settings.number("config.long_prefill_token_threshold").is_none_or(|mine| mine <= 0.0 || mine > theirs)
        });
        let chunked =
            here.settings.flag("config.chunked_prefill") == Some(false) && arm.settings.flag("config.chunked_prefill") == Some(true);
        let better = uneven(&arm.figures).is_some_and(|(theirs, _, other)| other == name && slow >= RUN_SPREAD * theirs);
        better && (budget || threshold || chunked)
    })?;
    let (theirs, ..) = uneven(&arm.figures)?;
    let why = format!(
        "with prompts in smaller pieces the slowest gaps take {} instead of {} (\"{}\")",
        seconds(theirs),
        seconds(slow),
        arm.run_name
    );
    Some((why, vec![figure(name, slow, "s", "this arm, slow end"), figure(name, theirs, "s", &arm.run_name)]))
}

/// A sweep over the chunk in which the slowest gaps shrink with it.
fn smaller_chunk_row(figures: &Figures) -> Option<(String, Vec<Row>)> {
    const SLOW: [&str; 4] = ["client.itl.p99", "server.itl.p99", "client.itl.max", "client.tpot.p99"];
    SLOW.iter().find_map(|name| {
        let row = |point: &Point| {
            let chunk = ["config.max_num_batched_tokens", "config.long_prefill_token_threshold"].iter().find_map(|key| point.typical(key));
            Some((chunk.filter(|&chunk| chunk > 0.0)?, point.get(name)?))
        };
        let mut rows: Vec<(f64, f64)> = figures.points().filter_map(row).collect();
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (&(small, least), &(large, most)) = rows.first().zip(rows.last())?;
        (large > small && most >= UNEVEN * least).then(|| {
            let why = format!(
                "with prompts in pieces of {} instead of {} tokens the slowest gaps take {} instead of {}",
                count(small),
                count(large),
                seconds(least),
                seconds(most)
            );
            (why, vec![figure(name, most, "s", "the largest pieces"), figure(name, least, "s", "the smallest pieces")])
        })
    })
}

/// The mean gap beyond the median one is what uneven gaps cost, where both are given.
fn typed(situation: &Situation<'_>, why: &str, rows: Vec<Row>) -> Found {
    let figures = &situation.evidence.figures;
    let mean = ["client.itl.mean", "client.tpot.mean", "server.tpot.mean", "server.itl.mean"].iter().find_map(|name| figures.get(name));
    let median = ["client.itl.p50", "server.itl.p50"].iter().find_map(|name| figures.get(name));
    let share = mean.zip(median).map_or(0.0, |(mean, median)| 1.0 - median / mean);
    let claim = Claim { phase: Phase::Decode, what: Extent::Fraction { lo: 0.6 * share, mid: share, hi: share }, basis: Basis::Typed };
    let sized = share >= EXCESS_SHARE && situation.phase_s(Phase::Decode) > 0.0;
    let claims = if sized { vec![claim] } else { Vec::new() };
    let slow = uneven(figures).map(|(slow, ..)| slow);
    let itl = Movement::new("client.itl.p99", "ITL p99", "s", Direction::Down, slow)
        .refused("falls to the step with the smaller chunk: its time was not given");
    Found { claims, ..found(situation, why, rows, itl, SHARED_CHUNK_TOKENS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_upto_a_time_need_no_scan() {
        let upto = Upto::new(vec![(30, 3.0), (10, 1.0), (20, 2.0)]);
        assert_eq!((upto.count(20), upto.tokens(20), upto.tokens(9), upto.tokens(99)), (2, 3.0, 0.0, 6.0));
    }
}
