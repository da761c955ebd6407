//! Step 1: do weights, working memory and the KV cache of this load fit, and what would each smaller format buy?
//!
//! The question is not whether weights take less than 80 % of the memory (that rule is repeated as a warning), but how many
//! requests of this workload fit beside them, against how many are in flight (Little's law). Each row of the table is
//! evaluated from the start by the step function: bytes, room, concurrency, time, throughput.

pub(super) mod smaller;

use model::deployment::Deployment;
use model::memory::{Dtype, kv_bytes_per_token, reserve_bytes};
use model::models::Kind;

use super::case::{Candidate, Case, Effort, Setting, dtype_words};
use super::document::{Cell, Figure, StepAnswer, StepVerdict, Table};
use super::operating::Operating;
use crate::words::{count, digits, percent, plural};

const STEP: &str = "memory_footprint";

/// Share of the memory from which the rule of thumb warns.
const RULE_FRAC: f64 = 0.8;

/// Why quantization is a risk that this plan cannot judge.
pub(super) const NOT_MEASURED: &str = "accuracy changes and is not measured here: run your own evaluation set";
const BELOW_FOUR: &str =
    "4 bits is where reasoning and long contexts start to suffer; accuracy is not measured here, run your own evaluation set";

/// What smaller formats and other layouts there are.
pub(super) fn levers<'a>(_: &Case<'a>, setting: &Setting<'a>) -> Vec<Candidate<'a>> {
    let mut found = Vec::new();
    let deployment = setting.deployment;
    if deployment.kv.bytes_per_param() > 1.5 {
        found.push(Candidate {
            id: "kv_fp8",
            step: STEP,
            what: "keep the KV cache in FP8".into(),
            flag: Some("--kv-cache-dtype fp8".into()),
            setting: setting.with(Deployment { kv: Dtype::Fp8, kv_tokens: None, ..deployment }),
            effort: Effort::Precision,
            risk: Some(NOT_MEASURED),
        });
    }
    found.extend(formats(setting));
    found.extend(layouts(setting));
    found
}

/// Smaller formats of the weights that the device computes with or widens.
pub(super) fn formats<'a>(setting: &Setting<'a>) -> Vec<Candidate<'a>> {
    let deployment = setting.deployment;
    let gpu = deployment.gpu;
    let mut formats = Vec::new();
    if gpu.fp8_flops.is_some() {
        formats.push((Dtype::Fp8, "weights_fp8", Effort::Checkpoint, "--quantization fp8"));
    } else {
        // Without FP8 arithmetic the 8-bit format is integer.
        formats.push((Dtype::Int8, "weights_int8", Effort::Checkpoint, "an INT8 (W8A8) checkpoint"));
    }
    formats.push((Dtype::Int4G128, "weights_int4", Effort::FourBits, "an AWQ or GPTQ checkpoint"));
    if gpu.fp4_flops.is_some() {
        formats.push((Dtype::Nvfp4, "weights_nvfp4", Effort::FourBits, "an NVFP4 checkpoint"));
    }
    let smaller = formats.into_iter().filter(|(dtype, ..)| dtype.bytes_per_param() < deployment.weights.bytes_per_param() * 0.95);
    smaller
        .map(|(dtype, id, effort, flag)| Candidate {
            id,
            step: STEP,
            what: format!("{} weights instead of {}", dtype_words(dtype), dtype_words(deployment.weights)),
            flag: Some(flag.into()),
            setting: setting.with(Deployment { weights: dtype, weight_bytes: None, kv_tokens: None, ..deployment }),
            effort,
            risk: Some(if effort == Effort::FourBits { BELOW_FOUR } else { NOT_MEASURED }),
        })
        .collect()
}

