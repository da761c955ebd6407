//! A column of few values: the arm, the process, the kind of millions of events take a byte each, or nothing.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Index, Range};

/// Most different values that are told apart by a byte; they are looked for one by one.
const MOST_CODED: usize = 64;

/// Values held as small as they allow.
#[derive(Clone)]
pub struct Coded<T>(Held<T>);

#[derive(Clone)]
enum Held<T> {
    /// One value, so many times.
    Same(T, usize),
    /// Few values, and for each place which of them.
    Codes(Vec<T>, Vec<u8>),
    /// Many values.
    Each(Vec<T>),
}

impl<T: Default> Default for Coded<T> {
    fn default() -> Self {
        Self(Held::Same(T::default(), 0))
    }
}

impl<T: Copy + Default + PartialEq> Coded<T> {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.values().len()
    }

    /// True without a value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a value.
    #[inline]
    pub fn push(&mut self, value: T) {
        match &mut self.0 {
            Held::Same(same, count) if *same == value || *count == 0 => {
                *same = value;
                *count += 1;
            }
            Held::Codes(known, codes) if codes.last().is_some_and(|last| known[*last as usize] == value) => {
                codes.extend_from_within(codes.len() - 1..);
            }
            Held::Each(each) => each.push(value),
            _ => self.push_other(value),
        }
    }

    /// Appends a value that differs from the one before.
    fn push_other(&mut self, value: T) {
        let code = self.code(value);
        match (&mut self.0, code) {
            (Held::Codes(_, codes), Some(code)) => codes.push(code),
            _ => self.each_mut().push(value),
        }
    }

    /// The code of a value, where it can have one.
    fn code(&mut self, value: T) -> Option<u8> {
        if let Held::Same(same, count) = self.0 {
            self.0 = Held::Codes(vec![same], vec![0; count]);
        }
        let Held::Codes(known, _) = &mut self.0 else { return None };
        let code = known.iter().position(|it| *it == value).unwrap_or_else(|| {
            known.push(value);
            known.len() - 1
        });
        (code < MOST_CODED).then_some(code as u8)
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.values().iter()
    }

    /// Values that differ from the one before.
    pub fn changes(&self) -> impl Iterator<Item = T> + '_ {
        let values = self.values();
        let count = if let Values::Same(_, count) = values { count.min(1) } else { values.len() };
        (0..count)
            .map(move |at| (at, values.at(at)))
            .filter(move |(at, value)| *at == 0 || values.at(at - 1) != *value)
            .map(|(_, value)| value)
    }

    /// Sets all values.
    pub fn fill(&mut self, value: T) {
        self.0 = Held::Same(value, self.len());
    }

    /// Sets one value.
    pub fn set(&mut self, at: usize, value: T) {
        if self[at] == value {
            return;
        }
        let code = self.code(value);
        match (&mut self.0, code) {
            (Held::Codes(_, codes), Some(code)) => codes[at] = code,
            _ => self.each_mut()[at] = value,
        }
    }

    /// Each value in a place of its own.
    pub fn each_mut(&mut self) -> &mut Vec<T> {
        if !matches!(self.0, Held::Each(_)) {
            self.0 = Held::Each(self.iter().collect());
        }
        match &mut self.0 {
            Held::Each(each) => each,
            _ => unreachable!("each value was given its place"),
        }
    }

    /// A view for storage.
    #[inline]
    pub fn values(&self) -> Values<'_, T> {
        match &self.0 {
            Held::Same(value, count) => Values::Same(*value, *count),
            Held::Codes(known, codes) => Values::Codes(known, codes),
            Held::Each(values) => Values::Each(values),
        }
    }

    /// Gives up room that is not needed.
    pub(crate) fn settle(&mut self) {
        let Held::Each(each) = &self.0 else { return };
        let mut coded = Self::default();
        for value in each {
            coded.push(*value);
            if matches!(coded.0, Held::Each(_)) {
                return;
            }
        }
        *self = coded;
    }

    /// Changes all values alike: equal ones stay equal.
    pub(crate) fn change(&mut self, change: impl FnMut(&mut T)) {
        match &mut self.0 {
            Held::Same(value, _) => std::slice::from_mut(value),
            Held::Codes(known, _) => known,
            Held::Each(each) => each.as_mut_slice(),
        }
        .iter_mut()
        .for_each(change);
    }

    /// Moves the values with one of these functions, whichever fits how they are held.
    pub(crate) fn rearrange(&mut self, of_codes: impl FnOnce(&mut [u8]), of_values: impl FnOnce(&mut [T])) {
        match &mut self.0 {
            Held::Same(..) => {}
            Held::Codes(_, codes) => of_codes(codes),
            Held::Each(each) => of_values(each),
        }
    }

    pub(crate) fn reserve_exact(&mut self, more: usize) {
        match &mut self.0 {
            Held::Same(..) => {}
            Held::Codes(_, codes) => codes.reserve_exact(more),
            Held::Each(each) => each.reserve_exact(more),
        }
    }

    pub(crate) fn append(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        match (&mut self.0, &other.0) {
            (_, Held::Same(_, 0)) => {}
            (Held::Same(value, count), Held::Same(more, times)) if value == more => *count += times,
            (Held::Each(each), _) => each.extend(other.iter()),
            (_, Held::Same(value, times)) => match self.code(*value) {
                Some(code) => self.append_codes(*times, std::iter::repeat_n(code, *times)),
                None => self.each_mut().extend(other.iter()),
            },
            (_, Held::Codes(known, codes)) => {
                let new: Option<Vec<u8>> = known.iter().map(|value| self.code(*value)).collect();
                match new {
                    Some(new) => self.append_codes(codes.len(), codes.iter().map(|code| new[*code as usize])),
                    None => self.each_mut().extend(other.iter()),
                }
            }
            (_, Held::Each(_)) => self.each_mut().extend(other.iter()),
        }
    }

    fn append_codes(&mut self, more: usize, new: impl Iterator<Item = u8>) {
        if let Held::Codes(_, codes) = &mut self.0 {
            codes.reserve_exact(more);
            codes.extend(new);
        }
    }
}

