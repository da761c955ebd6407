//! Columns of tables: the value types, and how storage sees them.

use crate::coded::{Coded, Values};
use crate::ids::{Name, SourceIdx};
use crate::reorder::{append, reorder};

/// A column, seen by storage.
#[derive(Debug)]
pub enum ColumnRef<'a> {
    /// 64-bit integers, times among them.
    I64(&'a [i64]),
    /// 32-bit integers.
    I32(&'a [i32]),
    /// Indices and counts.
    U32(Values<'a, u32>),
    /// Values.
    F64(&'a [f64]),
    /// Integers that may be unknown.
    OptI64(&'a [Option<i64>]),
    /// Interned text.
    Name(Values<'a, Name>),
    /// Index into the manifest's sources.
    Source(Values<'a, SourceIdx>),
    /// Lists of values (histogram bounds and counts).
    ListF64(&'a [Vec<f64>]),
}

/// A column, seen by a reader that fills it.
#[derive(Debug)]
pub enum ColumnMut<'a> {
    /// See [`ColumnRef::I64`].
    I64(&'a mut Vec<i64>),
    /// See [`ColumnRef::I32`].
    I32(&'a mut Vec<i32>),
    /// See [`ColumnRef::U32`].
    U32(&'a mut Vec<u32>),
    /// See [`ColumnRef::F64`].
    F64(&'a mut Vec<f64>),
    /// See [`ColumnRef::OptI64`].
    OptI64(&'a mut Vec<Option<i64>>),
    /// See [`ColumnRef::Name`].
    Name(&'a mut Vec<Name>),
    /// See [`ColumnRef::Source`].
    Source(&'a mut Vec<SourceIdx>),
    /// See [`ColumnRef::ListF64`].
    ListF64(&'a mut Vec<Vec<f64>>),
}

/// What a value type needs to be a column.
pub trait Column: Sized + Clone {
    /// The column for storage.
    fn column(values: &[Self]) -> ColumnRef<'_>;
    /// The column for a reader.
    fn column_mut(values: &mut Vec<Self>) -> ColumnMut<'_>;
    /// Total order, for the canonical sort.
    fn order(&self, other: &Self) -> std::cmp::Ordering;
    /// Moves a value into another capture's index space.
    fn remap(&mut self, _names: &[Name], _sources: &[SourceIdx]) {}
}

/// How a column holds its values.
pub(crate) trait ColumnStore: Sized {
    /// The column for storage.
    fn view(&self) -> ColumnRef<'_>;
    /// The column for a reader, each value in a place of its own.
    fn filled(&mut self) -> ColumnMut<'_>;
    /// Moves all values into another capture's index space.
    fn remap_values(&mut self, names: &[Name], sources: &[SourceIdx]);
    /// See [`reorder`].
    fn reorder(&mut self, order: &[u32], sorted: usize);
    /// Appends another column.
    fn append_values(&mut self, other: Self);
    /// Gives up room that is not needed.
    fn settle_values(&mut self) {}
}

impl<T: Column + Default> ColumnStore for Vec<T> {
    fn view(&self) -> ColumnRef<'_> {
        T::column(self)
    }
    fn filled(&mut self) -> ColumnMut<'_> {
        T::column_mut(self)
    }
    fn remap_values(&mut self, names: &[Name], sources: &[SourceIdx]) {
        for value in self {
            value.remap(names, sources);
        }
    }
    fn reorder(&mut self, order: &[u32], sorted: usize) {
        reorder(self, order, sorted);
    }
    fn append_values(&mut self, other: Self) {
        append(self, other);
    }
}

impl<T: CodedColumn> ColumnStore for Coded<T> {
    fn view(&self) -> ColumnRef<'_> {
        T::coded_column(self.values())
    }
    fn filled(&mut self) -> ColumnMut<'_> {
        T::column_mut(self.each_mut())
    }
    fn remap_values(&mut self, names: &[Name], sources: &[SourceIdx]) {
        self.change(|value| value.remap(names, sources));
    }
    fn reorder(&mut self, order: &[u32], sorted: usize) {
        self.rearrange(|codes| reorder(codes, order, sorted), |values| reorder(values, order, sorted));
    }
    fn append_values(&mut self, other: Self) {
        self.append(other);
    }
    fn settle_values(&mut self) {
        self.settle();
    }
}

/// A value type of which a column may have few values.
pub(crate) trait CodedColumn: Column + Copy + Default + PartialEq {
    /// The column for storage.
    fn coded_column(values: Values<'_, Self>) -> ColumnRef<'_>;
}

macro_rules! plain_column {
    ($type:ty, $variant:ident) => {
        impl Column for $type {
            fn column(values: &[Self]) -> ColumnRef<'_> {
                ColumnRef::$variant(values)
            }
            fn column_mut(values: &mut Vec<Self>) -> ColumnMut<'_> {
                ColumnMut::$variant(values)
            }
            fn order(&self, other: &Self) -> std::cmp::Ordering {
                self.cmp(other)
            }
        }
    };
}
plain_column!(i64, I64);
plain_column!(i32, I32);
plain_column!(Option<i64>, OptI64);

/// A value type of which a column may have few values; what follows is the rest of its [`Column`].
macro_rules! coded_column {
    ($type:ty, $variant:ident, $($rest:tt)*) => {
        impl Column for $type {
            fn column(values: &[Self]) -> ColumnRef<'_> {
                Self::coded_column(Values::Each(values))
            }
            fn column_mut(values: &mut Vec<Self>) -> ColumnMut<'_> {
                ColumnMut::$variant(values)
            }
            fn order(&self, other: &Self) -> std::cmp::Ordering {
                self.cmp(other)
            }
            $($rest)*
        }

        impl CodedColumn for $type {
            fn coded_column(values: Values<'_, Self>) -> ColumnRef<'_> {
                ColumnRef::$variant(values)
            }
        }
    };
}
coded_column!(u32, U32,);
coded_column!(
    Name,
    Name,
    fn remap(&mut self, names: &[Name], _sources: &[SourceIdx]) {
        *self = names.get(self.0 as usize).copied().unwrap_or(Name::EMPTY);
    }
);
coded_column!(
    SourceIdx,
    Source,
    fn remap(&mut self, _names: &[Name], sources: &[SourceIdx]) {
        *self = sources.get(self.0 as usize).copied().unwrap_or(*self);
    }
);

impl Column for f64 {
    fn column(values: &[Self]) -> ColumnRef<'_> {
        ColumnRef::F64(values)
    }
    fn column_mut(values: &mut Vec<Self>) -> ColumnMut<'_> {
        ColumnMut::F64(values)
    }
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        self.total_cmp(other)
    }
}

impl Column for Vec<f64> {
    fn column(values: &[Self]) -> ColumnRef<'_> {
        ColumnRef::ListF64(values)
    }
    fn column_mut(values: &mut Vec<Self>) -> ColumnMut<'_> {
        ColumnMut::ListF64(values)
    }
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        self.len().cmp(&other.len()).then_with(|| {
            self.iter().zip(other).map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        })
    }
}
