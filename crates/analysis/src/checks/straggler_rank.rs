//! One rank is always late, and all others wait for it inside the collectives.

mod by_trace;

use crate::change::{claims_on_steps, cost_of, first_token_stays, hypothesis, of_action, token_time_falls};
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::members::Members;
use crate::phase::Phase;
use crate::record;
use crate::sharding::{
    Collectives, Sharding, communication_by_rank, has_attention_copies, is_communication, kernels_by_rank, without_collectives,
};
use crate::situation::Situation;
use crate::words::{digits, percent};

check! {
    /// One rank arrives last at most collectives, and the others wait for it in every step.
    ///
    /// ## Why it costs time
    /// Ranks that share layers move together: a step takes as long as its slowest rank. A hot card, a lower power limit, a
    /// busy neighbor, a process on the wrong cores or a bad link on one of eight devices makes all eight slow, and a profile
    /// of any other rank shows long collectives.
    ///
    /// ## How to confirm
    /// Per rank: step or kernel time, clock, and time inside collectives. The late one computes longest, and waits least in
    /// the collectives; the same rank in most of them.
    ///
    /// ## Fix
    /// Compare clocks, power limits, temperatures, PCIe width and cores of that rank with its neighbors'; swap the device or
    /// the host.
    ///
    /// ## When this is wrong
    /// Ranks that have more work, not less speed (`expert_imbalance`, `dp_lockstep`), and a slow link, which delays all alike.
    id: "straggler_rank", layer: Parallelism, rank: 60, phases: [Prefill, Decode, Communication], bound: "hardware", validated_on: "simulated", run: find,
}

/// The last rank behind the median by a tenth of the step (attribution, section 6: skew of a tenth of the call).
const BEHIND: f64 = 0.10;
/// The others stand together: their own spread is at most half of what separates the last one.
const TOGETHER: f64 = 0.5;

/// One rank against the others.
#[derive(Clone, Debug, PartialEq)]
struct Late {
    rank: String,
    /// Share of the step that the others wait.
    waited: f64,
    what: String,
    value: f64,
    median: f64,
    unit: &'static str,
    basis: Basis,
}

fn find(situation: &Situation<'_>) -> Answer {
    if let Some(answer) = by_trace::answer(situation) {
        return answer;
    }
    if let Some(why) = without_collectives(situation) {
        return clear(vec![("devices", 1.0)], why);
    }
    let sharding = Sharding::read(situation.subject, situation.evidence);
    if let Some(late) =
        by_time(situation).or_else(|| by_kernels(situation)).or_else(|| by_waiting(situation)).or_else(|| by_clock(situation))
    {
        return Answer::Found(Box::new(found(situation, &late)));
    }
    if let Some(members) = TIMES
        .iter()
        .find_map(|name| Members::by(situation.evidence, name, "rank").or_else(|| Members::by(situation.evidence, name, "device")))
    {
        let behind = (members.max - members.median()) / members.max;
        return clear(vec![("behind_median", behind)], format!("the slowest rank is {} behind the median", percent(behind)));
    }
    if let Some(collectives) = Collectives::read(situation).filter(|collectives| collectives.skew_s > 0.0) {
        return by_skew(situation, &sharding, &collectives);
    }
    if !situation.is_typed() && sharding.devices <= 1.0 && !sharding.has_layer_collectives() {
        return clear(vec![("devices", sharding.devices)], "no setting spreads the model over devices");
    }
    Answer::CannotTell(record::unseen(
        situation,
        &["engine.step_time by rank", "comm.skew", "gpu.sm_clock by device"],
        "no figure tells the ranks apart",
        record::DEVICES,
        record::DEVICES_COST,
    ))
}

/// Times that a slow rank shows longer than the others.
const TIMES: [&str; 2] = ["engine.step_time", "server.tpot"];

