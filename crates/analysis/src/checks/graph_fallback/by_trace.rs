//! By a profiler capture: which kernels come from replays, step by step.

use crate::check::{Answer, Found, Missing, clear, figure};
use crate::claims::Basis;
use crate::contract::Change;
use crate::device::{LaneStep, StepPhase};
use crate::device_remedy::{first_token_kept, hypothesis, setting, token_falls};
use crate::launches::REPLAYED;
use crate::on_device::{GRAIN, OnDevice};
use crate::phase::Phase;
use crate::situation::Situation;
use crate::words::{count, percent};

/// A step below this share of kernels from graphs fell back, where its neighbors are replayed whole.
const FELL_BACK: f64 = 0.5;
/// Fewer decode steps tell no rule from an exception.
const FEWEST_STEPS: usize = 4;

/// Nothing where no device was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    if let Some(found) = some_steps(situation, &device) {
        return Some(found);
    }
    let replayed = device.graph_share();
    let margin = vec![("graph_share", replayed)];
    if replayed >= FELL_BACK {
        return Some(clear(margin, format!("{} of the kernels come from graph replays", percent(replayed))));
    }
    let late = device.share(device.idle.host_late_ns());
    if device.has_calls() && late < GRAIN {
        return Some(clear(
            margin,
            format!("the device waits {} of its time for launches: graphs would gain no more than that", percent(late)),
        ));
    }
    // Its seconds are those of `launch_bound_steps`, which are measured; only the reason needs the configuration.
    Some(Answer::CannotTell(Missing {
        signals: vec!["config.enforce_eager".into(), "config.graph_sizes".into()],
        because: format!("{} of the kernels come from graphs; whether they should shows with the configuration", percent(replayed)),
        at_most_s: Some(0.0),
        record_with: crate::record::SETTINGS.into(),
        record_cost: crate::record::SETTINGS_COST.into(),
    }))
}

/// Decode steps of which some are replayed and some are not.
fn some_steps(situation: &Situation<'_>, device: &OnDevice<'_>) -> Option<Answer> {
    let decode = |step: &&LaneStep| step.label.phase == StepPhase::Decode && step.account.kernels > 0;
    let steps: Vec<&LaneStep> = device.view.lanes.iter().flat_map(|lane| &lane.steps.steps).filter(decode).collect();
    let share = |step: &LaneStep| step.account.graph_share().unwrap_or(0.0);
    let replayed = steps.iter().filter(|step| share(step) >= REPLAYED).count();
    let fell: Vec<&&LaneStep> = steps.iter().filter(|step| share(step) < FELL_BACK).collect();
    if steps.len() < FEWEST_STEPS || replayed == 0 || fell.len() * 20 < steps.len() {
        return None;
    }
    let idle_ns: i64 = fell.iter().map(|step| step.account.idle_ns).sum();
    let of = device.share(idle_ns);
    let ends = [0.5 * of, of, of];
    let words = format!(
        "{} of {} decode steps are launched kernel by kernel, the others replayed",
        count(fell.len() as f64),
        count(steps.len() as f64)
    );
    Some(Answer::Found(Box::new(Found {
        summary: words.clone(),
        sentence: format!("Graphs do not cover all batches: {words}."),
        claims: device.claims(situation, Phase::Idle, [idle_ns / 2, idle_ns, idle_ns], Basis::Measured),
        cost: device.cost(situation, idle_ns),
        evidence: vec![
            figure("decode steps not replayed", fell.len() as f64, "count", "trace"),
            figure("decode steps", steps.len() as f64, "count", "trace"),
            figure("device idle in them, share of its time", of, "ratio", "trace"),
        ],
        hypotheses: vec![hypothesis(
            Change {
                instruction: "capture graphs for all batch sizes that run, the drafts of speculation included".into(),
                ..setting(situation, "graph_sizes", "all batch sizes that run")
            },
            "graph memory is taken from the KV cache",
            "these steps do not get shorter",
            vec![token_falls(situation, ends, "a replayed step has one launch"), first_token_kept(situation)],
        )],
        falsified_by: "the steps that fell back hold prompts as well".into(),
        context_only: false,
        limit: false,
    })))
}
