//! Nsight Systems exports (`nsys export --type sqlite`), versions 2022 to 2026.
//!
//! Tables exist only where something was collected and columns differ by version, so both are looked up in the file.
//! Kernels, copies, memsets and graph replays become `device_events`; calls, ranges, waits and the profiler's own work
//! `host_events`; GPU metrics samples. Device work, calls and ranges are read at the same time, each on a thread of its own.
//! Times are those of the session, moved to the host clock where the export tells when the session began.
//! Left out on purpose: environment, command lines, paths, names of hosts and users; they are in tables nobody reads here.

mod calls;
mod described;
mod device;
mod kinds;
mod metrics;
mod part;
mod ranges;

use capture::{Attachment, Severity};

use crate::builder::Builder;
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;
use crate::sqlite::{Database, MAGIC, Store};

use part::{Export, Part};

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "nsys_sqlite", stage: Stage::Clocked, sniff, read };

/// Most bytes of a pipe or a packed file that are held in memory.
const MAX_HELD_BYTES: u64 = 256 << 20;
/// A write-ahead log of no more than this holds no pages.
const EMPTY_LOG_BYTES: u64 = 32;

fn sniff(probe: &Probe<'_>) -> Confidence {
    let is_export = || ["CUPTI_ACTIVITY_KIND_", "StringIds", "TARGET_INFO_"].iter().any(|name| probe.has(name));
    match probe.head.starts_with(MAGIC) {
        true if is_export() => Confidence::Sure,
        true => Confidence::Likely,
        false => Confidence::No,
    }
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let Some(store) = store(input, builder) else { return };
    let database = match Database::open(store) {
        Ok(database) => database,
        Err(expected) => {
            builder.refuse("damaged_database", &format!("expected {expected}, found something else"));
            return;
        }
    };
    tell_damage(&database, builder);
    if !is_export(&database) {
        attach(input, &database, builder);
        return;
    }
    let export = Export::describe(&database, builder);
    let parts = read_parts(&export);
    let has_events = parts.iter().any(Part::has_events);
    for part in parts {
        part.merge(builder);
    }
    described::devices(&export, builder);
    let has_samples = metrics::read(&export, builder);
    described::diagnostics(&export, builder);
    described::not_read(&database, builder);
    if !has_events && !has_samples {
        builder.refuse("no_events", "expected kernels, calls, ranges or metrics in the export, found none of their tables with rows");
    }
}

/// The bytes of the source, at any place.
fn store(input: &mut Input<'_>, builder: &mut Builder<'_>) -> Option<Store> {
    if let Some(file) = input.regular_file() {
        let log_bytes = file.beside("-wal");
        let has_journal = file.beside("-journal") > 0;
        let store = Store::File(file.clone());
        if log_bytes > EMPTY_LOG_BYTES {
            let sentence = format!(
                "expected a database that nobody is writing, found {log_bytes} bytes of changes beside it in a `-wal` file, which are \
                 not read; close the program that writes it, or run `sqlite3 FILE 'pragma wal_checkpoint'` on a copy"
            );
            builder.issue(Severity::Warning, "changes_beside", "", 1, sentence);
        }
        if has_journal {
            let sentence = "expected a database that nobody is writing, found a `-journal` file beside it: the export may not be finished";
            builder.issue(Severity::Warning, "changes_beside", "", 1, sentence);
        }
        return Some(store);
    }
    let mut bytes = Vec::new();
    let mut limited = std::io::Read::take(&mut *input, MAX_HELD_BYTES);
    if std::io::Read::read_to_end(&mut limited, &mut bytes).is_err() {
        builder.refuse("read_failed", "expected to read the database, and could not");
        return None;
    }
    if bytes.len() as u64 == MAX_HELD_BYTES {
        let sentence = format!(
            "expected at most {MAX_HELD_BYTES} bytes of a database through a pipe or packed, found more; what lies behind is not read: \
             unpack it to a file first"
        );
        builder.issue(Severity::Warning, "needs_a_file", "", 1, sentence);
    }
    Some(Store::Memory(bytes))
}

fn tell_damage(database: &Database, builder: &mut Builder<'_>) {
    if let Some((told, found)) = database.missing_pages() {
        let sentence = format!(
            "expected {told} pages of {} bytes, found {found}: the file was cut; what lies on the missing pages is lost",
            database.page_bytes()
        );
        builder.mark_damaged();
        builder.issue(Severity::Warning, "truncated_database", &format!("page {found}"), u64::from(told - found), sentence);
    }
    if database.list.lost_pages > 0 {
        let sentence = "expected the list of tables to be whole, found damaged pages in it; tables on them are lost";
        builder.mark_damaged();
        builder.issue(
            Severity::Warning,
            "damaged_pages",
            &format!("page {}", database.list.first_lost_page),
            database.list.lost_pages,
            sentence,
        );
    }
    for name in database.unreadable().iter().filter(|name| is_ours(name)) {
        let sentence = format!("expected `{name}` to be a plain table with row numbers, found another kind; it is not read");
        builder.issue(Severity::Warning, "unreadable_table", "", 1, sentence);
    }
}

fn is_ours(table: &str) -> bool {
    table.starts_with("CUPTI_ACTIVITY_KIND_") || ["StringIds", "NVTX_EVENTS", "OSRT_API", "GPU_METRICS"].contains(&table)
}

fn is_export(database: &Database) -> bool {
    let has = |name: &str| database.table(name).is_some();
    database.table_names().any(|name| name.starts_with("CUPTI_ACTIVITY_KIND_"))
        || (has("StringIds") && (has("META_DATA_EXPORT") || has("EXPORT_META_DATA") || has("NVTX_EVENTS") || has("OSRT_API")))
        || (has("GPU_METRICS") && has("TARGET_INFO_GPU_METRICS"))
}

/// A database of something else is kept by name and size.
fn attach(input: &Input<'_>, database: &Database, builder: &mut Builder<'_>) {
    let byte_count = input.regular_file().map_or(input.raw_bytes(), |file| file.byte_count);
    let name = builder.name().to_string();
    let row =
        Attachment { name: builder.intern(&name), byte_count: i64::try_from(byte_count).unwrap_or(i64::MAX), source_idx: builder.source() };
    builder.capture.tables.attachments.push(row);
    builder.source_row().format = "attachment".to_string();
    let found = if database.table_names().any(|name| name.starts_with("rocpd_")) {
        "a rocpd database; record with `rocprofv3 --output-format json`, or convert it to `pftrace`, and hand that in".to_string()
    } else {
        format!("an SQLite database of {} tables with none of an Nsight Systems export", database.table_names().count())
    };
    builder.issue(Severity::Note, "attachment", "", 1, format!("found {found}; the file is kept as an attachment and not read"));
}

/// Reads the large tables side by side.
fn read_parts(export: &Export<'_>) -> [Part; 3] {
    std::thread::scope(|scope| {
        let device = scope.spawn(|| device::read(export));
        let ranges = scope.spawn(|| ranges::read(export));
        let calls = calls::read(export);
        let panicked = "a thread that reads tables does not panic";
        [device.join().expect(panicked), calls, ranges.join().expect(panicked)]
    })
}
