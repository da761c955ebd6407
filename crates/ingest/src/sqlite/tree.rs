//! The pages of one table in the order of its rows.

use super::Format;
use super::pages::Pages;
use super::record::{Layout, Plan, Row, varint};

/// Page of a table that holds the numbers of further pages.
const INTERIOR: u8 = 0x05;
/// Page of a table that holds rows.
const LEAF: u8 = 0x0d;
/// Deepest tree that is followed; 2^31 pages need eleven levels at most.
const MAX_DEPTH: u32 = 24;
/// Most bytes gathered of one row.
const MAX_ROW_BYTES: usize = 1 << 20;
/// The header of the database stands before the header of the first page.
const FIRST_PAGE_START: usize = 100;

/// What a walk found and what it could not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Rows handed out.
    pub(crate) rows: u64,
    /// Rows that are lost, by the row numbers around the gap.
    pub(crate) lost_rows: u64,
    /// Pages that could not be used.
    pub(crate) lost_pages: u64,
    /// Number of the first such page, 0 for none.
    pub(crate) first_lost_page: u32,
    /// True when the end of the table is lost, so that more rows may be than `lost_rows` says.
    pub(crate) end_lost: bool,
    /// True when rows were left out because there were too many.
    pub(crate) cut: bool,
}

impl Scan {
    fn lose(&mut self, page: u32, rows: u64) {
        self.lost_pages += 1;
        self.lost_rows = self.lost_rows.saturating_add(rows);
        if self.first_lost_page == 0 {
            self.first_lost_page = page;
        }
    }
}

/// A page to be visited.
#[derive(Clone, Copy)]
struct Visit {
    page: u32,
    depth: u32,
    /// No row below it has a higher number; `None` at the end of the table.
    last_rowid: Option<i64>,
}

/// Which pages were visited: a damaged tree may lead in circles.
struct Visited(Vec<u64>);

impl Visited {
    fn new(pages: u32) -> Self {
        Self(vec![0; pages as usize / 64 + 1])
    }

