//! Too little KV cache for the load: requests wait for blocks although nobody is pushed out.
//!
//! The rule of thumb (weights above 80 % of device memory) accuses nobody here: a small cache is short only of a load
//! that does not fit. Requests that are pushed out belong to `kv_thrash`.

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Hypothesis, Quantity};
use crate::decode_bound::DecodeBound;
use crate::gates::{Gate, KV_NEAR_FULL, at_cap};
use crate::phase::Phase;
use crate::predict::Movement;
use crate::readings::{counted, left_out, offered, peak, preemptions, tokens_per_request};
use crate::record;
use crate::remedy::{self, throughput_stays};
use crate::situation::Situation;
use crate::words::{count, digits, percent, seconds};

check! {
    /// The KV cache holds fewer requests than are offered: the next one waits for blocks.
    ///
    /// ## Why it costs time
    /// Weights, workspaces and graphs take their part of the device first, the KV cache gets what is left. Where that holds
    /// fewer requests than are offered, the rest queue although seats are free and steps have room.
    ///
    /// ## How to confirm
    /// `kv.usage` stands near 1 while `engine.waiting` is above 0 and `engine.running` is below the seat limit. Without a
    /// timeline: cache tokens over tokens per request is less than the requests offered at once.
    ///
    /// ## Fix
    /// More tokens in the same memory (FP8 KV cache, quantized weights), more memory (a larger share, one more device for
    /// the weights), or fewer requests at once. The cache grows by a computed amount and the queue by blocks ends.
    ///
    /// ## When this is wrong
    /// Seats are full first (`batch_cap_reached`); running requests are pushed out (`kv_thrash`); the cache is full of
    /// reservations that nobody fills (`kv_over_reservation`); a device at its limit would not serve more anyway.
    id: "kv_capacity_short", layer: Memory, rank: 102, phases: [Queue], bound: "memory", validated_on: "typed", run: find,
}

/// The gate must hold at least this share of the queue (attribution, section 6).
const GATE_SHARE: f64 = 0.5;
/// Weights above this share of device memory leave little to the cache; a sign only beside requests that wait.
const HEAVY_WEIGHTS: f64 = 0.8;
/// Fewer requests fit than are offered by more than this factor: below it, lengths that vary decide.
const CLEARLY: f64 = 1.1;

fn find(situation: &Situation<'_>) -> Answer {
    if situation.evidence.has_timeline() { from_timeline(situation) } else { from_figures(situation) }
}

fn from_timeline(situation: &Situation<'_>) -> Answer {
    let gates = &situation.gates;
    if gates.waited_s <= 0.0 {
        return clear(vec![("waiting_max", 0.0)], "nobody waited at any scrape");
    }
    let Some(usage) = situation.load.kv_usage_max else {
        let most = situation.phase_s(Phase::Queue) * (1.0 - gates.share(Gate::SeqCap));
        return Answer::CannotTell(record::scrapes(&["kv.usage"], "requests wait, and how full the cache is was not scraped", Some(most)));
    };
    let waiting: Vec<_> = gates.stretches(Gate::Kv).into_iter().filter(|stretch| !stretch.preempted).collect();
    let share = waiting.iter().map(|stretch| stretch.waited_s).sum::<f64>() / gates.waited_s;
    if share < GATE_SHARE {
        return clear(
            vec![("gate_share", share), ("kv_usage_max", usage)],
            format!(
                "blocks were the gate, with nobody pushed out, in {} of the waiting; usage peaks at {}",
                percent(share),
                percent(usage)
            ),
        );
    }
    let what = if situation.load.engine_count <= 1 {
        Extent::Intervals(waiting.iter().map(|stretch| (stretch.t_start_ns, stretch.t_end_ns)).collect())
    } else {
        Extent::exactly(share)
    };
    let claims = if situation.account.is_empty() { Vec::new() } else { vec![Claim { phase: Phase::Queue, what, basis: Basis::Derived }] };
    let queue_s = share * situation.phase_s(Phase::Queue);
    let why = format!("KV usage reaches {} in {} of the waiting", percent(usage), percent(share));
    Answer::Found(Box::new(found(situation, &why, claims, queue_s)))
}

