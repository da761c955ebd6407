//! Capture in, report out.

use std::collections::BTreeMap;

use capture::Capture;

use crate::arms::{are_of_one_system, is_elsewhere};
use crate::check::{Answer, Check};
use crate::checks::CHECKS;
use crate::confidence::{potential_ns, undecided};
use crate::contract::{Cleared, Finding, Layer, Quantity, REPORT_SCHEMA, Report, Role, Status, Unknown};
use crate::evidence::Evidence;
use crate::foretell::foretell;
use crate::precedence::{LIMITS, SHARING_ID};
use crate::present::{accounts, issues, subject, trust, window};
use crate::settlement::{Settlement, found};
use crate::situation::Situation;
use crate::symptom::{self, Recognized};
use crate::verdict::{Decision, decide};
use crate::{limits, paths, words};

/// What the user adds to the evidence.
#[derive(Clone, Debug, Default)]
pub struct DiagnoseOptions<'a> {
    /// Stated symptom id.
    pub symptom: Option<String>,
    /// Limits: signal to value in base units.
    pub slo: BTreeMap<String, f64>,
    /// Another capture to compare with.
    pub baseline: Option<&'a Capture>,
}

/// One arm, read and decided.
struct Draft<'a> {
    situation: Situation<'a>,
    answers: Vec<(&'static Check, Answer)>,
    recognized: Recognized,
    settlement: Settlement,
    decision: Decision,
}

/// Diagnoses a capture. Of several arms the one whose verdict says most is reported; the first arm is the baseline of
/// the others.
pub fn diagnose(capture: &Capture, options: &DiagnoseOptions<'_>) -> Report {
    let arms: Vec<Evidence> = Evidence::arms(capture).into_iter().map(|run_idx| Evidence::read(capture, run_idx)).collect();
    let other: Option<(&Capture, Evidence)> = options.baseline.map(|capture| (capture, Evidence::read(capture, 0)));
    let stated =
        options.symptom.clone().or_else(|| Some(capture.manifest.subject.stated_symptom.clone()).filter(|symptom| !symptom.is_empty()));
    let other = other.as_ref().map(|(base, evidence)| Situation::read(&base.manifest.subject, evidence, None, &options.slo));
    let first = arms.first().filter(|_| arms.len() > 1);
    let first = first.map(|evidence| Situation::read(&capture.manifest.subject, evidence, None, &options.slo));
    let mut drafts: Vec<Draft<'_>> = Vec::with_capacity(arms.len());
    for evidence in &arms {
        let own = first.as_ref().filter(|first| evidence.run_idx > 0 && are_of_one_system(first.evidence, evidence));
        let baseline = other.as_ref().or(own).cloned();
        let situation = Situation::read(&capture.manifest.subject, evidence, baseline, &options.slo).among(&arms);
        drafts.push(draft(situation, stated.as_deref()));
    }
    let most = (0..drafts.len()).max_by_key(|&at| (weight(&drafts, at), std::cmp::Reverse(at)));
    report(capture, options, &drafts[most.expect("a capture has at least one arm")])
}

