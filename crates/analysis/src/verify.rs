//! Did the change do what was predicted? Prediction by prediction, with batch means.
//!
//! Four outcomes. Runs that differ in more than the change are not comparable; a movement inside the runs' own noise,
//! or under 3 %, is none.

mod comparable;
mod devices;
mod measure;

use capture::Capture;

use crate::contract::{ChangedSetting, Direction, Hypothesis, Outcome, Prediction, PredictionOutcome, Report, VERIFY_SCHEMA, Verification};
use crate::diagnose::{DiagnoseOptions, diagnose};
use crate::evidence::Evidence;
use crate::predict::Movement;
use crate::words::{digits, percent, seconds};

use measure::{Measured, measure};

/// Movements below this are noise whatever their interval says.
pub const PRACTICAL_NOISE: f64 = 0.03;

/// Id by which a change is verified that no hypothesis proposes: it is only meant to help.
pub const NO_HYPOTHESIS: &str = "none";

/// Verifies one hypothesis of the diagnosis of `before` (its first when none is named, none of them for [`NO_HYPOTHESIS`])
/// against `after`.
pub fn verify(before: &Capture, after: &Capture, hypothesis: Option<&str>) -> Verification {
    let report = diagnose(before, &DiagnoseOptions::default());
    let (b, a) = (Evidence::read(before, 0), Evidence::read(after, 0));
    let verification = against((before, &b), (after, &a), hypothesis, &report);
    let stated = report.findings.iter().find_map(|finding| {
        let stated = finding.hypotheses.iter().find(|stated| stated.id == verification.hypothesis)?;
        Some((finding.check.clone(), stated.change.instruction.clone()))
    });
    let (check, change) = stated.unwrap_or_default();
    Verification { check, change, devices: devices::moved(&b, &a), ..verification }
}

/// Judges the hypothesis; each run is a capture and what it tells.
fn against(
    (before, b): (&Capture, &Evidence),
    (after, a): (&Capture, &Evidence),
    hypothesis: Option<&str>,
    report: &Report,
) -> Verification {
    let mut changed = changed_settings(b, a);
    changed.extend(changed_route(b, a));
    let (id, chosen) = match choose(report, hypothesis) {
        Ok(chosen) => chosen,
        Err(why) => return refuse(Outcome::Inconclusive, why, hypothesis.unwrap_or(NO_HYPOTHESIS), changed, Vec::new()),
    };
    if same_evidence(before, after) {
        let why = "both runs are the same evidence: nothing can have moved".to_string();
        return refuse(Outcome::Inconclusive, why, &id, changed, Vec::new());
    }
    let comparability = comparable::compare(before, after, b, a);
    if let Some(why) = comparability.iter().find_map(|line| line.strip_prefix(comparable::DIFFERS)) {
        return refuse(Outcome::NotComparable, why.to_string(), &id, changed, comparability.clone());
    }
    if let Some(hypothesis) = chosen.as_ref().filter(|hypothesis| changed.is_empty() && hypothesis.change.flag.starts_with("--")) {
        let why = format!("the change was not made: no setting differs between the runs, `{}` among them", hypothesis.change.flag);
        return refuse(Outcome::Inconclusive, why, &id, changed, comparability);
    }
    let nothing = chosen.is_none() && changed.is_empty();
    let is_recorded = b.device_view.is_some() && b.client.is_empty() && b.engines.is_empty();
    let hypothesis = chosen.unwrap_or_else(|| if is_recorded { devices::shorter_steps() } else { any_improvement() });
    let predictions: Vec<PredictionOutcome> = hypothesis.predictions.iter().map(|prediction| judge(prediction, b, a)).collect();
    let (outcome, why) = if nothing {
        (Outcome::Inconclusive, "no hypothesis is tested, and no setting differs: there is nothing to verify".to_string())
    } else {
        overall(&predictions)
    };
    Verification { predictions, ..refuse(outcome, why, &id, changed, comparability) }
}

/// True when every source of one run is also the other's, byte for byte.
fn same_evidence(before: &Capture, after: &Capture) -> bool {
    let hashes = |capture: &Capture| -> std::collections::BTreeSet<String> {
        capture.manifest.sources.iter().map(|source| source.hash.clone()).filter(|hash| !hash.is_empty()).collect()
    };
    let (b, a) = (hashes(before), hashes(after));
    !b.is_empty() && b == a
}

/// A verification without a prediction judged.
fn refuse(outcome: Outcome, why: String, hypothesis: &str, changed: Vec<ChangedSetting>, comparability: Vec<String>) -> Verification {
    Verification {
        schema: VERIFY_SCHEMA.into(),
        outcome,
        why,
        hypothesis: hypothesis.into(),
        check: String::new(),
        change: String::new(),
        changed,
        predictions: Vec::new(),
        comparability,
        devices: Vec::new(),
    }
}