fn from_figures(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    if let Some((preempted, _)) = preemptions(situation).filter(|(preempted, _)| *preempted > 0.0) {
        return clear(
            vec![("preemptions", preempted)],
            format!("{} requests were pushed out: the shortage shows as recomputed work, not as a queue alone", count(preempted)),
        );
    }
    let (usage, seats) = (situation.load.kv_usage_max, situation.load.seats);
    let running = situation.load.running_max;
    let seats_full = seats.is_some_and(|seats| running > 0.0 && at_cap(running, seats));
    let failures = counted(evidence, "kv.alloc_failures").filter(|&failures| failures > 0.0);
    let full = usage.filter(|&usage| usage >= KV_NEAR_FULL);
    let why = match (full, left_out(situation)) {
        (Some(usage), Some(out)) if !seats_full => {
            Some(format!("KV usage is {} while {} requests are left out", percent(usage), count(out)))
        }
        (Some(usage), None) if failures.is_some() => Some(format!("KV usage is {} and allocations fail", percent(usage))),
        _ => None,
    };
    if let Some(usage) = usage.filter(|&usage| usage < KV_NEAR_FULL) {
        return clear(vec![("kv_usage_max", usage)], format!("KV usage is at most {}: blocks are free", percent(usage)));
    }
    if seats_full {
        return clear(vec![("running_max", running)], "every seat is taken: the seats refuse the next request, not the cache");
    }
    let by_size = by_size(situation);
    match (why, by_size) {
        (Some(why), _) => Answer::Found(Box::new(found(situation, &why, claims(situation), situation.claimable_s(Phase::Queue)))),
        (None, Some(Fit { fits, offered, .. })) if offered <= fits * CLEARLY => clear(
            vec![("requests_that_fit", fits), ("requests_offered", offered)],
            format!("{} requests fit, {} are offered", digits(fits), count(offered)),
        ),
        (None, Some(fit)) => Answer::Found(Box::new(found(situation, &fit.text(), claims(situation), situation.claimable_s(Phase::Queue)))),
        (None, None) => heavy_weights(situation),
    }
}

/// Requests that the cache holds against those offered at once.
struct Fit {
    fits: f64,
    offered: f64,
    tokens: f64,
    capacity: f64,
    from: &'static str,
}

impl Fit {
    fn text(&self) -> String {
        format!(
            "{} cache tokens ({}) hold {} requests of {} tokens, {} are offered",
            count(self.capacity),
            self.from,
            digits(self.fits),
            count(self.tokens),
            count(self.offered)
        )
    }
}

fn by_size(situation: &Situation<'_>) -> Option<Fit> {
    // What requests share is held once.
    let shared = situation.evidence.figures.anywhere("server.cached_tokens").unwrap_or(0.0);
    let tokens = (tokens_per_request(situation)? - shared).max(1.0);
    let (capacity, from) = capacity(situation)?;
    let offered = offered(situation.evidence).or_else(|| Some(situation.load.running_max + left_out(situation)?))?;
    // Requests that never reach the cache because the seats are fewer are not the cache's.
    let offered = situation.load.seats.map_or(offered, |seats| offered.min(seats));
    // Who all run fit, whatever the arithmetic says.
    if situation.load.running_max >= offered && situation.load.waiting_max <= 0.0 {
        return None;
    }
    Some(Fit { fits: capacity / tokens, offered, tokens, capacity, from })
}

/// Cache tokens: as stated, else bytes over bytes per token, else what the weights leave.
fn capacity(situation: &Situation<'_>) -> Option<(f64, &'static str)> {
    let evidence = situation.evidence;
    if let Some(tokens) = situation.load.kv_capacity_tokens.or_else(|| peak(evidence, "kv.capacity")) {
        return Some((tokens, "as the engine says"));
    }
    let per_token = evidence.figures.anywhere("model.kv_bytes_per_token").filter(|&bytes| bytes > 0.0)?;
    if let Some(bytes) = evidence.figures.anywhere("kv.capacity_bytes") {
        return Some((bytes / per_token, "its bytes over bytes per token"));
    }
    let ranks = evidence.settings.number("config.tensor_parallel").unwrap_or(1.0).max(1.0);
    let share = evidence.settings.number("config.gpu_memory_utilization").unwrap_or(0.9);
    let left = ranks * share * memory(situation)? - weights(situation)?;
    (left > 0.0).then_some((left / per_token, "memory less weights"))
}

fn memory(situation: &Situation<'_>) -> Option<f64> {
    let evidence = situation.evidence;
    let device = if evidence.device.is_empty() { &situation.subject.device } else { &evidence.device };
    evidence.figures.anywhere("gpu.memory_total").or_else(|| Some(model::hardware::find(device)?.memory_bytes as f64))
}

fn weights(situation: &Situation<'_>) -> Option<f64> {
    let figures = &situation.evidence.figures;
    let ranks = situation.evidence.settings.number("config.tensor_parallel").unwrap_or(1.0).max(1.0);
    let typed = figures.anywhere("model.weight_bytes");
    typed.or_else(|| Some(ranks * DecodeBound::read(situation.subject, situation.evidence)?.weight_bytes))
}

