//! The cells that claims are made on: request-nanoseconds per phase, exact and exclusive before any check runs.

use std::collections::BTreeMap;

use crate::phase::Phase;

/// Part of a phase between two times. Where only a sum is known a phase is one cell without times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Start, host clock, ns.
    pub t_start_ns: i64,
    /// End.
    pub t_end_ns: i64,
    /// Size in request-nanoseconds: time x requests in this phase.
    pub size_ns: i64,
}

/// All cells of one symptom's unit of analysis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// First-token time that no phase covers, request-ns. A claim on a phase before the first token that was not
    /// measured by itself is served from here.
    pub unsplit_first_ns: i64,
    cells: BTreeMap<Phase, Vec<Cell>>,
}

impl Ledger {
    /// Adds a phase of which only the sum is known.
    pub fn add_sum(&mut self, phase: Phase, size_ns: i64) {
        if size_ns > 0 {
            self.cells.insert(phase, vec![Cell { t_start_ns: 0, t_end_ns: 0, size_ns }]);
        }
    }

    /// Adds a phase whose sum is spread over time like `weights` (start, end, weight): sums size a cell, gauges only
    /// split it. The pieces add up to `size_ns` exactly.
    pub fn add_spread(&mut self, phase: Phase, size_ns: i64, weights: &[(i64, i64, f64)]) {
        let total: f64 = weights.iter().map(|(_, _, weight)| weight.max(0.0)).sum();
        if size_ns <= 0 {
            return;
        }
        if total <= 0.0 {
            self.add_sum(phase, size_ns);
            return;
        }
        let mut cells = Vec::with_capacity(weights.len());
        let (mut seen, mut given) = (0.0, 0i64);
        for &(t_start_ns, t_end_ns, weight) in weights {
            seen += weight.max(0.0);
            let upto = ((seen / total) * size_ns as f64).round() as i64;
            let upto = upto.clamp(given, size_ns);
            if upto > given {
                cells.push(Cell { t_start_ns, t_end_ns, size_ns: upto - given });
                given = upto;
            }
        }
        if let Some(last) = cells.last_mut() {
            last.size_ns += size_ns - given;
        }
        self.cells.insert(phase, cells);
    }

    /// Cells of a phase.
    pub fn cells(&self, phase: Phase) -> &[Cell] {
        self.cells.get(&phase).map_or(&[], Vec::as_slice)
    }

    /// Phases with cells, in order.
    pub fn phases(&self) -> impl Iterator<Item = Phase> + '_ {
        self.cells.keys().copied()
    }

    /// Size of a phase, request-ns.
    pub fn size_ns(&self, phase: Phase) -> i64 {
        self.cells(phase).iter().map(|cell| cell.size_ns).sum()
    }

    /// Size of everything, request-ns.
    pub fn total_ns(&self) -> i64 {
        self.phases().map(|phase| self.size_ns(phase)).sum()
    }

    /// Cuts the cells of a phase at `edges`, so that every run of a claim covers whole cells. A cell's size is split in
    /// proportion to time, exactly.
    pub fn refine(&mut self, phase: Phase, edges: &[i64]) {
        let Some(cells) = self.cells.get_mut(&phase) else { return };
        let mut refined = Vec::with_capacity(cells.len());
        for cell in cells.iter() {
            let length = i128::from(cell.t_end_ns - cell.t_start_ns);
            let mut at = cell.t_start_ns;
            let mut given = 0i64;
            if length > 0 {
                let first = edges.partition_point(|&edge| edge <= cell.t_start_ns);
                for &edge in edges[first..].iter().take_while(|&&edge| edge < cell.t_end_ns) {
                    if edge == at {
                        continue;
                    }
                    let upto = (i128::from(cell.size_ns) * i128::from(edge - cell.t_start_ns) / length) as i64;
                    refined.push(Cell { t_start_ns: at, t_end_ns: edge, size_ns: upto - given });
                    (at, given) = (edge, upto);
                }
            }
            refined.push(Cell { t_start_ns: at, t_end_ns: cell.t_end_ns, size_ns: cell.size_ns - given });
        }
        *cells = refined;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn spreading_and_cutting_keep_the_sum(
            size in 1i64..1_000_000_000_000,
            weights in proptest::collection::vec((0i64..1000, 0.0f64..10.0), 1..40),
            cuts in proptest::collection::vec(0i64..40_000, 0..20),
        ) {
            let mut t = 0;
            let spans: Vec<(i64, i64, f64)> = weights.iter().map(|&(length, weight)| { let from = t; t += length + 1; (from, t, weight) }).collect();
            let mut ledger = Ledger::default();
            ledger.add_spread(Phase::Queue, size, &spans);
            prop_assert_eq!(ledger.total_ns(), size);
            let mut cuts = cuts;
            cuts.sort_unstable();
            ledger.refine(Phase::Queue, &cuts);
            prop_assert_eq!(ledger.total_ns(), size);
            prop_assert!(ledger.cells(Phase::Queue).iter().all(|cell| cell.size_ns >= 0));
        }
    }
}
