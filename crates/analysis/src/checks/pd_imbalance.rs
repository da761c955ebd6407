//! Prefill and decode run in separate pools, and one of them waits while the other has nothing to do.

use crate::arms::load_differs;
use crate::change::{claims_on, cost_of, hypothesis, of_action};
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim};
use crate::contract::{Direction, Evidence as Row};
use crate::evidence::Evidence;
use crate::members::Members;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::situation::{SATURATED_RHO, Situation};
use crate::words::{count, digits, percent, seconds};

check! {
    /// With prefill and decode on separate workers, one pool queues while the other idles, or the transfer of the KV cache
    /// between them sits in the time to first token.
    ///
    /// ## Why it costs time
    /// The ratio of the pools fits one mix of prompt and output lengths. Another mix fills one pool and leaves the other
    /// empty; and every prompt's cache must cross a link before its second token.
    ///
    /// ## How to confirm
    /// Waiting and running of each pool at the same time, and transfer time per request beside the time to first token.
    ///
    /// ## Fix
    /// Move workers from the idle pool to the queueing one; for the transfer a faster path, layer by layer, or one pool.
    ///
    /// ## When this is wrong
    /// Both pools full is `overload`; a queue in front of a decode worker without KV room is a memory matter.
    id: "pd_imbalance", layer: Parallelism, rank: 66, phases: [Queue, Prefill], bound: "logic", validated_on: "typed", run: find,
}

/// A pool below half of its use has room for the other's work.
const HALF_USED: f64 = 0.5;
/// A pool in use for less than a quarter of the time next to one that is full has more than half of its devices to give.
const IDLE: f64 = 0.25;
/// Transfer from a quarter of the time to first token on is what a caller feels.
const OF_FIRST_TOKEN: f64 = 0.25;

/// The two pools as far as they are told apart.
struct Pools {
    waiting: Option<(f64, f64)>,
    used: Option<(f64, f64)>,
}

fn find(situation: &Situation<'_>) -> Answer {
    let used = used(situation).or_else(|| used_by_work(situation));
    // A pool whose queue nobody states is known by its use.
    let waiting = pool(situation, "engine.waiting").or_else(|| lone_queue(situation).filter(|_| used.is_some()));
    let pools = Pools { waiting, used };
    let transfer = transfer_s(situation);
    let connector = situation
        .evidence
        .settings
        .get("config.kv_connector")
        .is_some_and(|setting| !matches!(setting.value.as_str(), "" | "None" | "null"));
    let is_split = pools.waiting.is_some() || pools.used.is_some() || is_disaggregated(situation);
    let is_known = is_split || (connector && transfer.is_some());
    if !is_known {
        if !situation.is_typed() && !connector {
            return clear(vec![("pools", 1.0)], "prefill and decode run in one pool");
        }
        return unknown(situation, "nothing tells a prefill pool from a decode pool");
    }
    if let Some(answer) = by_queue(situation, &pools).or_else(|| by_idle(situation, &pools)) {
        return answer;
    }
    match transfer {
        Some((transfer_s, ttft_s)) if transfer_s >= OF_FIRST_TOKEN * ttft_s => {
            Answer::Found(Box::new(by_transfer(situation, transfer_s, ttft_s)))
        }
        Some((transfer_s, ttft_s)) => {
            let share = transfer_s / ttft_s;
            clear(
                vec![("transfer_of_ttft", share)],
                format!("the transfer takes {} of the time to first token, and no pool queues beside an idle one", percent(share)),
            )
        }
        None => unknown(situation, "neither the queue of each pool nor the transfer time is known"),
    }
}

fn unknown(situation: &Situation<'_>, because: &str) -> Answer {
    let signals = ["engine.waiting{role=\"prefill\"}", "engine.waiting{role=\"decode\"}", "kv.transfer_time"];
    Answer::CannotTell(record::unseen(situation, &signals, because, record::REPLICAS, record::REPLICAS_COST))
}

fn is_disaggregated(situation: &Situation<'_>) -> bool {
    let settings = &situation.evidence.settings;
    ["config.disaggregation_mode", "config.kv_role", "config.disaggregated"]
        .iter()
        .any(|key| settings.get(key).is_some_and(|setting| !matches!(setting.value.as_str(), "null" | "None" | "" | "false" | "0")))
}

