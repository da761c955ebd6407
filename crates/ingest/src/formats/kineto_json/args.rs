//! The arguments of device work and of calls, as CUDA, ROCm, XPU and MTIA write them.

use super::numbers::integer;
use super::scan::{Cursor, Step, Text};

/// What is read of an event's `args`; text is as it stands in the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Args<'a> {
    pub(super) device: Option<i64>,
    pub(super) stream: Option<i64>,
    pub(super) correlation: Option<i64>,
    pub(super) bytes: Option<i64>,
    pub(super) graph_node: i64,
    pub(super) grid: [i64; 3],
    pub(super) block: [i64; 3],
    pub(super) registers: Option<i64>,
    pub(super) shared_memory: Option<i64>,
    pub(super) sync_kind: Text<'a>,
    pub(super) collective: CollectiveArgs<'a>,
    /// Value of a counter: the argument without a name, else the first number.
    pub(super) value: &'a [u8],
}

/// What NCCL's kernels carry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CollectiveArgs<'a> {
    pub(super) name: Text<'a>,
    pub(super) elements_in: Option<i64>,
    pub(super) elements_out: Option<i64>,
    pub(super) group_size: Option<i64>,
    pub(super) dtype: Text<'a>,
    pub(super) group_name: Text<'a>,
    pub(super) group_description: Text<'a>,
    pub(super) group_ranks: Text<'a>,
    pub(super) sequence: Option<i64>,
}

impl CollectiveArgs<'_> {
    /// True when the recorder told of a collective.
    pub(super) fn is_told(&self) -> bool {
        !self.name.raw.is_empty() || self.elements_in.is_some()
    }
}

impl<'a> Args<'a> {
    /// Reads the object at the cursor.
    pub(super) fn read(cursor: &mut Cursor<'a>) -> Step<Self> {
        let mut it = Self::default();
        cursor.expect(b'{', "an object")?;
        if cursor.take(b'}') {
            return Ok(it);
        }
        loop {
            let key = cursor.text()?.raw;
            cursor.expect(b':', "`:`")?;
            it.member(key, cursor)?;
            if cursor.take(b'}') {
                return Ok(it);
            }
            cursor.expect(b',', "`,` or `}`")?;
        }
    }

    fn member(&mut self, key: &[u8], cursor: &mut Cursor<'a>) -> Step<()> {
        match key {
            b"device" => self.device = number(cursor)?,
            b"stream" => self.stream = number(cursor)?,
            b"correlation" => self.correlation = number(cursor)?,
            b"bytes" | b"Bytes" => self.bytes = number(cursor)?,
            b"graph node id" => self.graph_node = number(cursor)?.unwrap_or_default(),
            b"grid" => self.grid = triple(cursor)?,
            b"block" => self.block = triple(cursor)?,
            b"registers per thread" => self.registers = number(cursor)?,
            b"shared memory" => self.shared_memory = number(cursor)?,
            b"cuda_sync_kind" => self.sync_kind = text(cursor)?,
            b"" => self.value = cursor.scalar()?,
            _ => return self.collective_member(key, cursor),
        }
        Ok(())
    }

    fn collective_member(&mut self, key: &[u8], cursor: &mut Cursor<'a>) -> Step<()> {
        let told = &mut self.collective;
        match key {
            b"Collective name" => told.name = text(cursor)?,
            b"In msg nelems" => told.elements_in = number(cursor)?,
            b"Out msg nelems" => told.elements_out = number(cursor)?,
            b"Group size" => told.group_size = number(cursor)?,
            b"dtype" => told.dtype = text(cursor)?,
            b"Process Group Name" => told.group_name = text(cursor)?,
            b"Process Group Description" => told.group_description = text(cursor)?,
            b"Process Group Ranks" => told.group_ranks = text(cursor)?,
            b"Seq" => told.sequence = number(cursor)?,
            _ => {
                let is_number = matches!(cursor.peek(), Some(b'-' | b'0'..=b'9'));
                let from = cursor.at;
                cursor.skip()?;
                if is_number && self.value.is_empty() {
                    self.value = &cursor.bytes[from..cursor.at];
                }
            }
        }
        Ok(())
    }
}

fn number(cursor: &mut Cursor<'_>) -> Step<Option<i64>> {
    cursor.scalar().map(|text| integer(text.trim_ascii()))
}

/// A string; of a list the text between its brackets.
fn text<'a>(cursor: &mut Cursor<'a>) -> Step<Text<'a>> {
    match cursor.peek() {
        Some(b'"') => cursor.text(),
        Some(b'[' | b'-' | b'0'..=b'9') => {
            let from = cursor.at;
            cursor.skip()?;
            Ok(Text { raw: &cursor.bytes[from..cursor.at], has_escapes: false })
        }
        _ => cursor.skip().map(|()| Text::default()),
    }
}

fn triple(cursor: &mut Cursor<'_>) -> Step<[i64; 3]> {
    let mut found = [0; 3];
    if !cursor.take(b'[') {
        return cursor.skip().map(|()| found);
    }
    let mut count = 0;
    while !cursor.take(b']') {
        let value = number(cursor)?.unwrap_or_default();
        if let Some(place) = found.get_mut(count) {
            *place = value;
        }
        count += 1;
        if !cursor.take(b',') && cursor.peek() != Some(b']') {
            return Err(match cursor.peek() {
                Some(_) => super::scan::Stop::Damage("`,` or `]`"),
                None => super::scan::Stop::End,
            });
        }
    }
    Ok(found)
}
