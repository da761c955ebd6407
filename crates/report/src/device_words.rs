//! Words for what a profiler recorded of a device, shared by the views.

use analysis::contract::{DeviceAccount, DeviceDimensions};

use crate::phrases::NAME_LIMIT;
use crate::{clean, figures};

/// Categories named beside computing.
const CATEGORIES: usize = 3;
/// A category below this share of the kernels is not named.
const SMALL: f64 = 0.05;

/// One part of a device's time.
pub(crate) struct Part {
    /// `compute`, `communication`, `copies`, `idle`.
    pub(crate) name: &'static str,
    /// Size.
    pub(crate) ns: i64,
    /// What stands beside it.
    pub(crate) remark: String,
}

/// The parts, which add up to the window. Exchange and copies that never happened are left out.
pub(crate) fn parts(device: &DeviceAccount) -> Vec<Part> {
    let hidden = |all: i64, exposed: i64| {
        if all > exposed { format!("and {} beside kernels", figures::nanoseconds(all - exposed)) } else { String::new() }
    };
    let parts = [
        Part { name: "compute", ns: device.compute_ns, remark: categories(device) },
        Part {
            name: "communication",
            ns: device.exposed_communication_ns,
            remark: hidden(device.communication_ns, device.exposed_communication_ns),
        },
        Part { name: "copies", ns: device.exposed_copy_ns, remark: hidden(device.copy_ns, device.exposed_copy_ns) },
        Part { name: "idle", ns: device.idle_ns, remark: causes(device) },
    ];
    parts.into_iter().filter(|part| part.ns > 0 || part.name == "compute" || part.name == "idle").collect()
}

/// `moe 42 %, gemm 20 %` of the kernels.
fn categories(device: &DeviceAccount) -> String {
    let kernels = || device.categories.iter().filter(|of| !matches!(of.category.as_str(), "copy" | "communication"));
    let all: i64 = kernels().map(|of| of.total_ns).sum();
    let share = |ns: i64| ns as f64 / all.max(1) as f64;
    let named = kernels().filter(|of| share(of.total_ns) >= SMALL).take(CATEGORIES);
    named.map(|of| format!("{} {}", of.category.replace('_', " "), figures::share(share(of.total_ns)))).collect::<Vec<_>>().join(", ")
}

/// Idle time by cause, the largest first.
fn causes(device: &DeviceAccount) -> String {
    let mut causes: Vec<(&str, i64)> = device.idle.iter().map(|(cause, ns)| (cause_words(cause), *ns)).collect();
    causes.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let named = causes.into_iter().take(2).filter(|(_, ns)| *ns * 20 >= device.idle_ns);
    named.map(|(cause, ns)| format!("{cause} {}", figures::nanoseconds(ns))).collect::<Vec<_>>().join(", ")
}

fn cause_words(cause: &str) -> &str {
    match cause {
        "launch" => "queued, not started",
        "host" => "launch came late",
        "sync" => "host in a sync",
        "between_steps" => "between steps",
        "profiler" => "profiler or loading",
        "unlinked" => "launch not recorded",
        other => other,
    }
}

/// `0 NVIDIA B200: 929 kernels and copies, 1 step`.
pub(crate) fn title(device: &DeviceAccount) -> String {
    let name = clean::name(&format!("{} {}", device.device, device.name), NAME_LIMIT);
    let steps: u64 = device.steps.iter().map(|phase| phase.steps).sum();
    let steps = match steps {
        0 => String::new(),
        1 => ", 1 step".to_string(),
        steps => format!(", {} steps", figures::count(steps)),
    };
    format!("{}: {} kernels and copies{steps}", name.trim(), figures::count(device.gpu_events))
}

/// What a reader must know beside the parts.
pub(crate) fn remarks(device: &DeviceAccount) -> Vec<String> {
    let mut remarks = Vec::new();
    let times: Vec<String> = device
        .steps
        .iter()
        .filter(|phase| phase.steps > 1)
        .map(|phase| {
            let name = if matches!(phase.phase.as_str(), "" | "step") { String::new() } else { format!("{} ", phase.phase) };
            format!("{} {name}of {}", figures::count(phase.steps), figures::nanoseconds(phase.p50_ns))
        })
        .collect();
    if !times.is_empty() {
        remarks.push(format!("steps: {}, median", times.join(", ")));
    }
    remarks.push(dimensions(&device.dimensions));
    if device.graph_kernels > 0 {
        let share = device.graph_kernels as f64 / device.kernels.max(1) as f64;
        remarks.push(format!("{} of the kernels replayed from graphs", figures::share(share)));
    }
    if !device.idle_is_reliable {
        remarks.push("replays were lost by the recorder: idle time may be work".to_string());
    }
    remarks
}

/// The lone utilization figure and what explains it: `utilization 99 %; sm_active 40 %, dram_active not recorded`.
fn dimensions(of: &DeviceDimensions) -> String {
    let name = |signal: &str| signal.trim_start_matches("gpu.").to_string();
    let counters = of.counters.iter().map(|counter| format!("{} {}", name(&counter.signal), figures::share(counter.mean)));
    let mut words: Vec<String> = counters.collect();
    if of.unsampled {
        words.push(format!("kernels of {} are shorter than a sample", figures::nanoseconds(of.kernel_p50_ns)));
    }
    if let Some(interval_ns) = of.launch_interval_ns {
        words.push(format!("a launch every {}", figures::nanoseconds(interval_ns)));
    }
    if !of.not_recorded.is_empty() {
        let names: Vec<String> = of.not_recorded.iter().map(|signal| name(signal)).collect();
        words.push(format!("not recorded: {}", names.join(", ")));
    }
    format!("utilization {}; {}", figures::share(of.utilization), words.join("; "))
}

/// `compute 12 %, idle 86 %` in a line.
pub(crate) fn brief(device: &DeviceAccount) -> String {
    let share = |ns: i64| figures::share(ns as f64 / device.window_ns.max(1) as f64);
    parts(device).iter().map(|part| format!("{} {}", part.name, share(part.ns))).collect::<Vec<_>>().join(", ")
}
