//! What packets of one sequence refer to: interned names and defaults.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::wire::{Value, fields, text};

/// Most names interned at a time, over all sequences.
const MAX_INTERNED: usize = 2_000_000;
/// Most sequences; each thread of a program has one.
const MAX_SEQUENCES: usize = 1 << 16;
/// Longest name kept.
const MAX_NAME_BYTES: usize = 8 << 10;

/// Fields of interned data.
const CATEGORIES: u32 = 1;
const EVENT_NAMES: u32 = 2;
const ANNOTATION_NAMES: u32 = 3;

/// Flags of a packet.
pub(super) const STATE_CLEARED: u64 = 1;
pub(super) const NEEDS_STATE: u64 = 2;

/// One sequence.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    categories: HashMap<u64, String>,
    event_names: HashMap<u64, String>,
    annotation_names: HashMap<u64, String>,
    /// Packets may refer to earlier ones: none of them was lost.
    is_complete: bool,
    pub(super) default_clock: Option<u32>,
    pub(super) default_track: u64,
}

impl Sequence {
    /// The category of this number.
    pub(super) fn category(&self, id: u64) -> Option<&str> {
        self.categories.get(&id).map(String::as_str)
    }

    /// The name of an event of this number.
    pub(super) fn event_name(&self, id: u64) -> Option<&str> {
        self.event_names.get(&id).map(String::as_str)
    }

    /// The name of an argument of this number.
    pub(super) fn annotation_name(&self, id: u64) -> Option<&str> {
        self.annotation_names.get(&id).map(String::as_str)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    known: BTreeMap<u64, Sequence>,
    interned: usize,
}

impl Sequences {
    /// Looks at the flags of a packet; `None` when it needs earlier packets that were lost.
    pub(super) fn enter(&mut self, id: u64, flags: u64, was_dropped: bool) -> Option<&mut Sequence> {
        if self.known.len() >= MAX_SEQUENCES && !self.known.contains_key(&id) {
            return None;
        }
        let sequence = self.known.entry(id).or_default();
        sequence.is_complete &= !was_dropped;
        if flags & STATE_CLEARED != 0 {
            self.interned -= sequence.categories.len() + sequence.event_names.len() + sequence.annotation_names.len();
            *sequence = Sequence { is_complete: true, ..Sequence::default() };
        }
        (flags & NEEDS_STATE == 0 || sequence.is_complete).then_some(sequence)
    }

    /// The sequence of this number.
    pub(super) fn get(&self, id: u64) -> Option<&Sequence> {
        self.known.get(&id)
    }

    /// Takes names; false when there are too many.
    pub(super) fn intern(&mut self, id: u64, message: &[u8]) -> bool {
        let Some(sequence) = self.known.get_mut(&id) else { return true };
        for (number, entry) in fields(message) {
            let names = match number {
                CATEGORIES => &mut sequence.categories,
                EVENT_NAMES => &mut sequence.event_names,
                ANNOTATION_NAMES => &mut sequence.annotation_names,
                _ => continue,
            };
            let Some((iid, name)) = named(entry) else { continue };
            if self.interned >= MAX_INTERNED {
                return false;
            }
            self.interned += usize::from(names.insert(iid, name).is_none());
        }
        true
    }
}

/// The number and the name of an interned entry.
fn named(entry: Value<'_>) -> Option<(u64, String)> {
    let (mut iid, mut name) = (None, None);
    for (number, field) in fields(entry.bytes()) {
        match number {
            1 => iid = Some(field.int()),
            2 => name = Some(text(field)),
            _ => {}
        }
    }
    let name = name?;
    let end = (0..=MAX_NAME_BYTES.min(name.len())).rev().find(|at| name.is_char_boundary(*at))?;
    Some((iid?, name[..end].to_string()))
}
