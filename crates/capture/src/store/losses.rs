//! What could not be read from a capture; each loss becomes an issue of the capture that is returned.

use super::parquet_in::Damage;
use crate::capture::Capture;
use crate::issues::Severity;

/// One loss.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Loss {
    severity: Severity,
    code: &'static str,
    /// File, relative to the capture.
    file: String,
    place: String,
    count: u64,
    sentence: String,
}

/// Losses in the order they were met.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    list: Vec<Loss>,
    /// Put before file names: the segment they are in.
    pub prefix: String,
    /// Why something that may be sound could not be read, if so.
    pub unread: Option<String>,
}

impl Losses {
    pub(super) fn add(&mut self, severity: Severity, code: &'static str, file: &str, place: &str, count: u64, sentence: String) {
        let file = format!("{}{file}", self.prefix);
        self.list.push(Loss { severity, code, file, place: place.to_string(), count, sentence });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Remembers damage that may be none.
    pub(super) fn note_unread(&mut self, damage: &Damage) {
        if damage.is_unread {
            self.unread.get_or_insert_with(|| damage.to_string());
        }
    }

    /// Records all losses in `capture`.
    pub(super) fn move_to(self, capture: &mut Capture) {
        for loss in self.list {
            let count = i64::try_from(loss.count).unwrap_or(i64::MAX);
            capture.add_issue(loss.severity, loss.code, &loss.file, &loss.place, count, &loss.sentence);
        }
    }
}
