//! Step 3: what continuous batching is worth for these lengths, and which batch keeps the limit on the time per token.
//!
//! A static batch ends with its longest answer, so its loss follows from the user's own lengths and from nothing else. What
//! continuous batching gains is capped by the requests that fit. Past the ridge batch a step is bound by arithmetic and more
//! requests buy latency only.

use model::batching::gain_within_cache;
use model::deployment::Deployment;
use model::roofline;

use super::case::{Candidate, Case, Effort, Setting};
use super::document::{Figure, StepAnswer, StepVerdict, Table};
use super::input::Demand;
use super::operating::Operating;
use crate::words::{digits, plural};

const STEP: &str = "batching";

/// Seats that raise or lower the cap.
pub(super) fn levers<'a>(case: &Case<'a>, setting: &Setting<'a>) -> Vec<Candidate<'a>> {
    let deployment = setting.deployment;
    let context = case.offered.load(0.0).mean_context();
    let seats = deployment.max_num_seqs;
    let room = Deployment { max_num_seqs: 1024.0, ..deployment }.sequences_that_fit(context);
    let mut found = Vec::new();
    let candidate = |id, seats: f64, what: String| Candidate {
        id,
        step: STEP,
        what,
        flag: Some(format!("--max-num-seqs {seats:.0}")),
        setting: setting.with(Deployment { max_num_seqs: seats, ..deployment }),
        effort: Effort::Flag,
        risk: None,
    };
    if room > seats * 1.05 && seats < 1024.0 {
        let more = (seats * 2.0).min(1024.0);
        found.push(candidate("more_seats", more, format!("{more:.0} seats instead of {seats:.0}")));
    }
    let kept = case.tpot_limit_s().and_then(|limit_s| batch_within(case, setting, limit_s)).map(f64::floor);
    if let Some(batch) = kept.filter(|batch| *batch >= 1.0 && *batch < room.min(seats) * 0.95 && case.input.demand == Demand::Offline) {
        found.push(candidate("fewer_seats", batch, format!("{batch:.0} seats, the most that keep the limit on TPOT")));
    }
    found
}

/// The largest batch of one attention rank whose time per token stays within `limit_s`.
fn batch_within(case: &Case<'_>, setting: &Setting<'_>, limit_s: f64) -> Option<f64> {
    let deployment = Deployment { max_num_seqs: 8192.0, ..setting.deployment };
    let ranks = setting.attention_ranks();
    let keeps = |batch: f64| case.tpot_at(&deployment, batch * ranks).is_some_and(|tpot_s| tpot_s <= limit_s);
    if !keeps(1.0) {
        return None;
    }
    let most = deployment.sequences_that_fit(case.offered.load(0.0).mean_context());
    if keeps(most) {
        return Some(most);
    }
    let (mut below, mut above) = (1.0, most);
    for _ in 0..30 {
        let middle = f64::midpoint(below, above);
        if keeps(middle) { below = middle } else { above = middle }
    }
    Some(below)
}

/// Answers the step for a setting that runs.
pub(super) fn answer<'a>(case: &Case<'a>, setting: &Setting<'a>) -> StepAnswer {
    let Ok(now) = case.operate(setting) else { return StepAnswer::default() };
    let ranks = setting.attention_ranks();
    let fit = now.requests_fit / ranks;
    let batch = (now.running / ranks).clamp(1.0, fit.max(1.0)).round();
    let mut answer = StepAnswer::default();
    let gain = static_loss(case, batch, fit, &mut answer);
    let ridge = ridge(setting, case);
    answer.figures.push(Figure::new("running batch per replica at this load", now.running / ranks, "request"));
    match ridge {
        Some(ridge) => answer.figures.push(Figure::new("batch past which a step is bound by arithmetic", ridge, "request")),
        None => answer
            .notes
            .push("At these context lengths reading the KV cache always outweighs arithmetic: no batch is compute bound.".into()),
    }
    let within = case.tpot_limit_s().map(|limit_s| batch_within(case, setting, limit_s).unwrap_or(0.0));
    if let Some(batch) = within.filter(|batch| *batch >= 1.0) {
        answer.figures.push(Figure::new("largest batch per replica within the limit on TPOT", batch.floor(), "request"));
    }
    answer.tables.push(table(case, setting, fit));
    answer.verdict = StepVerdict::Fine;
    let limit = limit_words(case, within, &now, fit, ranks);
    answer.answer = if let Some(gain) = gain {
        format!("{limit}; continuous batching is worth {}x over static", digits(gain))
    } else {
        let note =
            "What continuous batching gains depends on how much answers differ in length, and one length was given: give --workload FILE.";
        answer.notes.push(note.into());
        limit
    };
    answer
}

