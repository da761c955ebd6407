//! What must be true of any plan, and published figures that a plan must come near to.

use analysis::plan::document::{Cell, Plan, StepVerdict};
use analysis::plan::{Demand, Objective, PlanError, PlanInput, Slo, Statistic, Traffic, plan};
use model::hardware::{self, Gpu};
use model::memory::Dtype;
use model::models;
use proptest::prelude::*;
use simulate::Workload;
use simulate::workload::{self, Limits};

fn input<'a>(model: &str, gpu: &'a Gpu, gpu_count: u32, traffic: Traffic<'a>, demand: Demand) -> PlanInput<'a> {
    let shape = models::find(model).unwrap();
    PlanInput {
        model: shape,
        model_name: model.into(),
        gpu,
        gpu_count,
        weights: None,
        kv: None,
        weight_bytes: None,
        tensor: None,
        max_num_seqs: None,
        max_batched_tokens: None,
        kv_tokens: None,
        max_model_len: None,
        traffic,
        demand,
        slo: Slo::default(),
        objective: Objective::Latency,
        price_per_gpu_h: None,
        acceptance: None,
        link_bytes_per_s: None,
        measured_tpot_s: None,
        assumptions: Vec::new(),
    }
}

fn lengths(prompt_tokens: u32, output_tokens: u32) -> Traffic<'static> {
    Traffic::Lengths { prompt_tokens, output_tokens }
}

fn recorded(text: &str) -> Workload {
    workload::read(&mut text.as_bytes(), Limits::default()).unwrap().workload
}

fn figure(plan: &Plan, step: usize, name: &str) -> (f64, Option<[f64; 2]>) {
    let found = plan.steps[step].figures.iter().find(|figure| figure.name.contains(name));
    found.map_or_else(|| panic!("{name} in {:?}", plan.steps[step].figures), |figure| (figure.value, figure.range))
}

const RUN_4090: &str = include_str!("../../../simulate/tests/data/vllm-runs/RTX4090_Llama-3.1-8B/requests.jsonl");

/// The run's own log: 41,408 tokens of KV cache; 1.634 requests/s were served while the cache was full, at 28.6 to 36 ms per
/// token in its steady part.
#[test]
fn a_recorded_run_is_predicted_within_a_tenth() {
    let (workload, gpu) = (recorded(RUN_4090), hardware::find("rtx-4090").unwrap());
    let traffic = Traffic::Recorded { workload: &workload, source: "run".into() };
    let plan = plan(&input("Llama-3.1-8B", gpu, 1, traffic, Demand::Recorded)).unwrap();
    let (tokens, range) = figure(&plan, 0, "KV capacity");
    let [low, high] = range.unwrap();
    assert!(low <= 41_408.0 && 41_408.0 <= high && (tokens / 41_408.0 - 1.0).abs() < 0.05, "{tokens} {range:?}");
    let now = plan.now.unwrap();
    assert!((now.capacity_per_s.mid / 1.634 - 1.0).abs() < 0.1, "{:?}", now.capacity_per_s);
    // Six times overloaded: no wait is told as a number, and more seats are no remedy.
    assert!(now.ttft_s.is_none() && now.utilization.unwrap().mid > 4.0);
    assert!(plan.first.iter().all(|action| action.id != "more_seats"), "{:?}", plan.first);
    assert!(plan.first[0].id == "kv_fp8" || plan.first[0].id == "weights_fp8", "{}", plan.first[0].id);
}

/// Mooncake (FAST 2025): 320 KiB per token of a 70B. A prompt of 4,096 tokens is 1.34 GB, 27 ms at 50 GB/s.
#[test]
fn caches_of_a_70b_are_those_of_the_paper() {
    let gpu = hardware::find("h100-sxm").unwrap();
    let asked =
        PlanInput { link_bytes_per_s: Some(12.5e9), tensor: Some(4), ..input("Llama-3-70B", gpu, 8, lengths(4096, 200), Demand::Offline) };
    let plan = plan(&asked).unwrap();
    assert_eq!(figure(&plan, 0, "KV cache per token").0, 327_680.0);
    assert!((figure(&plan, 5, "KV cache of one prompt").0 / 1.342e9 - 1.0).abs() < 1e-3);
    assert!((figure(&plan, 5, "time to move it").0 - 0.0268).abs() < 2e-4);
}

/// ShareGPT lengths: contiguous reservation of 2,048 tokens holds 0.567 of what it reserves, blocks of 16 0.99.
#[test]
fn waste_of_contiguous_reservation_is_as_published() {
    let (workload, gpu) = (recorded(RUN_4090), hardware::find("rtx-4090").unwrap());
    let traffic = Traffic::Recorded { workload: &workload, source: "run".into() };
    let asked = PlanInput { max_model_len: Some(2048), ..input("Llama-3.1-8B", gpu, 1, traffic, Demand::Offline) };
    let plan = plan(&asked).unwrap();
    assert!((figure(&plan, 3, "reserved, contiguous").0 - 0.567).abs() < 0.002, "{:?}", plan.steps[3].figures);
    assert!(figure(&plan, 3, "reserved, pages").0 > 0.99);
    // Batches of 32 of these answers use 0.81 of their seats.
    let row = plan.steps[2].tables[0].rows.iter().find(|row| row[0] == Cell::Number(32.0)).unwrap();
    let Cell::Number(used) = row[1] else { panic!("{row:?}") };
    assert!((used - 0.81).abs() < 0.01, "{used}");
}

