//! Waiting for KV blocks that come from host memory, disk or a remote store.
//!
//! A hand-over from a prefill pool to a decode pool is no offload; it belongs to `pd_imbalance`.

use crate::account::loaded_row;
use crate::arms::load_differs;
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Quantity};
use crate::contrast::{RUN_SPREAD, better_arm, texts};
use crate::evidence::Evidence;
use crate::gates::Gate;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::prefill_rate::prompt_s;
use crate::readings::{counted, offered, peak, typical};
use crate::record;
use crate::remedy::{self, first_token_falls, throughput_stays};
use crate::situation::Situation;
use crate::symptom::MATERIAL_EXCESS;
use crate::words::{count, digits, percent, seconds};

check! {
    /// Requests wait for their KV cache to be fetched from host memory, disk or a remote store.
    ///
    /// ## Why it costs time
    /// A second tier keeps blocks that do not fit the device. A request whose prefix lies there is held back until the blocks
    /// arrive. Where the link, the disk or small pieces make that slower than computing the prompt again, the tier costs more
    /// than it saves.
    ///
    /// ## How to confirm
    /// `kv.transfer_time` per request is a material part of the time to first token, or requests wait *deferred* with a
    /// connector configured (`kv.fetch_waiting` above 0) while seats and blocks are free.
    ///
    /// ## Fix
    /// Fetch in larger pieces and ahead of need, a faster tier, a smaller share of requests sent there, or no tier. Transfer
    /// time per request falls; first-token time falls by it unless the prompt must then be computed.
    ///
    /// ## When this is wrong
    /// Deferred requests without a connector (grammars, adapters); a link that carries model weights (`host_link_bound`); the
    /// transfer between prefill and decode pools.
    id: "kv_offload_stall", layer: Memory, rank: 33, phases: [Queue, Prefill, Api], bound: "network", validated_on: "typed", run: find,
}

/// Deferred waiting that counts as the queue's gate (attribution, section 6).
const GATE_SHARE: f64 = 0.5;
/// Prompts of any length that is worth fetching compute at more than this share of the device's arithmetic.
const POOR_UTILIZATION: f64 = 0.1;
/// Names of connectors that hand a cache from one pool to another instead of storing it.
const HAND_OVER: [&str; 3] = ["nixl", "p2p", "pynccl"];

fn find(situation: &Situation<'_>) -> Answer {
    let connector = situation
        .evidence
        .settings
        .get("config.kv_connector")
        .map(|setting| setting.value.clone())
        .filter(|name| !matches!(name.as_str(), "" | "None" | "none"));
    let hands_over = connector.as_ref().is_some_and(|name| HAND_OVER.iter().any(|known| name.to_ascii_lowercase().contains(known)));
    if hands_over {
        return clear(vec![], format!("{} hands the cache from pool to pool: it stores none", connector.unwrap_or_default()));
    }
    if situation.evidence.has_timeline() { from_timeline(situation, connector.as_deref()) } else { from_figures(situation) }
}

fn from_timeline(situation: &Situation<'_>, connector: Option<&str>) -> Answer {
    let share = situation.gates.share(Gate::Deferred);
    let Some(connector) = connector else {
        return clear(vec![("deferred_share", share)], "no KV connector is configured: every block is on the device");
    };
    if share < GATE_SHARE {
        return clear(
            vec![("deferred_share", share)],
            format!("{} of the waiting is deferred: fetched blocks hold nobody back", percent(share)),
        );
    }
    let runs = situation.gates.stretches(Gate::Deferred).iter().map(|stretch| (stretch.t_start_ns, stretch.t_end_ns)).collect();
    let what = if situation.load.engine_count <= 1 { Extent::Intervals(runs) } else { Extent::exactly(share) };
    let claims = if situation.account.is_empty() { Vec::new() } else { vec![Claim { phase: Phase::Queue, what, basis: Basis::Derived }] };
    let why = format!("{} of the waiting is for blocks that {connector} fetches", percent(share));
    Answer::Found(Box::new(found(situation, &why, claims, share * situation.phase_s(Phase::Queue))))
}

fn from_figures(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    let first_s = situation.account.first_token_mean_s();
    let row = loaded_row(&evidence.figures, "kv.transfer_time").and_then(|row| row.typical("kv.transfer_time"));
    let whole_run = evidence.figures.typical("kv.transfer_time");
    let transfer_s = whole_run.or(row).or_else(|| typical(evidence, "kv.transfer_time")).filter(|&transfer| transfer > 0.0);
    if let Some(transfer_s) = transfer_s {
        let whole = if first_s > 0.0 { first_s } else { situation.account.total_mean_s() };
        let share = transfer_s / whole;
        if whole > 0.0 && share < MATERIAL_EXCESS {
            return clear(vec![("transfer_share", share)], format!("fetching takes {} of {}", seconds(transfer_s), seconds(whole)));
        }
        let of = if whole > 0.0 { format!(" of {} to the first token", seconds(whole)) } else { String::new() };
        let why = format!("fetching KV blocks takes {}{of}", seconds(transfer_s));
        return Answer::Found(Box::new(found(situation, &why, claims(situation, transfer_s), transfer_s)));
    }
    if let Some((why, stall_s)) = slower_than_computing(situation, first_s) {
        return Answer::Found(Box::new(found(situation, &why, claims(situation, stall_s), stall_s)));
    }
    if let Some(fetching) = peak(evidence, "kv.fetch_waiting").filter(|&fetching| fetching > 0.0) {
        let why = format!("{} requests wait for KV blocks to be fetched", count(fetching));
        return Answer::Found(Box::new(found(situation, &why, Vec::new(), 0.0)));
    }
    let is_off = |value: &str| matches!(value.to_ascii_lowercase().as_str(), "" | "none" | "false" | "0" | "off");
    let tiers = ["config.kv_connector", "config.kv_offload"];
    let without =
        |arm: &Evidence| tiers.iter().any(|tier| texts(evidence, arm, tier).is_some_and(|(mine, theirs)| !is_off(mine) && is_off(theirs)));
    if tiers.iter().any(|tier| evidence.settings.get(tier).is_some_and(|setting| !is_off(&setting.value)))
        && let Some(better) = better_arm(situation, without)
    {
        let saved_s = better.saved() * situation.claimable_s(Phase::Queue).max(first_s);
        let why = format!("the same server without the tier is {:.1} times as fast ({})", better.ratio, better.text());
        return Answer::Found(Box::new(found(
            situation,
            &why,
            claims(situation, if better.is_first_token() { saved_s } else { 0.0 }),
            saved_s,
        )));
    }
    Answer::CannotTell(record::scrapes(
        &["kv.transfer_time", "kv.fetch_waiting"],
        "nothing says whether blocks are fetched from elsewhere",
        None,
    ))
}

