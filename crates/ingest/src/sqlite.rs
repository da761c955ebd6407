//! Tables of an SQLite 3 database, read without the library.
//!
//! Profilers write databases of gigabytes, and a capture needs a few columns of a few tables in the order of their rows.
//! So a table is walked page by page, and of each row only the wanted columns are looked at: several times faster than
//! through SQL, on several threads at once, from a file or from memory, and never writing (no lock, no journal, nothing
//! beside the file). A page that is damaged or missing costs the rows on it, which the row numbers around it count.
//! Views, triggers, indexes and virtual tables are never evaluated, so that a hostile schema has nothing to act on.
//! Left out: tables `WITHOUT ROWID` and such with generated columns (told apart as unreadable), and changes that still
//! stand in a `-wal` file beside the database.

mod pages;
mod record;
mod schema;
mod tree;

pub(crate) use pages::Store;
pub(crate) use record::Row;
pub(crate) use tree::Scan;

use pages::Pages;
use schema::Layout;

/// First bytes of every database.
pub(crate) const MAGIC: &[u8] = b"SQLite format 3\0";
/// Length of the header of a database.
const HEADER_BYTES: usize = 100;
/// Most tables that are looked at; a large export has two hundred.
const MAX_TABLES: u64 = 10_000;
/// Longest definition of a table that is looked at.
const MAX_DEFINITION_BYTES: usize = 256 << 10;

/// How a database is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    page_bytes: usize,
    /// Bytes of a page that hold data.
    usable_bytes: usize,
    encoding: Encoding,
    /// Pages the header tells of; what is there may be less.
    told_pages: u32,
}

/// How texts are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
}

impl Format {
    /// Reads the header; tells what is wrong with it.
    fn read(header: &[u8]) -> Result<Self, &'static str> {
        if header.len() < HEADER_BYTES || !header.starts_with(MAGIC) {
            return Err("the header of an SQLite database");
        }
        let at = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let page_bytes = match usize::from(u16::from_be_bytes([header[16], header[17]])) {
            1 => 65_536,
            size => size,
        };
        if !(512..=65_536).contains(&page_bytes) || !page_bytes.is_power_of_two() {
            return Err("a page size that is a power of two from 512 to 65,536");
        }
        let usable_bytes = page_bytes - usize::from(header[20]);
        if usable_bytes < 480 {
            return Err("pages with at least 480 bytes in use");
        }
        let encoding = match at(56) {
            2 => Encoding::Utf16Le,
            3 => Encoding::Utf16Be,
            _ => Encoding::Utf8,
        };
        // Writers before 2010 did not keep the page count.
        let told_pages = if at(24) == at(92) { at(28) } else { 0 };
        Ok(Self { page_bytes, usable_bytes, encoding, told_pages })
    }
}

/// A table that can be read.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    name: String,
    root: u32,
    layout: Layout,
}

impl Table {
    /// True when the table has this column.
    pub(crate) fn has(&self, column: &str) -> bool {
        self.position(column).is_some()
    }

    fn position(&self, column: &str) -> Option<usize> {
        self.layout.columns.iter().position(|known| known.eq_ignore_ascii_case(column))
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Database {
    store: Store,
    format: Format,
    tables: Vec<Table>,
    /// Tables whose rows are stored in another way than this module reads.
    unreadable: Vec<String>,
    /// What became of the list of tables.
    pub(crate) list: Scan,
}

impl Database {
    /// Reads the list of tables; the error says what was expected.
    pub(crate) fn open(store: Store) -> Result<Self, &'static str> {
        let format = Format::read(&store.start(HEADER_BYTES))?;
        let mut database = Self { store, format, tables: Vec::new(), unreadable: Vec::new(), list: Scan::default() };
        let columns = ["type", "name", "tbl_name", "rootpage", "sql"].map(str::to_string).to_vec();
        let list = Table { name: "sqlite_master".to_string(), root: 1, layout: Layout { columns, rowid_alias: None } };
        let mut found: Vec<(String, u32, String)> = Vec::new();
        database.list = database.scan(&list, &["type", "name", "rootpage", "sql"], MAX_TABLES, |row| {
            let is_table = row.text(0).is_some_and(|kind| kind == "table");
            let root = row.int(2).and_then(|root| u32::try_from(root).ok()).filter(|root| *root > 1);
            let sql = row.text(3).filter(|sql| sql.len() <= MAX_DEFINITION_BYTES);
            if let (true, Some(name), Some(root), Some(sql)) = (is_table, row.text(1), root, sql) {
                found.push((name.into_owned(), root, sql.into_owned()));
            }
        })?;
        for (name, root, sql) in found {
            match schema::layout(&sql) {
                Some(layout) => database.tables.push(Table { name, root, layout }),
                None => database.unreadable.push(name),
            }
        }
        Ok(database)
    }

    /// The table of this name.
    pub(crate) fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name.eq_ignore_ascii_case(name))
    }

    /// Names of the tables.
    pub(crate) fn table_names(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().map(|table| table.name.as_str())
    }

    /// Names of tables that are there and cannot be read.
    pub(crate) fn unreadable(&self) -> &[String] {
        &self.unreadable
    }

    /// Pages the header tells of and pages that are there, where these are fewer.
    pub(crate) fn missing_pages(&self) -> Option<(u32, u32)> {
        let found = self.store.page_count(self.format.page_bytes);
        (found < self.format.told_pages).then_some((self.format.told_pages, found))
    }

    /// Bytes that are there.
    pub(crate) fn byte_count(&self) -> usize {
        self.store.page_count(self.format.page_bytes) as usize * self.format.page_bytes
    }

    /// Bytes of a page.
    pub(crate) fn page_bytes(&self) -> usize {
        self.format.page_bytes
    }

    /// Number of the last row: of a table that was only ever appended to, the number of its rows.
    pub(crate) fn last_rowid(&self, table: &Table) -> Option<i64> {
        let mut pages = Pages::open(&self.store, self.format.page_bytes).ok()?;
        tree::last_rowid(&mut pages, self.format, table.root)
    }

    /// Hands out up to `most` rows of a table in their order; a column that the table lacks is null in every row.
    ///
    /// # Errors
    /// Only when the file cannot be opened again.
    pub(crate) fn scan(&self, table: &Table, columns: &[&str], most: u64, each: impl FnMut(&Row<'_>)) -> Result<Scan, &'static str> {
        let mut pages = Pages::open(&self.store, self.format.page_bytes)?;
        let wanted: Vec<Option<usize>> = columns.iter().map(|column| table.position(column)).collect();
        let plan = record::Plan::new(&wanted, table.layout.rowid_alias, self.format.encoding);
        Ok(tree::scan(&mut pages, self.format, table.root, &plan, most, each))
    }
}

#[cfg(test)]
mod tests;
