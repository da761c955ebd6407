//! What a trace lost, counted while it is read: the first place and the count of each kind.

use capture::Severity;

use crate::builder::Builder;

/// What was found of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) count: u64,
    /// Offset of the first in the unpacked text.
    pub(super) first: Option<u64>,
}

impl Count {
    pub(super) fn add(&mut self, offset: u64) {
        self.add_many(1, offset);
    }

    pub(super) fn add_many(&mut self, count: u64, offset: u64) {
        self.count += count;
        self.first = Some(self.first.map_or(offset, |first| first.min(offset)));
    }

    fn join(&mut self, other: Self) {
        if let Some(first) = other.first {
            self.add_many(other.count, first);
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    /// Pieces of text that are no event.
    pub(super) damaged: Count,
    /// Bytes of them.
    pub(super) damaged_bytes: u64,
    /// Device work and calls with a time that cannot be.
    pub(super) impossible: Count,
    /// Rows far from all others.
    pub(super) far: u64,
    /// Device work without a duration.
    pub(super) without_duration: Count,
    /// Names that are no UTF-8.
    pub(super) not_utf8: Count,
    /// Categories that no known version writes.
    pub(super) unknown: Count,
    /// Begin and end events, which Kineto does not write.
    pub(super) other_phases: Count,
    /// Counters without a signal.
    pub(super) unmapped_counters: Count,
    /// The array of events ended and went on.
    pub(super) ended_early: Count,
}

impl Losses {
    pub(super) fn join(&mut self, other: &Self) {
        self.damaged.join(other.damaged);
        self.damaged_bytes += other.damaged_bytes;
        self.impossible.join(other.impossible);
        self.far += other.far;
        self.without_duration.join(other.without_duration);
        self.not_utf8.join(other.not_utf8);
        self.unknown.join(other.unknown);
        self.other_phases.join(other.other_phases);
        self.unmapped_counters.join(other.unmapped_counters);
        self.ended_early.join(other.ended_early);
    }

    /// Writes the issues.
    pub(super) fn tell(&self, builder: &mut Builder<'_>) {
        let mut tell = |severity, code, count: Count, sentence: String| {
            if let Some(first) = count.first {
                builder.issue(severity, code, &format!("byte {}", first + 1), count.count, sentence);
            }
        };
        let bytes = self.damaged_bytes;
        let sentence = format!("expected events as JSON objects, found {bytes} bytes that are none; reading went on at the next event");
        tell(Severity::Warning, "damaged_events", self.damaged, sentence);
        let sentence = "expected times of device work and calls as microseconds that fit, with durations from 0 to an hour, found others; these events are left out";
        tell(Severity::Warning, "impossible_times", self.impossible, sentence.to_string());
        let sentence = "expected a duration of device work, found none; these events are left out";
        tell(Severity::Warning, "events_without_duration", self.without_duration, sentence.to_string());
        let sentence = "expected names in UTF-8, found other bytes; they are replaced";
        tell(Severity::Note, "names_not_utf8", self.not_utf8, sentence.to_string());
        let sentence = "expected categories of PyTorch's profiler, found others; these events are left out";
        tell(Severity::Note, "unknown_categories", self.unknown, sentence.to_string());
        let sentence = "expected complete events (`ph` X), found begin and end events; these are left out";
        tell(Severity::Note, "other_phases", self.other_phases, sentence.to_string());
        let sentence = "expected one list of events, found that it ends and goes on; what follows is read as well";
        tell(Severity::Note, "events_end_early", self.ended_early, sentence.to_string());
        if self.far > 0 {
            let sentence = "expected all work within ten days of its middle, found some outside; it is left out";
            builder.issue(Severity::Warning, "times_far_off", "", self.far, sentence);
        }
        if self.damaged.count > 0 || self.impossible.count > 0 || self.far > 0 {
            builder.mark_damaged();
        }
    }
}
