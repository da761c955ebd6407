//! What to do first, what not to do: levers tried one on top of the other until the limits are kept.
//!
//! The cheapest lever that keeps the limits alone wins over a stack of them, flags win over checkpoints, and devices come
//! last. Once the limits are kept everything else is over-engineering and is named so, with what it would have brought.

use model::deployment::{Deployment, Unpredictable};

use super::case::{Candidate, Case, Effort, Setting};
use super::document::{Action, Kept, PlanStatus, PlanVerdict};
use super::input::Objective;
use super::memory_footprint::formats;
use super::operating::{Operating, with_goodput};
use super::sizing::widened;
use super::{STEPS, disaggregation, fragmentation, speculation};
use crate::words::{digits, percent, seconds};

/// Gain from which a lever is worth pulling.
const MATERIAL: f64 = 1.1;

/// Most levers of one plan.
const MOST: usize = 5;

/// What was decided.
pub(super) struct Ordered<'a> {
    /// The deployment as given.
    pub(super) now: Result<Operating, Unpredictable>,
    /// The last setting of the plan.
    pub(super) last: Setting<'a>,
    /// How that runs; nothing when nothing runs.
    pub(super) after: Option<Operating>,
    /// What to do.
    pub(super) chosen: Vec<Action>,
    /// What not to do.
    pub(super) rejected: Vec<Action>,
}

/// Decides.
pub(super) fn decide<'a>(case: &Case<'a>) -> Ordered<'a> {
    let now = case.operate(&case.start).map(|now| with_goodput(case, &case.start, now));
    let mut path: Vec<Reached<'a>> = Vec::new();
    while path.len() < MOST && !is_done(case, reached(&now, &path).1) {
        let (last, current) = (path.last().map_or(case.start, |step| step.candidate.setting), reached(&now, &path).1);
        let ids: Vec<Pulled> = path.iter().map(|step| pulled(&step.candidate)).collect();
        let Some((candidate, found)) = next(case, &last, current, &ids) else { break };
        path.push(Reached { candidate, found });
    }
    shorten(case, &now, &mut path);
    let (mut chosen, mut ids): (Vec<Action>, Vec<Pulled>) = (Vec::new(), Vec::new());
    let (mut last, mut current) = (case.start, now.as_ref().ok().cloned());
    for Reached { candidate, found } in path {
        let found = with_goodput(case, &candidate.setting, found);
        chosen.push(action(case, &candidate, current.as_ref(), Some(&found), why(case, current.as_ref(), &found)));
        ids.push(pulled(&candidate));
        (last, current) = (candidate.setting, Some(found));
    }
    let mut rejected = Vec::new();
    if let Some(current) = &current {
        let (extra, against) = against(case, &last, current, &ids);
        chosen.extend(extra);
        rejected = against;
    }
    Ordered { now, last, after: current, chosen, rejected }
}

/// A lever that was pulled and how it runs then.
struct Reached<'a> {
    candidate: Candidate<'a>,
    found: Operating,
}

/// How it runs after a path.
fn reached<'p>(now: &'p Result<Operating, Unpredictable>, path: &'p [Reached<'_>]) -> (usize, Option<&'p Operating>) {
    (path.len(), path.last().map(|step| &step.found).or(now.as_ref().ok()))
}

/// Leaves out what devices alone make unnecessary: the shortest start of the path from which no more of them do.
fn shorten<'a>(case: &Case<'a>, now: &Result<Operating, Unpredictable>, path: &mut Vec<Reached<'a>>) {
    let Some(last) = path.last().filter(|step| step.candidate.effort == Effort::Devices && step.found.kept >= Kept::Likely) else { return };
    let most = last.found.gpu_count;
    for length in 0..path.len() - 1 {
        let setting = if length == 0 { case.start } else { path[length - 1].candidate.setting };
        let before = reached(now, &path[..length]).1;
        let found = best(&tried(case, before, widened(&setting)), true).filter(|(_, found)| found.gpu_count <= most);
        if let Some((candidate, found)) = found {
            path.truncate(length);
            path.push(Reached { candidate, found });
            return;
        }
    }
}

/// Whether nothing more is wanted.
fn is_done(case: &Case<'_>, current: Option<&Operating>) -> bool {
    let latency = case.input.objective == Objective::Latency;
    latency && case.slo().is_set() && current.is_some_and(|current| current.kept >= Kept::Likely)
}

