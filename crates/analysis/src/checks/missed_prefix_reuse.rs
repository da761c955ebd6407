//! Prompt work that was done before: the workload offers reuse, the server does not take it.
//!
//! It needs a bound of what could be reused: typed, from another arm, or from a baseline. Without one nothing is accused.

use crate::check::{Answer, Found, Missing, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Evidence as Row, Hypothesis, Quantity};
use crate::contrast::{Contrast, better_arm};
use crate::evidence::{Evidence, Series};
use crate::gates::KV_NEAR_FULL;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::readings::{counted, peak};
use crate::record;
use crate::remedy::{self, first_token_falls, token_time_stays};
use crate::situation::Situation;
use crate::symptom::{MATERIAL_EXCESS, excess_s};
use crate::words::{count, percent, seconds};

check! {
    /// Prompts repeat what the server computed before, and it computes them again.
    ///
    /// ## Why it costs time
    /// Prompts of one application share their head: system prompt, documents, the turns so far. A prefix cache keeps its
    /// keys and values; with it only the new tail is computed. Where it is off, too coarse, evicted too early or passed by,
    /// the same tokens are computed again, and every decode step beside them waits.
    ///
    /// ## How to confirm
    /// Reused over prompt tokens (`kv.prefix_hits` over `kv.prefix_queries`, `server.cached_tokens`) against what one
    /// unlimited cache would reach for the same prompts, from prompt hashes or a run with caching on.
    ///
    /// ## Fix
    /// Switch it on; align prompt heads (nothing that changes before what stays); a block or snapshot size that divides the
    /// chunk; more cache where blocks are evicted before their reuse; an endpoint that honors it. Hits rise to the bound and
    /// first-token time falls by the share that is skipped.
    ///
    /// ## When this is wrong
    /// Prompts with nothing in common; a cold start; several replicas that each see a part of one prefix
    /// (`scattered_prefix_routing`).
    id: "missed_prefix_reuse", layer: Memory, rank: 92, phases: [Api, Queue, Prefill, Decode], bound: "logic", validated_on: "recorded", run: find,
}

/// A prompt of fewer blocks than this has little to share.
const MIN_BLOCKS: f64 = 8.0;

/// Tokens of a block where none are told: the default of the engines that have blocks.
const USUAL_BLOCK: f64 = 16.0;

/// Hits below this share come from a common first block, not from a cache that works.
const HARDLY_ANY: f64 = 0.1;

/// What could be reused, and who says so.
struct Bound {
    share: f64,
    from: String,
}

fn find(situation: &Situation<'_>) -> Answer {
    let obtained = obtained(situation.evidence);
    let bound = bound(situation);
    match (bound, obtained) {
        (Some(bound), Some(obtained)) if bound.share - obtained >= MATERIAL_EXCESS => {
            Answer::Found(Box::new(found(situation, &bound, obtained)))
        }
        (Some(bound), Some(obtained)) => clear(
            vec![("reused", obtained), ("reusable", bound.share)],
            format!("{} of the prompt tokens are reused, {} could be ({})", percent(obtained), percent(bound.share), bound.from),
        ),
        (Some(bound), None) => Answer::CannotTell(record::scrapes(
            &["kv.prefix_hit_ratio", "server.cached_tokens"],
            format!("{} of the prompt tokens could be reused; how many are is not told", percent(bound.share)),
            None,
        )),
        (None, obtained) => without_bound(situation, obtained),
    }
}

/// Share of prompt tokens taken from the cache.
fn obtained(evidence: &Evidence) -> Option<f64> {
    if evidence.settings.flag("config.prefix_caching") == Some(false) {
        return Some(0.0);
    }
    let counters = counted(evidence, "kv.prefix_hits").zip(counted(evidence, "kv.prefix_queries")).filter(|(_, queries)| *queries > 0.0);
    let tokens = || {
        let cached = evidence.figures.anywhere("server.cached_tokens")?;
        Some((cached, evidence.figures.anywhere("server.prompt_tokens").filter(|&prompt| prompt > 0.0)?))
    };
    let logged = || evidence.engines.values().find_map(|engine| engine.series("kv.prefix_hit_ratio")).map(Series::mean);
    counters
        .or_else(tokens)
        .map(|(part, whole)| part / whole)
        .or_else(|| evidence.figures.anywhere("kv.prefix_hit_ratio"))
        .or_else(logged)
        .map(|share| share.clamp(0.0, 1.0))
}

