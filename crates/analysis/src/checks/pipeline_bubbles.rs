//! Pipeline stages take turns instead of working at the same time.

mod by_trace;

use model::collectives::pipeline_bubble_frac;

use crate::change::{claims_on_steps, cost_of, first_token_stays, hypothesis, of_setting, token_time_falls};
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::evidence::Point;
use crate::members::Members;
use crate::pace::slowdown;
use crate::phase::Phase;
use crate::record;
use crate::sharding::Sharding;
use crate::situation::Situation;
use crate::slower_arm::compare_prompts;
use crate::words::{count, digits, percent};

check! {
    /// The stages of a pipeline wait for one another: each device works a part of the time only.
    ///
    /// ## Why it costs time
    /// A batch passes the stages one after the other. With fewer batches in flight than stages some always have nothing to do;
    /// with m batches over p stages the idle share is at least (p - 1) / (m + p - 1). A token of a batch must come back from
    /// the last stage before its next one starts, so waiting for sampling and scheduling empties the pipe further.
    ///
    /// ## How to confirm
    /// Activity of every device at once: all are busy in turn, none for long. Throughput hardly rises from one device to p.
    ///
    /// ## Fix
    /// More batches in flight (asynchronous scheduling, more concurrent requests), fewer stages, tensor parallelism inside a
    /// node, or replicas where the model fits.
    ///
    /// ## When this is wrong
    /// Too little load to fill any pipe; a slow network between stages, which shows as time in the hand-over and not as idle
    /// stages with short ones; one stage with more layers than the others.
    id: "pipeline_bubbles", layer: Parallelism, rank: 65, phases: [Prefill, Decode, Communication, Idle], bound: "logic", validated_on: "report", run: find,
}

/// Idle for a quarter of the time is beyond what hand-overs and uneven stages cost.
const IDLE: f64 = 0.25;
/// A pipe within a fifth of its closed form at full flight has the bubbles it must have.
const NEAR_FORM: f64 = 1.2;
/// Added devices that bring less than half of their share are idle half of the time.
const HALF_OF_DEVICES: f64 = 0.5;

/// Idle share of the stages, and how it is known.
#[derive(Clone, Debug, PartialEq)]
struct Idle {
    share: [f64; 3],
    basis: Basis,
    from: String,
}

fn find(situation: &Situation<'_>) -> Answer {
    if let Some(answer) = by_trace::answer(situation) {
        return answer;
    }
    let sharding = Sharding::read(situation.subject, situation.evidence);
    let stages = stages(situation, &sharding);
    if stages <= 1.0 {
        if sharding.pipeline == 1.0 || sharding.is_one_device() || !situation.is_typed() {
            return clear(vec![("stages", 1.0)], "the model is not split into stages");
        }
        return Answer::CannotTell(record::unseen(
            situation,
            &["config.pipeline_parallel", "engine.stage_idle"],
            "no figure is about stages",
            record::DEVICES,
            record::DEVICES_COST,
        ));
    }
    let Some(idle) = measured(situation)
        .or_else(|| by_busy(situation, stages))
        .or_else(|| by_rows(situation))
        .or_else(|| by_arms(situation, &sharding, stages))
    else {
        return Answer::CannotTell(record::unseen(
            situation,
            &["engine.stage_idle", "gpu.busy by device", "engine.in_flight_batches"],
            format!("how long each of {} stages idles is not known", count(stages)),
            record::DEVICES,
            record::DEVICES_COST,
        ));
    };
    let in_flight = in_flight(situation);
    let form = in_flight.map(|batches| pipeline_bubble_frac(stages as u32, batches as u32));
    let margin = vec![("idle", idle.share[1]), ("stages", stages), ("closed_form", form.unwrap_or(f64::NAN))];
    if idle.share[1] < IDLE {
        return clear(margin, format!("stages idle {} of the time", percent(idle.share[1])));
    }
    let is_full = in_flight.is_some_and(|batches| batches >= stages) && form.is_some_and(|form| idle.share[1] <= NEAR_FORM * form);
    Answer::Found(Box::new(found(situation, stages, in_flight, &idle, is_full)))
}

/// Stages in a row, as set, or as many as idle shares were given for.
fn stages(situation: &Situation<'_>, sharding: &Sharding) -> f64 {
    let told = Members::by(situation.evidence, "engine.stage_idle", "stage").map_or(0.0, |members| members.count() as f64);
    let any = situation.evidence.figures.anywhere("engine.stage_idle").map_or(0.0, |_| sharding.devices.max(2.0));
    let swept = situation.evidence.figures.points().filter_map(|row| row.typical("config.pipeline_parallel")).fold(0.0, f64::max);
    sharding.pipeline.max(told).max(swept).max(if sharding.pipeline > 0.0 { 0.0 } else { any })
}

/// Batches in the pipe: as told, else no more than there are requests.
fn in_flight(situation: &Situation<'_>) -> Option<f64> {
    let figures = &situation.evidence.figures;
    figures.anywhere("engine.in_flight_batches").or_else(|| {
        let requests = figures.anywhere("engine.running").or_else(|| figures.anywhere("client.concurrency"))?;
        // More requests than stages may still run as one batch: then nothing is known.
        (requests <= 1.0).then_some(1.0)
    })
}

fn measured(situation: &Situation<'_>) -> Option<Idle> {
    let members = Members::read(situation.evidence, "engine.stage_idle");
    let mean = members.map(|members| members.mean).or_else(|| situation.evidence.figures.anywhere("engine.stage_idle"))?;
    Some(Idle { share: [0.9 * mean, mean, mean], basis: Basis::Typed, from: "idle time of the stages".into() })
}

