//! Expert kernels of recorded ranks: how far one rank has more of them than the others, beside equal work elsewhere.

use crate::device::{Category, LaneView};
use crate::on_device::OnDevice;

/// Expert kernels against all other computing of each rank.
#[derive(Clone, Debug, PartialEq)]
pub struct UnevenExperts {
    /// Label of the rank with most.
    pub hottest: String,
    /// Ranks.
    pub ranks: usize,
    /// Most over mean.
    pub max_over_mean: f64,
    /// The same of what else the ranks compute: near 1 where they have equal work.
    pub others_max_over_mean: f64,
    /// Expert kernels' share of what the ranks compute.
    pub of_computing: f64,
    /// What the other ranks have less than the hottest, as far as they wait in communication that nothing hides, ns.
    pub waited_ns: i64,
}

/// Expert kernels below this share of computing make no rank wait.
const CARRY: f64 = 0.10;

/// Reads it; nothing with fewer than two ranks, or without expert kernels on each.
pub fn read(device: &OnDevice<'_>) -> Option<UnevenExperts> {
    let lanes: Vec<&LaneView> = device.view.lanes.iter().filter(|lane| lane.account.kernels > 0).collect();
    if lanes.len() < 2 {
        return None;
    }
    let each: Vec<(f64, f64)> = lanes.iter().map(|lane| parts(lane)).collect();
    let n = each.len() as f64;
    let (experts, others) = each.iter().fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
    if each.iter().any(|(experts, others)| *experts <= 0.0 || *others <= 0.0) || experts < CARRY * (experts + others) {
        return None;
    }
    let over_mean = |of: fn(&(f64, f64)) -> f64| {
        let sum: f64 = each.iter().map(of).sum();
        each.iter().map(of).fold(0.0, f64::max) * n / sum
    };
    let (at, most) = each.iter().enumerate().map(|(at, part)| (at, part.0)).max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    let waited = |(lane, part): (&&LaneView, &(f64, f64))| (most - part.0).min(lane.account.exposed_communication_ns as f64);
    Some(UnevenExperts {
        hottest: lanes[at].label.clone(),
        ranks: lanes.len(),
        max_over_mean: over_mean(|part| part.0),
        others_max_over_mean: over_mean(|part| part.1),
        of_computing: experts / (experts + others),
        waited_ns: lanes.iter().zip(&each).map(waited).sum::<f64>() as i64,
    })
}

impl UnevenExperts {
    /// True where experts are uneven beyond noise while the rest is not half as much: else the ranks differ as a whole.
    pub fn is_material(&self) -> bool {
        self.max_over_mean > 1.1 && self.others_max_over_mean - 1.0 < 0.5 * (self.max_over_mean - 1.0)
    }
}

/// Time of expert kernels and of the other computing kernels, ns.
fn parts(lane: &LaneView) -> (f64, f64) {
    let is_computing = |category: Category| !matches!(category, Category::Copy | Category::Communication);
    let computing = lane.account.categories.iter().filter(|total| is_computing(total.category));
    computing.fold((0.0, 0.0), |sum, total| match total.category {
        Category::Moe => (sum.0 + total.total_ns as f64, sum.1),
        _ => (sum.0, sum.1 + total.total_ns as f64),
    })
}
