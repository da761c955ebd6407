//! Device time by kind of kernel, and how far each kind is from what its own bytes or operations need.

use crate::device_step::step_s;
use crate::evidence::{Evidence, Figures};

/// A kind of kernel in one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Time per step, s.
    pub time_s: f64,
    /// Time by its own bytes or operations, s, where known.
    pub ideal_s: Option<f64>,
    /// Share of the step, or of all kernels where no step was typed.
    pub share: f64,
    /// Categories it is made of.
    pub names: Vec<String>,
}

/// A good kernel reaches this share of a data sheet's rate: matrix units and memory both top out between 0.7 and 0.85.
pub const GOOD_KERNEL: f64 = 0.75;

impl Family {
    /// Share of the step beyond what a good kernel takes for the same work: with the ideal as the low end of the rest,
    /// `[lo, mid, hi]`.
    pub fn excess(&self) -> Option<[f64; 3]> {
        let ideal = self.ideal_s?;
        let beyond = |best: f64| self.share * (1.0 - best / self.time_s).max(0.0);
        Some([beyond(ideal / 0.5), beyond(ideal / GOOD_KERNEL), beyond(ideal)])
    }

    /// Time over ideal time.
    pub fn factor(&self) -> Option<f64> {
        self.ideal_s.filter(|ideal| *ideal > 0.0).map(|ideal| self.time_s / ideal)
    }
}

/// Words that make a category one of a family; categories are typed by hand.
pub fn family(evidence: &Evidence, words: &[&str]) -> Option<Family> {
    let figures = &evidence.figures;
    let belongs = |name: &str| {
        let name = name.to_ascii_lowercase();
        words.iter().any(|word| name.contains(word))
    };
    let times: Vec<(String, f64)> = figures.by_label("kernel.time", "category").into_iter().filter(|(name, _)| belongs(name)).collect();
    let time_s: f64 = times.iter().map(|(_, time)| time).sum();
    if time_s <= 0.0 {
        return None;
    }
    let ideals: Vec<f64> =
        figures.by_label("kernel.time_ideal", "category").into_iter().filter(|(name, _)| belongs(name)).map(|(_, time)| time).collect();
    let whole = step_s(evidence).map_or(0.0, |(step, _)| step).max(total_s(figures));
    Some(Family {
        time_s,
        ideal_s: (!ideals.is_empty()).then(|| ideals.iter().sum()),
        share: time_s / whole,
        names: times.into_iter().map(|(name, _)| name).collect(),
    })
}

/// True when the kernels typed are of a decode step: only there do weights and cache, read once, say what they may take.
pub fn is_of_decode(evidence: &Evidence) -> bool {
    let figures = &evidence.figures;
    let prompts = ["server.prefill_time", "client.throughput.prompt"].iter().any(|name| figures.anywhere(name).is_some());
    let labelled = figures.by_label("kernel.time", "phase").iter().any(|(phase, _)| phase == "prefill");
    let named = [&evidence.run_name, &evidence.changed].iter().any(|text| text.to_ascii_lowercase().contains("prefill"));
    let large = figures.anywhere("engine.step_tokens").is_some_and(|tokens| tokens > 4.0 * crate::decode_bound::batch(evidence));
    !(prompts || labelled || named || large)
}

/// All kernels of a step, s; 0 where none was typed. A kernel's time without a category is the whole where it stands alone.
pub fn total_s(figures: &Figures) -> f64 {
    let sum: f64 = figures.by_label("kernel.time", "category").iter().map(|(_, time)| time).sum();
    if sum > 0.0 { sum } else { figures.typical("kernel.time").unwrap_or(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_at_half_of_its_peak_has_nothing_sure_to_gain() {
        let family = Family { time_s: 0.008, ideal_s: Some(0.004), share: 0.8, names: Vec::new() };
        let [lo, mid, hi] = family.excess().unwrap();
        assert!(lo.abs() < 1e-12 && (mid - 0.8 / 3.0).abs() < 1e-9 && (hi - 0.4).abs() < 1e-9);
        assert_eq!(family.factor(), Some(2.0));
    }
}
