//! Traces of PyTorch's profiler: every dialect that has a sample, and what the tables hold of each.

use capture::Capture;
use expect_test::{Expect, expect};
use ingest::Options;

use crate::shown::{data, import};

/// Counts and sums per device, rows per kind of host event, devices, collectives, issues.
fn summary(capture: &Capture) -> String {
    let mut text = String::new();
    let work = &capture.tables.device_events;
    let mut devices: Vec<u32> = work.device.iter().collect();
    devices.sort_unstable();
    devices.dedup();
    for device in devices {
        let rows: Vec<_> = work.rows().filter(|row| row.device == device).collect();
        let (start, end) = (rows.iter().map(|row| row.t_start_ns).min().unwrap(), rows.iter().map(|row| row.t_end_ns).max().unwrap());
        let sum: i64 = rows.iter().map(|row| row.t_end_ns - row.t_start_ns).sum();
        let kernels = rows.iter().filter(|row| capture.text(row.kind) == "kernel").count();
        text +=
            &format!("device {device}: {} events, {kernels} kernels, window {} ns from {start}, work {sum} ns\n", rows.len(), end - start);
    }
    let mut kinds = std::collections::BTreeMap::new();
    for kind in capture.tables.host_events.kind.iter() {
        *kinds.entry(capture.text(kind)).or_insert(0) += 1;
    }
    text += &format!("host {kinds:?}\n");
    for row in capture.tables.devices.rows() {
        let (name, vendor) = (capture.text(row.name), capture.text(row.vendor));
        let (rank, of) = (row.rank, row.world_size);
        text += &format!("is {} [{name}] {vendor} rank {rank}/{of} sms {} warps {}\n", row.device, row.sm_count, row.max_warps_per_sm);
    }
    for row in capture.tables.issues.rows() {
        let [severity, code, place] = [row.severity, row.code, row.place].map(|name| capture.text(name));
        text += &format!("! {severity} {code} [{place}] x{}\n", row.count);
    }
    text
}

#[expect(clippy::needless_pass_by_value, reason = "as `expect!` is written")]
fn check(name: &str, expected: Expect) {
    expected.assert_eq(&summary(&import(&[data(&format!("traces/{name}.json.gz"))])));
}