    /// False when it was visited before or cannot be.
    fn enter(&mut self, page: u32) -> bool {
        let Some(word) = self.0.get_mut(page as usize / 64) else { return false };
        let bit = 1 << (page % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

/// The header of a page.
struct Head {
    kind: u8,
    cells: usize,
    /// Where the places of the cells begin.
    places: usize,
    /// The page behind all others, on an interior page.
    right: u32,
}

fn head(page: &[u8], number: u32) -> Option<Head> {
    let start = if number == 1 { FIRST_PAGE_START } else { 0 };
    let header = page.get(start..start + 12)?;
    let kind = header[0];
    let cells = usize::from(u16::from_be_bytes([header[3], header[4]]));
    let places = start + if kind == INTERIOR { 12 } else { 8 };
    let is_sound = matches!(kind, INTERIOR | LEAF) && places + 2 * cells <= page.len();
    is_sound.then(|| Head { kind, cells, places, right: be32(header, 8) })
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn place(page: &[u8], head: &Head, cell: usize) -> usize {
    let at = head.places + 2 * cell;
    usize::from(u16::from_be_bytes([page[at], page[at + 1]]))
}

/// Number of the last row of the table at `root`.
pub(super) fn last_rowid(pages: &mut Pages<'_>, format: Format, root: u32) -> Option<i64> {
    let mut page = Vec::with_capacity(format.page_bytes);
    let mut number = root;
    for _ in 0..MAX_DEPTH {
        if !pages.read(number, &mut page) {
            return None;
        }
        let head = head(&page, number)?;
        if head.kind == LEAF {
            let Some(last) = head.cells.checked_sub(1) else { return Some(0) };
            let (_, at) = varint(&page, place(&page, &head, last))?;
            return varint(&page, at).map(|(rowid, _)| rowid.cast_signed());
        }
        number = head.right;
    }
    None
}

/// Walks the table at `root`.
pub(super) fn scan(pages: &mut Pages<'_>, format: Format, root: u32, plan: &Plan, most: u64, each: impl FnMut(&Row<'_>)) -> Scan {
    let mut walk = Walk {
        visited: Visited::new(pages.count()),
        pages,
        format,
        plan,
        most,
        scan: Scan::default(),
        before: None,
        spilled: Vec::new(),
        overflow: Vec::new(),
        layout: Layout::new(),
        each,
    };
    walk.run(root);
    walk.scan
}

struct Walk<'a, 'p, F> {
    visited: Visited,
    pages: &'a mut Pages<'p>,
    format: Format,
    plan: &'a Plan,
    most: u64,
    scan: Scan,
    /// Number of the last row handed out, or of the last that could have been.
    before: Option<i64>,
    /// A row gathered from several pages, and the page at hand.
    spilled: Vec<u8>,
    overflow: Vec<u8>,
    layout: Layout,
    each: F,
}

impl<F: FnMut(&Row<'_>)> Walk<'_, '_, F> {
    fn run(&mut self, root: u32) {
        let mut todo = vec![Visit { page: root, depth: 0, last_rowid: None }];
        let mut page = Vec::with_capacity(self.format.page_bytes);
        while let Some(visit) = todo.pop() {
            if self.scan.cut {
                break;
            }
            let readable = visit.depth < MAX_DEPTH && self.visited.enter(visit.page) && self.pages.read(visit.page, &mut page);
            let head = if readable { head(&page, visit.page) } else { None };
            let is_used = match &head {
                Some(head) if head.kind == LEAF => self.leaf(&page, head, visit),
                Some(head) => {
                    interior(&page, head, visit, &mut todo);
                    true
                }
                None => false,
            };
            if !is_used {
                self.lose(visit);
            }
            if head.is_none_or(|head| head.kind == LEAF) {
                self.before = visit.last_rowid.or(self.before);
            }
        }
    }

    fn lose(&mut self, visit: Visit) {
        self.scan.end_lost |= visit.last_rowid.is_none();
        let first = self.before.map_or(1, |before| before.saturating_add(1));
        let lost = visit.last_rowid.map_or(0, |last| last.saturating_sub(first).saturating_add(1).max(0));
        // No page holds more rows than it has pairs of bytes; a number beyond that was never given to a row.
        let most = u64::from(self.pages.count()).saturating_mul(self.format.page_bytes as u64 / 4);
        self.scan.lose(visit.page, (lost as u64).min(most));
    }

    /// Hands out the rows of a leaf; false when the page is none of this table's.
    fn leaf(&mut self, page: &[u8], head: &Head, visit: Visit) -> bool {
        for cell in 0..head.cells {
            if self.scan.rows >= self.most {
                self.scan.cut = true;
                return true;
            }
            let at = place(page, head, cell);
            let Some((payload_bytes, rowid, start)) = cell_head(page, at) else {
                self.scan.lose(visit.page, 1);
                continue;
            };
            let follows = self.before.is_none_or(|before| rowid > before);
            if !follows || visit.last_rowid.is_some_and(|last| rowid > last) {
                if cell == 0 {
                    return false;
                }
                self.scan.lose(visit.page, 1);
                continue;
            }
            self.before = Some(rowid);
            self.row(page, visit.page, payload_bytes, rowid, start);
        }
        true
    }

    fn row(&mut self, page: &[u8], number: u32, payload_bytes: usize, rowid: i64, start: usize) {
        let usable = self.format.usable_bytes;
        let local = local_bytes(payload_bytes, usable);
        let Some(stored) = page.get(start..start + local) else {
            self.scan.lose(number, 1);
            return;
        };
        let row = if local == payload_bytes {
            Row::read(self.plan, rowid, stored, &mut self.layout)
        } else {
            self.spilled.clear();
            self.spilled.extend_from_slice(stored);
            gather(self.pages, be32(page, start + local), payload_bytes.min(MAX_ROW_BYTES), usable, &mut self.spilled, &mut self.overflow);
            Row::read(self.plan, rowid, &self.spilled, &mut self.layout)
        };
        match row {
            Some(row) => {
                (self.each)(&row);
                self.scan.rows += 1;
            }
            None => self.scan.lose(number, 1),
        }
    }
}

/// Notes the pages below an interior page, so that the first is visited next.
fn interior(page: &[u8], head: &Head, visit: Visit, todo: &mut Vec<Visit>) {
    todo.push(Visit { page: head.right, depth: visit.depth + 1, last_rowid: visit.last_rowid });
    for cell in (0..head.cells).rev() {
        let at = place(page, head, cell);
        let rowid = varint(page, at + 4).map(|(rowid, _)| rowid.cast_signed());
        todo.push(Visit { page: be32(page, at), depth: visit.depth + 1, last_rowid: rowid });
    }
}

/// Length of a row, its number, and where it starts.
fn cell_head(page: &[u8], at: usize) -> Option<(usize, i64, usize)> {
    let (bytes, at) = varint(page, at)?;
    let (rowid, at) = varint(page, at)?;
    Some((usize::try_from(bytes).ok().filter(|bytes| *bytes <= 1 << 31)?, rowid.cast_signed(), at))
}

/// Bytes of a row that stand on its own page.
fn local_bytes(payload: usize, usable: usize) -> usize {
    if payload <= usable - 35 {
        return payload;
    }
    let least = (usable - 12) * 32 / 255 - 23;
    let fitting = least + (payload - least) % (usable - 4);
    if fitting <= usable - 35 { fitting } else { least }
}

/// Appends the rest of a row from the chain of pages that starts at `next`, as far as it can be read.
fn gather(pages: &mut Pages<'_>, mut next: u32, wanted: usize, usable: usize, into: &mut Vec<u8>, page: &mut Vec<u8>) {
    // Each page adds bytes, so that even a chain in a circle ends.
    while into.len() < wanted && next != 0 && pages.read(next, page) {
        let count = (wanted - into.len()).min(usable - 4);
        into.extend_from_slice(&page[4..4 + count]);
        next = be32(page, 0);
    }
}
