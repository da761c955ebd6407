//! Both forms of a trace hold what the capture holds.

use analysis::{DiagnoseOptions, diagnose};
use capture::Capture;
use expect_test::expect;
use proptest::prelude::*;
use report::exports::perfetto::{Form, Written, write};

use crate::decode;
use crate::scene::{self, T0};

fn written(capture: &Capture, form: Form) -> (Vec<u8>, Written) {
    let report = diagnose(capture, &DiagnoseOptions::default());
    let mut bytes = Vec::new();
    let written = write(capture, &report, form, &mut bytes).unwrap();
    (bytes, written)
}

fn listing(trace: &decode::Trace) -> String {
    let mut text = String::new();
    for (track, slices) in &trace.slices {
        for slice in slices.iter().filter(|_| !track.starts_with("inferoscope")) {
            let (start, end) = (slice.start_ns - T0.cast_unsigned(), slice.end_ns - T0.cast_unsigned());
            text.push_str(&format!("{track}: {start}..{end} {} [{}] {}\n", slice.name, slice.category, slice.details.join(", ")));
        }
    }
    for (track, values) in &trace.values {
        let values: Vec<String> = values.iter().map(|(t_ns, value)| format!("{} {value}", t_ns - T0.cast_unsigned())).collect();
        text.push_str(&format!("{track}: {}\n", values.join(", ")));
    }
    text
}

#[test]
fn a_trace_shows_streams_threads_steps_and_gauges() {
    let (bytes, _) = written(&scene::capture(), Form::TrackEvent);
    let trace = decode::trace(&bytes);
    assert_eq!(trace.wall_ns, Some(T0.cast_unsigned()));
    expect![[r#"
        GPU 0 NVIDIA H100 80GB HBM3, rank 1, process 4242 / stream 13: 1500..2500 HtoD Pageable -> Device [copy] bytes=4096, launch=grid=1,2,3 block=128,1,1, correlation=3
        GPU 0 NVIDIA H100 80GB HBM3, rank 1, process 4242 / stream 7: 1000..3000 flash_fwd [attention] launch=grid=1,2,3 block=128,1,1, correlation=1
        GPU 0 NVIDIA H100 80GB HBM3, rank 1, process 4242 / stream 7: 5000..5000 gemm [gemm] launch=grid=1,2,3 block=128,1,1, correlation=2
        GPU 0 NVIDIA H100 80GB HBM3, rank 1, process 4242 / stream 7 (2): 2000..5000 gemm [gemm] launch=grid=1,2,3 block=128,1,1, correlation=2
        engine steps / steps: 0..5000 decode [step] sequences=8
        process 4242 / on stream 7: 1000..5000 step [device_annotation] 
        process 4242 / thread 4242: 0..400 cudaLaunchKernel [runtime] correlation=1
        process 4242 / thread 4242: 500..900 cudaGraphLaunch [runtime] correlation=2
        process 4242 / thread 4242: 0..900 aten::mm [op] 
        process 4242 / thread 4300: 100..200 execute_context_0(0) [annotation] 
        gpu gauges / gpu.sm_active, device 0: 0 0.5, 4000 0.75
    "#]].assert_eq(&listing(&trace));
}

#[test]
fn arrows_lead_from_the_launch_to_the_kernel() {
    let trace = decode::trace(&written(&scene::capture(), Form::TrackEvent).0);
    let slices: Vec<&decode::Slice> = trace.slices.values().flatten().collect();
    let find = |name: &str| slices.iter().find(|slice| slice.name == name).unwrap();
    assert!(find("cudaLaunchKernel").flow_out.is_some());
    assert_eq!(find("cudaLaunchKernel").flow_out, find("flash_fwd").flow_in);
    assert_eq!(find("cudaGraphLaunch").flow_out, find("gemm").flow_in);
    assert_ne!(find("cudaGraphLaunch").flow_out, find("flash_fwd").flow_in);
    assert_eq!((find("aten::mm").depth, find("cudaLaunchKernel").depth), (0, 1));
}

#[test]
fn the_verdict_stands_over_the_events() {
    let trace = decode::trace(&written(&scene::capture(), Form::TrackEvent).0);
    let verdict = &trace.slices["inferoscope / verdict"][0];
    let scene = T0.cast_unsigned()..=T0.cast_unsigned() + 5_000;
    assert!(scene.contains(&verdict.start_ns) && scene.contains(&verdict.end_ns) && verdict.end_ns > verdict.start_ns, "{verdict:?}");
    assert_eq!(verdict.category, "verdict");
    assert!(verdict.details.iter().any(|detail| detail.starts_with("sentence=")), "{verdict:?}");
}

#[test]
fn the_json_form_holds_the_same_slices() {
    let capture = scene::capture();
    let (bytes, counted) = written(&capture, Form::ChromeJson);
    let document: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count() as u64;
    assert_eq!((count("B"), count("E"), count("C")), (counted.slice_count, counted.slice_count, counted.value_count));
    assert_eq!(counted, written(&capture, Form::TrackEvent).1);
    let kernel = events.iter().find(|event| event["name"] == "flash_fwd").unwrap();
    assert_eq!((kernel["cat"].as_str(), kernel["args"]["launch"].as_str()), (Some("attention"), Some("grid=1,2,3 block=128,1,1")));
    assert!(String::from_utf8(bytes).unwrap().contains("\"ts\":1796036992000001.000"));
}

#[test]
fn an_empty_capture_is_a_trace_too() {
    let trace = decode::trace(&written(&Capture::new(), Form::TrackEvent).0);
    assert_eq!(trace.slices.keys().collect::<Vec<_>>(), ["inferoscope / verdict"]);
}

proptest! {
    /// Whatever overlaps whatever: every event is a slice of its own times, or is counted as left out.
    #[test]
    fn every_event_is_there_once(spans in prop::collection::vec((0i64..200, 0i64..60, 0u32..2), 0..120)) {
        let mut capture = Capture::new();
        let (kind, name) = (capture.intern("kernel"), capture.intern("k"));
        for &(start, length, stream) in &spans {
            let (t_start_ns, t_end_ns) = (start, start + length);
            capture.tables.device_events.push(capture::DeviceEvent { t_start_ns, t_end_ns, stream, kind, name, ..Default::default() });
        }
        let (bytes, counted) = written(&capture, Form::TrackEvent);
        let trace = decode::trace(&bytes);
        let mut found: Vec<(u64, u64)> =
            trace.slices.values().flatten().filter(|slice| slice.name == "k").map(|slice| (slice.start_ns, slice.end_ns)).collect();
        let mut expected: Vec<(u64, u64)> =
            spans.iter().map(|&(start, length, _)| (start.cast_unsigned(), (start + length).cast_unsigned())).collect();
        prop_assert_eq!(found.len() as u64 + counted.left_out_count, expected.len() as u64);
        if counted.left_out_count == 0 {
            found.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
