//! More devices than the model needs, and no token comes sooner for it.

use crate::arms::load_differs;
use crate::change::{claims_on_steps, cost_of, first_token_stays, hypothesis, of_setting, token_time_falls};
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::evidence::Point;
use crate::pace::slowdown;
use crate::phase::Phase;
use crate::record;
use crate::sharding::{Sharding, shards_of_row};
use crate::situation::Situation;
use crate::words::{count, digits, percent};

check! {
    /// The model fits on fewer devices, and spreading it over more did not make tokens come sooner.
    ///
    /// ## Why it costs time
    /// Each device then computes less and exchanges as much. Where the exchange takes as long as the computing it saved, more
    /// devices are slower than fewer, and the spare ones could serve other requests as replicas.
    ///
    /// ## How to confirm
    /// The same load on fewer devices: time per token no longer, or shorter. That it runs there shows that it fits.
    ///
    /// ## Fix
    /// Fewer devices per replica, and more replicas.
    ///
    /// ## When this is wrong
    /// Sharded for room (long contexts, many sequences) or for the time to first token of long prompts, which do fall; a slow
    /// link that can be repaired (`slow_interconnect`).
    id: "needless_sharding", layer: Parallelism, rank: 69, phases: [Prefill, Decode], bound: "logic", validated_on: "report", run: find,
}

/// Added devices that shorten a token by less than a tenth bring nothing beyond run-to-run spread.
const NO_GAIN: f64 = 0.9;
/// Above this more devices are measurably slower, beyond what two runs differ by.
const SLOWER: f64 = 1.05;

/// An arm on fewer devices.
#[derive(Clone, Debug, PartialEq)]
struct Fewer {
    here: f64,
    there: f64,
    /// Time here over time there.
    slowdown: f64,
}

fn find(situation: &Situation<'_>) -> Answer {
    let sharding = Sharding::read(situation.subject, situation.evidence);
    if sharding.is_one_device() {
        return clear(vec![("devices", 1.0)], "one device does all");
    }
    if !situation.is_typed() && sharding.devices <= 1.0 {
        return clear(vec![("devices", sharding.devices)], "no setting spreads the model over devices");
    }
    if let Some(fewer) = over_rows(situation) {
        return if fewer.slowdown >= NO_GAIN { Answer::Found(Box::new(found(situation, &fewer))) } else { scales(&fewer) };
    }
    let is_pipeline = sharding.pipeline > 1.0 && sharding.tensor <= 1.0;
    match fewer(situation, &sharding) {
        // Stages add throughput, they bring no token sooner; what their idling costs is another question.
        Some(fewer) if is_pipeline && fewer.slowdown <= SLOWER => {
            clear(vec![("slowdown", fewer.slowdown)], "stages of a pipeline do not make a token sooner, and here not later either")
        }
        Some(fewer) if fewer.slowdown >= NO_GAIN => Answer::Found(Box::new(found(situation, &fewer))),
        Some(fewer) => scales(&fewer),
        None => Answer::CannotTell(record::unseen(
            situation,
            &["the same load on fewer devices"],
            "no run on fewer devices is there to compare with",
            "serve once on fewer devices under the same load, and hand that run over with --baseline",
            "a restart on fewer devices and two minutes under the same load",
        )),
    }
}

fn scales(fewer: &Fewer) -> Answer {
    let speedup = 1.0 / fewer.slowdown;
    let because = format!("{} devices are {} times as fast as {}", count(fewer.here), digits(speedup), count(fewer.there));
    clear(vec![("speedup", speedup), ("devices", fewer.here)], because)
}

