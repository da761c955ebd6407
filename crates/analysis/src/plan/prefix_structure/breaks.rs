//! Where prompts stop sharing: for each request the longest prefix that any earlier request had.

use std::collections::HashSet;

use crate::plan::case::Case;

/// Requests looked at.
const LOOKED_AT: usize = 50_000;

/// A prefix that ends within this share of the prompt breaks early.
const EARLY_FRAC: f64 = 0.1;

/// Where shared prefixes break.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Breaks {
    /// Share of requests without a common first block.
    pub(super) nothing_shared_frac: f64,
    /// Median and 90th percentile of shared tokens.
    pub(super) shared_tokens_p: [f64; 2],
    /// Shares of requests by shared tokens, at most so many each.
    pub(super) histogram: Vec<(f64, f64)>,
    /// Share of requests whose shared prefix ends within the first tenth of their prompt, first turns of known
    /// conversations aside.
    pub(super) early_frac: f64,
    /// Mean share of its prompt that a request shares, of those that break later.
    pub(super) later_share: f64,
}

/// Looks at every request once.
pub(super) fn breaks(case: &Case<'_>) -> Breaks {
    let workload = &case.offered.workload;
    let block = f64::from(workload.hash_block_tokens().max(1));
    let mut seen: HashSet<u32> = HashSet::new();
    let mut sessions: HashSet<u32> = HashSet::new();
    let (mut shared, mut shares) = (Vec::new(), Vec::new());
    let (mut early, mut nothing) = (0usize, 0usize);
    for request in workload.requests().iter().take(LOOKED_AT) {
        let blocks = workload.blocks(request);
        let common = blocks.iter().take_while(|block| seen.contains(*block)).count() as f64 * block;
        let common = common.min(f64::from(request.prompt_tokens));
        // The first turn of a conversation has nobody to share with; a later one that shares nothing broke early.
        let known = request.session != 0 && !sessions.insert(request.session);
        nothing += usize::from(common <= 0.0);
        let share = common / f64::from(request.prompt_tokens);
        if share < EARLY_FRAC {
            early += usize::from(known || request.session == 0 && !seen.is_empty());
        } else {
            shares.push(share);
        }
        shared.push(common);
        seen.extend(blocks);
    }
    let total = shared.len().max(1) as f64;
    shared.sort_by(f64::total_cmp);
    let at = |share: f64| shared.get(((shared.len() as f64 * share) as usize).min(shared.len().saturating_sub(1))).copied().unwrap_or(0.0);
    Breaks {
        nothing_shared_frac: nothing as f64 / total,
        shared_tokens_p: [at(0.5), at(0.9)],
        histogram: histogram(&shared, block),
        early_frac: early as f64 / total,
        later_share: shares.iter().sum::<f64>() / shares.len().max(1) as f64,
    }
}

/// Shares by doubling length, from nothing on.
fn histogram(sorted: &[f64], block: f64) -> Vec<(f64, f64)> {
    let total = sorted.len().max(1) as f64;
    let most = sorted.last().copied().unwrap_or(0.0);
    let (mut edge, mut before, mut rows) = (0.0, 0usize, Vec::new());
    loop {
        let up_to = sorted.partition_point(|tokens| *tokens <= edge);
        rows.push((edge, (up_to - before) as f64 / total));
        before = up_to;
        if edge >= most || rows.len() > 40 {
            return rows;
        }
        edge = if edge == 0.0 { block } else { edge * 2.0 };
    }
}
