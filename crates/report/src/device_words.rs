//! Words for what a profiler recorded of a device, shared by the views.

use analysis::contract::{DeviceAccount, DeviceDimensions, Roofline, RooflineKernel, RooflineStep};

use crate::phrases::NAME_LIMIT;
use crate::{clean, figures};

/// Categories named beside computing.
const CATEGORIES: usize = 3;
/// Families of kernels named against their roofline.
const KERNELS: usize = 3;
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
        "allocation" => "allocating or freeing memory",
        "data" => "waiting for data",
        "off_cpu" => "host off its CPU",
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
    remarks.extend(against_roofline(device));
    if device.graph_kernels > 0 {
        let share = device.graph_kernels as f64 / device.kernels.max(1) as f64;
        remarks.push(format!("{} of the kernels replayed from graphs", figures::share(share)));
    }
    if device.vendor == "amd" {
        remarks.push("gaps between queued kernels are not visible on this recorder: dispatch is inside the kernels' times".to_string());
    }
    if !device.idle_is_reliable {
        remarks.push("replays were lost by the recorder: idle time may be work".to_string());
    }
    remarks
}

/// Kernels and steps against what the device can do, and what of it is not known.
fn against_roofline(device: &DeviceAccount) -> Vec<String> {
    let of = &device.roofline;
    let mut remarks: Vec<String> = of.steps.iter().map(|step| format!("{} ({})", step_words(step), of.gpu)).collect();
    let named: Vec<String> = of.kernels.iter().take(KERNELS).filter_map(|kernel| kernel_words(device, kernel)).collect();
    if !named.is_empty() {
        remarks.push(format!("kernels against {}: {}", of.gpu, named.join("; ")));
    }
    if !of.not_known.is_empty() {
        remarks.push(format!("roofline not known: {}", of.not_known));
    }
    remarks
}

/// `decode steps: 41 % of the memory bandwidth, 3 % of the arithmetic; memory bounds them at 2.1 ms of 5.2 ms`.
fn step_words(step: &RooflineStep) -> String {
    let name = if step.phase.is_empty() { "steps".to_string() } else { format!("{} steps", clean::name(&step.phase, 12)) };
    let from = if step.from == "model" { "by the model's bytes and tokens" } else { "by the sizes recorded" };
    let each = |total_s: f64| figures::seconds(total_s / step.steps.max(1) as f64);
    format!(
        "{name} {from}: {} of the memory bandwidth, {} of the arithmetic; {} allows {}, they take {}",
        figures::share(step.memory_share),
        figures::share(step.compute_share),
        clean::name(&step.limit, 12),
        each(step.bound_s),
        each(step.time_s)
    )
}

/// `nvjet_tst 12 % of the kernels' time at 55 % of its memory bound`; nothing where the device's peaks are not known.
fn kernel_words(device: &DeviceAccount, kernel: &RooflineKernel) -> Option<String> {
    let kernel_ns: i64 = device.categories.iter().filter(|of| of.category != "copy").map(|of| of.total_ns).sum();
    let share = figures::share(kernel.time_s * 1e9 / kernel_ns.max(1) as f64);
    Some(format!("{} {share} of the time at {}", clean::name(&kernel.family, 32), reached_words(kernel)?))
}

/// `55 % of its memory bound`, `at most 55 %`, `too short to judge`; nothing without a bound.
pub(crate) fn reached_words(kernel: &RooflineKernel) -> Option<String> {
    let (achieved, limit) = (kernel.achieved?, kernel.limit.as_deref()?);
    let bound = format!("{} of its {} bound", figures::share(achieved.min(1.0)), clean::name(limit, 12));
    Some(match (kernel.is_short, achieved > 1.0, kernel.is_at_most) {
        (true, ..) => format!("{bound}, each too short to judge"),
        (_, true, _) => format!("{bound}, with operands in the cache"),
        (_, _, true) => format!("{bound} at most: windows of layers are not known"),
        _ => bound,
    })
}

/// Rows of the table of kernels: family, sizes, time, operations, bytes, least time, what is reached.
pub(crate) fn roofline_rows(of: &Roofline) -> Vec<[String; 7]> {
    let rows = of.kernels.iter().map(|kernel| {
        [
            clean::name(&kernel.family, NAME_LIMIT),
            clean::name(&format!("{} {} {}", kernel.operation, kernel.sizes, kernel.dtype), NAME_LIMIT),
            figures::seconds(kernel.time_s),
            figures::quantity(kernel.flops, "flop"),
            figures::quantity(kernel.bytes, "byte"),
            kernel.bound_s.map_or("not known".to_string(), figures::seconds),
            reached_words(kernel).unwrap_or_else(|| "not known".to_string()),
        ]
    });
    rows.collect()
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