/// What a verdict is worth when arms compete: localized over healthy over nothing, then the system that is complained
/// of over others, then whether anything was measured, then confidence, then share.
fn weight(drafts: &[Draft<'_>], at: usize) -> (u8, bool, i64, i64, i64) {
    let draft = &drafts[at];
    let verdict = &draft.decision.verdict;
    let status = match verdict.status {
        Status::Localized if verdict.check.is_some() => 3,
        Status::Localized => 2,
        // An arm that is well says nothing of one beside it that nobody could judge.
        Status::Healthy if !has_undecided_sibling(drafts, draft) => 1,
        Status::Healthy | Status::InsufficientEvidence => 0,
    };
    (
        status,
        !is_elsewhere(draft.situation.evidence),
        i64::from(!draft.situation.account.is_empty()),
        (verdict.confidence * 1000.0) as i64,
        (verdict.explained.unwrap_or(0.0) * 1000.0) as i64,
    )
}

fn has_undecided_sibling(drafts: &[Draft<'_>], draft: &Draft<'_>) -> bool {
    drafts.iter().any(|other| {
        other.decision.verdict.status == Status::InsufficientEvidence
            && !other.situation.account.is_empty()
            && other.situation.evidence.run_idx != draft.situation.evidence.run_idx
            && are_of_one_system(other.situation.evidence, draft.situation.evidence)
    })
}

fn draft<'a>(situation: Situation<'a>, stated: Option<&str>) -> Draft<'a> {
    let answers: Vec<(&'static Check, Answer)> = CHECKS.iter().map(|check| (check, (check.run)(&situation))).collect();
    let recognized = symptom::recognize(&situation, stated);
    let settlement = Settlement::new(&situation, &answers, recognized.scope);
    let decision = decide(&situation, &answers, &settlement, &recognized);
    let draft = Draft { situation, answers, recognized, settlement, decision };
    if draft.decision.cause.is_some() || draft.recognized.stated || !draft.situation.is_timed() {
        return draft;
    }
    in_other_unit(draft)
}

/// What is next to nothing of a whole request may be most of its time to first token, and the other way about: a cause in
/// the unit that was not asked for counts where the one at hand has none.
fn in_other_unit(draft: Draft<'_>) -> Draft<'_> {
    let other = symptom::in_other_unit(&draft.situation, &draft.recognized);
    let settlement = Settlement::new(&draft.situation, &draft.answers, other.scope);
    let decision = decide(&draft.situation, &draft.answers, &settlement, &other);
    let is_measured = decision.cause.is_some_and(|cause| settlement.share(cause.id).owned_ns > 0);
    if is_measured { Draft { recognized: other, settlement, decision, ..draft } } else { draft }
}

fn report(capture: &Capture, options: &DiagnoseOptions<'_>, draft: &Draft<'_>) -> Report {
    let Draft { situation, answers, recognized, settlement, decision } = draft;
    // What only batching explains is no symptom.
    let healthy = decision.verdict.status == Status::Healthy;
    let shown =
        if healthy && !recognized.stated { Recognized { id: "none", runner_up: None, ..recognized.clone() } } else { recognized.clone() };
    let cause = decision.cause.map_or("", |check| check.id);
    let unknown = unknown(situation, answers, settlement);
    let next = next(draft, &unknown);
    let findings = findings(draft);
    let lever = findings.iter().find(|finding| finding.check == cause).and_then(|finding| finding.hypotheses.first());
    let lever = lever.map_or_else(String::new, |first| first.change.lever.clone());
    // Popular fixes are about queues and batches: of recorded devices none of them can be judged.
    let is_judged = !cause.is_empty() && !situation.account.is_of_devices();
    let futile = if is_judged { limits::remedies(situation, cause, &lever) } else { Vec::new() };
    Report {
        schema: REPORT_SCHEMA.into(),
        subject: subject(capture, situation),
        window: window(situation, decision, recognized.scope),
        slo: options.slo.clone(),
        symptom: symptom::describe(situation, &shown, settlement.loss_ns),
        classification: None,
        findings,
        limits: limits::ladder(situation),
        futile,
        cleared: cleared(answers),
        unknown,
        accounts: accounts(situation),
        path: paths::walk(situation, settlement, recognized.id),
        trust: trust(capture, situation),
        issues: issues(capture),
        next,
        verdict: decision.verdict.clone(),
    }
}

fn findings(draft: &Draft<'_>) -> Vec<Finding> {
    let mut list: Vec<Finding> = Vec::new();
    for (check, role) in &draft.decision.roles {
        let Some((_, found)) = found(&draft.answers).find(|(other, _)| other.id == check.id) else { continue };
        let share = draft.settlement.share(check.id);
        let measured = !found.claims.is_empty();
        list.push(Finding {
            check: check.id.into(),
            layer: check.layer,
            role: *role,
            explained: measured.then_some(share.mid),
            explained_range: measured.then_some([share.lo, share.hi]),
            cost: found.cost.clone(),
            summary: found.summary.clone(),
            provenance: check.validated_on.into(),
            evidence: found.evidence.clone(),
            hypotheses: found.hypotheses.clone(),
        });
    }
    for finding in &mut list {
        for hypothesis in &mut finding.hypotheses {
            foretell(&draft.situation, hypothesis);
        }
        finding.evidence.retain(|row| row.value.is_finite());
        finding.hypotheses.retain(|hypothesis| is_a_change(&hypothesis.change));
    }
    let sharing = draft.settlement.share(SHARING_ID);
    if sharing.mid >= 0.05 {
        list.push(sharing_row(&draft.situation, sharing));
    }
    list.sort_by_key(|finding| finding.role);
    let mut id = 0;
    for hypothesis in list.iter_mut().flat_map(|finding| &mut finding.hypotheses) {
        id += 1;
        hypothesis.id = format!("h{id}");
    }
    list
}

/// False for advice that leaves a setting as it is, or sets it to what no number is: absurd input must not become a command.
fn is_a_change(change: &crate::contract::Change) -> bool {
    let absurd = change.to.parse::<f64>().is_ok_and(|to| !to.is_finite() || to.abs() > 1e9);
    !absurd && (change.from.is_empty() || change.from != change.to)
}

/// The price of batching, listed so that the account of the loss closes.
fn sharing_row(situation: &Situation<'_>, share: crate::settlement::Share) -> Finding {
    let per_request_s = share.owned_ns as f64 * 1e-9 / situation.n();
    Finding {
        check: SHARING_ID.into(),
        layer: crate::contract::Layer::Scheduling,
        role: Role::Context,
        explained: Some(share.mid),
        explained_range: Some([share.lo, share.hi]),
        cost: Some(Quantity { value: per_request_s, unit: "s".into() }),
        summary: format!(
            "{} per request is what the step law predicts for this batch: the price of batching",
            words::seconds(per_request_s)
        ),
        provenance: "recorded".into(),
        evidence: Vec::new(),
        hypotheses: Vec::new(),
    }
}

fn cleared(answers: &[(&'static Check, Answer)]) -> Vec<Cleared> {
    answers
        .iter()
        .filter_map(|(check, answer)| match answer {
            Answer::Clear { margin, because } => Some(Cleared {
                check: check.id.into(),
                margin: margin.iter().filter(|(_, value)| value.is_finite()).map(|(name, value)| ((*name).to_string(), *value)).collect(),
                because: because.clone(),
            }),
            _ => None,
        })
        .collect()
}

fn unknown(situation: &Situation<'_>, answers: &[(&'static Check, Answer)], settlement: &Settlement) -> Vec<Unknown> {
    let mut list: Vec<Unknown> = undecided(answers)
        .map(|(check, missing)| {
            let ns = potential_ns(situation, settlement, check, missing);
            Unknown {
                check: check.id.into(),
                could_own: (settlement.size_ns > 0).then(|| Quantity { value: ns * 1e-9 / situation.n(), unit: "s".into() }),
                could_own_share: (settlement.loss_ns > 0).then(|| ns / settlement.loss_ns as f64),
                missing: missing.signals.clone(),
                record_with: missing.record_with.clone(),
                record_cost: missing.record_cost.clone(),
                because: missing.because.clone(),
            }
        })
        .collect();
    // Of equals the recording that decides most checks comes first, and of those the most general failure mode.
    let mut decides: BTreeMap<String, usize> = BTreeMap::new();
    for unknown in &list {
        *decides.entry(unknown.record_with.clone()).or_default() += 1;
    }
    let rank = |check: &str| crate::checks::find(check).map_or(0, |check| if check.rank < LIMITS { check.rank } else { 0 });
    let share = |unknown: &Unknown| unknown.could_own_share.unwrap_or(0.0);
    // Of recorded devices only the layers of the device can say more.
    let is_elsewhere = |unknown: &Unknown| {
        let layer = crate::checks::find(&unknown.check).map(|check| check.layer);
        situation.account.is_of_devices() && !matches!(layer, Some(Layer::Hardware | Layer::Kernel | Layer::Parallelism))
    };
    list.sort_by(|a, b| {
        let by_size = share(b).total_cmp(&share(a));
        by_size
            .then_with(|| is_elsewhere(a).cmp(&is_elsewhere(b)))
            .then_with(|| decides[&b.record_with].cmp(&decides[&a.record_with]))
            .then_with(|| rank(&b.check).cmp(&rank(&a.check)))
            .then_with(|| a.check.cmp(&b.check))
    });
    list
}

fn next(draft: &Draft<'_>, unknown: &[Unknown]) -> String {
    match draft.decision.verdict.status {
        Status::Localized if draft.decision.cause.is_some() => "inferoscope verify BEFORE AFTER --hypothesis h1".into(),
        Status::Healthy => "inferoscope capture INPUT... -o baseline.capture".into(),
        Status::InsufficientEvidence if draft.situation.evidence.has_timeline() && unknown.is_empty() => {
            "no recording helps here: no check of this version tests what is left".into()
        }
        _ => unknown
            .iter()
            .find(|unknown| unknown.could_own_share.is_none_or(|share| share > 0.005))
            .map_or_else(|| crate::record::SCRAPES.into(), |first| first.record_with.clone()),
    }
}
