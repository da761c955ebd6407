//! The footer of a Parquet file: which columns there are and where their pages lie.

use super::Damage;
use super::thrift::{Field, Kind, Thrift};

/// Bytes after the footer: its length and the magic.
pub(in crate::store) const TAIL_BYTES: u64 = 8;

/// Columns a file may have; a table of a capture has a few dozen.
const MAX_LEAVES: usize = 4096;

/// How deep a schema may nest; a list takes three.
const MAX_DEPTH: usize = 8;

/// How a value lies in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Physical {
    I32,
    I64,
    F64,
    Bytes,
    Other,
}

/// One column of the file.
#[derive(Clone, Debug)]
pub(in crate::store) struct Leaf {
    /// Name of the top-level field it belongs to.
    pub name: String,
    pub physical: Physical,
    /// Definition level of a value that is there.
    pub max_def: u8,
    pub max_rep: u8,
    /// Definition level from which a list has an entry; 0 outside lists.
    pub entry_def: u8,
    /// True for times in a coarser unit than nanoseconds.
    pub coarse_time: bool,
}

/// The pages of one column in one row group.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Chunk {
    pub start: u64,
    pub length: u64,
    pub zstd: bool,
}

/// One row group.
#[derive(Clone, Debug)]
pub(in crate::store) struct Group {
    pub row_count: u64,
    /// One per leaf, in their order.
    pub chunks: Vec<Chunk>,
}

/// What a reader needs of a footer.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct Footer {
    pub leaves: Vec<Leaf>,
    pub groups: Vec<Group>,
}

/// Length of the footer, from the last [`TAIL_BYTES`] of the file.
pub(in crate::store) fn length(tail: &[u8]) -> Result<u64, Damage> {
    match tail {
        [a, b, c, d, b'P', b'A', b'R', b'1'] => Ok(u64::from(u32::from_le_bytes([*a, *b, *c, *d]))),
        _ => Err(Damage::new("a Parquet file, which ends in `PAR1`", "another ending")),
    }
}

impl Footer {
    /// Reads the footer proper, without its tail.
    pub(in crate::store) fn parse(bytes: &[u8]) -> Result<Self, Damage> {
        let mut footer = Self::default();
        let mut elements = Vec::new();
        Thrift::new(bytes).fields(|thrift, field| match field.id {
            2 => structs(thrift, field, |thrift| {
                elements.push(element(thrift)?);
                Ok(())
            }),
            4 => {
                if footer.leaves.is_empty() {
                    footer.leaves = leaves(&elements)?;
                }
                let leaf_count = footer.leaves.len();
                structs(thrift, field, |thrift| {
                    footer.groups.push(group(thrift, leaf_count)?);
                    Ok(())
                })
            }
            _ => thrift.skip(field.kind),
        })?;
        if footer.leaves.is_empty() {
            footer.leaves = leaves(&elements)?;
        }
        Ok(footer)
    }
}

/// Calls `read` for every struct of a list.
fn structs<'a>(thrift: &mut Thrift<'a>, field: Field, mut read: impl FnMut(&mut Thrift<'a>) -> Result<(), Damage>) -> Result<(), Damage> {
    match thrift.list(field)? {
        (Kind::Struct, count) => (0..count).try_for_each(|_| read(thrift)),
        (kind, _) => Err(Damage::new("a list of structs", format_args!("one of {kind:?}"))),
    }
}

/// One element of the flattened schema.
#[derive(Debug, Default)]
struct Element {
    name: String,
    physical: Option<i64>,
    repetition: i64,
    child_count: usize,
    coarse_time: bool,
}

fn element(thrift: &mut Thrift<'_>) -> Result<Element, Damage> {
    let mut element = Element::default();
    thrift.fields(|thrift, field| {
        match field.id {
            1 => element.physical = Some(thrift.integer(field)?),
            3 => element.repetition = thrift.integer(field)?,
            4 => element.name = thrift.text(field)?.to_string(),
            5 => element.child_count = thrift.count(field)? as usize,
            6 => element.coarse_time |= matches!(thrift.integer(field)?, 9 | 10), // TIMESTAMP_MILLIS, TIMESTAMP_MICROS
            10 => element.coarse_time |= coarse_time(thrift, field)?,
            _ => thrift.skip(field.kind)?,
        }
        Ok(())
    })?;
    Ok(element)
}

/// True if a logical type is a timestamp (8) whose unit (2) is milli- (1) or microseconds (2).
fn coarse_time(thrift: &mut Thrift<'_>, field: Field) -> Result<bool, Damage> {
    let mut coarse = false;
    in_struct(thrift, field, |thrift, logical| match logical.id {
        8 => in_struct(thrift, logical, |thrift, part| match part.id {
            2 => in_struct(thrift, part, |thrift, unit| {
                coarse = unit.id != 3;
                thrift.skip(unit.kind)
            }),
            _ => thrift.skip(part.kind),
        }),
        _ => thrift.skip(logical.kind),
    })?;
    Ok(coarse)
}

