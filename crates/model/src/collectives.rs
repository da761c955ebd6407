//! Time of collectives between devices: `alpha + bytes / bandwidth`.
//!
//! The constants are fitted on published NCCL tables (`data/gpus.json`), median error 6 to 15 %. Engines' own all-reduce
//! kernels have a lower alpha, so for decode these times are an upper estimate. Overlap with compute is left out.

use crate::hardware::{Gpu, table};
use crate::memory::plausible;
use crate::models::ModelShape;

/// Kind of collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Every rank gets the sum.
    AllReduce,
    /// Every rank gets all parts.
    AllGather,
    /// Every rank gets its part of the sum.
    ReduceScatter,
    /// Every rank sends a part to every other.
    AllToAll,
}

/// Bytes that a ring moves through each link per byte of buffer: `2 (n - 1) / n` for all-reduce, `(n - 1) / n` else.
pub fn ring_volume(kind: Collective, ranks: u32) -> f64 {
    let n = f64::from(ranks.max(1));
    let once = (n - 1.0) / n;
    if kind == Collective::AllReduce { 2.0 * once } else { once }
}

/// Start-up cost and bandwidth of one collective on one system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Seconds of an empty call.
    pub alpha_s: f64,
    /// Buffer bytes per second (algorithm bandwidth).
    pub bytes_per_s: f64,
}

impl Cost {
    /// Seconds for a buffer of `bytes`.
    pub fn time_s(&self, bytes: f64) -> f64 {
        plausible(self.alpha_s) + plausible(bytes) / plausible(self.bytes_per_s).max(1.0)
    }
}

/// The fitted all-reduce of a device at 2, 4 or 8 ranks within one node; `None` where no table was found.
pub fn all_reduce(gpu_id: &str, ranks: u32) -> Option<Cost> {
    cost(table().collectives.all_reduce.get(gpu_id)?, ranks)
}

/// The same for the kernels that engines bring along: a third of NCCL's start-up cost, the same bandwidth.
pub fn engine_all_reduce(gpu_id: &str, ranks: u32) -> Option<Cost> {
    cost(table().collectives.engine_all_reduce.get(gpu_id)?, ranks)
}

fn cost(rows: &[(u32, f64, f64)], ranks: u32) -> Option<Cost> {
    let (_, alpha_us, gb_per_s) = rows.iter().find(|(n, _, _)| *n == ranks)?;
    Some(Cost { alpha_s: alpha_us * 1e-6, bytes_per_s: gb_per_s * 1e9 })
}

/// The all-reduce of any device at any number of ranks: the fitted row with as many ranks or the next larger, the
/// largest beyond. Devices without a table get the share of their link that measured ones reach (NVLink: 0.55, 0.44 and
/// 0.40 of it at 2, 4 and 8 ranks; PCIe: 0.55, 0.12 and 0.03), which is assumed, not measured.
pub fn link(gpu: &Gpu, ranks: u32) -> Cost {
    if let Some(rows) = table().collectives.all_reduce.get(&gpu.id)
        && let Some((_, alpha_us, gb_per_s)) = rows.iter().find(|(n, _, _)| *n >= ranks).or(rows.last())
    {
        return Cost { alpha_s: alpha_us * 1e-6, bytes_per_s: gb_per_s * 1e9 };
    }
    let rate = gpu.link_bytes_per_s.or(gpu.pcie_bytes_per_s).unwrap_or(16e9);
    let switched = rate >= 150e9;
    let (alpha_us, share) = match (ranks, switched) {
        (..=2, true) => (9.0, 0.55),
        (3..=4, true) => (14.0, 0.44),
        (_, true) => (23.0, 0.40),
        (..=2, false) => (7.0, 0.55),
        (3..=4, false) => (12.0, 0.12),
        (_, false) => (23.0, 0.03),
    };
    Cost { alpha_s: alpha_us * 1e-6, bytes_per_s: rate * share }
}

/// Collective time of one tensor-parallel step: two all-reduces per layer of `tokens x hidden` 16-bit values.
pub fn tensor_parallel_step_s(model: &ModelShape, tokens: f64, all_reduce: Cost) -> f64 {
    let bytes = plausible(tokens) * f64::from(model.hidden) * 2.0;
    2.0 * f64::from(model.layers) * all_reduce.time_s(bytes)
}

/// Idle share of a pipeline of `stages` with `microbatches` in flight: `(p - 1) / (m + p - 1)`.
pub fn pipeline_bubble_frac(stages: u32, microbatches: u32) -> f64 {
    let (p, m) = (f64::from(stages.max(1)), f64::from(microbatches.max(1)));
    (p - 1.0) / (m + p - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::find;

    #[test]
    fn a_70b_step_on_eight_h100_is_latency_bound() {
        // 160 all-reduces of about 20 us: 3.2 ms beside 6.5 ms of weight reads.
        let step_s = tensor_parallel_step_s(find("Llama-3-70B").unwrap(), 32.0, all_reduce("h100-sxm", 8).unwrap());
        assert!((step_s / 3.2e-3 - 1.0).abs() < 0.01, "{step_s}");
    }

    #[test]
    fn pcie_cards_pay_for_size() {
        // Measured 649 ms for 512 MiB between eight L40S.
        let time_s = all_reduce("l40s", 8).unwrap().time_s(512.0 * 1_048_576.0);
        assert!((0.45..0.75).contains(&time_s), "{time_s}");
        assert_eq!(all_reduce("h100-sxm", 3), None);
        assert_eq!(all_reduce("abacus", 2), None);
    }

    #[test]
    fn volumes_and_bubbles() {
        assert_eq!(ring_volume(Collective::AllReduce, 8), 1.75);
        assert_eq!(ring_volume(Collective::AllToAll, 8), 0.875);
        assert_eq!(ring_volume(Collective::AllGather, 0), 0.0);
        assert_eq!(pipeline_bubble_frac(4, 1), 0.75);
        assert_eq!(pipeline_bubble_frac(1, 9), 0.0);
    }
}
