//! Step 2: how much of the prompts a prefix cache finds again, where shared prefixes break, and what that is worth.
//!
//! From block hashes, where a recording has them: stack distances give the hit share at every capacity in one pass. What
//! it saves is predicted with and without, as a whole. Without hashes nothing is guessed: the command that gets them is
//! named. Hashes are chained, so text behind the break cannot be compared; the counterfactual below says what it rests on.

mod breaks;

use model::roofline::prefill_flops;

use self::breaks::{Breaks, breaks};
use super::case::{Candidate, Case, Effort, Setting};
use super::document::{Figure, StepAnswer, StepVerdict, Table};
use crate::words::{percent, seconds};

const STEP: &str = "prefix_structure";

/// Share of prompt tokens below which a prefix cache is not worth any work.
const LEAST_HIT: f64 = 0.05;

/// Routing by prefix, where replicas divide what repeats.
pub(super) fn levers<'a>(case: &Case<'a>, setting: &Setting<'a>) -> Vec<Candidate<'a>> {
    let mut found = Vec::new();
    let divided = setting.attention_ranks() > 1.0 && !setting.prefix_routing;
    if divided && case.offered.has_blocks() && setting.prefix_caching {
        found.push(Candidate {
            id: "prefix_routing",
            step: STEP,
            what: "send requests to the replica that holds their prefix".into(),
            flag: None,
            setting: Setting { prefix_routing: true, ..*setting },
            effort: Effort::Layout,
            risk: Some("a popular prefix can overload its replica; the router must shed it"),
        });
    }
    found
}

/// Answers the step for a setting that runs.
pub(super) fn answer<'a>(case: &Case<'a>, setting: &Setting<'a>) -> StepAnswer {
    if !case.offered.has_blocks() {
        return StepAnswer {
            verdict: StepVerdict::CannotTell,
            answer: "not known from lengths: it takes block hashes or hit counters".into(),
            notes: vec![
                "Give a trace with block hashes (--workload FILE in the Mooncake or Bailian schema), or read what a running engine counts: \
                 inferoscope diagnose http://HOST:8000/metrics shows its hit rate and whether reuse is missed."
                    .into(),
            ],
            ..StepAnswer::default()
        };
    }
    let mut answer = StepAnswer::default();
    let replicas = setting.attention_ranks() as u32;
    let curve = case.offered.reuse(replicas);
    let kv = setting.kv_tokens_per_rank;
    let settled = case.settled(setting);
    let found = breaks(case);
    let hit = case.operate(setting).map_or_else(|_| curve.hit_frac(kv as u64), |now| now.cached_frac);
    answer.figures = vec![
        Figure::new("prompt tokens found again at this KV capacity", hit, "ratio"),
        Figure::new("prompt tokens found again by an unlimited cache", curve.ceiling_frac(), "ratio"),
        Figure::new("requests that share nothing with any before", found.nothing_shared_frac, "ratio"),
        Figure::new("shared prefix, median of all requests", found.shared_tokens_p[0], "token"),
        Figure::new("shared prefix, 90th percentile", found.shared_tokens_p[1], "token"),
    ];
    answer.tables.push(capacities(case, &settled, replicas));
    let (saved, early) = (what_it_saves(case, setting, hit, &mut answer), early_breaks(case, &found, &mut answer));
    answer.verdict = if hit >= LEAST_HIT || early.is_some() { StepVerdict::Fine } else { StepVerdict::DoNot };
    answer.answer = if hit < LEAST_HIT {
        format!("{} of prompt tokens repeat within reach: leave caching on, build nothing for it", percent(hit))
    } else {
        format!(
            "the prefix cache (on by default) finds {} of prompt tokens, {} with unlimited room; {saved}",
            percent(hit),
            percent(curve.ceiling_frac())
        )
    };
    if let Some(early) = early {
        answer.answer.push_str(&early);
    }
    if case.offered.is_replay_cut() {
        answer.notes.push("Reuse was counted over the first 50,000 requests.".into());
    }
    answer.notes.push("The cache starts empty: a recording that is short beside the life of its prefixes understates reuse.".into());
    answer
}

