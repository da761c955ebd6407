//! How wide forecasts are: errors on groups of rows that a fit did not see, for times and for ratios.
//!
//! Groups that were left out still share models and devices with the rest, so the width is widened by [`UNSEEN_MODEL`] for
//! a model that was never seen. The tests hold the stated ranges against models left out entirely.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::fit::{Fit, fit};
use super::{Band, Observation};
use crate::deployment::{Deployment, Load};
use crate::memory::plausible;

/// What the log width of a range is multiplied by, for models that no group had.
pub const UNSEEN_MODEL: f64 = 1.25;

/// Requests per seat of the published runs. Their tables do not say; ten is what the harness of most of them sends.
pub const REQUESTS_PER_SEAT: f64 = 10.0;

/// Most fits that the groups left out take.
const MOST_FOLDS: usize = 40;

/// Width when there is nothing to measure it on: a factor of two.
const UNKNOWN_WIDTH: f64 = std::f64::consts::LN_2;

/// Fewest pairs on which a lever's own width is measured; fewer borrow the width of all.
const LEAST_PAIRS: usize = 12;

/// What can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lever {
    /// Requests in flight.
    Concurrency,
    /// Tensor-parallel ranks.
    Tensor,
    /// Number format of weights or cache.
    Precision,
    /// Prompt tokens to compute.
    Prompt,
    /// Output tokens.
    Output,
    /// Prompts on devices of their own.
    Split,
    /// Anything else: device, model, pipeline, data parallelism, drafting, limits.
    Other,
}

impl Lever {
    /// The levers that published runs can score.
    pub const SCORED: [Self; 5] = [Self::Concurrency, Self::Tensor, Self::Precision, Self::Prompt, Self::Output];

    /// Words for tables.
    pub fn words(self) -> &'static str {
        match self {
            Self::Concurrency => "batch x2",
            Self::Tensor => "tensor x2",
            Self::Precision => "precision down",
            Self::Prompt => "prompt longer",
            Self::Output => "output longer",
            Self::Split => "prefill apart",
            Self::Other => "other",
        }
    }

    /// The levers that differ between two situations, with the size of the move in doublings.
    pub fn moved(old: (&Deployment, &Load), new: (&Deployment, &Load)) -> Vec<(Self, f64)> {
        let doublings = |a: f64, b: f64| (plausible(b).max(1e-9) / plausible(a).max(1e-9)).log2().abs();
        let mut moved = Vec::new();
        let mut add = |lever, size: f64| {
            if size > 0.0 {
                moved.push((lever, size));
            }
        };
        add(Self::Concurrency, doublings(old.1.concurrency, new.1.concurrency));
        add(Self::Tensor, doublings(f64::from(old.0.tensor.max(1)), f64::from(new.0.tensor.max(1))));
        let bytes = |d: &Deployment| (d.weights.bytes_per_param(), d.kv.bytes_per_param());
        let (before, after) = (bytes(old.0), bytes(new.0));
        add(Self::Precision, doublings(before.0, after.0).max(doublings(before.1, after.1)));
        add(Self::Prompt, doublings(old.1.new_tokens(), new.1.new_tokens()));
        add(Self::Output, doublings(old.1.output_tokens, new.1.output_tokens));
        let same_otherwise = Deployment { tensor: old.0.tensor, weights: old.0.weights, kv: old.0.kv, ..*new.0 } == *old.0;
        add(Self::Other, if same_otherwise { 0.0 } else { 1.0 });
        moved
    }
}

/// Ranges of ratios, by lever.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeverBands {
    /// For [`Lever::Concurrency`].
    pub concurrency: Band,
    /// For [`Lever::Tensor`].
    pub tensor: Band,
    /// For [`Lever::Precision`].
    pub precision: Band,
    /// For [`Lever::Prompt`].
    pub prompt: Band,
    /// For [`Lever::Output`].
    pub output: Band,
    /// For [`Lever::Other`]: no pair measures it, so it is as wide as a forecast.
    pub other: Band,
}

impl LeverBands {
    /// The band of one lever.
    pub fn of(&self, lever: Lever) -> Band {
        match lever {
            Lever::Concurrency => self.concurrency,
            Lever::Tensor => self.tensor,
            Lever::Precision => self.precision,
            Lever::Prompt => self.prompt,
            Lever::Output => self.output,
            Lever::Split | Lever::Other => self.other,
        }
    }

    /// The band of several moves: log widths add as squares; less than a doubling counts in proportion, more by its root.
    pub fn band(&self, moved: &[(Lever, f64)]) -> Band {
        let squares = moved.iter().map(|(lever, size)| {
            let size = if *size < 1.0 { *size } else { size.sqrt() };
            (self.of(*lever).hi.ln() * size).powi(2)
        });
        Band::symmetric(squares.sum::<f64>().sqrt())
    }

