//! Runs one load after another, higher and higher: finds the knee, and the highest load that keeps the limits.
//!
//! The load is doubled until the server is saturated (throughput hardly grows, requests pile up or fail), or until the
//! client is. Between the highest load that kept the limits and the lowest that did not the sweep then halves, by ratio. The knee is the
//! last level whose step up still brought at least half of what it asked for.

use super::figures::{Figures, Slo};
use super::run::{LoadError, LoadRun, Plan};

/// What is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Users of a closed loop.
    Users,
    /// Requests per second.
    Rate,
}

impl Axis {
    /// The signal of the capture's points.
    pub fn signal(self) -> &'static str {
        match self {
            Self::Users => "client.concurrency",
            Self::Rate => "client.request_rate",
        }
    }
}

/// A sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepPlan {
    /// What is varied.
    pub axis: Axis,
    /// First level.
    pub from: f64,
    /// Highest level.
    pub to: f64,
    /// What a request must keep.
    pub slo: Slo,
    /// Share of the requests that must keep it.
    pub attainment: f64,
    /// Levels between the last good and the first bad one.
    pub refinements: u32,
}

/// One level.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Users or requests per second.
    pub value: f64,
    /// What came out.
    pub figures: Figures,
    /// Why the client is the limit, if it is.
    pub client_limits: Vec<String>,
    /// The run.
    pub run: LoadRun,
}

/// All levels, in order of running.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sweep {
    /// The levels.
    pub levels: Vec<Level>,
    /// The knee.
    pub knee: Option<f64>,
    /// The highest load that kept the limits.
    pub best: Option<f64>,
    /// Why it ended.
    pub ended: &'static str,
}

/// Throughput must grow by this for each doubling, or the server is saturated.
const LEAST_GAIN: f64 = 1.1;
/// An open loop must complete this share of what it offers.
const LEAST_KEPT_FRAC: f64 = 0.9;

/// Runs the levels. `plan_of` makes the load of a level, `run` runs it.
///
/// # Errors
/// The first level that could not be run.
pub fn sweep(
    plan: &SweepPlan,
    plan_of: &dyn Fn(f64) -> Plan,
    run: &dyn Fn(&Plan, f64) -> Result<LoadRun, LoadError>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Sweep, LoadError> {
    let mut sweep = Sweep { ended: "the highest level was reached", ..Sweep::default() };
    let level = |value: f64, sweep: &mut Sweep| -> Result<(), LoadError> {
        let run = run(&plan_of(value), value)?;
        let figures = Figures::of(&run.attempts, plan.slo);
        let client_limits = run.health.limits(&figures);
        sweep.levels.push(Level { value, figures, client_limits, run });
        Ok(())
    };
    let mut value = plan.from;
    loop {
        level(value, &mut sweep)?;
        if let Some(why) = is_stopped().then_some("it was stopped").or_else(|| end_of(plan, &sweep.levels)) {
            sweep.ended = why;
            break;
        }
        if value >= plan.to {
            break;
        }
        value = rounded(plan.axis, (value * 2.0).min(plan.to));
    }
    sweep.knee = knee(&sweep.levels);
    if plan.slo.is_set() {
        for _ in 0..plan.refinements {
            let (good, bad) = bounds(plan, &sweep.levels);
            let (Some(good), Some(bad)) = (good, bad) else { break };
            let between = rounded(plan.axis, (good * bad).sqrt());
            if is_stopped() || between <= good || between >= bad || bad / good < 1.03 {
                break;
            }
            level(between, &mut sweep)?;
        }
        sweep.best = bounds(plan, &sweep.levels).0;
    }
    Ok(sweep)
}

fn rounded(axis: Axis, value: f64) -> f64 {
    if axis == Axis::Users { value.round() } else { value }
}

fn is_good(plan: &SweepPlan, level: &Level) -> bool {
    level.figures.good_frac().is_some_and(|frac| frac >= plan.attainment)
}

/// The highest good level below the lowest bad one, and that one.
fn bounds(plan: &SweepPlan, levels: &[Level]) -> (Option<f64>, Option<f64>) {
    let bad = levels.iter().filter(|level| !is_good(plan, level)).map(|level| level.value).reduce(f64::min);
    let good = levels.iter().filter(|level| is_good(plan, level) && bad.is_none_or(|bad| level.value < bad));
    (good.map(|level| level.value).reduce(f64::max), bad)
}

/// Why no higher level is of use.
fn end_of(plan: &SweepPlan, levels: &[Level]) -> Option<&'static str> {
    let last = levels.last()?;
    if !last.client_limits.is_empty() {
        return Some("the client is the limit");
    }
    if last.figures.completed == 0 {
        return Some("no request was answered");
    }
    if last.figures.failed() * 2 > last.figures.sent {
        return Some("more than half of the requests failed");
    }
    if plan.axis == Axis::Rate && last.figures.requests_per_s() < LEAST_KEPT_FRAC * last.value && last.figures.completed >= 10 {
        return Some("the server is saturated: it answers less than 90 % of what is offered");
    }
    let [.., before, _] = levels else { return None };
    let gain = last.figures.requests_per_s() / before.figures.requests_per_s().max(f64::MIN_POSITIVE);
    let asked = last.value / before.value;
    // A last step may be shorter than a doubling.
    let least = 1.0 + (LEAST_GAIN - 1.0) * (asked - 1.0).min(1.0);
    (gain < least).then_some("the server is saturated: throughput hardly grows")
}

