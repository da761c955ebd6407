//! Recording GPUs through a stand-in for NVIDIA's library. It is compiled by the `cc` that links the tests themselves.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use capture::Capture;
use live::{Processes, RecordPlan, Recorded, record};

fn place(name: &str) -> PathBuf {
    let place = std::env::temp_dir().join(format!("inferoscope-gpu-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir(&place).unwrap();
    place
}

/// The stand-in as a library in `folder`; `None` and a word about it where nothing compiles C.
#[expect(clippy::print_stderr)] // who runs the tests must see it
fn library(folder: &Path, flags: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/nvml_stand_in.c");
    let library = folder.join("libnvidia-ml.so.1");
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).args(flags).arg(source).status();
    let Ok(status) = compiled else {
        let all_required = std::env::var("INFEROSCOPE_REQUIRE").is_ok_and(|value| value == "all");
        assert!(!all_required, "nothing may be skipped, and `cc` is not installed");
        eprintln!("skipped: GPUs through NVIDIA's library, `cc` is not installed");
        return None;
    };
    assert!(status.success(), "the stand-in does not compile");
    Some(library)
}

fn recorded(folder: &Path, nvml: &Path) -> (Recorded, Capture) {
    let plan = RecordPlan {
        targets: Vec::new(),
        logs: Vec::new(),
        processes: Processes::Id(std::process::id()),
        python: false,
        nvml: Some(nvml.to_path_buf()),
        out: folder.join("x.capture"),
        duration: Some(Duration::from_secs(20)),
        interval: Duration::from_millis(100),
        timeout: Duration::from_secs(1),
        profile: None,
    };
    let stop = AtomicBool::new(false);
    let told = record(&plan, &stop, &|told| stop.store(told.host_count >= 5, Ordering::Relaxed)).unwrap();
    let capture = capture::store::open(&plan.out).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    (told, capture)
}

/// What the GPUs told, a line each, however often.
fn told_of(capture: &Capture) -> String {
    let rows = capture.tables.samples.rows().filter(|row| capture.text(row.signal).starts_with("gpu."));
    let lines: BTreeSet<String> =
        rows.map(|row| format!("{}{{{}}} {}\n", capture.text(row.signal), capture.text(row.labels), row.value)).collect();
    lines.into_iter().collect()
}

#[test]
fn gpus_are_recorded_under_the_names_that_every_check_knows() {
    let folder = place("reads");
    let Some(library) = library(&folder, &[]) else { return };
    let (told, capture) = recorded(&folder, &library);
    expect_test::expect![[r#"
        gpu.busy{device="0"} 0.87
        gpu.mem_clock_max{device="0"} 2619000000
        gpu.mem_clock{device="0"} 2619000000
        gpu.memory_busy{device="0"} 0.41
        gpu.memory_total{device="0"} 85899345920
        gpu.memory_used{device="0"} 77309411328
        gpu.pcie_bytes{device="0"} 4000000
        gpu.pcie_gen{device="0"} 5
        gpu.pcie_width{device="0"} 16
        gpu.power_limit{device="0"} 700
        gpu.power{device="0"} 698.5
        gpu.power{device="1"} 698.5
        gpu.sm_clock_max{device="0"} 1980000000
        gpu.sm_clock{device="0"} 1200000000
        gpu.temperature{device="0"} 74
        gpu.throttle_reasons{device="0"} 4
    "#]]
    .assert_eq(&told_of(&capture));
    assert!(told.notes.is_empty(), "{told:?}");
    assert_eq!(capture.manifest.subject.device, "NVIDIA H100 80GB HBM3");
    let power = capture.tables.samples.rows().filter(|row| capture.text(row.signal) == "gpu.power");
    let times: Vec<i64> = power.map(|row| row.t_ns).collect();
    let now_ns = i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap();
    assert!(times.len() >= 4 && times.iter().all(|t_ns| (now_ns - t_ns).abs() < 60_000_000_000), "{times:?}");
}

#[test]
fn a_library_that_hangs_costs_its_own_readings() {
    let folder = place("hangs");
    let Some(library) = library(&folder, &["-DHANGS"]) else { return };
    let (told, capture) = recorded(&folder, &library);
    expect_test::expect!["NVIDIA's library did not come back from a call, GPUs are recorded until then: see whether `nvidia-smi` runs"]
        .assert_eq(&(told.notes.join("\n") + &told_of(&capture)));
    assert!(told.is_finished && told.host_count >= 5, "{told:?}");
}

#[test]
fn without_the_library_nothing_is_said() {
    let folder = place("none");
    let missing = folder.join("no-such-library.so");
    let (told, capture) = recorded(&folder, &missing);
    assert!(told_of(&capture).is_empty());
    // Where a driver is without its library, that is worth a word.
    assert_eq!(told.notes.is_empty(), !Path::new("/dev/nvidiactl").exists(), "{told:?}");
}
