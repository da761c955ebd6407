//! What happens to tokens on their way, and the host's part of a step.

use super::{Found, Lever, Wrong, number, on_off, switch, whole};
use crate::whatif::scenario::Scenario;

pub(super) const BUFFERING: Lever = Lever {
    name: "proxy_buffering",
    aliases: &["buffering"],
    takes: "on or off",
    about: "whether something on the way holds an answer until it is complete",
    apply: buffering,
};

pub(super) const BURST: Lever = Lever {
    name: "stream_interval",
    aliases: &["burst_tokens"],
    takes: "tokens per piece, 1 to 4,096",
    about: "tokens that are sent together",
    apply: burst,
};

pub(super) const HOST_STEP: Lever = Lever {
    name: "step_cost",
    aliases: &["step_overhead"],
    takes: "milliseconds off (`-2`) or on (`2`) the fixed part of each step",
    about: "host work, launches and graphs: what every step pays",
    apply: host_step,
};

fn buffering(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let before = std::mem::replace(&mut scenario.system.delivery.buffering_proxy, switch(value)?);
    Ok((on_off(before), "measured"))
}

fn burst(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let tokens = whole(value, 1)?;
    if tokens > 4096 {
        return Err(Wrong::Value);
    }
    let before = std::mem::replace(&mut scenario.system.delivery.burst_tokens, tokens);
    Ok((before.to_string(), "assumed"))
}

fn host_step(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let before = scenario.cost.a_s;
    scenario.cost.a_s = (before + number(value, -1e4..=1e4)? * 1e-3).max(0.0);
    Ok((format!("{:.3} ms", before * 1e3), "measured"))
}
