//! A map for keys of which there are few and which come in stretches: processes, threads, streams. Millions of events ask it.

use std::collections::BTreeMap;

/// Keys looked at one by one before the tree is asked.
const LINEAR: usize = 8;

/// Values by key, in order of first use.
#[derive(Clone, Debug)]
pub(crate) struct Few<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
    index: BTreeMap<K, usize>,
    last: usize,
}

impl<K, V> Default for Few<K, V> {
    fn default() -> Self {
        Self { keys: Vec::new(), values: Vec::new(), index: BTreeMap::new(), last: 0 }
    }
}

impl<K: Copy + Ord, V> Few<K, V> {
    /// Place of a key.
    #[inline]
    pub(crate) fn place(&self, key: K) -> Option<usize> {
        if self.keys.get(self.last) == Some(&key) {
            return Some(self.last);
        }
        let near = self.keys.iter().take(LINEAR).position(|known| *known == key);
        if near.is_some() || self.keys.len() <= LINEAR { near } else { self.index.get(&key).copied() }
    }

    /// The value of a key.
    #[inline]
    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.place(key).map(|at| &self.values[at])
    }

    /// The value of a key, made where there is none.
    #[inline]
    pub(crate) fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let at = self.place(key).unwrap_or_else(|| {
            self.keys.push(key);
            self.values.push(make());
            self.index.insert(key, self.keys.len() - 1);
            self.keys.len() - 1
        });
        self.last = at;
        &mut self.values[at]
    }

    /// The value at a place.
    #[inline]
    pub(crate) fn at(&mut self, place: usize) -> &mut V {
        &mut self.values[place]
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// True without keys.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Changes every value.
    pub(crate) fn each(&mut self, change: impl FnMut(&mut V)) {
        self.values.iter_mut().for_each(change);
    }

    /// Keys and values in order of first use.
    pub(crate) fn into_pairs(self) -> impl Iterator<Item = (K, V)> {
        self.keys.into_iter().zip(self.values)
    }

    /// Keys and values in order of first use.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (K, &V)> {
        self.keys.iter().copied().zip(&self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_keys_are_found() {
        let mut few: Few<u32, u32> = Few::default();
        for round in 0..3 {
            for key in 0..40 {
                *few.entry(key * 7, || 0) += round;
            }
        }
        assert_eq!((few.get(7 * 39), few.get(7 * 3), few.get(1)), (Some(&3), Some(&3), None));
        assert_eq!(few.into_pairs().count(), 40);
    }
}
