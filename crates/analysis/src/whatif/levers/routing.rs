//! Which engine gets the next request.

use simulate::config::{Routing, Topology};

use super::{Found, Lever, Wrong};
use crate::whatif::scenario::Scenario;

pub(super) const LEVER: Lever = Lever {
    name: "routing",
    aliases: &["router_policy", "balance"],
    takes: "round_robin, least_requests, prefix_affinity, random, or a weight per replica as `9:1`",
    about: "how requests are spread over the replicas",
    apply,
};

fn apply(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let routing = match value.replace('-', "_").as_str() {
        "round_robin" | "even" => Routing::RoundRobin,
        "least_requests" | "least_connections" => Routing::LeastRequests,
        "prefix_affinity" | "cache_aware" => Routing::PrefixAffinity,
        "random" => Routing::Random,
        weights => {
            let weights: Option<Vec<u32>> = weights.split(':').map(|weight| weight.trim().parse().ok()).collect();
            let replicas = match scenario.system.topology {
                Topology::Unified { replicas } => replicas,
                Topology::Split { prefill, .. } => prefill,
            };
            Routing::Weighted(weights.filter(|weights| weights.len() == replicas as usize).ok_or(Wrong::Value)?)
        }
    };
    let before = match std::mem::replace(&mut scenario.system.routing, routing) {
        Routing::RoundRobin => "round_robin".into(),
        Routing::LeastRequests => "least_requests".into(),
        Routing::PrefixAffinity => "prefix_affinity".into(),
        Routing::Random => "random".into(),
        Routing::Weighted(weights) => {
            let all: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
            let share = |weight: &u32| format!("{:.0} %", 100.0 * f64::from(*weight) / all.max(1.0));
            weights.iter().map(share).collect::<Vec<_>>().join(" / ")
        }
    };
    Ok((before, "measured"))
}
