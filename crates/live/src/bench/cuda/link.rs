//! The link between host and device, both ways, from pinned and from pageable memory.

use std::time::Duration;

use cudarc::driver::{CudaSlice, HostSlice};

use super::super::measure::Spread;
use super::super::{Measured, Plan};
use super::{Device, told};

/// Bytes of a copy: beyond the size from which rates no longer rise.
const BYTES: usize = 128 << 20;

/// Four copies.
pub(super) fn run(device: &Device, _: &Plan, budget: Duration) -> Result<Vec<Measured>, String> {
    let mut on_device = device.filled(BYTES / 4)?;
    // SAFETY: the memory is written below before it is read.
    let mut pinned = unsafe { device.context.alloc_pinned_with_flags::<u32>(BYTES / 4, 0) }.map_err(told)?;
    pinned.as_mut_slice().map_err(told)?.fill(1);
    let mut pageable = vec![1u32; BYTES / 4];
    let part = budget / 4;
    let pinned_up = up(device, part, &pinned, &mut on_device)?;
    let pinned_down = down(device, part, &on_device, &mut pinned)?;
    let pageable_up = up(device, part, &pageable, &mut on_device)?;
    let pageable_down = down(device, part, &on_device, &mut pageable)?;
    let row = |title: &str, signal, kernel: Option<&str>, value: Spread| Measured {
        operator: "link",
        title: title.to_string(),
        signal,
        labels: kernel.map(|kernel| ("kernel", kernel.to_string())).into_iter().collect(),
        value: value.rate_of(BYTES as f64),
        data_sheet: device.sheet.and_then(|sheet| sheet.pcie_bytes_per_s),
        how: format!("{} MiB", BYTES >> 20),
    };
    Ok(vec![
        row("host to device, pinned", "gpu.link_bandwidth", None, pinned_up),
        row("device to host, pinned", "bench.bandwidth", Some("dtoh_pinned"), pinned_down),
        row("host to device, pageable", "bench.bandwidth", Some("htod_pageable"), pageable_up),
        row("device to host, pageable", "bench.bandwidth", Some("dtoh_pageable"), pageable_down),
    ])
}

fn up<H: HostSlice<u32> + ?Sized>(device: &Device, budget: Duration, host: &H, on_device: &mut CudaSlice<u32>) -> Result<Spread, String> {
    device.timed(budget, |_| device.stream.memcpy_htod(host, on_device).map_err(told))
}

fn down<H: HostSlice<u32> + ?Sized>(device: &Device, budget: Duration, on_device: &CudaSlice<u32>, host: &mut H) -> Result<Spread, String> {
    device.timed(budget, |_| device.stream.memcpy_dtoh(on_device, host).map_err(told))
}