/// The levers of all steps.
fn candidates<'a>(case: &Case<'a>, setting: &Setting<'a>, ids: &[Pulled]) -> Vec<Candidate<'a>> {
    let all = STEPS.iter().flat_map(|step| (step.levers)(case, setting));
    all.filter(|candidate| !ids.iter().any(|chosen| contradicts(pulled(candidate), *chosen))).collect()
}

/// What was pulled: short name, step and effort.
type Pulled = (&'static str, &'static str, Effort);

fn pulled(candidate: &Candidate<'_>) -> Pulled {
    (candidate.id, candidate.step, candidate.effort)
}

/// A layout is chosen once, and so is a format of the weights.
fn contradicts(candidate: Pulled, chosen: Pulled) -> bool {
    let group = |(_, step, effort): Pulled| match effort {
        Effort::Layout => Some(step),
        Effort::Checkpoint | Effort::FourBits => Some("weights"),
        _ => None,
    };
    candidate.0 == chosen.0 || group(candidate).is_some_and(|of| group(chosen) == Some(of))
}

/// The next lever: the cheapest that keeps the limits by itself, else the cheapest with a material gain, else devices.
fn next<'a>(case: &Case<'a>, last: &Setting<'a>, current: Option<&Operating>, ids: &[Pulled]) -> Option<(Candidate<'a>, Operating)> {
    let own = tried(case, current, candidates(case, last, ids));
    let seeks = case.slo().is_set() || current.is_none_or(|current| current.kept == Kept::No);
    let missed = current.is_none_or(|current| current.kept == Kept::No);
    if seeks
        && missed
        && let Some(found) = best(&own, true)
    {
        return Some(found);
    }
    if let Some(found) = best(&own, false) {
        return Some(found);
    }
    if !(seeks && missed) {
        return None;
    }
    // More devices in the formats there are, before more of them in smaller ones.
    let smaller = |four_bits: bool| -> Vec<Candidate<'a>> {
        let formats = formats(last).into_iter().filter(|format| (format.effort == Effort::FourBits) == four_bits);
        formats.flat_map(|format| widened(&format.setting).into_iter().map(move |wider| Candidate { risk: format.risk, ..wider })).collect()
    };
    let stages = [widened(last), smaller(false), smaller(true)];
    let stages: Vec<Vec<Tried<'a>>> = stages.into_iter().map(|stage| tried(case, current, stage)).collect();
    let keeping = stages.iter().find_map(|stage| best(stage, true));
    // Where nothing ran, devices that hold the model are a step even if the limits stay out of reach.
    keeping.or_else(|| if current.is_none() { stages.iter().find_map(|stage| best(stage, false)) } else { None })
}

/// A lever, how it runs, and how many times better that is.
type Tried<'a> = (Candidate<'a>, Operating, f64);

/// Those of the levers that run and gain.
fn tried<'a>(case: &Case<'a>, current: Option<&Operating>, candidates: Vec<Candidate<'a>>) -> Vec<Tried<'a>> {
    let ran = candidates.into_iter().filter_map(|candidate| case.operate(&candidate.setting).ok().map(|found| (candidate, found)));
    ran.map(|(candidate, found)| {
        let gain = gain(case, current, &found);
        (candidate, found, gain)
    })
    .filter(|(.., gain)| *gain >= MATERIAL)
    .collect()
}

/// The cheapest lever, by effort, devices and gain; either of those that keep the limits, or of those that do not touch the
/// edge of accuracy.
fn best<'a>(list: &[Tried<'a>], keeps: bool) -> Option<(Candidate<'a>, Operating)> {
    list.iter()
        .filter(|(candidate, found, _)| if keeps { found.kept >= Kept::Likely } else { candidate.effort != Effort::FourBits })
        .min_by(|a, b| a.0.effort.cmp(&b.0.effort).then(a.1.gpu_count.cmp(&b.1.gpu_count)).then(b.2.total_cmp(&a.2)))
        .map(|(candidate, found, _)| (candidate.clone(), found.clone()))
}

/// How many times better, by what is wanted: towards the limits while they are missed, then the objective.
fn gain(case: &Case<'_>, before: Option<&Operating>, after: &Operating) -> f64 {
    let Some(before) = before else { return f64::MAX };
    if before.kept == Kept::No {
        return before.worst(case) / after.worst(case).max(1e-9);
    }
    if after.kept == Kept::No || after.kept < before.kept && case.input.objective == Objective::Latency {
        return 0.0;
    }
    match case.input.objective {
        Objective::Throughput => per_gpu(case, after) / per_gpu(case, before).max(1e-9),
        Objective::Latency if case.slo().is_set() => 1.0,
        Objective::Latency => answer_s(case, before) / answer_s(case, after).max(1e-9),
    }
}