/// One member alone above the others, who stand together.
fn alone_above(members: &Members) -> Option<(String, f64, f64)> {
    let (rank, most) = members.hottest()?.clone();
    let median = members.median();
    let others = members.each.iter().filter(|(name, _)| *name != rank).map(|(_, value)| *value);
    let second = others.fold(0.0, f64::max);
    let gap = most - median;
    (members.each.len() >= 2 && gap >= BEHIND * most && (second - median).abs() <= TOGETHER * gap).then_some((rank, most, median))
}

fn by_rank(situation: &Situation<'_>, quantity: &str) -> Option<Members> {
    ["rank", "device"].iter().find_map(|label| Members::by(situation.evidence, quantity, label)).or_else(|| {
        let rows = situation.evidence.figures.points();
        Members::of(rows.filter_map(|row| Some((format!("{}", row.typical("proc.rank")?), row.typical(quantity)?))).collect())
    })
}

/// Ranks with unequal work are late for another reason; experts and copies are unequal until shown equal.
fn has_unequal_work(situation: &Situation<'_>) -> bool {
    let sharding = Sharding::read(situation.subject, situation.evidence);
    let told = ["engine.rank_tokens", "engine.step_tokens"].iter().any(|name| Members::read(situation.evidence, name).is_some());
    let may_differ = (sharding.expert || sharding.data > 1.0 || has_attention_copies(situation.evidence)) && !told;
    may_differ
        || ["engine.rank_tokens", "engine.step_tokens"]
            .iter()
            .filter_map(|name| Members::read(situation.evidence, name))
            .any(|members| members.max_over_mean() > 1.0 + BEHIND)
}

fn by_time(situation: &Situation<'_>) -> Option<Late> {
    TIMES.iter().find_map(|name| {
        let (rank, value, median) = alone_above(&by_rank(situation, name)?)?;
        let what = format!("rank {rank} takes {} times the others' {name}", digits(value / median));
        (!has_unequal_work(situation)).then(|| Late {
            rank,
            waited: 1.0 - median / value,
            what,
            value,
            median,
            unit: "s",
            basis: Basis::Derived,
        })
    })
}

/// The same kernels take longer on one rank, and each step as much longer.
fn by_kernels(situation: &Situation<'_>) -> Option<Late> {
    let members = kernels_by_rank(situation.evidence, |category| !is_communication(category))?;
    let (rank, value, median) = alone_above(&members)?;
    let step_s = situation.evidence.figures.typical("engine.step_time").or_else(|| situation.evidence.figures.typical("client.tpot"));
    let waited = (value - median) / step_s.unwrap_or(value).max(value);
    (waited >= BEHIND && !has_unequal_work(situation)).then(|| Late {
        what: format!("rank {rank} takes {} times the others' time for the same kernels", digits(value / median)),
        rank,
        waited,
        value,
        median,
        unit: "s",
        basis: Basis::Derived,
    })
}

/// The late rank waits least: everybody is there when it arrives.
fn by_waiting(situation: &Situation<'_>) -> Option<Late> {
    let names = ["comm.skew", "comm.time", "comm.exposed_time", "kernel.sync_wait"];
    let members = names.iter().find_map(|name| by_rank(situation, name)).or_else(|| communication_by_rank(situation.evidence))?;
    let (rank, least) = members.coldest()?.clone();
    let median = members.median();
    let others = members.each.iter().filter(|(name, _)| *name != rank).map(|(_, value)| *value);
    let second = others.fold(f64::INFINITY, f64::min);
    let is_alone = members.each.len() >= 3 && median - least >= TOGETHER * median && median - second <= TOGETHER * (median - least);
    let step_s = situation.evidence.figures.typical("engine.step_time").or_else(|| situation.evidence.figures.typical("client.tpot"))?;
    let waited = (median - least) / step_s;
    (is_alone && waited >= BEHIND && !has_unequal_work(situation)).then(|| Late {
        what: format!("rank {rank} waits {} of what the others wait in collectives: they wait for it", percent(least / median)),
        rank,
        waited,
        value: least,
        median,
        unit: "s",
        basis: Basis::Derived,
    })
}

