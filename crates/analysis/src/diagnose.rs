//! Capture in, report out.

use std::collections::BTreeMap;

use capture::Capture;

use crate::check::{Answer, Check};
use crate::checks::CHECKS;
use crate::confidence::{potential_ns, undecided};
use crate::contract::{
    Accounts, Cleared, EngineForm, Finding, InputIssue, Quantity, REPORT_SCHEMA, Report, RequestPart, Role, SettingValue, SourceRead,
    Status, Subject, TailPart, TailRule, Trust, Unknown, Window,
};
use crate::evidence::{EngineId, Evidence};
use crate::gates::Gate;
use crate::phase::Phase;
use crate::precedence::SHARING_ID;
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
    let mut best: Option<Draft<'_>> = None;
    for evidence in &arms {
        let baseline = match &other {
            Some((base, base_evidence)) => Some(Situation::read(&base.manifest.subject, base_evidence, None, &options.slo)),
            None if evidence.run_idx > 0 => Some(Situation::read(&capture.manifest.subject, &arms[0], None, &options.slo)),
            None => None,
        };
        let situation = Situation::read(&capture.manifest.subject, evidence, baseline, &options.slo);
        let draft = draft(situation, stated.as_deref());
        if best.as_ref().is_none_or(|best| weight(&draft) > weight(best)) {
            best = Some(draft);
        }
    }
    let draft = best.expect("a capture has at least one arm");
    report(capture, options, &draft)
}

/// What a verdict is worth when arms compete: localized over healthy over nothing, then confidence, then share.
fn weight(draft: &Draft<'_>) -> (u8, i64, i64) {
    let verdict = &draft.decision.verdict;
    let status = match verdict.status {
        Status::Localized if verdict.check.is_some() => 3,
        Status::Localized => 2,
        Status::Healthy => 1,
        Status::InsufficientEvidence => 0,
    };
    (status, (verdict.confidence * 1000.0) as i64, (verdict.explained.unwrap_or(0.0) * 1000.0) as i64)
}

fn draft<'a>(situation: Situation<'a>, stated: Option<&str>) -> Draft<'a> {
    let answers: Vec<(&'static Check, Answer)> = CHECKS.iter().map(|check| (check, (check.run)(&situation))).collect();
    let recognized = symptom::recognize(&situation, stated);
    let settlement = Settlement::new(&situation, &answers, recognized.scope);
    let decision = decide(&situation, &answers, &settlement, &recognized);
    Draft { situation, answers, recognized, settlement, decision }
}

fn report(capture: &Capture, options: &DiagnoseOptions<'_>, draft: &Draft<'_>) -> Report {
    let Draft { situation, answers, recognized, settlement, decision } = draft;
    // What only batching explains is no symptom.
    let healthy = decision.verdict.status == Status::Healthy;
    let shown =
        if healthy && !recognized.stated { Recognized { id: "none", runner_up: None, ..recognized.clone() } } else { recognized.clone() };
    let cause = decision.cause.map_or("", |check| check.id);
    Report {
        schema: REPORT_SCHEMA.into(),
        subject: subject(capture, situation),
        window: window(situation, decision),
        slo: options.slo.clone(),
        symptom: symptom::describe(situation, &shown, settlement.loss_ns),
        classification: None,
        findings: findings(draft),
        limits: limits::ladder(situation),
        futile: if cause.is_empty() { Vec::new() } else { limits::remedies(situation, cause) },
        cleared: cleared(answers),
        unknown: unknown(situation, answers, settlement),
        accounts: accounts(situation),
        path: paths::walk(situation, settlement, recognized.id),
        trust: trust(capture, situation),
        issues: issues(capture),
        next: next(draft),
        verdict: decision.verdict.clone(),
    }
}