/// Hit share by capacity.
fn capacities(case: &Case<'_>, setting: &Setting<'_>, replicas: u32) -> Table {
    let curve = case.offered.reuse(replicas);
    let here = setting.kv_tokens_per_rank;
    let mut table =
        Table::new("Prompt tokens found again by cache size of one replica", &[("cache", "token"), ("found", "ratio"), ("", "text")]);
    let mut sizes: Vec<(f64, &str)> = [0.25, 0.5, 2.0, 4.0, 16.0].map(|factor| (here * factor, "")).to_vec();
    sizes.push((here, "the whole KV cache of this setting"));
    sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (tokens, remark) in sizes {
        table.rows.push(vec![tokens.round().into(), curve.hit_frac(tokens as u64).into(), remark.into()]);
    }
    if let Some(tokens) = curve.capacity_for(0.9) {
        table.rows.push(vec![(tokens as f64).into(), curve.hit_frac(tokens).into(), "nine tenths of what can be found at all".into()]);
    }
    table
}

/// With and without the cache, as a whole.
fn what_it_saves<'a>(case: &Case<'a>, setting: &Setting<'a>, hit: f64, answer: &mut StepAnswer) -> String {
    let (prompt, model) = (case.offered.prompt_tokens, setting.deployment.model);
    let whole = prefill_flops(model, prompt, 0.0);
    let saved = 1.0 - prefill_flops(model, prompt * (1.0 - hit), prompt * hit) / whole;
    answer.figures.push(Figure::new("arithmetic of prompts saved", saved, "ratio"));
    let (with, without) = (case.operate(setting), case.operate(&Setting { prefix_caching: false, prefix_routing: false, ..*setting }));
    let (Ok(with), Ok(without)) = (with, without) else { return format!("it saves {} of their arithmetic", percent(saved)) };
    let served = without.capacity_per_s.mid;
    answer.figures.push(Figure::new("could serve without it", served, "request/s"));
    match (with.ttft_s, without.ttft_s) {
        (Some(with), Some(without)) => {
            answer.figures.push(Figure::new("mean TTFT without it (simulated)", without.mid, "s"));
            format!(
                "it saves {} of their arithmetic, TTFT mean {} without it, {} with",
                percent(saved),
                seconds(without.mid),
                seconds(with.mid)
            )
        }
        (Some(with), None) => format!("TTFT mean is {} with it; without it the load is near or past what can be served", seconds(with.mid)),
        _ => format!(
            "it saves {} of their arithmetic and raises what can be served by {}",
            percent(saved),
            percent(with.capacity_per_s.mid / served - 1.0)
        ),
    }
}

/// Requests whose prefix breaks early although the sessions around them share, and what they would save if they did too.
fn early_breaks(case: &Case<'_>, found: &Breaks, answer: &mut StepAnswer) -> Option<String> {
    let mut table = Table::new("Where shared prefixes break", &[("shared tokens up to", "token"), ("requests", "ratio")]);
    table.rows = found.histogram.iter().map(|(tokens, share)| vec![(*tokens).into(), (*share).into()]).collect();
    answer.tables.push(table);
    answer.figures.push(Figure::new("requests that break within a tenth of their prompt", found.early_frac, "ratio"));
    if found.early_frac < 0.1 || found.later_share < 0.1 {
        return None;
    }
    // What varies in front of the common part (a date, a user's name, a request id) is the usual cause.
    let (prompt, model) = (case.offered.prompt_tokens, case.input.model);
    let more = found.early_frac * found.later_share;
    let saved =
        1.0 - prefill_flops(model, prompt * (1.0 - found.later_share), prompt * found.later_share) / prefill_flops(model, prompt, 0.0);
    answer.notes.push(format!(
        "{} of requests break within the first tenth of their prompt, the others share {} of theirs. If that is a date, a name or an id in \
         front of common text, putting it last would find up to {} more of all prompt tokens and save up to {} of the arithmetic of each such \
         prompt. Both are upper estimates: chained hashes do not show text behind the break, and new conversations break early by nature.",
        percent(found.early_frac),
        percent(found.later_share),
        percent(more),
        percent(saved)
    ));
    answer.figures.push(Figure::new("more found if early breaks shared like the rest, at most", more, "ratio"));
    Some(format!("; {} of requests break within a tenth of their prompt", percent(found.early_frac)))
}
