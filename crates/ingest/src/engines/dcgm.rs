//! GPU exporters: DCGM's (NVIDIA) and the device metrics exporter's (AMD) families.
//!
//! DCGM 4 renamed many fields (`GPU_UTIL` -> `GPU_UTIL_RATIO`, `POWER_USAGE` -> `BOARD_POWER_WATTS`,
//! `SM_ACTIVE` -> `SM_UTIL_RATIO`); old and new names stand side by side, ids and values stayed. `GPU_UTIL` and `MEM_COPY_UTIL`
//! are percent, `PROF_*` ratios, clocks MHz, memory MiB, `PROF_*_BYTES` bytes per second in one direction, which are added.
//! The shipped configuration of dcgm-exporter has no `SM_ACTIVE`, no `SM_OCCUPANCY` and no clock event reasons: absence says
//! nothing. AMD's names come in upper or lower case; `GPU_UMC_ACTIVITY` is the memory controller's share of time, as near to
//! `dram_active` as that exporter comes, `GPU_PROF_SM_ACTIVE` is percent of time in which the vector units worked. Left out:
//! energy and `NVLINK_BANDWIDTH_TOTAL` (its unit depends on the version), residencies of violations.

use std::borrow::Cow;

use crate::builder::Builder;
use crate::engines::metric::{Metric, SeriesLabels, label};

const MHZ: f64 = 1e6;
const MIB: f64 = 1_048_576.0;

/// A level of one device; containers that share it repeat it, so the largest counts.
const fn level(name: &'static str, signal: &'static str) -> Metric {
    Metric::gauge(name, signal).device().max()
}

/// One direction of a link; both are added.
const fn direction(name: &'static str, signal: &'static str) -> Metric {
    Metric::gauge(name, signal).device()
}

