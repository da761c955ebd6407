//! Step 5: whether drafting tokens pays at this load, what the draft takes from the KV cache, and when it turns into a loss.
//!
//! How often drafts are accepted depends on the user's own text and is never assumed: without a measured rate the step
//! gives the rate from which it pays and refuses the rest. The draft is a small sibling with the same vocabulary, or a head
//! of one layer; its time is that of the step function.

use model::calibration::Calibration;
use model::deployment::{Deployment, Load, Speculation};
use model::memory::{kv_bytes_per_token, weight_bytes};
use model::models::{self, ModelShape};
use model::prediction::predict;
use model::speculation::{at_load, best_depth};

use super::case::{Candidate, Case, Effort, Setting};
use super::document::{Action, Figure, StepAnswer, StepVerdict, Table};
use super::memory_footprint::smaller::{family, generation};
use crate::words::{count, digits, percent};

const STEP: &str = "speculation";

/// Drafts per step at which the rate to break even is given.
const DRAFTS: u32 = 3;

/// Rates of the table, for comparison with the user's own.
const RATES: [f64; 3] = [0.6, 0.7, 0.8];

/// A draft model beside the target.
struct Draft {
    name: String,
    /// Bytes on each device, its own KV cache aside.
    bytes: f64,
    /// KV bytes per token over those of the target.
    kv_frac: f64,
    /// Time of one draft step in plain steps of the target, one request in flight.
    cost: f64,
}

/// The smallest sibling with the same vocabulary and at most an eighth of the parameters, else a head of one layer.
fn draft(case: &Case<'_>, setting: &Setting<'_>) -> Draft {
    let d = &setting.deployment;
    let target = d.model;
    let sibling = models::all()
        .iter()
        .filter(|model| model.vocab == target.vocab && family(&model.name) == family(&target.name) && model.params <= target.params / 8.0)
        .min_by(|a, b| {
            // A sibling of the same generation first: `Qwen3` before `Qwen2.5`.
            let other = |model: &ModelShape| generation(&model.name) != generation(&target.name);
            other(a).cmp(&other(b)).then(a.params.total_cmp(&b.params))
        });
    let head;
    let (name, shape, shares_tables) = if let Some(shape) = sibling {
        (shape.name.clone(), shape, false)
    } else {
        head = one_layer(target);
        ("a one-layer head".to_string(), &head, true)
    };
    let parts = shape.param_parts();
    let tables = if shares_tables { (parts.embedding + parts.head) * 2.0 } else { 0.0 };
    let whole = weight_bytes(shape, d.weights) - tables;
    let load = Load { concurrency: 1.0, ..case.offered.load(0.0) };
    let tensor = if shape.heads.is_multiple_of(d.tensor) { d.tensor } else { 1 };
    let drafting = Deployment { model: shape, weight_bytes: None, kv_tokens: None, tensor, attention_dp: 1, speculation: None, ..*d };
    let calibration = case.calibration(setting);
    let step_s = |deployment: &Deployment<'_>, calibration: &Calibration| {
        predict(deployment, &load, calibration).ok().map(|found| found.step.total_s)
    };
    let plain = step_s(&Deployment { speculation: None, ..*d }, &calibration);
    let cost = match (step_s(&drafting, &calibration), plain) {
        (Some(draft), Some(plain)) if plain > 0.0 => (draft / plain).clamp(0.001, 1.0),
        _ => 0.1,
    };
    Draft {
        name,
        bytes: whole / f64::from(tensor.max(1)),
        kv_frac: kv_bytes_per_token(shape, d.kv) / kv_bytes_per_token(target, d.kv),
        cost,
    }
}

/// A layer of the target as a model of its own.
fn one_layer(target: &ModelShape) -> ModelShape {
    let mut head = target.clone();
    head.layers = 1;
    head.dense_layers = target.dense_layers.min(1);
    (head.attention_layers, head.state_layers, head.windowed_layers) = (0, 0, 0);
    (head.ffn_layers, head.expert_layers) = (0, 0);
    head
}

