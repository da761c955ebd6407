//! How long the closed forms take: one prediction, one change, the best drafting depth, a verdict on disaggregation, a fit.
//!
//! `cargo run --release -p model --example closed_forms_bench`

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use model::calibration::{Origin, calibrate, published};
use model::deployment::{Deployment, Load};
use model::disaggregation::{Question, answer};
use model::memory::Dtype;
use model::models::Kind;
use model::prediction::{predict, predict_change, predict_open};
use model::speculation::best_depth;
use model::{evaluation, hardware, models};

fn main() -> Result<(), Box<dyn Error>> {
    let model = models::find("Llama-3.1-70B").ok_or("no such model")?;
    let gpu = hardware::find("h100-sxm").ok_or("no such device")?;
    let (old, calibration) = (Deployment { tensor: 4, ..Deployment::new(model, gpu, Dtype::Fp8) }, published(Kind::Dense));
    let new = Deployment { tensor: 8, ..old };
    let load = Load::closed(64.0, 2048.0, 512.0);
    let question = Question { ttft_limit_s: Some(2.0), tpot_limit_s: Some(0.03), link_bytes_per_s: Some(50e9), units: 8 };
    measure("prediction", || predict(black_box(&old), &load, calibration).is_ok());
    measure("change", || predict_change((black_box(&old), &load), (&new, &load), 0.02, calibration).is_ok());
    measure("open load", || predict_open(black_box(&old), &load, 1.0, calibration).is_ok());
    measure("best drafting depth", || best_depth(black_box(&old), &load, 0.7, 0.05, calibration).is_ok());
    measure("disaggregation", || answer(black_box(&old), &load, &question, calibration).is_ok());
    let runs = evaluation::read(include_str!("../tests/data/runs_experts.csv"))?;
    let rows: Vec<_> = runs.observations.iter().collect();
    let start = Instant::now();
    let fitted = calibrate(&rows, Origin::Published)?;
    println!(
        "{:<24} {:>10.1} us  ({} rows, {} groups left out)",
        "calibration",
        start.elapsed().as_secs_f64() * 1e6,
        fitted.rows,
        fitted.groups
    );
    Ok(())
}

/// Prints the mean of a thousand calls.
fn measure(name: &str, call: impl Fn() -> bool) {
    assert!(call(), "{name} answers");
    let start = Instant::now();
    for _ in 0..1000 {
        black_box(call());
    }
    println!("{name:<24} {:>10.1} us", start.elapsed().as_secs_f64() * 1e3);
}
