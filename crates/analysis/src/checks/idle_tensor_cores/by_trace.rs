//! By a profiler capture: matrix products on kernels whose names say that they do without matrix units.

use crate::check::{Answer, Found, clear, figure};
use crate::claims::Basis;
use crate::device::{Category, FamilyTotal, MatrixUnits};
use crate::device_remedy::{first_token_kept, hypothesis, outside, token_falls};
use crate::on_device::OnDevice;
use crate::phase::Phase;
use crate::situation::Situation;
use crate::words::percent;

use super::FASTER;

/// Products off the matrix units below this share of kernel time are small ones (a router, a last layer).
const CARRIES: f64 = 0.10;

/// Nothing where no device or no matrix product was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    let families = || device.view.lanes.iter().flat_map(|lane| &lane.families);
    let products = |family: &&FamilyTotal| matches!(family.category, Category::Gemm | Category::Moe | Category::Attention);
    families().find(products)?;
    let missed: Vec<&FamilyTotal> = families().filter(|family| family.matrix == MatrixUnits::Missed).collect();
    let missed_ns: i64 = missed.iter().map(|family| family.total_ns).sum();
    let all_ns = device.sum_ns(|lane| lane.account.kernel_total_ns);
    let share = missed_ns as f64 / all_ns.max(1) as f64;
    if share < CARRIES {
        let because = format!("products that do without matrix units by their name take {} of the kernel time", percent(share));
        return Some(clear(vec![("missed_share", share)], because));
    }
    // By the name alone a product may wait for memory, where matrix units would not help: nothing is sure to be gained.
    let saved = [0.2, 0.6, 1.0 - 1.0 / FASTER].map(|saved| saved * missed_ns as f64);
    let mut rows = vec![figure("products without matrix units, share of kernel time", share, "ratio", "kernel names")];
    rows.extend(missed.iter().take(3).map(|family| figure(&family.family, family.total_ns as f64 * 1e-9, "s", "trace")));
    let name = missed.first().map_or("", |family| family.family.as_str());
    Some(Answer::Found(Box::new(Found {
        summary: format!("matrix products without matrix units take {} of the kernel time ({name})", percent(share)),
        sentence: format!(
            "Matrix products run on kernels that do without the matrix units ({name}): {} of the kernel time.",
            percent(share)
        ),
        claims: device.claims(situation, Phase::Compute, saved.map(|ns| ns as i64), Basis::Bound),
        cost: device.cost(situation, saved[1] as i64),
        evidence: rows,
        hypotheses: vec![hypothesis(
            outside(
                "format",
                "bf16, fp16, tf32 or fp8",
                "restart",
                "compute in a format with matrix units (bf16; allow TF32), with dimensions that are multiples of 8",
            ),
            "less precise products",
            "the same kernels are chosen",
            vec![
                token_falls(
                    situation,
                    saved.map(|ns| ns / device.window_ns as f64),
                    "matrix units are some eight times as fast where memory allows",
                ),
                first_token_kept(situation),
            ],
        )],
        falsified_by: "these products move as many bytes as the memory allows".into(),
        context_only: false,
        limit: false,
    })))
}
