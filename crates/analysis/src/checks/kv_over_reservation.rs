//! Cache reserved for lengths that nobody sends: slots and pools that stand empty while requests wait.
//!
//! Engines with paged allocation reserve nothing for `max_model_len`; a large value there accuses nobody. This is about
//! engines and policies that do reserve: fixed slots, contiguous pools, admission for the longest possible output.

use crate::arms::load_differs;
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Evidence as Row};
use crate::contrast::{better_arm, numbers, texts};
use crate::gates::KV_NEAR_FULL;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::readings::{left_out, offered, peak, tokens_per_request};
use crate::record;
use crate::remedy::{self, throughput_stays};
use crate::situation::Situation;
use crate::words::{count, digits, percent};

check! {
    /// KV cache is reserved for lengths far beyond what requests use, so fewer requests run than would fit.
    ///
    /// ## Why it costs time
    /// An engine that sets aside the whole context for each slot, or admits a request only when its longest possible output
    /// fits, holds memory that is never written. What is reserved and unused is concurrency lost: requests wait although
    /// their real tokens would fit many times over.
    ///
    /// ## How to confirm
    /// Requests in flight times the reserved length is about the whole cache, while the tokens they really hold are half of
    /// it or less, and others wait. A run with a smaller reservation runs more at once.
    ///
    /// ## Fix
    /// Reserve what requests use: a smaller context per slot, more slots from the same cache, a shorter output limit, an
    /// admission policy that grows with the tokens written.
    ///
    /// ## When this is wrong
    /// Paged engines (vLLM, SGLang) with a large `max_model_len`; an honest shortage, where what is reserved is also filled
    /// (`kv_capacity_short`); seats that are few for another reason (`batch_cap_reached`).
    id: "kv_over_reservation", layer: Memory, rank: 100, phases: [Queue], bound: "logic", validated_on: "typed", run: find,
}

/// From half unused on, as many requests again would fit.
const UNUSED: f64 = 0.5;
/// Requests in flight explain the cache by their reservations when both agree this closely: allocators round.
const AGREES: std::ops::RangeInclusive<f64> = 0.8..=1.05;

/// How the reservation shows.
struct Reserved {
    unused: f64,
    why: String,
    rows: Vec<Row>,
    basis: Basis,
}

fn find(situation: &Situation<'_>) -> Answer {
    if situation.evidence.has_timeline() && situation.gates.waited_s <= 0.0 {
        return clear(vec![("waiting_max", 0.0)], "nobody waited at any scrape: no reservation kept a request out");
    }
    if let Some(reserved) = stated(situation).or_else(|| slots(situation)).or_else(|| arms(situation)) {
        return Answer::Found(Box::new(found(situation, reserved)));
    }
    if let Some(unused) = unused(situation).filter(|&unused| unused < UNUSED) {
        return clear(vec![("reserved_unused", unused)], format!("{} of what is reserved is unused", percent(unused)));
    }
    if is_paged(situation) {
        return clear(
            vec![],
            format!("{} allocates its cache in pages as tokens are written: it reserves no length", situation.subject.engine),
        );
    }
    let at_most = situation.evidence.has_timeline().then(|| situation.phase_s(Phase::Queue));
    Answer::CannotTell(record::scrapes(
        &["kv.reserved_unused", "kv.capacity", "engine.running", "config.max_model_len"],
        "nothing says what the cache reserves per request",
        at_most,
    ))
}

/// Engines that hand out the cache page by page.
fn is_paged(situation: &Situation<'_>) -> bool {
    ["vllm", "sglang", "lmdeploy"].iter().any(|engine| situation.subject.engine.starts_with(engine))
        && situation.evidence.settings.get("config.capacity_policy").is_none()
}

fn unused(situation: &Situation<'_>) -> Option<f64> {
    peak(situation.evidence, "kv.reserved_unused")
}

/// The share that is reserved and never filled, as somebody measured it.
fn stated(situation: &Situation<'_>) -> Option<Reserved> {
    let unused = unused(situation).filter(|&unused| unused >= UNUSED)?;
    let out = left_out(situation);
    let complained =
        out.is_some() || situation.claimable_s(Phase::Queue) > 0.0 || offered(situation.evidence).is_some() || stated_plateau(situation);
    let left = out.map_or_else(String::new, |out| format!(", while {} requests are left out", count(out)));
    complained.then(|| Reserved {
        unused,
        why: format!("{} of the reserved cache is never filled{left}", percent(unused)),
        rows: vec![figure("kv.reserved_unused", unused, "ratio", "as given")],
        basis: Basis::Typed,
    })
}

fn stated_plateau(situation: &Situation<'_>) -> bool {
    matches!(situation.subject.stated_symptom.as_str(), "throughput_plateau" | "high_ttft")
}

