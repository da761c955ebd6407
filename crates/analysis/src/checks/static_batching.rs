//! Batches that drain before they are refilled: seats stand empty while requests wait.

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Quantity};
use crate::contrast::{better_arm, texts};
use crate::evidence::Evidence;
use crate::gates::KV_NEAR_FULL;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::readings::peak;
use crate::record;
use crate::remedy::{self, token_time_stays};
use crate::situation::Situation;
use crate::timeline::{Moment, moments, typed_moments};
use crate::words::{count, digits, percent};

check! {
    /// A batch runs until its last request ends before the next is let in.
    ///
    /// ## Why it costs time
    /// Requests of one batch end at different times. With static batching the seats of those that ended stay empty until the
    /// longest is done; who arrives meanwhile waits for the whole batch. The longer outputs differ, the more seats idle.
    ///
    /// ## How to confirm
    /// `engine.running` falls as a staircase and jumps back only when it is (nearly) empty, while `engine.waiting` is above 0
    /// and blocks are free.
    ///
    /// ## Fix
    /// Continuous (in-flight) batching. Running stays at the cap and the idle seats go to zero.
    ///
    /// ## When this is wrong
    /// Bursts of arrivals with nobody waiting in between; a full KV cache that lets nobody in; a client that sends its
    /// requests in batches.
    id: "static_batching", layer: Scheduling, rank: 103, phases: [Queue], bound: "logic", validated_on: "typed", run: find,
}

/// Idle share of the seats, while requests wait, from which it is material.
const IDLE: f64 = 0.25;
/// A batch counts as drained below this share of its peak: refills that come earlier join a running batch.
const DRAINED: f64 = 0.25;
/// Drains that are no chance.
const MIN_DRAINS: usize = 3;
/// Times in a row that freed seats stayed empty beside waiting requests, from which one drain is enough.
const MIN_FALLS: usize = 4;
/// Served over what static batches would give, from which they are what is seen.
const AS_BATCHES: std::ops::RangeInclusive<f64> = 0.75..=1.1;
/// Fewer rows of gauges over time than this show no pattern.
const MIN_ROWS: usize = 6;
/// Engines that let requests join at every step.
const CONTINUOUS: [&str; 4] = ["vllm", "sglang", "lmdeploy", "tgi"];

fn find(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    let policy = ["config.capacity_policy", "config.scheduling_policy"]
        .iter()
        .filter_map(|key| evidence.settings.get(key))
        .find(|setting| setting.value.to_ascii_lowercase().contains("static"));
    if let Some(policy) = policy {
        let why = format!("the scheduler's policy is {}", policy.value);
        let idle = idle_by_gauges(situation).unwrap_or(0.5);
        return Answer::Found(Box::new(found(situation, &why, idle, Basis::Typed)));
    }
    if let Some(why) = arms(situation) {
        return Answer::Found(Box::new(found(situation, &why, 0.5, Basis::Typed)));
    }
    if CONTINUOUS.iter().any(|engine| situation.subject.engine.starts_with(engine)) {
        return clear(vec![], format!("{} lets requests join a running batch at every step", situation.subject.engine));
    }
    if evidence.has_timeline() { from_timeline(situation) } else { from_figures(situation) }
}

/// An arm with another scheduling policy, static by its name here, that does better.
fn arms(situation: &Situation<'_>) -> Option<String> {
    let here = situation.evidence;
    let joins = |arm: &Evidence| {
        ["config.capacity_policy", "config.scheduling_policy"].iter().any(|key| {
            texts(here, arm, key).is_some_and(|(_, theirs)| {
                ["inflight", "in-flight", "continuous"].iter().any(|word| theirs.to_ascii_lowercase().contains(word))
            })
        })
    };
    let better = better_arm(situation, joins)?;
    Some(format!("with continuous batching the same load is {} times as fast ({})", digits(better.ratio), better.text()))
}

fn from_timeline(situation: &Situation<'_>) -> Answer {
    let all: Vec<Moment> = situation.evidence.engines.values().flat_map(moments).collect();
    from_moments(situation, &all, Basis::Derived)
}

