//! Prompt tokens that need not be computed again.

use super::{Found, Lever, Wrong, number, on_off, switch, with_prompt_share};
use crate::whatif::scenario::Scenario;

pub(super) const LEVER: Lever = Lever {
    name: "prefix_caching",
    aliases: &["enable_prefix_caching", "radix_cache"],
    takes: "on or off",
    about: "whether blocks of equal prompt heads are kept and found again",
    apply,
};

pub(super) const REUSE: Lever = Lever {
    name: "prefix_reuse",
    aliases: &["hit_ratio", "prefix_hit_ratio"],
    takes: "the share of prompt tokens found in the cache, 0 to 0.99",
    about: "the reuse that another order of prompts, a larger cache or better routing would reach",
    apply: reuse,
};

const RECORD: &str =
    "set `prefix_reuse` to the share you expect, or run once with caching on and compare `kv.prefix_hits` with `kv.prefix_queries`";

const SETTING: &str = "give the start-up command or log, or set `prefix_reuse` to the share you expect";

fn apply(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let on = switch(value)?;
    let Some(before) = scenario.run.prefix_caching else {
        return Err(Wrong::Unknowable("whether it is on already is not told".into(), SETTING));
    };
    if on && !before {
        let Some(reusable) = scenario.run.reusable_frac else {
            return Err(Wrong::Unknowable("how much of the prompts repeats was not recorded".into(), RECORD));
        };
        set_reuse(scenario, reusable.clamp(0.0, 0.99));
    } else if !on && before {
        set_reuse(scenario, 0.0);
    }
    scenario.run.prefix_caching = Some(on);
    Ok((on_off(before), "setting"))
}

fn reuse(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let before = scenario.run.reused_frac;
    set_reuse(scenario, number(value, 0.0..=0.99)?);
    Ok((format!("{before:.2}"), "measured"))
}

/// Prompts hold what is computed; the rest is in the cache. Attention over the cached part is inside the price per token.
fn set_reuse(scenario: &mut Scenario, share: f64) {
    let kept = 1.0 - scenario.run.reused_frac;
    scenario.workload = with_prompt_share(&scenario.workload, (1.0 - share) / kept.max(0.01));
    scenario.run.reused_frac = share;
}
