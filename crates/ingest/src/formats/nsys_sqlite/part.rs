//! What one thread reads: rows with names of its own, and what it could not read.

use capture::tables::{Collectives, DeviceEvents, HostEvents};
use capture::{Name, Names, Severity, SourceIdx, Table as _};
use hashbrown::HashMap;

use crate::builder::Builder;
use crate::sqlite::{Database, Row, Scan};

use super::described::{Clock, Ordinals};

/// Most rows taken of one table.
const MAX_ROWS: u64 = 48_000_000;
/// Longest name kept; names of templated kernels reach some thousand bytes.
const MAX_NAME_BYTES: usize = 8 << 10;
/// Most bytes of names in the export.
const MAX_STRING_BYTES: usize = 512 << 20;
/// Most bytes of distinct names of one thread; ranges may be named by a program as it likes.
const MAX_NAMES_BYTES: usize = 128 << 20;
/// Longest believable event.
const MAX_EVENT_NS: i64 = 1_000_000_000_000_000;
/// Farthest believable time from zero.
const MAX_TIME_NS: i64 = 4_000_000_000_000_000_000;

/// The export and what it says of itself.
pub(super) struct Export<'a> {
    pub(super) database: &'a Database,
    pub(super) strings: Strings,
    pub(super) clock: Clock,
    pub(super) ordinals: Ordinals,
    pub(super) run_idx: u32,
    pub(super) source_idx: SourceIdx,
}

impl Export<'_> {
    /// Start and end on the host clock; `None` for times that no event can have.
    pub(super) fn span(&self, start: Option<i64>, end: Option<i64>) -> Option<(i64, i64)> {
        let (start, end) = (start?, end?);
        let is_event = end >= start && end.checked_sub(start)? <= MAX_EVENT_NS && start.checked_abs()? <= MAX_TIME_NS;
        if !is_event {
            return None;
        }
        Some((start.checked_add(self.clock.offset_ns)?, end.checked_add(self.clock.offset_ns)?))
    }
}

/// The beginning of a text, up to `most` bytes.
pub(super) fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

/// Texts of the export by their number.
#[derive(Default)]
pub(super) struct Strings {
    texts: String,
    /// Number, start and length; sorted by number.
    places: Vec<(i64, u32, u32)>,
}

impl Strings {
    pub(super) fn read(database: &Database, part: &mut Part) -> Self {
        let mut strings = Self::default();
        let mut left_out = 0u64;
        part.scan(database, "StringIds", &["id", "value"], |row, _| {
            let (Some(id), Some(text)) = (row.int(0), row.text(1)) else { return };
            let text = cut(&text, MAX_NAME_BYTES);
            if strings.texts.len() + text.len() > MAX_STRING_BYTES {
                left_out += 1;
                return;
            }
            strings.places.push((id, strings.texts.len() as u32, text.len() as u32));
            strings.texts.push_str(text);
        });
        if left_out > 0 {
            let sentence = format!("expected at most {MAX_STRING_BYTES} bytes of names, found more; the rest are called `unknown`");
            part.issue(Severity::Warning, "names_left_out", "", left_out, || sentence);
        }
        strings.places.sort_unstable();
        strings
    }

    /// The text of this number.
    pub(super) fn get(&self, id: i64) -> Option<&str> {
        let at = self.places.binary_search_by_key(&id, |place| place.0).ok()?;
        let (_, start, length) = self.places[at];
        self.texts.get(start as usize..(start + length) as usize)
    }
}

struct Issue {
    severity: Severity,
    code: &'static str,
    place: String,
    count: u64,
    sentence: String,
}

/// See the module.
#[derive(Default)]
pub(super) struct Part {
    pub(super) names: Names,
    pub(super) device: DeviceEvents,
    pub(super) host: HostEvents,
    pub(super) collectives: Collectives,
    issues: Vec<Issue>,
    name_bytes: usize,
    damaged: bool,
}

impl Part {
    /// True when it holds a row.
    pub(super) fn has_events(&self) -> bool {
        self.device.row_count() + self.host.row_count() > 0
    }

    /// Counts an issue; one row per code and place.
    pub(super) fn issue(&mut self, severity: Severity, code: &'static str, place: &str, count: u64, sentence: impl FnOnce() -> String) {
        match self.issues.iter_mut().find(|issue| issue.code == code && issue.place == place) {
            Some(issue) => issue.count += count,
            None => self.issues.push(Issue { severity, code, place: place.to_string(), count, sentence: sentence() }),
        }
    }