/// The setting with `drafts` drafts: their weights leave the KV cache, their own KV makes each token dearer.
fn with_draft<'a>(setting: &Setting<'a>, draft: &Draft, drafts: u32, acceptance: f64) -> Setting<'a> {
    let d = setting.deployment;
    let memory = d.gpu.memory_bytes as f64;
    let kv_bytes = kv_bytes_per_token(d.model, d.kv) / f64::from(d.tensor.max(1));
    let spent = draft.bytes + setting.kv_tokens_per_rank * kv_bytes * draft.kv_frac / (1.0 + draft.kv_frac);
    let memory_frac = (d.memory_frac - spent / memory).max(0.01);
    let kv_tokens = d.kv_tokens.map(|tokens| (tokens - spent / kv_bytes.max(1.0)).max(0.0));
    let speculation = Some(Speculation { drafts, acceptance, draft_cost: draft.cost });
    setting.with(Deployment { speculation, memory_frac, kv_tokens, ..d })
}

/// Drafting with the measured acceptance, at the best depth for the load.
pub(super) fn levers<'a>(case: &Case<'a>, setting: &Setting<'a>) -> Vec<Candidate<'a>> {
    let (Some(measured), None) = (case.input.acceptance, setting.deployment.speculation) else { return Vec::new() };
    let Ok(now) = case.operate(setting) else { return Vec::new() };
    let draft = draft(case, setting);
    let load = Load { concurrency: now.running.max(1.0), ..case.offered.load(now.cached_frac) };
    let Ok(best) = best_depth(&setting.deployment, &load, measured.rate, draft.cost, &case.calibration(setting)) else { return Vec::new() };
    if best.drafts == 0 {
        return Vec::new();
    }
    vec![Candidate {
        id: "speculation",
        step: STEP,
        what: format!("draft {} tokens per step with {}", best.drafts, draft.name),
        flag: Some(format!("--speculative-config with num_speculative_tokens {}", best.drafts)),
        setting: with_draft(&case.settled(setting), &draft, best.drafts, measured.rate),
        effort: Effort::Draft,
        risk: Some("turns into a loss when the load grows: watch acceptance and TPOT together"),
    }]
}

/// What the step finds at the load.
struct Found {
    /// Acceptance from which drafting pays at the load.
    break_even: Option<f64>,
    /// Requests in flight from which it loses whatever is accepted within [`RATES`].
    loses_from: Option<f64>,
}

/// Answers the step for a setting that runs.
pub(super) fn answer<'a>(case: &Case<'a>, setting: &Setting<'a>) -> StepAnswer {
    let plain = setting.with(Deployment { speculation: None, ..setting.deployment });
    let Ok(now) = case.operate(&plain) else { return StepAnswer::default() };
    let settled = case.settled(&plain);
    let draft = draft(case, &settled);
    let mut answer = StepAnswer::default();
    let rate = case.input.acceptance.map(|acceptance| acceptance.rate);
    let found = table(case, &settled, &draft, now.running, now.requests_fit, rate, &mut answer);
    let spent = with_draft(&settled, &draft, DRAFTS, 0.7);
    let lost = 1.0 - case.settled(&spent).kv_tokens_per_rank / settled.kv_tokens_per_rank.max(1.0);
    answer.figures.extend([
        Figure::new(format!("weights of the draft ({}) per GPU", draft.name), draft.bytes, "byte"),
        Figure::new("KV capacity that the draft takes", lost.max(0.0), "ratio"),
        Figure::new("time of a draft step over a plain step", draft.cost, "ratio"),
    ]);
    if let Some(break_even) = found.break_even {
        answer.figures.push(Figure::new(format!("acceptance from which {DRAFTS} drafts pay at this load"), break_even, "ratio"));
    }
    let pays = found.break_even.map_or_else(
        || format!("{DRAFTS} drafts of {} lose at any acceptance", draft.name),
        |at| format!("{DRAFTS} drafts of {} pay from {} accepted", draft.name, percent(at)),
    );
    if case.input.acceptance.is_none() {
        answer.notes.push(
            "No gain is predicted without a measured acceptance (set --acceptance); engines export it, and it depends on your text.".into(),
        );
    }
    if let Some(batch) = found.loses_from {
        answer.notes.push(format!("With 70 % accepted, {DRAFTS} drafts turn into a loss from {} requests in flight.", count(batch)));
    }
    let speed = |rate: f64| {
        let with = case.operate(&levers(case, &plain).first()?.setting).ok()?;
        Some((rate, now.tpot_s.mid / with.tpot_s.mid))
    };
    (answer.verdict, answer.answer) = match (rate, rate.and_then(speed)) {
        (None, _) if found.break_even.is_none() => (StepVerdict::DoNot, pays),
        (None, _) => (StepVerdict::CannotTell, format!("{pays}; none measured")),
        (_, Some((rate, gain))) if gain > 1.05 => {
            (StepVerdict::Do, format!("{pays}; with {} it is {}x as fast per token", percent(rate), digits(gain)))
        }
        (Some(rate), _) => (StepVerdict::DoNot, format!("{pays}; with {} it gains nothing", percent(rate))),
    };
    answer
}