/// Other ways to divide the same devices.
fn layouts<'a>(setting: &Setting<'a>) -> Vec<Candidate<'a>> {
    let deployment = setting.deployment;
    let gpu_count = deployment.gpu_count();
    let mut found = Vec::new();
    for (tensor, id) in [(1, "tp1"), (2, "tp2"), (4, "tp4"), (8, "tp8")] {
        let possible = gpu_count.is_multiple_of(tensor) && deployment.model.heads.is_multiple_of(tensor);
        if possible && (tensor != deployment.tensor || deployment.attention_dp > 1) {
            let replicas = gpu_count / tensor;
            found.push(Candidate {
                id,
                step: STEP,
                what: match (tensor, replicas) {
                    (1, _) => format!("{replicas} independent replicas"),
                    (_, 1) => format!("one replica over all {gpu_count} GPUs (TP{tensor})"),
                    _ => format!("{replicas} replicas of {tensor} GPUs each (TP{tensor})"),
                },
                flag: Some(format!("--tensor-parallel-size {tensor}")),
                setting: setting.with(Deployment { tensor, replicas, attention_dp: 1, kv_tokens: None, ..deployment }),
                effort: Effort::Layout,
                risk: None,
            });
        }
    }
    let ranks = deployment.ranks();
    if deployment.model.kind() == Kind::Latent && deployment.attention_dp == 1 && ranks > 1 {
        found.push(Candidate {
            id: "attention_dp",
            step: STEP,
            what: format!("attention in data parallel over {ranks} GPUs, experts shared: the latent KV cache is no longer copied"),
            flag: Some(format!("--data-parallel-size {ranks} --enable-expert-parallel")),
            setting: setting.with(Deployment { tensor: 1, attention_dp: ranks, kv_tokens: None, ..deployment }),
            effort: Effort::Layout,
            risk: Some("steps wait for the fullest expert rank; the split is assumed even"),
        });
    }
    found
}

/// Answers the step for a setting that runs.
pub(super) fn answer<'a>(case: &Case<'a>, setting: &Setting<'a>) -> StepAnswer {
    let Ok(now) = case.operate(setting) else { return nothing_runs(case, STEP) };
    let mut answer = footprint(case, setting);
    let demand = case.offered.rate_per_s.map(|rate| demand(case, &now, rate));
    if let Some(demand) = demand {
        answer.figures.push(Figure::new("requests in flight at this rate (Little)", demand, "request"));
    }
    answer.figures.push(Figure::new("requests of this workload that fit", now.requests_fit, "request"));
    let short = case.start != *setting || demand.is_some_and(|demand| demand > now.requests_fit);
    answer.verdict = if short { StepVerdict::Do } else { StepVerdict::Fine };
    answer.answer = sentence(case, setting, &now, demand);
    answer.tables.push(table(case, setting, &now));
    answer.notes.push(format!("What quantization does to answers is not known here: {NOT_MEASURED}."));
    answer
}

/// Little's law with the times of the setting; near saturation with the time of a request that does not wait.
fn demand(case: &Case<'_>, now: &Operating, rate: f64) -> f64 {
    let decode_s = now.tpot_s.mid * (case.offered.output_tokens - 1.0).max(0.0);
    model::queueing::little(rate, decode_s + now.ttft_s.map_or(0.0, |ttft| ttft.mid))
}

/// Weights, reserve and KV cache of one device.
fn footprint(case: &Case<'_>, setting: &Setting<'_>) -> StepAnswer {
    let d = &setting.deployment;
    let memory = d.gpu.memory_bytes as f64;
    let reserve = reserve_bytes(d.model, d.max_batched_tokens, d.max_num_seqs.min(1024.0), d.tensor);
    let context = case.offered.load(0.0).mean_context();
    let per_rank = setting.kv_per_rank(context);
    let weights = d.weight_bytes_per_rank();
    let mut notes = Vec::new();
    if weights > memory * RULE_FRAC {
        notes.push(format!(
            "Rule of thumb: weights take {} of each GPU, over 80 %. What decides is the room that is left: see the requests that fit.",
            percent(weights / memory)
        ));
    }
    StepAnswer {
        figures: vec![
            Figure::new("weights per GPU", weights, "byte"),
            Figure::new("share of its memory", weights / memory, "ratio"),
            Figure::ranged("working memory per GPU (activations, graphs)", reserve, "byte"),
            Figure::new("KV cache per token, whole model", kv_bytes_per_token(d.model, d.kv), "byte"),
            Figure::ranged("KV capacity, all replicas", per_rank.map(|tokens| tokens * setting.attention_ranks()), "token"),
        ],
        notes,
        ..StepAnswer::default()
    }
}