/// Like [`Thrift::fields`] for a field that must be a struct.
fn in_struct<'a>(
    thrift: &mut Thrift<'a>,
    field: Field,
    read: impl FnMut(&mut Thrift<'a>, Field) -> Result<(), Damage>,
) -> Result<(), Damage> {
    if field.kind != Kind::Struct {
        return Err(Damage::new(format_args!("a struct in field {}", field.id), format_args!("{:?}", field.kind)));
    }
    thrift.fields(read)
}

/// What the groups around an element add up to.
#[derive(Clone, Copy, Debug, Default)]
struct Levels {
    /// Children still to come.
    left: usize,
    /// Index of the top-level field, `None` at the root.
    top: Option<usize>,
    def: u8,
    rep: u8,
    entry_def: u8,
}

/// Walks the flattened schema tree.
fn leaves(elements: &[Element]) -> Result<Vec<Leaf>, Damage> {
    let Some((root, rest)) = elements.split_first() else {
        return Err(Damage::new("a schema", "none"));
    };
    let mut leaves = Vec::new();
    let mut path = vec![Levels { left: root.child_count, ..Levels::default() }];
    for (at, element) in rest.iter().enumerate() {
        while path.last().is_some_and(|group| group.left == 0) {
            path.pop();
        }
        let depth = path.len();
        let group = path.last_mut().ok_or_else(|| Damage::new("a schema of one tree", "more elements"))?;
        group.left -= 1;
        let mut levels = Levels { left: element.child_count, top: group.top.or(Some(at)), ..*group };
        levels.def += u8::from(element.repetition != 0);
        if element.repetition == 2 {
            levels.rep += 1;
            levels.entry_def = levels.def;
        }
        match element.physical {
            None if depth == MAX_DEPTH => return Err(Damage::new("a schema at most 8 deep", "a deeper one")),
            None => path.push(levels),
            Some(_) if leaves.len() == MAX_LEAVES => return Err(Damage::new("at most 4096 columns", "more")),
            Some(physical) => leaves.push(Leaf {
                name: rest[levels.top.unwrap_or(at)].name.clone(),
                physical: physical_type(physical),
                max_def: levels.def,
                max_rep: levels.rep,
                entry_def: levels.entry_def,
                coarse_time: element.coarse_time,
            }),
        }
    }
    if path.iter().any(|group| group.left > 0) {
        return Err(Damage::ends_in("the schema"));
    }
    if leaves.is_empty() {
        return Err(Damage::new("a schema with columns", "none"));
    }
    Ok(leaves)
}

fn physical_type(code: i64) -> Physical {
    match code {
        1 => Physical::I32,
        2 => Physical::I64,
        5 => Physical::F64,
        6 => Physical::Bytes,
        _ => Physical::Other,
    }
}

fn group(thrift: &mut Thrift<'_>, leaf_count: usize) -> Result<Group, Damage> {
    let mut group = Group { row_count: 0, chunks: Vec::new() };
    thrift.fields(|thrift, field| match field.id {
        1 => structs(thrift, field, |thrift| {
            group.chunks.push(chunk(thrift)?);
            Ok(())
        }),
        3 => {
            group.row_count = thrift.count(field)?;
            Ok(())
        }
        _ => thrift.skip(field.kind),
    })?;
    if group.chunks.len() == leaf_count {
        return Ok(group);
    }
    Err(Damage::new(format_args!("{leaf_count} columns in a row group"), group.chunks.len()))
}

fn chunk(thrift: &mut Thrift<'_>) -> Result<Chunk, Damage> {
    let mut chunk = Chunk::default();
    let (mut data_at, mut dictionary_at) = (0, None);
    thrift.fields(|thrift, field| match field.id {
        3 => in_struct(thrift, field, |thrift, field| {
            match field.id {
                4 => chunk.zstd = is_zstd(thrift.integer(field)?)?,
                7 => chunk.length = thrift.count(field)?,
                9 => data_at = thrift.count(field)?,
                11 => dictionary_at = Some(thrift.count(field)?),
                _ => thrift.skip(field.kind)?,
            }
            Ok(())
        }),
        _ => thrift.skip(field.kind),
    })?;
    // Some writers say 0 for "no dictionary"; nothing starts there, the magic does.
    chunk.start = dictionary_at.filter(|&at| at > 0).map_or(data_at, |at| at.min(data_at));
    Ok(chunk)
}

fn is_zstd(codec: i64) -> Result<bool, Damage> {
    match codec {
        0 => Ok(false),
        6 => Ok(true),
        other => Err(Damage::new("pages compressed with zstd or not at all", format_args!("codec {other}"))),
    }
}
