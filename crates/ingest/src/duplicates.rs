//! Evidence given twice: a copy in another folder, a file beside its packed form, a file and the capture that holds it.
//!
//! Sources are the same when their unpacked content is. Names, packing and folders do not matter.

use std::collections::{BTreeMap, BTreeSet};

use capture::tables::{ColumnMut, ColumnRef, TableVisitor};
use capture::{Capture, Name, Severity, SourceIdx, Table};

/// Sources that may share an issue before it is told once for all.
const MAX_EQUAL_ISSUES: usize = 16;

/// Keeps the rows marked in `keep`, one mark per row.
pub(crate) fn keep_rows<T: Table>(table: &mut T, keep: &[bool]) {
    fn filter<V>(values: &mut Vec<V>, keep: &[bool]) {
        let mut marks = keep.iter();
        values.retain(|_| marks.next().copied().unwrap_or(true));
    }
    for (_, column) in table.columns_mut() {
        match column {
            ColumnMut::I64(values) => filter(values, keep),
            ColumnMut::I32(values) => filter(values, keep),
            ColumnMut::U32(values) => filter(values, keep),
            ColumnMut::F64(values) => filter(values, keep),
            ColumnMut::OptI64(values) => filter(values, keep),
            ColumnMut::Name(values) => filter(values, keep),
            ColumnMut::Source(values) => filter(values, keep),
            ColumnMut::ListF64(values) => filter(values, keep),
        }
    }
}

/// Drops the rows of some sources.
struct Without<'a>(&'a BTreeSet<u32>);

impl TableVisitor for Without<'_> {
    type Error = std::convert::Infallible;

    fn visit<T: Table>(&mut self, table: &mut T) -> Result<(), Self::Error> {
        let keep = table.columns().into_iter().find_map(|(_, column)| match column {
            ColumnRef::Source(sources) => Some(sources.iter().map(|source| !self.0.contains(&source.0)).collect::<Vec<bool>>()),
            _ => None,
        });
        if let Some(keep) = keep.filter(|keep| keep.contains(&false)) {
            keep_rows(table, &keep);
        }
        Ok(())
    }
}

/// What has been read: content, what makes equal content mean something else (arm, time, replica), and its name.
#[derive(Default)]
pub(crate) struct Seen {
    read: BTreeMap<(String, String), String>,
    in_captures: BTreeMap<String, String>,
}

impl Seen {
    /// The name of the source with the same content, if one was read; otherwise notes this one.
    pub(crate) fn first(&mut self, hashes: [&str; 2], meaning: &str, name: &str) -> Option<String> {
        if let Some(known) = hashes.iter().find_map(|hash| self.in_captures.get(*hash)) {
            return Some(known.clone());
        }
        let key = (hashes[0].to_string(), meaning.to_string());
        if let Some(known) = self.read.get(&key) {
            return Some(known.clone());
        }
        self.read.insert(key, name.to_string());
        None
    }

    /// Takes out of a capture the sources that an earlier capture holds, and notes the others.
    pub(crate) fn take_out(&mut self, capture: &mut Capture) -> Vec<(String, String)> {
        let mut dropped = BTreeSet::new();
        let mut told = Vec::new();
        for (at, source) in (0..).zip(&capture.manifest.sources) {
            let known = hashes(source).find_map(|hash| self.in_captures.get(hash));
            if let Some(known) = known {
                dropped.insert(at);
                told.push((source.name.clone(), known.clone()));
            }
        }
        for source in &capture.manifest.sources {
            for hash in hashes(source) {
                self.in_captures.entry(hash.to_string()).or_insert_with(|| source.name.clone());
            }
        }
        if dropped.is_empty() {
            return told;
        }
        let Ok(()) = capture.tables.visit(&mut Without(&dropped));
        let mut kept = Vec::new();
        let mut map = Vec::new();
        for (at, source) in (0..).zip(std::mem::take(&mut capture.manifest.sources)) {
            map.push(SourceIdx(kept.len() as u32));
            if !dropped.contains(&at) {
                kept.push(source);
            }
        }
        capture.manifest.sources = kept;
        let names: Vec<Name> = (0..capture.names.len() as u32).map(Name).collect();
        capture.tables.remap(&names, &map);
        told
    }
}

/// The hashes by which a source can be recognized; a stream has none.
fn hashes(source: &capture::Source) -> impl Iterator<Item = &str> {
    [source.content_hash.as_str(), source.hash.as_str()].into_iter().filter(|hash| !hash.is_empty())
}

/// Tells that a source was left out.
pub(crate) fn tell(total: &mut Capture, name: &str, first: &str) {
    let sentence = format!("expected each piece of evidence once, found the content of `{first}` again; it is left out");
    total.add_issue(Severity::Note, "duplicate_source", name, "", 1, &sentence);
}

/// Issues that many sources share word for word become one row that counts them.
pub(crate) fn fold_issues(capture: &mut Capture) {
    let mut groups: BTreeMap<(Name, Name, Name), Vec<usize>> = BTreeMap::new();
    let issues = &capture.tables.issues;
    for at in 0..issues.count.len() {
        groups.entry((issues.severity[at], issues.code[at], issues.sentence[at])).or_default().push(at);
    }
    let mut keep = vec![true; issues.count.len()];
    for ((.., sentence), rows) in groups {
        let issues = &capture.tables.issues;
        let sources: BTreeSet<&str> = rows.iter().map(|&at| capture.names.text(issues.source[at])).collect();
        if sources.len() <= MAX_EQUAL_ISSUES {
            continue;
        }
        let Some(&first) = rows.iter().min_by_key(|&&at| (capture.names.text(issues.source[at]), capture.names.text(issues.place[at])))
        else {
            continue;
        };
        let count = rows.iter().fold(0i64, |sum, &at| sum.saturating_add(issues.count[at]));
        let text = format!("{} (the same in {} sources; the first is named)", capture.names.text(sentence), sources.len());
        for at in rows {
            keep[at] = at == first;
        }
        capture.tables.issues.count[first] = count;
        capture.tables.issues.sentence[first] = capture.intern(&text);
    }
    keep_rows(&mut capture.tables.issues, &keep);
}
