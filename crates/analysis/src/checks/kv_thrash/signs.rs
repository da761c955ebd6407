//! Thrashing without a preemption counter: what it does to throughput, and what another policy does without it.

use crate::check::figure;
use crate::contract::Evidence as Row;
use crate::contrast::{RUN_SPREAD, best_of, better_arm, numbers, texts};
use crate::evidence::Evidence;
use crate::gates::KV_NEAR_FULL;
use crate::readings::{by_load, peak, throughput};
use crate::situation::Situation;
use crate::words::{count, digits};

/// A sign of thrashing.
#[derive(Clone, Debug)]
pub(super) struct Sign {
    /// In words, with numbers.
    pub(super) why: String,
    /// Share of decode it takes at least about, where anything sizes it.
    pub(super) share: Option<f64>,
    /// Figures it stands on.
    pub(super) rows: Vec<Row>,
}

/// A full cache alone holds throughput where it is; only work done twice makes it fall to less than half.
const COLLAPSE: f64 = 2.0;
/// Throughput that falls by a fifth from its best while more is offered is no plateau and no noise.
const FALLS: f64 = 0.8;

/// The first sign there is.
pub(super) fn of_thrash(situation: &Situation<'_>) -> Option<Sign> {
    if situation.evidence.has_timeline() {
        return None;
    }
    let full = situation.load.kv_usage_max.is_some_and(|usage| usage >= KV_NEAR_FULL);
    let may_be_full = full || situation.load.kv_usage_max.is_none();
    swapped(situation.evidence)
        .filter(|_| may_be_full)
        .or_else(|| policy(situation))
        .or_else(|| swing(situation).filter(|_| full))
        .or_else(|| falls_with_load(situation).filter(|_| full))
        .or_else(|| fewer_seats_help(situation).filter(|_| full))
}

/// Requests swapped out, or prompt tokens computed again.
fn swapped(evidence: &Evidence) -> Option<Sign> {
    let positive = |name: &str| peak(evidence, name).filter(|&value| value > 0.0);
    if let Some(swapped) = positive("engine.swapped") {
        let rows = vec![figure("engine.swapped", swapped, "request", "gauges")];
        return Some(Sign { why: format!("{} running requests were swapped out", count(swapped)), share: None, rows });
    }
    let again = positive("kv.recomputed_tokens")?;
    let rows = vec![figure("kv.recomputed_tokens", again, "token", "as given")];
    Some(Sign { why: format!("{} prompt tokens are computed again per preemption", count(again)), share: None, rows })
}

/// Output throughput of one load that swings between a best and a fraction of it.
fn swing(situation: &Situation<'_>) -> Option<Sign> {
    let figures = &situation.evidence.figures;
    let (low, high) = ["client.throughput.output", "server.throughput.output", "client.throughput.total"]
        .iter()
        .find_map(|name| figures.get(&format!("{name}.min")).zip(figures.get(&format!("{name}.max"))))?;
    (low > 0.0 && high >= COLLAPSE * low).then(|| Sign {
        why: format!("throughput collapses from {} to {} token/s under one load", digits(high), digits(low)),
        share: Some(0.6 * (1.0 - low / high)),
        rows: vec![figure("throughput.max", high, "token/s", "as given"), figure("throughput.min", low, "token/s", "as given")],
    })
}

/// A sweep whose throughput falls where more is offered.
fn falls_with_load(situation: &Situation<'_>) -> Option<Sign> {
    let rows: Vec<(f64, f64)> =
        by_load(situation.evidence).into_iter().filter_map(|(load, point)| Some((load, throughput(point)?))).collect();
    let (last_load, last) = *rows.last()?;
    let (best_load, best) = rows.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (best_load < last_load && last < FALLS * best).then(|| Sign {
        why: format!("throughput falls from {} at {} to {} at {} offered", digits(best), count(best_load), digits(last), count(last_load)),
        share: Some(1.0 - last / best),
        rows: vec![figure("best throughput", best, "", "sweep"), figure("throughput at the highest load", last, "", "sweep")],
    })
}

/// A policy that admits more than fits does worse than one that does not.
fn policy(situation: &Situation<'_>) -> Option<Sign> {
    let here = situation.evidence;
    let is_safe = |arm: &Evidence| {
        texts(here, arm, "config.capacity_policy").is_some_and(|(mine, theirs)| {
            let (mine, theirs) = (mine.to_ascii_uppercase(), theirs.to_ascii_uppercase());
            mine.contains("MAX_UTILIZATION") && (theirs.contains("NO_EVICT") || theirs.is_empty())
        })
    };
    if let Some(better) = better_arm(situation, is_safe) {
        return Some(Sign {
            why: format!(
                "a policy that admits more than fits is {} times slower than one that evicts nobody ({})",
                digits(better.ratio),
                better.text()
            ),
            share: Some(better.saved()),
            rows: vec![
                figure(better.quantity, better.here, "", "this arm"),
                figure(better.quantity, better.there, "", &better.arm.run_name),
            ],
        });
    }
    let arm = situation.other_arms().find(|arm| is_safe(arm))?;
    let tail = ["client.tpot.p99", "client.itl.p99"].iter().find_map(|name| {
        here.figures.get(&format!("{name}.vs_baseline")).or_else(|| Some(here.figures.get(name)? / arm.figures.get(name)?))
    });
    let tail = tail.filter(|&ratio| ratio >= COLLAPSE)?;
    Some(Sign {
        why: format!("the slowest tokens take {} times as long as with a policy that evicts nobody", digits(tail)),
        share: None,
        rows: vec![figure("slow end of time per token over the other policy's", tail, "ratio", "as given")],
    })
}

/// Fewer seats at a full cache serve more.
fn fewer_seats_help(situation: &Situation<'_>) -> Option<Sign> {
    let here = situation.evidence;
    let fewer = situation.other_arms().find(|arm| numbers(here, arm, "config.max_num_seqs").is_some_and(|(mine, theirs)| theirs < mine))?;
    let better =
        best_of(here, fewer, &["client.throughput.output", "client.throughput.total", "client.throughput.requests", "client.duration"])?;
    (better.ratio >= RUN_SPREAD).then(|| Sign {
        why: format!("fewer seats serve {} times as much ({})", digits(better.ratio), better.text()),
        share: Some(better.saved()),
        rows: vec![figure(better.quantity, better.here, "", "this arm"), figure(better.quantity, better.there, "", &better.arm.run_name)],
    })
}