/// A sweep over the number of tensor ranks: the most against the fastest with fewer.
fn over_rows(situation: &Situation<'_>) -> Option<Fewer> {
    let rows = situation.evidence.figures.points().filter(|row| row.typical("config.pipeline_parallel").is_none_or(|stages| stages <= 1.0));
    let time = |row: &Point| {
        let times =
            ["client.tpot", "server.tpot", "client.itl", "server.itl", "engine.step_time"].iter().find_map(|name| row.typical(name));
        times.or_else(|| row.typical("client.throughput.output").map(|rate| 1.0 / rate))
    };
    let known: Vec<(f64, f64)> = rows.filter_map(|row| Some((shards_of_row(row)?, time(row)?))).collect();
    let (here, now_s) = known.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let (there, then_s) = known.iter().copied().filter(|(shards, _)| *shards < here).min_by(|a, b| a.1.total_cmp(&b.1))?;
    (then_s > 0.0).then_some(Fewer { here, there, slowdown: now_s / then_s })
}

/// The arm on the fewest devices at the same load.
fn fewer(situation: &Situation<'_>, sharding: &Sharding) -> Option<Fewer> {
    let arms = situation.other_arms().filter(|arm| !load_differs(situation.evidence, arm));
    let known = arms.filter_map(|arm| {
        let there = Sharding::read(situation.subject, arm);
        // Data-parallel copies are replicas already, not shards.
        let shards = |sharding: &Sharding| sharding.devices / sharding.data.max(1.0);
        let is_fewer = there.devices >= 1.0 && shards(&there) < shards(sharding);
        is_fewer.then(|| Some(Fewer { here: shards(sharding), there: shards(&there), slowdown: slowdown(situation.evidence, arm)? }))?
    });
    known.min_by(|a, b| a.there.total_cmp(&b.there))
}

/// Share of the time per token: what fewer devices would not take, up to what perfect scaling would leave.
fn share(fewer: &Fewer) -> [f64; 3] {
    let ideal = 1.0 - fewer.there / (fewer.slowdown * fewer.here);
    let half_way = 1.0 - (fewer.there / fewer.here).sqrt() / fewer.slowdown;
    let slower = 1.0 - 1.0 / fewer.slowdown;
    if fewer.slowdown > SLOWER { [slower, slower, ideal] } else { [(0.5 * half_way).max(0.0), half_way.max(0.0), ideal] }
}

fn found(situation: &Situation<'_>, fewer: &Fewer) -> Found {
    let share = share(fewer);
    let (here, there) = (count(fewer.here), count(fewer.there));
    let times = percent(fewer.slowdown);
    Found {
        summary: format!("a token on {here} devices takes {times} of its time on {there}"),
        sentence: format!(
            "{here} devices are no faster than {there}: a token takes {times} of its time there, and the model fits on {there}."
        ),
        claims: claims_on_steps(situation, share, Basis::Derived),
        cost: cost_of(situation, Phase::Decode, share[1]),
        evidence: vec![
            figure(&format!("time per token on {here} over {there} devices"), fewer.slowdown, "ratio", "arms"),
            figure("the same if devices scaled", fewer.there / fewer.here, "ratio", "computed"),
        ],
        hypotheses: hypothesis(
            of_setting(
                situation,
                "tensor_parallel",
                &here,
                &there,
                &format!("serve each replica from {there} devices, and use the others as replicas"),
            ),
            "less room for KV per replica",
            "requests queue for KV, or time to first token of long prompts rises",
            vec![
                token_time_falls(
                    situation,
                    if fewer.slowdown > SLOWER { 0.8 * share[0] } else { 0.0 },
                    share[0].max(0.05),
                    "the arm on fewer devices",
                ),
                first_token_stays(situation),
            ],
        ),
        falsified_by: format!("the same load on {there} devices with a longer time per token"),
        context_only: false,
        limit: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slower_on_more_devices_is_lost_and_equal_is_lost_against_scaling() {
        let [lo, mid, hi] = share(&Fewer { here: 2.0, there: 1.0, slowdown: 1.4816 });
        assert!((lo - 0.325).abs() < 0.001 && (mid - lo).abs() < 1e-9 && (hi - 0.6625).abs() < 0.001, "{lo} {mid} {hi}");
        let [lo, mid, hi] = share(&Fewer { here: 4.0, there: 1.0, slowdown: 1.0 });
        assert!((mid - 0.5).abs() < 1e-9 && lo > 0.2 && hi > 0.7);
    }
}