#[test]
fn kernels_of_triton_are_linked_to_calls_of_the_driver() {
    check(
        "triton_example",
        expect![[r#"
        device 0: 1 events, 1 kernels, window 1760 ns from 1730156791097444592, work 1760 ns
        host {"annotation": 1, "driver": 1, "runtime": 1}
        is 0 [NVIDIA A100-PG509-200] nvidia rank -1/0 sms 108 warps 64
        is 1 [NVIDIA A100-PG509-200] nvidia rank -1/0 sms 108 warps 64
        is 2 [NVIDIA A100-PG509-200] nvidia rank -1/0 sms 108 warps 64
        is 3 [NVIDIA A100-PG509-200] nvidia rank -1/0 sms 108 warps 64
        is 4 [NVIDIA A100-PG509-200] nvidia rank -1/0 sms 108 warps 64
        is 5 [NVIDIA A100-PG509-200] nvidia rank -1/0 sms 108 warps 64
        is 6 [NVIDIA A100-PG509-200] nvidia rank -1/0 sms 108 warps 64
        is 7 [NVIDIA A100-PG509-200] nvidia rank -1/0 sms 108 warps 64
        ! note host_slowed_by_recording [] x1
    "#]],
    );
    let capture = import(&[data("traces/triton_example.json.gz")]);
    let kernel = capture.tables.device_events.row(0);
    let call = capture.tables.host_events.rows().find(|row| row.correlation == kernel.correlation).unwrap();
    assert_eq!((capture.text(call.kind), capture.text(call.name), call.process), ("driver", "cuLaunchKernel", kernel.process));
    assert!(capture.text(kernel.shape).starts_with("grid="), "{}", capture.text(kernel.shape));
}

#[test]
fn waits_come_with_the_code_around_them() {
    check(
        "cuda_event_sync",
        expect![[r#"
        device 0: 5 events, 4 kernels, window 263000 ns from 1707417525512145000, work 51000 ns
        host {"annotation": 1, "op": 1, "runtime": 12, "sync": 4}
        is 0 [NVIDIA A100-PG509-200] nvidia rank 0/0 sms 108 warps 64
        is 1 [NVIDIA A100-PG509-200] nvidia rank -1/0 sms 108 warps 64
        is 2 [NVIDIA A100-PG509-200] nvidia rank -1/0 sms 108 warps 64
        is 3 [NVIDIA A100-PG509-200] nvidia rank -1/0 sms 108 warps 64
        is 4 [NVIDIA A100-PG509-200] nvidia rank -1/0 sms 108 warps 64
        is 5 [NVIDIA A100-PG509-200] nvidia rank -1/0 sms 108 warps 64
        is 6 [NVIDIA A100-PG509-200] nvidia rank -1/0 sms 108 warps 64
        is 7 [NVIDIA A100-PG509-200] nvidia rank -1/0 sms 108 warps 64
    "#]],
    );
    let capture = import(&[data("traces/cuda_event_sync.json.gz")]);
    let copies: Vec<&str> =
        capture.tables.device_events.rows().filter(|row| capture.text(row.kind) == "memcpy").map(|row| capture.text(row.name)).collect();
    assert_eq!(copies, ["DtoH Device -> Pageable"]);
    let ops: Vec<&str> =
        capture.tables.host_events.rows().filter(|row| capture.text(row.kind) == "op").map(|row| capture.text(row.name)).collect();
    assert_eq!(ops, ["aten::_local_scalar_dense"]);
}

#[test]
fn the_layout_of_2022_reads() {
    check(
        "inference_2022",
        expect![[r#"
        device 0: 4 events, 4 kernels, window 1629000 ns from 1665536373729077000, work 30000 ns
        host {"runtime": 8}
        is 0 [] nvidia rank 1/0 sms 0 warps 0
    "#]],
    );
}

#[test]
fn times_in_absolute_microseconds_keep_their_nanoseconds() {
    check(
        "ns_resolution_v100",
        expect![[r#"
        device 0: 25 events, 2 kernels, window 772731 ns from 1712195495505582988, work 37664 ns
        host {"annotation": 70, "runtime": 35}
        is 0 [Tesla V100-SXM2-32GB] nvidia rank 0/1 sms 80 warps 64
    "#]],
    );
}

#[test]
fn events_before_the_head_read() {
    check(
        "bert_h100",
        expect![[r#"
            device 0: 9 events, 9 kernels, window 559070 ns from 1752830083336779604, work 73504 ns
            host {"annotation": 1, "device_annotation": 1, "driver": 3, "frame": 2, "runtime": 17}
            is 0 [NVIDIA H100 80GB HBM3] nvidia rank -1/0 sms 132 warps 64
            ! note host_slowed_by_recording [] x1
        "#]],
    );
}

#[test]
fn hip_calls_and_amd_devices_read() {
    check(
        "mi250_training",
        expect![[r#"
        device 2: 16 events, 14 kernels, window 8911887 ns from 1739836029603454206, work 149042 ns
        host {"annotation": 3, "device_annotation": 2, "op": 2, "runtime": 21}
        is 0 [AMD Radeon Graphics] amd rank -1/0 sms 104 warps 32
        is 1 [AMD Radeon Graphics] amd rank -1/0 sms 104 warps 32
        is 2 [AMD Radeon Graphics] amd rank -1/0 sms 104 warps 32
        is 3 [AMD Radeon Graphics] amd rank -1/0 sms 104 warps 32
        ! note host_slowed_by_recording [] x1
    "#]],
    );
    check(
        "triton_mi300",
        expect![[r#"
        device 2: 12 events, 12 kernels, window 12549032 ns from 1778681579046460717, work 12549021 ns
        host {"annotation": 1, "device_annotation": 1, "runtime": 59}
        is 0 [AMD Instinct MI300X] amd rank -1/0 sms 304 warps 32
        is 2 [AMD Instinct MI300X] amd rank -1/0 sms 304 warps 32
        ! note host_slowed_by_recording [] x1
    "#]],
    );
}

#[test]
fn a_trace_without_a_device_keeps_its_operators() {
    check(
        "cpu_only",
        expect![[r#"
        host {"annotation": 11, "op": 4}
        ! note no_device_events [] x1
    "#]],
    );
}

/// A trace of one event with these members beside `ph` and times.
fn trace_of(members: &str) -> Capture {
    let text =
        format!(r#"{{"traceEvents": [{{"ph": "X", "ts": 10, "dur": 5, {members}}}], "distributedInfo": {{"rank": 3, "world_size": 8}}}}"#);
    ingest::read_bytes("trace.json", text.as_bytes(), &Options::default())
}

#[test]
fn collectives_say_group_order_and_bytes() {
    let capture = trace_of(
        r#""cat": "kernel", "name": "ncclDevKernel_AllGather_RING_LL", "pid": 3, "tid": 20, "args": {"stream": 20, "device": 3,
        "Collective name": "_allgather_base", "In msg nelems": 1024, "Out msg nelems": 8192, "Group size": 8, "dtype": "BFloat16",
        "In split size": "[]", "Process Group Name": "2", "Process Group Description": "tp", "Process Group Ranks": "[0, 1]",
        "Seq": 17, "Comms Id": 14628370263914624512}"#,
    );
    let row = capture.tables.collectives.row(0);
    let [op, group, dtype] = [row.op, row.group, row.dtype].map(|name| capture.text(name).to_string());
    assert_eq!([op.as_str(), group.as_str(), dtype.as_str()], ["all_gather", "2 tp [0, 1]", "bfloat16"]);
    assert_eq!((row.rank, row.group_size, row.sequence, row.bytes_in, row.bytes_out), (3, 8, 17, 2048, 16384));
}

#[test]
fn graph_nodes_and_counters_read() {
    let graph = trace_of(r#""cat": "kernel", "name": "k", "pid": 0, "tid": 7, "args": {"graph id": 2, "graph node id": 8589934592}"#);
    assert_ne!(graph.tables.device_events.graph.changes().collect::<Vec<u32>>(), [0]);
    let text = r#"[{"ph": "C", "cat": "hardware_counters", "name": "sm__cycles_active.avg.pct_of_peak_sustained_elapsed", "pid": "GPU 1 Counters", "tid": 0, "ts": 5, "args": {"": 41.5}}]"#;
    let capture = ingest::read_bytes("trace.json", text.as_bytes(), &Options::default());
    let sample = capture.tables.samples.row(0);
    assert_eq!((capture.text(sample.signal), capture.text(sample.labels), sample.value), ("gpu.sm_active", "device=\"1\"", 0.415));
}

#[test]
fn xpu_and_mtia_read() {
    let xpu = trace_of(
        r#""cat": "kernel", "name": "gemm_kernel", "pid": 0, "tid": 3, "args": {"device": 0, "context": "0x1", "sycl queue": "0x2", "correlation": 9}"#,
    );
    assert_eq!((xpu.tables.device_events.stream[0], xpu.tables.device_events.correlation[0]), (3, 9));
    let work = trace_of(r#""cat": "mtia_ccp_events", "name": "pe_exe", "pid": 17, "tid": 3910, "args": {"stream": 112, "packet_ptr": 15}"#);
    assert_eq!((work.tables.device_events.device[0], work.text(work.tables.devices.vendor[0])), (17, "meta"));
    let wait = trace_of(r#""cat": "mtia_ccp_events", "name": "event_wait", "pid": 17, "tid": 3774, "args": {"stream": 108}"#);
    assert!(wait.tables.device_events.device.is_empty(), "a wait is no work");
    assert_eq!(wait.text(wait.tables.host_events.kind[0]), "sync");
}

#[test]
fn operators_and_frames_come_when_asked_for() {
    let path = data("traces/bert_h100.json.gz");
    let options = Options { host_frames: true, ..Options::default() };
    let capture = ingest::read(&[path], &options).unwrap();
    let count = |kind: &str| capture.tables.host_events.kind.iter().filter(|name| capture.text(*name) == kind).count();
    assert!(count("op") > 50 && count("frame") > 100, "{} {}", count("op"), count("frame"));
}