/// Source: our own rule; others take a fixed gain per step (10 %), which depends on the step.
fn knee(levels: &[Level]) -> Option<f64> {
    let rate = |level: &Level| level.figures.requests_per_s();
    let falls = levels.windows(2).position(|pair| {
        let asked = pair[1].value / pair[0].value - 1.0;
        let got = rate(&pair[1]) / rate(&pair[0]).max(f64::MIN_POSITIVE) - 1.0;
        got < 0.5 * asked
    });
    falls.map(|at| levels[at].value)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use simulate::{Request, Workload};

    use super::super::attempt::{Attempt, Ending, Piece};
    use super::super::body::{Api, Dialect};
    use super::super::run::Schedule;
    use super::*;
    use crate::http::HttpVersion;

    fn plan_of(value: f64) -> Plan {
        Plan {
            server: "http://localhost".parse().unwrap(),
            authorization: None,
            http: HttpVersion::Http1,
            tokenizer: None,
            api: Api::Chat,
            dialect: Dialect::OpenAi,
            model: String::new(),
            is_streamed: true,
            may_end_early: false,
            workload: Workload::new(vec![Request::new(0, 1, 1)]),
            schedule: Schedule::Closed { users: value as u32, think: Duration::ZERO, ramp: Duration::ZERO },
            warmup: 0,
            duration: None,
            timeout: Duration::from_secs(1),
            drain: Duration::from_secs(1),
            most_in_flight: 1,
            seed: 0,
        }
    }

    /// A server with ten seats and a second per answer: ten requests per second at most, queueing beyond.
    fn ten_seats(users: f64) -> LoadRun {
        let time_s = (users / 10.0).max(1.0);
        let done = |at: usize| {
            let end = (time_s * 1e9) as i64;
            let piece = |t_ns| Piece { t_ns, tokens: 1 };
            let pieces = vec![piece(end / 2), piece(end)];
            let ending = Ending::Done;
            Attempt { index: at, sent_ns: Some(0), pieces, done_ns: Some(end), output_tokens: Some(2), ending, ..Attempt::default() }
        };
        LoadRun { attempts: (0..users as usize).map(done).collect(), ..LoadRun::default() }
    }

    #[test]
    fn the_sweep_stops_when_saturated_and_finds_the_highest_good_load() {
        let slo = Slo { e2e_s: Some(1.5), ..Slo::default() };
        let plan = SweepPlan { axis: Axis::Users, from: 1.0, to: 1000.0, slo, attainment: 0.95, refinements: 6 };
        let found = sweep(&plan, &plan_of, &|_, value| Ok(ten_seats(value)), &|| false).unwrap();
        let tried: Vec<f64> = found.levels.iter().map(|level| level.value).collect();
        assert_eq!(tried, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 11.0, 13.0, 14.0, 15.0], "{}", found.ended);
        // Fifteen users wait 1.5 s in this server, sixteen longer.
        assert_eq!((found.knee, found.ended), (Some(8.0), "the server is saturated: throughput hardly grows"));
        assert_eq!(found.best, Some(15.0));
    }

    #[test]
    fn nothing_answered_ends_it() {
        let plan = SweepPlan { axis: Axis::Rate, from: 1.0, to: 64.0, slo: Slo::default(), attainment: 0.95, refinements: 3 };
        let found = sweep(&plan, &plan_of, &|_, _| Ok(LoadRun::default()), &|| false).unwrap();
        assert_eq!((found.levels.len(), found.ended, found.best), (1, "no request was answered", None));
        assert_eq!(found.levels[0].figures.failures, BTreeMap::new());
    }
}