    /// Each band replaced.
    #[must_use]
    pub fn map(self, apply: impl Fn(Band) -> Band) -> Self {
        Self {
            concurrency: apply(self.concurrency),
            tensor: apply(self.tensor),
            precision: apply(self.precision),
            prompt: apply(self.prompt),
            output: apply(self.output),
            other: apply(self.other),
        }
    }
}

/// Two measured runs that differ in one lever: indices of the one before and the one after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// What differs.
    pub lever: Lever,
    /// Index of the run before.
    pub before: usize,
    /// Index of the run after.
    pub after: usize,
}

/// All pairs among `rows`: doublings of concurrency and of tensor parallelism, the next smaller format, the next longer
/// prompt and output. Of repeated runs the first counts.
pub fn pairs(rows: &[&Observation]) -> Vec<Pair> {
    let mut found = Vec::new();
    for lever in Lever::SCORED {
        // Runs alike but for the lever, by the lever's value.
        let mut alike: BTreeMap<Vec<String>, BTreeMap<u64, usize>> = BTreeMap::new();
        for (at, row) in rows.iter().enumerate() {
            alike.entry(key_without(row, lever)).or_default().entry(value_of(row, lever).to_bits()).or_insert(at);
        }
        for values in alike.values() {
            found.extend(pairs_among(lever, values));
        }
    }
    found
}

/// Runs with prefill on the same devices, each beside one like it with prefill on others: what a decoding replica then does.
/// Of repeated runs the first counts.
pub fn splits(rows: &[&Observation]) -> Vec<Pair> {
    let mut alike: BTreeMap<Vec<String>, [Option<usize>; 2]> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        alike.entry(key_without(row, Lever::Split)).or_default()[usize::from(row.disaggregated)].get_or_insert(at);
    }
    let pair = |[together, apart]: &[Option<usize>; 2]| Some(Pair { lever: Lever::Split, before: (*together)?, after: (*apart)? });
    alike.values().filter_map(pair).collect()
}

/// All pairs of runs of one deployment, engine version and load.
pub(crate) fn repeats(rows: &[&Observation]) -> Vec<(usize, usize)> {
    let mut alike: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        alike.entry(key_without(row, Lever::Other)).or_default().push(at);
    }
    let pairs_of = |group: &Vec<usize>| -> Vec<(usize, usize)> {
        group.iter().enumerate().flat_map(|(at, one)| group[at + 1..].iter().map(move |other| (*one, *other))).collect()
    };
    alike.values().flat_map(pairs_of).collect()
}

/// Positive values order as their bits do.
fn pairs_among(lever: Lever, values: &BTreeMap<u64, usize>) -> Vec<Pair> {
    let ordered: Vec<(f64, usize)> = values.iter().map(|(bits, at)| (f64::from_bits(*bits), *at)).collect();
    match lever {
        Lever::Concurrency | Lever::Tensor => ordered
            .iter()
            .filter_map(|(value, before)| values.get(&(value * 2.0).to_bits()).map(|after| Pair { lever, before: *before, after: *after }))
            .collect(),
        Lever::Precision => ordered.windows(2).map(|two| Pair { lever, before: two[1].1, after: two[0].1 }).collect(),
        _ => ordered.windows(2).map(|two| Pair { lever, before: two[0].1, after: two[1].1 }).collect(),
    }
}

fn value_of(row: &Observation, lever: Lever) -> f64 {
    match lever {
        Lever::Concurrency => row.concurrency,
        Lever::Tensor => f64::from(row.tensor),
        Lever::Precision => row.weights.bytes_per_param(),
        Lever::Prompt => row.prompt_tokens,
        Lever::Output => row.output_tokens,
        Lever::Split | Lever::Other => 1.0,
    }
}

fn key_without(row: &Observation, lever: Lever) -> Vec<String> {
    let mut key = vec![row.published_as.clone(), row.gpu.clone(), row.engine.clone(), row.attention_dp.to_string()];
    key.push(if lever == Lever::Split { String::new() } else { row.disaggregated.to_string() });
    // Formats of one model, and both ways to place prefill, are published from different versions.
    key.push(if matches!(lever, Lever::Precision | Lever::Split) { String::new() } else { row.version.clone() });
    // Experts cut by tensor parallelism follow it; experts that lie whole are another deployment.
    key.push(row.expert_parallel.to_string());
    for other in Lever::SCORED {
        key.push(if other == lever { String::new() } else { value_of(row, other).to_string() });
    }
    key
}

/// Forecasts of each row by a fit that did not see its group.
pub(super) struct LeftOut {
    /// Logarithm of measured over predicted TPOT, in the order of the rows.
    tpot: Vec<f64>,
    /// The same for TTFT, where measured.
    ttft: Vec<Option<f64>>,
    /// Predicted TPOT, seconds.
    predicted: Vec<f64>,
    /// Groups.
    pub(super) group_count: usize,
}

