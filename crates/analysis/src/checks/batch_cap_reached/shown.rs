//! Seats in typed figures: a sweep or an arm with more of them, and where running stands in a sweep over the load.

use crate::contrast::{RUN_SPREAD, better_arm, numbers};
use crate::evidence::Point;
use crate::gates::{KV_NEAR_FULL, at_cap};
use crate::readings::{by_load, knee, offered, peak, throughput};
use crate::situation::Situation;
use crate::timeline::{Moment, typed_moments};

/// More seats that did better.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MoreSeats {
    /// Seats of this arm.
    pub(super) cap: f64,
    /// Seats there.
    pub(super) more: f64,
    /// How much better.
    pub(super) ratio: f64,
    /// By what.
    pub(super) by: String,
}

/// Rows or arms that differ in their seats, where more serve clearly more. Only typed figures: a timeline measures the
/// queue itself.
pub(super) fn by_more_seats(situation: &Situation<'_>) -> Option<MoreSeats> {
    if situation.evidence.has_timeline() || situation.load.kv_usage_max.is_some_and(|usage| usage >= KV_NEAR_FULL) {
        return None;
    }
    by_rows(situation).or_else(|| by_arms(situation))
}

fn by_rows(situation: &Situation<'_>) -> Option<MoreSeats> {
    let seats = |point: &Point| point.typical("config.max_num_seqs");
    let mut rows: Vec<(f64, f64)> =
        situation.evidence.figures.points().filter_map(|point| Some((seats(point)?, throughput(point)?))).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let &(cap, rate) = rows.first()?;
    let &(more, best) = rows.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let ratio = best / rate;
    (more > cap && ratio >= RUN_SPREAD).then(|| MoreSeats { cap, more, ratio, by: "throughput of the sweep".into() })
}

fn by_arms(situation: &Situation<'_>) -> Option<MoreSeats> {
    let here = situation.evidence;
    let better = better_arm(situation, |arm| numbers(here, arm, "config.max_num_seqs").is_some_and(|(mine, theirs)| theirs > mine))?;
    let (cap, more) = numbers(here, better.arm, "config.max_num_seqs")?;
    // More seats help only a batch that filled the few.
    let filled = peak(here, "engine.running").is_none_or(|running| at_cap(running, cap));
    let demanded = offered(here).is_none_or(|offered| offered > cap);
    (filled && demanded).then(|| MoreSeats { cap, more, ratio: better.ratio, by: better.text() })
}

/// Share of the seats that stands empty on average while requests wait, from rows over time or from a mean beside a
/// lowest or median wait.
pub(super) fn idle_while_waiting(situation: &Situation<'_>, cap: f64) -> Option<f64> {
    let figures = &situation.evidence.figures;
    let rows: Vec<Moment> = typed_moments(figures).into_iter().filter(|moment| moment.waiting >= 1.0).collect();
    let length: f64 = rows.iter().map(Moment::length_s).sum();
    if rows.len() >= 3 && length > 0.0 {
        return Some(1.0 - rows.iter().map(|moment| moment.running * moment.length_s()).sum::<f64>() / length / cap);
    }
    let waits =
        ["engine.waiting.min", "engine.waiting.p50"].iter().find_map(|name| figures.get(name)).is_some_and(|waiting| waiting >= 1.0);
    figures.get("engine.running.mean").filter(|_| waits).map(|mean| 1.0 - mean / cap)
}

/// Where running stands although more is offered and requests wait in the engine: a limit nobody names. A limit outside
/// the engine leaves nobody waiting in it.
pub(super) fn standing(situation: &Situation<'_>) -> Option<f64> {
    if situation.evidence.has_timeline() {
        return None;
    }
    let row = |(load, point): &(f64, &Point)| Some((*load, point.typical("engine.running")?, point.typical("engine.waiting")?));
    let rows: Vec<(f64, f64, f64)> = by_load(situation.evidence).iter().filter_map(row).collect();
    let [.., (_, before, _), (load, running, waiting)] = rows.as_slice() else { return None };
    (*waiting >= 1.0 && *load > 1.1 * running && (before - running).abs() <= 0.02 * running && *running >= 1.0).then_some(*running)
}

/// The load at which a sweep stops gaining, where that is clearly below the seats: more of them would not be filled
/// with anything but waiting.
pub(super) fn knee_below(situation: &Situation<'_>, cap: f64) -> Option<f64> {
    let rows: Vec<(f64, f64)> =
        by_load(situation.evidence).into_iter().filter_map(|(load, point)| Some((load, throughput(point)?))).collect();
    let by_concurrency = situation.evidence.figures.points().any(|point| point.typical("client.concurrency").is_some());
    let knee = knee(&rows).filter(|_| by_concurrency)?;
    (knee.load <= 0.7 * cap && knee.last_load >= cap).then_some(knee.load)
}
