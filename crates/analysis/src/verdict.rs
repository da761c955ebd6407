//! From settled shares to an answer: localized, healthy, or not enough evidence.

use crate::check::{Answer, Check, Found};
use crate::claims::{Basis, Claim, Extent};
use crate::confidence::{self, Confidence, NAMED};
use crate::contract::{Layer, Role, Status, Verdict};
use crate::precedence::SHARING_ID;
use crate::settlement::{Scope, Settlement, found};
use crate::situation::Situation;
use crate::symptom::{MATERIAL_EXCESS, Recognized};
use crate::words::{self, count, percent, seconds};

mod devices;

/// A cause owns at least this share of the loss ...
const OF_LOSS: f64 = 0.05;
/// ... and at least this share of all the population's seconds in the unit ...
const OF_SIZE: f64 = 0.10;
/// ... and at least this many times the noise.
const OF_NOISE: f64 = 2.0;
/// A contributor owns at least this share of the loss.
const CONTRIBUTES: f64 = 0.10;

/// One arm, decided.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The answer.
    pub verdict: Verdict,
    /// The check that is the cause, if any.
    pub cause: Option<&'static Check>,
    /// Roles of all found checks.
    pub roles: Vec<(&'static Check, Role)>,
}

/// Decides one arm.
pub fn decide(
    situation: &Situation<'_>,
    answers: &[(&'static Check, Answer)],
    settlement: &Settlement,
    recognized: &Recognized,
) -> Decision {
    let noise_ns = noise_ns(situation, recognized.scope);
    let mut owners: Vec<(&'static Check, &Found)> = found(answers).collect();
    owners.sort_by_key(|(check, _)| (std::cmp::Reverse(settlement.share(check.id).owned_ns), check.rank, check.id));
    let material = |check: &Check| {
        let share = settlement.share(check.id);
        share.lo >= OF_LOSS && share.owned_ns as f64 >= OF_SIZE * settlement.size_ns as f64 && share.owned_ns as f64 >= OF_NOISE * noise_ns
    };
    let within = within_limits(situation);
    let cause = owners
        .iter()
        .filter(|_| within.is_none())
        .find(|(check, found)| may_be_cause(found) && material(check))
        // Evidence without seconds (a gauge and a setting) can name a cause, but not measure it.
        .or_else(|| {
            let is_fine = is_fine_by_its_times(situation, answers, settlement, recognized);
            owners
                .iter()
                .filter(|_| within.is_none())
                .find(|(_, found)| may_be_cause(found) && found.claims.is_empty() && (!is_fine || found.is_beyond_times()))
        })
        .copied();
    let roles = owners
        .iter()
        .map(|(check, found)| {
            let role = match cause {
                _ if found.limit => Role::Limit,
                _ if found.context_only => Role::Context,
                Some((winner, _)) if winner.id == check.id => Role::Cause,
                _ if within.is_none() && material(check) && settlement.share(check.id).mid >= CONTRIBUTES => Role::Contributes,
                _ => Role::TrueNotCause,
            };
            (*check, role)
        })
        .collect();
    let verdict = match cause {
        Some((check, found)) => localized(situation, answers, settlement, check, found),
        None if within.is_some() && situation.unused_limits.is_empty() => healthy(situation, recognized, within),
        None => match found_in_noise(answers, settlement) {
            Some(sentence) => insufficient(sentence),
            None => at_a_limit(situation, answers, settlement, recognized)
                .unwrap_or_else(|| without_cause(situation, answers, settlement, recognized)),
        },
    };
    let named = (verdict.status == Status::Localized).then_some(cause).flatten().map(|(check, _)| check);
    Decision { verdict, cause: named, roles }
}

/// Limits and context are true and no fault.
fn may_be_cause(found: &Found) -> bool {
    !found.context_only && !found.limit
}

/// A setting or a log line without seconds accuses nobody where the measured times leave nothing to explain.
fn is_fine_by_its_times(
    situation: &Situation<'_>,
    answers: &[(&'static Check, Answer)],
    settlement: &Settlement,
    recognized: &Recognized,
) -> bool {
    !situation.is_typed() && !recognized.stated && without_cause(situation, answers, settlement, recognized).status == Status::Healthy
}

/// A limit of hardware or model holds when it owns at least this share of the unit (attribution, section 3).
const LIMIT_HOLDS: f64 = 0.7;

/// Typed figures that stand at the bound of hardware or model: nothing is wrong, and the bound is named.
fn at_a_limit(
    situation: &Situation<'_>,
    answers: &[(&'static Check, Answer)],
    settlement: &Settlement,
    recognized: &Recognized,
) -> Option<Verdict> {
    // Claimed, not owned: the floor is served before the limits, and what runs at its floor runs at the limit as well.
    let holds = |found: &Found| claimed_ns(situation, found) >= LIMIT_HOLDS * settlement.size_ns as f64;
    let (_, found) = found(answers).find(|(_, found)| found.limit && settlement.size_ns > 0 && holds(found))?;
    situation.is_typed().then(|| Verdict {
        sentence: found.sentence.clone(),
        falsified_by: found.falsified_by.clone(),
        confidence_because: "typed figures against the hardware's bound; no series over time".into(),
        ..healthy(situation, recognized, None)
    })
}

/// What a limit's claims come to, best estimate, request-ns.
fn claimed_ns(situation: &Situation<'_>, found: &Found) -> f64 {
    let share = |claim: &Claim| if let Extent::Fraction { mid, .. } = claim.what { mid } else { 0.0 };
    found.claims.iter().map(|claim| share(claim) * situation.claimable_s(claim.phase) * situation.n() * 1e9).sum()
}

/// What was measured beside the limits the user set, when all of them are kept: then nothing is slow by the user's own
/// measure, whatever could be faster.
fn within_limits(situation: &Situation<'_>) -> Option<String> {
    let kept = !situation.limits.is_empty() && situation.limits.iter().all(|limit| !limit.is_broken());
    kept.then(|| situation.limits.iter().map(crate::floors::LimitSet::text).collect::<Vec<_>>().join("; "))
}

/// A limit that is broken although nothing here owns the excess.
fn broken_limit(situation: &Situation<'_>) -> Option<String> {
    let broken = situation.limits.iter().find(|limit| limit.is_broken())?;
    Some(format!("{}: the limit is broken, and no check owns what exceeds it.", broken.text()))
}

/// Settings whose difference explains nothing.
const IMMATERIAL: &[&str] = &["config.port", "config.host", "config.num_gpu_blocks", "config.served_model_name"];

/// Settings that differ from the baseline, as a sentence to add.
fn differences(situation: &Situation<'_>) -> String {
    let Some(baseline) = &situation.baseline else { return String::new() };
    let differing = baseline.evidence.settings.differing(&situation.evidence.settings).into_iter();
    let mut changed: Vec<String> = differing
        .filter(|(key, ..)| key.starts_with("config.") && !IMMATERIAL.contains(key))
        .filter_map(|(key, before, after)| Some(format!("{} {} -> {}", key.trim_start_matches("config."), before?, after?)))
        .collect();
    changed.truncate(4);
    if changed.is_empty() { String::new() } else { format!(" What changed since the baseline: {}.", changed.join(", ")) }
}

/// A check that owns a material part of the time but no more than the run's own noise: too much to call healthy, too
/// little to call it a cause.
fn found_in_noise(answers: &[(&'static Check, Answer)], settlement: &Settlement) -> Option<String> {
    let large = |share: crate::settlement::Share| share.hi >= OF_LOSS && share.owned_ns as f64 >= OF_SIZE * settlement.size_ns as f64;
    let (check, found) = found(answers).find(|(check, found)| may_be_cause(found) && large(settlement.share(check.id)))?;
    Some(format!(
        "{} fits ({}), but what it owns is within the run's own noise or only a bound: a longer or steadier run decides.",
        check.id, found.summary
    ))
}

/// Standard error of the unit's mean over ten batches of time, times the population, ns. 0 where no batches exist.
fn noise_ns(situation: &Situation<'_>, scope: Scope) -> f64 {
    let rows: Vec<(i64, f64)> = situation
        .evidence
        .client
        .iter()
        .filter(|row| row.ok)
        .filter_map(|row| Some((row.t_sent_ns, if scope == Scope::FirstToken { row.ttft_ns()? } else { row.e2e_ns()? } as f64)))
        .collect();
    // A queue that grows is a trend, not noise: what counts is how neighboring batches differ. The median of the
    // differences keeps one absurd row from passing for the noise of all.
    let batches = crate::stats::batch_means(&rows, 10);
    let mut steps: Vec<f64> = batches.windows(2).map(|pair| (pair[1] - pair[0]).abs() / std::f64::consts::SQRT_2).collect();
    if steps.is_empty() {
        return 0.0;
    }
    steps.sort_unstable_by(f64::total_cmp);
    let spread = steps[steps.len() / 2] / MEDIAN_OF_NORMAL;
    spread / (batches.len() as f64).sqrt() * situation.n()
}

/// Median of |x| of a standard normal.
const MEDIAN_OF_NORMAL: f64 = 0.6745;

fn localized(
    situation: &Situation<'_>,
    answers: &[(&'static Check, Answer)],
    settlement: &Settlement,
    check: &'static Check,
    found: &Found,
) -> Verdict {
    let basis = found.claims.iter().map(|claim| claim.basis).min_by_key(|basis| (basis.weight() * -100.0) as i64);
    let confidence = confidence::of(situation, answers, settlement, check, basis);
    let share = settlement.share(check.id);
    let next = confidence::rivals(situation, answers, settlement, check)
        .into_iter()
        .map(|(id, ns)| (id, ns as i64))
        .chain(
            settlement
                .shares
                .iter()
                .filter(|(owner, _)| **owner != SHARING_ID && **owner != check.id)
                .map(|(owner, share)| (*owner, share.owned_ns)),
        )
        .filter(|(_, ns)| *ns > 0)
        .max_by_key(|(id, ns)| (*ns, *id))
        .map(|(id, _)| id.to_string())
        .or_else(|| heir(settlement, check).map(|heir| heir.id.to_string()));
    // Two failure modes of one layer that own about as much: which of them it is remains open.
    let is_tied = confidence::second_in_layer_ns(settlement, check) * CLEAR_LEAD > share.owned_ns as f64;
    if confidence.value < NAMED || is_tied {
        return layer_or_nothing(situation, answers, settlement, check, found, &confidence);
    }
    Verdict {
        status: Status::Localized,
        layer: Some(check.layer),
        check: Some(check.id.into()),
        bound_class: Some(check.bound_class.into()),
        explained: (!found.claims.is_empty()).then_some(share.mid),
        explained_range: (!found.claims.is_empty()).then_some([share.lo, share.hi]),
        confidence: confidence.printed,
        confidence_because: confidence.because,
        sentence: found.sentence.clone(),
        falsified_by: found.falsified_by.clone(),
        next_suspect: next,
    }
}

/// The winner must own this many times what the next check of its own layer owns to be named.
const CLEAR_LEAD: f64 = 1.25;

/// Who would be served next in the phase where the winner owns most: the suspect if the winner is wrong and nobody else
/// owns anything.
fn heir(settlement: &Settlement, winner: &Check) -> Option<&'static Check> {
    let phase = winner.phases.iter().copied().max_by_key(|phase| settlement.ownership.owned_in_ns(winner.id, *phase))?;
    crate::checks::CHECKS.iter().filter(|check| check.rank > winner.rank && check.phases.contains(&phase)).min_by_key(|check| check.rank)
}

/// The failure mode is not sure enough to name; the layer may be, if what else its checks own adds up.
fn layer_or_nothing(
    situation: &Situation<'_>,
    answers: &[(&'static Check, Answer)],
    settlement: &Settlement,
    check: &'static Check,
    found: &Found,
    confidence: &Confidence,
) -> Verdict {
    let same_layer = crate::settlement::found(answers).filter(|(other, _)| other.layer == check.layer);
    let owned: f64 = same_layer.map(|(other, _)| settlement.share(other.id).mid).sum();
    let rival = confidence::rivals(situation, answers, settlement, check)
        .into_iter()
        .filter(|(id, _)| crate::checks::find(id).is_some_and(|other| other.layer != check.layer))
        .map(|(_, ns)| ns / settlement.loss_ns.max(1) as f64)
        .fold(0.0, f64::max);
    let layer_confidence = if owned > 0.0 { confidence.value.max(owned / (owned + rival) * Basis::Bound.weight()) } else { 0.0 };
    if layer_confidence >= NAMED {
        Verdict {
            check: None,
            explained: Some(owned.min(1.0)),
            ..layer_only(check.layer, check.bound_class, found.sentence.clone(), &confidence.because)
        }
    } else {
        insufficient(format!("{} fits, but too much is unknown to name it: {}", check.id, confidence.because))
    }
}

fn layer_only(layer: Layer, bound_class: &str, sentence: String, because: &str) -> Verdict {
    Verdict {
        status: Status::Localized,
        layer: Some(layer),
        check: None,
        bound_class: Some(bound_class.into()),
        explained: None,
        explained_range: None,
        confidence: 0.4,
        confidence_because: because.into(),
        sentence,
        falsified_by: String::new(),
        next_suspect: None,
    }
}

fn insufficient(sentence: String) -> Verdict {
    Verdict {
        status: Status::InsufficientEvidence,
        layer: None,
        check: None,
        bound_class: None,
        explained: None,
        explained_range: None,
        confidence: 0.0,
        confidence_because: String::new(),
        sentence,
        falsified_by: String::new(),
        next_suspect: None,
    }
}

/// Fewer finished requests than this are no basis for calling anything healthy.
const MIN_REQUESTS: u64 = 10;

fn without_cause(
    situation: &Situation<'_>,
    answers: &[(&'static Check, Answer)],
    settlement: &Settlement,
    recognized: &Recognized,
) -> Verdict {
    let account = &situation.account;
    if account.is_of_devices() || devices::is_capture_pass(situation) {
        return devices::without_cause(situation, answers, settlement);
    }
    if account.is_empty() {
        return insufficient(nothing_measured(situation));
    }
    if let Some(sentence) = broken_limit(situation).filter(|_| situation.evidence.has_timeline()) {
        return insufficient(sentence + &differences(situation));
    }
    if let Some(sentence) = scrapes_too_short(situation) {
        return insufficient(sentence);
    }
    // What a late client stamped late is nobody's: no layer is named by it.
    if let Some(sentence) = crate::client_health::may_explain(situation, settlement.unowned_ns as f64 * 1e-9 / situation.n()) {
        return insufficient(sentence + &differences(situation));
    }
    if let Some(verdict) = layer_from_phases(situation, settlement) {
        return verdict;
    }
    let (settlement, scope) = worse_unit(situation, answers, settlement, recognized.scope);
    let settlement = &settlement;
    if let Some(verdict) = layer_from_phases(situation, settlement) {
        return verdict;
    }
    let unowned = settlement.unowned_of_size();
    let what = if scope == Scope::FirstToken { "time to first token" } else { "request time" };
    if !situation.evidence.has_timeline() || account.n < MIN_REQUESTS || account.lifetime {
        return insufficient(format!(
            "Too little to tell: {}; which limit or stage holds the {what} does not show.",
            if situation.evidence.has_timeline() { "few finished requests" } else { "no series over time" }
        ));
    }
    if let Some(sentence) = crate::guards::not_healthy_because(situation, answers) {
        return insufficient(sentence + &differences(situation));
    }
    if unowned >= MATERIAL_EXCESS && !within_loop_granularity(situation, settlement, scope) {
        return insufficient(format!(
            "{} of the {what} ({} of {} per request) is more than {} explains, and no check owns it.{}",
            percent(unowned),
            seconds(settlement.unowned_ns as f64 * 1e-9 / situation.n()),
            seconds(settlement.size_ns as f64 * 1e-9 / situation.n()),
            reference(situation),
            differences(situation),
        ));
    }
    if let Some(limit) = situation.unused_limits.first() {
        return insufficient(format!("Nothing found, but a limit you set cannot be decided: {limit}."));
    }
    if let Some((check, share)) = blind(situation, answers, settlement, scope) {
        return insufficient(format!("Nothing found, but {check} could not be tested and may hold {} of the {what}.", percent(share)));
    }
    healthy(situation, recognized, None)
}

/// Client rows that the scrapes do not cover cannot be split into the server's phases.
fn scrapes_too_short(situation: &Situation<'_>) -> Option<String> {
    let account = &situation.account;
    let finished = situation.load.finished;
    (account.vantage == "client" && account.server_over_client.is_none() && finished > 0.0).then(|| {
        format!(
            "The scrapes cover {} of the {} requests the client sent, so their time cannot be split: record both over the same time.",
            count(finished),
            count(account.n as f64)
        )
    })
}

/// Steps within which the first token's time is granularity of the engine's loop: a request waits out the running
/// step, its prompt shares the next with others', and its token leaves one step later.
const LOOP_STEPS: f64 = 3.0;

fn within_loop_granularity(situation: &Situation<'_>, settlement: &Settlement, scope: Scope) -> bool {
    let step_s = situation.law.central().map_or(0.0, |law| law.step_s(situation.load.running_mean.max(1.0), 0.0));
    scope == Scope::FirstToken && settlement.unowned_ns as f64 * 1e-9 / situation.n() <= LOOP_STEPS * step_s
}

/// Healthy must hold in both units: the one in which more is unexplained decides.
fn worse_unit(
    situation: &Situation<'_>,
    answers: &[(&'static Check, Answer)],
    settlement: &Settlement,
    scope: Scope,
) -> (Settlement, Scope) {
    let other = if scope == Scope::Whole { Scope::FirstToken } else { Scope::Whole };
    let alternative = Settlement::new(situation, answers, other);
    if alternative.unowned_of_size() > settlement.unowned_of_size() { (alternative, other) } else { (settlement.clone(), scope) }
}

/// An undecided check that could hold a material share of the unit.
fn blind(
    situation: &Situation<'_>,
    answers: &[(&'static Check, Answer)],
    settlement: &Settlement,
    scope: Scope,
) -> Option<(&'static str, f64)> {
    let size_of = |check: &Check| {
        let phases = check.phases.iter().filter(|phase| scope.covers(**phase)).map(|phase| situation.account.part_ns(*phase)).sum::<i64>();
        phases + if scope == Scope::FirstToken { situation.account.unattributed_first_ns } else { situation.account.unattributed_ns }
    };
    confidence::undecided(answers)
        .filter_map(|(check, missing)| Some((check, missing.at_most_s? * situation.n() * 1e9)))
        .map(|(check, bound_ns)| (check.id, bound_ns.min(size_of(check) as f64) / settlement.size_ns.max(1) as f64))
        .filter(|(_, share)| *share >= MATERIAL_EXCESS)
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Unowned time in a phase that only one layer can own names that layer.
fn layer_from_phases(situation: &Situation<'_>, settlement: &Settlement) -> Option<Verdict> {
    let mut by_layer: Vec<(Layer, i64, &str)> = Vec::new();
    for (phase, &ns) in settlement.unowned_by_phase.iter().filter_map(|(phase, ns)| phase.map(|phase| (phase, ns))) {
        if let Some(layer) = phase.sole_layer().filter(|_| ns > 0) {
            by_layer.push((layer, ns, phase.as_str()));
        }
    }
    let total: i64 = by_layer.iter().map(|(_, ns, _)| ns).sum();
    let &(layer, _, largest) = by_layer.iter().max_by_key(|(_, ns, _)| *ns)?;
    let of_size = total as f64 / settlement.size_ns.max(1) as f64;
    if of_size < MATERIAL_EXCESS || settlement.loss_ns == 0 || total * 2 < settlement.unowned_ns {
        return None;
    }
    let per_request_s = total as f64 * 1e-9 / situation.n();
    let explained = total as f64 / settlement.loss_ns as f64;
    let sentence = format!(
        "{} of {} per request pass outside the engine, most of it {}.",
        seconds(per_request_s),
        seconds(settlement.size_ns as f64 * 1e-9 / situation.n()),
        stage(largest)
    );
    let mut verdict = layer_only(layer, "network", sentence, "measured between two vantages; no check names the stage");
    verdict.explained = Some(explained.min(1.0));
    verdict.confidence = 0.6;
    verdict.falsified_by = "a server-side time to first token as long as the client's".into();
    Some(verdict)
}

/// What happens in a phase outside the engine, in words.
fn stage(phase: &str) -> &'static str {
    match phase {
        "client" => "waiting for a connection: look at the pool of the caller or router",
        "gateway" => "inside the gateway before it passes the request on",
        "stream" => "held on the way out",
        _ => "on the way to the server",
    }
}

/// Figures may have been typed and still measure no whole request.
fn nothing_measured(situation: &Situation<'_>) -> String {
    let typed = situation.evidence.figures.iter().count();
    if typed == 0 {
        "Nothing in the evidence measures a request: no result file, no latency histogram, no typed time.".into()
    } else {
        format!(
            "{} given, but none of them is a time to first token or of a whole request, which every check here starts from.",
            words::plural(typed as f64, "figure")
        )
    }
}

fn reference(situation: &Situation<'_>) -> &'static str {
    match situation.floors.from {
        "baseline" => "the baseline arm",
        "slo" => "the limit set",
        _ => "this server's own step law or floor",
    }
}

fn healthy(situation: &Situation<'_>, recognized: &Recognized, within: Option<String>) -> Verdict {
    let n = count(situation.account.n as f64);
    let ttft = seconds(situation.account.first_token_mean_s());
    let e2e = seconds(situation.account.total_mean_s());
    let reference = reference(situation);
    let batching =
        if recognized.id == "none" { String::new() } else { "; what exceeds a lone request is the price of batching".to_string() };
    Verdict {
        status: Status::Healthy,
        confidence: 0.6,
        confidence_because: format!(
            "judged against {reference}; slowness that is the same at every load needs a trace or a hardware bound to show"
        ),
        sentence: match within {
            Some(limits) => format!("Within the limits set ({limits}), over {n} requests."),
            None => format!(
                "Nothing material is wrong: {n} requests, TTFT {ttft}, whole request {e2e}; no queue or preemption that matters{batching}."
            ),
        },
        falsified_by: "lone requests turn out much faster than this server's own law says".into(),
        ..insufficient(String::new())
    }
}
