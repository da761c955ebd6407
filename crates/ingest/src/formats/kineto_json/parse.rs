//! A block of a trace to columns, event by event, over whatever is damaged in it.

use super::columns::Columns;
use super::event::{self, Layout, Leave, Whole};
use super::keys::Keys;
use super::recovery::next_start;
use super::scan::{Cursor, Step, Stop};

/// Bytes that may be read in vain for each byte of a block before the rest of it is given up.
const MAX_EFFORT: usize = 4;

/// A part of the array of events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'b> {
    pub(super) bytes: &'b [u8],
    /// Where it stands in the unpacked text.
    pub(super) offset: u64,
    /// It ends behind an event.
    pub(super) is_cut: bool,
    /// What follows can be read again, if the array ends within.
    pub(super) may_end: bool,
    pub(super) layout: Option<&'b Layout>,
}

/// How a piece ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Everything is read.
    Whole,
    /// The array ends at this place, where `]` stands.
    Array(usize),
    /// An element that starts here is not whole.
    Incomplete(usize),
}

struct Reader<'b, 'c> {
    piece: Piece<'b>,
    whole: Whole<'b>,
    cursor: Cursor<'b>,
    columns: &'c mut Columns,
    /// Start of the event before, where its rest was jumped over.
    left_at: Option<usize>,
    effort: usize,
    keys: Keys,
}

/// Reads the events of a piece.
pub(super) fn events(piece: Piece<'_>, columns: &mut Columns) -> Ended {
    let effort = piece.bytes.len().saturating_mul(MAX_EFFORT);
    let mut reader = Reader {
        piece,
        whole: Whole::default(),
        cursor: Cursor::new(piece.bytes, 0),
        columns,
        left_at: None,
        effort,
        keys: Keys::default(),
    };
    loop {
        while reader.cursor.take(b',') {}
        let Some(byte) = reader.cursor.peek() else { return Ended::Whole };
        let start = reader.cursor.at;
        let outcome = match byte {
            b']' if piece.may_end && (!piece.is_cut || is_array_end(piece.bytes, start)) => return Ended::Array(start),
            b']' => {
                reader.columns.losses.ended_early.add(piece.offset + start as u64);
                Ok(next_start(piece.bytes, start))
            }
            b'{' => reader.event(start).map(Some),
            _ => reader.other(start).map(Some),
        };
        match outcome {
            Ok(Some(next)) => reader.cursor.at = next,
            Ok(None) => return Ended::Whole,
            Err(stop) => match reader.recover(start, stop) {
                Ok(next) => reader.cursor.at = next,
                Err(ended) => return ended,
            },
        }
    }
}

/// True when what follows the `]` at `at` is what follows an array of events: its object's next key or end, or nothing.
fn is_array_end(bytes: &[u8], at: usize) -> bool {
    let mut cursor = Cursor::new(bytes, at + 1);
    match cursor.peek() {
        Some(b',') => cursor.take(b',') && cursor.peek() == Some(b'"'),
        Some(b'}') | None => true,
        Some(_) => false,
    }
}

impl Reader<'_, '_> {
    /// Reads one event; returns where to go on.
    fn event(&mut self, start: usize) -> Step<usize> {
        let leave = Leave { layout: self.piece.layout, min_frame_ns: self.columns.min_frame_ns() };
        let read = event::read(&mut self.cursor, &mut self.keys, leave, &mut self.whole);
        if (read.is_err() || self.whole.event.ph == 0)
            && let Some(left_at) = self.left_at.take()
        {
            // The jump before may have ended within its event: read that one through.
            let mut cursor = Cursor::new(self.piece.bytes, left_at);
            if event::read(&mut cursor, &mut self.keys, Leave::default(), &mut self.whole).is_ok() && cursor.at != start {
                return Ok(cursor.at);
            }
            self.cursor.at = start;
            return self.event(start);
        }
        read?;
        self.left_at = self.whole.event.was_left.then_some(start);
        if self.whole.event.ph == 0 && self.cursor.at - start > 2 {
            self.lose(start, self.cursor.at);
        } else {
            self.columns.add(&self.whole, self.piece.bytes, self.piece.offset + start as u64);
        }
        Ok(self.cursor.at)
    }

    /// Passes over an element that is no event.
    fn other(&mut self, start: usize) -> Step<usize> {
        self.cursor.skip()?;
        self.lose(start, self.cursor.at);
        Ok(self.cursor.at)
    }

    fn lose(&mut self, from: usize, to: usize) {
        self.columns.losses.damaged.add(self.piece.offset + from as u64);
        self.columns.losses.damaged_bytes += (to - from) as u64;
    }

    /// Where to go on behind damage in the element that starts at `start`.
    fn recover(&mut self, start: usize, stop: Stop) -> Result<usize, Ended> {
        if stop == Stop::End && !self.piece.is_cut {
            return Err(Ended::Incomplete(start));
        }
        self.left_at = None;
        let tried = self.cursor.at.min(self.piece.bytes.len()) - start;
        self.effort = self.effort.saturating_sub(tried);
        let next = next_start(self.piece.bytes, start + 1).filter(|_| self.effort > 0);
        self.lose(start, next.unwrap_or(self.piece.bytes.len()));
        next.ok_or(Ended::Whole)
    }
}
