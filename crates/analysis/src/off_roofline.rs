//! Recorded kernels of one operation against the least that operators of their sizes can take, and kernels that were written
//! for older devices than the one they run on.

use crate::check::figure;
use crate::contract::Evidence;
use crate::device::kernels::{capability, made_for};
use crate::device::{Category, FamilyTotal, LaneView, MatrixUnits, Operation};
use crate::device_roofline::{self, TOO_SHORT_S};
use crate::on_device::OnDevice;
use crate::situation::Situation;
use crate::words::{digits, percent, seconds};

/// A kernel is far off where it takes so many times the least: good kernels reach 55 to 75 % of a data sheet's peaks.
pub const FAR: f64 = 4.0;
/// The same where its name says beside that it is of another device.
pub const FAR_AND_OLD: f64 = 2.5;
/// AMD's devices reach less of their peaks: 708 of 1307 TFLOP/s in BF16 on an MI300X (AMD ROCm blog, "Understanding Peak,
/// Max-Achievable & Delivered FLOPs", 2025), where an H100 reaches three quarters.
const OF_AMD: f64 = 0.75 / (708.0 / 1307.0);
/// What a good kernel reaches of the peak.
const GOOD: f64 = 0.6;

/// How many times the least a kernel on these devices must take to be far off; `is_old` where its name speaks against it.
pub fn far(device: &OnDevice<'_>, is_old: bool) -> f64 {
    let is_amd = device.view.lanes.iter().any(|lane| lane.vendor == "amd");
    if is_old { FAR_AND_OLD } else { FAR * if is_amd { OF_AMD } else { 1.0 } }
}

/// All kernels of one operation whose sizes are known and that are long enough to judge.
#[derive(Clone, Debug, PartialEq)]
pub struct OffRoofline {
    /// Their time, all devices, ns.
    pub time_ns: i64,
    /// Least time, ns.
    pub bound_ns: i64,
    /// The family with most of the excess, and its sizes.
    pub worst: String,
    /// Figures to show.
    pub rows: Vec<Evidence>,
}

impl OffRoofline {
    /// Reads them; nothing where no such kernel can be judged.
    pub fn read(situation: &Situation<'_>, operation: Operation) -> Option<Self> {
        let (mut time_s, mut bound_s) = (0.0, 0.0);
        let mut each: Vec<(f64, String, f64)> = Vec::new();
        for of_device in device_roofline::read(situation.subject, situation.evidence) {
            for kernel in of_device.kernels.iter().filter(|kernel| kernel.operation == operation) {
                let Some((reached, judged_s)) = kernel.judged() else { continue };
                time_s += judged_s;
                bound_s += reached * judged_s;
                each.push((judged_s * (1.0 - reached), format!("{} ({} {})", kernel.family, kernel.sizes, kernel.dtype), reached));
            }
        }
        each.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        each.dedup_by(|a, b| a.1 == b.1);
        let worst = each.first()?.1.clone();
        let rows =
            each.iter().take(3).map(|(_, name, reached)| figure(name, *reached, "ratio", "of its least time by sizes and data sheet"));
        Some(Self { time_ns: (time_s * 1e9) as i64, bound_ns: (bound_s * 1e9) as i64, worst, rows: rows.collect() })
    }

    /// Time over least time.
    pub fn factor(&self) -> f64 {
        self.time_ns as f64 / (self.bound_ns as f64).max(1.0)
    }

    /// What better kernels would save, `[lo, mid, hi]` ns: down to half of the peak, to what good kernels reach, to the peak.
    pub fn excess_ns(&self) -> [i64; 3] {
        [0.5, GOOD, 1.0].map(|reached| (self.time_ns - (self.bound_ns as f64 / reached) as i64).max(0))
    }

    /// `take 4.1x the least that their sizes need (9.2 of 38 ms)`.
    pub fn words(&self) -> String {
        format!(
            "{}x the least that their sizes need ({} of {}; most in {})",
            digits(self.factor()),
            seconds(self.bound_ns as f64 * 1e-9),
            seconds(self.time_ns as f64 * 1e-9),
            self.worst
        )
    }
}

/// Kernels written for older devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Outdated {
    /// Their time, all devices, ns.
    pub time_ns: i64,
    /// What they are, in words: `sm80_xmma_gemm.. is written for sm80, the device is sm90`.
    pub words: String,
}

/// Kernels of some categories that run without the instructions by which this device is fast; nothing where none does.
pub fn outdated(device: &OnDevice<'_>, takes: impl Fn(&FamilyTotal) -> bool) -> Option<Outdated> {
    let mut found: Option<Outdated> = None;
    for lane in &device.view.lanes {
        let Some(capability) = capability(&lane.name) else { continue };
        for of in lane.families.iter().filter(|of| takes(of) && of.matrix != MatrixUnits::NotNeeded && is_long(of)) {
            let Some(made) = made_for(&of.name).filter(|made| is_slower(*made, capability)) else { continue };
            let words = format!("{} is written for sm{made}, the device is sm{capability}", of.family);
            let sum = found.get_or_insert(Outdated { time_ns: 0, words });
            sum.time_ns = sum.time_ns.saturating_add(of.total_ns);
        }
    }
    found
}

/// The matrix instructions of Hopper and of the Blackwell of data centers are reached by kernels of their own; from Turing on
/// to Ada, and on the Blackwell of desktops, one kind of instruction serves all.
fn is_slower(made: u32, capability: u32) -> bool {
    let needs = if (90..120).contains(&capability) { 90 } else { 75 };
    made < needs && capability >= needs
}

/// True where the mean kernel is long enough for its arithmetic to matter.
pub fn is_long(of: &FamilyTotal) -> bool {
    of.total_ns as f64 * 1e-9 >= TOO_SHORT_S * of.count as f64
}

/// Kernel time of some families, all devices, ns.
pub fn time_ns(device: &OnDevice<'_>, takes: impl Fn(&FamilyTotal) -> bool) -> i64 {
    let of_lane = |lane: &LaneView| lane.families.iter().filter(|of| takes(of)).map(|of| of.total_ns).fold(0, i64::saturating_add);
    device.sum_ns(of_lane)
}

/// True for matrix products and those of experts.
pub fn is_product(of: &FamilyTotal) -> bool {
    matches!(of.category, Category::Gemm | Category::Moe)
}

/// `12 % of the devices' time`.
pub fn share_words(device: &OnDevice<'_>, ns: i64) -> String {
    format!("{} of the devices' time", percent(device.share(ns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_kernels_are_slower_where_instructions_changed() {
        assert!(is_slower(80, 90) && is_slower(89, 100) && is_slower(70, 80));
        assert!(!is_slower(90, 100) && !is_slower(80, 89) && !is_slower(80, 120) && !is_slower(75, 80) && !is_slower(70, 70));
    }
}