impl<T> Index<usize> for Coded<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: usize) -> &T {
        match &self.0 {
            Held::Same(value, count) => {
                assert!(at < *count, "value {at} of {count}");
                value
            }
            Held::Codes(known, codes) => &known[codes[at] as usize],
            Held::Each(each) => &each[at],
        }
    }
}

/// However they are held, equal values look alike.
impl<T: Copy + Default + PartialEq + fmt::Debug> fmt::Debug for Coded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: Copy + Default + PartialEq> PartialEq for Coded<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

/// Values of a column, however they are held.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a, T> {
    /// One after the other.
    Each(&'a [T]),
    /// One, so many times.
    Same(T, usize),
    /// Few values, and for each place which of them.
    Codes(&'a [T], &'a [u8]),
}

impl<'a, T: Copy> Values<'a, T> {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Each(values) => values.len(),
            Self::Same(_, count) => *count,
            Self::Codes(_, codes) => codes.len(),
        }
    }

    /// True without a value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at a place below [`Self::len`].
    #[inline]
    pub fn at(&self, at: usize) -> T {
        match self {
            Self::Each(values) => values[at],
            Self::Same(value, count) => {
                assert!(at < *count, "value {at} of {count}");
                *value
            }
            Self::Codes(known, codes) => known[codes[at] as usize],
        }
    }

    /// All values.
    pub fn iter(self) -> impl Iterator<Item = T> + 'a
    where
        T: 'a,
    {
        (0..self.len()).map(move |at| self.at(at))
    }

    /// Some of the values, one after the other.
    pub fn slice(self, range: Range<usize>) -> Cow<'a, [T]> {
        match self {
            Self::Each(values) => Cow::Borrowed(&values[range]),
            _ => range.map(|at| self.at(at)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn coded_values_are_those_of_a_vector(
            first in prop::collection::vec(prop_oneof![0u32..2, 0u32..90], 0..200),
            second in prop::collection::vec(prop_oneof![0u32..2, 0u32..90], 0..200),
            at in 0usize..300,
            value in 0u32..3,
        ) {
            let collect = |values: &[u32]| {
                let mut coded = Coded::default();
                for value in values {
                    coded.push(*value);
                }
                coded
            };
            let (mut expected, mut coded) = (first.clone(), collect(&first));
            expected.extend(&second);
            coded.append(collect(&second));
            if at < expected.len() {
                expected[at] = value;
                coded.set(at, value);
                prop_assert_eq!(coded[at], value);
            }
            prop_assert_eq!(coded.iter().collect::<Vec<u32>>(), expected.clone());
            prop_assert_eq!(coded.len(), expected.len());
            let mut stretches = expected.clone();
            stretches.dedup();
            prop_assert_eq!(coded.changes().collect::<Vec<u32>>(), stretches);
            coded.settle();
            prop_assert_eq!(&coded, &collect(&expected));
            let (first, last) = (expected.len() / 3, expected.len() / 2);
            prop_assert_eq!(coded.values().slice(first..last), &expected[first..last]);
            coded.rearrange(<[u8]>::reverse, <[u32]>::reverse);
            match coded.values() {
                Values::Same(..) => {}
                _ => expected.reverse(),
            }
            coded.change(|value| *value += 7);
            for value in &mut expected {
                *value += 7;
            }
            prop_assert_eq!(coded.each_mut(), &expected);
        }
    }

    #[test]
    fn few_values_take_a_byte_each_and_equal_ones_no_room() {
        let mut coded = Coded::default();
        (0..1_000).for_each(|_| coded.push(7u32));
        assert!(matches!(coded.values(), Values::Same(7, 1_000)));
        (0..1_000u32).for_each(|at| coded.push(at % 60));
        assert!(matches!(coded.values(), Values::Codes(..)));
        coded.each_mut();
        assert!(matches!(coded.values(), Values::Each(_)));
        coded.settle();
        assert!(matches!(coded.values(), Values::Codes(known, _) if known.len() == 60));
        (0..=MOST_CODED as u32).for_each(|at| coded.push(at));
        assert!(matches!(coded.values(), Values::Each(_)));
        assert_eq!((coded[999], coded[1_061], coded[2_064]), (7, 1, 64));
    }
}