/// A quantity of the prefill and of the decode pool: by role, by phase, or by replicas named after them.
fn pool(situation: &Situation<'_>, quantity: &str) -> Option<(f64, f64)> {
    let pick = |members: &Members| {
        let of = |name: &str| {
            let mut values =
                members.each.iter().filter(|(member, _)| member.to_ascii_lowercase().contains(name)).map(|(_, value)| *value).peekable();
            values.peek().is_some().then(|| values.sum::<f64>())
        };
        of("prefill").zip(of("decode"))
    };
    let evidence = situation.evidence;
    let labelled = ["role", "phase", "process"].iter().find_map(|label| {
        let each = evidence.figures.by_label(quantity, label);
        pick(&Members { each, ..Members::default() })
    });
    let by_arm = |name: &str| {
        // `prefill-heavy load` is no pool.
        let is_pool = |arm: &&Evidence| {
            let run = arm.run_name.to_ascii_lowercase();
            run.contains(name) && ["pool", "worker", "instance", "node", "server"].iter().any(|word| run.contains(word))
        };
        let of = situation.arms.iter().find(is_pool)?;
        of.figures.typical(quantity).or_else(|| of.figures.highest(quantity))
    };
    labelled.or_else(|| by_arm("prefill").zip(by_arm("decode"))).or_else(|| {
        let each = evidence.engines.iter().filter_map(|(id, engine)| Some((id.text(), engine.series(quantity)?.mean()))).collect();
        pick(&Members { each, ..Members::default() })
    })
}

/// The queue of the one pool for which it is stated.
fn lone_queue(situation: &Situation<'_>) -> Option<(f64, f64)> {
    let roles = situation.evidence.figures.by_label("engine.waiting", "role");
    match roles.as_slice() {
        [(role, waiting)] if role.contains("prefill") => Some((*waiting, 0.0)),
        [(role, waiting)] if role.contains("decode") => Some((0.0, *waiting)),
        _ => None,
    }
}

/// How full each pool is: activity, KV use, else running beside the other's.
fn used(situation: &Situation<'_>) -> Option<(f64, f64)> {
    ["gpu.sm_active", "gpu.busy", "kv.usage"].iter().find_map(|name| pool(situation, name)).or_else(|| {
        let (prefill, decode) = pool(situation, "engine.running")?;
        let most = prefill.max(decode);
        (most > 0.0).then(|| (prefill / most, decode / most))
    })
}

/// The use of one pool, and of the other by the work of both: what the same requests keep busy on as many cards that each
/// do both. Work is conserved, so what one pool does not do the other does.
fn used_by_work(situation: &Situation<'_>) -> Option<(f64, f64)> {
    let cards = f64::from(situation.subject.device_count);
    let of = |name: &str| {
        let roles = situation.evidence.figures.by_label("gpu.busy", "role");
        roles.into_iter().find(|(role, _)| role.to_ascii_lowercase().contains(name)).map(|(_, busy)| busy)
    };
    let (prefill, decode) = (of("prefill"), of("decode"));
    let same_load = situation.other_arms().find(|arm| {
        !load_differs(situation.evidence, arm)
            && arm.figures.by_label("gpu.busy", "role").is_empty()
            && arm.figures.typical("gpu.busy").is_some()
    })?;
    // Two cards, one of each kind: with more nothing says how many each pool has.
    let whole = 2.0 * same_load.figures.typical("gpu.busy").filter(|_| cards == 2.0)?;
    let rest = |known: f64| (whole - known).clamp(0.0, 1.0);
    match (prefill, decode) {
        (Some(prefill), None) => Some((prefill, rest(prefill))),
        (None, Some(decode)) => Some((rest(decode), decode)),
        _ => None,
    }
}

/// Transfer time per request, and the time to first token it may sit in.
fn transfer_s(situation: &Situation<'_>) -> Option<(f64, f64)> {
    let transfer_s = situation.evidence.figures.anywhere("kv.transfer_time").or_else(|| situation.evidence.mean("kv.transfer_time"))?;
    let ttft_s = situation.account.first_token_mean_s();
    (ttft_s > 0.0).then_some((transfer_s, ttft_s))
}

/// One pool has nothing to do while the other is at its limit, though nobody counted a queue.
fn by_idle(situation: &Situation<'_>, pools: &Pools) -> Option<Answer> {
    let (prefill, decode) = pools.used.filter(|_| pools.waiting.is_none())?;
    let (hot, cold, used_hot, used_cold) =
        if prefill >= decode { ("prefill", "decode", prefill, decode) } else { ("decode", "prefill", decode, prefill) };
    if used_hot < SATURATED_RHO || used_cold > IDLE {
        return None;
    }
    Some(Answer::Found(Box::new(found(situation, hot, cold, None, Some(used_cold)))))
}