/// Running times reserved length is the cache: the reservation, not the tokens, is what runs out.
fn slots(situation: &Situation<'_>) -> Option<Reserved> {
    if is_paged(situation) {
        return None;
    }
    let reserved = situation.evidence.settings.number("config.max_model_len")?;
    let tokens = tokens_per_request(situation)?;
    let unused = 1.0 - tokens / reserved;
    let running = Some(situation.load.running_max).filter(|&running| running > 0.0).or(situation.load.seats)?;
    let capacity = situation.load.kv_capacity_tokens.or_else(|| peak(situation.evidence, "kv.capacity"))?;
    let out = left_out(situation).or_else(|| offered(situation.evidence).map(|offered| offered - running)).filter(|&out| out > 0.0)?;
    let explained = running * reserved / capacity;
    // One more reservation must not fit: else something else keeps the next request out.
    let is_full = AGREES.contains(&explained) || (explained < 1.0 && (running + 1.0) * reserved > capacity);
    (unused >= UNUSED && is_full).then(|| Reserved {
        unused,
        why: format!(
            "{} requests reserve {} tokens each, all of the cache, and fill {}; {} are left out",
            count(running),
            count(reserved),
            count(tokens),
            count(out)
        ),
        rows: vec![
            figure("config.max_model_len", reserved, "token", &situation.setting_origin("config.max_model_len")),
            figure("tokens per request", tokens, "token", "prompt and output"),
            figure("reserved and unused", unused, "ratio", "1 - tokens / reserved"),
        ],
        basis: Basis::Typed,
    })
}

/// An arm that reserves less and serves more.
fn arms(situation: &Situation<'_>) -> Option<Reserved> {
    let here = situation.evidence;
    let reserves_less = |arm: &crate::evidence::Evidence| {
        let length = numbers(here, arm, "config.max_model_len").is_some_and(|(mine, theirs)| mine >= 2.0 * theirs);
        let policy = texts(here, arm, "config.capacity_policy").is_some_and(|(mine, theirs)| {
            mine.to_ascii_uppercase().contains("NO_EVICT") && theirs.to_ascii_uppercase().contains("UTILIZATION")
        });
        length || policy
    };
    let better = better_arm(situation, reserves_less).filter(|better| better.quantity.contains("throughput"))?;
    // More at once is how a smaller reservation serves more; where running is stated it must show there.
    let runs_more = peak(here, "engine.running").zip(peak(better.arm, "engine.running")).is_none_or(|(mine, theirs)| theirs > mine);
    let room = situation.load.kv_usage_max.is_none_or(|usage| usage >= KV_NEAR_FULL) || left_out(situation).is_some();
    (runs_more && room && !load_differs(here, better.arm)).then(|| Reserved {
        unused: better.saved(),
        why: format!("an arm that reserves less serves {} times as much ({})", digits(better.ratio), better.text()),
        rows: vec![figure(better.quantity, better.here, "", "this arm"), figure(better.quantity, better.there, "", &better.arm.run_name)],
        basis: Basis::Typed,
    })
}

fn found(situation: &Situation<'_>, reserved: Reserved) -> Found {
    let Reserved { unused, why, rows, basis } = reserved;
    let claim = Claim { phase: Phase::Queue, what: Extent::Fraction { lo: 0.5 * unused, mid: unused, hi: 1.0 }, basis };
    let running = Some(situation.load.running_max).filter(|&running| running > 0.0);
    let mut more = Movement::new("engine.running.max", "running", "request", Direction::Up, running);
    if let Some(running) = running {
        let fits = running / (1.0 - unused).max(0.01);
        let offered = offered(situation.evidence).unwrap_or(fits).max(running + 1.0);
        more = more.to(running + 1.0, fits.min(offered).max(running + 1.0), "the cache over the tokens that requests really hold");
    } else {
        more = more.refused("how many run was not given: direction only");
    }
    let length = tokens_per_request(situation).map_or_else(|| "what requests use".to_string(), |tokens| count(1.5 * tokens));
    let hypothesis = remedy::setting(situation, "max_model_len", length.clone())
        .saying(format!("reserve {length} tokens per request: a smaller context per slot, or more slots from the same cache"))
        .moves(more)
        .guards(throughput_stays(situation))
        .risk("a request longer than the reservation is refused or cut", "long requests fail")
        .build();
    Found {
        summary: why.clone(),
        sentence: format!("The KV cache is reserved for lengths nobody sends: {why}."),
        claims: if situation.claimable_s(Phase::Queue) > 0.0 { vec![claim] } else { Vec::new() },
        evidence: rows,
        hypotheses: vec![hypothesis],
        falsified_by: "as many requests at once after the reservation was halved".into(),
        ..Found::default()
    }
}