/// Leaves each group out once; with more than [`MOST_FOLDS`] groups several at a time.
pub(super) fn leave_groups_out(rows: &[&Observation], whole: &Fit) -> LeftOut {
    let groups: BTreeSet<_> = rows.iter().map(|row| row.group()).collect();
    let mut left =
        LeftOut { tpot: vec![0.0; rows.len()], ttft: vec![None; rows.len()], predicted: vec![0.0; rows.len()], group_count: groups.len() };
    let fold_of: BTreeMap<_, usize> = groups.iter().enumerate().map(|(at, group)| (*group, at % MOST_FOLDS)).collect();
    for fold in 0..groups.len().min(MOST_FOLDS) {
        let rest: Vec<&Observation> = rows.iter().copied().filter(|row| fold_of[&row.group()] != fold).collect();
        // A single group, or one that leaves too little: its own fit, whose error is too small; widened below.
        let c = fit(&rest, Some(&whole.coefficients)).map_or(whole.coefficients, |fitted| fitted.coefficients);
        for (at, row) in rows.iter().enumerate().filter(|(_, row)| fold_of[&row.group()] == fold) {
            let solution = row.closed.solve(&c);
            left.predicted[at] = solution.tpot_s;
            left.tpot[at] = (row.tpot_s / solution.tpot_s).ln();
            left.ttft[at] = row.ttft_s.map(|ttft_s| (ttft_s / solution.ttft_in_run_s(REQUESTS_PER_SEAT)).ln());
        }
    }
    left
}

pub(super) fn tpot_band(left: &LeftOut) -> Band {
    width_of(left.tpot.iter().copied(), left.group_count)
}

pub(super) fn ttft_band(left: &LeftOut) -> Band {
    width_of(left.ttft.iter().flatten().copied(), left.group_count)
}

/// Nine in ten absolute log errors lie within; a single group has only its own residuals, which count double.
fn width_of(errors: impl Iterator<Item = f64>, groups: usize) -> Band {
    let mut sizes: Vec<f64> = errors.filter(|error| error.is_finite()).map(f64::abs).collect();
    let Some(width) = quantile(&mut sizes, 0.9) else { return Band::symmetric(UNKNOWN_WIDTH) };
    Band::symmetric(width * if groups > 1 { UNSEEN_MODEL } else { 2.0 })
}

pub(super) fn lever_bands(rows: &[&Observation], left: &LeftOut) -> LeverBands {
    let all = pairs(rows);
    let error = |pair: &Pair| {
        let measured = rows[pair.after].tpot_s / rows[pair.before].tpot_s;
        let predicted = left.predicted[pair.after] / left.predicted[pair.before];
        (measured / predicted).ln().abs()
    };
    let band = |wanted: Option<Lever>| {
        let mut errors: Vec<f64> = all.iter().filter(|pair| wanted.is_none_or(|lever| pair.lever == lever)).map(error).collect();
        let enough = errors.len() >= LEAST_PAIRS;
        quantile(&mut errors, 0.9).filter(|_| enough).map(|width| Band::symmetric(width * UNSEEN_MODEL))
    };
    let pooled = band(None).unwrap_or(Band::symmetric(UNKNOWN_WIDTH));
    let of = |lever| band(Some(lever)).unwrap_or(pooled);
    LeverBands {
        concurrency: of(Lever::Concurrency),
        tensor: of(Lever::Tensor),
        precision: of(Lever::Precision),
        prompt: of(Lever::Prompt),
        output: of(Lever::Output),
        other: tpot_band(left),
    }
}

/// The smallest value that a share `q` does not exceed; sorts them.
pub(crate) fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let at = ((values.len() as f64 * q).ceil() as usize).saturating_sub(1);
    values.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Dtype;

    #[test]
    fn several_moves_add_as_squares() {
        let one = Band::symmetric(0.1);
        let bands = LeverBands { concurrency: one, tensor: one, precision: one, prompt: one, output: one, other: one };
        let both = bands.band(&[(Lever::Tensor, 1.0), (Lever::Precision, 1.0)]);
        assert!((both.hi.ln() - 0.1 * 2.0f64.sqrt()).abs() < 1e-12);
        assert!((bands.band(&[(Lever::Tensor, 0.5)]).hi.ln() - 0.05).abs() < 1e-12);
        assert_eq!(bands.band(&[]), Band { lo: 1.0, hi: 1.0 });
    }

    #[test]
    fn formats_differ_in_size() {
        let sizes: BTreeSet<u64> = Dtype::ALL.iter().map(|dtype| dtype.bytes_per_param().to_bits()).collect();
        assert_eq!(sizes.len(), Dtype::ALL.len(), "pairs of precision need it");
    }
}
