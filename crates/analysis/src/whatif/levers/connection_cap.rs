//! Connections in front of the engine.

use super::{Found, Lever, Wrong, whole};
use crate::whatif::scenario::Scenario;

pub(super) const LEVER: Lever = Lever {
    name: "connection_cap",
    aliases: &["max_connections", "limit_concurrency", "pool_limit"],
    takes: "a whole number of at least 1, or `none`",
    about: "requests that client pool or proxy let through at once",
    apply,
};

fn apply(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let cap = if matches!(value, "none" | "off" | "0") { None } else { Some(whole(value, 1)?) };
    let before = std::mem::replace(&mut scenario.system.front.connection_cap, cap);
    Ok((before.map_or("none".into(), |cap| cap.to_string()), "measured"))
}