fn subject(capture: &Capture, situation: &Situation<'_>) -> Subject {
    let subject = &capture.manifest.subject;
    let mut not_established = Vec::new();
    for (known, what) in [
        (!subject.engine.is_empty(), "engine"),
        (!subject.engine_version.is_empty(), "engine version"),
        (!subject.model.is_empty(), "model"),
        (!subject.device.is_empty(), "device"),
        (situation.load.seats.is_some(), "seat limit"),
    ] {
        if !known {
            not_established.push(what.to_string());
        }
    }
    Subject {
        engine: subject.engine.clone(),
        engine_version: subject.engine_version.clone(),
        engine_form: EngineForm {
            kind: subject.engine_form.clone(),
            message_channel: subject.message_channel.clone(),
            scheduling_process: subject.scheduling_process.clone(),
            from: subject.engine_form_from.clone(),
        },
        gpu: subject.device.clone(),
        gpu_count: subject.device_count,
        model: subject.model.clone(),
        replicas: situation.evidence.engines.keys().map(EngineId::text).collect(),
        configuration: situation
            .evidence
            .settings
            .iter()
            .map(|(key, setting)| SettingValue { key: key.into(), value: setting.value.clone(), from: setting.origin.clone() })
            .collect(),
        sources: capture
            .manifest
            .sources
            .iter()
            .map(|source| SourceRead {
                name: source.name.clone(),
                format: source.format.clone(),
                rows: source.row_count,
                damaged: source.damaged,
            })
            .collect(),
        not_established,
        provenance: subject.provenance.clone(),
    }
}

fn window(situation: &Situation<'_>, decision: &Decision) -> Window {
    let (start_ns, end_ns) = situation.evidence.window().unwrap_or((0, 0));
    let engines = situation.evidence.engines.len() as u32;
    let mut window = Window { start_ns, end_ns, onset_ns: None, ongoing: None, affected: 0, engines };
    let gate = match decision.cause.map(|check| check.id) {
        Some("batch_cap_reached") => Some(Gate::SeqCap),
        Some("kv_thrash") => Some(Gate::Kv),
        Some("overload") => Some(Gate::Compute),
        _ => None,
    };
    let Some(gate) = gate else {
        window.affected = if decision.verdict.status == Status::Localized { engines } else { 0 };
        return window;
    };
    let held: Vec<_> = situation.gates.gated.iter().filter(|gated| gated.gate == gate).collect();
    if let (Some(first), Some(last)) = (onset(&held), held.last()) {
        let length = (end_ns - start_ns).max(1);
        // Within the first twentieth of the window it began with the window, as far as anyone can tell.
        window.onset_ns = (first - start_ns > length / 20).then_some(first);
        window.ongoing = Some(end_ns - last.moment.t_end_ns <= length / 20);
    }
    window.affected = engines.min(
        situation
            .evidence
            .engines
            .values()
            .filter(|engine| engine.series("engine.waiting").is_some_and(|series| series.max() > 0.0))
            .count()
            .max(1) as u32,
    );
    window
}

/// Start of the waiting that lasts: the first moment after which gaps between moments stay under a tenth of the span.
fn onset(held: &[&crate::gates::GatedMoment]) -> Option<i64> {
    let (first, last) = (held.first()?, held.last()?);
    let span = (last.moment.t_end_ns - first.moment.t_start_ns).max(1);
    let broken = held.windows(2).rposition(|pair| pair[1].moment.t_start_ns - pair[0].moment.t_end_ns > span / 10);
    Some(held[broken.map_or(0, |at| at + 1)].moment.t_start_ns)
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
                record_cost: format!("{}; {}", missing.record_cost, missing.because),
            }
        })
        .collect();
    list.sort_by(|a, b| b.could_own_share.unwrap_or(0.0).total_cmp(&a.could_own_share.unwrap_or(0.0)).then_with(|| a.check.cmp(&b.check)));
    list
}

