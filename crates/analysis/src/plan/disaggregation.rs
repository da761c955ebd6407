//! Step 6: prefill and decode on separate devices, or not, and why; the largest prompt chunk that keeps the limit on TPOT.
//!
//! Together with chunked prefill is what it is held against. The reason is named when the answer is no, which it is for
//! most deployments; the link it would need and the time to move one KV cache are given either way.

use model::deployment::{Deployment, Load};
use model::disaggregation::{Answer, LEAST_GAIN, Question, Reason, Verdict, answer as ask};
use model::memory::kv_bytes_of_sequence;
use model::step_time::{Ideal, StepLoad};

use super::case::{Candidate, Case, Effort, Setting};
use super::document::{Action, Figure, StepAnswer, StepVerdict, Table};
use crate::words::{count, digits, percent, plural, seconds};

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

/// What was asked, of which unit, and the answer.
struct Asked<'a> {
    answer: Answer,
    question: Question,
    unit: Deployment<'a>,
    /// Requests per second and device within the limits as it is, where that is not divided like the unit.
    whole_per_gpu: Option<f64>,
}

impl Asked<'_> {
    /// Requests per second and device, together and apart.
    fn per_gpu(&self) -> (f64, f64) {
        let ranks = f64::from(self.unit.ranks().max(1));
        let together = self.answer.together_per_unit / ranks;
        (self.whole_per_gpu.map_or(together, |whole| whole.max(together)), self.answer.apart_per_unit / ranks)
    }

    /// Whether one wide replica serves about as much as its parts would apart.
    fn is_better_whole(&self) -> bool {
        let (together, apart) = self.per_gpu();
        matches!(self.answer.verdict, Verdict::Separate { .. }) && apart < together * LEAST_GAIN
    }

    /// The answer in words.
    fn words(&self) -> String {
        let (together, apart) = self.per_gpu();
        let units = |count: u32| plural(f64::from(count), "unit");
        match self.answer.verdict {
            Verdict::Separate { .. } if self.is_better_whole() => format!(
                "do not: {} of TP{} apart serve {} req/s per GPU, together {}",
                units(self.question.units),
                self.unit.tensor,
                digits(apart),
                digits(together)
            ),
            Verdict::Separate { prefill, decode, .. } => {
                format!(
                    "worth it: {} for prefill, {} for decode serve {}x within the limits",
                    units(prefill),
                    units(decode),
                    digits(apart / together)
                )
            }
            Verdict::StayTogether(Reason::OneUnit) => "do not: one replica cannot be split".into(),
            Verdict::StayTogether(reason) => format!("do not: {}", reason.words()),
            Verdict::CannotTell => "cannot tell without the speed of the link (--link)".into(),
        }
    }
}

/// What can be split: replicas where there are some, else the narrowest layout of the same devices that runs.
fn unit<'a>(case: &Case<'a>, setting: &Setting<'a>) -> Deployment<'a> {
    let d = setting.deployment;
    let whole = Deployment { replicas: 1, ..d };
    if d.replicas > 1 || d.attention_dp > 1 {
        return whole;
    }
    let context = case.offered.load(0.0).mean_context();
    let mut narrower = (1..d.tensor).filter(|tensor| d.tensor.is_multiple_of(*tensor) && d.model.heads.is_multiple_of(*tensor));
    let fits = |tensor: &u32| Deployment { tensor: *tensor, kv_tokens: None, ..whole }.sequences_that_fit(context) >= 1.0;
    narrower.find(fits).map_or(whole, |tensor| Deployment { tensor, kv_tokens: None, ..whole })
}

/// What the closed form says, with the link that is there.
fn asked<'a>(case: &Case<'a>, setting: &Setting<'a>) -> Option<Asked<'a>> {
    let now = case.operate(setting).ok()?;
    let gpu = setting.deployment.gpu;
    let limit = |limit: Option<(super::input::Statistic, f64)>| limit.map(|(_, s)| s);
    let unit = unit(case, setting);
    let units = setting.deployment.gpu_count() / unit.ranks().max(1);
    let question = Question {
        ttft_limit_s: limit(case.slo().ttft),
        tpot_limit_s: limit(case.slo().tpot),
        link_bytes_per_s: case.input.link_bytes_per_s.or(gpu.link_bytes_per_s).or(gpu.pcie_bytes_per_s),
        units,
    };
    let load = Load { concurrency: (now.running / f64::from(units.max(1))).max(1.0), ..case.offered.load(now.cached_frac) };
    let answer = ask(&unit, &load, &question, &case.calibration(setting)).ok()?;
    let whole_per_gpu = (unit.ranks() != setting.deployment.ranks())
        .then(|| {
            let load = Load { concurrency: now.running.max(1.0), ..load };
            let found = ask(&setting.deployment, &load, &Question { units: 1, ..question }, &case.calibration(setting)).ok()?;
            Some(found.together_per_unit / f64::from(setting.deployment.ranks().max(1)))
        })
        .flatten();
    Some(Asked { answer, question, unit, whole_per_gpu })
}

