//! Why a GPU runs below its clock: the bits of NVML's mask of clock event reasons, with nvidia-smi's names for them.
//!
//! `gpu.throttle_reasons` holds the mask as read; importers and checks take it apart here. Only idle and the settings
//! are harmless; which of the others matters is for a check to say.

/// Bit and name of every reason, lowest bit first.
pub const REASONS: &[(u64, &str)] = &[
    (0x1, "gpu_idle"),
    (0x2, "applications_clocks_setting"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal_slowdown"),
    (0x40, "hw_thermal_slowdown"),
    (0x80, "hw_power_brake_slowdown"),
    (0x100, "display_clocks_setting"),
];

/// Names of the reasons in a mask, lowest bit first; bits without a name are left out.
pub fn names(mask: u64) -> impl Iterator<Item = &'static str> {
    REASONS.iter().filter(move |(bit, _)| mask & bit != 0).map(|(_, name)| *name)
}

/// The bit of a reason by name.
pub fn bit(name: &str) -> Option<u64> {
    REASONS.iter().find(|(_, known)| *known == name).map(|(bit, _)| *bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_names() {
        assert_eq!(names(0x44).collect::<Vec<_>>(), ["sw_power_cap", "hw_thermal_slowdown"]);
        assert_eq!(names(0).count() + names(1 << 40).count(), 0);
        assert_eq!(bit("sw_thermal_slowdown"), Some(0x20));
    }
}