fn by_queue(situation: &Situation<'_>, pools: &Pools) -> Option<Answer> {
    let (prefill, decode) = pools.waiting?;
    let (hot, cold, waiting, waiting_cold) =
        if prefill >= decode { ("prefill", "decode", prefill, decode) } else { ("decode", "prefill", decode, prefill) };
    if waiting < 1.0 {
        return None;
    }
    let Some((used_prefill, used_decode)) = pools.used else {
        // A queue ten times the other's says which pool is short even without its use.
        return (waiting >= 10.0 * waiting_cold.max(0.1))
            .then(|| Answer::Found(Box::new(found(situation, hot, cold, Some(waiting), None))));
    };
    let used_cold = if hot == "prefill" { used_decode } else { used_prefill };
    if used_cold >= HALF_USED {
        let because = format!("the {hot} pool queues and the {cold} pool is in use {}: it has little room to give", percent(used_cold));
        return Some(clear(vec![("waiting", waiting), ("used_other", used_cold)], because));
    }
    Some(Answer::Found(Box::new(found(situation, hot, cold, Some(waiting), Some(used_cold)))))
}

fn found(situation: &Situation<'_>, hot: &str, cold: &str, waiting: Option<f64>, used_cold: Option<f64>) -> Found {
    // The queue is the short pool's; some of it would remain with the best ratio.
    let share = [0.4, 0.8, 1.0];
    let queue_s = situation.claimable_s(Phase::Queue);
    let basis = if situation.is_typed() { Basis::Typed } else { Basis::Derived };
    let claims: Vec<Claim> = if waiting.is_some() { claims_on(situation, Phase::Queue, share, basis) } else { Vec::new() };
    let full = waiting.map_or_else(
        || format!("the {hot} pool is busy all the time"),
        |waiting| format!("{} requests wait for the {hot} pool", count(waiting)),
    );
    let idle = used_cold.map_or(String::new(), |used| format!(" while the {cold} pool is in use {}", percent(used)));
    let mut rows: Vec<Row> = Vec::new();
    rows.extend(waiting.map(|waiting| figure(&format!("waiting in the {hot} pool"), waiting, "request", "by pool")));
    rows.extend(used_cold.map(|used| figure(&format!("use of the {cold} pool"), used, "ratio", "by pool")));
    Found {
        summary: format!("{full}{idle}"),
        sentence: format!("The pools do not fit the load: {full}{idle}."),
        claims,
        cost: cost_of(situation, Phase::Queue, share[1]),
        evidence: rows,
        hypotheses: hypothesis(
            of_action(
                "workers per pool",
                "now",
                &format!("one more for {hot}"),
                "restart of the workers moved",
                &format!("move a worker from {cold} to {hot}"),
            ),
            &format!("the {cold} pool may become the short one at another mix of lengths"),
            &format!("requests start to wait for {cold} workers"),
            vec![first_token_falls(situation, share[0] * queue_s, queue_s, "the queue of the short pool")],
        ),
        falsified_by: format!("one more {hot} worker, and the queue no shorter"),
        context_only: false,
        limit: false,
    }
}

fn by_transfer(situation: &Situation<'_>, transfer_s: f64, ttft_s: f64) -> Found {
    let phase = if situation.phase_s(Phase::Prefill) > 0.0 { Phase::Prefill } else { Phase::Queue };
    let share = situation.share_of(phase, transfer_s);
    Found {
        summary: format!("{} of the time to first token is transfer of the KV cache", percent(transfer_s / ttft_s)),
        sentence: format!(
            "The KV cache takes {} from the prefill to the decode worker, {} of the time to first token.",
            seconds(transfer_s),
            percent(transfer_s / ttft_s)
        ),
        claims: claims_on(situation, phase, [0.8 * share, share, share], Basis::Typed),
        cost: cost_of(situation, phase, share),
        evidence: vec![
            figure("kv.transfer_time", transfer_s, "s", "typed or scraped"),
            figure("time to first token", ttft_s, "s", situation.account.vantage),
        ],
        hypotheses: hypothesis(
            of_action(
                "path of the KV transfer",
                "now",
                "RDMA or peer access, layer by layer",
                "restart",
                "move the cache over the fast link and while later layers compute, or serve both phases in one pool",
            ),
            "layer-wise transfer holds both workers' memory longer",
            "the transfer takes as long as before",
            vec![first_token_falls(situation, 0.5 * transfer_s, transfer_s, &format!("at most the transfer of {}", digits(transfer_s)))],
        ),
        falsified_by: "time to first token as long when prompts are served by the decode worker itself".into(),
        context_only: false,
        limit: false,
    }
}

fn first_token_falls(situation: &Situation<'_>, least_s: f64, most_s: f64, basis: &str) -> crate::contract::Prediction {
    let ttft_s = situation.account.first_token_mean_s();
    let movement = Movement::first_token(situation, Direction::Down).primary();
    if ttft_s > 0.0 {
        movement.to((ttft_s - most_s).max(0.0), (ttft_s - least_s).max(0.0), basis).build()
    } else {
        movement.refused("direction only: time to first token was not measured").build()
    }
}