fn accounts(situation: &Situation<'_>) -> Accounts {
    let account = &situation.account;
    if account.is_empty() {
        return Accounts::default();
    }
    let typed = account.vantage == "typed";
    let n = situation.n();
    let tail = account.tail.as_ref();
    let tail_of = |ns: i64| {
        tail.map(|tail| TailPart { mean_s: ns as f64 * 1e-9 / tail.n.max(1) as f64, share: ns as f64 / tail.total_ns.max(1) as f64 })
    };
    let mut request: Vec<RequestPart> = account
        .parts
        .iter()
        .filter(|(_, ns)| **ns > 0)
        .map(|(&phase, &total_ns)| RequestPart {
            part: phase.as_str().into(),
            layer: Some(phase.layer()),
            total_ns,
            mean_s: total_ns as f64 * 1e-9 / n,
            share: total_ns as f64 / account.total_ns as f64,
            tail: tail_of(tail.and_then(|tail| tail.parts.get(&phase)).copied().unwrap_or(0)),
            remark: remark(situation, phase),
        })
        .collect();
    request.push(RequestPart {
        part: "unattributed".into(),
        layer: None,
        total_ns: account.unattributed_ns,
        mean_s: account.unattributed_ns as f64 * 1e-9 / n,
        share: account.unattributed_ns as f64 / account.total_ns as f64,
        tail: tail_of(tail.map_or(0, |tail| tail.total_ns - tail.parts.values().sum::<i64>())),
        remark: String::new(),
    });
    Accounts {
        request,
        request_mean_s: Some(account.total_mean_s()),
        request_count: if typed { 0 } else { account.n },
        request_total_ns: account.total_ns,
        vantage: account.vantage.into(),
        tail_rule: tail.map(|tail| TailRule {
            quantile: tail.quantile,
            n: tail.n,
            mean_s: tail.total_ns as f64 * 1e-9 / tail.n.max(1) as f64,
        }),
        device: Vec::new(),
    }
}

/// Distance of prefill and decode to their floor.
fn remark(situation: &Situation<'_>, phase: Phase) -> String {
    let floor = situation.floors.s(phase);
    let name = match situation.floors.from {
        "baseline" => "the baseline",
        "slo" => "the limit set",
        _ => "a lone request's",
    };
    if matches!(phase, Phase::Prefill | Phase::Decode) && floor > 0.0 && situation.phase_s(phase) > 1.05 * floor {
        format!("{}x {name}", words::digits(situation.phase_s(phase) / floor))
    } else {
        String::new()
    }
}

fn trust(capture: &Capture, situation: &Situation<'_>) -> Trust {
    let mut remarks = Vec::new();
    match &situation.law {
        crate::law::Law::Known { law, from } => remarks.push(format!(
            "step law from {from}: {} + {} per sequence + {} per prompt token",
            words::seconds(law.a_s),
            words::seconds(law.b_s),
            words::seconds(law.c_s)
        )),
        crate::law::Law::Bounded { why, .. } => remarks.push(format!("step law only bounded: {why}")),
        crate::law::Law::Unknown { .. } => {}
    }
    let (little_gap, little_tolerance) = situation.load.little.unzip();
    let resets: i64 =
        capture.tables.issues.rows().filter(|issue| capture.text(issue.code) == "counter_reset").map(|issue| issue.count).sum();
    Trust {
        little_gap,
        little_tolerance,
        scrapes: scrapes(situation),
        counter_resets: resets.max(0) as u64,
        clock_error_ns: capture.manifest.clocks.iter().map(|clock| clock.error_ns).max(),
        remarks,
    }
}

/// Scrapes read and expected from their median spacing.
fn scrapes(situation: &Situation<'_>) -> Option<[u64; 2]> {
    let series = situation.evidence.engines.values().find_map(|engine| engine.series("engine.running"))?;
    let mut spacing: Vec<i64> = series.t_ns.windows(2).map(|pair| pair[1] - pair[0]).collect();
    spacing.sort_unstable();
    let median = *spacing.get(spacing.len() / 2)?;
    let span = series.t_ns.last()? - series.t_ns.first()?;
    let expected = (span as f64 / median.max(1) as f64).round() as u64 + 1;
    Some([series.len() as u64, expected.max(series.len() as u64)])
}

fn issues(capture: &Capture) -> Vec<InputIssue> {
    capture
        .tables
        .issues
        .rows()
        .map(|issue| InputIssue {
            severity: capture.text(issue.severity).into(),
            code: capture.text(issue.code).into(),
            source: capture.text(issue.source).into(),
            place: capture.text(issue.place).into(),
            count: issue.count,
            sentence: capture.text(issue.sentence).into(),
        })
        .collect()
}

fn next(draft: &Draft<'_>) -> String {
    match draft.decision.verdict.status {
        Status::Localized if draft.decision.cause.is_some() => "inferoscope verify BEFORE AFTER --hypothesis h1".into(),
        Status::Healthy => "inferoscope capture INPUT... -o baseline.capture".into(),
        _ => undecided(&draft.answers)
            .map(|(check, missing)| (potential_ns(&draft.situation, &draft.settlement, check, missing), missing.record_with.clone()))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map_or_else(|| crate::record::SCRAPES.into(), |(_, command)| command),
    }
}
