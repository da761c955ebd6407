//! NVTX ranges: annotations that a program makes, and the operators that PyTorch marks.
//!
//! PyTorch writes a number behind each operator (`aten::add, op_id = 17, seq = 4`), which would make every name its own:
//! numbers are cut off and the range is an `op`. A long recording holds tens of millions of them; beyond a limit they are
//! left out and counted, the annotations stay.

use std::borrow::Cow;

use capture::{HostEvent, Name, Severity};
use hashbrown::HashMap;

use super::calls::event;
use super::part::{Export, Part, cut};

/// Ranges beyond this many are kept only where they are no operators.
const MANY_RANGES: i64 = 4_000_000;
/// Longest name of a range that is kept.
const MAX_RANGE_BYTES: usize = 512;
/// Most registered texts that are remembered.
const MAX_KNOWN: usize = 1_000_000;
const TABLE: &str = "NVTX_EVENTS";
/// `eventType` of ranges: pushed and popped, started and ended.
const RANGES: [i64; 2] = [59, 60];

pub(super) fn read(export: &Export<'_>) -> Part {
    let mut part = Part::default();
    let Some(table) = export.database.table(TABLE) else { return part };
    let is_many = export.database.last_rowid(table).is_some_and(|rows| rows > MANY_RANGES);
    let kinds = (part.intern("annotation"), part.intern("op"));
    let mut names = RangeNames::default();
    let (mut open, mut left_out) = (0u64, 0u64);
    part.scan(export.database, TABLE, &["start", "end", "globalTid", "eventType", "text", "textId"], |row, part| {
        if row.int(3).is_some_and(|kind| !RANGES.contains(&kind)) {
            return;
        }
        if row.is_null(1) {
            open += 1;
            return;
        }
        if is_many && row.text_bytes(4).is_some_and(|text| numbers_at(text).is_some()) {
            left_out += 1;
            return;
        }
        let text = row.text(4);
        let (is_op, name) = match &text {
            Some(text) => {
                let (is_op, short) = shorten(text);
                (is_op, of_text(short, part))
            }
            None => names.of_id(row.int(5), export, part),
        };
        let Some(event) = event(export, row, TABLE, part) else { return };
        let kind = if is_op { kinds.1 } else { kinds.0 };
        part.host.push(HostEvent { kind, name, ..event });
    });
    if open > 0 {
        part.issue(Severity::Note, "open_ranges", "", open, || {
            "expected ranges to end within the recording, found some that do not; they are left out".to_string()
        });
    }
    if left_out > 0 {
        let sentence = format!(
            "expected at most {MANY_RANGES} NVTX ranges, found more; those of PyTorch operators are left out, the other ranges are kept"
        );
        part.issue(Severity::Note, "operators_left_out", "", left_out, || sentence);
    }
    part
}

#[derive(Default)]
struct RangeNames {
    by_id: HashMap<i64, (bool, Name)>,
}

impl RangeNames {
    fn of_id(&mut self, id: Option<i64>, export: &Export<'_>, part: &mut Part) -> (bool, Name) {
        let id = id.unwrap_or(i64::MIN);
        if let Some(known) = self.by_id.get(&id) {
            return *known;
        }
        let (is_op, text) = shorten(export.strings.get(id).unwrap_or("unknown"));
        let found = (is_op, of_text(text, part));
        if self.by_id.len() < MAX_KNOWN {
            self.by_id.insert(id, found);
        }
        found
    }
}

fn of_text(text: &str, part: &mut Part) -> Name {
    part.names.find(text).unwrap_or_else(|| part.intern(&cleaned(text)))
}

/// A name that a program chose may hold anything: secrets go, and so does what follows the first line.
fn cleaned(text: &str) -> Cow<'_, str> {
    let line = text.lines().next().unwrap_or_default();
    crate::secrets::redact(cut(line, MAX_RANGE_BYTES))
}

/// Whether a text is that of a PyTorch operator, and the text without its numbers.
fn shorten(text: &str) -> (bool, &str) {
    numbers_at(text.as_bytes()).map_or((false, text), |comma| (true, &text[..comma]))
}

/// Where the numbers of a PyTorch operator begin.
fn numbers_at(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = memchr::memchr(b',', &bytes[from..]) {
        let comma = from + at;
        let rest = &bytes[comma..];
        if [&b", op_id = "[..], b", seq = ", b", sizes = "].iter().any(|mark| rest.starts_with(mark)) {
            return Some(comma);
        }
        from = comma + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_lose_their_numbers_and_annotations_keep_theirs() {
        assert_eq!(shorten("aten::to, op_id = 317177"), (true, "aten::to"));
        assert_eq!(shorten("aten::add, seq = 5, sizes = [[2, 3], []]"), (true, "aten::add"));
        assert_eq!(shorten("execute_context_3(512)_generation_4(4)"), (false, "execute_context_3(512)_generation_4(4)"));
        assert_eq!(shorten("layer 3, attention"), (false, "layer 3, attention"));
        assert_eq!(cleaned("step 4\nprompt text"), "step 4");
    }
}
