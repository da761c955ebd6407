//! Attention of a decode step: every sequence reads its whole cache of one layer once, for all query heads of a group. The
//! kernel is ours; an engine's may be better or worse.

use std::time::Duration;

use cudarc::driver::{LaunchConfig, PushKernelArg};

use super::super::{Measured, Plan};
use super::{Device, told};

/// A kernel for a width of head and a number of query heads to a cache head.
pub(super) struct Kernel {
    /// Its name in the assembly.
    pub(super) name: &'static str,
    width: usize,
    group: usize,
}

/// All of them, for each width the smallest group first.
pub(super) const KERNELS: [Kernel; 4] = [
    Kernel { name: "attention_64_8", width: 64, group: 8 },
    Kernel { name: "attention_128_1", width: 128, group: 1 },
    Kernel { name: "attention_128_4", width: 128, group: 4 },
    Kernel { name: "attention_128_8", width: 128, group: 8 },
];

/// Threads of a block: eight warps, a token each.
const THREADS: usize = 256;

/// Bytes of the cache per second.
pub(super) fn run(device: &Device, plan: &Plan, budget: Duration) -> Result<Vec<Measured>, String> {
    let shapes = &plan.shapes;
    let (width, kv_heads) = (shapes.head_dim.max(1) as usize, shapes.kv_heads.max(1) as usize);
    let group = (shapes.heads.max(1) as usize).div_ceil(kv_heads);
    let fits = |kernel: &&Kernel| kernel.width == width;
    let kernel = KERNELS.iter().filter(fits).find(|kernel| kernel.group >= group).or_else(|| KERNELS.iter().rfind(fits));
    let kernel = kernel.ok_or_else(|| format!("the kernel here is for heads of 64 or 128, found {width}"))?;
    let token_bytes = 2 * 2 * width;
    let context = (plan.context.max(1) as usize).min(device.budget_bytes()? / token_bytes);
    let caches = (plan.batch.max(1) as usize * kv_heads).min(device.budget_bytes()? / (token_bytes * context)).max(1);
    // Enough blocks for the device, each with some tokens for every warp.
    let parts = (4 * device.multiprocessors as usize).div_ceil(caches).min(context.div_ceil(64)).max(1);
    let words = caches * context * width / 2;
    let (keys, values) = (device.filled(words)?, device.filled(words)?);
    let queries = device.stream.clone_htod(&vec![0.01f32; kernel.group * width]).map_err(told)?;
    let out_values = caches * parts * (THREADS / 32) * kernel.group * width;
    let mut out = device.stream.alloc_zeros::<f32>(out_values).map_err(told)?;
    let size = |count: usize| u32::try_from(count).map_err(|_| format!("{count} blocks are too many"));
    let grid = LaunchConfig { grid_dim: (size(caches)?, size(parts)?, 1), block_dim: (THREADS as u32, 1, 1), shared_mem_bytes: 0 };
    let tokens = i32::try_from(context).map_err(|_| format!("a context of {context} tokens is too long"))?;
    let function = device.function(kernel.name)?;
    let spread = device.timed(budget, |_| {
        let mut launch = device.stream.launch_builder(&function);
        launch.arg(&keys).arg(&values).arg(&queries).arg(&mut out).arg(&tokens);
        // SAFETY: the memories have the sizes that the kernel derives from the grid, the width and the context.
        unsafe { launch.launch(grid) }.map(drop).map_err(told)
    })?;
    let bytes = (caches * context * token_bytes) as f64;
    Ok(vec![Measured {
        operator: "attention",
        title: format!("attention of {} sequences x {context} tokens", plan.batch),
        signal: "bench.bandwidth",
        labels: vec![("kernel", "attention".to_string())],
        value: spread.rate_of(bytes),
        data_sheet: device.sheet.map(|sheet| sheet.dram_bytes_per_s),
        how: format!(
            "BF16 cache of one layer, {} MiB, {kv_heads} heads of {width}, {} queries each, our kernel",
            (caches * context * token_bytes) >> 20,
            kernel.group
        ),
    }])
}
