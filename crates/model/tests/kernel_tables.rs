//! Constants that were fitted on published kernel tables, fitted again when the tables lie beside the checkout.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use model::collectives::{Cost, all_reduce, engine_all_reduce};
use model::hardware;
use model::memory::Dtype;
use model::step_time::{compute_factor, layer_factor};

/// One table as rows by column name; without it the test says so, and fails where nothing may be skipped.
fn table(name: &str) -> Option<Vec<BTreeMap<String, String>>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = std::env::var_os("INFEROSCOPE_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let path = shared.join("corpus/workloads/aic-micro").join(name);
    let Ok(text) = std::fs::read_to_string(&path) else {
        assert!(std::env::var("INFEROSCOPE_REQUIRE").is_ok_and(|value| value == "all").eq(&false), "no kernel table at {}", path.display());
        eprintln!("skipped: no kernel table at {}", path.display());
        return None;
    };
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let header = lines.next().unwrap();
    Some(lines.map(|fields| header.iter().cloned().zip(fields).collect()).collect())
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Median relative error of a cost on the 16-bit all-reduces of a table.
fn error_of(rows: &[BTreeMap<String, String>], ranks: u32, cost: Cost) -> f64 {
    let half = |row: &&BTreeMap<String, String>| {
        let dtype = row.get("nccl_dtype").or(row.get("allreduce_dtype")).unwrap();
        row["op_name"] == "all_reduce" && ["half", "bfloat16"].contains(&dtype.as_str()) && number(row, "num_gpus") as u32 == ranks
    };
    // Sizes are in elements, times in milliseconds.
    let error =
        |row: &BTreeMap<String, String>| (cost.time_s(number(row, "message_size") * 2.0) / (number(row, "latency") * 1e-3) - 1.0).abs();
    median(&mut rows.iter().filter(half).map(error).collect::<Vec<_>>())
}

#[test]
fn collectives_follow_the_tables() {
    for (id, file) in
        [("h100-sxm", "h100_sxm"), ("h200-sxm", "h200_sxm"), ("b200-sxm", "b200_sxm"), ("a100-sxm-80", "a100_sxm"), ("l40s", "l40s")]
    {
        let Some(nccl) = table(&format!("nccl_{file}.csv")) else { return };
        let engine = table(&format!("custom_allreduce_{file}.csv")).unwrap();
        for ranks in [2, 4, 8] {
            let error = error_of(&nccl, ranks, all_reduce(id, ranks).unwrap());
            assert!(error < 0.20, "NCCL on {ranks} {id}: {error:.3}");
            let error = error_of(&engine, ranks, engine_all_reduce(id, ranks).unwrap());
            assert!(error < 0.30, "engine's all-reduce on {ranks} {id}: {error:.3}");
        }
    }
}

/// Start-up time of small products (up to 16 rows), seconds, and share of the peak of large ones (2,048 rows and more).
fn products(dtype: &str, weights: Dtype) -> Option<(f64, f64)> {
    let (mut start_up, mut share) = (Vec::new(), Vec::new());
    for (id, file) in [("h100-sxm", "h100_sxm"), ("h200-sxm", "h200_sxm"), ("b200-sxm", "b200_sxm"), ("gb200", "gb200")] {
        let gpu = hardware::find(id).unwrap();
        let peak = match weights {
            Dtype::Bf16 => gpu.bf16_flops,
            Dtype::Fp8 => gpu.fp8_flops,
            _ => gpu.fp4_flops,
        };
        let Some(peak) = peak else { continue };
        let rows = table(&format!("gemm_{file}.csv"))?;
        let rows: Vec<_> = rows.iter().filter(|row| row["gemm_dtype"] == dtype).collect();
        let size = |row: &BTreeMap<String, String>| number(row, "n") * number(row, "k");
        // Time = start-up + bytes / (e W): relative least squares on two unknowns.
        let (mut s, mut sx, mut sxx, mut sy, mut sxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for row in rows.iter().filter(|row| number(row, "m") <= 16.0) {
            let (x, y) = (size(row) * weights.bytes_per_param(), number(row, "latency") * 1e-3);
            let weight = 1.0 / (y * y);
            s += weight;
            sx += weight * x;
            sxx += weight * x * x;
            sy += weight * y;
            sxy += weight * x * y;
        }
        start_up.push((sy * sxx - sx * sxy) / (s * sxx - sx * sx));
        let mut shares: Vec<f64> = rows
            .iter()
            .filter(|row| number(row, "m") >= 2048.0)
            .map(|row| 2.0 * number(row, "m") * size(row) / (number(row, "latency") * 1e-3) / peak)
            .collect();
        share.push(median(&mut shares));
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    Some((mean(&start_up), mean(&share)))
}

#[test]
fn format_factors_follow_the_tables() {
    let Some((wide_start, wide_share)) = products("bfloat16", Dtype::Bf16) else { return };
    let layer = |start_up: f64| 4.0 * start_up + 10e-6;
    for (dtype, weights) in [("fp8", Dtype::Fp8), ("nvfp4", Dtype::Nvfp4)] {
        let (start_up, share) = products(dtype, weights).unwrap();
        let (layers, compute) = (layer(start_up) / layer(wide_start), share / wide_share);
        assert!((layers / layer_factor(weights) - 1.0).abs() < 0.05, "{dtype}: a layer takes {layers:.2} of BF16");
        assert!((compute / compute_factor(weights) - 1.0).abs() < 0.06, "{dtype}: products reach {compute:.2} of BF16");
    }
}