/// The hypothesis asked for; without one the first of the first report; `None` when that report has none.
fn choose(report: &Report, wanted: Option<&str>) -> Result<(String, Option<Hypothesis>), String> {
    let all: Vec<&Hypothesis> = report.findings.iter().flat_map(|finding| &finding.hypotheses).collect();
    match wanted {
        Some(NO_HYPOTHESIS) => Ok((NO_HYPOTHESIS.to_string(), None)),
        Some(id) => match all.iter().find(|hypothesis| hypothesis.id == id) {
            Some(found) => Ok((id.to_string(), Some((*found).clone()))),
            None => Err(format!(
                "the diagnosis of the first run has no hypothesis `{id}`; it has {}",
                if all.is_empty() { "none".into() } else { all.iter().map(|h| h.id.as_str()).collect::<Vec<_>>().join(", ") }
            )),
        },
        None => Ok(all.first().map_or_else(|| (NO_HYPOTHESIS.to_string(), None), |first| (first.id.clone(), Some((*first).clone())))),
    }
}

/// What anybody who changes a setting hopes for: the first token comes sooner and the whole request takes no longer.
fn any_improvement() -> Hypothesis {
    let why = "no hypothesis of the first report proposes it: a change is at least meant to help";
    hoped(vec![
        Movement::new("e2e.mean", "e2e mean", "s", Direction::Down, None).primary().refused(why).build(),
        Movement::new("ttft.mean", "TTFT mean", "s", Direction::Down, None).guard().refused(why).build(),
    ])
}

/// A hypothesis nobody stated, for whatever differs.
fn hoped(predictions: Vec<Prediction>) -> Hypothesis {
    Hypothesis {
        id: NO_HYPOTHESIS.into(),
        change: crate::contract::Change {
            flag: String::new(),
            from: String::new(),
            to: String::new(),
            from_source: String::new(),
            needs: String::new(),
            reload_s: None,
            valid_for: String::new(),
            instruction: "the settings that differ".into(),
            lever: String::new(),
        },
        risk: String::new(),
        rollback: String::new(),
        undo_if: String::new(),
        predictions,
        throughput: String::new(),
    }
}

fn changed_settings(before: &Evidence, after: &Evidence) -> Vec<ChangedSetting> {
    let text = |value: Option<&str>| value.unwrap_or_default().to_string();
    let differing = before.settings.differing(&after.settings).into_iter();
    differing
        .filter(|(key, ..)| key.starts_with("config.") || key.starts_with("env."))
        .map(|(key, before, after)| ChangedSetting { key: key.into(), before: text(before), after: text(after) })
        .collect()
}

/// A gateway that only one of the runs went through is a change as much as a setting.
fn changed_route(before: &Evidence, after: &Evidence) -> Option<ChangedSetting> {
    let route = |evidence: &Evidence| if evidence.gateway.is_empty() { "direct" } else { "through a gateway" };
    let comparable = !before.client.is_empty() && !after.client.is_empty();
    (comparable && route(before) != route(after)).then(|| ChangedSetting {
        key: "route".into(),
        before: route(before).into(),
        after: route(after).into(),
    })
}

fn judge(prediction: &Prediction, before: &Evidence, after: &Evidence) -> PredictionOutcome {
    let (b, a) = (measure(before, &prediction.signal), measure(after, &prediction.signal));
    let (Some(b), Some(a)) = (b, a) else {
        return PredictionOutcome {
            prediction: prediction.clone(),
            before: None,
            after: None,
            ratio_interval: None,
            outcome: Outcome::Inconclusive,
            why: format!("{} was not measured in both runs", prediction.signal),
        };
    };
    let interval = crate::stats::ratio_interval(&b.batches, &a.batches);
    let (outcome, why) = outcome_of(prediction, &b, &a, interval);
    PredictionOutcome { prediction: prediction.clone(), before: Some(b.mean), after: Some(a.mean), ratio_interval: interval, outcome, why }
}

/// Which way a signal moved, beyond its own noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    Down,
    Up,
    Nowhere,
    Unclear,
}

fn movement(b: &Measured, a: &Measured, interval: Option<[f64; 2]>) -> Moved {
    let Some([lo, hi]) = interval else {
        // A level without batches (a peak) is compared as it is; a counter that stood at zero and stays there did not move.
        return match (b.mean, a.mean) {
            (b, a) if a > b * (1.0 + PRACTICAL_NOISE) => Moved::Up,
            (b, a) if a < b * (1.0 - PRACTICAL_NOISE) => Moved::Down,
            _ => Moved::Nowhere,
        };
    };
    if hi < 1.0 - PRACTICAL_NOISE {
        Moved::Down
    } else if lo > 1.0 + PRACTICAL_NOISE {
        Moved::Up
    } else if lo > 0.8 && hi < 1.25 {
        Moved::Nowhere
    } else {
        Moved::Unclear
    }
}