/// The bound: as typed, else what another arm or the baseline reached with the same prompts.
fn bound(situation: &Situation<'_>) -> Option<Bound> {
    let here = situation.evidence;
    if let Some(share) = here.figures.anywhere("kv.prefix_reusable") {
        return Some(Bound { share: share.min(1.0), from: "as given".into() });
    }
    let same_prompts = |other: &Evidence| {
        let mean =
            |evidence: &Evidence| evidence.mean("server.prompt_tokens").or_else(|| evidence.figures.anywhere("server.prompt_tokens"));
        mean(here).zip(mean(other)).is_none_or(|(mine, theirs)| (mine - theirs).abs() <= 0.1 * mine.max(theirs))
    };
    if let Some(bound) = sent_before(situation) {
        return Some(bound);
    }
    // A first sending has nothing to reuse, and what came from a slower tier was not held in this cache.
    let by_history = |arm: &Evidence| is_repeat(arm) && !is_repeat(here) && same_settings(here, arm);
    let fetched = |arm: &Evidence| ["kv.transfer_bytes", "kv.transfer_time"].iter().any(|name| arm.figures.anywhere(name).is_some());
    let comparable = |arm: &Evidence| !by_history(arm) && !fetched(arm);
    let others = situation.other_arms().filter(|arm| comparable(arm)).map(|arm| (arm, format!("reached in \"{}\"", arm.run_name)));
    let baseline = situation.baseline.as_ref().map(|baseline| (baseline.evidence, "reached in the baseline".to_string()));
    let reached = others.chain(baseline).filter(|(arm, _)| same_prompts(arm));
    reached
        .filter_map(|(arm, from)| Some(Bound { share: obtained(arm)?, from }))
        .max_by(|a, b| a.share.total_cmp(&b.share))
        .filter(|bound| bound.share > 0.0)
        .or_else(|| by_first_token(situation))
}

/// The arm's words say that it sends what was sent before.
fn is_repeat(arm: &Evidence) -> bool {
    let text = format!("{} {}", arm.run_name, arm.changed).to_ascii_lowercase();
    let any = |words: &[&str]| words.iter().any(|word| text.contains(word));
    any(&["again", "second time", "second send", "twice", "repeat", "resent", "resend", "once more", "the same prompt, sent"])
        && any(&["prompt", "request", "send", "sent", "conversation", "document", "question"])
}

/// No setting that both arms state differs.
fn same_settings(here: &Evidence, there: &Evidence) -> bool {
    here.settings.differing(&there.settings).into_iter().all(|(_, mine, theirs)| mine.is_none() || theirs.is_none())
}

/// A prompt that is sent again could be reused but for its last block.
fn sent_before(situation: &Situation<'_>) -> Option<Bound> {
    let here = situation.evidence;
    let off = here.settings.flag("config.prefix_caching") == Some(false);
    let first = situation.other_arms().find(|arm| arm.run_idx < here.run_idx && !is_repeat(arm) && same_settings(here, arm))?;
    let prompt = here.figures.anywhere("server.prompt_tokens").filter(|&prompt| prompt >= MIN_BLOCKS * USUAL_BLOCK)?;
    let told = obtained(here).is_some_and(|share| share < HARDLY_ANY);
    (is_repeat(here) && told && !off && !here.has_timeline())
        .then(|| Bound { share: 1.0 - USUAL_BLOCK / prompt, from: format!("the same prompt was sent in \"{}\"", first.run_name) })
}

/// Typed runs that differ in the switch of the cache: what first-token time saves with it on is reuse, at least.
fn by_first_token(situation: &Situation<'_>) -> Option<Bound> {
    let caching = |evidence: &Evidence| evidence.settings.flag("config.prefix_caching");
    if caching(situation.evidence) != Some(false) || situation.evidence.has_timeline() {
        return None;
    }
    let better = better_arm(situation, |arm| caching(arm) == Some(true)).filter(Contrast::is_first_token)?;
    Some(Bound { share: better.saved(), from: format!("by first-token time in \"{}\"", better.arm.run_name) })
}

