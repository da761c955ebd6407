//! The device: what bounds it, what leaves it idle, how far from its limit it is.

use super::read::{host, largest_graph, level, setting};
use super::{Asked, DEVICE_COUNTERS, DEVICE_TRACE, ENGINE_TRACE, question};
use crate::device::LaneView;
use crate::device_roofline::{self, DeviceRoofline, Reached};
use crate::evidence::Series;
use crate::hardware_bound::Hardware;
use crate::on_device::OnDevice;
use crate::phase::Phase;
use crate::precedence::SHARING_ID;
use crate::record;
use crate::situation::Situation;
use crate::words::{count, digits, percent, seconds};

/// What a decode kernel can reach of the counters: DCGM's DRAM activity tops out near 0.8, its tensor activity near 0.6.
const DRAM_REACHABLE: f64 = 0.8;
const TENSOR_REACHABLE: f64 = 0.6;
/// Steps within this factor of the least they can take are at the limit (attribution, section 6).
const AT_LIMIT: f64 = 1.4;
/// The same against a data sheet's peaks, of which good kernels reach 55 to 80 %.
const AT_LIMIT_OF_PEAK: f64 = 2.0;

question!(
    HOST_GAP,
    "host gaps between steps?",
    "Do gaps between steps grow with the batch?",
    [("host_bound_engine", "yes", "no")],
    ENGINE_TRACE,
    |s, _| match s.evidence.figures.typical("engine.host_gap") {
        Some(gap) => Asked::new("measured", seconds(gap)),
        None => Asked::cannot_tell("needs an engine trace or thread samples"),
    }
);

question!(SHARING, "only batching?", "Is the excess what the step law predicts for this batch?", [], record::SCRAPES, |_, settlement| {
    let share = settlement.share(SHARING_ID).mid;
    Asked::yes_no(share >= 0.75, percent(share))
});

question!(
    CLASSIFY,
    "compute, memory or waiting?",
    "Do the four dimensions say compute, memory or waiting?",
    [],
    DEVICE_COUNTERS,
    |s, _| match (level(s, "gpu.sm_active"), level(s, "gpu.dram_active"), level(s, "gpu.tensor_active")) {
        (Some(sm), Some(dram), tensor) => Asked::new(
            if dram / DRAM_REACHABLE >= 0.8 {
                "memory"
            } else if tensor.map_or(sm >= 0.8, |tensor| tensor / TENSOR_REACHABLE >= 0.8) {
                "compute"
            } else {
                "waiting"
            },
            format!(
                "dram_active {}, sm_active {}{}",
                percent(dram),
                percent(sm),
                tensor.map_or_else(String::new, |tensor| format!(", tensor_active {}", percent(tensor)))
            ),
        ),
        _ => recorded_waits(s).unwrap_or_else(|| Asked::cannot_tell("needs sm_active, dram_active, tensor_active (DCGM profiling fields)")),
    }
);

/// What the devices wait for, where a profiler recorded them and they compute less than half of the time.
fn recorded_waits(situation: &Situation<'_>) -> Option<Asked> {
    let device = OnDevice::of(situation)?;
    let share = |of: fn(&LaneView) -> i64| device.share(device.sum_ns(of));
    let compute = share(|lane| lane.account.compute_ns);
    let (copies, exchange) = (share(|lane| lane.account.exposed_copy_ns), share(|lane| lane.account.exposed_communication_ns));
    let idle = share(|lane| lane.account.idle_ns);
    (compute < 0.5).then(|| {
        Asked::new(
            "waiting",
            format!(
                "kernels compute {} of the time; idle {}, copies {}, exchange {}",
                percent(compute),
                percent(idle),
                percent(copies),
                percent(exchange)
            ),
        )
    })
}

/// Recorded kernels against the least that operators of their sizes need, where the sizes of most are known.
fn recorded_roofline(situation: &Situation<'_>) -> Option<Asked> {
    let reached: Vec<Reached> =
        device_roofline::read(situation.subject, situation.evidence).iter().map(DeviceRoofline::reached).collect::<Option<_>>()?;
    let (time_s, bound_s) = reached.iter().fold((0.0, 0.0), |sum, of| (sum.0 + of.time_s, sum.1 + of.bound_s));
    (bound_s > 0.0).then(|| {
        Asked::yes_no(time_s >= AT_LIMIT_OF_PEAK * bound_s, format!("{}x the least that their sizes need", digits(time_s / bound_s)))
    })
}

/// What leaves the devices idle, where a profiler recorded them.
fn recorded_gaps(situation: &Situation<'_>) -> Option<Asked> {
    let device = OnDevice::of(situation).filter(OnDevice::has_calls)?;
    let syncs = device.syncs().unplanned_ns;
    let parts = [
        ("launches", device.late_launch_ns()),
        ("syncs", syncs),
        ("host", device.idle.between_steps_ns),
        ("starts of kernels", device.queued_start_ns()),
    ];
    let (what, ns) = parts.into_iter().max_by_key(|(_, ns)| *ns)?;
    let share = device.share(ns);
    let answer = if share < 0.03 { "none" } else { what };
    Some(Asked::new(answer, format!("{} of the devices' time", percent(share))))
}

