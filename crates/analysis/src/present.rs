//! Parts of the report that only restate what was read: subject, window, accounts, trust, issues.

mod device;

use capture::Capture;

use crate::contract::{
    Accounts, EngineForm, InputIssue, RequestPart, SettingValue, SourceRead, Status, Subject, TailPart, TailRule, Trust, Window,
};
use crate::device::DeviceView;
use crate::evidence::EngineId;
use crate::forms;
use crate::gates::Gate;
use crate::hardware_bound::{Distance, Hardware};
use crate::on_device::Beside;
use crate::onset;
use crate::phase::Phase;
use crate::settlement::Scope;
use crate::situation::Situation;
use crate::verdict::Decision;
use crate::words;

/// What was measured, and what could not be established.
pub(crate) fn subject(capture: &Capture, situation: &Situation<'_>) -> Subject {
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
            sample_with: forms::sample_with(&subject.engine, &subject.engine_form),
            segments: forms::segments(&subject.engine, &subject.engine_form),
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

/// When, since when, and for whom.
pub(crate) fn window(situation: &Situation<'_>, decision: &Decision, scope: Scope) -> Window {
    let recorded = || situation.evidence.device_view.as_ref().and_then(DeviceView::window);
    let (start_ns, end_ns) = situation.evidence.window().or_else(recorded).unwrap_or((0, 0));
    let engines = situation.evidence.engines.len() as u32;
    let mut window = Window { start_ns, end_ns, onset_ns: None, ongoing: None, affected: 0, engines };
    let gate = match decision.cause.map(|check| check.id) {
        Some("batch_cap_reached") => Some(Gate::SeqCap),
        Some("kv_thrash") => Some(Gate::Kv),
        _ => None,
    };
    let Some(gate) = gate else {
        window.affected = if decision.verdict.status == Status::Localized { engines } else { 0 };
        if decision.verdict.status == Status::Localized
            && let Some(change) = onset::change(situation.evidence, scope).filter(|change| change.after_s > change.before_s)
        {
            (window.onset_ns, window.ongoing) = (Some(change.at_ns), Some(true));
        }
        return window;
    };
    let held: Vec<_> = situation.gates.gated.iter().filter(|gated| gated.gate == gate).collect();
    if let (Some(first), Some(last)) = (onset(&held), held.last()) {
        let length = (end_ns - start_ns).max(1);
        // Within the first twentieth of the window it began with the window or before; then only a log can tell.
        window.onset_ns =
            if first - start_ns > length / 20 { Some(first) } else { waited_since(situation, first).filter(|since| *since < start_ns) };
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

/// Since when requests had been waiting at `t_ns`, by the periodic log lines before it. One line without waiting is a
/// sample between two waits, two in a row end it.
fn waited_since(situation: &Situation<'_>, t_ns: i64) -> Option<i64> {
    situation
        .evidence
        .logged_waiting
        .iter()
        .filter_map(|series| {
            let before = series.t_ns.partition_point(|&t| t < t_ns);
            let mut since = None;
            let mut empty = 0;
            for at in (0..before).rev() {
                if series.value[at] > 0.0 {
                    (since, empty) = (Some(series.t_ns[at]), 0);
                } else {
                    empty += 1;
                    if empty > 1 {
                        break;
                    }
                }
            }
            since
        })
        .min()
}

/// Start of the waiting that lasts: the first moment after which gaps between moments stay under a tenth of the span.
fn onset(held: &[&crate::gates::GatedMoment]) -> Option<i64> {
    let (first, last) = (held.first()?, held.last()?);
    let span = (last.moment.t_end_ns - first.moment.t_start_ns).max(1);
    let broken = held.windows(2).rposition(|pair| pair[1].moment.t_start_ns - pair[0].moment.t_end_ns > span / 10);
    Some(held[broken.map_or(0, |at| at + 1)].moment.t_start_ns)
}

/// Where the time went, as the report shows it.
pub(crate) fn accounts(situation: &Situation<'_>) -> Accounts {
    let account = &situation.account;
    let device = situation
        .evidence
        .device_view
        .as_ref()
        .map(|view| device::accounts(situation.subject, situation.evidence, view))
        .unwrap_or_default();
    if account.is_empty() || account.is_of_devices() {
        return Accounts { device, vantage: account.vantage.into(), ..Accounts::default() };
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
            own_s: own_s(situation, phase),
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
        own_s: None,
    });
    Accounts {
        request,
        request_mean_s: Some(account.total_mean_s()),
        request_count: if typed { 0 } else { account.n },
        request_total_ns: account.total_ns,
        arrivals_per_s: situation.load.arrivals_per_s.filter(|_| !typed),
        vantage: account.vantage.into(),
        tail_rule: tail.map(|tail| TailRule {
            quantile: tail.quantile,
            n: tail.n,
            mean_s: tail.total_ns as f64 * 1e-9 / tail.n.max(1) as f64,
        }),
        device,
    }
}

/// What of prefill is the request's own prompt, by the step law or the baseline: the rest is others' tokens in its steps.
fn own_s(situation: &Situation<'_>, phase: Phase) -> Option<f64> {
    let own = situation.floors.s(phase).min(situation.phase_s(phase));
    (phase == Phase::Prefill && own > 0.0 && situation.floors.from != "slo").then_some(own)
}

/// Distance of prefill and decode to their floor; of decode to the hardware's where model and device are known.
fn remark(situation: &Situation<'_>, phase: Phase) -> String {
    if let Some(distance) = (phase == Phase::Decode).then(|| decode_distance(situation)).flatten().filter(|distance| distance.factor >= 0.9)
    {
        let floor = if distance.memory_bound { "memory floor" } else { "compute floor" };
        return format!("{}x {floor}", words::digits(distance.factor));
    }
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

/// Mean decode step, prompt work of others included, over the least it can take.
fn decode_distance(situation: &Situation<'_>) -> Option<Distance> {
    let hardware = Hardware::find(situation.subject, &situation.evidence.settings)?;
    let step_s = situation.phase_s(Phase::Decode) / (situation.load.output_tokens? - 1.0).max(1.0);
    let batch = situation.load.running_mean / situation.load.engines();
    hardware.distance(&situation.load, batch, step_s)
}

/// A clock error of half a day or more is no error bound but "not known": a log without a year, a source in local time that
/// nothing was compared with.
const UNKNOWN_ERROR_NS: i64 = 43_200 * 1_000_000_000;

/// Why to believe it.
pub(crate) fn trust(capture: &Capture, situation: &Situation<'_>) -> Trust {
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
    if let Some(change) = &situation.evidence.warm_up {
        remarks.push(format!(
            "the warm-up is left out: {} of the requests, whose first token took {} where the others took {}",
            words::percent(change.before_share),
            words::seconds(change.before_s),
            words::seconds(change.after_s)
        ));
    }
    if let Some(distance) = decode_distance(situation).filter(|distance| distance.factor < 0.9) {
        remarks.push(format!(
            "decoding is {}x faster than this model can run on this device: one of them is not what it is said to be",
            words::digits(1.0 / distance.factor)
        ));
    }
    remarks.extend(situation.evidence.device_view.iter().flat_map(device_remarks));
    remarks.extend(Beside::of(situation).map(|beside| match beside {
        Beside::Within(share) => {
            format!("the devices were recorded for {} of the time measured, and stand for all of it", words::percent(share))
        }
        Beside::Apart => {
            "the devices were recorded at another time than the requests, or on another clock: as if under the same load".into()
        }
    }));
    remarks.extend(clock_remarks(capture));
    remarks.extend(situation.unused_limits.iter().map(|limit| format!("limit not decided: {limit}")));
    let percentiles = situation.limits.iter().filter(|limit| limit.name.contains(' '));
    remarks.extend(percentiles.map(|limit| format!("limit {}: {}", if limit.is_broken() { "broken" } else { "kept" }, limit.text())));
    let (little_gap, little_tolerance) = situation.load.little.unzip();
    let resets: i64 =
        capture.tables.issues.rows().filter(|issue| capture.text(issue.code) == "counter_reset").map(|issue| issue.count).sum();
    Trust {
        little_gap,
        little_tolerance,
        scrapes: scrapes(situation),
        counter_resets: resets.max(0) as u64,
        clock_error_ns: capture.manifest.clocks.iter().map(|clock| clock.error_ns).filter(|&error_ns| error_ns < UNKNOWN_ERROR_NS).max(),
        remarks,
        track_record: Vec::new(),
    }
}

/// What of a profiler capture is not in its account.
fn device_remarks(view: &DeviceView) -> Vec<String> {
    let mut remarks = Vec::new();
    if view.dropped_events > 0 {
        remarks.push(format!("{} are left out, for their times are no times", words::plural(view.dropped_events as f64, "device event")));
    }
    let with_work = view.step_count();
    if view.annotated_steps > with_work && with_work > 0 {
        let annotated = words::plural(view.annotated_steps as f64, "annotated step");
        remarks.push(format!("of {annotated} {} have work on a device that was recorded", words::count(with_work as f64)));
    }
    remarks
}

/// Clocks that ran beside the host's, and clocks that nothing joins to it.
fn clock_remarks(capture: &Capture) -> Vec<String> {
    let mut remarks = Vec::new();
    for clock in &capture.manifest.clocks {
        if clock.error_ns >= UNKNOWN_ERROR_NS && clock.method.starts_with("not joined") {
            remarks.push(format!("{} {}", clock.source, clock.method));
        } else if clock.domain == "unix" && (clock.offset_ns != 0 || clock.drift_ppb != 0) {
            let side = if clock.offset_ns < 0 { "ahead of" } else { "behind" };
            let drift = match clock.drift_ppb {
                0 => String::new(),
                ppb => {
                    format!(" and {} by {} ppm", if ppb < 0 { "gaining" } else { "losing" }, words::digits(ppb.unsigned_abs() as f64 / 1e3))
                }
            };
            remarks.push(format!(
                "the clock of {} was {} {side} the others{drift}, put right within {}: {}",
                clock.source,
                words::seconds(clock.offset_ns.unsigned_abs() as f64 * 1e-9),
                words::seconds(clock.error_ns as f64 * 1e-9),
                clock.method
            ));
        }
    }
    remarks
}

/// Scrapes read and expected from their median spacing.
fn scrapes(situation: &Situation<'_>) -> Option<[u64; 2]> {
    let series = situation.evidence.engines.values().find_map(|engine| engine.series("engine.running"))?;
    let mut spacing: Vec<i64> = series.t_ns.windows(2).map(|pair| pair[1] - pair[0]).collect();
    spacing.sort_unstable();
    let median = *spacing.get(spacing.len() / 2)?;
    let span = series.t_ns.last()? - series.t_ns.first()?;
    let expected = (span as f64 / median.max(1) as f64).round() as u64 + 1;
    // A clock that jumps makes nonsense of the count.
    (expected <= 10 * series.len() as u64).then(|| [series.len() as u64, expected.max(series.len() as u64)])
}

/// What was lost or doubtful in the input.
pub(crate) fn issues(capture: &Capture) -> Vec<InputIssue> {
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
