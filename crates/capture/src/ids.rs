//! Index newtypes. An index is only meaningful inside the capture that handed it out.

/// Index into the capture's `names` table (interned text). `Name::EMPTY` is the empty string in every capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Name(pub u32);

impl Name {
    /// The empty string: the first row of every `names` table.
    pub const EMPTY: Self = Self(0);

    /// True for the empty string, which tables use for "not known".
    pub fn is_empty(self) -> bool {
        self == Self::EMPTY
    }
}

/// Index into `Manifest::sources`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SourceIdx(pub u32);

/// `point_idx` of a row that belongs to no sweep point.
pub const NO_POINT: i32 = -1;