fn sentence(case: &Case<'_>, setting: &Setting<'_>, now: &Operating, demand: Option<f64>) -> String {
    let weights = setting.deployment.weight_bytes_per_rank() / setting.deployment.gpu.memory_bytes as f64;
    let room = format!(
        "weights {} of each GPU, {} KV tokens: {} fit",
        percent(weights),
        count(now.kv_tokens.mid),
        plural(now.requests_fit, "request")
    );
    let given = if case.start == *setting { String::new() } else { format!("with {}: ", setting.layout()) };
    match demand {
        Some(demand) if demand > now.requests_fit => {
            format!("{given}{room}, {} would be in flight: too few", digits(demand))
        }
        Some(demand) => format!("{given}{room}, {} in flight", digits(demand)),
        None => format!("{given}{room}"),
    }
}

/// What each change buys, one predicted chain a row.
fn table<'a>(case: &Case<'a>, setting: &Setting<'a>, now: &Operating) -> Table {
    let columns = [
        ("change", "text"),
        ("weights/GPU", "byte"),
        ("KV tokens", "token"),
        ("requests fit", "request"),
        ("TPOT", "s"),
        ("could serve", "token/s"),
        ("what to know", "text"),
    ];
    let mut table = Table::new("What each change buys, predicted as a whole", &columns);
    let row = |what: String, weights: f64, found: &Operating, remark: &str| -> Vec<Cell> {
        let capacity = found.capacity_tokens(case).mid;
        vec![
            what.into(),
            weights.into(),
            found.kv_tokens.mid.into(),
            found.requests_fit.into(),
            found.tpot_s.mid.into(),
            capacity.into(),
            remark.into(),
        ]
    };
    table.rows.push(row(format!("as it is ({})", setting.layout()), setting.deployment.weight_bytes_per_rank(), now, ""));
    for candidate in levers(case, setting) {
        let weights = candidate.setting.deployment.weight_bytes_per_rank();
        match case.operate(&candidate.setting) {
            Ok(found) => table.rows.push(row(candidate.what, weights, &found, short_risk(candidate.risk))),
            Err(why) => table.rows.push(refused(candidate.what, weights, &why.to_string(), columns.len())),
        }
    }
    smaller::rows(case, setting, &mut |what, weights, found, remark| table.rows.push(row(what, weights, found, remark)));
    table
}

fn short_risk(risk: Option<&'static str>) -> &'static str {
    match risk {
        Some(BELOW_FOUR) => "accuracy: at the 4-bit edge, not measured",
        Some(NOT_MEASURED) => "accuracy not measured",
        Some(other) => other,
        None => "",
    }
}

fn refused(what: String, weights: f64, why: &str, columns: usize) -> Vec<Cell> {
    let mut row: Vec<Cell> = vec![what.into(), weights.into()];
    row.resize(columns - 1, Cell::Empty(()));
    row.push(why.into());
    row
}

/// What a step answers when no setting runs at all.
pub(super) fn nothing_runs(case: &Case<'_>, step: &str) -> StepAnswer {
    if step != STEP {
        let answer = "nothing to answer: no setting of these GPUs holds the model and one request".to_string();
        return StepAnswer { verdict: StepVerdict::CannotTell, answer, ..StepAnswer::default() };
    }
    let d = &case.start.deployment;
    let answer = format!(
        "does not fit: weights take {:.1} GB of the {:.1} GB each GPU has, and no format or layout of {} leaves room for one request",
        d.weight_bytes_per_rank() / 1e9,
        d.gpu.memory_bytes as f64 / 1e9,
        plural(f64::from(d.gpu_count()), "GPU")
    );
    StepAnswer { verdict: StepVerdict::Do, answer, ..footprint(case, &case.start) }
}
