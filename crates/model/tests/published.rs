//! The formulas against published figures; the rows and their sources are in `tests/data`.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use expect_test::expect_file;
use model::memory::{self, Dtype};
use model::roofline::{Deployment, StepShape, step_bound};
use model::{hardware, models, speculation};
use serde::Deserialize;

#[derive(Deserialize)]
struct Leviathan {
    rows: Vec<LeviathanRow>,
}

/// Task, draft, temperature, drafts, acceptance, draft cost, expected and measured speedup.
type LeviathanRow = (String, String, u32, u32, f64, f64, f64, f64);

#[test]
fn speculation_reproduces_the_paper() {
    let table: Leviathan = serde_json::from_str(include_str!("data/leviathan2023.json")).unwrap();
    assert_eq!(table.rows.len(), 12);
    let mut error_frac = 0.0;
    for (task, draft, temperature, drafts, acceptance, cost, expected, measured) in &table.rows {
        let computed = speculation::speedup_batch1(*acceptance, *drafts, *cost);
        // The paper rounds acceptance to two digits and speedups to one.
        assert!((computed - expected).abs() <= 0.1, "{task} {draft} T={temperature}: {computed:.2}, paper {expected}");
        error_frac += (computed / measured - 1.0).abs() / 12.0;
    }
    assert!((0.17..0.185).contains(&error_frac), "the formula misses measured speedups by {error_frac:.3} in the mean");
}

#[derive(Deserialize)]
struct Budgets {
    rows: Vec<Budget>,
}

#[derive(Deserialize)]
struct Budget {
    name: String,
    model: String,
    memory_bytes: f64,
    utilization: f64,
    max_batched_tokens: f64,
    max_num_seqs: f64,
    weights_bytes: f64,
    kv_tokens: f64,
}

fn capacity(row: &Budget) -> memory::Estimate {
    let model = models::find(&row.model).unwrap();
    let weights = memory::weight_bytes_per_rank(model, Dtype::Bf16, 1);
    let reserve = memory::reserve_bytes(model, row.max_batched_tokens, row.max_num_seqs, 1);
    let budget = memory::kv_budget(row.memory_bytes, row.utilization, weights, reserve);
    memory::capacity_tokens(budget, memory::kv_bytes_per_token_per_rank(model, Dtype::Bf16, 1))
}

#[test]
fn reported_capacities_lie_in_the_interval() {
    let table: Budgets = serde_json::from_str(include_str!("data/memory_budget.json")).unwrap();
    for row in &table.rows {
        let model = models::find(&row.model).unwrap();
        let weights = memory::weight_bytes_per_rank(model, Dtype::Bf16, 1);
        assert!((weights / row.weights_bytes - 1.0).abs() < 0.001, "{}: weights {weights}", row.name);
        let tokens = capacity(row);
        assert!(tokens.lo <= row.kv_tokens && row.kv_tokens <= tokens.hi, "{}: {tokens:?}, reported {}", row.name, row.kv_tokens);
        // A calculator without a reserve is off by a fifth to a third; the middle of the interval is not.
        assert!((tokens.mid / row.kv_tokens - 1.0).abs() < 0.08, "{}: {tokens:?}", row.name);
    }
}

#[test]
fn an_engines_own_figures_give_its_cache() {
    // gemma-3-4b-it on a B200 (vllm-project/vllm pull request 21489): a multimodal model, whose encoder takes 10 GiB to
    // profile. With the engine's reserve the budget is right; the computed interval is of the text part and misses it.
    let gib = 1_073_741_824.0;
    let reserve = memory::Estimate::exact((9.96 + 0.07 + 0.65) * gib);
    let budget = memory::kv_budget(178.36 * gib, 0.9, 8.58 * gib, reserve);
    assert!((budget.mid / 151_519_866_880.0 - 1.0).abs() < 0.002, "{budget:?}");
    let computed = memory::reserve_bytes(models::find("gemma-3-4b").unwrap(), 8192.0, 256.0, 1);
    assert!(computed.hi < reserve.mid, "{computed:?}");
}

/// How many times faster a 70B on four H100 is with a draft model: acceptance 0.6 to 0.7, a draft of a tenth of a step.
fn gain_of_drafts(concurrency: f64) -> f64 {
    use model::deployment::{Deployment as Serving, Load, Speculation};
    let (model, gpu) = (models::find("Llama-3.1-70B").unwrap(), hardware::find("h100-sxm").unwrap());
    let serving = Serving { tensor: 4, ..Serving::new(model, gpu, Dtype::Bf16) };
    let speculation = Speculation { drafts: 5, acceptance: 0.6, draft_cost: 0.1 };
    let calibration = model::calibration::published(models::Kind::Dense);
    speculation::speedup_at(&serving, &Load::closed(concurrency, 300.0, 300.0), speculation, calibration).unwrap()
}

