//! A capture with a bit of everything that a trace shows.

use capture::{Capture, Device, DeviceEvent, HostEvent, Name, Sample, Source, SourceIdx, Step};

/// Wall time the scene begins at.
pub(crate) const T0: i64 = 1_796_036_992_000_000_000;

/// Process that launches.
const PROCESS: u32 = 4242;

fn device_event(capture: &mut Capture, stream: u32, span: (i64, i64), name: (&str, &str), correlation: u32) {
    let (kind, name, shape) = (capture.intern(name.0), capture.intern(name.1), capture.intern("grid=1,2,3 block=128,1,1"));
    capture.tables.device_events.push(DeviceEvent {
        t_start_ns: T0 + span.0,
        t_end_ns: T0 + span.1,
        process: PROCESS,
        stream,
        kind,
        name,
        shape,
        correlation,
        byte_count: if correlation == 3 { 4096 } else { 0 },
        ..DeviceEvent::default()
    });
}

fn host_event(capture: &mut Capture, thread: u32, span: (i64, i64), kind: &str, name: &str, correlation: u32) {
    let (kind, name) = (capture.intern(kind), capture.intern(name));
    let (t_start_ns, t_end_ns) = (T0 + span.0, T0 + span.1);
    capture.tables.host_events.push(HostEvent {
        t_start_ns,
        t_end_ns,
        process: PROCESS,
        thread,
        kind,
        name,
        correlation,
        ..HostEvent::default()
    });
}

/// Two streams with overlapping kernels, two threads, a step, a gauge, a counter and a typed figure.
pub(crate) fn capture() -> Capture {
    let mut capture = Capture::new();
    capture.add_source(Source { name: "rank1.json".into(), ..Source::default() });
    let (name, vendor) = (capture.intern("NVIDIA H100 80GB HBM3"), capture.intern("nvidia"));
    capture.tables.devices.push(Device { rank: 1, world_size: 2, name, vendor, ..Device::default() });
    device_event(&mut capture, 7, (1_000, 3_000), ("kernel", "flash_fwd"), 1);
    device_event(&mut capture, 7, (2_000, 5_000), ("kernel", "gemm"), 2);
    device_event(&mut capture, 7, (5_000, 5_000), ("kernel", "gemm"), 2);
    device_event(&mut capture, 13, (1_500, 2_500), ("memcpy", "HtoD Pageable -> Device"), 3);
    host_event(&mut capture, 4242, (0, 900), "op", "aten::mm", 0);
    host_event(&mut capture, 4242, (0, 400), "runtime", "cudaLaunchKernel", 1);
    host_event(&mut capture, 4242, (500, 900), "runtime", "cudaGraphLaunch", 2);
    host_event(&mut capture, 4300, (100, 200), "annotation", "execute_context_0(0)", 0);
    host_event(&mut capture, 7, (1_000, 5_000), "device_annotation", "step", 0);
    let phase = capture.intern("decode");
    let decode_seqs = Some(8);
    capture.tables.steps.push(Step { t_start_ns: T0, t_end_ns: T0 + 5_000, decode_seqs, phase, ..Step::default() });
    for (t_ns, signal, value) in
        [(T0, "gpu.sm_active", 0.5), (T0 + 4_000, "gpu.sm_active", 0.75), (T0, "kv.preemptions", 3.0), (0, "gpu.dram_active", 0.1)]
    {
        let (signal, labels) =
            (capture.intern(signal), if signal == "kv.preemptions" { Name::EMPTY } else { capture.intern("device=\"0\"") });
        capture.tables.samples.push(Sample { t_ns, run_idx: 0, point_idx: -1, signal, labels, value, source_idx: SourceIdx(0) });
    }
    capture.canonicalize();
    capture
}
