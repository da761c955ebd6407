//! What kernels had to compute, and what they reach of the device.

use analysis::device::StepPhase;
use analysis::device_roofline;
use analysis::evidence::Evidence;
use capture::Subject;

use super::recording::Recording;

/// A product on an H100 inside the operator that wraps it: 68.7 GFLOP in 100 us are 69 % of 989 TFLOP/s.
fn product(recording: &mut Recording) {
    recording.rank(0, "NVIDIA H100 80GB HBM3");
    recording.host("annotation", "execute_context_1(4096_16777216)_generation_0(0)", (0, 500_000), 0);
    recording.sized("matmul", "b=1 m=1 n=1 k=1", "bf16", (5, 200)).sized("matmul", "b=1 m=4096 n=2048 k=4096", "bf16", (10, 100));
    recording.launched("nvjet_tst_192x128_64x6", 20, (1_000, 95_000), 1);
    recording.launched("splitKreduce_kernel", 40, (95_000, 101_000), 2);
}

#[test]
fn kernels_of_one_operator_are_held_against_its_sizes() {
    let mut recording = Recording::new();
    product(&mut recording);
    // Launched by nobody with sizes, and replayed from a graph: nothing is known.
    recording.launched("nvjet_tst_64x8", 300, (110_000, 120_000), 3);
    let view = recording.view();
    let work = &view.lanes[0].work;
    assert_eq!(work.len(), 1, "{work:?}");
    assert_eq!((work[0].family.as_str(), work[0].count, work[0].time_ns), ("nvjet_tst", 1, 100_000));
    assert_eq!((work[0].flops, work[0].phase), (2.0 * 4096.0 * 2048.0 * 4096.0, StepPhase::Prefill));

    let mut capture = recording.capture.clone();
    capture.canonicalize();
    let evidence = Evidence::read(&capture, 0);
    let roofline = device_roofline::read(&Subject::default(), &evidence);
    let kernel = &roofline[0].kernels[0];
    assert_eq!(roofline[0].gpu.map(|gpu| gpu.id.as_str()), Some("h100-sxm"));
    assert!((kernel.achieved().unwrap() - 68.72e9 / 989.4e12 / 100e-6).abs() < 0.01, "{kernel:?}");
    assert!((roofline[0].covered - 100.0 / 110.0).abs() < 1e-9);
    assert_eq!(kernel.judged().map(|(_, time_s)| time_s), Some(100e-6));
    assert!(!roofline[0].steps[0].by_model && roofline[0].steps[0].compute_share() > 0.5);
}

#[test]
fn a_device_of_no_table_and_short_kernels_are_not_judged() {
    let mut recording = Recording::new();
    recording.rank(0, "Some Accelerator");
    recording.sized("matmul", "b=1 m=1 n=4096 k=4096", "bf16", (10, 100));
    recording.launched("nvjet_tst_64x8", 20, (1_000, 13_000), 1);
    let mut capture = recording.capture.clone();
    capture.canonicalize();
    let evidence = Evidence::read(&capture, 0);
    let roofline = device_roofline::read(&Subject::default(), &evidence);
    assert!(roofline[0].gpu.is_none() && roofline[0].kernels[0].bound.is_none());
    assert_eq!(roofline[0].reached(), None);

    let mut evidence = evidence.clone();
    evidence.device_view.as_mut().unwrap().lanes[0].name = "NVIDIA H200".into();
    let roofline = device_roofline::read(&Subject::default(), &evidence);
    let kernel = &roofline[0].kernels[0];
    assert!(kernel.achieved().is_some() && kernel.judged().is_none(), "12 us are too short to judge");
}

#[test]
fn decode_steps_are_held_against_what_the_model_must_read() {
    let mut recording = Recording::new();
    recording.rank(0, "NVIDIA H100 80GB HBM3");
    let name = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32000sqsq32sqsk32000)";
    recording.host("annotation", name, (0, 900), 0);
    recording.launched("nvjet_tst_64x8", 20, (1_000, 11_460_000), 1);
    let mut capture = recording.capture.clone();
    capture.canonicalize();
    let evidence = Evidence::read(&capture, 0);
    // One recorded rank says nothing of how many share the model: the job has eight.
    let subject = Subject { model: "Llama-3-8B".into(), ..Subject::default() };
    let eighth = device_roofline::read(&subject, &evidence)[0].steps[0];
    let mut evidence = evidence.clone();
    evidence.device_view.as_mut().unwrap().lanes[0].world_size = 1;
    let whole = device_roofline::read(&subject, &evidence)[0].steps[0];
    // `model::roofline` counts 5.73 ms for this step by hand; it took twice that.
    assert!(whole.by_model && (whole.memory_share() - 0.5).abs() < 0.01, "{whole:?}");
    assert!(eighth.memory_share() < 0.15, "{eighth:?}");
}

#[test]
fn long_kernels_on_few_blocks_leave_the_device_empty() {
    let mut recording = Recording::new();
    recording.rank(0, "NVIDIA H100 80GB HBM3");
    recording.capture.tables.devices.sm_count[0] = 132;
    recording.launched("decode_attention", 20, (1_000, 401_000), 1).launched("nvjet_tst", 30, (402_000, 500_000), 2);
    recording.launched("tiny", 40, (501_000, 502_000), 3);
    for (row, shape) in ["grid=8,1,1 block=128,1,1", "grid=132,1,1 block=384,1,1", "grid=1,1,1 block=32,1,1"].iter().enumerate() {
        recording.capture.tables.device_events.shape[row] = recording.capture.intern(shape);
    }
    let fill = recording.view().lanes[0].fill.clone();
    assert_eq!((fill.long_ns, fill.known_ns, fill.thin_ns()), (498_000, 498_000, 400_000));
    assert_eq!((fill.thin[0].family.as_str(), fill.thin[0].blocks, fill.thin[0].count), ("decode_attention", 8, 1));
}
