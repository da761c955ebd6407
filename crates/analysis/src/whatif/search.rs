//! The best value of a lever under limits: every doubling is simulated, then the space around the best.

use capture::Capture;

use super::baseline::Baseline;
use super::{Refusal, WhatIf, predict};

/// What counts as best, and what must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Goal {
    /// Limits by figure (`ttft.p99`, `tpot.mean`), seconds: the high end of the prediction must stay below.
    pub limits: Vec<(String, f64)>,
}

/// Most values simulated.
const MOST_TRIALS: usize = 24;

/// Tries values of `lever` and returns the best with all that were tried, in order of value. Best is the highest output
/// throughput among those that keep the limits, then the shortest mean request; nothing where none keeps them.
pub fn search(
    capture: &Capture,
    run_idx: u32,
    lever: &str,
    fixed: &[(String, String)],
    goal: &Goal,
) -> Result<(Option<usize>, Vec<WhatIf>), Refusal> {
    let baseline = Baseline::read(capture, run_idx)?;
    let trial = |value: u32| {
        let mut sets = fixed.to_vec();
        sets.push((lever.to_string(), value.to_string()));
        predict(&baseline, &sets)
    };
    let mut tried: Vec<(u32, WhatIf)> = Vec::new();
    let mut value = 1u32;
    while tried.len() < MOST_TRIALS / 2 && value <= 1 << 16 {
        match trial(value) {
            Ok(answer) => tried.push((value, answer)),
            // Too small for the run is no end of the search; a lever that takes no numbers is.
            Err(Refusal::Config(_)) => {}
            Err(refusal) if tried.is_empty() => return Err(refusal),
            Err(_) => break,
        }
        let stands = |pair: &[(u32, WhatIf)]| pair[0].1.metrics == pair[1].1.metrics;
        if tried.len() >= 3 && tried[tried.len() - 3..].windows(2).all(stands) {
            break;
        }
        value *= 2;
    }
    if let Some(at) = best(&tried, goal) {
        let around =
            [at.checked_sub(1), Some(at + 1)].into_iter().flatten().filter_map(|near| Some(u32::midpoint(tried.get(near)?.0, tried[at].0)));
        let around: Vec<u32> = around.filter(|value| tried.iter().all(|(known, _)| known != value)).collect();
        for value in around {
            if let Ok(answer) = trial(value) {
                tried.push((value, answer));
            }
        }
    }
    tried.sort_by_key(|(value, _)| *value);
    let chosen = best(&tried, goal);
    Ok((chosen, tried.into_iter().map(|(_, answer)| answer).collect()))
}

fn best(tried: &[(u32, WhatIf)], goal: &Goal) -> Option<usize> {
    let figure = |answer: &WhatIf, name: &str| answer.metrics.iter().find(|metric| metric.name == name).and_then(|metric| metric.value);
    let keeps = |answer: &WhatIf| goal.limits.iter().all(|(name, most)| figure(answer, name).is_some_and(|range| range.high <= *most));
    let score = |answer: &WhatIf| {
        let tokens = figure(answer, "throughput.output").map_or(0.0, |range| range.mid);
        // One in a hundred more throughput is none; then the shorter request wins.
        ((tokens.max(1e-9).ln() * 100.0).round(), -figure(answer, "e2e.mean").map_or(f64::MAX, |range| range.mid))
    };
    let fitting = tried.iter().enumerate().filter(|(_, (_, answer))| keeps(answer) && !answer.saturated);
    // Of equals the smallest: what brings nothing is not asked for.
    fitting.fold(None, |best: Option<usize>, (at, (_, answer))| match best {
        Some(best) if score(answer) <= score(&tried[best].1) => Some(best),
        _ => Some(at),
    })
}