fn from_moments(situation: &Situation<'_>, all: &[Moment], basis: Basis) -> Answer {
    let peak_running = all.iter().map(|moment| moment.running).fold(0.0, f64::max);
    let waits: Vec<&Moment> =
        all.iter().filter(|moment| moment.waiting >= 1.0 && moment.kv_usage.is_none_or(|usage| usage < KV_NEAR_FULL)).collect();
    let length: f64 = waits.iter().map(|moment| moment.length_s()).sum();
    let idle: f64 = waits.iter().map(|moment| (1.0 - moment.running / peak_running.max(1.0)) * moment.length_s()).sum();
    let idle = if length > 0.0 { idle / length } else { 0.0 };
    let drains = drains(all, peak_running);
    // Where nobody ever joins but into a drained batch, two drains are no chance either.
    let joins = all.windows(2).filter(|pair| pair[1].running > pair[0].running).count();
    // Nor is one on whose long way down seats came free again and again while others waited.
    let falls = all.windows(2).filter(|pair| pair[1].running < pair[0].running && pair[0].waiting >= 1.0).count();
    let enough = drains >= MIN_DRAINS || (joins == drains && (drains + 1 == MIN_DRAINS || (drains == 1 && falls >= MIN_FALLS)));
    if idle < IDLE || !enough || peak_running < 2.0 {
        return clear(
            vec![("idle_seats_while_waiting", idle), ("drains", drains as f64)],
            format!("{} of the seats idle while requests wait; the batch drained {} times", percent(idle), count(drains as f64)),
        );
    }
    let why = format!("the batch drained {} times while requests waited, {} of its seats idle", count(drains as f64), percent(idle));
    Answer::Found(Box::new(found(situation, &why, idle, basis)))
}

/// Times the batch fell below a quarter of its peak with requests waiting and was then refilled at once, with no refill on the
/// way down.
fn drains(all: &[Moment], peak_running: f64) -> usize {
    let mut count = 0;
    let mut falling = false;
    for pair in all.windows(2) {
        let (before, now) = (pair[0].running, pair[1].running);
        if now > before {
            if falling && before <= DRAINED * peak_running && pair[0].waiting >= 1.0 && now >= 0.5 * peak_running {
                count += 1;
            }
            falling = false;
        } else if now < before {
            falling = true;
        }
    }
    count
}

/// Seats that idle on average while somebody waits all the time, from typed gauges.
fn idle_by_gauges(situation: &Situation<'_>) -> Option<f64> {
    let figures = &situation.evidence.figures;
    let always_waits = figures.lowest("engine.waiting").is_some_and(|waiting| waiting >= 1.0);
    let mean = figures.typical("engine.running").or_else(|| figures.typical("engine.step_seqs"))?;
    let most = peak(situation.evidence, "engine.running").or_else(|| peak(situation.evidence, "engine.step_seqs"))?;
    (always_waits && most > 1.0).then(|| 1.0 - mean / most)
}

fn from_figures(situation: &Situation<'_>) -> Answer {
    let figures = &situation.evidence.figures;
    let rows = typed_moments(figures);
    if rows.len() >= MIN_ROWS {
        return from_moments(situation, &rows, Basis::Typed);
    }
    if let Some((why, idle)) = by_longest(situation) {
        return Answer::Found(Box::new(found(situation, &why, idle, Basis::Typed)));
    }
    let drained = figures.get("engine.running.min").zip(figures.highest("engine.running")).is_some_and(|(low, high)| low <= DRAINED * high);
    let room = situation.load.kv_usage_max.is_none_or(|usage| usage < KV_NEAR_FULL);
    match idle_by_gauges(situation) {
        Some(idle) if idle >= IDLE && drained && room => {
            let why = format!("the batch drains and {} of its seats idle while requests wait", percent(idle));
            Answer::Found(Box::new(found(situation, &why, idle, Basis::Typed)))
        }
        Some(idle) if idle < IDLE => {
            clear(vec![("idle_seats_while_waiting", idle)], format!("{} of the seats idle while requests wait", percent(idle)))
        }
        _ => Answer::CannotTell(record::scrapes(
            &["engine.running", "engine.waiting", "config.scheduling_policy"],
            "nothing says how batches are refilled",
            None,
        )),
    }
}

