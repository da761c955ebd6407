//! What launches and synchronizations cost the host: bare calls of the driver, without a framework's dispatcher.

use std::time::{Duration, Instant};

use cudarc::driver::{CudaFunction, LaunchConfig, sys};

use super::super::measure::{Spread, repeat};
use super::super::{Measured, Plan};
use super::{Device, told};

/// Launches in one repetition: fewer than a stream takes before a launch waits for the device.
const LAUNCHES: u32 = 512;

/// A launch, a node of a graph, a synchronization.
pub(super) fn run(device: &Device, _: &Plan, budget: Duration) -> Result<Vec<Measured>, String> {
    let kernel = device.function("nothing")?;
    let row = |title: &str, signal, mode: Option<&str>, value: Spread, how: String| Measured {
        operator: "launch",
        title: title.to_string(),
        signal,
        labels: mode.map(|mode| ("mode", mode.to_string())).into_iter().collect(),
        value,
        data_sheet: None,
        how,
    };
    let launch = repeat(budget / 3, || {
        let started = Instant::now();
        for _ in 0..LAUNCHES {
            launch_nothing(device, &kernel)?;
        }
        let launching = started.elapsed();
        device.stream.synchronize().map_err(told)?;
        Ok::<f64, String>(launching.as_secs_f64() / f64::from(LAUNCHES))
    })?;
    let node = graph_node(device, &kernel, budget / 3)?;
    let sync = repeat(budget / 3, || {
        let started = Instant::now();
        for _ in 0..LAUNCHES {
            device.stream.synchronize().map_err(told)?;
        }
        Ok::<f64, String>(started.elapsed().as_secs_f64() / f64::from(LAUNCHES))
    })?;
    Ok(vec![
        row("launch", "kernel.launch_cost", None, launch, format!("host time of a call, {LAUNCHES} empty kernels in a row")),
        row(
            "launch within a graph",
            "kernel.launch_cost",
            Some("graph"),
            node,
            format!("a graph of {LAUNCHES} empty kernels from its launch to its end, per kernel"),
        ),
        row("synchronization", "kernel.sync_cost", None, sync, "a stream with nothing to do".to_string()),
    ])
}

fn launch_nothing(device: &Device, kernel: &CudaFunction) -> Result<(), String> {
    let one = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (32, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the kernel takes no argument and touches no memory.
    unsafe { device.stream.launch_builder(kernel).launch(one) }.map(drop).map_err(told)
}

fn graph_node(device: &Device, kernel: &CudaFunction, budget: Duration) -> Result<Spread, String> {
    device.stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).map_err(told)?;
    let launched = (0..LAUNCHES).try_for_each(|_| launch_nothing(device, kernel));
    // The capture ends whether the launches went well or not.
    let graph = device.stream.end_capture(sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    launched?;
    let graph = graph.map_err(told)?.ok_or("the driver captured no graph")?;
    repeat(budget, || {
        let started = Instant::now();
        graph.launch().and_then(|()| device.stream.synchronize()).map_err(told)?;
        Ok::<f64, String>(started.elapsed().as_secs_f64() / f64::from(LAUNCHES))
    })
}
