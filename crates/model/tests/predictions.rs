//! What must hold of every prediction, whatever is asked.
#![allow(clippy::unwrap_used)]

use expect_test::expect;
use model::calibration::{Calibration, Lever, published};
use model::deployment::{Deployment, Load, Speculation, Unpredictable};
use model::hardware::{self, Gpu};
use model::memory::{Dtype, Estimate};
use model::models::{self, Kind, ModelShape};
use model::prediction::{Open, SATURATED, bound, predict, predict_change, predict_open};
use model::step_time::{Binding, Coefficients};
use proptest::prelude::*;

const MODELS: [&str; 6] = ["Llama-3.1-8B", "Llama-3.1-70B", "Qwen3-30B-A3B", "DeepSeek-V3", "Gemma-3-27B", "Qwen3.5-397B-A17B"];
const GPUS: [&str; 5] = ["h100-sxm", "b200-sxm", "a100-sxm-80", "l40s", "mi300x"];

fn model_at(at: usize) -> &'static ModelShape {
    models::find(MODELS[at % MODELS.len()]).unwrap()
}

fn gpu_at(at: usize) -> &'static Gpu {
    hardware::find(GPUS[at % GPUS.len()]).unwrap()
}

fn calibration(model: &ModelShape) -> &'static Calibration {
    published(model.kind())
}

fn finite(estimate: Estimate) -> bool {
    [estimate.lo, estimate.mid, estimate.hi].iter().all(|value| value.is_finite() && *value >= 0.0)
        && estimate.lo <= estimate.mid
        && estimate.mid <= estimate.hi
}

prop_compose! {
    fn loads()(concurrency in 1.0..2000.0f64, prompt in 1.0..30_000.0f64, cached in 0.0..1.0f64, output in 2.0..8_000.0f64) -> Load {
        Load { concurrency, prompt_tokens: prompt, cached_tokens: prompt * cached, output_tokens: output }
    }
}