/// Nothing bounds the reuse; what the cache did may still say that none was missed.
fn without_bound(situation: &Situation<'_>, obtained: Option<f64>) -> Answer {
    let evidence = situation.evidence;
    if !evidence.has_timeline() {
        return Answer::CannotTell(missing("nothing says how much of the prompts repeats", None));
    }
    let block =
        evidence.engines.values().find_map(|engine| engine.series("kv.block_size")).map_or(USUAL_BLOCK, |series| series.max().max(1.0));
    let prompt = situation.load.prompt_tokens.unwrap_or(0.0);
    if prompt > 0.0 && prompt < MIN_BLOCKS * block {
        return clear(
            vec![("prompt_tokens", prompt)],
            format!("prompts of {} tokens are too short to share blocks of {}", count(prompt), count(block)),
        );
    }
    let off = evidence.settings.flag("config.prefix_caching") == Some(false);
    let share = obtained.filter(|_| !off);
    let (computed, capacity) = (counted(evidence, "server.computed_tokens_total"), situation.load.kv_capacity_tokens);
    let evicted = computed
        .zip(capacity)
        .is_none_or(|(computed, capacity)| computed + counted(evidence, "server.output_tokens_total").unwrap_or(0.0) > capacity)
        || situation.load.kv_usage_max.is_some_and(|usage| usage >= KV_NEAR_FULL);
    match share {
        // Whatever was computed in the window is still held: a block that repeated would have been found.
        Some(share) if !evicted => clear(
            vec![("reused", share)],
            format!(
                "caching is on and nothing had to leave the cache in the window: what repeats was found ({} of the prompt tokens)",
                percent(share)
            ),
        ),
        _ => {
            if off {
                let prompts = format!("prefix caching is off and prompts of {} tokens are computed whole", count(prompt));
                let why = format!("{prompts}; how much of them repeats is not known");
                return Answer::CannotTell(missing(&why, Some(situation.phase_s(Phase::Prefill))));
            }
            // What the cache lost it lost at every load: inside the server's own law, which is the reference here.
            Answer::CannotTell(missing("blocks leave the cache, and how many were needed again is not known", Some(0.0)))
        }
    }
}

fn missing(because: &str, at_most_s: Option<f64>) -> Missing {
    Missing {
        signals: vec!["kv.prefix_reusable".into(), "--baseline: the same load with caching on".into()],
        because: because.into(),
        at_most_s,
        record_with: format!("{} (once with prefix caching on, handed over with --baseline)", record::SCRAPES),
        record_cost: "a restart with caching on and two minutes under the same load".into(),
    }
}

fn found(situation: &Situation<'_>, bound: &Bound, obtained: f64) -> Found {
    let again = (bound.share - obtained) / (1.0 - obtained).max(1e-9);
    let claims = claims(situation, again);
    let prefill_s = situation.claimable_s(Phase::Prefill);
    let skipped_s = again * prefill_s;
    let cause = cause(situation, obtained);
    let cost = if prefill_s > 0.0 { format!(", about {} of {}", seconds(skipped_s), seconds(prefill_s)) } else { String::new() };
    Found {
        summary: format!("{} of the prompt tokens are reused where {} could be ({})", percent(obtained), percent(bound.share), bound.from),
        sentence: format!(
            "Prompts repeat {} of their tokens and {} are taken from the cache{cost}: {cause}.",
            percent(bound.share),
            percent(obtained)
        ),
        cost: (prefill_s > 0.0 && !claims.is_empty()).then(|| Quantity { value: skipped_s, unit: "s".into() }),
        claims,
        evidence: rows(situation, bound, obtained, again),
        hypotheses: vec![hypothesis(situation, bound, obtained, skipped_s, &cause)],
        falsified_by: "prompt hashes that hardly repeat".into(),
        ..Found::default()
    }
}

fn rows(situation: &Situation<'_>, bound: &Bound, obtained: f64, again: f64) -> Vec<Row> {
    let mut rows = vec![
        figure("kv.prefix_reusable", bound.share, "ratio", &bound.from),
        figure("kv.prefix_hit_ratio", obtained, "ratio", "counters, or as given"),
        figure("prompt work done again", again, "ratio", "(reusable - reused) / (1 - reused)"),
    ];
    if let Some(evictions) = counted(situation.evidence, "kv.evictions") {
        rows.push(figure("kv.evictions", evictions, "count", "as given"));
    }
    rows
}

