//! Which scrapes of a source stand at a believable time.
//!
//! A scrape whose separator holds no usable time, or one far from all others, would stand decades away and stretch
//! every rate to nothing. Beside scrapes with a believable time such a scrape is left out and told. Where no scrape has
//! a believable time the stated times, or the order, are taken as they are.

use std::collections::BTreeSet;

use capture::{Severity, Table};

use crate::builder::Builder;

/// Believable times: September 2001 to 2100.
const BELIEVABLE_NS: std::ops::Range<i64> = 1_000_000_000_000_000_000..4_102_444_800_000_000_000;
/// Scrapes farther apart than this belong to different stretches.
const STRETCH_GAP_NS: u64 = 86_400_000_000_000;

/// One scrape and where its rows start.
pub(super) struct Taken {
    pub(super) t_ns: i64,
    /// The source says the time of this very scrape.
    pub(super) is_stated: bool,
    pub(super) is_clocked: bool,
    /// It holds samples.
    pub(super) is_filled: bool,
    pub(super) number: u64,
    pub(super) line: u64,
    pub(super) samples_from: usize,
    pub(super) histograms_from: usize,
}

/// Leaves out the rows of scrapes without a believable time, and tells the times of the others. True when the source
/// has believable times at all.
pub(super) fn settle(taken: &[Taken], builder: &mut Builder<'_>) -> bool {
    let is_believable = |it: &Taken| it.is_filled && it.is_stated && BELIEVABLE_NS.contains(&it.t_ns);
    let believable: Vec<usize> = (0..taken.len()).filter(|&at| is_believable(&taken[at])).collect();
    let mut left_out = BTreeSet::new();
    if !believable.is_empty() {
        let others = (0..taken.len()).filter(|&at| taken[at].is_filled && !is_believable(&taken[at]));
        left_out.extend(others);
        for &at in &left_out {
            let sentence = "expected `ts=` with the epoch seconds of the scrape, as other scrapes of this source have, found none that can be \
                            used; the scrape is left out";
            builder.issue(Severity::Warning, "scrape_time_unusable", &place(&taken[at]), 1, sentence);
        }
        for at in strays(taken, &believable) {
            left_out.insert(at);
            let sentence =
                "expected a time near that of the scrapes beside it, found one more than a day from them; the scrape is left out";
            builder.issue(Severity::Warning, "scrape_time_unusable", &place(&taken[at]), 1, sentence);
        }
    }
    order_and_cover(taken, &left_out, builder);
    drop_rows(taken, &left_out, builder);
    !believable.is_empty()
}

fn place(taken: &Taken) -> String {
    format!("scrape {} (line {})", taken.number, taken.line)
}

/// Scrapes that stand away from the rest: single ones, and stretches from which the clock came back.
fn strays(taken: &[Taken], believable: &[usize]) -> Vec<usize> {
    let time = |at: &usize| taken[*at].t_ns;
    let is_near = |a: &usize, b: &usize| time(a).abs_diff(time(b)) <= STRETCH_GAP_NS;
    let stretches: Vec<&[usize]> = believable.chunk_by(is_near).collect();
    let singles = stretches.iter().filter(|stretch| stretch.len() == 1).count();
    // Scrapes taken days apart are all single; then being single says nothing.
    let is_single_odd = singles * 2 < believable.len();
    let mut strays = Vec::new();
    for (at, stretch) in stretches.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| stretches.get(before));
        let came_back = before.zip(stretches.get(at + 1)).is_some_and(|(before, after)| {
            before.last().zip(after.first()).is_some_and(|(before_end, after_start)| is_near(before_end, after_start))
                && stretch.len() < before.len() + after.len()
        });
        if came_back || (stretch.len() == 1 && is_single_odd) {
            strays.extend_from_slice(stretch);
        }
    }
    strays
}

/// Tells times that go back, and what the source covers.
fn order_and_cover(taken: &[Taken], left_out: &BTreeSet<usize>, builder: &mut Builder<'_>) {
    let mut last: Option<i64> = None;
    for (at, it) in taken.iter().enumerate() {
        if left_out.contains(&at) {
            continue;
        }
        if let Some(last) = last.filter(|last| it.t_ns < *last) {
            let sentence = format!(
                "expected scrapes in the order of their times, found one {:.3} s before its predecessor: the clock jumped back",
                last.saturating_sub(it.t_ns) as f64 / 1e9
            );
            builder.issue(Severity::Warning, "clock_backwards", &place(it), 1, sentence);
        }
        last = Some(it.t_ns);
        if it.is_filled && it.is_clocked {
            builder.covers(it.t_ns);
        }
    }
}

fn drop_rows(taken: &[Taken], left_out: &BTreeSet<usize>, builder: &mut Builder<'_>) {
    if left_out.is_empty() {
        return;
    }
    let tables = &mut builder.capture.tables;
    let ends = (tables.samples.row_count(), tables.histograms.row_count());
    let ranges = |from: fn(&Taken) -> usize, end: usize| -> Vec<bool> {
        let mut keep = vec![true; end];
        for &at in left_out {
            let to = taken.get(at + 1).map_or(end, from);
            keep[from(&taken[at]).min(end)..to.min(end)].fill(false);
        }
        keep
    };
    let keep = ranges(|it| it.samples_from, ends.0);
    crate::duplicates::keep_rows(&mut tables.samples, &keep);
    let keep = ranges(|it| it.histograms_from, ends.1);
    crate::duplicates::keep_rows(&mut tables.histograms, &keep);
}