/// Busy says only that something ran; for a stage that waits for its turn this is what counts, and the rest is idle.
fn by_busy(situation: &Situation<'_>, stages: f64) -> Option<Idle> {
    let figures = &situation.evidence.figures;
    let members = Members::by(situation.evidence, "gpu.busy", "device").or_else(|| Members::told(situation.evidence, "gpu.busy"));
    let (least, mean, most) = if let Some(members) = &members {
        (members.min, members.mean, members.max)
    } else {
        let mean = figures.typical("gpu.busy")?;
        (figures.get("gpu.busy.min").unwrap_or(mean), mean, figures.get("gpu.busy.max").unwrap_or(mean))
    };
    // One stage busy all the time is no bubble: it is the slowest stage.
    (most < 1.0 - IDLE || mean <= 1.5 / stages).then(|| Idle {
        share: [1.0 - most, 1.0 - mean, 1.0 - least],
        basis: Basis::Typed,
        from: format!("devices busy {} to {}", percent(least), percent(most)),
    })
}

/// A sweep over the number of stages: what the most of them bring against the fewest, in tokens per second.
fn by_rows(situation: &Situation<'_>) -> Option<Idle> {
    let row = |row: &Point| {
        let rate = row.typical("client.throughput.output").or_else(|| row.typical("client.throughput.requests"))?;
        Some((row.typical("config.pipeline_parallel")?.max(1.0), rate))
    };
    let rows: Vec<(f64, f64)> = situation.evidence.figures.points().filter_map(row).collect();
    let (most, rate) = rows.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let (fewest, base) = rows.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let efficiency = rate * fewest / (base * most);
    let idle = 1.0 - efficiency;
    let from = format!("{} stages bring {} of the rate of {}", count(most), digits(rate / base), count(fewest));
    (most > fewest && efficiency < HALF_OF_DEVICES).then_some(Idle { share: [0.5 * idle, idle, idle], basis: Basis::Derived, from })
}

/// An arm on fewer devices, or on as many without stages, says what these should bring.
fn by_arms(situation: &Situation<'_>, sharding: &Sharding, stages: f64) -> Option<Idle> {
    situation.other_arms().find_map(|arm| {
        let there = Sharding::read(situation.subject, arm);
        let by_prompt = || compare_prompts(situation.evidence, arm).map(|contrast| contrast.mine_s / contrast.theirs_s);
        let ratio = slowdown(situation.evidence, arm).or_else(by_prompt)?;
        let is_fewer = there.devices >= 1.0 && there.devices < sharding.devices && there.pipeline <= 1.0;
        if is_fewer && there.devices * stages <= sharding.devices * 1.01 {
            let efficiency = there.devices / (sharding.devices * ratio);
            let idle = 1.0 - efficiency;
            let from =
                format!("{} devices bring {} of {} device's rate", count(sharding.devices), digits(1.0 / ratio), count(there.devices));
            return (efficiency < HALF_OF_DEVICES).then_some(Idle { share: [0.5 * idle, idle, idle], basis: Basis::Derived, from });
        }
        let is_tensor = there.tensor >= sharding.devices && there.pipeline <= 1.0;
        let idle = 1.0 - 1.0 / ratio;
        (is_tensor && idle >= IDLE).then(|| Idle {
            share: [0.7 * idle, idle, idle],
            basis: Basis::Derived,
            from: "the same devices without stages".into(),
        })
    })
}

fn found(situation: &Situation<'_>, stages: f64, in_flight: Option<f64>, idle: &Idle, is_full: bool) -> Found {
    let form = in_flight.map(|batches| pipeline_bubble_frac(stages as u32, batches as u32));
    let flight = in_flight.map_or(String::new(), |batches| {
        format!(
            ", {} in flight over {} stages make at least {} by (p - 1) / (m + p - 1)",
            crate::words::plural(batches, "batch"),
            count(stages),
            percent(form.unwrap_or(0.0))
        )
    });
    let mid = idle.share[1];
    // Twice as many batches in the pipe, else as many as there are stages.
    let now = in_flight.unwrap_or(1.0);
    let better = pipeline_bubble_frac(stages as u32, (2.0 * now).max(stages) as u32);
    let gain = ((mid - better) / (1.0 - better)).clamp(0.0, 1.0);
    let mut rows = vec![figure("idle share of the stages", mid, "ratio", &idle.from), figure("stages", stages, "count", "settings")];
    rows.extend(form.map(|form| figure("(p - 1) / (m + p - 1)", form, "ratio", "batches in flight")));
    Found {
        summary: format!("{} stages idle {} of the time ({})", count(stages), percent(mid), idle.from),
        sentence: format!(
            "The {} pipeline stages take turns: they idle {} of the time ({}{flight}).",
            count(stages),
            percent(mid),
            idle.from
        ),
        claims: claims_on_steps(situation, idle.share, idle.basis),
        cost: cost_of(situation, Phase::Decode, mid),
        evidence: rows,
        hypotheses: hypothesis(
            of_setting(
                situation,
                "pipeline_parallel",
                &count(stages),
                "1",
                "fewer stages (tensor parallelism inside a node, or replicas where the model fits), or more batches in flight: asynchronous scheduling, more concurrent requests",
            ),
            "tensor parallelism exchanges data in every layer: it wants a fast link",
            "time per token rises",
            vec![
                token_time_falls(situation, 0.3 * gain, mid, "idle time of the stages down to its closed form"),
                first_token_stays(situation),
            ],
        ),
        falsified_by: "a device trace in which the stages work at the same time".into(),
        context_only: false,
        limit: is_full,
    }
}