fn outcome_of(prediction: &Prediction, b: &Measured, a: &Measured, interval: Option<[f64; 2]>) -> (Outcome, String) {
    let moved = movement(b, a, interval);
    let seen = format!("{} -> {}", show(b.mean, &prediction.unit), show(a.mean, &prediction.unit));
    if prediction.guard {
        return guard(prediction, b, a, interval, moved, &seen);
    }
    let wanted = match prediction.direction {
        Direction::Down => Moved::Down,
        Direction::Up => Moved::Up,
        Direction::Unchanged => Moved::Nowhere,
    };
    let falls_short = prediction.to.zip(interval).is_some_and(|([lo, hi], [low, high])| match prediction.direction {
        Direction::Down => b.mean * low > hi,
        Direction::Up => b.mean * high < lo,
        Direction::Unchanged => false,
    });
    if moved != wanted {
        return match moved {
            _ if falls_short => (Outcome::Refuted, format!("{seen}: the runs' noise does not reach what was predicted")),
            Moved::Unclear => (Outcome::Inconclusive, format!("{seen}: within the runs' own noise")),
            // A small movement was predicted, and the interval holds it beside none at all.
            Moved::Nowhere if is_held(prediction, b, interval) => {
                (Outcome::Inconclusive, format!("{seen}: the runs' noise holds what was predicted, and no movement"))
            }
            _ => (Outcome::Refuted, format!("{seen}: did not move as predicted")),
        };
    }
    let Some([lo, hi]) = prediction.to else { return (Outcome::Confirmed, format!("{seen}: direction as predicted, no size was")) };
    let beyond = if prediction.direction == Direction::Down { a.mean < lo } else { a.mean > hi };
    let inside = a.mean >= lo && a.mean <= hi;
    // The mean after is itself uncertain: its interval need only reach the predicted one.
    let reaches = is_held(prediction, b, interval);
    if inside || reaches {
        (Outcome::Confirmed, seen)
    } else if beyond {
        (Outcome::Confirmed, format!("{seen}: further than predicted"))
    } else {
        (Outcome::Inconclusive, format!("{seen}: the right way, but not as far as predicted"))
    }
}

/// True when the interval measured reaches into what was predicted.
fn is_held(prediction: &Prediction, b: &Measured, interval: Option<[f64; 2]>) -> bool {
    prediction.to.zip(interval).is_some_and(|([lo, hi], [low, high])| b.mean * low <= hi && b.mean * high >= lo)
}

fn guard(prediction: &Prediction, b: &Measured, a: &Measured, interval: Option<[f64; 2]>, moved: Moved, seen: &str) -> (Outcome, String) {
    let worst = prediction.to.map_or(b.mean * (1.0 + PRACTICAL_NOISE), |[_, hi]| hi);
    let lowest_after = interval.map_or(a.mean, |[lo, _]| b.mean * lo);
    if a.mean <= worst {
        (Outcome::Confirmed, format!("{seen}: within {}", show(worst, &prediction.unit)))
    } else if lowest_after > worst && (prediction.to.is_some() || moved == Moved::Up) {
        (Outcome::Refuted, format!("{seen}: worse than {}", show(worst, &prediction.unit)))
    } else {
        (Outcome::Inconclusive, format!("{seen}: above {}, within noise of it", show(worst, &prediction.unit)))
    }
}

fn show(value: f64, unit: &str) -> String {
    if unit == "s" { seconds(value) } else { digits(value) }
}

fn overall(predictions: &[PredictionOutcome]) -> (Outcome, String) {
    let Some(primary) = predictions.iter().find(|outcome| outcome.prediction.primary) else {
        return (Outcome::Inconclusive, "the hypothesis has no primary prediction".into());
    };
    let label = |outcome: &PredictionOutcome| {
        let interval =
            outcome.ratio_interval.map_or_else(String::new, |[lo, hi]| format!(" (x{} to x{})", digits(lo.max(0.0)), digits(hi)));
        format!("{} {}{interval}", outcome.prediction.label, outcome.why)
    };
    match predictions.iter().find(|outcome| outcome.prediction.guard && outcome.outcome == Outcome::Refuted) {
        Some(broken) if primary.outcome != Outcome::Refuted => {
            (Outcome::Refuted, format!("{}; and the guard broke: {}", label(primary), label(broken)))
        }
        _ => (primary.outcome, label(primary)),
    }
}

/// For comparability lines.
pub(crate) fn within(ratio: f64, limit: f64) -> bool {
    (ratio - 1.0).abs() <= limit
}

/// `+12 %`.
pub(crate) fn signed_percent(ratio: f64) -> String {
    let change = (ratio - 1.0).abs();
    if change < 0.005 { "within 1 %".into() } else { format!("{}{}", if ratio >= 1.0 { "+" } else { "-" }, percent(change)) }
}
