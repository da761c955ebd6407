//! Peaks of accelerators: memory, bandwidth, dense tensor rates, links.
//!
//! The rows live in `data/gpus.json` with their sources; three widely used tools mix up sparse and dense rates, so only
//! dense ones are kept. [`find`] reads the many spellings of a device name and prefers no answer to a wrong one.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::words::{contains, words};

/// One accelerator. A missing rate means that the device lacks the type or that no source was found.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Row")]
pub struct Gpu {
    /// Stable id, such as `h100-sxm`.
    pub id: String,
    /// Printable name.
    pub name: String,
    /// `nvidia` or `amd`.
    pub vendor: String,
    /// Device memory as the driver reports it where known, else nominal GiB.
    pub memory_bytes: i64,
    /// Peak memory bandwidth.
    pub dram_bytes_per_s: f64,
    /// Dense BF16 FLOP/s with FP32 accumulation.
    pub bf16_flops: Option<f64>,
    /// Dense FP8 FLOP/s.
    pub fp8_flops: Option<f64>,
    /// Dense FP4 FLOP/s.
    pub fp4_flops: Option<f64>,
    /// Dense INT8 operations/s.
    pub int8_flops: Option<f64>,
    /// Streaming multiprocessors or compute units.
    pub sm_count: Option<u32>,
    /// Link between devices, one direction, per device.
    pub link_bytes_per_s: Option<f64>,
    /// PCIe, one direction.
    pub pcie_bytes_per_s: Option<f64>,
    /// Board power limit in watts.
    pub tdp_w: Option<f64>,
    /// `read`, `partly-unverified` or `unverified`.
    pub verification: String,
    /// Where the row was read.
    pub source: String,
    family: Vec<String>,
    form: String,
}

/// All rows, in the file's order.
pub fn all() -> &'static [Gpu] {
    &table().gpus
}

/// The row `name` means, or `None` when the name fits no row or several that differ.
///
/// Reads driver names (`NVIDIA A100-SXM4-80GB`), catalog names (`H100 SXM 80 GB`) and ids. A plain `H100` stays
/// unanswered: its forms differ in bandwidth by two thirds. Slices (MIG, vGPU) and cut-down variants of a listed device
/// are not that device.
pub fn find(name: &str) -> Option<&'static Gpu> {
    let trimmed = name.trim().to_ascii_lowercase();
    if let Some(exact) = all().iter().find(|gpu| gpu.id == trimmed) {
        return Some(exact);
    }
    let words = words(name);
    if is_other_device(&words) {
        return None;
    }
    let memory_gb = stated_memory_gb(&words);
    let form = stated_form(&words);
    let mut candidates = all().iter().filter(|gpu| {
        let form_fits = match form {
            Some(form) => gpu.form.is_empty() || gpu.form == form,
            None => true,
        };
        form_fits && contains(&words, &gpu.family) && memory_gb.is_none_or(|stated_gb| memory_fits(gpu.memory_bytes, stated_gb))
    });
    let first = candidates.next()?;
    let others: Vec<&Gpu> = candidates.collect();
    if others.is_empty() {
        return Some(first);
    }
    // Several forms: the row that states what they share, if there is one for all of them.
    let shared = std::iter::once(first).chain(others.iter().copied()).find(|gpu| gpu.form == "either")?;
    let agree = |gpu: &Gpu| {
        gpu.memory_bytes == shared.memory_bytes && gpu.dram_bytes_per_s == shared.dram_bytes_per_s && gpu.bf16_flops == shared.bf16_flops
    };
    (agree(first) && others.iter().all(|gpu| agree(gpu))).then_some(shared)
}

/// The parsed file, shared with [`crate::collectives`].
pub(crate) fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| serde_json::from_str(include_str!("../data/gpus.json")).expect("data/gpus.json parses, a test reads it"))
}

#[derive(Deserialize)]
pub(crate) struct Table {
    gpus: Vec<Gpu>,
    pub(crate) collectives: Collectives,
}

/// Fitted all-reduce times: device id to rows of ranks, alpha in microseconds, GB/s.
#[derive(Deserialize)]
pub(crate) struct Collectives {
    pub(crate) all_reduce: std::collections::BTreeMap<String, Vec<(u32, f64, f64)>>,
    /// The same for the kernels that engines bring along.
    pub(crate) engine_all_reduce: std::collections::BTreeMap<String, Vec<(u32, f64, f64)>>,
}

