//! Brings the times of a log to the host clock, once all its rows are known.

use capture::{ClockAlignment, Severity};

use crate::builder::Builder;
use crate::clocks;

/// Year of a log when nothing says: a leap year, so that every date exists.
pub(crate) const NO_YEAR: i16 = 1972;
/// How far a time may be off when the year is not known: from then to now and some years more.
const NO_YEAR_ERROR_NS: i64 = 2_000_000_000_000_000_000;

/// What a log tells of its times.
pub(crate) struct LogTimes {
    /// First and last time, read as UTC.
    pub(crate) span: (i64, i64),
    /// Time of the first start-up line.
    pub(crate) first_start_up_ns: Option<i64>,
    /// The lines tell their year, or another source does.
    pub(crate) has_year: bool,
    /// The lines tell their zone: nothing is moved.
    pub(crate) has_zone: bool,
}

/// Moves the rows of a log by the shift under which it fits the other sources, and writes down how it was found.
pub(crate) fn align(times: &LogTimes, builder: &mut Builder<'_>) {
    if times.has_zone {
        return;
    }
    let shift = clocks::find_shift(times.span, times.first_start_up_ns, builder.context);
    if shift.offset_ns != 0 {
        let move_all = |times: &mut Vec<i64>| times.iter_mut().for_each(|t_ns| *t_ns = t_ns.saturating_add(shift.offset_ns));
        move_all(&mut builder.capture.tables.samples.t_ns);
        move_all(&mut builder.capture.tables.logs.t_ns);
        move_all(&mut builder.capture.tables.steps.t_start_ns);
        move_all(&mut builder.capture.tables.steps.t_end_ns);
    }
    if !shift.overlaps {
        let sentence = "expected the log to cover the time of the other sources, found no time in common: it may be of another run";
        builder.issue(Severity::Warning, "log_apart", "", 1, sentence);
    }
    if !times.has_year {
        let sentence = format!("expected a source that tells the year of the log, found none; its times stand in {NO_YEAR}");
        builder.issue(Severity::Note, "log_without_year", "", 1, sentence);
    }
    let year = if times.has_year { String::new() } else { format!("no year in the log, {NO_YEAR} assumed; ") };
    let source = builder.name().to_string();
    builder.capture.manifest.clocks.push(ClockAlignment {
        source,
        domain: "log local time".to_string(),
        offset_ns: shift.offset_ns,
        error_ns: if times.has_year { shift.error_ns } else { NO_YEAR_ERROR_NS },
        method: format!("{year}{}", shift.method),
        ..ClockAlignment::default()
    });
}