/// Weights that leave little, requests that wait below the seat limit, and nothing that says how full the cache is.
fn heavy_weights(situation: &Situation<'_>) -> Answer {
    let ranks = situation.evidence.settings.number("config.tensor_parallel").unwrap_or(1.0).max(1.0);
    let share = weights(situation).zip(memory(situation)).map(|(weights, memory)| weights / (ranks * memory));
    let waits = situation.load.waiting_max > 0.0;
    match share.filter(|share| (HEAVY_WEIGHTS..1.0).contains(share)) {
        Some(share) if waits => {
            let why = format!("weights take {} of the device and {} requests wait", percent(share), count(situation.load.waiting_max));
            Answer::Found(Box::new(found(situation, &why, Vec::new(), 0.0)))
        }
        _ => Answer::CannotTell(record::scrapes(
            &["kv.usage", "engine.waiting", "kv.capacity"],
            "nothing says how full the cache is, or how many requests it holds of how many offered",
            None,
        )),
    }
}

/// Where requests wait for blocks, most of the wait before the first token is that; how much is not told.
fn claims(situation: &Situation<'_>) -> Vec<Claim> {
    if situation.claimable_s(Phase::Queue) <= 0.0 {
        return Vec::new();
    }
    let (lo, basis) = if situation.phase_s(Phase::Queue) > 0.0 { (0.5, Basis::Typed) } else { (0.3, Basis::Bound) };
    vec![Claim { phase: Phase::Queue, what: Extent::Fraction { lo, mid: 0.9, hi: 1.0 }, basis }]
}

fn found(situation: &Situation<'_>, why: &str, claims: Vec<Claim>, queue_s: f64) -> Found {
    let mut rows = Vec::new();
    let mut row =
        |name: &str, value: Option<f64>, unit: &str| rows.extend(value.map(|value| figure(name, value, unit, "scrapes or as given")));
    row("kv.usage.max", situation.load.kv_usage_max, "ratio");
    row("engine.running.max", Some(situation.load.running_max).filter(|&running| running > 0.0), "request");
    row("engine.waiting.max", Some(situation.load.waiting_max).filter(|&waiting| waiting > 0.0), "request");
    row("kv.capacity", capacity(situation).map(|(tokens, _)| tokens), "token");
    row("tokens per request", tokens_per_request(situation), "token");
    let wait = if queue_s > 0.0 { format!(", and they wait up to {}", seconds(queue_s)) } else { String::new() };
    Found {
        summary: why.to_string(),
        sentence: format!("The KV cache is too small for what is offered: {why}{wait}."),
        cost: (queue_s > 0.0 && !claims.is_empty()).then(|| Quantity { value: queue_s, unit: "s".into() }),
        claims,
        evidence: rows,
        hypotheses: vec![half_the_bytes(situation), fewer_bytes_of_weights(situation)],
        falsified_by: "free blocks at a moment with requests waiting".into(),
        ..Found::default()
    }
}

fn queue_falls(situation: &Situation<'_>) -> Movement {
    let queue_s = situation.phase_s(Phase::Queue);
    let movement = Movement::new("server.queue_time.mean", "queue", "s", Direction::Down, (queue_s > 0.0).then_some(queue_s));
    if queue_s > 0.0 {
        movement.to(0.0, 0.5 * queue_s, "twice the requests fit: those that waited for blocks run")
    } else {
        movement.refused("the queue was not measured by itself: direction only")
    }
}

fn half_the_bytes(situation: &Situation<'_>) -> Hypothesis {
    let capacity_now = capacity(situation).map(|(tokens, _)| tokens);
    let mut capacity = Movement::new("kv.capacity", "cache", "token", Direction::Up, capacity_now);
    if let Some(tokens) = capacity_now {
        capacity = capacity.to(1.9 * tokens, 2.0 * tokens, "half the bytes per token");
    }
    remedy::setting(situation, "kv_dtype", "fp8")
        .moves(queue_falls(situation))
        .guards(throughput_stays(situation))
        .guards(capacity)
        .risk("FP8 KV may cost accuracy: check an evaluation", "an evaluation falls, or the queue stays")
        .build()
}

fn fewer_bytes_of_weights(situation: &Situation<'_>) -> Hypothesis {
    remedy::setting(situation, "tensor_parallel", "twice as many devices")
        .saying("weights in fewer bytes (FP8, 4 bit), or over twice the devices: what they free becomes cache")
        .moves(queue_falls(situation))
        .guards(throughput_stays(situation))
        .risk("quantized weights may cost accuracy, devices cost money and communication", "time per token grows more than the queue falls")
        .build()
}
