//! All-reduce over the GPUs present, by NCCL: latency of small messages, bus bandwidth of large ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use cudarc::nccl::{Comm, ReduceOp, result, sys};
use model::collectives::{Collective, ring_volume};

use super::super::measure::{Spread, repeat};
use super::super::{Measured, Plan};
use super::{Device, told};

/// A message that costs its latency only.
const SMALL_BYTES: usize = 4 << 10;
/// A message that costs its bytes only.
const LARGE_BYTES: usize = 256 << 20;
/// Small messages in one repetition.
const CALLS: u32 = 50;

/// Both sizes.
pub(super) fn run(device: &Device, _: &Plan, budget: Duration) -> Result<Vec<Measured>, String> {
    let count = usize::try_from(CudaContext::device_count().map_err(told)?).unwrap_or(0);
    if count < 2 {
        return Err(format!("it needs two GPUs, found {count}"));
    }
    // SAFETY: loading NCCL runs its initializers, as any program that uses it does.
    if !unsafe { sys::is_culib_present() } {
        return Err("the library NCCL (libnccl) was not found".to_string());
    }
    let ring = Ring::open(count)?;
    let small = ring.timed(budget / 2, SMALL_BYTES, CALLS)?;
    let large = ring.timed(budget / 2, LARGE_BYTES, 1)?;
    let moved = LARGE_BYTES as f64 * ring_volume(Collective::AllReduce, count as u32);
    let row = |title: String, signal, value, data_sheet, how| Measured {
        operator: "all_reduce",
        title,
        signal,
        labels: Vec::new(),
        value,
        data_sheet,
        how,
    };
    let link = device.sheet.and_then(|sheet| sheet.link_bytes_per_s.or(sheet.pcie_bytes_per_s));
    Ok(vec![
        row(format!("all-reduce of {count} GPUs, latency"), "comm.alpha", small, None, format!("{SMALL_BYTES} bytes")),
        row(
            format!("all-reduce of {count} GPUs, bus bandwidth"),
            "comm.bus_bandwidth",
            large.rate_of(moved),
            link,
            format!("{} MiB, 2 (n - 1) / n of the bytes over the time", LARGE_BYTES >> 20),
        ),
    ])
}

/// All GPUs, a stream and a communicator each.
struct Ring {
    streams: Vec<Arc<CudaStream>>,
    comms: Vec<Comm>,
}

impl Ring {
    fn open(count: usize) -> Result<Self, String> {
        let open = |ordinal: usize| {
            let context = CudaContext::new(ordinal)?;
            // SAFETY: all work on a device goes to one stream, so that nothing is used before it is ready or after it is freed.
            unsafe { context.disable_event_tracking() };
            context.new_stream()
        };
        let streams: Vec<Arc<CudaStream>> = (0..count).map(open).collect::<Result<_, _>>().map_err(told)?;
        let comms = Comm::from_devices(streams.clone()).map_err(|error| format!("NCCL says: {error:?}"))?;
        Ok(Self { streams, comms })
    }

    /// Time of one all-reduce by the host's clock, from the first call until every GPU is done.
    fn timed(&self, budget: Duration, bytes: usize, calls: u32) -> Result<Spread, String> {
        let zeros = |stream: &Arc<CudaStream>| stream.alloc_zeros::<f32>(bytes / 4).map_err(told);
        let mut buffers: Vec<CudaSlice<f32>> = self.streams.iter().map(zeros).collect::<Result<_, _>>()?;
        repeat(budget, || {
            self.wait()?;
            let started = Instant::now();
            for _ in 0..calls {
                self.enqueue(&mut buffers).map_err(|error| format!("NCCL says: {error:?}"))?;
            }
            self.wait()?;
            Ok::<f64, String>(started.elapsed().as_secs_f64() / f64::from(calls))
        })
    }

    fn enqueue(&self, buffers: &mut [CudaSlice<f32>]) -> Result<(), result::NcclError> {
        result::group_start()?;
        let all = self.comms.iter().zip(buffers).try_for_each(|(comm, buffer)| comm.all_reduce_in_place(buffer, &ReduceOp::Sum).map(drop));
        // The group ends whether its calls went well or not.
        let ended = result::group_end().map(drop);
        all.and(ended)
    }

    fn wait(&self) -> Result<(), String> {
        self.streams.iter().try_for_each(|stream| stream.synchronize().map_err(told))
    }
}