prop_compose! {
    fn deployments()(
        at in (0usize..6, 0usize..5, 0usize..3),
        ranks in (0u32..4, 0u32..2, 0u32..3),
        acceptance in 0.0..1.0f64,
        drafts in 0u32..6,
        memory_frac in 0.7..0.95f64,
    ) -> Deployment<'static> {
        let weights = [Dtype::Bf16, Dtype::Fp8, Dtype::Int4G128][at.2];
        Deployment {
            tensor: 1 << ranks.0,
            pipeline: 1 << ranks.1,
            attention_dp: 1 << ranks.2,
            memory_frac,
            speculation: (drafts > 0).then_some(Speculation { drafts, acceptance, draft_cost: 0.05 }),
            ..Deployment::new(model_at(at.0), gpu_at(at.1), weights)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn no_change_predicts_no_gain(deployment in deployments(), load in loads(), measured in 1e-4..1.0f64) {
        if let Ok(change) = predict_change((&deployment, &load), (&deployment, &load), measured, calibration(deployment.model)) {
            prop_assert_eq!(change.ratio, Estimate::exact(1.0));
            prop_assert_eq!(change.tpot_s, Estimate::exact(measured));
            prop_assert_eq!(change.slower_by, None);
            prop_assert!(change.levers.is_empty());
        }
    }

    #[test]
    fn figures_are_finite_ordered_and_above_the_bound(deployment in deployments(), load in loads()) {
        match predict(&deployment, &load, calibration(deployment.model)) {
            Ok(p) => {
                for estimate in [p.tpot_s, p.ttft_s, p.tokens_per_s, p.tokens_per_s_per_gpu] {
                    prop_assert!(finite(estimate), "{p:?}");
                }
                prop_assert!(p.tpot_s.lo >= bound(&deployment, &load).unwrap().tpot_s);
                prop_assert!((p.running + p.waiting - load.concurrency).abs() < 1e-6 * load.concurrency);
            }
            Err(refusal) => prop_assert!(!refusal.to_string().contains("NaN")),
        }
    }

    #[test]
    fn a_faster_device_is_never_slower(deployment in deployments(), load in loads(), bandwidth in 1.0..4.0f64, flops in 1.0..4.0f64) {
        let mut faster = deployment.gpu.clone();
        faster.dram_bytes_per_s *= bandwidth;
        faster.bf16_flops = faster.bf16_flops.map(|rate| rate * flops);
        faster.fp8_flops = faster.fp8_flops.map(|rate| rate * flops);
        let new = Deployment { gpu: &faster, ..deployment };
        let calibration = calibration(deployment.model);
        if let (Ok(old), Ok(new)) = (predict(&deployment, &load, calibration), predict(&new, &load, calibration)) {
            prop_assert!(new.tpot_s.mid <= old.tpot_s.mid * (1.0 + 1e-3), "{old:?} {new:?}");
            prop_assert!(new.tokens_per_s.mid >= old.tokens_per_s.mid * (1.0 - 1e-3));
        }
    }

    #[test]
    fn more_ranks_or_memory_are_slower_only_for_a_named_reason(deployment in deployments(), load in loads(), more in 1.0..3.0f64) {
        let calibration = calibration(deployment.model);
        let split = Deployment { tensor: deployment.tensor * 2, ..deployment };
        let mut larger = deployment.gpu.clone();
        larger.memory_bytes = (larger.memory_bytes as f64 * more) as i64;
        let roomy = Deployment { gpu: &larger, ..deployment };
        for new in [split, roomy] {
            let (Ok(before), Ok(after)) = (predict(&deployment, &load, calibration), predict(&new, &load, calibration)) else { continue };
            let change = predict_change((&deployment, &load), (&new, &load), 0.02, calibration).unwrap();
            if change.ratio.mid <= 1.0 {
                continue;
            }
            let why = change.slower_by;
            prop_assert!(why.is_some());
            // Either the ranks talk more, or more requests decode at once, since they wait less for their first token.
            let talks = new.tensor > deployment.tensor && why == Some(Binding::Collectives);
            let more_at_once = after.running > before.running || after.tokens_per_s.mid >= before.tokens_per_s.mid;
            prop_assert!(talks || more_at_once, "{change:?} {before:?} {after:?}");
        }
    }

    #[test]
    fn more_requests_are_never_faster_each_nor_fewer_per_second(deployment in deployments(), load in loads(), grow in 1.0..8.0f64) {
        let calibration = calibration(deployment.model);
        let busier = Load { concurrency: load.concurrency * grow, ..load };
        if let (Ok(old), Ok(new)) = (predict(&deployment, &load, calibration), predict(&deployment, &busier, calibration)) {
            prop_assert!(new.tpot_s.mid >= old.tpot_s.mid * (1.0 - 1e-3), "{old:?} {new:?}");
            prop_assert!(new.tokens_per_s.mid >= old.tokens_per_s.mid * (1.0 - 5e-3), "{old:?} {new:?}");
        }
    }

    #[test]
    fn hostile_numbers_are_refused_or_finite(
        numbers in (any::<f64>(), any::<f64>(), any::<f64>(), any::<f64>(), any::<f64>(), any::<f64>()),
        ranks in (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>()),
    ) {
        let (model, gpu) = (model_at(ranks.0 as usize), gpu_at(ranks.1 as usize));
        let deployment = Deployment {
            tensor: ranks.0 % 64,
            pipeline: ranks.2,
            attention_dp: ranks.3,
            replicas: ranks.1,
            expert_imbalance: numbers.0,
            memory_frac: numbers.1,
            weight_bytes: Some(numbers.2),
            kv_tokens: (ranks.0 % 2 == 0).then_some(numbers.3),
            max_num_seqs: numbers.4,
            max_batched_tokens: numbers.5,
            speculation: Some(Speculation { drafts: ranks.2, acceptance: numbers.0, draft_cost: numbers.1 }),
            ..Deployment::new(model, gpu, Dtype::Bf16)
        };
        let load = Load { concurrency: numbers.2, prompt_tokens: numbers.3, cached_tokens: numbers.4, output_tokens: numbers.5 };
        for (deployment, load) in [(deployment, Load::closed(32.0, 1024.0, 256.0)), (Deployment::new(model, gpu, Dtype::Bf16), load), (deployment, load)] {
            if let Ok(p) = predict(&deployment, &load, calibration(model)) {
                prop_assert!(finite(p.tpot_s) && finite(p.ttft_s) && finite(p.tokens_per_s), "{p:?}");
            }
            if let Ok(Open::Stable { prediction, .. }) = predict_open(&deployment, &load, numbers.0, calibration(model)) {
                prop_assert!(finite(prediction.tpot_s));
            }
            let _ = predict_change((&deployment, &load), (&deployment, &load), numbers.5, calibration(model));
        }
    }
}

#[test]
fn refusals_say_what_and_why() {
    let (model, gpu) = (models::find("Llama-3.1-70B").unwrap(), hardware::find("h100-sxm").unwrap());
    let one = Deployment::new(model, gpu, Dtype::Bf16);
    let load = Load::closed(8.0, 1024.0, 256.0);
    let refused = |deployment: &Deployment, load: &Load| predict(deployment, load, published(Kind::Dense)).unwrap_err().to_string();
    let lines = [
        refused(&one, &load),
        refused(&Deployment { tensor: 6, ..one }, &load),
        refused(&Deployment { tensor: 4, ..one }, &Load { cached_tokens: 2000.0, ..load }),
        refused(&Deployment { tensor: 4, memory_frac: 1.2, ..one }, &load),
        refused(&Deployment { gpu: hardware::find("t4").unwrap(), ..one }, &load),
    ];
    expect![[r#"
        weights, activations and one sequence need 144.4 GB per rank, 77.3 GB are usable
        6 tensor-parallel ranks do not divide the 64 query heads of Llama-3.1-70B
        `cached_tokens` must be from 0 to the prompt's tokens, found 2000
        `memory_frac` must be above 0 and at most 1, found 1.2
        no compute rate of T4 16GB for Bf16 weights in the table
    "#]]
    .assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn the_chain_from_smaller_weights_to_more_throughput() {
    // An RTX 4090 with an 8B model: BF16 weights leave room for 41,408 tokens, half of the load waits. FP8 weights leave more
    // room, more requests run, and that is where the throughput comes from.
    let (model, gpu) = (models::find("Llama-3.1-8B").unwrap(), hardware::find("rtx-4090").unwrap());
    let wide = Deployment { kv: Dtype::Bf16, kv_tokens: Some(41_408.0), ..Deployment::new(model, gpu, Dtype::Bf16) };
    let load = Load::closed(256.0, 300.0, 900.0);
    let narrow = Deployment { weights: Dtype::Fp8, kv_tokens: None, max_batched_tokens: 2048.0, ..wide };
    let calibration = published(Kind::Dense);
    let (before, after) = (predict(&wide, &load, calibration).unwrap(), predict(&narrow, &load, calibration).unwrap());
    assert!((before.running - 41_408.0 / 750.0).abs() < 1e-6 && before.waiting > 190.0, "{before:?}");
    assert!(after.running > 2.0 * before.running, "{after:?}");
    assert!(after.tokens_per_s.mid > 1.5 * before.tokens_per_s.mid, "{before:?} {after:?}");
    let change = predict_change((&wide, &load), (&narrow, &load), 0.020, calibration).unwrap();
    assert!(change.levers.contains(&Lever::Precision) && change.throughput_ratio.mid > 1.5, "{change:?}");
}

#[test]
fn saturation_is_said_instead_of_a_time() {
    let (model, gpu) = (models::find("Llama-3.1-8B").unwrap(), hardware::find("h100-sxm").unwrap());
    let deployment = Deployment::new(model, gpu, Dtype::Bf16);
    let (load, calibration) = (Load::closed(1.0, 1024.0, 256.0), published(Kind::Dense));
    let Open::Stable { prediction, utilization } = predict_open(&deployment, &load, 1.0, calibration).unwrap() else {
        panic!("one request per second is little")
    };
    assert!(utilization.hi < 0.2 && prediction.running < 10.0, "{prediction:?}");
    // Little's law holds at the concurrency where it settles.
    let stay_s = prediction.ttft_s.mid + 255.0 * prediction.tpot_s.mid;
    assert!((prediction.running / stay_s - 1.0).abs() < 0.02, "{prediction:?}");
    let Open::Saturated { capacity_per_s, utilization } = predict_open(&deployment, &load, 500.0, calibration).unwrap() else {
        panic!("five hundred are too many")
    };
    assert!(utilization.hi > SATURATED && capacity_per_s.mid > 1.0 && capacity_per_s.mid < 100.0, "{capacity_per_s:?}");
}

#[test]
fn data_and_pipeline_parallelism_do_what_they_do() {
    let (model, gpu) = (models::find("Llama-3.1-70B").unwrap(), hardware::find("h100-sxm").unwrap());
    let calibration = published(Kind::Dense);
    let load = Load::closed(32.0, 1024.0, 512.0);
    let four = Deployment { tensor: 4, ..Deployment::new(model, gpu, Dtype::Fp8) };
    let tpot = |deployment: &Deployment, load: &Load| predict(deployment, load, calibration).unwrap().tpot_s.mid;
    // Two copies with half of the load each are one copy with its half.
    let two = Deployment { replicas: 2, ..four };
    assert!((tpot(&two, &load) / tpot(&four, &Load { concurrency: 16.0, ..load }) - 1.0).abs() < 1e-9);
    assert_eq!((two.gpu_count(), four.gpu_count()), (8, 4));
    // A pipeline does not make one request faster, it makes room.
    let staged = Deployment { pipeline: 2, ..four };
    let alone = Load { concurrency: 1.0, ..load };
    assert!(tpot(&staged, &alone) >= tpot(&four, &alone));
    assert!(staged.kv_capacity().mid > 2.0 * four.kv_capacity().mid);
}

#[test]
fn the_step_function_by_hand() {
    // Llama-3.1-8B in BF16 on one H100: 32 sequences of 1,000 tokens: 15.01 GB of weights and 4.198 GB of KV at 3.35 TB/s, times
    // 1/0.8, and a millisecond, and 32 layers of 26 us.
    use model::step_time::{Ideal, StepLoad};
    let (model, gpu) = (models::find("Llama-3.1-8B").unwrap(), hardware::find("h100-sxm").unwrap());
    let deployment = Deployment::new(model, gpu, Dtype::Bf16);
    let step = StepLoad { decode_seqs: 32.0, tokens_per_seq: 1.0, context: 1000.0, ..StepLoad::default() };
    let c = Coefficients { memory_eff: 0.8, compute_eff: 0.8, step_s: 1e-3, layer_s: 26e-6, all_reduce_s: 12e-6 };
    let time = Ideal::of(&deployment, &step).step(&c);
    let expected = (15.01e9 + 4.198e9) / 3.35e12 / 0.8 + 1e-3 + 32.0 * 26e-6;
    assert!((time.total_s / expected - 1.0).abs() < 1e-3, "{time:?} {expected}");
    assert_eq!(time.binding(), Binding::Weights);
    // Two ranks: half of the bytes, 64 all-reduces of 32 x 4096 x 2 bytes at 260 GB/s.
    let two = Ideal::of(&Deployment { tensor: 2, ..deployment }, &step).step(&c);
    let expected = (15.01e9 + 4.198e9) / (2.0 * 3.35e12 * 0.8) + 1e-3 + 32.0 * 26e-6 + 64.0 * (12e-6 + 262_144.0 / 260e9);
    assert!((two.total_s / expected - 1.0).abs() < 1e-3, "{two:?} {expected}");
    assert!(matches!(Deployment { tensor: 3, ..deployment }.check(), Err(Unpredictable::Heads { tensor: 3, heads: 32, .. })));
}

#[test]
fn runs_of_ones_own_calibrate() {
    use model::calibration::{Observation, Origin, calibrate, fit};
    let (model, gpu) = (models::find("Llama-3.1-8B").unwrap(), hardware::find("l40s").unwrap());
    let truth = Coefficients { memory_eff: 0.7, compute_eff: 0.9, step_s: 3e-3, layer_s: 40e-6, all_reduce_s: 20e-6 };
    let mut rows = Vec::new();
    for (tensor, concurrency, prompt) in [
        (1, 1.0, 512.0),
        (1, 8.0, 512.0),
        (1, 32.0, 2048.0),
        (2, 1.0, 512.0),
        (2, 16.0, 2048.0),
        (2, 64.0, 512.0),
        (4, 8.0, 512.0),
        (4, 64.0, 1024.0),
    ] {
        let deployment = Deployment { tensor, ..Deployment::new(model, gpu, Dtype::Fp8) };
        for output in [128.0, 512.0] {
            let load = Load::closed(concurrency, prompt, output);
            let tpot_s = model::prediction::Loop::new(&deployment, &load).unwrap().solve(&truth).tpot_s;
            rows.push(Observation::measured(&deployment, &load, "engine 1", tpot_s, None).unwrap());
        }
    }
    let rows: Vec<&Observation> = rows.iter().collect();
    let own = calibrate(&rows, Origin::Own).unwrap();
    // One group counts as three rows beside the prior, so the figures move towards the truth and do not reach it; forecasts do.
    assert!((own.coefficients.step_s - 3e-3).abs() < (1e-3f64 - 3e-3).abs(), "{own:?}");
    for row in &rows {
        let (fitted, shipped) = (row.closed.solve(&own.coefficients).tpot_s, row.closed.solve(&published(Kind::Dense).coefficients).tpot_s);
        assert!((fitted / row.tpot_s).ln().abs() <= (shipped / row.tpot_s).ln().abs() + 0.03, "{row:?} {fitted} {shipped}");
        assert!(own.tpot.around(fitted, 0.0).contains(row.tpot_s));
    }
    assert_eq!(fit(&rows[..4], None).unwrap_err().to_string(), "4 usable rows, 8 needed");
}
