//! Everything that no importer knows: kept by name and size, never parsed, and said so.
//!
//! Pages that a wrong address answers with (HTML, a JSON error) are refused with a clear sentence: they were meant to be
//! metrics. Text logs of no known engine are told from other files, and are searched for the few lines that every
//! Python server may write.

use capture::{Attachment, Severity};

use crate::builder::Builder;
use crate::engines::log::{LogState, any_server};
use crate::formats::{Confidence, FORMATS, Format, Probe, Stage};
use crate::input::Input;

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "attachment", stage: Stage::Floating, sniff, read };

fn sniff(_: &Probe<'_>) -> Confidence {
    Confidence::Fallback
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let head = input.head().to_vec();
    let probe = Probe { head: &head, is_whole: input.is_all_in_head() };
    let is_small = probe.is_whole;
    if head.is_empty() {
        builder.refuse("empty_source", "expected evidence, found an empty file");
        return;
    }
    let lower = head[..head.len().min(512)].trim_ascii_start().to_ascii_lowercase();
    if lower.starts_with(b"<!doctype html") || lower.starts_with(b"<html") {
        builder.refuse(
            "html_page",
            "expected metrics, a log or results, found an HTML page: the address it came from answers with a web page",
        );
        return;
    }
    let is_error = lower.starts_with(b"{") && ["\"detail\"", "\"error\"", "\"message\""].iter().any(|key| probe.has(key));
    if is_small && is_error {
        builder.refuse(
            "error_page",
            "expected metrics, a log or results, found a JSON error message: the address it came from refused the request",
        );
        return;
    }
    let byte_count = drain(input, builder);
    let name = builder.name().to_string();
    let row = Attachment { name: builder.intern(&name), byte_count, source_idx: builder.source() };
    builder.capture.tables.attachments.push(row);
    let tried = FORMATS.len() - 1;
    let kind = if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        "zstd data, which is not unpacked here"
    } else if !probe.is_text() {
        "binary data"
    } else if name.contains(".log") {
        "a text log of no known engine"
    } else {
        "text of no known format"
    };
    let sentence = format!("found {kind}; none of the {tried} known formats fits; the file is kept as an attachment and not read");
    builder.issue(Severity::Note, "attachment", "", 1, sentence);
}

/// Reads to the end, looking for lines that need no engine.
fn drain(input: &mut Input<'_>, builder: &mut Builder<'_>) -> i64 {
    let mut state = LogState::default();
    while let Some(line) = input.next_line() {
        any_server::line(line.bytes, line.number, &mut state, builder);
    }
    i64::try_from(input.raw_bytes()).unwrap_or(i64::MAX)
}