#[derive(Deserialize)]
struct Row {
    id: String,
    name: String,
    vendor: String,
    family: String,
    form: String,
    memory_bytes: i64,
    dram_gb_per_s: f64,
    bf16_tflops: Option<f64>,
    fp8_tflops: Option<f64>,
    fp4_tflops: Option<f64>,
    int8_tflops: Option<f64>,
    sm_count: Option<u32>,
    link_gb_per_s: Option<f64>,
    pcie_gb_per_s: Option<f64>,
    tdp_w: Option<f64>,
    verification: String,
    source: String,
}

impl From<Row> for Gpu {
    fn from(row: Row) -> Self {
        let tera = |rate: Option<f64>| rate.map(|rate| rate * 1e12);
        let giga = |rate: Option<f64>| rate.map(|rate| rate * 1e9);
        Self {
            family: words(&row.family),
            id: row.id,
            name: row.name,
            vendor: row.vendor,
            memory_bytes: row.memory_bytes,
            dram_bytes_per_s: row.dram_gb_per_s * 1e9,
            bf16_flops: tera(row.bf16_tflops),
            fp8_flops: tera(row.fp8_tflops),
            fp4_flops: tera(row.fp4_tflops),
            int8_flops: tera(row.int8_tflops),
            sm_count: row.sm_count,
            link_bytes_per_s: giga(row.link_gb_per_s),
            pcie_bytes_per_s: giga(row.pcie_gb_per_s),
            tdp_w: row.tdp_w,
            verification: row.verification,
            source: row.source,
            form: row.form,
        }
    }
}

/// Words that make a name another device than its family: slices, virtual profiles, mobile and cut-down variants.
const OTHER_DEVICE: [&str; 12] = ["mig", "vgpu", "grid", "laptop", "mobile", "max", "maxq", "ti", "super", "d", "ada", "pcie2"];

fn is_other_device(words: &[String]) -> bool {
    let profile = |word: &String| word.len() <= 3 && word.ends_with(['q', 'c']) && word.starts_with(|c: char| c.is_ascii_digit());
    words.iter().any(|word| OTHER_DEVICE.contains(&word.as_str()) || profile(word))
}

/// The form a name states; `HBM3` in an H100 driver name is the SXM board, PCIe boards say `PCIe`.
fn stated_form(words: &[String]) -> Option<&'static str> {
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    if has("nvl") {
        return Some("nvl");
    }
    if has("pcie") || has("pci") {
        return Some("pcie");
    }
    let hopper_driver_name = contains(words, &["h".to_owned(), "100".to_owned()]) && contains(words, &["hbm".to_owned(), "3".to_owned()]);
    (has("sxm") || has("hgx") || has("dgx") || hopper_driver_name).then_some("sxm")
}

/// Memory in GB or GiB when the name states one: `80GB`, `80 GB`, `81559MiB`.
fn stated_memory_gb(words: &[String]) -> Option<f64> {
    words.iter().enumerate().find_map(|(at, word)| {
        let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &word[digits.len()..] {
            "" => words.get(at + 1).map_or("", String::as_str),
            unit => unit,
        };
        let value: f64 = digits.parse().ok()?;
        match unit {
            "gb" | "gib" => Some(value),
            "mb" | "mib" => Some(value / 1024.0),
            _ => None,
        }
    })
}

