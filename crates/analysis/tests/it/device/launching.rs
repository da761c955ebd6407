//! How work gets to a device.

use analysis::device::timeline::Api;

use super::recording::Recording;

#[test]
fn ids_of_two_processes_do_not_mix() {
    let mut recording = Recording::new();
    recording.call("cudaLaunchKernel", (0, 10), 5).kernel("nvjet_a", (100, 200), 5);
    (recording.process, recording.device) = (8, 1);
    recording.call("cudaLaunchKernel", (50, 60), 5).kernel("nvjet_a", (100, 200), 5);
    let view = recording.view();
    let delays: Vec<i64> = view.lanes.iter().map(|lane| lane.launches.delay.p50_ns).collect();
    assert_eq!(delays, [100, 50]);
}

#[test]
fn ids_far_apart_are_found_too() {
    let mut recording = Recording::new();
    recording.launched("nvjet_a", 0, (100, 200), 3).launched("nvjet_b", 150, (210, 300), 4_000_000_000);
    let launches = recording.view().lanes[0].launches.clone();
    assert_eq!((launches.delay.count, launches.delay.total_ns, launches.unlinked_kernels), (2, 160, 0));
}

#[test]
fn one_graph_launch_has_many_kernels_and_lost_replays_are_told() {
    let mut recording = Recording::new();
    for at in 0..4i64 {
        recording.call("cudaGraphLaunch", (at * 1_000, at * 1_000 + 10), at as u32 + 1);
        // The recorder lost the third replay.
        if at != 2 {
            for kernel in 0..5i64 {
                let start = at * 1_000 + 100 + kernel * 20;
                recording.kernel("nvjet_a", (start, start + 20), at as u32 + 1);
            }
        }
    }
    let view = recording.view();
    let lane = &view.lanes[0];
    let graphs = &lane.launches.graphs;
    assert_eq!((graphs.replays, graphs.launches, graphs.lost_replays, graphs.kernels_per_replay), (3, 4, 1, 5));
    assert_eq!((lane.account.graph_kernels, lane.launches.delay.count), (15, 0));
    assert!(!lane.idle_is_reliable());
}

#[test]
fn work_from_before_the_recording_stays_out_of_launch_figures() {
    let mut recording = Recording::new();
    recording.kernel("nvjet_a", (0, 1_000), 77).launched("nvjet_b", 900, (1_000, 1_100), 1);
    let launches = recording.view().lanes[0].launches.clone();
    assert_eq!((launches.unlinked_kernels, launches.unlinked_kernel_ns, launches.delay.count), (1, 1_000, 1));
}

#[test]
fn kernels_shorter_than_the_hosts_pace_are_counted() {
    let mut recording = Recording::new();
    for at in 0..20i64 {
        let length = if at % 4 == 0 { 5_000 } else { 1_000 };
        recording.launched("nvjet_a", at * 3_000, (at * 3_000 + 500, at * 3_000 + 500 + length), at as u32 + 1);
    }
    let launches = recording.view().lanes[0].launches.clone();
    assert_eq!((launches.host_period_ns, launches.call_ns), (Some(3_000), Some(2)));
    assert_eq!((launches.short_kernels, launches.single_kernels), (15, 20));
}

#[test]
fn a_capture_pass_is_no_work_and_a_server_that_captured_is() {
    let mut recording = Recording::new();
    recording.call("hipStreamBeginCapture", (0, 10), 0);
    for at in 0..50u32 {
        recording.call("hipLaunchKernel", (20 + i64::from(at), 21 + i64::from(at)), at + 1);
    }
    recording.call("hipStreamEndCapture", (100, 110), 0).kernel("fill", (200, 210), 1);
    assert!(recording.view().is_capture_pass);
    recording.call("hipGraphLaunch", (300, 310), 99).kernel("nvjet_a", (400, 500), 99);
    assert!(!recording.view().is_capture_pass);
}

#[test]
fn waits_name_the_op_that_made_them() {
    let mut recording = Recording::new();
    recording.host("op", "aten::item", (0, 1_000), 0).host("op", "aten::_local_scalar_dense", (10, 900), 0);
    recording.call("cudaStreamSynchronize", (100, 800), 0).call("cudaStreamSynchronize", (2_000, 2_100), 0);
    recording.call("cudaMemcpyAsync", (50, 60), 3).event("memcpy", "DtoH Device -> Pageable", (70, 80), 7, 3);
    let view = recording.view();
    let sync = view.calls.iter().find(|call| call.api == Api::Sync).unwrap();
    assert_eq!((sync.time.count, sync.time.total_ns), (2, 800));
    assert_eq!(sync.made_in, [("aten::_local_scalar_dense".to_string(), 1)]);
    assert_eq!(view.calls_that(Api::Sync), (2, 800));
}

#[test]
fn compiling_and_loading_are_told_apart() {
    let mut recording = Recording::new();
    recording.host("overhead", "Lazy Function Loading", (0, 50), 0).call("cuModuleLoadDataEx", (100, 400), 0);
    recording.host("annotation", "compile_fx.<locals>.fw_compiler_base (dynamo_timed)", (500, 900_500), 0);
    recording.host("annotation", "## Call CompiledFxGraph fud64jsrxc ##", (0, 10), 0);
    let loads = recording.view().code_loads;
    let told: Vec<(bool, i64)> = loads.iter().map(|load| (load.compiles, load.time.total_ns)).collect();
    assert_eq!(told, [(true, 900_000), (false, 300), (false, 50)]);
}