/// What the limit on the time per token allows: `within` is the batch, 0 for none.
fn limit_words(case: &Case<'_>, within: Option<f64>, now: &Operating, fit: f64, ranks: f64) -> String {
    let running = now.running / ranks;
    match within {
        None => format!("{} of {:.0} seats run", digits(running.min(fit)), fit.floor()),
        Some(batch) if batch < 1.0 => "no batch keeps the limit on TPOT, not even a single request".into(),
        Some(batch) if batch >= fit * 0.999 => {
            format!("the TPOT limit allows all {} that fit per replica", plural(fit.floor(), "request"))
        }
        Some(batch) => {
            let then = match case.offered.rate_per_s {
                Some(_) if running > batch => format!("this load runs {}", digits(running)),
                Some(_) => format!("{} run at this load", digits(running)),
                None => "cap it there".into(),
            };
            format!("the TPOT limit allows a batch of {:.0} per replica, {then}", batch.floor())
        }
    }
}

/// What continuous batching gains over a static batch; nothing for lengths that were made up.
fn static_loss(case: &Case<'_>, batch: f64, fit: f64, answer: &mut StepAnswer) -> Option<f64> {
    if !case.offered.is_recorded {
        return None;
    }
    let mut table = Table::new(
        "Static against continuous batching, from the recorded answer lengths",
        &[("batch", "request"), ("seats a static batch uses", "ratio"), ("gain of continuous", "factor"), ("gain that fits", "factor")],
    );
    let mut sizes = vec![8.0, 32.0, 64.0, batch];
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let mut here = None;
    for size in sizes {
        let Some(efficiency) = case.offered.outputs.static_efficiency(size as u32) else { continue };
        let gain = gain_within_cache(efficiency, size, fit);
        table.rows.push(vec![size.into(), efficiency.into(), (1.0 / efficiency).into(), gain.into()]);
        if size == batch {
            here = Some(gain);
        }
    }
    answer.tables.push(table);
    here
}

/// The batch of one attention rank at which a step turns from memory to arithmetic.
fn ridge(setting: &Setting<'_>, case: &Case<'_>) -> Option<f64> {
    let d = &setting.deployment;
    let shape = roofline::Deployment { weights: d.weights, kv: d.kv, ranks: d.tensor };
    roofline::ridge_batch_with_kv(d.model, shape, case.offered.load(0.0).mean_context(), d.gpu)
}

/// Time per token and throughput by batch.
fn table(case: &Case<'_>, setting: &Setting<'_>, fit: f64) -> Table {
    let mut table = Table::new(
        "Time per token and throughput by batch (requests in flight, all replicas)",
        &[("batch per replica", "request"), ("TPOT", "s"), ("all output tokens", "token/s"), ("what binds", "text")],
    );
    let ranks = setting.attention_ranks();
    let mut batch = 1.0;
    while batch <= fit {
        push(case, setting, batch, ranks, &mut table);
        batch *= 2.0;
    }
    if batch / 2.0 < fit.floor() {
        push(case, setting, fit.floor(), ranks, &mut table);
    }
    table
}

fn push(case: &Case<'_>, setting: &Setting<'_>, batch: f64, ranks: f64, table: &mut Table) {
    let load = model::deployment::Load { concurrency: batch * ranks, ..case.offered.load(0.0) };
    if let Ok(found) = model::prediction::predict(&setting.deployment, &load, &case.calibration(setting)) {
        table.rows.push(vec![batch.into(), found.tpot_s.mid.into(), found.tokens_per_s.mid.into(), found.binding.words().into()]);
    }
}
