//! Several devices or replicas: whether they are needed, what they say to each other, who waits for whom.

use super::read::{level, setting, total};
use super::{Asked, DEVICE_TRACE, question};
use crate::evidence::Series;
use crate::record;
use crate::situation::Situation;
use crate::words::{count, digits, percent, seconds};

/// Traces of one step on every rank.
const ALL_RANKS: &str = "one profiler trace per rank of the same steps";
/// Share of a device's memory that weights may take and leave room for a useful KV cache.
const ROOM_FOR_WEIGHTS: f64 = 0.8;
/// Communication below this share of a step is what tensor parallelism costs by nature (attribution, section 6).
const BY_NATURE: f64 = 0.2;

/// Devices that share one model.
fn shards(situation: &Situation<'_>) -> Option<f64> {
    let setting = |key: &str| situation.evidence.settings.number(key);
    setting("config.tensor_parallel").map(|tensor| tensor * setting("config.pipeline_parallel").unwrap_or(1.0))
}

question!(
    FITS_ON_FEWER,
    "fits on fewer?",
    "Does the model fit on fewer devices?",
    [("needless_sharding", "yes", "no")],
    record::SETTINGS,
    |s, _| {
        let Some(shards) = shards(s) else { return Asked::cannot_tell("how many devices share the model is not known") };
        if shards <= 1.0 {
            return Asked::new("no", "it runs on one");
        }
        match level(s, "model.weight_bytes").zip(level(s, "gpu.memory_total")) {
            Some((weights, memory)) if memory > 0.0 => {
                let needed = (weights / (ROOM_FOR_WEIGHTS * memory)).ceil().max(1.0);
                Asked::yes_no(needed < shards, format!("weights need {} of {} devices", count(needed), count(shards)))
            }
            _ => Asked::cannot_tell("needs the size of the weights and the memory per device"),
        }
    }
);

question!(
    COMMUNICATION,
    "communication exposed?",
    "How much of a step is communication that nothing hides?",
    [("exposed_communication", "yes", "no")],
    ALL_RANKS,
    |s, _| match level(s, "comm.exposed_time").or_else(|| level(s, "comm.time")) {
        Some(time_s) => match level(s, "engine.step_time").or_else(|| level(s, "server.tpot")).or_else(|| s.evidence.mean("server.tpot")) {
            Some(step_s) if step_s > 0.0 => Asked::yes_no(
                time_s >= BY_NATURE * step_s,
                format!("{} of a step; {} of {}", percent(time_s / step_s), seconds(time_s), seconds(step_s))
            ),
            _ => Asked::new("some", format!("{} per step", seconds(time_s))),
        },
        None if shards(s) == Some(1.0) => Asked::new("no", "one device"),
        None => Asked::cannot_tell("needs a device trace of one step on every rank"),
    }
);

question!(
    SKEW,
    "skew or transfer?",
    "Is a collective slow, or does it wait for a late rank?",
    [("straggler_rank", "skew", "transfer")],
    ALL_RANKS,
    |s, _| match level(s, "comm.skew").zip(level(s, "comm.time").or_else(|| level(s, "comm.exposed_time"))) {
        Some((skew_s, time_s)) if time_s > 0.0 => Asked::new(
            if skew_s >= 0.5 * time_s { "skew" } else { "transfer" },
            format!("{} of {} is waiting for the last", seconds(skew_s), seconds(time_s))
        ),
        _ => Asked::cannot_tell("needs traces of all ranks on one clock"),
    }
);

question!(
    TRANSPORT,
    "which transport?",
    "Do the ranks talk over the fastest link there is?",
    [("slow_interconnect", "no", "yes")],
    "the server's log with NCCL_DEBUG=INFO",
    |s, _| {
        let achieved = level(s, "comm.bus_bandwidth").zip(level(s, "comm.link_bandwidth")).filter(|(_, link)| *link > 0.0);
        match (setting(s, "comm.transport"), achieved) {
            (_, Some((bus, link))) => Asked::yes_no(bus >= 0.5 * link, format!("{} of the link's bandwidth", percent(bus / link))),
            ("", None) => Asked::cannot_tell("the transport is not known"),
            (name, None) => Asked::yes_no(name != "socket", name),
        }
    }
);

