//! Step 6: prefill and decode on separate devices, or not, and why; the largest prompt chunk that keeps the limit on TPOT.
//!
//! Together with chunked prefill is what it is held against. The reason is named when the answer is no, which it is for
//! most deployments; the link it would need and the time to move one KV cache are given either way.

use model::deployment::{Deployment, Load};
use model::disaggregation::{Answer, Question, Verdict, answer as ask};
use model::memory::kv_bytes_of_sequence;
use model::step_time::{Ideal, StepLoad};

use super::case::{Candidate, Case, Effort, Setting};
use super::document::{Action, Figure, StepAnswer, StepVerdict, Table};
use crate::words::{count, digits, percent, seconds};

const STEP: &str = "disaggregation";

/// Prompt tokens per step that are tried.
const CHUNKS: [f64; 8] = [128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16_384.0];

/// A smaller token budget where a full chunk makes a step longer than the limit on TPOT.
pub(super) fn levers<'a>(case: &Case<'a>, setting: &Setting<'a>) -> Vec<Candidate<'a>> {
    let Ok(now) = case.operate(setting) else { return Vec::new() };
    let deployment = setting.deployment;
    let Some(chunk) = largest_chunk(case, setting, now.running) else { return Vec::new() };
    let budget = chunk.max(deployment.max_num_seqs * 2.0);
    if budget >= deployment.max_batched_tokens * 0.95 {
        return Vec::new();
    }
    vec![Candidate {
        id: "smaller_chunk",
        step: STEP,
        what: format!("{budget:.0} tokens per step instead of {:.0}: prompts interrupt decoding less", deployment.max_batched_tokens),
        flag: Some(format!("--max-num-batched-tokens {budget:.0}")),
        setting: setting.with(Deployment { max_batched_tokens: budget, ..deployment }),
        effort: Effort::Flag,
        risk: Some("long prompts take more steps: TTFT grows"),
    }]
}

/// Seconds of a step that decodes `batch` requests of one attention rank and computes `chunk` prompt tokens.
fn step_s(case: &Case<'_>, setting: &Setting<'_>, batch: f64, chunk: f64) -> f64 {
    let context = case.offered.load(0.0).mean_context();
    // In the middle of a prompt, a chunk looks back over half of it.
    let before = ((case.offered.prompt_tokens - chunk) / 2.0).max(0.0);
    let load = StepLoad { decode_seqs: batch, tokens_per_seq: 1.0, context, prompt_tokens: chunk, prompt_context: before };
    Ideal::of(&setting.deployment, &load).step(case.coefficients()).total_s
}

/// The largest chunk whose step stays within the limit on TPOT; nothing without a limit or when none does.
fn largest_chunk(case: &Case<'_>, setting: &Setting<'_>, running: f64) -> Option<f64> {
    let limit_s = case.tpot_limit_s()?;
    let batch = running / setting.attention_ranks();
    CHUNKS.into_iter().rev().find(|chunk| step_s(case, setting, batch, *chunk) <= limit_s)
}

/// What the closed form says, with the link that is there.
fn asked(case: &Case<'_>, setting: &Setting<'_>) -> Option<(Answer, Question)> {
    let now = case.operate(setting).ok()?;
    let gpu = setting.deployment.gpu;
    let limit = |limit: Option<(super::input::Statistic, f64)>| limit.map(|(_, s)| s);
    let question = Question {
        ttft_limit_s: limit(case.slo().ttft),
        tpot_limit_s: limit(case.slo().tpot),
        link_bytes_per_s: case.input.link_bytes_per_s.or(gpu.link_bytes_per_s).or(gpu.pcie_bytes_per_s),
        units: setting.deployment.replicas,
    };
    let unit = Deployment { replicas: 1, ..setting.deployment };
    let running = (now.running / f64::from(setting.deployment.replicas.max(1))).max(1.0);
    let load = Load { concurrency: running, ..case.offered.load(now.cached_frac) };
    Some((ask(&unit, &load, &question, &case.calibration(setting)).ok()?, question))
}

