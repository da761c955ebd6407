//! The predictions against measured runs, on models the fit did not see. What ships with the tests is a sample; the whole
//! published table is scored when it lies beside the checkout.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use expect_test::{expect, expect_file};
use model::calibration::{Lever, Observation, Origin, Stored, StoredKind, calibrate};
use model::concurrency::{LinearLatency, Point};
use model::evaluation::{Errors, KindScore, LeverScore, Scores, evaluate, markdown, read, text};
use model::models::Kind;

/// The dense rows that ship with the tests, in the columns of the published table.
fn dense_rows() -> String {
    let mut out = "model_path,system,backend,precision,mode,isl,osl,silicon_concurrency,tp_size,silicon_tpot_ms\n".to_owned();
    for line in include_str!("data/silicon_tpot.csv").lines().skip(2) {
        let [model, gpu, engine, precision, isl, osl, concurrency, tensor, tpot] = line.split(',').collect::<Vec<_>>().try_into().unwrap();
        out.push_str(&format!("{model},{gpu},{engine},{precision},agg,{isl},{osl},{concurrency},{tensor},{tpot}\n"));
    }
    out
}

fn of(scores: &Scores, kind: Kind) -> &KindScore {
    scores.kinds.iter().find(|score| score.kind == kind && !score.disaggregated).unwrap()
}

fn lever(score: &KindScore, lever: Lever) -> &LeverScore {
    score.levers.iter().find(|score| score.lever == lever).unwrap()
}

fn at_most(errors: &Errors, median_frac: f64, p90_frac: f64, what: &str) {
    assert!(errors.median_frac <= median_frac && errors.p90_frac <= p90_frac, "{what}: {errors:?}");
}

/// What dense models must keep, whatever rows there are.
fn dense_keeps(score: &KindScore) {
    let rows = score.tpot.rows;
    assert!(score.below_bound as f64 <= 0.002 * rows as f64, "{} of {rows} rows beat the bound", score.below_bound);
    at_most(&score.tpot, 0.15, 0.30, "TPOT of dense models left out");
    assert!((0.85..=0.95).contains(&score.tpot.covered_frac), "nine in ten outcomes lie in the stated range: {:?}", score.tpot);
    for (which, median, p90) in
        [(Lever::Concurrency, 0.05, 0.20), (Lever::Tensor, 0.06, 0.20), (Lever::Precision, 0.13, 0.20), (Lever::Prompt, 0.08, 0.20)]
    {
        let score = lever(score, which);
        at_most(&score.errors, median, p90, which.words());
        assert!(score.errors.covered_frac >= 0.85, "{score:?}");
        assert!(score.stated_right_frac >= 0.95, "a stated direction is right: {score:?}");
        if which != Lever::Precision {
            assert!(score.sign_right_frac >= 0.95, "{score:?}");
        }
    }
}

