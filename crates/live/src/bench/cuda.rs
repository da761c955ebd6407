//! The operators on an NVIDIA GPU, through CUDA's libraries as the system has them: the driver for everything, cuBLAS for
//! matrix products, NCCL for the all-reduce. An operator whose library is missing is skipped with that reason.
//!
//! This path compiles everywhere, and its kernels assemble for compute capabilities 7.0 to 9.0; it has not been run on a GPU
//! yet, so its figures are to be read with that in mind.

#![allow(unsafe_code)] // calls of CUDA; each says why its arguments are sound

mod all_reduce;
mod attention;
mod copy;
mod gemm;
mod launch;
mod link;

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DriverError, LaunchConfig, PushKernelArg, sys};
use cudarc::nvrtc::Ptx;
use model::hardware::{self, Gpu};

use super::Operator;
use super::measure::{Spread, repeat};

/// All operators, in the order in which they run.
pub(super) const OPERATORS: &[Operator<Device>] = &[
    Operator { id: "copy", weight: 1, run: copy::copy },
    Operator { id: "read", weight: 1, run: copy::read },
    Operator { id: "gemm", weight: 4, run: gemm::run },
    Operator { id: "attention", weight: 2, run: attention::run },
    Operator { id: "launch", weight: 1, run: launch::run },
    Operator { id: "link", weight: 2, run: link::run },
    Operator { id: "all_reduce", weight: 2, run: all_reduce::run },
    Operator { id: "wake", weight: 1, run: |_, plan, budget| super::cpu::wake::run(&super::cpu::Host::read(), plan, budget) },
];

/// Most memory of one operator.
const MOST_BYTES: usize = 4 << 30;
/// Device work in one repetition is at least this long, so that events tell it well.
const LEAST_S: f64 = 1e-3;
/// Most calls in one repetition; a stream takes about a thousand before a launch waits.
const MOST_CALLS: u32 = 256;
/// Threads of a block that streams.
const THREADS: u32 = 256;

/// The first GPU.
#[derive(Debug)]
pub(super) struct Device {
    /// Name as the driver tells it.
    pub(super) name: String,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    module: Arc<CudaModule>,
    /// Row of the hardware table, where the name has one.
    sheet: Option<&'static Gpu>,
    multiprocessors: u32,
}

impl Device {
    /// Opens the first GPU, or says why there is none.
    pub(super) fn open() -> Result<Self, String> {
        // SAFETY: loading the driver's library runs its initializers, as any CUDA program does.
        if !unsafe { sys::is_culib_present() } {
            return Err("the library of the NVIDIA driver (libcuda) was not found".to_string());
        }
        Self::open_first().map_err(|error| format!("no CUDA device could be opened: {error}"))
    }

    fn open_first() -> Result<Self, DriverError> {
        let context = CudaContext::new(0)?;
        // SAFETY: all work on a device goes to one stream, so that nothing is used before it is ready or after it is freed.
        unsafe { context.disable_event_tracking() };
        let name = context.name()?;
        let module = context.load_module(Ptx::from_src(include_str!("cuda/kernels.ptx")))?;
        let multiprocessors = context.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let stream = context.new_stream()?;
        let sheet = hardware::find(&name);
        Ok(Self { name, context, stream, module, sheet, multiprocessors: u32::try_from(multiprocessors).unwrap_or(1).max(1) })
    }

    /// Bytes that an operator may use: a quarter of what is free.
    fn budget_bytes(&self) -> Result<usize, String> {
        let (free, _) = self.context.mem_get_info().map_err(told)?;
        let budget = (free / 4).min(MOST_BYTES);
        if budget < 64 << 20 { Err("less than 256 MiB of device memory are free".to_string()) } else { Ok(budget) }
    }

    fn function(&self, name: &str) -> Result<CudaFunction, String> {
        self.module.load_function(name).map_err(told)
    }

    /// Blocks that fill the device, for kernels that stride over their data.
    fn streaming(&self) -> LaunchConfig {
        LaunchConfig { grid_dim: (8 * self.multiprocessors, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 }
    }

    /// Memory of `words` 32-bit words, filled with values that are not zero.
    fn filled(&self, words: usize) -> Result<CudaSlice<u32>, String> {
        // SAFETY: the kernel below writes every word before anybody reads one.
        let mut memory = unsafe { self.stream.alloc::<u32>(words) }.map_err(told)?;
        let (count, seed, fill) = (words as u64, 7u32, self.function("fill")?);
        // SAFETY: `fill` writes `count` words from the start of `memory`, which has as many.
        unsafe { self.stream.launch_builder(&fill).arg(&mut memory).arg(&count).arg(&seed).launch(self.streaming()) }.map_err(told)?;
        self.stream.synchronize().map_err(told)?;
        Ok(memory)
    }

    /// Time on the device of one call of `enqueue`, which is told how many calls came before.
    fn timed(&self, budget: Duration, mut enqueue: impl FnMut(u32) -> Result<(), String>) -> Result<Spread, String> {
        let event = || self.context.new_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT)).map_err(told);
        let (start, end) = (event()?, event()?);
        let mut calls_before = 0;
        let mut measure = |calls: u32| -> Result<f64, String> {
            start.record(&self.stream).map_err(told)?;
            for call in 0..calls {
                enqueue(calls_before + call)?;
            }
            calls_before = calls_before.wrapping_add(calls);
            end.record(&self.stream).map_err(told)?;
            let ms = start.elapsed_ms(&end).map_err(told)?;
            Ok(f64::from(ms) * 1e-3 / f64::from(calls))
        };
        measure(1)?;
        let once_s = measure(1)?.max(1e-7);
        let calls = ((LEAST_S / once_s).ceil() as u32).clamp(1, MOST_CALLS);
        repeat(budget, || measure(calls))
    }
}

/// A CUDA error as a sentence.
fn told(error: DriverError) -> String {
    format!("CUDA says: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_that_is_asked_for_is_in_the_assembly() {
        let assembly = include_str!("cuda/kernels.ptx");
        for name in ["nothing", "fill", "read"].into_iter().chain(attention::KERNELS.iter().map(|kernel| kernel.name)) {
            assert!(assembly.contains(&format!(".entry {name}(")), "{name}");
        }
    }

    /// Where tests run without a GPU the reason is a sentence; with one the device has a name.
    #[test]
    fn a_missing_device_is_told() {
        match Device::open() {
            Ok(device) => assert!(!device.name.is_empty()),
            Err(because) => assert!(because.contains("libcuda") || because.contains("CUDA device"), "{because}"),
        }
    }
}
