//! Interned strings.

use hashbrown::HashMap;

use crate::ids::Name;

/// The interner behind the `names` table: each distinct text once, in order of first use.
#[derive(Clone, Debug)]
pub struct Names {
    texts: Vec<Box<str>>,
    index: HashMap<Box<str>, u32>,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self { texts: Vec::new(), index: HashMap::new() };
        names.intern("");
        names
    }
}

impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl Names {
    /// Returns the id of `text`, adding it if it is new.
    pub fn intern(&mut self, text: &str) -> Name {
        if let Some(&id) = self.index.get(text) {
            return Name(id);
        }
        let id = u32::try_from(self.texts.len()).expect("a capture holds fewer than 2^32 distinct strings");
        self.texts.push(text.into());
        self.index.insert(text.into(), id);
        Name(id)
    }

    /// Returns the id of `text` if it has been interned.
    pub fn find(&self, text: &str) -> Option<Name> {
        self.index.get(text).copied().map(Name)
    }

    /// The text behind `name`; the empty string for an id this capture never handed out.
    pub fn text(&self, name: Name) -> &str {
        self.texts.get(name.0 as usize).map_or("", |text| text)
    }

    /// Number of distinct strings, the empty one included.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Never true: the empty string is always there.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// All strings in id order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(AsRef::as_ref)
    }

    /// Interns every string of `other` here; entry `i` of the result is the new id of `other`'s id `i`.
    pub fn absorb(&mut self, other: &Self) -> Vec<Name> {
        other.iter().map(|text| self.intern(text)).collect()
    }

    /// Sorts the strings (the empty one stays first); entry `i` of the result is the new id of the old id `i`.
    pub fn sort(&mut self) -> Vec<Name> {
        let mut order: Vec<u32> = (0..self.texts.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| self.texts[a as usize].cmp(&self.texts[b as usize]));
        let mut map = vec![Name::EMPTY; order.len()];
        let mut sorted = Self { texts: Vec::with_capacity(order.len()), index: HashMap::with_capacity(order.len()) };
        for old in order {
            map[old as usize] = sorted.intern(&self.texts[old as usize]);
        }
        *self = sorted;
        map
    }
}