/// Answers the step for a setting that runs.
pub(super) fn answer<'a>(case: &Case<'a>, setting: &Setting<'a>) -> StepAnswer {
    let (Ok(now), Some((found, question))) = (case.operate(setting), asked(case, setting)) else { return StepAnswer::default() };
    let d = &setting.deployment;
    let bytes = kv_bytes_of_sequence(d.model, d.kv, case.offered.prompt_tokens);
    let mut figures = vec![
        Figure::new("share of the time per token that prompts of others take", found.interference_frac, "ratio"),
        Figure::new("KV cache of one prompt", bytes, "byte"),
    ];
    figures.extend(found.transfer_s.map(|s| Figure::new("time to move it over the link", s, "s")));
    figures.extend(case.offered.rate_per_s.map(|rate| Figure::new("link needed at this rate", rate * bytes, "byte/s")));
    figures.extend(question.link_bytes_per_s.map(|rate| Figure::new("link there is, per GPU", rate, "byte/s")));
    let unit = f64::from(d.ranks().max(1));
    figures.push(Figure::new("goodput per GPU, together", found.together_per_unit / unit, "request/s"));
    figures.push(Figure::new("goodput per GPU, apart", found.apart_per_unit / unit, "request/s"));
    let chunk = largest_chunk(case, setting, now.running);
    figures.extend(chunk.map(|chunk| Figure::new("largest prompt chunk within the limit on TPOT", chunk, "token")));
    let mut notes = Vec::new();
    if case.input.link_bytes_per_s.is_none() {
        notes.push("The link is taken to be the GPUs' own; between nodes it is slower (set --link).".into());
    }
    StepAnswer {
        verdict: match found.verdict {
            Verdict::Separate { .. } => StepVerdict::Do,
            Verdict::StayTogether(_) => StepVerdict::DoNot,
            Verdict::CannotTell => StepVerdict::CannotTell,
        },
        answer: sentence(case, &found, chunk, d.max_batched_tokens),
        figures,
        tables: vec![chunks(case, setting, now.running)],
        notes,
        ..StepAnswer::default()
    }
}

fn sentence(case: &Case<'_>, found: &Answer, chunk: Option<f64>, budget: f64) -> String {
    let verdict = match found.verdict {
        Verdict::Separate { prefill, decode, gain } => {
            format!("worth it: {prefill} replicas for prefill, {decode} for decode serve {}x the requests within the limits", digits(gain))
        }
        Verdict::StayTogether(reason) => format!("do not: {}", reason.words()),
        Verdict::CannotTell => "cannot tell without the speed of the link (set --link)".into(),
    };
    let interference = format!("prompts of others take {} of the time per token", percent(found.interference_frac));
    let cheaper = match (case.tpot_limit_s(), chunk) {
        (Some(_), Some(chunk)) if chunk < budget => {
            format!("; a token budget of {} keeps every step within the limit on TPOT", count(chunk))
        }
        (Some(limit), None) => format!("; no chunk keeps a step within {}", seconds(limit)),
        (Some(_), Some(_)) => format!("; steps with a full chunk of {} keep the limit on TPOT already", count(budget)),
        (None, _) => String::new(),
    };
    format!("{verdict} ({interference}){cheaper}")
}

/// Step time by chunk.
fn chunks(case: &Case<'_>, setting: &Setting<'_>, running: f64) -> Table {
    let batch = running / setting.attention_ranks();
    let mut table = Table::new(
        "Steps with a chunk of a prompt in them, at the batch of this load",
        &[("prompt tokens in the step", "token"), ("step, the longest gap between tokens", "s"), ("steps of a mean prompt", "count")],
    );
    for chunk in CHUNKS {
        let steps = (case.offered.prompt_tokens / chunk).ceil().max(1.0);
        table.rows.push(vec![chunk.into(), step_s(case, setting, batch, chunk).into(), steps.into()]);
    }
    table
}

/// The split as an action: whether it is worth doing, and what it would do.
pub(super) fn split<'a>(case: &Case<'a>, setting: &Setting<'a>) -> Option<(bool, Action)> {
    let (found, _) = asked(case, setting)?;
    let unit = f64::from(setting.deployment.ranks().max(1));
    let rates = format!(
        "{} against {} req/s per GPU within the limits",
        digits(found.apart_per_unit / unit),
        digits(found.together_per_unit / unit)
    );
    let (worth, why) = match found.verdict {
        Verdict::Separate { prefill, decode, .. } => (true, format!("{prefill} replicas for prefill and {decode} for decode: {rates}")),
        Verdict::StayTogether(reason) => (false, reason.words().to_string()),
        Verdict::CannotTell => (false, "the speed of the link is not known".into()),
    };
    let action = Action {
        id: "disaggregation".into(),
        step: STEP.into(),
        what: "separate prefill from decode".into(),
        flag: None,
        why,
        risk: worth.then(|| "two pools to size and a KV transfer that can fail".into()),
        before: None,
        after: None,
    };
    Some((worth, action))
}