fn by_clock(situation: &Situation<'_>) -> Option<Late> {
    let members = ["gpu.sm_clock", "gpu.mem_clock"].iter().find_map(|name| by_rank(situation, name))?;
    let (rank, least) = members.coldest()?.clone();
    let median = members.median();
    let others = members.each.iter().filter(|(name, _)| *name != rank).map(|(_, value)| *value);
    let second = others.fold(f64::INFINITY, f64::min);
    let waited = 1.0 - least / median;
    (members.each.len() >= 3 && waited >= BEHIND && median - second <= TOGETHER * (median - least)).then(|| Late {
        what: format!("device {rank} runs at {} of the others' clock", percent(least / median)),
        rank,
        waited,
        value: least,
        median,
        unit: "Hz",
        basis: Basis::Bound,
    })
}

/// Skew without names: among ranks with equal work somebody is late all the time, among experts or copies work may differ.
fn by_skew(situation: &Situation<'_>, sharding: &Sharding, collectives: &Collectives) -> Answer {
    let waited = collectives.skew_s / collectives.step_s;
    let margin = vec![("skew_share", waited)];
    if waited < BEHIND {
        return clear(margin, format!("waiting for the last rank takes {} of a step", percent(waited)));
    }
    if sharding.expert || sharding.data > 1.0 || collectives.skew_s < collectives.exposed_s {
        return Answer::CannotTell(record::unseen(
            situation,
            &["comm.skew by rank"],
            format!(
                "ranks wait {} of each step for the last one; which one that is, and whether it has more work, is not known",
                percent(waited)
            ),
            record::COLLECTIVES,
            record::COLLECTIVES_COST,
        ));
    }
    let late = Late {
        rank: "one".into(),
        waited,
        what: format!("ranks with equal work wait {} of each step for the last one", percent(waited)),
        value: collectives.skew_s,
        median: 0.0,
        unit: "s",
        basis: Basis::Bound,
    };
    Answer::Found(Box::new(found(situation, &late)))
}

fn found(situation: &Situation<'_>, late: &Late) -> Found {
    let share = [0.8 * late.waited, late.waited, late.waited];
    Found {
        summary: late.what.clone(),
        sentence: format!("All ranks wait for one: {}; {} of each step goes into that.", late.what, percent(late.waited)),
        claims: claims_on_steps(situation, share, late.basis),
        cost: cost_of(situation, Phase::Decode, late.waited),
        evidence: vec![
            figure(&format!("rank {}", late.rank), late.value, late.unit, "typed or scraped by rank"),
            figure("median rank", late.median, late.unit, "typed or scraped by rank"),
            figure("waiting of the others, share of a step", late.waited, "ratio", "computed"),
        ],
        hypotheses: hypothesis(
            of_action(
                "device or host of the late rank",
                &format!("rank {}", late.rank),
                "another device",
                "restart",
                "swap that device or its host, or repair its clock, power limit, cores or link",
            ),
            "if the lateness stays with the rank's number, it is work or placement, not the device",
            "another rank is late in its place",
            vec![token_time_falls(situation, 0.5 * late.waited, late.waited, "the others' median"), first_token_stays(situation)],
        ),
        falsified_by: "another rank arrives last in more than two of five collectives".into(),
        context_only: false,
        limit: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(values: &[f64]) -> Members {
        Members::of(values.iter().enumerate().map(|(at, value)| (at.to_string(), *value)).collect()).unwrap()
    }

    #[test]
    fn one_late_rank_stands_alone() {
        assert_eq!(alone_above(&members(&[10.0, 10.2, 13.0, 10.1])).unwrap().0, "2");
        // Two late ones, or a smooth spread, are no straggler.
        assert!(alone_above(&members(&[10.0, 10.2, 13.0, 13.1])).is_none());
        assert!(alone_above(&members(&[10.0, 10.2, 10.6, 10.1])).is_none());
    }
}
