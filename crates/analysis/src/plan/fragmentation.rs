//! Step 4: how much KV memory would be reserved and empty, by how it is reserved.
//!
//! From the lengths alone: contiguous reservation for the longest request, powers of two, exactly what is needed, and pages
//! of several sizes. More requests that fit are more throughput only where the KV cache is what holds requests out.

use model::fragmentation::{KvUse, Lengths, Reservation, kv_use};
use model::prediction::SATURATED;

use super::case::{Candidate, Case, Setting};
use super::document::{Action, Figure, StepAnswer, StepVerdict, Table};
use crate::words::{count, digits, percent};

/// Paged engines need nothing here.
pub(super) fn levers<'a>(_: &Case<'a>, _: &Setting<'a>) -> Vec<Candidate<'a>> {
    Vec::new()
}

/// The block size of engines.
const BLOCK: u32 = 16;

fn used(case: &Case<'_>, reservation: Reservation) -> KvUse {
    let lengths =
        case.offered.workload.requests().iter().map(|request| Lengths { prompt: request.prompt_tokens, output: request.output_tokens });
    kv_use(lengths, reservation)
}

/// What a contiguous allocator would reserve: the longest request it accepts.
fn max_len(case: &Case<'_>) -> u32 {
    case.input.max_model_len.unwrap_or(case.offered.longest_tokens).max(1)
}

/// Answers the step for a setting that runs.
pub(super) fn answer<'a>(case: &Case<'a>, setting: &Setting<'a>) -> StepAnswer {
    let Ok(now) = case.operate(setting) else { return StepAnswer::default() };
    let max_len = max_len(case);
    let paged = used(case, Reservation::Paged { block_tokens: BLOCK });
    let contiguous = used(case, Reservation::Contiguous { max_len });
    let mut table = Table::new(
        "KV memory by how it is reserved",
        &[("reservation", "text"), ("holds tokens", "ratio"), ("requests that fit", "request")],
    );
    let mut row = |name: String, reservation| {
        let found = used(case, reservation);
        let fit = now.requests_fit * found.used_frac() / paged.used_frac();
        table.rows.push(vec![name.into(), found.used_frac().into(), fit.floor().into()]);
    };
    row(format!("contiguous, {} tokens each", count(f64::from(max_len))), Reservation::Contiguous { max_len });
    row("contiguous, next power of two".into(), Reservation::PowerOfTwo);
    row("contiguous, length known beforehand".into(), Reservation::Oracle);
    for block_tokens in [1, 8, BLOCK, 32, 64, 128, 256] {
        row(format!("pages of {block_tokens}"), Reservation::Paged { block_tokens });
    }
    let gain = contiguous.concurrency_gain(&paged);
    let load = now.load_factor();
    // Where seats hold requests out, more room for them changes nothing.
    let seats = setting.deployment.max_num_seqs * setting.attention_ranks();
    let bound = now.requests_fit < seats - 0.5 && (case.offered.rate_per_s.is_none() || load >= SATURATED);
    let worth = if bound { "throughput here" } else { "not needed here" };
    let mut notes = Vec::new();
    if case.input.max_model_len.is_none() {
        notes.push("Contiguous reservation is for the longest request seen; an engine that accepts longer ones reserves more (set --max-model-len).".into());
    }
    if !case.offered.is_recorded {
        notes.push("One length was given; real spreads make contiguous reservation worse (give --workload FILE).".into());
    }
    StepAnswer {
        verdict: StepVerdict::Fine,
        answer: format!(
            "pages of {BLOCK} fill {}, contiguous {}: {}x the requests, {worth}",
            percent(paged.used_frac()),
            percent(contiguous.used_frac()),
            digits(gain)
        ),
        figures: vec![
            Figure::new("held of reserved, pages", paged.used_frac(), "ratio"),
            Figure::new("held of reserved, contiguous", contiguous.used_frac(), "ratio"),
            Figure::new("requests that fit, pages over contiguous", gain, "factor"),
        ],
        tables: vec![table],
        notes,
        ..StepAnswer::default()
    }
}

/// Tuning the block size is not worth it where the default wastes next to nothing.
pub(super) fn against(case: &Case<'_>) -> Option<Action> {
    let wasted = 1.0 - used(case, Reservation::Paged { block_tokens: BLOCK }).used_frac();
    (wasted < 0.03).then(|| Action {
        id: "block_size".into(),
        step: "fragmentation".into(),
        what: "tune the KV block size".into(),
        flag: None,
        why: format!("pages of {BLOCK} waste {}", percent(wasted)),
        risk: None,
        before: None,
        after: None,
    })
}
