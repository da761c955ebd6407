//! One event of a trace, read key by key in whatever order they stand.
//!
//! Most events of a large trace are of no use here: as soon as enough of one is known, the parser leaves it, if it can by
//! jumping to the next separator that looks like those between the first events ([`Layout`]).

use memchr::memmem::Finder;

use super::args::Args;
use super::category::Category;
use super::keys::{Key, Keys};
use super::numbers::microseconds;
use super::op_sizes;
use super::scan::{Cursor, Step, Text};

/// Farthest jump within an event; longer ones are read through.
const MAX_JUMP: usize = 64 << 10;
const PHASE: &[u8] = b"\"ph\"";
const DURATION: &[u8] = b"\"dur\":";
/// Farthest that the duration of a frame is looked for.
const MAX_LOOK: usize = 1 << 10;

/// An event's own keys; values are text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event<'a> {
    /// `X`, `M`, ...; 0 for an object that is no event.
    pub(super) ph: u8,
    /// `None` where nothing is told.
    pub(super) cat: Option<Category>,
    pub(super) category: Category,
    pub(super) name: Text<'a>,
    pub(super) pid: &'a [u8],
    pub(super) tid: &'a [u8],
    pub(super) ts: &'a [u8],
    pub(super) dur: Option<&'a [u8]>,
    /// What became of the arguments.
    pub(super) arguments: Arguments,
    /// True when the rest was jumped over.
    pub(super) was_left: bool,
}

/// What became of an event's arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Arguments {
    /// There are none.
    #[default]
    Absent,
    /// They came before it was known whether they are of use; they stand here.
    At(usize),
    /// They are read.
    Read,
}

/// What stands between two events of a file.
#[derive(Debug)]
pub(super) struct Layout {
    separator: Finder<'static>,
    comma: usize,
    /// From the separator to the key `"ph"` of the next event, where that comes first.
    lead: Option<Box<[u8]>>,
    /// The key that every event has: where it stands, there is one more event.
    phase: Finder<'static>,
    duration: Finder<'static>,
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
        cursor.at += 1;
        cursor.peek();
        let lead = bytes[cursor.at..].starts_with(PHASE).then(|| bytes[line..cursor.at].into());
        let [separator, phase, duration] = [separator, PHASE, DURATION].map(|text| Finder::new(text).into_owned());
        Some(Self { separator, comma, lead, phase, duration })
    }

    /// Where the next separator's comma stands, if nothing before it starts an event of its own.
    fn next_comma(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let near = &bytes[at..bytes.len().min(at + MAX_JUMP)];
        let phase = self.phase.find(near)?;
        let is_next = |lead: &&[u8]| near[..phase].ends_with(lead);
        let separator = match self.lead.as_deref().filter(is_next) {
            Some(lead) => phase - lead.len(),
            None => self.separator.find(&near[..phase])?,
        };
        Some(at + separator + self.comma)
    }
}

/// How a reader may leave events early.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leave<'l> {
    /// Allows jumps.
    pub(super) layout: Option<&'l Layout>,
    /// Frames that are shorter are of no use.
    pub(super) min_frame_ns: i64,
    /// Operators that are shorter are of no use.
    pub(super) min_op_ns: i64,
}

impl Leave<'_> {
    /// The comma behind a frame or operator that is too short, whose `cat` ends at `at`.
    #[inline]
    fn behind_brief(&self, category: Category, name: Text<'_>, bytes: &[u8], at: usize) -> Option<usize> {
        let min_ns = match category {
            Category::Frame => self.min_frame_ns,
            Category::Op => self.min_op_ns,
            _ => 0,
        };
        let layout = self.layout.filter(|_| min_ns > 0)?;
        let near = &bytes[at..bytes.len().min(at + MAX_LOOK)];
        let found = layout.duration.find(near)?;
        // What stands in an object of its own is not the frame's.
        memchr::memchr2(b'{', b'}', &near[..found]).is_none().then_some(())?;
        if category == Category::Op && (op_sizes::tell(name.raw) || op_sizes::are_near(&near[..found])) {
            return None;
        }
        let mut cursor = Cursor::new(bytes, at + found + DURATION.len());
        let duration_ns = microseconds(cursor.scalar().ok()?)?;
        (duration_ns < min_ns).then(|| layout.next_comma(bytes, at))?
    }
}

/// An event, and the arguments of one whose are of use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Whole<'a> {
    pub(super) event: Event<'a>,
    pub(super) args: Args<'a>,
}

/// Reads the event at the cursor, which stands at its `{`, into `whole`.
pub(super) fn read<'a>(cursor: &mut Cursor<'a>, keys: &mut Keys, leave: Leave<'_>, whole: &mut Whole<'a>) -> Step<()> {
    let Whole { event, args } = whole;
    *event = Event::default();
    for position in 0.. {
        let Some(key) = keys.next(cursor, position)? else { break };
        match key {
            Key::Ph if cursor.peek() == Some(b'"') => event.ph = cursor.letter()?,
            Key::Cat => {
                event.cat = keys.category(cursor)?;
                event.category = event.cat.unwrap_or_default();
                if event.ph == b'X'
                    && let Some(comma) = leave.behind_brief(event.category, event.name, cursor.bytes, cursor.at)
                {
                    cursor.at = comma;
                    event.was_left = true;
                    break;
                }
            }
            Key::Name if cursor.peek() == Some(b'"') => event.name = cursor.long_text()?,
            Key::Pid => event.pid = cursor.scalar()?,
            Key::Tid => event.tid = cursor.scalar()?,
            Key::Ts => event.ts = cursor.scalar()?,
            Key::Dur => event.dur = Some(cursor.scalar()?).filter(|text| !text.is_empty()),
            Key::Args => {
                if event.category.has_arguments() && cursor.peek() == Some(b'{') {
                    args.read(cursor)?;
                    event.arguments = Arguments::Read;
                } else {
                    event.arguments = if cursor.peek() == Some(b'{') { Arguments::At(cursor.at) } else { Arguments::Absent };
                    cursor.skip()?;
                }
                continue;
            }
            _ => {
                cursor.skip()?;
                continue;
            }
        }
        if !matches!(key, Key::Ph | Key::Cat | Key::Dur) && event.dur.is_none() {
            continue;
        }
        let Some(layout) = leave.layout.filter(|_| is_known_enough(event)) else { continue };
        if let Some(comma) = layout.next_comma(cursor.bytes, cursor.at) {
            cursor.at = comma;
            event.was_left = true;
            break;
        }
    }
    Ok(())
}

/// True when the rest of an event can say nothing that is of use.
#[inline]
fn is_known_enough(event: &Event<'_>) -> bool {
    if event.ph != b'X' {
        return matches!(event.ph, b's' | b'f' | b't' | b'M' | b'i' | b'I');
    }
    match event.category {
        Category::Skipped => true,
        // The sizes of its inputs are among its arguments.
        Category::Op if event.arguments == Arguments::Absent && op_sizes::tell(event.name.raw) => false,
        Category::Op | Category::Frame | Category::Annotation | Category::DeviceAnnotation | Category::Overhead => {
            event.dur.is_some() && !event.ts.is_empty() && !event.tid.is_empty() && !event.name.raw.is_empty()
        }
        _ => false,
    }
}
