//! One Parquet file into one table: row group by row group, each checked against its hash before it is decoded.
//!
//! A damaged row group is left out and told; a value that was not written is never read.

use std::path::Path;

use super::losses::Losses;
use super::manifest_file::Block;
use super::parquet_in::Damage;
use super::parquet_in::column::{Context, Packed, Replaced, read};
use super::parquet_in::footer::{Footer, Group};
use super::parquet_in::page::Unpacker;
use super::schema::is_time;
use super::table_file::TableFile;
use crate::ids::{NO_POINT, Name, SourceIdx};
use crate::issues::Severity;
use crate::tables::ColumnMut;

/// Most rows of a row group; ours hold a sixty-fourth of it, other writers a million or less.
const MAX_GROUP_ROWS: u64 = 1 << 24;

/// The columns to be filled, in declared order.
pub(super) type Columns<'a> = Vec<(&'static str, ColumnMut<'a>)>;

/// Reads the file `name` of the folder `dir` into `columns`, as far as it can be read. `blocks` are the hashes the
/// manifest has for it. Without hashes a file that is not there is an empty table. Returns how many rows name a source
/// the manifest does not list.
pub(super) fn read_file(
    dir: &Path,
    name: &str,
    blocks: Option<&[Block]>,
    mut columns: Columns<'_>,
    context: &mut Context<'_>,
    losses: &mut Losses,
) -> u64 {
    let whole = blocks.map_or(0, |blocks| blocks.iter().map(|block| block.row_count).sum());
    let opened = TableFile::open(&dir.join(name), blocks).and_then(|file| match file {
        Some(file) => map_columns(&file.footer, &columns).map(|leaves| Some((file, leaves))),
        None => Ok(None),
    });
    match opened {
        Ok(None) => 0,
        Ok(Some((mut file, leaves))) => {
            tell_missing(name, &file.footer, &leaves, &columns, losses);
            let (lost, replaced) = read_groups(&mut file, &leaves, &mut columns, context);
            lost.tell(name, losses);
            tell_replaced(name, &columns, &replaced, losses);
            replaced.iter().map(|found| found.source_count).sum()
        }
        Err(damage) => {
            let sentence = format!("Nothing of this table could be read: {damage}.");
            losses.note_unread(&damage);
            losses.add(Severity::Error, "damaged_table", name, "", whole, sentence);
            0
        }
    }
}

/// Index of each column's leaf in the file.
fn map_columns(footer: &Footer, columns: &Columns<'_>) -> Result<Vec<Option<usize>>, Damage> {
    let find = |&(name, _): &(&'static str, ColumnMut<'_>)| {
        let Some(at) = footer.leaves.iter().position(|leaf| leaf.name == name) else {
            return Ok(None);
        };
        if is_time(name) && footer.leaves[at].coarse_time {
            return Err(Damage::new(format_args!("nanoseconds in column `{name}`"), "a coarser unit"));
        }
        Ok(Some(at))
    };
    columns.iter().map(find).collect()
}

/// Tells of columns the file lacks, if a default could pass for a measurement.
fn tell_missing(name: &str, footer: &Footer, leaves: &[Option<usize>], columns: &Columns<'_>, losses: &mut Losses) {
    let rows = footer.groups.iter().map(|group| group.row_count).fold(0, u64::saturating_add);
    for ((column, values), leaf) in columns.iter().zip(leaves) {
        let neutral = matches!(values, ColumnMut::OptI64(_) | ColumnMut::Name(_)) || *column == "point_idx";
        if leaf.is_none() && !neutral && rows > 0 {
            let sentence = format!("Expected a column `{column}`, found none: its values read as 0.");
            losses.add(Severity::Warning, "missing_column", name, column, rows, sentence);
        }
    }
}

/// Row groups that were left out.
#[derive(Default)]
struct Lost {
    row_count: u64,
    groups: Vec<usize>,
    first: Option<Damage>,
}

impl Lost {
    fn add(&mut self, at: usize, row_count: u64, damage: Damage) {
        self.row_count = self.row_count.saturating_add(row_count);
        self.groups.push(at);
        if damage.is_unread || self.first.is_none() {
            self.first = Some(damage);
        }
    }

    fn tell(self, name: &str, losses: &mut Losses) {
        let Some(damage) = self.first else { return };
        losses.note_unread(&damage);
        let place = match self.groups.as_slice() {
            [at] => format!("row group {at}"),
            groups => format!("{} row groups from {}", groups.len(), groups[0]),
        };
        let sentence = format!("{} rows are left out: {damage}.", self.row_count);
        losses.add(Severity::Warning, "damaged_table", name, &place, self.row_count, sentence);
    }
}

