//! By profiler captures of the stages: how long they wait for one another while none of them is busy all the time.

use model::collectives::pipeline_bubble_frac;

use crate::check::{Answer, Found, Missing, clear, figure};
use crate::claims::Basis;
use crate::device_remedy::{first_token_kept, hypothesis, setting, token_falls};
use crate::on_device::OnDevice;
use crate::phase::Phase;
use crate::record;
use crate::situation::Situation;
use crate::stages::{self, Stages};
use crate::words::{count, percent};

use super::{IDLE, NEAR_FORM};

/// A stage that computes this much of the time is the slow one: the others wait for it, whatever is in flight.
const SLOW_STAGE: f64 = 0.8;

/// Nothing where no stages were recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    let stages = stages::read(situation, &device)?;
    if (stages.recorded as f64) < stages.count {
        return Some(Answer::CannotTell(Missing {
            signals: vec!["traces of all stages".into()],
            because: format!("{} of {} stages were recorded", count(stages.recorded as f64), count(stages.count)),
            // What this device waits for is `exposed_communication` until the other stages are seen.
            at_most_s: Some(0.0),
            record_with: record::COLLECTIVES.into(),
            record_cost: record::COLLECTIVES_COST.into(),
        }));
    }
    let margin = vec![("waits", stages.waits), ("busiest_stage", stages.busiest), ("stages", stages.count)];
    if stages.waits < IDLE {
        return Some(clear(margin, format!("stages wait {} of the time", percent(stages.waits))));
    }
    if stages.busiest >= SLOW_STAGE {
        let because =
            format!("one stage computes {} of the time: the others wait for that stage, not for more batches", percent(stages.busiest));
        return Some(clear(margin, because));
    }
    let in_flight = super::in_flight(situation);
    let form = in_flight.map(|batches| pipeline_bubble_frac(stages.count as u32, batches as u32));
    let is_full = in_flight.is_some_and(|batches| batches >= stages.count) && form.is_some_and(|form| stages.waits <= NEAR_FORM * form);
    Some(Answer::Found(Box::new(found(situation, &device, &stages, is_full))))
}

fn found(situation: &Situation<'_>, device: &OnDevice<'_>, stages: &Stages, is_full: bool) -> Found {
    // The measured share b of (p - 1) / (m + p - 1) is that of m batches.
    let in_flight = (stages.count - 1.0) * (1.0 - stages.waits) / stages.waits;
    let part = |ns: i64| [ns / 2, 9 * (ns / 10), ns];
    let mut claims = device.claims(situation, Phase::Communication, part(stages.exchange_ns), Basis::Derived);
    if situation.account.is_of_devices() {
        claims.extend(device.claims(situation, Phase::Idle, part(stages.idle_ns), Basis::Derived));
    }
    let ends = [0.3 * stages.waits, 0.6 * stages.waits, stages.waits];
    let waits_ns = stages.exchange_ns.saturating_add(stages.idle_ns);
    Found {
        summary: format!("{} stages wait {} of the time for one another", count(stages.count), percent(stages.waits)),
        sentence: format!(
            "The {} pipeline stages take turns: they wait {} of the time while the busiest computes {}, as with {} in flight by (p - 1) / (m + p - 1).",
            count(stages.count),
            percent(stages.waits),
            percent(stages.busiest),
            crate::words::plural(in_flight.max(1.0).round(), "batch")
        ),
        claims,
        cost: device.cost(situation, waits_ns),
        evidence: vec![
            figure("stages waiting, share of the devices' time", stages.waits, "ratio", "trace: sends, receives and idle time"),
            figure("busiest stage computes", stages.busiest, "ratio", "trace"),
            figure("batches in flight that this share means", in_flight, "count", "(p - 1) / (m + p - 1)"),
        ],
        hypotheses: vec![hypothesis(
            setting(situation, "pipeline_parallel", "1"),
            "tensor parallelism exchanges data in every layer: it wants a fast link",
            "time per token rises",
            vec![token_falls(situation, ends, "waiting of the stages down to its closed form"), first_token_kept(situation)],
        )],
        falsified_by: "a recording in which the stages compute at the same time".into(),
        context_only: false,
        limit: is_full,
    }
}