#[test]
fn dense_models_left_out_are_predicted() {
    let scores = evaluate(&read(&dense_rows()).unwrap());
    assert_eq!(scores.row_count, 685);
    dense_keeps(of(&scores, Kind::Dense));
    let table = text(&scores);
    let printed = table.lines().take(6).collect::<Vec<_>>().join("\n") + "\n";
    expect![[r#"
        685 rows, 685 scored. Each model is predicted by coefficients fitted on the other models of its kind.

        Time per output token            rows  below bound  median    p90  predicted/measured  in stated range
        dense                             685    0 (0.0 %)   9.2 % 27.4 %                1.03           92.0 %
          Llama-3.1-70B                   441                9.2 % 22.9 %                1.04          100.0 %
          Llama-3.1-8B                    244                9.0 % 47.2 %                1.01           77.5 %
    "#]]
    .assert_eq(&printed);
}

#[test]
fn mixtures_left_out_are_predicted_less_well() {
    let scores = evaluate(&read(include_str!("data/runs_experts.csv")).unwrap());
    let experts = of(&scores, Kind::Experts);
    at_most(&experts.tpot, 0.22, 0.45, "TPOT of mixtures left out");
    assert!(experts.below_bound as f64 <= 0.005 * experts.tpot.rows as f64, "{}", experts.below_bound);
    assert!(experts.tpot.covered_frac >= 0.85, "{:?}", experts.tpot);
}

#[test]
fn rows_that_cannot_be_told_are_listed_and_not_guessed() {
    let header = "model_path,system,backend,precision,mode,isl,osl,batch_size,tp_size,silicon_tpot_ms\n";
    let rows = "acme/Secret-9B,h100_sxm,vllm,fp8,agg,1024,128,8,1,7.9\n\
                meta-llama/Llama-3.1-8B,quantum_9000,vllm,fp8,agg,1024,128,8,1,7.9\n\
                meta-llama/Llama-3.1-8B,h100_sxm,vllm,int3,agg,1024,128,8,1,7.9\n\
                meta-llama/Llama-3.1-8B,h100_sxm,vllm,fp8,agg,1024,128,8,3,7.9\n\
                meta-llama/Llama-3.1-405B,h100_sxm,vllm,bf16,agg,1024,128,8,1,7.9\n\
                meta-llama/Llama-3.1-8B,h100_sxm,vllm,fp8,agg,-5,128,8,1,7.9\n\
                meta-llama/Llama-3.1-8B,h100_sxm,vllm,fp8,half,1024,128,8,1,7.9\n\
                meta-llama/Llama-3.1-8B,h100_sxm,vllm,,agg,1024,128,8,1,7.9\n";
    let runs = read(&format!("{header}{rows}")).unwrap();
    let mut lines = String::new();
    for row in &runs.skipped {
        lines.push_str(&format!("{}: {}\n", row.line, row.reason));
    }
    expect![[r#"
        2: model `acme/Secret-9B` is not in the table
        3: device `quantum_9000` is not in the table or not told apart
        4: precision `int3` is not known
        5: 3 tensor-parallel ranks do not divide the 32 query heads of Llama-3.1-8B
        6: weights, activations and one sequence need 816.4 GB per rank, 77.3 GB are usable
        7: `isl`: expected a positive number, found `-5`
        8: `mode`: expected `agg` or `disagg`, found `half`
    "#]]
    .assert_eq(&lines);
    assert_eq!(runs.observations.len(), 1);
    assert_eq!(runs.assumed.keys().collect::<Vec<_>>(), ["empty precision read as BF16"]);
    let mut systems = String::new();
    for system in ["a100_sxm", "h100_pcie", "l40s", "h20_sxm", "gb200", "b300_sxm", "rtx_pro_6000_server", "mi355x", "h100"] {
        let row = format!("{header}Qwen/Qwen3-0.6B-FP8,{system},vllm,,agg,1024,128,8,1,7.9\n");
        let runs = read(&row).unwrap();
        let read = runs.observations.first().map_or("-".to_owned(), |run| format!("{} {:?}", run.gpu, run.weights));
        systems.push_str(&format!("{system}: {read}\n"));
    }
    expect![[r#"
        a100_sxm: a100-sxm-80 Fp8
        h100_pcie: h100-pcie Fp8
        l40s: l40s Fp8
        h20_sxm: h20 Fp8
        gb200: gb200 Fp8
        b300_sxm: b300-sxm Fp8
        rtx_pro_6000_server: rtx-pro-6000-server Fp8
        mi355x: mi355x Fp8
        h100: -
    "#]]
    .assert_eq(&systems);
    expect!["line 1: expected a column `system`, found model_path,mode"].assert_eq(&read("model_path,mode\n").unwrap_err().to_string());
}

/// The whole published table, when it lies beside the checkout; without it the test says so, and fails where nothing may
/// be skipped.
fn whole_table() -> Option<String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = std::env::var_os("INFEROSCOPE_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let path = shared.join("corpus/workloads/aic-silicon/silicon_sample.csv");
    if let Ok(text) = std::fs::read_to_string(&path) {
        return Some(text);
    }
    assert!(std::env::var("INFEROSCOPE_REQUIRE").is_ok_and(|value| value == "all").eq(&false), "no published runs at {}", path.display());
    eprintln!("skipped: no published runs at {}", path.display());
    None
}

#[test]
fn the_whole_published_table() {
    let Some(table) = whole_table() else { return };
    let runs = read(&table).unwrap();
    let scores = evaluate(&runs);
    // `docs/validation.md` shows these figures.
    expect_file!["data/scores.md"].assert_eq(&markdown(&scores));
    dense_keeps(of(&scores, Kind::Dense));
    at_most(&of(&scores, Kind::Dense).tpot, 0.095, 0.30, "TPOT of dense models left out");
    let beyond = |which| lever(of(&scores, Kind::Dense), which).beyond_right_frac;
    for which in [Lever::Concurrency, Lever::Tensor, Lever::Precision, Lever::Prompt] {
        assert!(beyond(which) >= 0.95, "{which:?}: directions beyond noise {}", beyond(which));
    }
    // What a decoding replica gains when prompts are computed elsewhere.
    let apart = scores.kinds.iter().find(|score| score.kind == Kind::Latent && score.disaggregated).unwrap();
    let split = lever(apart, Lever::Split);
    assert!(split.pairs >= 20 && split.sign_right_frac >= 0.95 && split.errors.median_frac <= 0.15, "{split:?}");
    // Missed: fewer prompts per token and longer contexts nearly cancel, and measured moves follow neither.
    assert!((0.90..0.95).contains(&beyond(Lever::Output)), "{}", beyond(Lever::Output));
    at_most(&of(&scores, Kind::Experts).tpot, 0.18, 0.38, "TPOT of mixtures left out");
    at_most(&of(&scores, Kind::Latent).tpot, 0.28, 0.70, "TPOT of latent attention left out");
    for score in &scores.kinds {
        assert!(score.below_bound as f64 <= 0.002 * score.tpot.rows as f64, "{score:?}");
        assert!(score.tpot.covered_frac >= 0.85, "{score:?}");
    }
    // What ships is what these rows give.
    let stored: Stored = serde_json::from_str(include_str!("../data/calibration.json")).unwrap();
    for (kind, stored) in [(Kind::Dense, stored.dense), (Kind::Experts, stored.experts), (Kind::Latent, stored.latent)] {
        let rows: Vec<&Observation> = runs.observations.iter().filter(|row| row.kind == kind && !row.disaggregated).collect();
        let again = StoredKind::from(&calibrate(&rows, Origin::Published).unwrap());
        assert_eq!((again.rows, again.groups), (stored.rows, stored.groups));
        for (new, old) in again.coefficients.iter().zip(stored.coefficients) {
            assert!((new / old - 1.0).abs() < 0.01, "{kind:?}: {again:?} {old}");
        }
        assert!((again.tpot.hi / stored.tpot.hi - 1.0).abs() < 0.01, "{kind:?}");
    }
}

#[test]
fn three_low_points_say_how_throughput_grows() {
    let Some(table) = whole_table() else { return };
    let runs = read(&table).unwrap();
    let mut curves: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for row in runs.observations.iter().filter(|row| !row.disaggregated && row.kind == Kind::Dense) {
        let Some(ttft_s) = row.ttft_s else { continue };
        let e2e_s = ttft_s + (row.output_tokens - 1.0) * row.tpot_s;
        let key = format!(
            "{} {} {} {} {:?} {} {} {} {}",
            row.published_as,
            row.gpu,
            row.engine,
            row.version,
            row.weights,
            row.tensor,
            row.attention_dp,
            row.prompt_tokens,
            row.output_tokens
        );
        curves.entry(key).or_default().push(Point { concurrency: row.concurrency, rate_per_s: row.concurrency / e2e_s });
    }
    let mut errors = Vec::new();
    for points in curves.values_mut() {
        points.sort_by(|a, b| a.concurrency.total_cmp(&b.concurrency));
        let Some(largest) = points.last().copied().filter(|_| points.len() >= 4) else { continue };
        if let Ok(law) = LinearLatency::fit(points) {
            errors.push((law.rate_per_s(largest.concurrency, f64::MAX) / largest.rate_per_s - 1.0).abs());
        }
    }
    errors.sort_by(f64::total_cmp);
    let (median, p90) = (errors[errors.len() / 2], errors[errors.len() * 9 / 10]);
    assert!(errors.len() >= 80, "{}", errors.len());
    assert!(median <= 0.10 && p90 <= 0.25, "{} curves: median {median:.3}, p90 {p90:.3}", errors.len());
}
