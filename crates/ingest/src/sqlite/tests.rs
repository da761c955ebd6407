//! The reader against SQLite itself.

use rusqlite::Connection;
use rusqlite::types::Value;

use super::*;

/// A database with everything a table may hold, and what SQLite reads from its table `t`.
fn made(page_bytes: u32, setup: &str, rows: i64) -> (Vec<u8>, Vec<Vec<Value>>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.sqlite");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(&format!("pragma page_size={page_bytes}; {setup}; begin")).unwrap();
    for row in 0..rows {
        let value = match row % 9 {
            0 => Value::Null,
            1 => Value::Integer(i64::MIN + row),
            2 => Value::Integer(row << (row % 50)),
            3 => Value::Real(row as f64 / 3.0),
            4 => Value::Text("ö".repeat(row as usize * 7 % 5000)),
            5 => Value::Blob(vec![7; row as usize % 600]),
            6 => Value::Integer(-row),
            7 => Value::Integer(row % 2),
            _ => Value::Text(String::new()),
        };
        let mut insert = connection.prepare_cached("insert into t(a, b, c) values (?1, ?2, ?3)").unwrap();
        insert.execute((row, &value, format!("row {row}"))).unwrap();
    }
    connection.execute_batch("commit; alter table t add column d integer; insert into t(a, d) values (-5, 77)").unwrap();
    let mut statement = connection.prepare("select a, b, c, d from t order by rowid").unwrap();
    let values = statement.query_map([], |row| (0..4).map(|at| row.get::<_, Value>(at)).collect::<Result<Vec<_>, _>>()).unwrap();
    let values = values.map(Result::unwrap).collect();
    drop(statement);
    connection.close().unwrap();
    (std::fs::read(&path).unwrap(), values)
}

fn value(row: &Row<'_>, slot: usize) -> Value {
    if row.is_null(slot) {
        Value::Null
    } else if let Some(value) = row.int(slot) {
        Value::Integer(value)
    } else if let Some(value) = row.number(slot) {
        Value::Real(value)
    } else if let Some(text) = row.text(slot) {
        Value::Text(text.into_owned())
    } else {
        Value::Blob(Vec::new())
    }
}

fn read(bytes: &[u8]) -> (Vec<Vec<Value>>, Scan) {
    let database = Database::open(Store::Memory(bytes.to_vec())).unwrap();
    let table = database.table("T").unwrap();
    let mut rows = Vec::new();
    let scan = database.scan(table, &["a", "b", "c", "d"], u64::MAX, |row| rows.push((0..4).map(|slot| value(row, slot)).collect()));
    (rows, scan.unwrap())
}

fn without_blobs(mut rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    for value in rows.iter_mut().flatten() {
        if let Value::Blob(bytes) = value {
            bytes.clear();
        }
    }
    rows
}

#[test]
fn every_row_reads_as_sqlite_reads_it() {
    let setups = [
        "create table t(a integer, b, c text)",
        "create table t(x real, a integer primary key, b, c text)",
        "pragma encoding='UTF-16le'; create table t(a integer, b, c text)",
        "pragma encoding='UTF-16be'; create table t(a integer, b, c text)",
        "pragma auto_vacuum=full; create view v as select 1; create table t(a integer, b, c text); create index i on t(b)",
    ];
    for setup in setups {
        for page_bytes in [512, 65536] {
            let (bytes, expected) = made(page_bytes, setup, 600);
            let (rows, scan) = read(&bytes);
            assert_eq!(scan, Scan { rows: 601, ..Scan::default() }, "{setup} {page_bytes}");
            assert!(rows == without_blobs(expected), "{setup} {page_bytes}");
        }
    }
}

#[test]
fn a_zeroed_page_costs_its_rows_and_they_are_counted() {
    let (bytes, expected) = made(1024, "create table t(a integer, b, c text)", 400);
    let pages = bytes.len() / 1024;
    let mut lost_somewhere = 0;
    for page in 2..pages {
        let mut damaged = bytes.clone();
        damaged[page * 1024..(page + 1) * 1024].fill(0);
        let (rows, scan) = read(&damaged);
        let missing = (expected.len() - rows.len()) as u64;
        assert!(scan.lost_rows == missing || scan.end_lost, "page {page}: {missing} missing, {scan:?}");
        lost_somewhere += missing;
    }
    assert!(lost_somewhere > 300, "{lost_somewhere}");
}

#[test]
fn a_cut_file_is_read_up_to_the_cut() {
    let (bytes, expected) = made(1024, "create table t(a integer, b, c text)", 900);
    for part in 1..10 {
        let cut = &bytes[..bytes.len() * part / 10];
        let Ok(database) = Database::open(Store::Memory(cut.to_vec())) else { continue };
        assert!(database.missing_pages().is_some());
        if database.table("t").is_some() {
            let (rows, scan) = read(cut);
            assert!(rows.len() < expected.len() && scan.lost_pages > 0, "{part}: {scan:?}");
        }
    }
}

#[test]
fn no_damage_panics_or_runs_on() {
    let (bytes, _) = made(512, "create table t(a integer, b, c text)", 400);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..400 {
        let mut damaged = bytes.clone();
        for _ in 0..20 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (seed >> 33) as usize % damaged.len();
            damaged[at] = (seed >> 24) as u8;
        }
        if let Ok(database) = Database::open(Store::Memory(damaged)) {
            for name in ["t", "v"] {
                if let Some(table) = database.table(name) {
                    let _ = database.last_rowid(table);
                    let scan = database.scan(table, &["a", "b"], 10_000, |row| drop(value(row, 1))).unwrap();
                    assert!(scan.rows <= 10_000);
                }
            }
        }
    }
}
