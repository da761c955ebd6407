//! The keys of an event, told at a glance: writers put the same bytes between two values in nearly every event.
//!
//! What stood between the values of an earlier event (`, "pid": `) is compared first, and only where it differs the key is
//! read. Equal bytes are equal tokens, so nothing depends on the layout but the speed.

use super::category::Category;
use super::scan::{Cursor, Step, Stop};

/// An event's own keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Key {
    Ph,
    Cat,
    Name,
    Pid,
    Tid,
    Ts,
    Dur,
    Args,
    #[default]
    Other,
}

impl Key {
    fn of(text: &[u8]) -> Self {
        match text {
            b"ph" => Self::Ph,
            b"cat" => Self::Cat,
            b"name" => Self::Name,
            b"pid" => Self::Pid,
            b"tid" => Self::Tid,
            b"ts" => Self::Ts,
            b"dur" => Self::Dur,
            b"args" => Self::Args,
            _ => Self::Other,
        }
    }
}

/// Keys of an event that are remembered, by position.
const POSITIONS: usize = 9;
/// Spellings remembered for each position: complete events and the links between them differ.
const SPELLINGS: usize = 2;
/// Categories remembered.
const CATEGORIES: usize = 4;
/// Longest spelling that is remembered: an indent of twelve and the longest key.
const MAX_BYTES: usize = 24;
const WORDS: usize = MAX_BYTES / 8;

/// Bytes of a spelling as words, compared without a loop over bytes; the mask leaves out what is behind its end.
#[derive(Clone, Copy, Debug, Default)]
struct Spelling<M> {
    words: [u64; WORDS],
    mask: [u64; WORDS],
    len: usize,
    meaning: M,
}

impl<M> Spelling<M> {
    fn new(text: &[u8], meaning: M) -> Self {
        let (mut bytes, mut mask) = ([0; MAX_BYTES], [0; MAX_BYTES]);
        bytes[..text.len()].copy_from_slice(text);
        mask[..text.len()].fill(0xff);
        Self { words: words(&bytes), mask: words(&mask), len: text.len(), meaning }
    }

    #[inline]
    fn starts(&self, found: &[u64; WORDS]) -> bool {
        let mut difference = 0;
        for ((word, mask), found) in self.words.iter().zip(&self.mask).zip(found) {
            difference |= (word ^ found) & mask;
        }
        difference == 0 && self.len > 0
    }
}

#[inline]
fn words(bytes: &[u8; MAX_BYTES]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    known: [[Spelling<Key>; SPELLINGS]; POSITIONS],
    replaced: [usize; POSITIONS],
    categories: [Spelling<Category>; CATEGORIES],
    category_replaced: usize,
}

impl Keys {
    /// The key at `position` of an event, with the cursor at its value behind it; `None` at the event's end.
    #[inline]
    pub(super) fn next(&mut self, cursor: &mut Cursor<'_>, position: usize) -> Step<Option<Key>> {
        let near = cursor.bytes.get(cursor.at..).and_then(|rest| rest.first_chunk::<MAX_BYTES>());
        if let (Some(known), Some(near)) = (self.known.get(position), near) {
            let near = words(near);
            if let Some(spelling) = known.iter().find(|spelling| spelling.starts(&near)) {
                cursor.at += spelling.len;
                return Ok(Some(spelling.meaning));
            }
        }
        self.read(cursor, position)
    }

    /// The category at the cursor; `None` where it is no string.
    #[inline]
    pub(super) fn category(&mut self, cursor: &mut Cursor<'_>) -> Step<Option<Category>> {
        if let Some(near) = cursor.bytes.get(cursor.at..).and_then(|rest| rest.first_chunk::<MAX_BYTES>()) {
            let near = words(near);
            if let Some(spelling) = self.categories.iter().find(|spelling| spelling.starts(&near)) {
                cursor.at += spelling.len;
                return Ok(Some(spelling.meaning));
            }
        }
        if cursor.peek() != Some(b'"') {
            return cursor.skip().map(|()| None);
        }
        let from = cursor.at;
        let category = Category::of(cursor.text()?.raw);
        let text = &cursor.bytes[from..cursor.at];
        if text.len() <= MAX_BYTES {
            self.categories[self.category_replaced] = Spelling::new(text, category);
            self.category_replaced = (self.category_replaced + 1) % CATEGORIES;
        }
        Ok(Some(category))
    }

    fn read(&mut self, cursor: &mut Cursor<'_>, position: usize) -> Step<Option<Key>> {
        if position > 0 && cursor.take(b'}') {
            return Ok(None);
        }
        let from = cursor.at;
        if position == 0 {
            cursor.expect(b'{', "an event")?;
            if cursor.take(b'}') {
                return Ok(None);
            }
        } else {
            cursor.expect(b',', "`,` or `}`")?;
        }
        let key = Key::of(cursor.text()?.raw);
        cursor.expect(b':', "`:`")?;
        if cursor.peek().is_none() {
            return Err(Stop::End);
        }
        self.remember(&cursor.bytes[from..cursor.at], key, position);
        Ok(Some(key))
    }

    fn remember(&mut self, between: &[u8], key: Key, position: usize) {
        if position >= POSITIONS || between.len() > MAX_BYTES || key == Key::Other {
            return;
        }
        let at = self.replaced[position];
        self.replaced[position] = (at + 1) % SPELLINGS;
        self.known[position][at] = Spelling::new(between, key);
    }
}
