//! Room for keys and values.

use super::{Found, Lever, Wrong, number, whole};
use crate::whatif::scenario::Scenario;

pub(super) const LEVER: Lever = Lever {
    name: "kv_tokens",
    aliases: &["kv_capacity", "max_total_tokens", "kv_cache_tokens"],
    takes: "tokens that the KV cache of one engine holds, or a factor as `x2`",
    about: "size of the KV cache of one engine",
    apply,
};

pub(super) const BLOCKS: Lever = Lever {
    name: "num_gpu_blocks_override",
    aliases: &["kv_blocks", "num_gpu_blocks"],
    takes: "a whole number of at least 2",
    about: "size of the KV cache of one engine in blocks",
    apply: blocks,
};

pub(super) const BLOCK_SIZE: Lever = Lever {
    name: "block_size",
    aliases: &["page_size", "kv_block_size"],
    takes: "tokens per block, 1 to 65,536",
    about: "tokens per KV block",
    apply: block_size,
};

fn tokens(scenario: &Scenario) -> u64 {
    u64::from(scenario.system.engine.kv_blocks) * u64::from(scenario.system.engine.block_tokens)
}

fn source(scenario: &Scenario) -> &'static str {
    if scenario.run.kv_tokens.is_some() { "measured" } else { "assumed" }
}

fn set(scenario: &mut Scenario, tokens: f64) {
    let blocks = tokens / f64::from(scenario.system.engine.block_tokens);
    scenario.system.engine.kv_blocks = blocks.clamp(1.0, f64::from(u32::MAX)) as u32;
}

fn apply(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let before = tokens(scenario);
    match value.strip_prefix('x') {
        Some(factor) if scenario.run.kv_tokens.is_some() => set(scenario, before as f64 * number(factor, 1e-3..=1e3)?),
        Some(_) => {
            let why = "the size of the KV cache is not told, so that a multiple of it is none".to_string();
            return Err(Wrong::Unknowable(why, "record `/metrics` or the engine's start-up log, or set it in tokens"));
        }
        None => set(scenario, number(&value.replace('_', ""), 1.0..=1e13)?),
    }
    Ok((before.to_string(), source(scenario)))
}

fn blocks(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    // One block stays empty: vLLM keeps it as its null block.
    let before = scenario.system.engine.kv_blocks;
    scenario.system.engine.kv_blocks = whole(value, 2)? - 1;
    Ok((before.saturating_add(1).to_string(), source(scenario)))
}

fn block_size(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let (held, size) = (tokens(scenario), whole(value, 1)?);
    if size > 65_536 {
        return Err(Wrong::Value);
    }
    let before = std::mem::replace(&mut scenario.system.engine.block_tokens, size);
    set(scenario, held as f64);
    if scenario.run.reused_frac > 0.0 {
        scenario.warnings.push("larger blocks share fewer prefixes; the share of reused tokens is kept as measured".into());
    }
    Ok((before.to_string(), "setting"))
}
