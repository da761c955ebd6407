//! Brings clocks of unknown zone to the host clock.
//!
//! Engine logs and result files carry local wall time. The zone is one of a few dozen: a shift of whole quarters of an
//! hour. The start of the API process by its own metric decides it exactly; otherwise the shift is taken under which
//! the source covers the same time as the others, and the error bound says how many shifts would have done.

use crate::builder::Context;

/// Zones differ by multiples of this.
const QUARTER_NS: i64 = 900_000_000_000;
/// Farthest zone from UTC, in quarters of an hour.
const FARTHEST: i64 = 56;
/// Resolution of a clock that writes whole seconds.
pub(crate) const SECOND_NS: i64 = 1_000_000_000;
/// Longest believable time from process start to the first log line.
const START_SLACK_NS: i64 = 300 * SECOND_NS;

/// A shift and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    /// Added to the source's time read as UTC.
    pub(crate) offset_ns: i64,
    /// How far it may be off.
    pub(crate) error_ns: i64,
    /// In words.
    pub(crate) method: String,
    /// False when the source covers no time in common with the others.
    pub(crate) overlaps: bool,
}

/// The shift of a source that covers `span` when read as UTC; `first_line` is the time of its first start-up line.
pub(crate) fn find_shift(span: (i64, i64), first_line: Option<i64>, context: &Context) -> Shift {
    if let Some(shift) = context.log_piece.as_ref().and_then(|piece| by_last_line(span.1, piece.written_ns)) {
        return shift;
    }
    if let Some(first) = first_line
        && let Some(shift) = by_process_start(first, context)
    {
        return shift;
    }
    match context.reference {
        Some(reference) => by_overlap(span, reference),
        None => Shift {
            offset_ns: 0,
            error_ns: FARTHEST * QUARTER_NS,
            method: "assumed UTC; no other source to compare with".to_string(),
            overlaps: true,
        },
    }
}

/// The last line was written when the file was changed last: the zone is what lies between, in whole quarters of an hour.
fn by_last_line(last: i64, written_ns: i64) -> Option<Shift> {
    let quarters = written_ns.checked_sub(last)?.saturating_add(QUARTER_NS / 2).div_euclid(QUARTER_NS);
    (quarters.abs() <= FARTHEST).then(|| Shift {
        offset_ns: quarters * QUARTER_NS,
        error_ns: SECOND_NS,
        method: "last line was written when the file was; zone in whole quarters of an hour".to_string(),
        overlaps: true,
    })
}

fn by_process_start(first: i64, context: &Context) -> Option<Shift> {
    let starts = &context.process_starts;
    let start = starts.get(context.replica_label()).or_else(|| starts.values().next().filter(|_| starts.len() == 1))?;
    let quarters = start.checked_sub(first)?.div_euclid(QUARTER_NS);
    let candidates = [quarters, quarters + 1].map(|quarters| quarters.saturating_mul(QUARTER_NS));
    // The first line follows the start of the process.
    let offset_ns = candidates
        .into_iter()
        .find(|offset| (-2 * SECOND_NS..START_SLACK_NS).contains(&first.saturating_add(*offset).saturating_sub(*start)))?;
    (offset_ns.saturating_abs() <= FARTHEST * QUARTER_NS).then(|| Shift {
        offset_ns,
        error_ns: SECOND_NS,
        method: "first line follows the start of the process by its metric; zone in whole quarters of an hour".to_string(),
        overlaps: true,
    })
}

fn by_overlap(span: (i64, i64), reference: (i64, i64)) -> Shift {
    let shared = |quarters: i64| {
        let offset = quarters * QUARTER_NS;
        let from = span.0.saturating_add(offset).max(reference.0);
        let to = span.1.saturating_add(offset).min(reference.1);
        to.saturating_sub(from).clamp(-1, i64::MAX - 1) + 1
    };
    let mut best = 0;
    for distance in 1..=FARTHEST {
        for quarters in [distance, -distance] {
            if shared(quarters) > shared(best) {
                best = quarters;
            }
        }
    }
    if shared(best) == 0 {
        let method = "assumed UTC; no time in common with the other sources".to_string();
        return Shift { offset_ns: 0, error_ns: FARTHEST * QUARTER_NS, method, overlaps: false };
    }
    let as_good = |quarters: &i64| shared(*quarters) / 99 >= shared(best) / 100;
    let farthest = (-FARTHEST..=FARTHEST).filter(as_good).map(|quarters| (quarters - best).abs()).max().unwrap_or(0);
    let zone = if best == 0 { "assumed UTC" } else { "zone in whole quarters of an hour" };
    Shift {
        offset_ns: best * QUARTER_NS,
        error_ns: SECOND_NS + farthest * QUARTER_NS,
        method: format!("{zone}; covers the same time as the other sources"),
        overlaps: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_found_by_process_start_and_by_overlap() {
        let hour = 4 * QUARTER_NS;
        let mut context = Context { reference: Some((10 * hour, 10 * hour + QUARTER_NS / 2)), ..Context::default() };
        let span = (8 * hour, 8 * hour + QUARTER_NS / 3);
        assert_eq!(find_shift(span, None, &context).offset_ns, 2 * hour);
        context.process_starts.insert("0".to_string(), 10 * hour - 20 * SECOND_NS);
        let shift = find_shift(span, Some(8 * hour), &context);
        assert_eq!((shift.offset_ns, shift.error_ns), (2 * hour, SECOND_NS));
        let alone = find_shift(span, None, &Context::default());
        assert_eq!((alone.offset_ns, alone.error_ns), (0, FARTHEST * QUARTER_NS));
    }
}
