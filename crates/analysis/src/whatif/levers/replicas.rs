//! How many engines.

use simulate::config::{KvLink, Routing, Topology};

use super::{Found, Lever, Wrong, whole};
use crate::whatif::scenario::Scenario;

pub(super) const LEVER: Lever = Lever {
    name: "replicas",
    aliases: &["data_parallel", "data_parallel_size", "dp"],
    takes: "a whole number from 1 to 4,096",
    about: "independent engines behind one address",
    apply,
};

pub(super) const SPLIT: Lever = Lever {
    name: "disaggregate",
    aliases: &["prefill_decode"],
    takes: "engines that prefill and engines that decode, as `1+1`; `1+1@25` with a link of 25 GB/s",
    about: "prompts on engines of their own",
    apply: split,
};

/// Link where none is named, bytes/s: a 200 Gbit/s network card.
const USUAL_LINK: f64 = 25e9;

fn before(scenario: &Scenario) -> String {
    match scenario.system.topology {
        Topology::Unified { replicas } => replicas.to_string(),
        Topology::Split { prefill, decode, .. } => format!("{prefill}+{decode}"),
    }
}

fn apply(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let found = before(scenario);
    let replicas = whole(value, 1)?;
    if replicas > 4096 {
        return Err(Wrong::Value);
    }
    scenario.system.topology = Topology::Unified { replicas };
    if matches!(&scenario.system.routing, Routing::Weighted(weights) if weights.len() != replicas as usize) {
        scenario.system.routing = Routing::RoundRobin;
    }
    if scenario.run.reused_frac > 0.0 {
        scenario.warnings.push("each engine has a prefix cache of its own; the share of reused tokens is kept as measured".into());
    }
    Ok((found, "measured"))
}

fn split(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let found = before(scenario);
    let (pools, link) = value.split_once('@').unwrap_or((value, ""));
    let (prefill, decode) = pools.split_once('+').ok_or(Wrong::Value)?;
    let bytes_per_s = if link.is_empty() { USUAL_LINK } else { super::number(link, 1e-3..=1e5)? * 1e9 };
    let Some(deployment) = &scenario.deployment else {
        let why = "how many bytes a token of KV cache has is not known for this model".to_string();
        return Err(Wrong::Unknowable(why, "name the model with `--model`"));
    };
    let bytes = model::memory::kv_bytes_per_token(deployment.model, deployment.kv);
    let link = KvLink { latency_ns: 1_000_000, token_ns: bytes / bytes_per_s * 1e9, lanes: 1 };
    scenario.system.topology = Topology::Split { prefill: whole(prefill, 1)?, decode: whole(decode, 1)?, link };
    scenario.system.routing = Routing::LeastRequests;
    scenario.assumed.push(format!("a link of {:.1} GB/s and 1 ms between the pools", bytes_per_s / 1e9));
    Ok((found, "measured"))
}