question!(
    GAPS,
    "gaps between kernels?",
    "Do launches, syncs or the host leave the device idle?",
    [("launch_bound_steps", "launches", "none"), ("unexpected_syncs", "syncs", "none"), ("host_bound_engine", "host", "none")],
    DEVICE_TRACE,
    |s, _| {
        if let Some(asked) = recorded_gaps(s) {
            return asked;
        }
        let parts = [("launches", "kernel.launch_gap"), ("syncs", "kernel.sync_wait"), ("host", "engine.host_gap")];
        let known: Vec<(&str, f64)> = parts.iter().filter_map(|(what, signal)| Some((*what, level(s, signal)?))).collect();
        let Some(&(largest, time_s)) = known.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else {
            return Asked::cannot_tell("needs a device trace");
        };
        let step_s = level(s, "engine.step_time");
        let small = time_s <= 0.0 || step_s.is_some_and(|step_s| time_s < 0.03 * step_s);
        let of = step_s.map_or_else(String::new, |step_s| format!(" of a step of {}", seconds(step_s)));
        Asked::new(if small { "none" } else { largest }, format!("{}{of}", seconds(time_s)))
    }
);

question!(
    GRAPHS,
    "graphs replayed?",
    "Are captured graphs replayed, and if not, why?",
    [("graph_fallback", "no", "yes")],
    DEVICE_TRACE,
    |s, _| {
        let batch = s.load.running_max;
        if s.evidence.settings.flag("config.enforce_eager") == Some(true) {
            return Asked::new("no", if s.subject.device == "CPU" { "a CPU backend has no graphs" } else { "enforce_eager is set" });
        }
        if let Some(device) = OnDevice::of(s) {
            let share = device.graph_share();
            return Asked::yes_no(share >= 0.5, format!("{} of the kernels come from a replay", percent(share)));
        }
        if let Some(share) = level(s, "kernel.graph_share") {
            return Asked::yes_no(share >= 0.9, format!("{} of the kernels come from a replay", percent(share)));
        }
        match largest_graph(s) {
            Some(size) if batch > size => Asked::new("no", format!("{} run, the largest graph holds {}", count(batch), count(size))),
            _ if setting(s, "config.graph_mode").eq_ignore_ascii_case("none") => Asked::new("no", "graph_mode is none"),
            _ => Asked::cannot_tell("needs the graph share of launches or a trace"),
        }
    }
);

question!(
    ROOFLINE,
    "kernels off their roofline?",
    "Do kernels run below what their bytes and operations allow?",
    [
        ("mismatched_attention_backend", "yes", "no"),
        ("mismatched_gemm_backend", "yes", "no"),
        ("low_occupancy_kernels", "yes", "no"),
        ("unfused_small_kernels", "yes", "no"),
    ],
    DEVICE_TRACE,
    |s, _| match level(s, "kernel.time").zip(level(s, "kernel.time_ideal")) {
        Some((time_s, ideal_s)) if ideal_s > 0.0 =>
            Asked::yes_no(time_s >= AT_LIMIT * ideal_s, format!("{}x what they could take", digits(time_s / ideal_s))),
        _ => match level(s, "kernel.dram_share") {
            Some(share) => Asked::yes_no(share < 1.0 / AT_LIMIT, format!("{} of the reachable bandwidth", percent(share))),
            None => recorded_roofline(s).unwrap_or_else(|| Asked::cannot_tell("needs a device trace with sizes of kernels")),
        },
    }
);

question!(
    DEVICE_AT_LIMIT,
    "device at its limit?",
    "Is the device at a physical limit?",
    [("bandwidth_bound_decode", "yes", "no"), ("compute_bound_prefill", "yes", "no")],
    DEVICE_COUNTERS,
    |s, _| match (level(s, "gpu.dram_active"), level(s, "gpu.tensor_active")) {
        (None, None) => match step_distance(s) {
            Some(factor) => Asked::yes_no(factor <= AT_LIMIT, format!("a step takes {}x the least it can", digits(factor))),
            None => Asked::cannot_tell("needs dram_active and tensor_active"),
        },
        (dram, tensor) => {
            let (dram, tensor) = (dram.unwrap_or(0.0) / DRAM_REACHABLE, tensor.unwrap_or(0.0) / TENSOR_REACHABLE);
            Asked::yes_no(
                dram >= 0.9 || tensor >= 0.9,
                format!("memory {}; tensor {} of what can be reached", percent(dram), percent(tensor)),
            )
        }
    }
);

/// Mean decode step over the least it can take, where model and device are known.
fn step_distance(situation: &Situation<'_>) -> Option<f64> {
    let hardware = Hardware::find(situation.subject, &situation.evidence.settings)?;
    let step_s = situation.phase_s(Phase::Decode) / (situation.load.output_tokens? - 1.0).max(1.0);
    let distance = hardware.distance(&situation.load, situation.load.running_mean / situation.load.engines(), step_s)?;
    (distance.factor >= 0.9).then_some(distance.factor)
}

question!(
    CLOCKS,
    "clocks down?",
    "Is the clock that governs the bound below its nominal?",
    [("clock_throttling", "yes", "no")],
    DEVICE_COUNTERS,
    |s, _| {
        let ratio = |now: &str, nominal: &str| {
            let peak = host(s.evidence, now).map(Series::max).reduce(f64::max);
            level(s, nominal).or(peak).filter(|&nominal| nominal > 0.0).and_then(|nominal| Some(level(s, now)? / nominal))
        };
        match (ratio("gpu.mem_clock", "gpu.mem_clock_max"), ratio("gpu.sm_clock", "gpu.sm_clock_max")) {
            (None, None) => Asked::cannot_tell("needs SM and memory clocks over time"),
            (memory, sm) => {
                // Decoding follows the memory clock; the SM clock serves where the other is not known.
                let (which, ratio) = memory.map_or_else(|| ("SM", sm.unwrap_or(1.0)), |memory| ("memory", memory));
                Asked::yes_no(ratio < 0.95, format!("{which} clock at {} of its highest", percent(ratio)))
            }
        }
    }
);
