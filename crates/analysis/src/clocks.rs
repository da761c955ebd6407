//! Clocks of the device against what they could be, and why they are lower.

use capture::labels;

use crate::device_step::figure_of;
use crate::evidence::{Evidence, Figures};

/// A clock now and at its best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// Typical clock, Hz.
    pub now_hz: f64,
    /// Its nominal maximum, else the highest seen in this system, Hz.
    pub best_hz: f64,
    /// True when the best is the nominal clock, false for the highest seen.
    pub is_nominal: bool,
}

impl Clock {
    /// Clock over its best, at most 1.
    pub fn ratio(&self) -> f64 {
        (self.now_hz / self.best_hz).clamp(0.0, 1.0)
    }
}

/// Reads `gpu.mem_clock` or `gpu.sm_clock` of one arm in one phase; the best is the nominal clock, else the highest of
/// the arm itself.
pub fn read(evidence: &Evidence, signal: &str, phase: &str) -> Option<Clock> {
    let figures = &evidence.figures;
    let labelled = |label: &str| figures.by_label(signal, label);
    let devices: Vec<f64> = labelled("device").into_iter().map(|(_, hz)| hz).collect();
    let slowest = devices.iter().copied().reduce(f64::min);
    let fastest = devices.iter().copied().reduce(f64::max);
    let in_phase = labelled("phase").into_iter().find(|(name, _)| name == phase).map(|(_, hz)| hz);
    // Devices that compute together wait for the slowest.
    let now_hz = in_phase.or(slowest).or_else(|| figure_of(figures, signal)).filter(|hz| *hz > 0.0)?;
    let nominal = figure_of(figures, &format!("{signal}_max")).filter(|hz| *hz > 0.0);
    let seen = [fastest, figures.get(&format!("{signal}.max")), Some(now_hz)].into_iter().flatten().fold(0.0, f64::max);
    Some(Clock { now_hz, best_hz: nominal.unwrap_or(seen), is_nominal: nominal.is_some() })
}

/// Why a clock is lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Too hot, or the board slows itself down.
    Heat,
    /// The board's own emergency brake or supply.
    Brake,
    /// The power limit.
    Power,
}

impl Reason {
    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Heat => "heat",
            Self::Brake => "the power brake",
            Self::Power => "the power limit",
        }
    }

    fn of(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        if name.contains("thermal") || name.contains("hw_slowdown") || name.contains("heat") {
            Some(Self::Heat)
        } else if name.contains("brake") {
            Some(Self::Brake)
        } else if name.contains("power") {
            Some(Self::Power)
        } else {
            None
        }
    }
}

/// Bits of NVML's mask of reasons.
const BITS: [(u64, Reason); 5] =
    [(0x4, Reason::Power), (0x8, Reason::Heat), (0x20, Reason::Heat), (0x40, Reason::Heat), (0x80, Reason::Brake)];

/// Reasons that were active, each with the share of time where one is known.
pub fn reasons(evidence: &Evidence) -> Vec<(Reason, Option<f64>)> {
    let figures = &evidence.figures;
    let mut found: Vec<(Reason, Option<f64>)> = Vec::new();
    let mut add = |reason: Reason, share: Option<f64>| match found.iter_mut().find(|(known, _)| *known == reason) {
        Some((_, known)) => *known = known.map_or(share, |known| Some(known.max(share.unwrap_or(0.0)))),
        None => found.push((reason, share)),
    };
    for (text, value) in with_label(figures, "gpu.throttle_share") {
        if let Some(reason) = Reason::of(&text).filter(|_| value > 0.0) {
            add(reason, Some(value));
        }
    }
    for (text, value) in with_label(figures, "gpu.throttle_reasons") {
        if let Some(reason) = Reason::of(&text).filter(|_| value > 0.0) {
            add(reason, None);
        }
    }
    if let Some(mask) = figures.highest("gpu.throttle_reasons").filter(|mask| mask.fract() == 0.0 && (1.0..1e6).contains(mask)) {
        for (bit, reason) in BITS {
            if mask as u64 & bit != 0 {
                add(reason, None);
            }
        }
    }
    for logged in evidence.logged.get("throttled").into_iter().flat_map(|logged| &logged.fields) {
        if let Some(reason) = Reason::of(logged) {
            add(reason, None);
        }
    }
    found
}

/// Values of a quantity labelled with a reason, whatever the statistic.
fn with_label(figures: &Figures, quantity: &str) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    for (name, figure) in figures.iter() {
        let Some(rest) = name.strip_prefix(quantity) else { continue };
        let Some((_, text)) = rest.split_once('{') else { continue };
        if let Some(reason) = labels::get(text.trim_end_matches('}'), "reason") {
            found.push((reason, figure.value));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_told_apart_by_name() {
        let names = ["sw_power_cap", "hw_thermal_slowdown", "thermal", "hw_power_brake_slowdown", "gpu_idle", "sync_boost"];
        let read: Vec<Option<Reason>> = names.into_iter().map(Reason::of).collect();
        assert_eq!(read, [Some(Reason::Power), Some(Reason::Heat), Some(Reason::Heat), Some(Reason::Brake), None, None]);
    }
}
