//! Who refused the head of the line: the owner of each second of queue.
//!
//! Every slowdown makes a queue, so queue time is nobody's by itself. At each moment with requests waiting, the limit
//! that kept the next one out owns that moment (attribution, section 2).

use crate::evidence::{Engine, Evidence};
use crate::timeline::{Moment, moments};

/// A limit that can keep a request out of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gate {
    /// Waiting for something other than capacity: an adapter, a grammar, remote KV.
    Deferred,
    /// Every seat is taken.
    SeqCap,
    /// No KV blocks for the next prompt.
    Kv,
    /// The step's token budget is spent.
    Budget,
    /// None of these: the engine is busy.
    Compute,
}

impl Gate {
    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deferred => "deferred",
            Self::SeqCap => "seats",
            Self::Kv => "KV",
            Self::Budget => "token budget",
            Self::Compute => "compute",
        }
    }
}

/// A moment with requests waiting, and the gate that held them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GatedMoment {
    /// The moment.
    pub moment: Moment,
    /// The limit that owns it.
    pub gate: Gate,
}

impl GatedMoment {
    /// Request-seconds waited in this moment.
    pub fn weight_s(&self) -> f64 {
        self.moment.waited_s()
    }
}

/// All waiting moments of one arm.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gates {
    /// Moments with requests waiting, by time.
    pub gated: Vec<GatedMoment>,
    /// Integral of waiting over the window, request-seconds.
    pub waited_s: f64,
    /// The seat limit, the same for every engine of an arm.
    pub seats: Option<SeatLimit>,
}

impl Gates {
    /// Gates of every engine of an arm.
    pub fn read(evidence: &Evidence) -> Self {
        let mut gates = Self { seats: seat_limit(evidence), ..Self::default() };
        for engine in evidence.engines.values() {
            let moments = moments(engine);
            let labelled = label(engine, evidence, gates.seats, &moments);
            gates
                .gated
                .extend(moments.iter().zip(labelled).filter_map(|(moment, gate)| Some(GatedMoment { moment: *moment, gate: gate? })));
        }
        gates.gated.sort_by_key(|gated| gated.moment.t_start_ns);
        gates.waited_s = gates.gated.iter().map(GatedMoment::weight_s).sum();
        gates
    }

    /// Share of the waiting that `gate` owns, 0 when nothing waited.
    pub fn share(&self, gate: Gate) -> f64 {
        if self.waited_s <= 0.0 {
            return 0.0;
        }
        self.gated.iter().filter(|gated| gated.gate == gate).map(GatedMoment::weight_s).sum::<f64>() / self.waited_s
    }

    /// Stretches of moments that `gate` owns, and whether a request was preempted in them. Between two preemptions of
    /// one stretch the blocks that were freed are taken at once: the shortage is the same one.
    pub fn stretches(&self, gate: Gate) -> Vec<Stretch> {
        let mut stretches: Vec<Stretch> = Vec::new();
        for gated in self.gated.iter().filter(|gated| gated.gate == gate) {
            let (moment, preempted) = (&gated.moment, gated.moment.preemptions > 0.0);
            match stretches.last_mut().filter(|last| last.t_end_ns >= moment.t_start_ns) {
                Some(last) => {
                    last.t_end_ns = moment.t_end_ns;
                    last.preempted |= preempted;
                    last.waited_s += gated.weight_s();
                }
                None => stretches.push(Stretch {
                    t_start_ns: moment.t_start_ns,
                    t_end_ns: moment.t_end_ns,
                    preempted,
                    waited_s: gated.weight_s(),
                }),
            }
        }
        stretches
    }

    /// The gate that owns most, with its share.
    pub fn largest(&self) -> Option<(Gate, f64)> {
        [Gate::Deferred, Gate::SeqCap, Gate::Kv, Gate::Budget, Gate::Compute]
            .into_iter()
            .map(|gate| (gate, self.share(gate)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .filter(|(_, share)| *share > 0.0)
    }
}

/// Moments in a row that one gate owns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// Start, ns.
    pub t_start_ns: i64,
    /// End, ns.
    pub t_end_ns: i64,
    /// True when a request was preempted in it.
    pub preempted: bool,
    /// Request-seconds waited in it.
    pub waited_s: f64,
}

/// KV usage from which memory, not seats, may hold the next request out. Usage is sampled, so a peak is often missed.
pub const KV_NEAR_FULL: f64 = 0.9;

/// The seat limit of an engine and whether anybody named it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeatLimit {
    /// Sequences that may run at once.
    pub seats: f64,
    /// True when no setting names it and it is read off running, which stands at one number while requests wait.
    pub inferred: bool,
}

/// Fewest waiting moments from which a limit is inferred.
const MIN_STANDING: usize = 10;

/// The configured limit; else the number at which running stands in most of the waiting, with KV to spare and nobody
/// pushed out: only a limit holds a batch still under changing load.
fn seat_limit(evidence: &Evidence) -> Option<SeatLimit> {
    if let Some(seats) = evidence.settings.number("config.max_num_seqs").filter(|&seats| seats >= 1.0) {
        return Some(SeatLimit { seats, inferred: false });
    }
    let limits: Option<Vec<f64>> = evidence.engines.values().map(standing_at).collect();
    let limits = limits.filter(|limits| !limits.is_empty())?;
    let seats = limits.iter().copied().fold(0.0, f64::max);
    limits.iter().all(|limit| (limit - seats).abs() < 0.5).then_some(SeatLimit { seats, inferred: true })
}

