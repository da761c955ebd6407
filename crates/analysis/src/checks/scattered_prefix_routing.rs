//! Requests with one prefix land on many replicas, each of which computes it again.

use crate::change::{claims_on, hypothesis, of_setting};
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::contract::{Direction, Evidence as Row};
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::sharding::Sharding;
use crate::situation::Situation;
use crate::words::{count, digits, percent, seconds};

check! {
    /// Prompts that share a prefix are sent to different replicas, so that each computes and keeps it for itself.
    ///
    /// ## Why it costs time
    /// Every replica (or data-parallel rank) has a cache of its own. A router that ignores prefixes spreads each group of
    /// prompts over all of them: its prefix is computed once per replica instead of once, takes room on each, and is evicted
    /// sooner.
    ///
    /// ## How to confirm
    /// The hit ratio obtained against what one shared cache would have given (from the prompts, or their block hashes), with
    /// caching on and more than one replica.
    ///
    /// ## Fix
    /// Route by prefix (or by session), with a limit on how much fuller the chosen replica may be than the others.
    ///
    /// ## When this is wrong
    /// Caching is off or cannot hit (`missed_prefix_reuse`); the prompts share nothing; the cache is too small for the prefixes
    /// even on one replica.
    id: "scattered_prefix_routing", layer: Parallelism, rank: 91, phases: [Prefill], bound: "logic", validated_on: "report", run: find,
}

/// Reuse lost by scattering below a tenth of the prompt tokens is not worth another router.
const LOST: f64 = 0.10;
/// From here the prompts share enough that a router must not ignore it.
const SHARED: f64 = 0.3;
/// Policies that look at load and never at prompts.
const BLIND: &[&str] = &[
    "round_robin",
    "roundrobin",
    "random",
    "total_tokens",
    "total_requests",
    "shortest_queue",
    "least_requests",
    "least_request",
    "least_conn",
    "minimum_tokens",
];

fn find(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    if evidence.settings.flag("config.prefix_caching") == Some(false) {
        return clear(vec![("prefix_caching", 0.0)], "prefix caching is off: no routing brings a hit");
    }
    let copies = copies(situation);
    let policy = policy(situation);
    if copies == 1.0 && policy.is_none() {
        return clear(vec![("replicas", 1.0)], "one engine has one cache");
    }
    let (reusable, hit) = (reusable(situation), hit_ratio(situation));
    match (reusable, hit) {
        (Some(reusable), Some(hit)) => judge(situation, reusable, hit, copies, policy.as_deref()),
        (Some(reusable), None) if policy.is_some() || copies > 1.0 => without_hits(situation, reusable, copies, policy.as_deref()),
        (None, Some(hit)) if !situation.is_typed() => without_bound(situation, hit, copies),
        _ if copies == 0.0 && !situation.is_typed() => clear(vec![("replicas", copies)], "one engine has one cache"),
        _ => Answer::CannotTell(missing(situation, None)),
    }
}

/// Caches that a request may land on: scraped engines or set ranks; 0 where nothing says.
fn copies(situation: &Situation<'_>) -> f64 {
    let scraped = situation.evidence.engines.len() as f64;
    let sharding = Sharding::read(situation.subject, situation.evidence);
    if scraped >= 1.0 { scraped.max(sharding.data) } else { sharding.data }
}

/// A routing policy that ignores prefixes, by its setting.
fn policy(situation: &Situation<'_>) -> Option<String> {
    let keys = [
        "config.load_balance_method",
        "config.routing_policy",
        "config.policy",
        "config.routing_logic",
        "config.router_policy",
        "config.data_parallel_balance",
    ];
    let set = keys.iter().find_map(|key| situation.evidence.settings.get(key))?;
    let value = set.value.to_ascii_lowercase().replace('-', "_");
    BLIND.contains(&value.as_str()).then(|| set.value.clone())
}

fn reusable(situation: &Situation<'_>) -> Option<f64> {
    // A property of the prompts: any arm of the same load may state it.
    let own = situation.evidence.figures.anywhere("kv.prefix_reusable");
    own.or_else(|| situation.other_arms().find_map(|arm| arm.figures.anywhere("kv.prefix_reusable")))
}

fn hit_ratio(situation: &Situation<'_>) -> Option<f64> {
    let evidence = situation.evidence;
    let counted = evidence.growth("kv.prefix_hits").zip(evidence.growth("kv.prefix_queries").filter(|queries| *queries > 0.0));
    let by_tokens = || evidence.figures.typical("server.cached_tokens").zip(evidence.figures.typical("server.prompt_tokens"));
    counted
        .map(|(hits, queries)| hits / queries)
        .or_else(|| evidence.figures.anywhere("kv.prefix_hit_ratio"))
        .or_else(|| by_tokens().map(|(cached, prompt)| cached / prompt))
}

fn missing(situation: &Situation<'_>, at_most_s: Option<f64>) -> crate::check::Missing {
    let mut missing = record::unseen(
        situation,
        &["kv.prefix_reusable", "kv.prefix_hit_ratio by replica"],
        "how much of the prompts one shared cache would have held is not known",
        record::REPLICAS,
        record::REPLICAS_COST,
    );
    missing.at_most_s = at_most_s.or(missing.at_most_s);
    missing
}