/// Blocks were fetched, and the first token came later than computing the prompt would have let it: as another arm shows,
/// else by the device's arithmetic. What is fetched need not be computed, so the time above that is the fetch's.
fn slower_than_computing(situation: &Situation<'_>, first_s: f64) -> Option<(String, f64)> {
    let evidence = situation.evidence;
    let bytes = typical(evidence, "kv.transfer_bytes").filter(|&bytes| bytes > 0.0)?;
    if first_s <= 0.0 || situation.load.waiting_max > 0.0 || situation.phase_s(Phase::Queue) > 0.0 {
        return None;
    }
    let first_of = |arm: &Evidence| ["client.ttft", "server.ttft"].iter().find_map(|name| arm.figures.typical(name));
    let computing = situation
        .other_arms()
        .filter(|arm| typical(arm, "kv.transfer_bytes").or_else(|| typical(arm, "kv.transfer_time")).is_none())
        .filter(|arm| !load_differs(evidence, arm) && evidence.figures.anywhere("server.prompt_tokens").is_some())
        .filter_map(|arm| Some((first_of(arm)?, format!("computing the prompt took in \"{}\"", arm.run_name))))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let bound = || {
        let tokens = evidence.figures.anywhere("server.prompt_tokens")?;
        let alone = offered(evidence).is_some_and(|offered| offered < 1.5);
        let s = prompt_s(situation.subject, evidence, tokens, POOR_UTILIZATION)?;
        alone.then(|| (s, format!("computing all of it takes at {} of the device's arithmetic", percent(POOR_UTILIZATION))))
    };
    let (computed_s, whose) = computing.or_else(bound)?;
    (first_s >= RUN_SPREAD * computed_s).then(|| {
        let why = format!(
            "with {} GB fetched the first token takes {}, where {whose} {}",
            digits(bytes * 1e-9),
            seconds(first_s),
            seconds(computed_s)
        );
        (why, first_s - computed_s)
    })
}

/// Fetching passes before the request is scheduled; where the queue was not given by itself it is part of first-token time.
fn claims(situation: &Situation<'_>, transfer_s: f64) -> Vec<Claim> {
    // Blocks come while a request waits, while its prompt is computed, or between the two, which few engines time.
    let phase = situation.roomiest(&[Phase::Queue, Phase::Prefill, Phase::Api]).unwrap_or(Phase::Queue);
    let share = situation.share_of(phase, transfer_s);
    if share <= 0.0 {
        Vec::new()
    } else {
        vec![Claim { phase, what: Extent::Fraction { lo: 0.7 * share, mid: share, hi: (1.2 * share).min(1.0) }, basis: Basis::Typed }]
    }
}

fn found(situation: &Situation<'_>, why: &str, claims: Vec<Claim>, wait_s: f64) -> Found {
    let evidence = situation.evidence;
    let now = typical(evidence, "kv.transfer_time");
    let mut rows = Vec::new();
    let mut row =
        |name: &str, value: Option<f64>, unit: &str| rows.extend(value.map(|value| figure(name, value, unit, "scrapes or as given")));
    row("kv.transfer_time", now, "s");
    row("kv.transfer_bytes", typical(evidence, "kv.transfer_bytes"), "byte");
    row("kv.fetch_waiting", peak(evidence, "kv.fetch_waiting"), "request");
    row("kv.transfer_failures", counted(evidence, "kv.transfer_failures"), "count");
    row("waiting that is deferred", Some(situation.gates.share(Gate::Deferred)).filter(|&share| share > 0.0), "ratio");
    let transfer = Movement::new("kv.transfer_time", "transfer", "s", Direction::Down, now);
    let transfer = match now {
        Some(now) => transfer.to(0.0, 0.5 * now, "fetched ahead of need, or not at all"),
        None => transfer.refused("transfers were not timed: direction only"),
    };
    let hypothesis = remedy::setting(situation, "kv_connector", "off")
        .saying("fetch ahead and in larger pieces, send fewer requests to the second tier, or run once without it")
        .moves(transfer)
        .guards(
            first_token_falls(situation, wait_s, "the transfer removed; prompts computed again come on top")
                .refused("without the tier prompts are computed again: the sum decides"),
        )
        .guards(throughput_stays(situation))
        .risk("prompts whose blocks are no longer fetched are computed again", "first-token time rises")
        .build();
    Found {
        summary: why.to_string(),
        sentence: format!("Requests stall on KV offload: {why}."),
        cost: (wait_s > 0.0 && !claims.is_empty()).then(|| Quantity { value: wait_s, unit: "s".into() }),
        claims,
        evidence: rows,
        hypotheses: vec![hypothesis],
        falsified_by: "the same first-token time with the second tier switched off".into(),
        ..Found::default()
    }
}
