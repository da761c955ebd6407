//! What the JSON-lines formats share: one object per line, damaged lines counted and left out.

use capture::Severity;

use crate::builder::Builder;
use crate::formats::{Confidence, Probe};
use crate::input::Input;
use crate::json::{Json, JsonResult};

/// A line as handed to a format.
pub(crate) type LineJson<'a> = Json<&'a [u8]>;

/// `Sure` when the first lines are objects that hold every one of `keys`.
pub(crate) fn sniff_keys(probe: &Probe<'_>, keys: &[&str]) -> Confidence {
    if probe.first_byte() != Some(b'{') {
        return Confidence::No;
    }
    let Some(line) = probe.lines().find(|line| !line.is_empty()) else { return Confidence::No };
    let has = |key: &&str| memchr::memmem::find(line, format!("\"{key}\"").as_bytes()).is_some();
    if keys.iter().all(has) { Confidence::Sure } else { Confidence::No }
}

/// Calls `each` for the object of every line with its line number; `false` means that the line lacks what it needs.
pub(crate) fn each_line(
    input: &mut Input<'_>,
    builder: &mut Builder<'_>,
    mut each: impl FnMut(&mut LineJson<'_>, u64, &mut Builder<'_>) -> JsonResult<bool>,
) {
    let mut rows = 0u64;
    while let Some(line) = input.next_line() {
        let text = line.bytes.trim_ascii();
        if text.is_empty() {
            continue;
        }
        if text[0] == b'#' {
            builder.facts.simulated |= text.starts_with(b"# inferoscope: simulated");
            continue;
        }
        let mut json = Json::new(text);
        let place = format!("line {}", line.number);
        match each(&mut json, line.number, builder) {
            Ok(true) => rows += 1,
            Ok(false) => builder.issue_once(Severity::Warning, "line_incomplete", &place, || {
                "expected the keys of this format, found a line without the times it needs; the line is left out".to_string()
            }),
            Err(_) if !line.complete => {
                builder.mark_damaged();
                builder.issue_once(Severity::Warning, "line_cut", &place, || {
                    "expected a whole JSON object, found the end of the text; the last line is left out".to_string()
                });
            }
            Err(error) => {
                builder.mark_damaged();
                builder.issue_once(Severity::Warning, "damaged_json", &format!("{place}, byte {}", error.offset + 1), || {
                    format!("expected {}, found something else; the line is left out", error.expected)
                });
            }
        }
    }
    if rows == 0 {
        builder.refuse("no_rows", "expected one JSON object per line with the keys of this format, found none");
    }
}
