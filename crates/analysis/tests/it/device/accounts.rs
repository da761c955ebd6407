//! Where the time of a device went.

use analysis::device::intervals::{Run, measure, minus, union};
use analysis::device::{Category, DeviceView, IdleParts};
use capture::Capture;
use proptest::prelude::*;

use super::recording::Recording;

#[test]
fn work_in_flight_is_counted_once_by_rank() {
    let mut recording = Recording::new();
    recording.launched("nvjet_a", 0, (100, 200), 1);
    recording.event("kernel", "ncclDevKernel_AllReduce_Sum_bf16", (150, 300), 8, 0);
    recording.event("memcpy", "HtoD Pageable -> Device", (280, 340), 9, 0);
    recording.event("memset", "", (400, 410), 9, 0);
    let view = recording.view();
    let account = &view.lanes[0].account;
    assert_eq!((account.window_ns, account.busy_ns, account.idle_ns), (310, 250, 60));
    assert_eq!((account.compute_ns, account.communication_ns, account.exposed_communication_ns), (100, 150, 100));
    assert_eq!((account.copy_ns, account.exposed_copy_ns), (70, 50));
    assert_eq!((account.gpu_events, account.kernels, account.graph_kernels), (4, 2, 0));
    assert_eq!(account.category_ns(Category::Communication), 150);
    assert_eq!(account.category_ns(Category::Copy), 70);
    let copies = &view.lanes[0].copies;
    assert_eq!((copies[0].direction.as_str(), copies[0].is_pageable(), copies[1].direction.as_str()), ("HtoD", true, "memset"));
}

#[test]
fn idle_time_is_split_by_what_the_host_did() {
    let mut recording = Recording::new();
    recording.host("annotation", "execute_context_0(0)_generation_4(4)", (0, 400), 0);
    recording.host("annotation", "execute_context_0(0)_generation_4(4)", (500, 2_000), 0);
    recording.launched("nvjet_a", 10, (100, 200), 1);
    // Late by 100, of which the host synchronized 30 and the profiler took 20 of the rest; then 50 until it runs.
    recording.call("cudaStreamSynchronize", (190, 230), 0);
    recording.host("overhead", "Lazy Function Loading", (220, 250), 0);
    recording.launched("nvjet_b", 300, (350, 390), 2);
    // Late by 210: 10 in the first step, 100 between the steps, 100 in the second.
    recording.launched("nvjet_c", 600, (600, 700), 3);
    // Launched long before it runs.
    recording.launched("nvjet_d", 650, (710, 800), 4);
    // Nobody knows who launched this.
    recording.kernel("nvjet_e", (900, 910), 0);
    let view = recording.view();
    let idle = &view.lanes[0].idle;
    let expected = IdleParts {
        launch_ns: 60,
        host_ns: 160,
        sync_ns: 30,
        between_steps_ns: 100,
        profiler_ns: 20,
        unlinked_ns: 100,
        ..IdleParts::default()
    };
    assert_eq!(idle.parts, expected);
    assert_eq!(idle.trusted, IdleParts { unlinked_ns: 0, ..expected });
    assert_eq!((idle.host_late_gaps, idle.queued_gaps, idle.unlinked_gaps), (2, 1, 1));
    assert_eq!((idle.longest_ns, idle.longest_start_ns), (210, 390));
    assert_eq!(idle.parts.total_ns(), view.lanes[0].account.idle_ns);
}

#[test]
fn a_host_that_is_late_is_told_with_its_reason() {
    let mut recording = Recording::new();
    recording.host("os", "poll", (0, 5), 0);
    recording.launched("nvjet_a", 0, (100, 200_000), 1);
    // Late by 100,000: 30,000 in an allocation, 20,000 waiting for data, 25,000 off the CPU less 5,000 in a call that waits.
    recording.call("cudaMalloc", (210_000, 240_000), 0).call("cudaFree", (298_000, 299_000), 0);
    recording.host("annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", (235_000, 260_000), 0);
    recording.host("off_cpu", "off_cpu", (265_000, 290_000), 0).host("os", "sem_wait", (270_000, 275_000), 0);
    recording.launched("nvjet_b", 300_000, (300_010, 300_100), 2);
    let view = recording.view();
    let parts = &view.lanes[0].idle.parts;
    assert_eq!((parts.allocation_ns, parts.data_ns, parts.off_cpu_ns, parts.host_ns), (30_000, 20_000, 20_000, 30_000));
    assert_eq!(parts.total_ns(), view.lanes[0].account.idle_ns);
    assert!(view.switches_recorded);
}

