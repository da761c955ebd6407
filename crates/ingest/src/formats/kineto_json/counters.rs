//! Counters of a device beside its kernels (CUPTI's names), as signals.

/// Signal and what its value is divided by for the base unit. Names are matched by their start: what follows is how values are summed up.
const COUNTERS: &[(&str, &str, f64)] = &[
    ("sm__cycles_active.avg.pct", "gpu.sm_active", 100.0),
    ("sm__warps_active.avg.pct", "gpu.sm_occupancy", 100.0),
    ("sm__pipe_tensor_cycles_active", "gpu.tensor_active", 100.0),
    ("sm__inst_executed_pipe_tensor", "gpu.tensor_active", 100.0),
    ("dram__throughput.avg.pct", "gpu.dram_active", 100.0),
    ("dram__cycles_active.avg.pct", "gpu.dram_active", 100.0),
    ("dram__bytes.sum.per_second", "gpu.dram_bytes", 1.0),
    ("pcie__throughput.sum.per_second", "gpu.pcie_bytes", 1.0),
];

/// The signal that a counter is, if it is one. A share must come as a percentage: sums of cycles are none.
pub(super) fn signal_of(name: &str) -> Option<(&'static str, f64)> {
    let found = COUNTERS.iter().find(|(start, ..)| name.starts_with(start))?;
    let is_share = found.2 > 1.0;
    (!is_share || name.contains("pct")).then_some((found.1, found.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_speak_the_vocabulary() {
        for (_, signal, _) in COUNTERS {
            assert!(capture::signals::resolve(signal).is_some(), "{signal}");
        }
        assert_eq!(signal_of("sm__cycles_active.avg.pct_of_peak_sustained_elapsed"), Some(("gpu.sm_active", 100.0)));
        assert_eq!(signal_of("sm__pipe_tensor_cycles_active.sum"), None);
        assert_eq!(signal_of("smsp__inst_executed.sum"), None);
    }
}
