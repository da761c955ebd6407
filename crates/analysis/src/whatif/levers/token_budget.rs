//! How much of prompts one step computes.

use super::{Found, Lever, Wrong, on_off, switch, whole};
use crate::whatif::scenario::Scenario;

pub(super) const LEVER: Lever = Lever {
    name: "max_num_batched_tokens",
    aliases: &["token_budget", "chunked_prefill_size", "chunk_size", "max_num_tokens"],
    takes: "a whole number of at least the seats",
    about: "tokens of prompts and answers that one step computes at most",
    apply,
};

pub(super) const CHUNKED: Lever = Lever {
    name: "chunked_prefill",
    aliases: &["enable_chunked_prefill", "enable_chunked_context"],
    takes: "on or off",
    about: "whether a prompt may be computed over several steps",
    apply: chunked,
};

pub(super) const LONG_PROMPTS: Lever = Lever {
    name: "long_prefill_token_threshold",
    aliases: &["long_prefill_tokens"],
    takes: "a whole number of at least 1",
    about: "most tokens of one prompt in one step",
    apply: long_prompts,
};

fn apply(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let engine = &mut scenario.system.engine;
    let before = std::mem::replace(&mut engine.max_num_batched_tokens, whole(value, 1)?);
    let most = engine.max_num_batched_tokens / (engine.depth() + 1);
    if engine.max_num_seqs > most {
        // The batch was never that large, or the engine would refuse to start.
        scenario.warnings.push(format!(
            "seats beyond the budget of {} tokens cannot decode in one step; {most} are taken",
            engine.max_num_batched_tokens
        ));
        engine.max_num_seqs = most.max(1);
    }
    Ok((before.to_string(), "setting"))
}

fn chunked(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let before = std::mem::replace(&mut scenario.system.engine.chunked_prefill, switch(value)?);
    Ok((on_off(before), "setting"))
}

fn long_prompts(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let before = scenario.system.engine.long_prefill_tokens.replace(whole(value, 1)?);
    Ok((before.map_or("none".into(), |tokens| tokens.to_string()), "setting"))
}