#[test]
fn without_calls_that_wait_nothing_tells_that_a_cpu_was_lost() {
    let mut recording = Recording::new();
    recording.launched("nvjet_a", 0, (100, 200_000), 1);
    recording.host("off_cpu", "off_cpu", (210_000, 290_000), 0);
    recording.launched("nvjet_b", 300_000, (300_010, 300_100), 2);
    let view = recording.view();
    assert_eq!((view.lanes[0].idle.parts.off_cpu_ns, view.switches_recorded), (0, false));
}

#[test]
fn idle_time_before_work_of_another_stream_is_not_trusted() {
    let mut recording = Recording::new();
    recording.launched("nvjet_a", 0, (100, 200), 1);
    recording.call("cudaLaunchKernel", (210, 212), 2).event("kernel", "nvjet_b", (300, 400), 9, 2);
    let idle = recording.view().lanes[0].idle.clone();
    assert_eq!((idle.parts.total_ns(), idle.trusted.total_ns()), (100, 0));
}

#[test]
fn a_replay_recorded_as_one_block_is_busy_time() {
    let mut recording = Recording::new();
    recording.call("cudaGraphLaunch", (0, 5), 1).event("graph", "", (100, 900), 7, 1);
    recording.launched("nvjet_a", 20, (900, 1_000), 2);
    let view = recording.view();
    let account = &view.lanes[0].account;
    assert_eq!((account.busy_ns, account.kernels, account.gpu_events), (900, 1, 2));
    assert_eq!(account.category_ns(Category::Graph), 800);
    assert_eq!((view.lanes[0].launches.graphs.replays, view.lanes[0].launches.graphs.opaque_replays), (1, 1));
}

#[test]
fn times_that_are_no_times_are_left_out() {
    let mut recording = Recording::new();
    recording.launched("nvjet_a", 0, (100, 200), 1);
    recording.kernel("nvjet_b", (i64::MIN, i64::MAX), 0).kernel("nvjet_c", (150, i64::MAX), 0).kernel("nvjet_d", (300, 250), 0);
    recording.call("cudaLaunchKernel", (i64::MIN, 0), 9).host("overhead", "Buffer Flush", (0, i64::MAX), 0);
    let view = recording.view();
    assert_eq!((view.dropped_events, view.lanes[0].account.window_ns), (2, 200));
}

#[test]
fn nothing_recorded_is_no_view() {
    assert_eq!(DeviceView::read(&Capture::new(), 0), None);
    let mut recording = Recording::new();
    recording.launched("nvjet_a", 0, (100, 200), 1);
    assert_eq!(DeviceView::read(&recording.capture, 1), None);
}

/// Any mix of events and calls.
fn some_rows() -> impl Strategy<Value = Vec<(u8, i64, i64, u32, u32)>> {
    prop::collection::vec((0u8..6, 0i64..3_000, 0i64..200, 0u32..3, 0u32..20), 1..80)
}

const NAMES: [(&str, &str); 4] = [("kernel", "nvjet_a"), ("kernel", "ncclDevKernel_SendRecv"), ("memcpy", "DtoH"), ("memset", "")];

proptest! {
    #[test]
    fn any_recording_adds_up(rows in some_rows()) {
        let mut recording = Recording::new();
        let mut runs: [Vec<Run>; 3] = Default::default();
        for (what, start, length, stream, correlation) in rows {
            let span = (start, start + length);
            match what {
                4 => { recording.call("cudaLaunchKernel", span, correlation); }
                5 => { recording.call("cudaDeviceSynchronize", span, 0); }
                _ => {
                    let (kind, name) = NAMES[what as usize];
                    recording.event(kind, name, span, stream, correlation);
                    runs[(what as usize).min(2)].push(span);
                }
            }
        }
        let view = recording.view();
        let Some(lane) = view.lanes.first() else { return Ok(()) };
        let [compute, communication, copy] = runs.clone().map(union);
        let kernels = union(runs[..2].concat());
        let all = union(runs.concat());
        prop_assert_eq!(lane.account.compute_ns, measure(&compute));
        prop_assert_eq!(lane.account.exposed_communication_ns, measure(&minus(&communication, &compute)));
        prop_assert_eq!(lane.account.exposed_copy_ns, measure(&minus(&copy, &kernels)));
        prop_assert_eq!(lane.account.busy_ns, measure(&all));
        prop_assert_eq!(lane.idle.parts.total_ns(), lane.account.idle_ns);
        let trusted = lane.idle.trusted.named();
        prop_assert!(lane.idle.parts.named().iter().zip(trusted).all(|(all, trusted)| trusted.1 <= all.1 && trusted.1 >= 0));
    }
}