/// Names round and mix GB with GiB; 8 % keeps 80 from 94 and 24 from 22.5 apart from nothing.
fn memory_fits(memory_bytes: i64, stated_gb: f64) -> bool {
    let near = |unit: f64| (memory_bytes as f64 / unit / stated_gb - 1.0).abs() <= 0.08;
    near(1e9) || near(f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(names: &[&str], expected: &Expect) {
        let lines: Vec<String> = names.iter().map(|name| format!("{name} -> {}\n", find(name).map_or("none", |gpu| &gpu.id))).collect();
        expected.assert_eq(&lines.concat());
    }

    #[test]
    fn driver_names() {
        check(
            &[
                "NVIDIA H100 80GB HBM3",
                "NVIDIA H100 PCIe",
                "NVIDIA H100 NVL",
                "NVIDIA H200",
                "NVIDIA H20",
                "NVIDIA A100-SXM4-80GB",
                "NVIDIA A100-SXM4-40GB",
                "NVIDIA A100 80GB PCIe",
                "NVIDIA A100-PCIE-40GB",
                "NVIDIA L40S",
                "NVIDIA L4",
                "NVIDIA A10",
                "NVIDIA A10G",
                "NVIDIA B200",
                "NVIDIA B300 SXM6 AC",
                "NVIDIA GB200",
                "NVIDIA RTX PRO 6000 Blackwell Server Edition",
                "NVIDIA GeForce RTX 4090",
                "NVIDIA GeForce RTX 5090",
                "NVIDIA RTX A6000",
                "Tesla T4",
                "AMD Instinct MI300X",
            ],
            &expect![[r"
                NVIDIA H100 80GB HBM3 -> h100-sxm
                NVIDIA H100 PCIe -> h100-pcie
                NVIDIA H100 NVL -> h100-nvl
                NVIDIA H200 -> h200-sxm
                NVIDIA H20 -> h20
                NVIDIA A100-SXM4-80GB -> a100-sxm-80
                NVIDIA A100-SXM4-40GB -> a100-sxm-40
                NVIDIA A100 80GB PCIe -> a100-pcie-80
                NVIDIA A100-PCIE-40GB -> a100-pcie-40
                NVIDIA L40S -> l40s
                NVIDIA L4 -> l4
                NVIDIA A10 -> a10
                NVIDIA A10G -> a10g
                NVIDIA B200 -> b200-sxm
                NVIDIA B300 SXM6 AC -> b300-sxm
                NVIDIA GB200 -> gb200
                NVIDIA RTX PRO 6000 Blackwell Server Edition -> rtx-pro-6000-server
                NVIDIA GeForce RTX 4090 -> rtx-4090
                NVIDIA GeForce RTX 5090 -> rtx-5090
                NVIDIA RTX A6000 -> a6000
                Tesla T4 -> t4
                AMD Instinct MI300X -> mi300x
            "]],
        );
    }

    #[test]
    fn catalog_spellings() {
        check(
            &[
                "H100 SXM 80 GB",
                "H100-SXM5-80GB",
                "h100_sxm",
                "HGX H100",
                "8 x NVIDIA H100 SXM5",
                "H100 94GB",
                "L40S 48 GB",
                "L4 24GB",
                "A100 40 GB",
                "A100 SXM 81920MiB",
                "B200 192GB",
                "rtx4090",
                "RTX 4090 24 GB",
                "mi325x",
                "h200-sxm",
            ],
            &expect![[r"
                H100 SXM 80 GB -> h100-sxm
                H100-SXM5-80GB -> h100-sxm
                h100_sxm -> h100-sxm
                HGX H100 -> h100-sxm
                8 x NVIDIA H100 SXM5 -> h100-sxm
                H100 94GB -> h100-nvl
                L40S 48 GB -> l40s
                L4 24GB -> l4
                A100 40 GB -> a100-40
                A100 SXM 81920MiB -> a100-sxm-80
                B200 192GB -> b200-sxm
                rtx4090 -> rtx-4090
                RTX 4090 24 GB -> rtx-4090
                mi325x -> mi325x
                h200-sxm -> h200-sxm
            "]],
        );
    }

    #[test]
    fn ambiguous_and_other_devices_stay_unanswered() {
        check(
            &[
                "H100",
                "H100 80GB",
                "A100",
                "A100 80 GB",
                "H200 NVL",
                "H800",
                "GH200 480GB",
                "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
                "NVIDIA A10-24Q",
                "GRID A100D-8C",
                "NVIDIA GeForce RTX 4090 Laptop GPU",
                "NVIDIA GeForce RTX 4090 D",
                "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
                "L40S 96GB",
                "cpu",
                "",
            ],
            &expect![[r"
                H100 -> none
                H100 80GB -> none
                A100 -> none
                A100 80 GB -> none
                H200 NVL -> none
                H800 -> none
                GH200 480GB -> none
                NVIDIA H100 80GB HBM3 MIG 1g.10gb -> none
                NVIDIA A10-24Q -> none
                GRID A100D-8C -> none
                NVIDIA GeForce RTX 4090 Laptop GPU -> none
                NVIDIA GeForce RTX 4090 D -> none
                NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition -> none
                L40S 96GB -> none
                cpu -> none
                 -> none
            "]],
        );
    }

    #[test]
    fn every_row_finds_itself_by_its_printed_name() {
        for gpu in all() {
            assert_eq!(find(&gpu.id).map(|found| &found.id), Some(&gpu.id));
            assert_eq!(find(&gpu.name).map(|found| &found.id), Some(&gpu.id), "{}", gpu.name);
        }
    }

    #[test]
    fn rates_are_dense() {
        // Halving the type at most quadruples the rate (FP4 of a consumer card); a sparse figure would stand out.
        for gpu in all() {
            if let (Some(bf16), Some(fp8)) = (gpu.bf16_flops, gpu.fp8_flops) {
                assert!((1.9..=2.1).contains(&(fp8 / bf16)), "{}: FP8 {fp8} BF16 {bf16}", gpu.id);
            }
            assert!(gpu.dram_bytes_per_s > 1e11 && gpu.memory_bytes > 8 << 30, "{}", gpu.id);
        }
    }
}