/// vLLM's report of 2024-10-17: 1.5 times faster with a draft model at low load, 1.4 to 1.8 times slower at high load.
#[test]
fn drafting_turns_from_gain_to_loss_as_measured() {
    let (low, high) = (gain_of_drafts(1.0), gain_of_drafts(512.0));
    assert!((1.3..1.8).contains(&low), "{low}");
    assert!((1.2..1.8).contains(&(1.0 / high)), "{}", 1.0 / high);
}

/// The rows as `docs/validation.md` shows them.
#[test]
fn published_rows_beside_ours() {
    let mut page = String::from("| published | row | theirs | ours |\n|---|---|---|---|\n");
    let table: Leviathan = serde_json::from_str(include_str!("data/leviathan2023.json")).unwrap();
    for (task, draft, temperature, drafts, acceptance, cost, expected, measured) in &table.rows {
        let ours = speculation::speedup_batch1(*acceptance, *drafts, *cost);
        let row = format!("{task} {draft}, temperature {temperature}, {drafts} drafts");
        page.push_str(&format!(
            "| speedup by drafts, Leviathan et al. 2023 | {row} | {expected:.1} expected, {measured:.1} measured | {ours:.2} |\n"
        ));
    }
    let table: Budgets = serde_json::from_str(include_str!("data/memory_budget.json")).unwrap();
    for row in &table.rows {
        let tokens = capacity(row);
        page.push_str(&format!(
            "| tokens a KV cache holds, engines' own logs | {} | {:.0} | {:.0} ({:.0} to {:.0}) |\n",
            row.name, row.kv_tokens, tokens.mid, tokens.lo, tokens.hi
        ));
    }
    let (low, high) = (gain_of_drafts(1.0), gain_of_drafts(512.0));
    page.push_str(&format!("| drafts of a 70B on 4 H100, vLLM 2024-10-17 | 1 request | 1.5 times faster | {low:.2} times faster |\n"));
    page.push_str(&format!("| | 512 requests | 1.4 to 1.8 times slower | {:.2} times slower |\n", 1.0 / high));
    expect_file!["data/published.md"].assert_eq(&page);
}

/// One measured row and its bound in milliseconds.
struct Measured {
    gpu: String,
    backend: String,
    tpot_ms: f64,
    bound_ms: f64,
}

fn silicon() -> Vec<Measured> {
    let mut rows = Vec::new();
    for line in include_str!("data/silicon_tpot.csv").lines().skip(2) {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse::<f64>().unwrap();
        let model = models::find(fields[0]).unwrap();
        let gpu = hardware::find(fields[1]).unwrap();
        let (weights, kv) = match fields[3] {
            "fp8" => (Dtype::Fp8, Dtype::Fp8),
            "fp4" => (Dtype::Nvfp4, Dtype::Fp8),
            _ => (Dtype::Bf16, Dtype::Bf16),
        };
        let ranks = number(7) as u32;
        let context = number(4) + number(5) / 2.0;
        // More requests than the cache holds do not run together, whatever the load generator kept in flight.
        let room = memory::kv_budget(
            gpu.memory_bytes as f64,
            0.95,
            memory::weight_bytes_per_rank(model, weights, ranks),
            memory::Estimate::exact(0.0),
        );
        let fits = memory::capacity_tokens(room, memory::kv_bytes_per_token_per_rank(model, kv, ranks)).mid / context;
        let step = StepShape { prefill_tokens: 0.0, decode_seqs: number(6).min(fits), mean_context: context };
        let bound = step_bound(model, Deployment { weights, kv, ranks }, &step, gpu);
        rows.push(Measured { gpu: gpu.id.clone(), backend: fields[2].to_owned(), tpot_ms: number(8), bound_ms: bound.bound_s * 1e3 });
    }
    rows
}

#[test]
fn no_measured_step_beats_the_bound() {
    let rows = silicon();
    assert!(rows.len() > 600);
    let faster = rows.iter().filter(|row| row.tpot_ms < row.bound_ms).count();
    assert!(faster as f64 <= rows.len() as f64 * 0.002, "{faster} of {} rows are faster than the bound", rows.len());
}

#[test]
fn the_bound_is_no_forecast() {
    let mut ratios: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in silicon() {
        ratios.entry(format!("{} {}", row.gpu, row.backend)).or_default().push(row.tpot_ms / row.bound_ms);
    }
    for (system, ratios) in &mut ratios {
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ratios.len() / 2];
        assert!((1.8..8.0).contains(&median), "{system}: measured over bound {median:.2}");
    }
}