fn standing_at(engine: &Engine) -> Option<f64> {
    let waiting: Vec<Moment> = moments(engine).into_iter().filter(|moment| moment.waiting >= 1.0).collect();
    let highest = waiting.iter().map(|moment| moment.running).fold(0.0, f64::max);
    let standing = waiting.iter().filter(|moment| at_cap(moment.running, highest)).count();
    let room = waiting.iter().all(|moment| moment.preemptions <= 0.0 && moment.kv_usage.is_some_and(|usage| usage < KV_NEAR_FULL));
    (waiting.len() >= MIN_STANDING && highest >= 1.0 && room && standing * 2 >= waiting.len()).then_some(highest)
}

/// True when `running` fills `cap`: at 98 % of it, or one below for caps above ten (gauges are written at step ends).
pub fn at_cap(running: f64, cap: f64) -> bool {
    let threshold = (0.98 * cap).ceil();
    running >= if cap > 10.0 { threshold.min(cap - 1.0) } else { threshold }
}

/// Free share of the KV cache below which the next prompt does not fit.
fn kv_need_frac(engine: &Engine, evidence: &Evidence) -> f64 {
    let capacity = kv_capacity_tokens(engine, evidence);
    let block = engine.series("kv.block_size").map_or(16.0, |series| series.max().max(1.0));
    let prompt = engine.observed("server.prompt_tokens").and_then(|delta| delta.mean()).unwrap_or(0.0);
    match capacity {
        Some(capacity) if capacity > 0.0 => ((prompt + block) / capacity).clamp(0.01, 0.5),
        _ => 0.02,
    }
}

/// KV capacity in tokens: from the engine's own metrics or log, never computed.
pub fn kv_capacity_tokens(engine: &Engine, evidence: &Evidence) -> Option<f64> {
    engine
        .series("kv.capacity")
        .map(crate::evidence::Series::max)
        .or_else(|| evidence.settings.number("kv.capacity"))
        .or_else(|| evidence.figures.typical("kv.capacity"))
        .filter(|&tokens| tokens > 0.0)
}

/// Share of steps that spent the whole token budget: those in the last histogram bucket at or below it.
pub fn budget_share(engine: &Engine, budget: f64) -> Option<f64> {
    let delta = engine.observed("engine.step_tokens")?;
    let last = delta.bounds.iter().rposition(|&bound| bound <= budget)?;
    // A bucket that reaches far below the budget says nothing about it.
    let below = last.checked_sub(1).map_or(0.0, |at| delta.bounds[at]);
    let in_bucket: f64 = delta.buckets.get(last).copied().unwrap_or(0.0);
    (delta.count > 0.0 && below >= 0.25 * budget).then(|| in_bucket / delta.count)
}

fn label(engine: &Engine, evidence: &Evidence, seats: Option<SeatLimit>, moments: &[Moment]) -> Vec<Option<Gate>> {
    let cap = seats.map(|limit| limit.seats);
    let full = 1.0 - kv_need_frac(engine, evidence);
    let budget = evidence.settings.number("config.max_num_batched_tokens");
    let budget_bound = budget.and_then(|budget| budget_share(engine, budget)).is_some_and(|share| share >= 0.5);
    let mut labels: Vec<Option<Gate>> = moments
        .iter()
        .map(|moment| {
            if moment.waiting <= 0.0 {
                return None;
            }
            Some(if moment.deferred >= 0.5 * moment.waiting {
                Gate::Deferred
            } else if cap.is_some_and(|cap| at_cap(moment.running, cap)) {
                Gate::SeqCap
            } else if moment.kv_usage.is_some_and(|usage| usage >= full) || moment.preemptions > 0.0 {
                Gate::Kv
            } else if budget_bound {
                Gate::Budget
            } else {
                Gate::Compute
            })
        })
        .collect();
    inherit(&mut labels);
    labels
}

/// At most this many `compute` moments in a row take the gate of both their neighbors: gauges are written at step
/// ends, when a finished request has left its seat and the next has not yet taken it.
const ISOLATED: usize = 2;

fn inherit(labels: &mut [Option<Gate>]) {
    let mut at = 0;
    while at < labels.len() {
        if labels[at] != Some(Gate::Compute) {
            at += 1;
            continue;
        }
        let end = (at..labels.len()).find(|&next| labels[next] != Some(Gate::Compute)).unwrap_or(labels.len());
        let before = at.checked_sub(1).and_then(|before| labels[before]);
        let after = labels.get(end).copied().flatten();
        if end - at <= ISOLATED && before.is_some() && before == after {
            labels[at..end].fill(before);
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isolated_compute_moments_inherit() {
        let seat = Some(Gate::SeqCap);
        let busy = Some(Gate::Compute);
        let mut labels = vec![seat, busy, busy, seat, busy, busy, busy, seat, busy, Some(Gate::Kv), busy];
        inherit(&mut labels);
        assert_eq!(labels, vec![seat, seat, seat, seat, busy, busy, busy, seat, busy, Some(Gate::Kv), busy]);
    }

    #[test]
    fn seats_are_taken_one_below_only_for_large_caps() {
        assert!(at_cap(2.0, 2.0) && !at_cap(1.0, 2.0));
        assert!(at_cap(31.0, 32.0) && !at_cap(30.0, 32.0));
        assert!(at_cap(251.0, 256.0) && !at_cap(250.0, 256.0));
    }
}
