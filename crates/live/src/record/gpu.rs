//! The GPUs of this host, once per interval, through NVIDIA's library as the driver brings it (NVML), if it is there.
//!
//! A reading is written in the words of NVIDIA's exporter (DCGM's families, `ingest`'s `engines/dcgm.rs`), so that it becomes the
//! rows that an exporter's page would. What a device does not tell is left out, one by one. The thread is never waited for
//! long: a library that hangs costs its own readings. Left out: NVLink (the library's wrapper asks for one link only), ECC
//! and XID, which explain no time.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nvml_wrapper::enum_wrappers::device::{Clock, PcieUtilCounter, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use super::POLL;
use super::outbox::{Outbox, Piece};
use crate::window::{head_line, host_time_ns, next_tick};

/// The library by the name under which drivers install it.
pub(super) const LIBRARY: &str = "libnvidia-ml.so.1";
/// GPUs that are read.
const MAX_DEVICES: u32 = 64;
/// What a driver brings, with or without its library.
const DRIVER: &str = "/dev/nvidiactl";
const MIB: f64 = 1_048_576.0;

/// Reads until `over`; at once at an end where there is nothing to read.
pub(super) fn read(library: &Path, interval: Duration, over: &AtomicBool, outbox: &Outbox) {
    let tell = |sentence: String| outbox.put(Piece::Told { code: "gpus", sentence });
    let opened = Nvml::builder().lib_path(library.as_os_str()).init();
    let (nvml, count) = match opened.and_then(|nvml| nvml.device_count().map(|count| (nvml, count))) {
        Ok(opened) => opened,
        Err(error) => {
            if Path::new(DRIVER).exists() || !matches!(error, NvmlError::LibloadingError(_)) {
                tell(not_opened(&error));
            }
            return;
        }
    };
    let (started, mut due) = (Instant::now(), Duration::ZERO);
    let mut silent = vec![false; count.min(MAX_DEVICES) as usize];
    while !over.load(Ordering::Relaxed) {
        let (began, t_ns) = (Instant::now(), host_time_ns());
        let mut page = String::new();
        for (index, was_silent) in (0..).zip(&mut silent) {
            if let Err(error) = nvml.device_by_index(index).and_then(|device| show(index, &device, &mut page))
                && !std::mem::replace(was_silent, true)
            {
                tell(format!("GPU {index} tells nothing of itself: {error}"));
            }
        }
        let mut body = head_line(t_ns, began.elapsed(), None).into_bytes();
        body.extend_from_slice(page.as_bytes());
        outbox.put(Piece::Gpus { t_ns, body });
        due = next_tick(due, started.elapsed(), interval);
        while started.elapsed() < due && !over.load(Ordering::Relaxed) {
            std::thread::sleep(POLL.min(due.saturating_sub(started.elapsed())));
        }
    }
}

fn not_opened(error: &NvmlError) -> String {
    let remedy = match error {
        NvmlError::LibloadingError(_) => {
            "in a container, start it with `NVIDIA_DRIVER_CAPABILITIES=compute,utility`, or run this on the host"
        }
        NvmlError::NoPermission => "run this as root, or as a user who may run `nvidia-smi`",
        _ => "see whether `nvidia-smi` runs",
    };
    format!("GPUs are not recorded: NVIDIA's library could not be opened ({error}): {remedy}")
}

/// Adds what a device tells; an error where it tells nothing.
fn show(index: u32, device: &Device<'_>, page: &mut String) -> Result<(), NvmlError> {
    let name = device.name().unwrap_or_default().replace(['"', '\\', '\n'], "");
    let before = page.len();
    let mut put = |family: &str, value: Option<f64>| {
        if let Some(value) = value {
            let _ = writeln!(page, "{family}{{gpu=\"{index}\",modelName=\"{name}\"}} {value}");
        }
    };
    let number = |value: Result<u32, NvmlError>| value.ok().map(f64::from);
    let utilization = device.utilization_rates();
    put("DCGM_FI_DEV_GPU_UTIL", utilization.as_ref().ok().map(|used| f64::from(used.gpu)));
    put("DCGM_FI_DEV_MEM_COPY_UTIL", utilization.as_ref().ok().map(|used| f64::from(used.memory)));
    let memory = device.memory_info().ok();
    put("DCGM_FI_DEV_FB_USED", memory.as_ref().map(|memory| memory.used as f64 / MIB));
    put("DCGM_FI_DEV_FB_TOTAL", memory.as_ref().map(|memory| memory.total as f64 / MIB));
    put("DCGM_FI_DEV_SM_CLOCK", number(device.clock_info(Clock::SM)));
    put("DCGM_FI_DEV_MEM_CLOCK", number(device.clock_info(Clock::Memory)));
    put("DCGM_FI_DEV_MAX_SM_CLOCK", number(device.max_clock_info(Clock::SM)));
    put("DCGM_FI_DEV_MAX_MEM_CLOCK", number(device.max_clock_info(Clock::Memory)));
    put("DCGM_FI_DEV_POWER_USAGE", number(device.power_usage()).map(|milliwatts| milliwatts / 1e3));
    put("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", number(device.enforced_power_limit()).map(|milliwatts| milliwatts / 1e3));
    put("DCGM_FI_DEV_GPU_TEMP", number(device.temperature(TemperatureSensor::Gpu)));
    put("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", device.current_throttle_reasons().ok().map(|mask| mask.bits() as f64));
    put("DCGM_FI_DEV_PCIE_LINK_GEN", number(device.current_pcie_link_gen()));
    put("DCGM_FI_DEV_PCIE_LINK_WIDTH", number(device.current_pcie_link_width()));
    // Each of these takes the library 20 ms, so they come last. It tells KB/s.
    put("DCGM_FI_PROF_PCIE_TX_BYTES", number(device.pcie_throughput(PcieUtilCounter::Send)).map(|kb| kb * 1e3));
    put("DCGM_FI_PROF_PCIE_RX_BYTES", number(device.pcie_throughput(PcieUtilCounter::Receive)).map(|kb| kb * 1e3));
    if page.len() == before { utilization.map(|_| ()) } else { Ok(()) }
}