/// Output tokens per second and device that could be served.
fn per_gpu(case: &Case<'_>, found: &Operating) -> f64 {
    found.capacity_tokens(case).mid / f64::from(found.gpu_count.max(1))
}

/// Seconds of a whole answer.
fn answer_s(case: &Case<'_>, found: &Operating) -> f64 {
    found.ttft_s.map_or(0.0, |ttft| ttft.mid) + found.tpot_s.mid * (case.offered.output_tokens - 1.0).max(1.0)
}

/// Why a lever was chosen.
fn why(case: &Case<'_>, before: Option<&Operating>, after: &Operating) -> String {
    let Some(before) = before else { return "it makes the model fit".into() };
    if before.kept == Kept::No && after.kept >= Kept::Likely {
        return if case.slo().is_set() { "it keeps the limits".into() } else { "it keeps the load below saturation".into() };
    }
    if before.kept == Kept::No {
        return "towards the limits".into();
    }
    match case.input.objective {
        Objective::Throughput => format!("{}x the tokens per GPU that can be served", digits(per_gpu(case, after) / per_gpu(case, before))),
        Objective::Latency => format!("whole answers {}x as fast", digits(answer_s(case, before) / answer_s(case, after))),
    }
}

fn action(case: &Case<'_>, candidate: &Candidate<'_>, before: Option<&Operating>, after: Option<&Operating>, why: String) -> Action {
    Action {
        id: candidate.id.into(),
        step: candidate.step.into(),
        what: candidate.what.clone(),
        flag: candidate.flag.clone(),
        why,
        risk: candidate.risk.map(Into::into),
        before: before.map(|before| before.document(case)),
        after: after.map(|after| after.document(case)),
    }
}

/// What is left: last resorts that are worth it, and everything that is not.
fn against<'a>(case: &Case<'a>, last: &Setting<'a>, current: &Operating, ids: &[Pulled]) -> (Vec<Action>, Vec<Action>) {
    let mut rejected: Vec<(u8, Action)> = Vec::new();
    let wider = widened(last).into_iter().next().filter(|_| case.offered.rate_per_s.is_some() && current.kept >= Kept::Likely);
    for candidate in candidates(case, last, ids).into_iter().chain(wider) {
        let Ok(found) = case.operate(&candidate.setting) else { continue };
        let why = if candidate.effort == Effort::Devices { "not needed at this load" } else { why_not(case, current, &found) };
        rejected.push((vanity(candidate.effort), action(case, &candidate, Some(current), Some(&found), why.into())));
    }
    rejected.extend(speculation::against(case, last).map(|action| (vanity(Effort::Draft), action)));
    rejected.extend(fragmentation::against(case).map(|action| (u8::MAX, action)));
    let mut extra = Vec::new();
    if let Some((worth, split)) = disaggregation::split(case, last) {
        match worth {
            true if current.kept == Kept::No || case.input.objective == Objective::Throughput => extra.push(split),
            true => rejected.push((0, Action { why: format!("the limits are kept without it ({})", split.why), ..split })),
            false => rejected.push((0, split)),
        }
    }
    rejected.sort_by_key(|(rank, _)| *rank);
    let rejected = rejected.into_iter().map(|(_, action)| action).collect();
    (extra, rejected)
}

