//! Requests that may run together.

use super::{Found, Lever, Wrong, whole};
use crate::whatif::scenario::Scenario;

pub(super) const LEVER: Lever = Lever {
    name: "max_num_seqs",
    aliases: &["max_running_requests", "parallel", "max_batch_size", "sequences"],
    takes: "a whole number of at least 1",
    about: "requests that may run together on one engine",
    apply,
};

fn apply(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let engine = &mut scenario.system.engine;
    let before = engine.max_num_seqs;
    engine.max_num_seqs = whole(value, 1)?;
    let needed = engine.max_num_seqs.saturating_mul(engine.depth() + 1);
    if engine.max_num_batched_tokens < needed {
        engine.max_num_batched_tokens = needed;
        scenario.warnings.push(format!("the token budget rises to {needed} with the seats: each running request needs a token per step"));
    }
    if f64::from(engine.max_num_seqs) > 4.0 * scenario.run.batch.max(f64::from(before.min(64))) {
        scenario.warnings.push("far more seats than the run ever filled: the step law is extended beyond what was measured".into());
    }
    Ok((before.to_string(), "setting"))
}