    /// Counts an event of a table that cannot have happened.
    pub(super) fn impossible(&mut self, table: &str) {
        self.issue(Severity::Warning, "impossible_times", &format!("table {table}"), 1, || {
            format!("expected events of `{table}` to end after their start, found others; they are left out")
        });
    }

    /// A correlation id in 32 bits, as CUPTI gives them; 0 for none.
    pub(super) fn correlation(&mut self, id: Option<i64>) -> u32 {
        let id = id.unwrap_or(0);
        u32::try_from(id).unwrap_or_else(|_| {
            self.issue(Severity::Warning, "impossible_correlation", "", 1, || {
                "expected correlation ids of 32 bits, found others; what they belong to stays without its call".to_string()
            });
            0
        })
    }

    /// Interns a name; the empty name once there are too many.
    pub(super) fn intern(&mut self, text: &str) -> Name {
        if let Some(known) = self.names.find(text) {
            return known;
        }
        if self.name_bytes + text.len() > MAX_NAMES_BYTES {
            self.issue(Severity::Warning, "names_left_out", "", 1, || {
                format!("expected at most {MAX_NAMES_BYTES} bytes of distinct names, found more; the rest are empty")
            });
            return Name::EMPTY;
        }
        self.name_bytes += text.len();
        self.names.intern(text)
    }

    /// Rows of a table, and what of it is lost; nothing when the table is not there.
    pub(super) fn scan(&mut self, database: &Database, table: &str, columns: &[&str], mut each: impl FnMut(&Row<'_>, &mut Self)) {
        let Some(found) = database.table(table) else { return };
        let scan = database.scan(found, columns, MAX_ROWS, |row| each(row, self));
        match scan {
            Ok(scan) => self.losses(table, scan),
            Err(expected) => {
                let sentence = format!("expected {expected} to read `{table}`, and could not; its rows are lost");
                self.issue(Severity::Error, "read_failed", "", 1, || sentence);
            }
        }
    }

    fn losses(&mut self, table: &str, scan: Scan) {
        if scan.lost_pages > 0 {
            self.damaged = true;
            let more = if scan.end_lost { " and its end, of unknown length" } else { "" };
            let expected = scan.rows.saturating_add(scan.lost_rows);
            let sentence = format!(
                "expected {expected} rows{more} in `{table}`, found {}: {} places of it are damaged or missing",
                scan.rows, scan.lost_pages
            );
            let place = format!("page {}", scan.first_lost_page);
            self.issue(Severity::Warning, "damaged_pages", &place, scan.lost_rows.max(1), || sentence);
        }
        if scan.cut {
            let sentence = format!("expected at most {MAX_ROWS} rows in `{table}`, found more; the rest is left out");
            self.issue(Severity::Warning, "too_many_events", "", 1, || sentence);
        }
    }

    /// Moves everything into the capture of the source.
    pub(super) fn merge(mut self, builder: &mut Builder<'_>) {
        let map = builder.capture.names.absorb(&self.names);
        self.device.remap(&map, &[]);
        self.host.remap(&map, &[]);
        self.collectives.remap(&map, &[]);
        let tables = &mut builder.capture.tables;
        tables.device_events.append(self.device);
        tables.host_events.append(self.host);
        tables.collectives.append(self.collectives);
        if self.damaged {
            builder.mark_damaged();
        }
        for issue in self.issues {
            builder.issue(issue.severity, issue.code, &issue.place, issue.count, issue.sentence);
        }
    }
}

/// Names by their number in the export, each looked up once.
#[derive(Default)]
pub(super) struct NameById {
    known: HashMap<i64, Name>,
    last: Option<(i64, Name)>,
}

impl NameById {
    /// The name, changed by `shorten` when it is met first.
    pub(super) fn get(&mut self, id: Option<i64>, strings: &Strings, part: &mut Part, shorten: impl FnOnce(&str) -> &str) -> Name {
        let id = id.unwrap_or(i64::MIN);
        if let Some((_, name)) = self.last.filter(|(last, _)| *last == id) {
            return name;
        }
        let name = self.known.get(&id).copied().unwrap_or_else(|| {
            let name = if let Some(text) = strings.get(id) {
                part.intern(shorten(text))
            } else {
                part.issue(Severity::Warning, "unnamed_events", "", 1, || {
                    "expected every event to have its name in `StringIds`, found none for some; they are called `unknown`".to_string()
                });
                part.intern("unknown")
            };
            self.known.insert(id, name);
            name
        });
        self.last = Some((id, name));
        name
    }
}
