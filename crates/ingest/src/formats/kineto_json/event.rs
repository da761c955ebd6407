//! One event of a trace, read key by key in whatever order they stand.
//!
//! Most events of a large trace are of no use here: as soon as enough of one is known, the parser leaves it, if it can by
//! jumping to the next separator that looks like those between the first events ([`Layout`]).

use memchr::memmem::Finder;

use super::category::Category;
use super::scan::{Cursor, Step, Text};

/// Farthest jump within an event; longer ones are read through.
const MAX_JUMP: usize = 64 << 10;

/// An event's own keys; values are text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event<'a> {
    /// `X`, `M`, ...; 0 for an object that is no event.
    pub(super) ph: u8,
    pub(super) cat: Option<&'a [u8]>,
    pub(super) name: Text<'a>,
    pub(super) pid: &'a [u8],
    pub(super) tid: &'a [u8],
    pub(super) ts: &'a [u8],
    pub(super) dur: Option<&'a [u8]>,
    /// Where the object of `args` stands.
    pub(super) args: Option<usize>,
    /// True when the rest was jumped over.
    pub(super) was_left: bool,
}

impl Event<'_> {
    pub(super) fn category(&self) -> Category {
        self.cat.map_or(Category::Unknown, Category::of)
    }
}

/// What stands between two events of a file.
#[derive(Debug)]
pub(super) struct Layout {
    separator: Finder<'static>,
    comma: usize,
    /// The key that every event has: where it stands, there is one more event.
    phase: Finder<'static>,
}

impl Layout {
    /// Reads the separator behind an event that ends at `end` (behind its `}`). Only one with a line break and an indent
    /// is of use: what is nested in an event is indented further.
    pub(super) fn behind(bytes: &[u8], end: usize) -> Option<Self> {
        let close = end.checked_sub(1)?;
        let line = memchr::memrchr(b'\n', &bytes[..close])?;
        let indent = &bytes[line + 1..close];
        let mut cursor = Cursor::new(bytes, end);
        let is_indent = !indent.is_empty() && indent.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
        if !is_indent || !cursor.take(b',') || cursor.peek() != Some(b'{') {
            return None;
        }
        let separator = &bytes[line..=cursor.at];
        let comma = memchr::memchr(b',', separator)?;
        Some(Self { separator: Finder::new(separator).into_owned(), comma, phase: Finder::new(b"\"ph\"").into_owned() })
    }

    /// Where the next separator's comma stands, if nothing before it starts an event of its own.
    fn next_comma(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let near = &bytes[at..bytes.len().min(at + MAX_JUMP)];
        let found = self.separator.find(near)?;
        self.phase.find(&near[..found]).is_none().then_some(at + found + self.comma)
    }
}

/// What a reader wants to know of events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'l> {
    pub(super) layout: Option<&'l Layout>,
}

/// Reads the event at the cursor, which stands at its `{`.
pub(super) fn read<'a>(cursor: &mut Cursor<'a>, wanted: Wanted<'_>) -> Step<Event<'a>> {
    let mut event = Event::default();
    let mut category = None;
    cursor.expect(b'{', "an event")?;
    if cursor.take(b'}') {
        return Ok(event);
    }
    loop {
        let key = cursor.text()?.raw;
        cursor.expect(b':', "`:`")?;
        match key {
            b"ph" if cursor.peek() == Some(b'"') => event.ph = cursor.text()?.raw.first().copied().unwrap_or_default(),
            b"cat" => {
                let cat = cursor.scalar()?;
                category = Some(Category::of(cat));
                event.cat = Some(cat);
            }
            b"name" if cursor.peek() == Some(b'"') => event.name = cursor.text()?,
            b"pid" => event.pid = cursor.scalar()?,
            b"tid" => event.tid = cursor.scalar()?,
            b"ts" => event.ts = cursor.scalar()?,
            b"dur" => event.dur = Some(cursor.scalar()?).filter(|text| !text.is_empty()),
            b"args" => {
                if cursor.peek() == Some(b'{') {
                    event.args = Some(cursor.at);
                }
                cursor.skip()?;
            }
            _ => cursor.skip()?,
        }
        if cursor.take(b'}') {
            return Ok(event);
        }
        if let Some(layout) = wanted.layout.filter(|_| is_known_enough(&event, category)) {
            if let Some(comma) = layout.next_comma(cursor.bytes, cursor.at) {
                cursor.at = comma;
                event.was_left = true;
                return Ok(event);
            }
        }
        cursor.expect(b',', "`,` or `}`")?;
    }
}

/// True when the rest of an event can say nothing that is of use.
#[inline]
fn is_known_enough(event: &Event<'_>, category: Option<Category>) -> bool {
    if event.ph != b'X' {
        return matches!(event.ph, b's' | b'f' | b't' | b'M' | b'i' | b'I');
    }
    match category {
        Some(Category::Skipped) => true,
        Some(Category::Op | Category::Frame | Category::Annotation | Category::DeviceAnnotation | Category::Overhead) => {
            event.dur.is_some() && !event.ts.is_empty() && !event.tid.is_empty() && !event.name.raw.is_empty()
        }
        _ => false,
    }
}
