//! Steps, repeating work, and two recordings compared.

use analysis::device::{DeviceView, StepSource, compare};

use super::recording::Recording;

/// Decode steps of `kernels` kernels, each ended by a gap of the host.
fn decoding(steps: i64, sequences: i64, gap: i64) -> Recording {
    let mut recording = Recording::new();
    let mut t = 1_000;
    for step in 0..steps {
        let start = t;
        for at in 0..10 {
            let correlation = (step * 10 + at + 1) as u32;
            recording.launched("nvjet_a", t - 10, (t, t + 100), correlation);
            t += 110;
        }
        recording.host("annotation", &format!("execute_context_0(0)_generation_{sequences}({sequences})"), (start - 20, t - 100), 0);
        t += gap;
    }
    recording
}

#[test]
fn steps_of_an_engine_have_an_account_each() {
    let view = decoding(5, 32, 500).view();
    let steps = &view.lanes[0].steps;
    assert_eq!((steps.source, steps.count(), steps.outside_kernels), (Some(StepSource::Engine), 5, 0));
    let phase = &steps.phases[0];
    assert_eq!((phase.phase.as_str(), phase.steps, phase.tokens, phase.account.kernels), ("decode", 5, 160, 50));
    assert_eq!((phase.time.p50_ns, phase.account.busy_ns, phase.account.idle_ns), (1_090, 5_000, 450));
    assert_eq!(steps.gap.p50_ns, 510);
    // The host left its steps for 400 of each 510 between the last kernel and the next call.
    assert!(view.lanes[0].idle.parts.between_steps_ns > 4 * 400);
}

#[test]
fn replays_of_whole_steps_are_steps() {
    let mut recording = Recording::new();
    for step in 0..4i64 {
        recording.call("cudaGraphLaunch", (step * 100_000, step * 100_000 + 10), step as u32 + 1);
        for at in 0..120i64 {
            let start = step * 100_000 + 1_000 + at * 100;
            recording.kernel("nvjet_a", (start, start + 90), step as u32 + 1);
        }
    }
    let steps = recording.view().lanes[0].steps.clone();
    assert_eq!((steps.source, steps.count(), steps.phases[0].account.graph_kernels), (Some(StepSource::Replay), 4, 480));
}

#[test]
fn ranges_that_repeat_are_steps() {
    let mut recording = Recording::new();
    for at in 0..5i64 {
        recording.host("annotation", &format!("my step {at}"), (at * 1_000, at * 1_000 + 900), 0);
        recording.host("annotation", "a part of it", (at * 1_000 + 10, at * 1_000 + 100), 0);
        recording.launched("nvjet_a", at * 1_000 + 50, (at * 1_000 + 200, at * 1_000 + 800), at as u32 + 1);
    }
    let steps = recording.view().lanes[0].steps.clone();
    assert_eq!((steps.source, steps.count()), (Some(StepSource::Range), 5));
}

/// Blocks with a long and a short attention kernel, cut out of a longer run.
fn blocks(count: i64, gap: i64) -> DeviceView {
    let mut recording = Recording::new();
    let (mut t, mut correlation) = (0, 0);
    let mut put = |recording: &mut Recording, name: &str, length: i64, wait: i64| {
        correlation += 1;
        recording.launched(name, t + wait - 5, (t + wait, t + wait + length), correlation);
        t += wait + length;
    };
    put(&mut recording, "void flash::flash_fwd_kernel<A>(int)", 1_000, 0);
    for _ in 0..count {
        for at in 0..12 {
            put(&mut recording, if at % 2 == 0 { "nvjet_tst_192x192_TNN" } else { "triton_poi_fused_add_1" }, 300, 10);
        }
        put(&mut recording, "void flash::flash_fwd_kernel<A>(int)", 8_000, gap);
        for _ in 0..7 {
            put(&mut recording, "nvjet_tst_64x64_TNN", 200, 10);
        }
        put(&mut recording, "void flash::flash_fwd_kernel<A>(int)", 1_000, 10);
    }
    recording.view()
}

#[test]
fn alternating_anchors_make_one_unit() {
    let unit = blocks(10, 100).lanes[0].unit.clone().unwrap();
    assert_eq!((unit.anchor.as_str(), unit.anchors_per_unit, unit.count), ("flash_fwd_kernel", 2, 9));
    // 12 x 310 + 8,000 + 100 + 7 x 210 + 1,010.
    assert_eq!((unit.mean_ns(), unit.time.p50_ns), (14_300, 14_300));
    assert_eq!(unit.account.kernels, 9 * 21);
}

#[test]
fn the_same_work_is_compared_whatever_the_window() {
    // Fewer blocks in the slower recording: sums would call it faster.
    let comparison = compare(&blocks(10, 100), &blocks(8, 2_100));
    let lane = &comparison.lanes[0];
    assert_eq!((lane.unit.as_str(), lane.units), ("2 x flash_fwd_kernel", [9, 7]));
    assert_eq!(lane.mean_ns, [14_300.0, 16_300.0]);
    let moved = |what: &str| lane.account.iter().find(|row| row.what == what).unwrap().delta_ns();
    assert!((moved("idle: host") - 2_000.0).abs() < 1e-6 && moved("compute").abs() < 1e-6);
    assert!(lane.categories.iter().chain(&lane.kernels).all(|row| row.delta_ns().abs() < 1e-6));
    assert_eq!(compare(&blocks(10, 100), &decoding(5, 32, 500).view()).left_out.len(), 1);
}

#[test]
fn steps_of_different_size_are_compared_by_token() {
    let (small, large) = (decoding(5, 32, 500).view(), decoding(5, 64, 500).view());
    let by_step = compare(&small, &small);
    assert_eq!((by_step.lanes[0].unit.as_str(), by_step.lanes[0].ratio()), ("decode step", 1.0));
    let by_token = compare(&small, &large);
    assert_eq!((by_token.lanes[0].unit.as_str(), by_token.lanes[0].ratio()), ("token of decode", 0.5));
}

#[test]
fn the_order_of_rows_does_not_matter() {
    let recording = decoding(5, 32, 500);
    let mut turned = Recording::new();
    turned.capture = recording.capture.clone();
    let count = turned.capture.tables.device_events.t_start_ns.len();
    let mut rows: Vec<_> = turned.capture.tables.device_events.rows().collect();
    rows.reverse();
    turned.capture.tables.device_events = capture::DeviceEvents::default();
    rows.into_iter().for_each(|row| turned.capture.tables.device_events.push(row));
    assert_eq!(count, 50);
    // Read without bringing the rows into order first.
    assert_eq!(DeviceView::read(&turned.capture, 0).unwrap(), DeviceView::read(&recording.capture, 0).unwrap());
}
