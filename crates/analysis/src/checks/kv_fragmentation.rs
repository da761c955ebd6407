//! Free tokens that cannot be used: blocks larger than what fills them, or holes no request fits into.

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Evidence as Row};
use crate::gates::{Gate, KV_NEAR_FULL};
use crate::phase::Phase;
use crate::predict::Movement;
use crate::readings::{counted, left_out, peak, preemptions, tokens_per_request};
use crate::record;
use crate::remedy::{self, throughput_stays};
use crate::situation::Situation;
use crate::words::{count, digits, percent};

check! {
    /// Free KV cache cannot be used: it is in pieces, or in the unfilled ends of large blocks.
    ///
    /// ## Why it costs time
    /// A sequence fills its last block half on average. Where blocks are as large as the sequences are long, that half is a
    /// large part of the cache. Without pages, free memory lies in holes between requests and none is large enough. In both
    /// cases requests wait, or are pushed out, beside free tokens.
    ///
    /// ## How to confirm
    /// Allocations fail or requests are preempted while `kv.free` exceeds what the next request needs; or (block size - 1) / 2
    /// is more than half of the tokens a sequence holds.
    ///
    /// ## Fix
    /// Smaller blocks, paged allocation, or a defragmenting pool. The usable share rises to 1 - (block - 1) / 2 over the mean
    /// length, and as many more requests run.
    ///
    /// ## When this is wrong
    /// A cache that is full of filled blocks (`kv_capacity_short`, `kv_thrash`); reservations nobody fills
    /// (`kv_over_reservation`); a usage gauge that was sampled after the blocks were freed.
    id: "kv_fragmentation", layer: Memory, rank: 101, phases: [Queue], bound: "logic", validated_on: "typed", run: find,
}

/// Last-block waste above this share of the mean held length is material (attribution, section 0.12).
const WASTE: f64 = 0.5;
/// Free room must exceed the next request's need by this factor, so that sampling does not explain it.
const CLEAR_ROOM: f64 = 2.0;
/// A cache that holds more requests than this side by side is not what limits a batch that reads the weights once for all.
const SIDE_BY_SIDE: f64 = 16.0;
/// Preempted over finished requests from which preemption recurs (attribution, section 6).
const PREEMPTED_SHARE: f64 = 0.02;

fn find(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    let timeline = evidence.has_timeline();
    let pushed_out = preempted(situation);
    let failures = counted(evidence, "kv.alloc_failures").filter(|&failures| failures > 0.0);
    let refused = failures.is_some() || pushed_out.is_some();
    if timeline && !refused && situation.gates.share(Gate::Kv) <= 0.0 {
        return clear(vec![("kv_gate_share", 0.0)], "no request was refused for want of blocks");
    }
    if let Some((free, need)) = room(situation).filter(|(free, need)| *free >= CLEAR_ROOM * need)
        && refused
    {
        let what = failures.map_or_else(
            || format!("{} requests are pushed out", count(pushed_out.unwrap_or(0.0))),
            |failures| format!("{} allocations fail", count(failures)),
        );
        let why = format!("{what} while {} tokens are free and a request needs {}", count(free), count(need));
        let rows = vec![figure("free tokens", free, "token", "as given"), figure("tokens per request", need, "token", "as given")];
        return Answer::Found(Box::new(found(situation, &why, rows, (0.3, 0.9))));
    }
    if let Some((why, rows)) = pinned(situation).filter(|_| !timeline) {
        return Answer::Found(Box::new(found(situation, &why, rows, (0.3, 0.9))));
    }
    let waste = waste(situation);
    let short = refused || situation.gates.share(Gate::Kv) > 0.0 || is_full(situation);
    match waste {
        Some((block, waste)) if waste > WASTE && short => {
            let why = format!("blocks of {} tokens stand half empty: {} of what a request holds is waste", count(block), percent(waste));
            let rows = vec![
                figure("block size", block, "token", "as given"),
                figure("last-block waste over tokens held", waste, "ratio", "(block - 1) / 2"),
            ];
            let lost = waste / (1.0 + waste);
            Answer::Found(Box::new(found(situation, &why, rows, (0.5 * lost, lost))))
        }
        Some((block, waste)) if waste <= WASTE => clear(
            vec![("waste_over_held", waste)],
            format!("the last of its blocks of {} wastes {} of what a request holds", count(block), percent(waste)),
        ),
        _ if timeline => clear(vec![], "the cache was short of blocks, not of usable ones: nothing shows free tokens beside it"),
        _ => Answer::CannotTell(record::scrapes(
            &["kv.free", "kv.alloc_failures", "kv.block_size"],
            "nothing says whether free cache could be used",
            None,
        )),
    }
}

/// Preempted requests where they recur.
fn preempted(situation: &Situation<'_>) -> Option<f64> {
    let (preempted, finished) = preemptions(situation)?;
    (preempted > 0.0 && (finished <= 0.0 || preempted / finished >= PREEMPTED_SHARE)).then_some(preempted)
}