question!(BUBBLES, "bubbles?", "Do pipeline stages idle in turn?", [("pipeline_bubbles", "yes", "no")], DEVICE_TRACE, |s, _| {
    let stages = s.evidence.settings.number("config.pipeline_parallel");
    match (stages, level(s, "engine.stage_idle")) {
        (Some(stages), _) if stages <= 1.0 => Asked::new("no", "one stage"),
        (stages, Some(idle)) => {
            let batches = level(s, "engine.in_flight_batches");
            let least = stages.zip(batches).map_or(0.0, |(stages, batches)| (stages - 1.0) / (batches + stages - 1.0).max(1.0));
            Asked::yes_no(
                idle > (1.25 * least).max(0.1),
                format!("stages idle {}; {} is what their number costs", percent(idle), percent(least)),
            )
        }
        _ => Asked::cannot_tell("needs idle times of the stages"),
    }
});

question!(
    EXPERTS_EVEN,
    "experts even?",
    "Do the ranks that hold the experts get the same number of tokens?",
    [("expert_imbalance", "no", "yes")],
    ALL_RANKS,
    |s, _| {
        let figures = &s.evidence.figures;
        let mean = figures.get("engine.rank_tokens.mean").or_else(|| figures.get("engine.rank_tokens"));
        match figures.get("engine.rank_tokens.max").zip(mean) {
            Some((max, mean)) if mean > 0.0 => {
                // The largest of several counts exceeds their mean by chance: three standard deviations of a count.
                Asked::yes_no(max <= mean + 3.0 * mean.sqrt(), format!("the fullest has {}x the mean", digits(max / mean)))
            }
            _ if figures.get("model.experts") == Some(0.0) || s.evidence.settings.flag("config.expert_parallel") == Some(false) => {
                Asked::new("yes", "no experts are spread over ranks")
            }
            _ => Asked::cannot_tell("tokens per expert rank are not known"),
        }
    }
);

question!(
    RANKS_EVEN,
    "data-parallel ranks even?",
    "Do data-parallel ranks that step together carry the same load?",
    [("dp_lockstep", "no", "yes"), ("pd_imbalance", "no", "yes")],
    record::SCRAPES,
    |s, _| {
        let mut by_replica: std::collections::BTreeMap<&str, Vec<f64>> = std::collections::BTreeMap::new();
        for (id, engine) in &s.evidence.engines {
            if let Some(series) = engine.series("engine.running") {
                by_replica.entry(&id.replica).or_default().push(series.mean());
            }
        }
        let widest = by_replica
            .values()
            .filter(|means| means.len() > 1)
            .map(|means| spread(means))
            .max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
        match widest {
            Some((low, high)) => Asked::yes_no(is_chance(low, high), format!("{} to {} running on average", digits(low), digits(high))),
            None if s.evidence.settings.number("config.data_parallel").is_none_or(|ranks| ranks <= 1.0) && !by_replica.is_empty() => {
                Asked::new("yes", "one rank per replica")
            }
            None => Asked::cannot_tell("no series per rank"),
        }
    }
);

fn spread(means: &[f64]) -> (f64, f64) {
    means.iter().fold((f64::INFINITY, 0.0f64), |(low, high), &mean| (low.min(mean), high.max(mean)))
}

/// Counts differ by chance: up to three standard deviations, or twice.
fn is_chance(low: f64, high: f64) -> bool {
    high <= 2.0 * low || high - low <= 3.0 * high.sqrt()
}

question!(
    REPLICAS_EVEN,
    "replicas even?",
    "Do replicas carry the same load?",
    [("replica_imbalance", "no", "yes")],
    record::SCRAPES,
    |s, _| {
        let means: Vec<f64> = s.evidence.engines.values().filter_map(|engine| engine.series("engine.running")).map(Series::mean).collect();
        if means.len() < 2 {
            return Asked::new("one engine", "");
        }
        let (low, high) = spread(&means);
        Asked::yes_no(is_chance(low, high), format!("{} to {} running on average", digits(low), digits(high)))
    }
);

question!(
    ROUTING,
    "routed with the prompts?",
    "Do requests with a common beginning reach the replica that knows it?",
    [("scattered_prefix_routing", "no", "yes")],
    record::SCRAPES,
    |s, _| {
        if s.evidence.engines.len() == 1 {
            return Asked::new("yes", "one engine");
        }
        let hit = total(s, "kv.prefix_hits")
            .zip(total(s, "kv.prefix_queries"))
            .filter(|(_, queries)| *queries > 0.0)
            .map(|(hits, queries)| hits / queries);
        match hit.or_else(|| level(s, "kv.prefix_hit_ratio")).zip(level(s, "kv.prefix_reusable")) {
            Some((hit, offered)) => Asked::yes_no(
                hit >= 0.5 * offered,
                format!("{} from the caches, one shared cache would give {}", percent(hit), percent(offered)),
            ),
            None => Asked::cannot_tell("what one shared cache would give is not known"),
        }
    }
);