/// What is served is what batches give that wait for their longest output, clearly less than joining ones would give:
/// seats over longest output times time per token, instead of seats over mean output times the same.
fn by_longest(situation: &Situation<'_>) -> Option<(String, f64)> {
    let figures = &situation.evidence.figures;
    let (mean, longest) = (figures.get("server.output_tokens.mean")?, figures.get("server.output_tokens.max")?);
    let token_s =
        ["engine.step_time", "client.tpot", "client.itl", "server.tpot", "server.itl"].iter().find_map(|name| figures.anywhere(name))?;
    let seats = situation.load.seats.or_else(|| peak(situation.evidence, "engine.running"))?;
    let served =
        figures.anywhere("client.throughput.requests").or_else(|| Some(figures.anywhere("client.throughput.output")? / mean.max(1.0)))?;
    let crowded = crate::readings::left_out(situation).is_some()
        || crate::readings::offered(situation.evidence).is_some_and(|offered| offered > seats);
    let expected = seats / (longest * token_s);
    let idle = 1.0 - mean / longest;
    // Prompts and hand-over come on top of the steps, so batches serve a little less than that, never more.
    (crowded && idle >= IDLE && seats > 1.0 && AS_BATCHES.contains(&(served / expected))).then(|| {
        let why = format!(
            "{} req/s are served, what batches of {} give that wait for their longest output of {} tokens; the mean is {}",
            digits(served),
            count(seats),
            count(longest),
            count(mean)
        );
        (why, idle)
    })
}

fn found(situation: &Situation<'_>, why: &str, idle: f64, basis: Basis) -> Found {
    // The drain is the gate that refuses the next request: the queue is its own.
    let claim = Claim { phase: Phase::Queue, what: Extent::Fraction { lo: 0.5 * idle, mid: 0.9, hi: 1.0 }, basis };
    let most = peak(situation.evidence, "engine.running").filter(|&most| most > 0.0);
    let queue_s = situation.phase_s(Phase::Queue);
    let queue = Movement::new("server.queue_time.mean", "queue", "s", Direction::Down, (queue_s > 0.0).then_some(queue_s));
    let queue = if queue_s > 0.0 {
        queue.to(0.0, queue_s * (1.0 - 0.5 * idle), "idle seats filled at every step")
    } else {
        queue.refused("the queue was not measured by itself: direction only")
    };
    let hypothesis = remedy::outside("continuous batching", "let requests join the running batch (continuous, in-flight batching)")
        .needs("restart")
        .moves(queue)
        .guards(token_time_stays(situation))
        .risk("prompts that join a running batch lengthen its steps", "the slowest gaps between tokens pass what users accept")
        .build();
    let mut rows = vec![figure("idle seats while requests wait", idle, "ratio", "gauges, or half where none were given")];
    rows.extend(most.map(|most| figure("engine.running.max", most, "request", "gauges")));
    Found {
        summary: why.to_string(),
        sentence: format!("Batches are static: {why}."),
        cost: (queue_s > 0.0).then(|| Quantity { value: idle * queue_s, unit: "s".into() }),
        claims: if situation.claimable_s(Phase::Queue) > 0.0 { vec![claim] } else { Vec::new() },
        evidence: rows,
        hypotheses: vec![hypothesis],
        falsified_by: "a request that joins while others of the batch still run".into(),
        ..Found::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refills_of_a_drained_batch_with_others_waiting_count() {
        let at = |running: f64, waiting: f64| Moment {
            t_start_ns: 0,
            t_end_ns: 1,
            running,
            waiting,
            deferred: 0.0,
            kv_usage: None,
            preemptions: 0.0,
        };
        let staircase: Vec<Moment> = [8.0, 6.0, 3.0, 1.0, 8.0, 5.0, 2.0, 8.0, 4.0, 7.0].iter().map(|&running| at(running, 3.0)).collect();
        assert_eq!(drains(&staircase, 8.0), 2);
        let nobody: Vec<Moment> = [8.0, 4.0, 1.0, 8.0].iter().map(|&running| at(running, 0.0)).collect();
        assert_eq!(drains(&nobody, 8.0), 0);
    }
}