/// All families.
pub(crate) const METRICS: &[Metric] = &[
    level("DCGM_FI_DEV_GPU_UTIL", "gpu.busy").percent(),
    level("DCGM_FI_DEV_GPU_UTIL_RATIO", "gpu.busy").percent(),
    level("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gpu.busy").fallback(),
    level("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", "gpu.busy").fallback(),
    level("DCGM_FI_DEV_MEM_COPY_UTIL", "gpu.memory_busy").percent(),
    level("DCGM_FI_PROF_SM_ACTIVE", "gpu.sm_active"),
    level("DCGM_FI_PROF_SM_UTIL_RATIO", "gpu.sm_active"),
    level("DCGM_FI_PROF_SM_OCCUPANCY", "gpu.sm_occupancy"),
    level("DCGM_FI_PROF_SM_OCCUPANCY_RATIO", "gpu.sm_occupancy"),
    level("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gpu.tensor_active"),
    level("DCGM_FI_PROF_TENSOR_UTIL_RATIO", "gpu.tensor_active"),
    level("DCGM_FI_PROF_DRAM_ACTIVE", "gpu.dram_active"),
    level("DCGM_FI_PROF_DRAM_UTIL_RATIO", "gpu.dram_active"),
    direction("DCGM_FI_PROF_PCIE_TX_BYTES", "gpu.pcie_bytes"),
    direction("DCGM_FI_PROF_PCIE_RX_BYTES", "gpu.pcie_bytes"),
    direction("DCGM_FI_PROF_NVLINK_TX_BYTES", "gpu.nvlink_bytes"),
    direction("DCGM_FI_PROF_NVLINK_RX_BYTES", "gpu.nvlink_bytes"),
    level("DCGM_FI_DEV_SM_CLOCK", "gpu.sm_clock").scale(MHZ),
    level("DCGM_FI_DEV_MEM_CLOCK", "gpu.mem_clock").scale(MHZ),
    level("DCGM_FI_DEV_MAX_SM_CLOCK", "gpu.sm_clock_max").scale(MHZ),
    level("DCGM_FI_DEV_MAX_MEM_CLOCK", "gpu.mem_clock_max").scale(MHZ),
    level("DCGM_FI_DEV_POWER_USAGE", "gpu.power"),
    level("DCGM_FI_DEV_BOARD_POWER_WATTS", "gpu.power"),
    level("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "gpu.power_limit"),
    level("DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", "gpu.power_limit"),
    level("DCGM_FI_DEV_POWER_MGMT_LIMIT", "gpu.power_limit").fallback(),
    level("DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS", "gpu.power_limit").fallback(),
    level("DCGM_FI_DEV_GPU_TEMP", "gpu.temperature"),
    level("DCGM_FI_DEV_GPU_TEMP_CELSIUS", "gpu.temperature"),
    level("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "gpu.throttle_reasons"),
    level("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gpu.throttle_reasons"),
    level("DCGM_FI_DEV_PCIE_LINK_GEN", "gpu.pcie_gen"),
    level("DCGM_FI_DEV_PCIE_LINK_WIDTH", "gpu.pcie_width"),
    level("DCGM_FI_DEV_FB_USED", "gpu.memory_used").scale(MIB),
    level("DCGM_FI_DEV_FB_TOTAL", "gpu.memory_total").scale(MIB),
    level("GPU_GFX_ACTIVITY", "gpu.busy").percent().only(is_amd),
    level("GPU_UMC_ACTIVITY", "gpu.dram_active").percent().only(is_amd),
    level("GPU_PROF_SM_ACTIVE", "gpu.sm_active").percent().only(is_amd),
    level("GPU_PROF_OCCUPANCY_PERCENT", "gpu.sm_occupancy").percent().only(is_amd),
    level("GPU_PROF_TENSOR_ACTIVE_PERCENT", "gpu.tensor_active").percent().only(is_amd),
    level("GPU_PACKAGE_POWER", "gpu.power").only(is_amd),
    level("GPU_AVERAGE_PACKAGE_POWER", "gpu.power").only(is_amd).fallback(),
    level("GPU_POWER_USAGE", "gpu.power").only(is_amd).fallback(),
    level("GPU_JUNCTION_TEMPERATURE", "gpu.temperature").only(is_amd),
    level("GPU_USED_VRAM", "gpu.memory_used").scale(MIB).only(is_amd),
    level("GPU_TOTAL_VRAM", "gpu.memory_total").scale(MIB).only(is_amd),
];

fn is_amd(labels: &SeriesLabels) -> bool {
    !label(labels, "gpu_id").is_empty()
}

/// A name as the map has it: AMD's exporter writes either case, with or without `amd_` before it.
pub(crate) fn upper_name(name: &str) -> Cow<'_, str> {
    let bare = name.strip_prefix("amd_").unwrap_or(name);
    if bare.starts_with("gpu_") { Cow::Owned(bare.to_ascii_uppercase()) } else { Cow::Borrowed(name) }
}

/// The device of a series: its index, with the MIG instance behind a slash. `first_host` is the host of the first such series
/// of the source; devices of other hosts carry their host's name.
pub(crate) fn device_of(labels: &SeriesLabels, first_host: &mut Option<String>) -> String {
    let either = |a: &str, b: &str| Some(label(labels, a)).filter(|value| !value.is_empty()).unwrap_or(label(labels, b)).to_string();
    let index = either("gpu", "gpu_id");
    let instance = label(labels, "GPU_I_ID");
    let device = if instance.is_empty() { index } else { format!("{index}/{instance}") };
    let host = either("Hostname", "hostname");
    let first = first_host.get_or_insert_with(|| host.clone());
    if *first == host { device } else { format!("{host}:{device}") }
}

/// Keeps the name of the product.
pub(crate) fn note_product(labels: &SeriesLabels, builder: &mut Builder<'_>) {
    let subject = &mut builder.capture.manifest.subject;
    let name = [label(labels, "modelName"), label(labels, "card_model")].into_iter().find(|name| !name.is_empty());
    if let Some(name) = name.filter(|_| subject.device.is_empty()) {
        subject.device = name.to_string();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names_of_their_own() {
        let labels = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(key, value)| ((*key).to_string(), (*value).to_string())).collect()
        };
        let mut host = None;
        assert_eq!(device_of(&labels(&[("gpu", "3"), ("Hostname", "a")]), &mut host), "3");
        assert_eq!(device_of(&labels(&[("gpu", "3"), ("GPU_I_ID", "7"), ("Hostname", "a")]), &mut host), "3/7");
        assert_eq!(device_of(&labels(&[("gpu", "3"), ("Hostname", "b")]), &mut host), "b:3");
        assert_eq!(device_of(&labels(&[("gpu_id", "0"), ("hostname", "a")]), &mut host), "0");
    }

    #[test]
    fn every_family_speaks_the_vocabulary() {
        for metric in METRICS {
            assert!(capture::signals::find(metric.signal).is_some(), "{}", metric.name);
            assert!(metric.is_device, "{}", metric.name);
        }
    }
}