#[test]
fn each_step_answers_and_each_table_is_whole() {
    let gpu = hardware::find("h100-sxm").unwrap();
    for model in ["Llama-3.1-8B", "Qwen3-30B-A3B", "DeepSeek-V2-Lite", "gpt-oss-20b", "Gemma-3-27B", "Nemotron-3-Nano-30B-A3B"] {
        let plan = plan(&input(model, gpu, 2, lengths(2000, 300), Demand::Offline)).unwrap();
        assert_eq!(plan.steps.len(), 6, "{model}");
        for step in &plan.steps {
            assert!(!step.answer.is_empty(), "{model}: {step:?}");
            assert!(step.tables.iter().all(|table| table.rows.iter().all(|row| row.len() == table.columns.len())), "{model}: {step:?}");
            assert!(step.figures.iter().all(|figure| figure.value.is_finite()), "{model}: {step:?}");
        }
        assert_eq!(plan.steps[1].verdict, StepVerdict::CannotTell, "lengths do not say what repeats");
    }
}

#[test]
fn a_plan_is_a_chain_and_ends_where_it_says() {
    let gpu = hardware::find("rtx-4090").unwrap();
    let slo = Slo { ttft: Some((Statistic::Quantile(0.95), 1.0)), tpot: Some((Statistic::Mean, 0.04)) };
    let plan = plan(&PlanInput { slo, ..input("Llama-3.1-8B", gpu, 1, lengths(800, 100), Demand::Rate(8.0)) }).unwrap();
    assert!(!plan.first.is_empty());
    assert_eq!(plan.first[0].before, plan.now);
    for two in plan.first.windows(2) {
        assert_eq!(two[0].after, two[1].before);
    }
    assert_eq!(plan.first.last().unwrap().after, plan.after);
    for action in plan.not.iter().filter(|action| action.before.is_some()) {
        assert_eq!(action.before, plan.after, "{}", action.id);
    }
}

/// What is measured is what is told, without a range; ranges begin with what is changed.
#[test]
fn a_measured_baseline_stands_as_it_is() {
    let gpu = hardware::find("h100-sxm").unwrap();
    let asked = PlanInput { measured_tpot_s: Some(0.0123), ..input("Llama-3.1-8B", gpu, 1, lengths(800, 200), Demand::Rate(5.0)) };
    let plan = plan(&asked).unwrap();
    let now = plan.now.unwrap();
    assert_eq!(now.tier, "ratio");
    assert!(
        (now.tpot_s.mid - 0.0123).abs() < 1e-5 && now.tpot_s.low == now.tpot_s.mid && now.tpot_s.high == now.tpot_s.mid,
        "{:?}",
        now.tpot_s
    );
    let changed =
        plan.first.iter().chain(&plan.not).filter_map(|action| action.after.as_ref()).find(|after| after.tpot_s.mid != now.tpot_s.mid);
    assert!(changed.is_none_or(|after| after.tpot_s.low < after.tpot_s.high), "{changed:?}");
}

#[test]
fn hostile_input_is_refused_by_name() {
    let gpu = hardware::find("h100-sxm").unwrap();
    let refused = |change: &dyn Fn(&mut PlanInput<'_>)| {
        let mut asked = input("Llama-3.1-8B", gpu, 4, lengths(500, 100), Demand::Rate(1.0));
        change(&mut asked);
        match plan(&asked) {
            Err(PlanError::Number { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(&|asked| asked.gpu_count = 0), "gpu_count");
    assert_eq!(refused(&|asked| asked.tensor = Some(3)), "tensor");
    assert_eq!(refused(&|asked| asked.demand = Demand::Rate(f64::NAN)), "rate");
    assert_eq!(refused(&|asked| asked.demand = Demand::Recorded), "rate");
    assert_eq!(refused(&|asked| asked.traffic = lengths(0, 5)), "prompt_tokens");
    assert_eq!(refused(&|asked| asked.weight_bytes = Some(f64::INFINITY)), "weight_bytes");
    assert_eq!(refused(&|asked| asked.kv_tokens = Some(-1.0)), "kv_tokens");
    assert_eq!(refused(&|asked| asked.price_per_gpu_h = Some(0.0)), "price");
    assert_eq!(refused(&|asked| asked.measured_tpot_s = Some(f64::NAN)), "measured_tpot");
    assert_eq!(refused(&|asked| asked.slo.ttft = Some((Statistic::Mean, 0.0))), "slo.ttft");
    assert_eq!(refused(&|asked| asked.acceptance = Some(analysis::plan::Acceptance { rate: 2.0 })), "acceptance");
    let nothing = Workload::new(Vec::new());
    let traffic = Traffic::Recorded { workload: &nothing, source: String::new() };
    assert_eq!(plan(&input("Llama-3.1-8B", gpu, 1, traffic, Demand::Recorded)), Err(PlanError::NoRequests));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn more_memory_never_fits_fewer_requests(grow in 1.0..3.0f64, prompt in 100u32..20_000, output in 10u32..2_000, four in any::<bool>()) {
        let gpu = hardware::find("a100-sxm-40").unwrap();
        let mut larger = gpu.clone();
        larger.memory_bytes = (gpu.memory_bytes as f64 * grow) as i64;
        let weights = Some(if four { Dtype::Int4G128 } else { Dtype::Bf16 });
        // The engine's defaults follow the memory of the device, so they are fixed here.
        let ask = |gpu: &Gpu| {
            let asked = input("Llama-3.1-8B", gpu, 1, lengths(prompt, output), Demand::Offline);
            plan(&PlanInput { weights, max_num_seqs: Some(1024), max_batched_tokens: Some(2048), ..asked }).unwrap().now.map_or(0.0, |now| now.requests_fit)
        };
        prop_assert!(ask(&larger) >= ask(gpu));
    }
}