fn is_full(situation: &Situation<'_>) -> bool {
    situation.load.kv_usage_max.is_some_and(|usage| usage >= KV_NEAR_FULL) && left_out(situation).is_some()
}

/// Free tokens at the fullest moment, and what the next request needs.
fn room(situation: &Situation<'_>) -> Option<(f64, f64)> {
    let evidence = situation.evidence;
    let need = tokens_per_request(situation)?;
    let stated = evidence.figures.lowest("kv.free").or_else(|| evidence.figures.anywhere("kv.free"));
    let by_usage = || {
        let capacity = situation.load.kv_capacity_tokens.or_else(|| peak(evidence, "kv.capacity"))?;
        Some((1.0 - situation.load.kv_usage_max.filter(|&usage| usage < KV_NEAR_FULL)?) * capacity)
    };
    Some((stated.or_else(by_usage)?, need))
}

/// What a running request holds of the cache against what its tokens need in blocks of the stated size. The size of cache
/// and block may stand in another arm: they are the server's. Fewer than `SIDE_BY_SIDE` such requests must fill it, so that
/// the waste is what keeps others out.
fn pinned(situation: &Situation<'_>) -> Option<(String, Vec<Row>)> {
    let here = situation.evidence;
    let of_server = |name: &str| {
        let own = peak(here, name).or_else(|| here.settings.number(name));
        own.or_else(|| situation.other_arms().find_map(|arm| peak(arm, name).or_else(|| arm.settings.number(name))))
    };
    let running = here.figures.typical("engine.running").filter(|&running| running >= 1.0)?;
    let usage = here.figures.typical("kv.usage").filter(|&usage| usage > 0.0)?;
    let capacity = of_server("kv.capacity")?;
    let block = of_server("kv.block_size").or_else(|| of_server("config.block_size"))?;
    let need = tokens_per_request(situation)?;
    let held = usage * capacity / running;
    let rounded = (need / block).ceil().max(1.0) * block;
    // Blocks larger than the request, and several of them per request: its length does not matter to the cache.
    let is_waste = block > need && held >= CLEAR_ROOM * need && held >= 0.9 * rounded && capacity / held <= SIDE_BY_SIDE;
    is_waste.then(|| {
        let why = format!(
            "a request of {} tokens holds {} ({} of the cache) in blocks of {}: {} of any length fill it",
            count(need),
            count(held),
            percent(held / capacity),
            count(block),
            digits(capacity / held)
        );
        let rows = vec![
            figure("tokens held per request", held, "token", "usage x capacity / running"),
            figure("tokens per request", need, "token", "as given"),
            figure("block size", block, "token", "as given"),
        ];
        (why, rows)
    })
}

/// Block size and its expected waste over the tokens a sequence holds on average.
fn waste(situation: &Situation<'_>) -> Option<(f64, f64)> {
    let evidence = situation.evidence;
    let scraped = evidence.engines.values().find_map(|engine| engine.series("kv.block_size")).map(crate::evidence::Series::max);
    let block = scraped
        .or_else(|| evidence.figures.anywhere("kv.block_size"))
        .or_else(|| evidence.settings.number("config.block_size"))
        .filter(|&block| block >= 1.0)?;
    let output = situation.load.output_tokens.unwrap_or(0.0);
    let held = tokens_per_request(situation)? - 0.5 * output;
    Some((block, 0.5 * (block - 1.0) / held.max(1.0)))
}

fn found(situation: &Situation<'_>, why: &str, rows: Vec<Row>, (lo, mid): (f64, f64)) -> Found {
    let claim = Claim { phase: Phase::Queue, what: Extent::Fraction { lo, mid, hi: 1.0 }, basis: Basis::Bound };
    let running = Some(situation.load.running_max).filter(|&running| running > 0.0);
    let more = Movement::new("engine.running.max", "running", "request", Direction::Up, running).refused(&format!(
        "up to {} times as many by the share that becomes usable: a bound, not a forecast",
        digits(1.0 / (1.0 - mid).max(0.1))
    ));
    let hypothesis = remedy::setting(situation, "block_size", "16")
        .saying("smaller blocks or paged allocation, so that free tokens can be used")
        .moves(more)
        .guards(throughput_stays(situation))
        .risk("smaller blocks cost more bookkeeping per step and finer prefix matches more memory", "time per token rises")
        .build();
    Found {
        summary: why.to_string(),
        sentence: format!("The KV cache is fragmented: {why}."),
        claims: if situation.claimable_s(Phase::Queue) > 0.0 { vec![claim] } else { Vec::new() },
        evidence: rows,
        hypotheses: vec![hypothesis],
        falsified_by: "allocations that fail only when no token is free".into(),
        ..Found::default()
    }
}