/// Answers the step for a setting that runs.
pub(super) fn answer<'a>(case: &Case<'a>, setting: &Setting<'a>) -> StepAnswer {
    let (Ok(now), Some(asked)) = (case.operate(setting), asked(case, setting)) else { return StepAnswer::default() };
    let (found, question) = (asked.answer, asked.question);
    let d = &setting.deployment;
    let bytes = kv_bytes_of_sequence(d.model, d.kv, case.offered.prompt_tokens);
    let mut figures = vec![
        Figure::new("share of the time per token that prompts of others take", found.interference_frac, "ratio"),
        Figure::new("KV cache of one prompt", bytes, "byte"),
    ];
    figures.extend(found.transfer_s.map(|s| Figure::new("time to move it over the link", s, "s")));
    figures.extend(case.offered.rate_per_s.map(|rate| Figure::new("link needed at this rate", rate * bytes, "byte/s")));
    figures.extend(question.link_bytes_per_s.map(|rate| Figure::new("link there is, per GPU", rate, "byte/s")));
    let (together, apart) = asked.per_gpu();
    figures.push(Figure::new("within the limits per GPU, together", together, "request/s"));
    figures.push(Figure::new("within the limits per GPU, apart", apart, "request/s"));
    let chunk = largest_chunk(case, setting, now.running);
    figures.extend(chunk.map(|chunk| Figure::new("largest prompt chunk within the limit on TPOT", chunk, "token")));
    let mut notes = vec![interruptions(case, setting, now.running, chunk)];
    if asked.unit.ranks() != d.ranks() {
        notes.push(format!("One replica spans all GPUs; looked at as {} units of {} GPUs.", question.units, asked.unit.ranks()));
    }
    if case.input.link_bytes_per_s.is_none() {
        notes.push("The link is taken to be the GPUs' own; between nodes it is slower (set --link).".into());
    }
    StepAnswer {
        verdict: match found.verdict {
            Verdict::Separate { .. } if asked.is_better_whole() => StepVerdict::DoNot,
            Verdict::Separate { .. } => StepVerdict::Do,
            Verdict::StayTogether(_) => StepVerdict::DoNot,
            Verdict::CannotTell => StepVerdict::CannotTell,
        },
        answer: format!("{} ({} of TPOT is prompts)", asked.words(), percent(found.interference_frac)),
        figures,
        tables: vec![chunks(case, setting, now.running)],
        notes,
        ..StepAnswer::default()
    }
}

/// How long prompts interrupt decoding, and the chunk that keeps every gap within the limit.
fn interruptions(case: &Case<'_>, setting: &Setting<'_>, running: f64, chunk: Option<f64>) -> String {
    let budget = setting.deployment.max_batched_tokens;
    let whole = budget.min(case.offered.prompt_tokens);
    let longest_s = step_s(case, setting, running / setting.attention_ranks(), whole);
    let now = format!("A step with a chunk of {} prompt tokens takes {}", count(whole), seconds(longest_s));
    match (case.tpot_limit_s(), chunk) {
        (Some(limit_s), _) if longest_s <= limit_s => format!("{now}, within the limit on TPOT."),
        (Some(_), Some(chunk)) => {
            format!("{now}; {} tokens per step would keep every gap within the limit on TPOT, not only the mean.", count(chunk))
        }
        (Some(limit_s), None) => format!("{now}; no chunk keeps every gap within {}.", seconds(limit_s)),
        (None, _) => format!("{now}."),
    }
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
    let asked = asked(case, setting)?;
    let worth = matches!(asked.answer.verdict, Verdict::Separate { .. }) && !asked.is_better_whole();
    let why = asked.words().trim_start_matches("do not: ").trim_start_matches("worth it: ").to_string();
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