/// Break-even and best depth by batch.
fn table(
    case: &Case<'_>,
    setting: &Setting<'_>,
    draft: &Draft,
    running: f64,
    fit: f64,
    rate: Option<f64>,
    answer: &mut StepAnswer,
) -> Found {
    let mut rates = RATES.to_vec();
    rates.extend(rate);
    let names: Vec<String> = rates.iter().map(|rate| format!("best drafts and speedup at {}", percent(*rate))).collect();
    let break_even = format!("{DRAFTS} drafts pay from");
    let mut columns = vec![("in flight", "request"), (break_even.as_str(), "ratio")];
    columns.extend(names.iter().map(|name| (name.as_str(), "text")));
    let mut table = Table::new(format!("Drafting with {} by load", draft.name), &columns);
    let calibration = case.calibration(setting);
    let at = |batch: f64, rate: f64| {
        let load = Load { concurrency: batch, ..case.offered.load(0.0) };
        let speculation = Speculation { drafts: DRAFTS, acceptance: rate, draft_cost: draft.cost };
        at_load(&setting.deployment, &load, speculation, &calibration).ok()
    };
    let mut batches: Vec<f64> = (0..12).map(|power| f64::from(1u32 << power)).filter(|batch| *batch <= fit.max(1.0)).collect();
    batches.push(running.clamp(1.0, fit.max(1.0)).round());
    batches.sort_by(f64::total_cmp);
    batches.dedup();
    let mut loses_from = None;
    for batch in batches {
        let Some(found) = at(batch, 0.7) else { continue };
        loses_from = loses_from.or((found.speedup < 1.0).then_some(batch));
        let load = Load { concurrency: batch, ..case.offered.load(0.0) };
        let mut row = vec![batch.into(), found.break_even.into()];
        row.extend(rates.iter().map(|rate| match best_depth(&setting.deployment, &load, *rate, draft.cost, &calibration) {
            Ok(best) if best.drafts > 0 => format!("{} x{}", best.drafts, digits(best.speedup)).into(),
            _ => "none pays".into(),
        }));
        table.rows.push(row);
    }
    answer.tables.push(table);
    answer.notes.push("Speedups by acceptance are for comparison: only your own text says which row applies.".into());
    Found { break_even: at(running.max(1.0), 0.7).and_then(|found| found.break_even), loses_from }
}

/// Drafting without a measured rate is a guess.
pub(super) fn against<'a>(case: &Case<'a>, setting: &Setting<'a>) -> Option<Action> {
    if case.input.acceptance.is_some() || setting.deployment.speculation.is_some() {
        return None;
    }
    let now = case.operate(setting).ok()?;
    let settled = case.settled(setting);
    let draft = draft(case, &settled);
    let load = Load { concurrency: now.running.max(1.0), ..case.offered.load(0.0) };
    let speculation = Speculation { drafts: DRAFTS, acceptance: 0.7, draft_cost: draft.cost };
    let found = at_load(&setting.deployment, &load, speculation, &case.calibration(setting)).ok()?;
    let why = match found.break_even {
        Some(at) => format!("measure acceptance first, below {} it loses", percent(at)),
        None => "loses at this load whatever is accepted".into(),
    };
    Some(Action {
        id: "speculation".into(),
        step: STEP.into(),
        what: format!("speculative decoding with {}", draft.name),
        flag: None,
        why,
        risk: None,
        before: None,
        after: None,
    })
}
