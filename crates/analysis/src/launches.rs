//! Kernels of one step and what it costs to launch them.

use crate::device_step::{figure_of, step_s};
use crate::evidence::Evidence;
use crate::kernel_time;

/// The host takes about this long for one launch from a framework's eager path; the bare driver call takes half of it,
/// a framework's dispatcher up to four times as much. A kernel shorter than this cannot hide the next launch.
pub const LAUNCH_S: f64 = 5e-6;
/// Graphs carry a step when they hold at least this share of its kernels (attribution, section 6).
pub const REPLAYED: f64 = 0.9;

/// Launches of one decode step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Launches {
    /// The step, s.
    pub step_s: f64,
    /// Kernels in it.
    pub count: Option<f64>,
    /// Device idle between launches over the whole step, s.
    pub gap_s: Option<f64>,
    /// Time in kernels over the whole step, s.
    pub kernels_s: Option<f64>,
    /// Launch call to kernel start, s.
    pub launch_to_start_s: Option<f64>,
    /// Share of kernels replayed from graphs.
    pub graph_share: Option<f64>,
    /// A bare launch call on this host as a bench measured it, s.
    pub bare_launch_s: Option<f64>,
}

impl Launches {
    /// Reads them; `None` where no step is sized.
    pub fn read(evidence: &Evidence) -> Option<Self> {
        let figures = &evidence.figures;
        let decode = |name: &str| {
            figure_of(figures, name)
                .or_else(|| figures.by_label(name, "phase").into_iter().find(|(phase, _)| phase == "decode").map(|(_, value)| value))
        };
        let count = decode("kernel.count_per_step").filter(|count| *count > 0.0);
        let kernels_s = Some(kernel_time::total_s(figures)).filter(|sum| *sum > 0.0);
        let gap = decode("kernel.launch_gap");
        let graph_share = decode("kernel.graph_share");
        let stated = step_s(evidence).map(|(step, _)| step);
        let step = stated.or_else(|| kernels_s.zip(gap).map(|(kernels, gap)| kernels + gap_of_step(gap, count, kernels + gap)))?;
        let gap_s = gap.map(|gap| gap_of_step(gap, count, step));
        let bare_launch_s = figures.get("kernel.launch_cost").filter(|cost| *cost > 0.0);
        Some(Self {
            step_s: step,
            count,
            gap_s,
            kernels_s,
            launch_to_start_s: decode("kernel.launch_to_start"),
            graph_share,
            bare_launch_s,
        })
    }

    /// What the host takes for one launch, s: twice a measured bare call, else [`LAUNCH_S`].
    pub fn launch_s(&self) -> f64 {
        self.bare_launch_s.map_or(LAUNCH_S, |bare| 2.0 * bare)
    }

    /// Mean time of a kernel, s: measured, else at most the step less its gaps over their number.
    pub fn mean_kernel_s(&self) -> Option<f64> {
        let count = self.count?;
        Some(self.kernels_s.unwrap_or((self.step_s - self.gap_s.unwrap_or(0.0)).max(0.0)) / count)
    }

    /// True when the kernels are shorter than their launch: however fast the host is, the device waits for it.
    pub fn is_swarm(&self) -> bool {
        self.kernels_s.is_some() && self.mean_kernel_s().is_some_and(|mean| mean < self.launch_s())
    }

    /// True when graphs replay the step.
    pub fn is_replayed(&self) -> bool {
        self.graph_share.is_some_and(|share| share >= REPLAYED)
    }

    /// Share of the step in which the device waits between launches: measured, else the step less its kernels.
    pub fn idle_share(&self) -> Option<(f64, &'static str)> {
        if let Some(gap) = self.gap_s {
            return Some(((gap / self.step_s).clamp(0.0, 1.0), "kernel.launch_gap"));
        }
        let kernels = self.kernels_s.filter(|kernels| *kernels < self.step_s)?;
        self.count.map(|_| (1.0 - kernels / self.step_s, "step less kernel.time"))
    }
}

/// A gap is typed per step or per launch: one that fits into the step as often as there are kernels is per launch.
fn gap_of_step(gap_s: f64, count: Option<f64>, step_s: f64) -> f64 {
    match count {
        Some(count) if gap_s * count <= 1.05 * step_s => gap_s * count,
        _ => gap_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_per_launch_where_it_fits_that_often() {
        assert!((gap_of_step(8e-6, Some(900.0), 0.012) - 0.0072).abs() < 1e-9);
        assert!((gap_of_step(0.006, Some(900.0), 0.012) - 0.006).abs() < 1e-9);
        assert!((gap_of_step(0.006, None, 0.012) - 0.006).abs() < 1e-9);
    }

    #[test]
    fn a_measured_launch_counts_instead_of_the_usual_one() {
        let launches = Launches { bare_launch_s: Some(4e-6), ..Launches::default() };
        assert!((launches.launch_s() - 8e-6).abs() < 1e-12);
        assert_eq!(Launches::default().launch_s(), LAUNCH_S);
    }

    #[test]
    fn kernels_shorter_than_their_launch_are_a_swarm() {
        let launches = Launches { step_s: 0.012, count: Some(1500.0), kernels_s: Some(0.004), ..Launches::default() };
        assert!(launches.is_swarm());
        let (idle, _) = launches.idle_share().unwrap();
        assert!((idle - 2.0 / 3.0).abs() < 1e-9);
        assert!(!Launches { kernels_s: Some(0.0105), ..launches }.is_swarm());
    }
}
