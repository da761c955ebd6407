//! How to record what the device does: counters, clocks, kernels, pages; exact commands with what they cost.

use crate::check::{Answer, Missing};
use crate::situation::Situation;

/// A command and its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    command: &'static str,
    cost: &'static str,
}

/// Clocks, power, temperature and the reasons for lower clocks, beside the load.
pub const CLOCKS: Recipe = Recipe {
    command: "nvidia-smi --query-gpu=timestamp,clocks.current.sm,clocks.current.memory,clocks.max.sm,clocks.max.memory,power.draw,enforced.power.limit,temperature.gpu,clocks_event_reasons.active --format=csv -l 1 > nvidia-smi.csv",
    cost: "nothing that shows: one query per second while the load runs",
};
/// The dimensions that explain a busy device.
pub const COUNTERS: Recipe = Recipe {
    command: "dcgmi dmon -e 203,1002,1003,1004,1005,1009,1010 -d 1000 > dcgmi.txt",
    cost: "profiling counters of the driver; no other profiler may run at the same time",
};
/// Kernels, launches, copies and waits of a few steps.
pub const TRACE: Recipe = Recipe {
    command: "nsys profile --trace=cuda,nvtx,osrt --cuda-graph-trace=node --duration=10 --output=steps <the server's command line>",
    cost: "ten seconds under load; steps get a few percent slower, graphs traced by node somewhat more",
};
/// Kernels with the sizes of their operators.
pub const SHAPES: Recipe = Recipe {
    command: "torch.profiler.profile(record_shapes=True) around a few eager steps (vLLM: VLLM_TORCH_PROFILER_DIR=traces VLLM_TORCH_PROFILER_RECORD_SHAPES=1 <the server's command line> --enforce-eager, then POST /start_profile and /stop_profile)",
    cost: "a few seconds of steps under load; the host gets slower by it, so that launches of such a recording say little",
};
/// Kernels with the counters of memory and matrix units beside them.
pub const DEVICE_COUNTERS: Recipe = Recipe {
    command: "nsys profile --trace=cuda,nvtx --cuda-graph-trace=node --gpu-metrics-devices=all --duration=10 --output=steps <the server's command line>",
    cost: "ten seconds under load; counters need the driver's permission (NVreg_RestrictProfilingToAdminUsers=0 or root)",
};
/// Launches with the switches of their threads between CPUs.
pub const SWITCHES: Recipe = Recipe {
    command: "nsys profile --trace=cuda,nvtx,osrt --cpuctxsw=process-tree --cuda-graph-trace=node --duration=10 --output=steps <the server's command line>",
    cost: "ten seconds under load; switches need kernel.perf_event_paranoid of 2 or less",
};
/// One kernel against its own limits.
pub const ONE_KERNEL: Recipe = Recipe {
    command: "ncu --set full --kernel-name regex:<name> --launch-count 5 <a short replay of the workload>",
    cost: "each profiled launch is replayed some forty times: never on a server that serves",
};
/// Where the pages of the process lie.
pub const PAGES: Recipe = Recipe {
    command: "numastat -p <pid of the worker> > numastat.txt; nvidia-smi topo -m",
    cost: "nothing: reads /proc while the load runs",
};
/// The same load once more, with one thing changed.
pub const SECOND_ARM: Recipe = Recipe {
    command: "the same load once more with that one setting changed, handed over as a second [[run]] or with --baseline",
    cost: "a restart and two minutes under the same load",
};
/// The start-up log.
pub const LOG: Recipe = Recipe { command: crate::record::SETTINGS, cost: crate::record::SETTINGS_COST };

/// Cannot tell of recorded kernels: their time is computing, which is no loss before somebody claims it, so that what is not
/// known of them is nobody's rival.
pub fn undecided_of_kernels(signals: &[&str], because: impl Into<String>, recipe: Recipe) -> Answer {
    Answer::CannotTell(Missing {
        signals: signals.iter().map(ToString::to_string).collect(),
        because: because.into(),
        at_most_s: Some(0.0),
        record_with: recipe.command.to_string(),
        record_cost: recipe.cost.to_string(),
    })
}

/// Cannot tell: what is missing, why, and how to record it.
///
/// With a timeline the reference is the server's own law, and what a kernel or a device costs is the same at every load:
/// it is inside that reference and can own nothing of the excess (attribution, section 0.15). A limit that the user set
/// is no such reference, and neither is the computing of a recorded device.
pub fn undecided(situation: &Situation<'_>, signals: &[&str], because: impl Into<String>, recipe: Recipe) -> Answer {
    let own_reference = !situation.is_typed() && !matches!(situation.floors.from, "slo" | "compute");
    Answer::CannotTell(Missing {
        signals: signals.iter().map(ToString::to_string).collect(),
        because: because.into(),
        at_most_s: own_reference.then_some(0.0),
        record_with: recipe.command.to_string(),
        record_cost: recipe.cost.to_string(),
    })
}