fn read_groups(
    file: &mut TableFile<'_>,
    leaves: &[Option<usize>],
    columns: &mut Columns<'_>,
    context: &mut Context<'_>,
) -> (Lost, Vec<Replaced>) {
    let row_bytes: u64 = columns.iter().map(|(_, column)| value_bytes(column)).sum();
    let mut lost = Lost::default();
    let mut replaced = vec![Replaced::default(); columns.len()];
    let mut unpacker = Unpacker::default();
    let mut row_count = 0;
    for at in 0..file.footer.groups.len() {
        let group_rows = file.footer.groups[at].row_count;
        let charged = check_rows(group_rows).and_then(|()| context.budget.charge(group_rows.saturating_mul(row_bytes)));
        let read = charged.and_then(|()| {
            let (bytes, start) = file.group_bytes(at)?;
            let block = Loaded { group: &file.footer.groups[at], bytes: &bytes, start };
            read_group(&file.footer, block, leaves, columns, &mut |column, packed| read(column, packed, context, &mut unpacker))
        });
        match read {
            Ok(found) => {
                row_count += group_rows as usize;
                for (all, found) in replaced.iter_mut().zip(found) {
                    all.null_count += found.null_count;
                    all.source_count += found.source_count;
                }
            }
            Err(damage) => {
                lost.add(at, group_rows, damage);
                for (_, column) in columns.iter_mut() {
                    truncate(column, row_count);
                }
            }
        }
    }
    (lost, replaced)
}

fn check_rows(group_rows: u64) -> Result<(), Damage> {
    if group_rows <= MAX_GROUP_ROWS {
        return Ok(());
    }
    Err(Damage::new(format_args!("a row group of at most {MAX_GROUP_ROWS} rows"), group_rows))
}

/// A row group, its bytes, and where they start in the file.
#[derive(Clone, Copy)]
struct Loaded<'a> {
    group: &'a Group,
    bytes: &'a [u8],
    start: u64,
}

impl<'a> Loaded<'a> {
    /// The bytes of the chunk of one leaf.
    fn chunk_bytes(self, leaf: usize) -> Option<&'a [u8]> {
        let chunk = self.group.chunks[leaf];
        let start = usize::try_from(chunk.start.checked_sub(self.start)?).ok()?;
        let end = start.checked_add(usize::try_from(chunk.length).ok()?)?;
        self.bytes.get(start..end)
    }
}

fn read_group(
    footer: &Footer,
    block: Loaded<'_>,
    leaves: &[Option<usize>],
    columns: &mut Columns<'_>,
    read: &mut impl FnMut(&mut ColumnMut<'_>, Packed<'_>) -> Result<Replaced, Damage>,
) -> Result<Vec<Replaced>, Damage> {
    let row_count = block.group.row_count as usize;
    let mut replaced = Vec::with_capacity(columns.len());
    for ((name, column), leaf) in columns.iter_mut().zip(leaves) {
        let &Some(leaf) = leaf else {
            fill(column, name, row_count);
            replaced.push(Replaced::default());
            continue;
        };
        let bytes =
            block.chunk_bytes(leaf).ok_or_else(|| Damage::new("columns within their row group", format_args!("`{name}` outside")))?;
        let packed = Packed { bytes, leaf: &footer.leaves[leaf], chunk: block.group.chunks[leaf], row_count };
        replaced.push(read(column, packed).map_err(|damage| damage.in_column(name))?);
    }
    Ok(replaced)
}

fn tell_replaced(name: &str, columns: &Columns<'_>, replaced: &[Replaced], losses: &mut Losses) {
    for ((column, _), found) in columns.iter().zip(replaced) {
        if found.null_count > 0 {
            let sentence = format!("Expected a value in every row, found {} empty ones: they read as 0 or as no text.", found.null_count);
            losses.add(Severity::Warning, "empty_value", name, column, found.null_count, sentence);
        }
        if found.source_count > 0 {
            let sentence = format!("Expected sources the manifest lists, found {} rows of others.", found.source_count);
            losses.add(Severity::Warning, "unknown_source", name, column, found.source_count, sentence);
        }
    }
}

/// Memory of one value, what lists and text point to aside.
fn value_bytes(column: &ColumnMut<'_>) -> u64 {
    let bytes = match column {
        ColumnMut::I64(_) | ColumnMut::F64(_) => 8,
        ColumnMut::I32(_) | ColumnMut::U32(_) | ColumnMut::Name(_) | ColumnMut::Source(_) => 4,
        ColumnMut::OptI64(_) => size_of::<Option<i64>>(),
        ColumnMut::ListF64(_) => size_of::<Vec<f64>>(),
    };
    bytes as u64
}

fn truncate(column: &mut ColumnMut<'_>, rows: usize) {
    match column {
        ColumnMut::I64(values) => values.truncate(rows),
        ColumnMut::I32(values) => values.truncate(rows),
        ColumnMut::U32(values) => values.truncate(rows),
        ColumnMut::F64(values) => values.truncate(rows),
        ColumnMut::OptI64(values) => values.truncate(rows),
        ColumnMut::Name(values) => values.truncate(rows),
        ColumnMut::Source(values) => values.truncate(rows),
        ColumnMut::ListF64(values) => values.truncate(rows),
    }
}

/// Appends what stands for "not known".
fn fill(column: &mut ColumnMut<'_>, name: &str, more: usize) {
    match column {
        ColumnMut::I64(values) => values.resize(values.len() + more, 0),
        ColumnMut::I32(values) => values.resize(values.len() + more, if name == "point_idx" { NO_POINT } else { 0 }),
        ColumnMut::U32(values) => values.resize(values.len() + more, 0),
        ColumnMut::F64(values) => values.resize(values.len() + more, 0.0),
        ColumnMut::OptI64(values) => values.resize(values.len() + more, None),
        ColumnMut::Name(values) => values.resize(values.len() + more, Name::EMPTY),
        ColumnMut::Source(values) => values.resize(values.len() + more, SourceIdx(0)),
        ColumnMut::ListF64(values) => values.resize(values.len() + more, Vec::new()),
    }
}
