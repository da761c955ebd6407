//! How much is asked.

use simulate::config::Load;

use super::{Found, Lever, Wrong, number, whole};
use crate::whatif::scenario::Scenario;

pub(super) const LEVER: Lever = Lever {
    name: "rate",
    aliases: &["request_rate", "arrival_rate"],
    takes: "requests per second, or a factor as `x2`",
    about: "the same requests, sooner or later",
    apply,
};

pub(super) const USERS: Lever = Lever {
    name: "users",
    aliases: &["concurrency", "max_concurrency"],
    takes: "a whole number of at least 1",
    about: "users of a closed loop, each with one request at a time",
    apply: users,
};

fn apply(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let spans = |scenario: &Scenario| scenario.workload.span_ns() as f64 * 1e-9;
    let count = scenario.workload.requests().len() as f64;
    let before = if spans(scenario) > 0.0 { (count - 1.0).max(1.0) / spans(scenario) } else { scenario.run.arrivals_per_s };
    let factor = match value.strip_prefix('x') {
        Some(factor) => number(factor, 1e-3..=1e3)?,
        None => number(value, 1e-6..=1e9)? / before.max(1e-9),
    };
    if (factor - 1.0).abs() < 1e-9 {
        return Ok((value.to_string(), "measured"));
    }
    scenario.workload = scenario.workload.clone().faster(factor);
    scenario.system.load = Load::Open;
    Ok((format!("{before:.3}"), "measured"))
}

fn users(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let users = whole(value, 1)?;
    let (before, think_ns) = match scenario.system.load {
        Load::Closed { users, think_ns } => (users.to_string(), think_ns),
        Load::Open => ("open loop".into(), 0),
    };
    scenario.system.load = Load::Closed { users, think_ns };
    Ok((before, "measured"))
}