/// Typed: the share of prefill that need not be. Against a baseline at the same rate: what each phase has beyond it,
/// for prompts computed twice also fill the steps of everybody else.
fn claims(situation: &Situation<'_>, again: f64) -> Vec<Claim> {
    let claim = |phase, lo: f64, mid: f64, hi: f64, basis| Claim { phase, what: Extent::Fraction { lo, mid, hi }, basis };
    if !situation.evidence.has_timeline() {
        let sized = situation.claimable_s(Phase::Prefill) > 0.0;
        let split = situation.phase_s(Phase::Prefill) > 0.0;
        let (lo, basis) = if split { (0.8, Basis::Typed) } else { (0.5, Basis::Bound) };
        return if sized {
            vec![claim(Phase::Prefill, lo * again, again, again.max(1.0 - 0.5 * (1.0 - again)), basis)]
        } else {
            Vec::new()
        };
    }
    let compared = situation.floors.from == "baseline";
    let mut claims = Vec::new();
    let by_tokens = again * situation.load.uncached_tokens.unwrap_or(0.0) * situation.law.central().map_or(0.0, |law| law.c_s);
    let own = situation.share_of(Phase::Prefill, by_tokens.max(if compared { excess_s(situation, Phase::Prefill) } else { 0.0 }));
    claims.push(claim(Phase::Prefill, 0.8 * own.min(again), own, own.max(again), Basis::Derived));
    for phase in [Phase::Api, Phase::Queue, Phase::Decode].into_iter().filter(|_| compared) {
        let share = situation.share_of(phase, excess_s(situation, phase));
        claims.push(claim(phase, 0.5 * share, share, share, Basis::Derived));
    }
    claims
}

/// Why reuse is missed, as far as settings and counters tell.
fn cause(situation: &Situation<'_>, obtained: f64) -> String {
    let here = situation.evidence;
    let anywhere = |name: &str| peak(here, name).or_else(|| situation.other_arms().find_map(|arm| peak(arm, name)));
    let setting = |name: &str| here.settings.number(name).or_else(|| situation.other_arms().find_map(|arm| arm.settings.number(name)));
    if here.settings.flag("config.prefix_caching") == Some(false) {
        return "prefix caching is off".into();
    }
    let margin = anywhere("kv.prefix_lookup_margin").unwrap_or(0.0);
    if let Some(block) = anywhere("kv.state_block_size").filter(|&block| block > 64.0) {
        let chunk = setting("config.max_num_batched_tokens").filter(|chunk| chunk % block != 0.0);
        let unaligned = chunk.map_or_else(String::new, |chunk| format!(", and the chunk of {} is no multiple of it", count(chunk)));
        let lost = if margin > 0.0 { format!(" (the lookup gives up the last {})", count(margin)) } else { String::new() };
        return format!("state is kept every {} tokens only{lost}{unaligned}", count(block));
    }
    if counted(here, "kv.evictions").is_some_and(|evictions| evictions > 0.0) {
        return "blocks are evicted before they are needed again".into();
    }
    if obtained < HARDLY_ANY && here.settings.flag("config.prefix_caching") == Some(true) {
        return "caching is on and hardly anything hits: the endpoint or a feature passes it by, or the head of the prompt changes".into();
    }
    "the cause is not told: unstable prompt head, eviction, or block granularity".into()
}

fn hypothesis(situation: &Situation<'_>, bound: &Bound, obtained: f64, skipped_s: f64, cause: &str) -> Hypothesis {
    let off = situation.evidence.settings.flag("config.prefix_caching") == Some(false);
    let remedy = if off {
        remedy::setting(situation, "prefix_caching", "on")
    } else {
        remedy::outside("prefix reuse", format!("make the prefix reusable: {cause}")).needs("restart")
    };
    let hits = Movement::new("kv.prefix_hit_ratio", "hits", "ratio", Direction::Up, Some(obtained)).to(
        obtained + 0.8 * (bound.share - obtained),
        bound.share.max(obtained),
        "up to the bound",
    );
    let first = first_token_falls(situation, skipped_s, "prefill x share of prompt tokens that need not be computed");
    let timeline = situation.evidence.has_timeline();
    let remedy = if timeline { remedy.moves(first).guards(hits) } else { remedy.moves(hits).guards(first) };
    remedy
        .lever(format!("prefix_reuse={:.3}", bound.share.clamp(0.0, 0.99)))
        .guards(token_time_stays(situation))
        .risk("cached blocks stay in memory until they are evicted", "hits stay where they are")
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Figures;

    #[test]
    fn reuse_is_read_from_counters_tokens_or_the_ratio() {
        let arm = |rows: &[(&str, f64)]| Evidence { figures: Figures::from_rows(rows), ..Evidence::default() };
        assert_eq!(obtained(&arm(&[("server.cached_tokens", 20.0), ("server.prompt_tokens", 80.0)])), Some(0.25));
        assert_eq!(obtained(&arm(&[("kv.prefix_hits", 3.0), ("kv.prefix_queries", 4.0)])), Some(0.75));
        assert_eq!(obtained(&arm(&[("kv.prefix_hit_ratio", 0.4)])), Some(0.4));
        assert_eq!(obtained(&arm(&[])), None);
    }
}