/// Why a lever is not worth it; what it would change stands in its predictions.
fn why_not(case: &Case<'_>, current: &Operating, found: &Operating) -> &'static str {
    let (tpot, served) = (found.tpot_s.mid / current.tpot_s.mid, found.capacity_per_s.mid / current.capacity_per_s.mid);
    let small = (tpot - 1.0).abs() < 0.05 && (served - 1.0).abs() < 0.05;
    if small {
        "changes next to nothing"
    } else if found.kept < current.kept {
        "breaks what is kept now"
    } else if tpot > 1.05 && served < 1.05 {
        "slower"
    } else if served < 0.95 && (tpot > 0.95 || current.kept == Kept::No) {
        "serves less"
    } else if current.kept >= Kept::Likely && case.slo().is_set() && case.input.objective == Objective::Latency {
        "not needed, the limits are kept without it"
    } else if current.kept == Kept::No {
        "does not bring the limits into reach"
    } else {
        "gains less than 10 %, or less than what was chosen"
    }
}

/// Rank in the list of what not to do: what is built in vain most often comes first.
fn vanity(effort: Effort) -> u8 {
    match effort {
        Effort::Draft => 1,
        Effort::Devices => 2,
        Effort::Checkpoint | Effort::FourBits => 3,
        Effort::Precision => 4,
        Effort::Flag | Effort::Layout => 5,
    }
}

/// The answer in a sentence.
pub(super) fn verdict(case: &Case<'_>, ordered: &Ordered<'_>, out_of_reach: Option<&str>) -> PlanVerdict {
    let binding = ordered.now.as_ref().ok().map(|now| now.binding.to_string());
    let now = match &ordered.now {
        Ok(now) => figures(case, now),
        Err(why) => why.to_string(),
    };
    let Some(after) = &ordered.after else {
        return PlanVerdict {
            status: PlanStatus::DoesNotFit,
            sentence: format!("Does not fit: {now}. No format or layout of these GPUs holds it"),
            binding,
        };
    };
    let what: Vec<&str> = ordered.chosen.iter().filter(|action| action.after.is_some()).map(|action| action.what.as_str()).collect();
    let plan = match what.len() {
        0 => "nothing tried here helps".to_string(),
        1 => "one change".to_string(),
        count => format!("{count} changes"),
    };
    let keeps = if what.len() > 1 { "keep" } else { "keeps" };
    let unsure = if after.kept == Kept::Likely { " (not at the bad end of the range: measure first)" } else { "" };
    let started = ordered.now.is_ok();
    let (status, sentence) = if after.kept == Kept::No {
        let reason = out_of_reach.map_or_else(String::new, |why| format!(" {why}"));
        let target = if case.slo().is_set() { "keeps the limits" } else { "keeps the load below saturation" };
        (PlanStatus::OutOfReach, format!("Nothing tried here {target}. As given: {now}. Best found: {}.{reason}", figures(case, after)))
    } else if case.slo().is_set() && started && ordered.now.as_ref().is_ok_and(|now| now.kept >= Kept::Likely) {
        let gains = if what.is_empty() { String::new() } else { format!(". For more: {plan}") };
        (PlanStatus::KeptNow, format!("The limits are kept as it is{unsure}: {now}{gains}"))
    } else if case.slo().is_set() {
        let given = if started { "misses the limits" } else { "does not run" };
        (PlanStatus::KeptAfter, format!("As given it {given}: {now}. {} {keeps} them{unsure}: {}", capital(&plan), figures(case, after)))
    } else {
        let gains = if what.is_empty() {
            "nothing tried here gains 10 %".to_string()
        } else {
            format!("{}: {}", capital(&plan), figures(case, after))
        };
        let given = if started { "As given" } else { "As given it does not run" };
        (PlanStatus::NoLimits, format!("{given}: {now}. {gains}"))
    };
    PlanVerdict { status, sentence, binding }
}

/// TPOT, TTFT and load in a line.
fn figures(case: &Case<'_>, found: &Operating) -> String {
    let tpot = format!("TPOT {} ({})", seconds(found.tpot_s.mid), span(found.tpot_s.lo, found.tpot_s.hi));
    match (found.utilization, found.ttft_asked_s) {
        (Some(load), Some(ttft)) => {
            let statistic = case.slo().ttft.map_or_else(|| "p99".into(), |(statistic, _)| statistic.words());
            format!("{tpot}, TTFT {statistic} {}, {} of what it can serve", seconds(ttft.mid), percent(load.mid))
        }
        (Some(load), None) => format!(
            "saturated: {} req/s asked, about {} can be served ({}), so waits have no number",
            digits(case.offered.rate_per_s.unwrap_or(0.0)),
            digits(found.capacity_per_s.mid),
            percent(load.mid)
        ),
        (None, _) => format!("{tpot}, {} tokens/s", digits(found.tokens_per_s.mid)),
    }
}

/// A low and a high time, the unit once where both have the same.
fn span(low_s: f64, high_s: f64) -> String {
    let (low, high) = (seconds(low_s), seconds(high_s));
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number}..{high}"),
        _ => format!("{low}..{high}"),
    }
}

fn capital(text: &str) -> String {
    let mut signs = text.chars();
    signs.next().map_or_else(String::new, |first| first.to_uppercase().chain(signs).collect())
}

/// Deployments with more devices keep the layout and add replicas, or widen it where one replica spans all.
pub(super) fn more_replicas<'a>(setting: &Setting<'a>, factor: u32) -> Setting<'a> {
    let replicas = setting.deployment.replicas.max(1).saturating_mul(factor);
    setting.with(Deployment { replicas, kv_tokens: None, ..setting.deployment })
}
