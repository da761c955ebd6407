//! How long the device account of a long recording takes: `cargo run --release -p analysis --example device_bench -- 10`
//! for ten million events, half of them kernels and half the calls that launched them.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use analysis::device::DeviceView;
use capture::{Capture, DeviceEvent, HostEvent, Source};

/// Kernels of one decode step.
const PER_STEP: i64 = 400;
const NAMES: [&str; 8] = [
    "nvjet_tst_64x64_64x16_2x1_v_bz_TNT",
    "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*)",
    "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)",
    "void vllm::act_and_mul_kernel<c10::BFloat16>(c10::BFloat16*)",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>(__nv_bfloat16 const*)",
    "triton_poi_fused_add_mul_3",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
];

fn main() {
    let millions: i64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10);
    let capture = recording(millions * 500_000);
    let (start, cpu) = (Instant::now(), cpu_s());
    let view = DeviceView::read(&capture, 0).expect("the recording has events");
    let (took, cpu) = (start.elapsed(), cpu_s() - cpu);
    let events: u64 = view.lanes.iter().map(|lane| lane.account.gpu_events).sum();
    println!("{events} device events and as many calls on {} devices: {took:?}, {cpu:.2} CPU-s", view.lanes.len());
    for lane in &view.lanes {
        println!("device {}: {:.1} % busy, {} steps", lane.label, 100.0 * lane.account.share(lane.account.busy_ns), lane.steps.count());
    }
}

/// CPU time of this process in user mode, s, where the system tells; the clock on the wall means little beside other work.
fn cpu_s() -> f64 {
    let told = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = told.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().nth(11).and_then(|ticks| ticks.parse::<f64>().ok()).map_or(f64::NAN, |ticks| ticks / 100.0)
}

/// Two devices that decode, each launched by its own process.
fn recording(kernels: i64) -> Capture {
    let mut capture = Capture::new();
    let source_idx = capture.add_source(Source { name: "made".into(), ..Source::default() });
    let names = NAMES.map(|name| capture.intern(name));
    let [kernel, runtime, annotation] = ["kernel", "runtime", "annotation"].map(|kind| capture.intern(kind));
    let (launch, step) = (capture.intern("cudaLaunchKernel"), capture.intern("execute_context_0(0)_generation_32(32)"));
    let mut free_ns = [0i64; 2];
    for at in 0..kernels {
        let device = (at % 2) as usize;
        let process = 100 + device as u32;
        let call_ns = at * 2_000;
        if at / 2 % PER_STEP == 0 {
            let (t_start_ns, t_end_ns) = (call_ns - 500, call_ns + 2_000 * (2 * PER_STEP - 1));
            let row = HostEvent {
                t_start_ns,
                t_end_ns,
                process,
                thread: process,
                kind: annotation,
                name: step,
                source_idx,
                ..HostEvent::default()
            };
            capture.tables.host_events.push(row);
        }
        let correlation = (at + 1) as u32;
        let row = HostEvent {
            t_start_ns: call_ns,
            t_end_ns: call_ns + 1_500,
            process,
            thread: process,
            kind: runtime,
            name: launch,
            correlation,
            source_idx,
            ..HostEvent::default()
        };
        capture.tables.host_events.push(row);
        let start = free_ns[device].max(call_ns + 5_000);
        free_ns[device] = start + 1_000 + at * 37 % 5_500;
        let row = DeviceEvent {
            t_start_ns: start,
            t_end_ns: free_ns[device],
            process,
            device: device as u32,
            stream: 7,
            kind: kernel,
            name: names[(at / 2 % 8) as usize],
            correlation,
            source_idx,
            ..DeviceEvent::default()
        };
        capture.tables.device_events.push(row);
    }
    capture.canonicalize();
    capture
}
