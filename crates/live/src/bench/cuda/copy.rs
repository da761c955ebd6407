//! Memory bandwidth of the device: copying and reading.

use std::time::Duration;

use cudarc::driver::PushKernelArg;

use super::super::{Measured, Plan};
use super::{Device, told};

/// A copy within the device; bytes read and written count.
pub(super) fn copy(device: &Device, _: &Plan, budget: Duration) -> Result<Vec<Measured>, String> {
    let words = device.budget_bytes()? / 2 / 4;
    let (source, mut target) = (device.filled(words)?, device.filled(words)?);
    let spread = device.timed(budget, |_| device.stream.memcpy_dtod(&source, &mut target).map_err(told))?;
    Ok(vec![Measured {
        operator: "copy",
        title: "memory copy".to_string(),
        signal: "bench.bandwidth",
        labels: vec![("kernel", "copy".to_string())],
        value: spread.rate_of(8.0 * words as f64),
        data_sheet: device.sheet.map(|sheet| sheet.dram_bytes_per_s),
        how: format!("{} MiB within the device, read and written bytes", words >> 18),
    }])
}

/// Reading alone, which is what decoding does to weights and cache.
pub(super) fn read(device: &Device, _: &Plan, budget: Duration) -> Result<Vec<Measured>, String> {
    let words = device.budget_bytes()? / 16 * 4;
    let (memory, mut out) = (device.filled(words)?, device.filled(1)?);
    let (count, kernel) = (words as u64 / 4, device.function("read")?);
    let spread = device.timed(budget, |_| {
        let mut launch = device.stream.launch_builder(&kernel);
        launch.arg(&memory).arg(&count).arg(&mut out);
        // SAFETY: `read` reads `count` times four words of `memory`, which has as many, and at most writes the first of `out`.
        unsafe { launch.launch(device.streaming()) }.map(drop).map_err(told)
    })?;
    Ok(vec![Measured {
        operator: "read",
        title: "memory read".to_string(),
        signal: "gpu.dram_bandwidth_sustained",
        labels: Vec::new(),
        value: spread.rate_of(4.0 * words as f64),
        data_sheet: device.sheet.map(|sheet| sheet.dram_bytes_per_s),
        how: format!("{} MiB, 16 bytes per load", words >> 18),
    }])
}