fn judge(situation: &Situation<'_>, reusable: f64, hit: f64, copies: f64, policy: Option<&str>) -> Answer {
    let lost = reusable - hit;
    let margin = vec![("reusable", reusable), ("hit_ratio", hit), ("replicas", copies)];
    if lost < LOST {
        return clear(
            margin,
            format!("{} of the prompt tokens hit, of {} that one shared cache would have held", percent(hit), percent(reusable)),
        );
    }
    // Without a single hit caching itself does not work; scattered groups still meet their own prefix now and then.
    if copies <= 1.0 && policy.is_none() {
        return Answer::CannotTell(missing(situation, None));
    }
    let of_prefill = (lost / (1.0 - hit)).clamp(0.0, 1.0);
    Answer::Found(Box::new(found(situation, reusable, Some(hit), copies, policy, [0.7 * of_prefill, of_prefill, of_prefill])))
}

/// Prompts share much and the router ignores it: with R copies each prefix is computed up to R times.
fn without_hits(situation: &Situation<'_>, reusable: f64, copies: f64, policy: Option<&str>) -> Answer {
    if reusable < SHARED || policy.is_none() {
        return if reusable < LOST {
            clear(vec![("reusable", reusable)], format!("prompts share {} only", percent(reusable)))
        } else {
            Answer::CannotTell(missing(situation, None))
        };
    }
    // What is left to compute with one cache is 1 - reusable; each copy beyond it computes the shared part once more.
    let share = [0.3 * reusable, 0.6 * reusable, reusable];
    Answer::Found(Box::new(found(situation, reusable, None, copies, policy, share)))
}

/// Scrapes without prompts: no hit on any replica means nothing is shared; with R replicas a prefix is computed at most R
/// times, so that of the misses at most (R - 1) / R come from scattering.
fn without_bound(situation: &Situation<'_>, hit: f64, copies: f64) -> Answer {
    if hit < 0.01 {
        return clear(
            vec![("hit_ratio", hit)],
            "no replica meets a prefix twice: the prompts share nothing that routing could bring together",
        );
    }
    let most_s = situation.phase_s(Phase::Prefill) * (copies - 1.0) / copies;
    let share = most_s / situation.account.first_token_mean_s().max(1e-9);
    if 1.0 - hit < LOST {
        return clear(vec![("hit_ratio", hit)], format!("{} of the prompt tokens hit already", percent(hit)));
    }
    if share < LOST {
        return clear(vec![("hit_ratio", hit), ("prefill_share", share)], "what prompts cost is no large part of the time to first token");
    }
    Answer::CannotTell(missing(situation, Some(most_s)))
}

fn found(situation: &Situation<'_>, reusable: f64, hit: Option<f64>, copies: f64, policy: Option<&str>, share: [f64; 3]) -> Found {
    let over = if copies > 1.0 { format!(" over {} caches", count(copies)) } else { String::new() };
    let by = policy.map_or(String::new(), |policy| format!(" by `{policy}`"));
    let hits = hit.map_or("how many hit was not measured".into(), |hit| format!("{} hit", percent(hit)));
    let basis = if hit.is_some() { Basis::Derived } else { Basis::Bound };
    let mut rows: Vec<Row> = vec![figure("kv.prefix_reusable", reusable, "ratio", "one shared cache, by the prompts")];
    rows.extend(hit.map(|hit| figure("kv.prefix_hit_ratio", hit, "ratio", "typed or counted")));
    if copies > 1.0 {
        rows.push(figure("caches", copies, "count", "settings or scrapes"));
    }
    let (phase_s, ttft_s) = (situation.claimable_s(Phase::Prefill), situation.account.first_token_mean_s());
    let movement = Movement::first_token(situation, Direction::Down).primary();
    let predicted = if ttft_s > 0.0 {
        movement
            .to(
                (ttft_s - share[2] * phase_s).max(0.0),
                ttft_s - 0.5 * share[0] * phase_s,
                "prefix tokens computed once instead of once per cache",
            )
            .build()
    } else {
        movement.refused("time to first token was not measured: direction only").build()
    };
    Found {
        summary: format!("{} of the prompt tokens are shared and {hits}: they are scattered{over}{by}", percent(reusable)),
        sentence: format!(
            "{} of the prompt tokens repeat earlier ones, yet requests are spread{over}{by} without regard to that, so {} ({hits}); up to {} of the prompt work is done again.",
            percent(reusable),
            "each cache computes them for itself",
            percent(share[2])
        ),
        claims: claims_on(situation, Phase::Prefill, share, basis),
        cost: (phase_s > 0.0).then(|| crate::contract::Quantity { value: share[1] * phase_s, unit: "s".into() }),
        evidence: rows,
        hypotheses: hypothesis(
            of_setting(
                situation,
                "load_balance_method",
                policy.unwrap_or("now"),
                "by prefix",
                "route requests with one prefix to one replica, with a bound on how much fuller it may be",
            ),
            "popular prefixes make their replica hot: bound the difference in load",
            &format!("the fullest replica's time to first token passes {}", if ttft_s > 0.0 { seconds(ttft_s) } else { digits(0.0) }),
            vec![predicted],
        ),
        falsified_by: "the hit ratio of each replica as high as that of one shared cache".into(),
        context_only: false,
        limit: false,
    }
}
