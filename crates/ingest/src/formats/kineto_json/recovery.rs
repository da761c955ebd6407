//! Where events start and end when the text before is not known or not sound.
//!
//! In valid JSON `,{"` cannot stand within a string, since a quote there is escaped. So an object behind a comma whose first
//! key is one of an event's, that parses to its end and has a `ph`, is an event, unless something nested in an event looks
//! exactly like one.

use super::event::{self, Leave, Whole};
use super::keys::Keys;
use super::scan::Cursor;

/// First keys of events, in any writer's order.
const FIRST_KEYS: &[&[u8]] =
    &[b"ph", b"name", b"cat", b"args", b"pid", b"tid", b"ts", b"dur", b"id", b"bp", b"s", b"tts", b"tdur", b"cname", b"id2", b"scope"];

/// Events that are tried from the end of a block before it is said to have no sound end.
const MAX_TRIES: usize = 4_096;

/// Where a block can be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Length of what belongs to the block.
    pub(super) at: usize,
    /// The array of events ends here: `]` comes next.
    pub(super) is_array_end: bool,
}

/// True when an object that looks like an event starts at `at`, where `{` stands.
fn looks_like_event(bytes: &[u8], at: usize) -> bool {
    let before = bytes[..at].iter().rev().find(|byte| !byte.is_ascii_whitespace());
    if !matches!(before, None | Some(b',' | b'[')) {
        return false;
    }
    let mut cursor = Cursor::new(bytes, at + 1);
    if cursor.peek() != Some(b'"') {
        return false;
    }
    let key = &bytes[cursor.at + 1..];
    FIRST_KEYS.iter().any(|known| key.starts_with(known) && key.get(known.len()) == Some(&b'"'))
}

/// The next place from `from` on that looks like the start of an event.
pub(super) fn next_start(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memchr_iter(b'{', bytes.get(from..)?).map(|at| from + at).find(|&at| looks_like_event(bytes, at))
}

/// The last place where the bytes can be cut between two events, or where the array ends.
pub(super) fn last_cut(bytes: &[u8]) -> Option<Cut> {
    let starts = memchr::memrchr_iter(b'{', bytes).filter(|&at| looks_like_event(bytes, at));
    let mut effort = 2 * bytes.len();
    let (mut keys, mut whole) = (Keys::default(), Whole::default());
    for start in starts.take(MAX_TRIES) {
        let mut cursor = Cursor::new(bytes, start);
        let is_event = event::read(&mut cursor, &mut keys, Leave::default(), &mut whole).is_ok() && whole.event.ph != 0;
        let next = if is_event { cursor.peek() } else { None };
        match next {
            Some(b',') => return Some(Cut { at: cursor.at + 1, is_array_end: false }),
            Some(b']') => return Some(Cut { at: cursor.at, is_array_end: true }),
            None if is_event && bytes[..start].iter().any(|byte| !byte.is_ascii_whitespace()) => {
                return Some(Cut { at: start, is_array_end: false });
            }
            _ => {}
        }
        effort = effort.checked_sub(cursor.at.min(bytes.len()) - start)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Option<(&str, bool)> {
        last_cut(text.as_bytes()).map(|cut| (&text[cut.at..], cut.is_array_end))
    }

    #[test]
    fn blocks_are_cut_behind_the_last_whole_event() {
        assert_eq!(cut(r#"[{"ph":"X","ts":1},{"ph":"X","ts":2},{"ph":"X","t"#), Some((r#"{"ph":"X","t"#, false)));
        assert_eq!(
            cut(r#"[{"ph":"X","ts":1}, {"name":"a","ph":"X","args":{"list":[{"name":1},{"name":2}]}} ], "x": 1}"#),
            Some((r#"], "x": 1}"#, true))
        );
        assert_eq!(cut(r#"[{"ph":"X","ts":1},{"ph":"X","ts":2}"#), Some((r#"{"ph":"X","ts":2}"#, false)));
        // Objects of a list in an event that is not whole are no events.
        assert_eq!(
            cut(r#"{"ph":"X"},{"ph":"X","args":{"list":[{"name":1},{"name":2}]"#),
            Some((r#"{"ph":"X","args":{"list":[{"name":1},{"name":2}]"#, false))
        );
        assert_eq!(cut(r#"{"ph":"X","ts":1"#), None);
        assert_eq!(cut(r#"{"ph":"X","ts":1}"#), None);
        assert_eq!(cut(""), None);
    }

    #[test]
    fn reading_goes_on_at_the_next_event() {
        let text = r#"{"ph":"X","name":"a "b", {c"},{"x":1},{"ph":"X"}"#;
        assert_eq!(next_start(text.as_bytes(), 1).map(|at| &text[at..]), Some(r#"{"ph":"X"}"#));
        assert_eq!(next_start(b"{}", 5), None);
    }
}
