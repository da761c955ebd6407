//! A capture in memory.

use std::cmp::Ordering;

use crate::ids::{Name, SourceIdx};
use crate::issues::Severity;
use crate::manifest::{Manifest, Source, Subject, provenance_rank};
use crate::names::Names;
use crate::tables::{Issue, Issues, Runs, Settings, Table, Tables};

/// Manifest, names and tables. Tables refer to names and sources by index, so they only make sense together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capture {
    /// What it is and where it came from.
    pub manifest: Manifest,
    /// Interned text.
    pub names: Names,
    /// The tables.
    pub tables: Tables,
}

impl Capture {
    /// An empty capture of the current schema.
    pub fn new() -> Self {
        Self { manifest: Manifest::new(), ..Self::default() }
    }

    /// Interns `text`.
    pub fn intern(&mut self, text: &str) -> Name {
        self.names.intern(text)
    }

    /// The text behind `name`.
    pub fn text(&self, name: Name) -> &str {
        self.names.text(name)
    }

    /// Adds a source and returns its index.
    pub fn add_source(&mut self, source: Source) -> SourceIdx {
        let idx = u32::try_from(self.manifest.sources.len()).expect("a capture has fewer than 2^32 sources");
        self.manifest.sources.push(source);
        SourceIdx(idx)
    }

    /// Records an issue with the input.
    pub fn add_issue(&mut self, severity: Severity, code: &str, source: &str, place: &str, count: i64, sentence: &str) {
        let issue = Issue {
            severity: self.intern(severity.as_str()),
            code: self.intern(code),
            source: self.intern(source),
            place: self.intern(place),
            count,
            sentence: self.intern(sentence),
        };
        self.tables.issues.push(issue);
    }

    /// Appends everything of `other`; its names and sources are moved into this capture's index space.
    /// Run indices are kept: two captures with a run 0 become one run 0 with both their evidence.
    pub fn merge(&mut self, other: Self) {
        let base = self.manifest.sources.len() as u32;
        let source_map: Vec<SourceIdx> = (0..other.manifest.sources.len() as u32).map(|at| SourceIdx(base + at)).collect();
        self.manifest.sources.extend(other.manifest.sources);
        self.manifest.clocks.extend(other.manifest.clocks);
        merge_subject(&mut self.manifest.subject, other.manifest.subject);
        self.take_tables(&other.names, other.tables, &source_map);
    }

    /// Appends the next piece of the same recording: like [`merge`](Self::merge), but a source both name (same name,
    /// format and hash) is one source, whose rows add up, and a clock alignment both know is kept once.
    pub fn extend(&mut self, piece: Self) {
        let mut source_map = Vec::with_capacity(piece.manifest.sources.len());
        for source in piece.manifest.sources {
            source_map.push(self.continue_source(source));
        }
        for clock in piece.manifest.clocks {
            if !self.manifest.clocks.contains(&clock) {
                self.manifest.clocks.push(clock);
            }
        }
        merge_subject(&mut self.manifest.subject, piece.manifest.subject);
        self.take_tables(&piece.names, piece.tables, &source_map);
    }

    fn take_tables(&mut self, names: &Names, mut tables: Tables, source_map: &[SourceIdx]) {
        let name_map = self.names.absorb(names);
        tables.remap(&name_map, source_map);
        self.tables.append(tables);
    }

    /// Adds what `source` contributed to the source of the same name, format and hash, or adds the source.
    fn continue_source(&mut self, source: Source) -> SourceIdx {
        let same = |known: &Source| (&known.name, &known.format, &known.hash) == (&source.name, &source.format, &source.hash);
        let Some(at) = self.manifest.sources.iter().position(same) else {
            return self.add_source(source);
        };
        let known = &mut self.manifest.sources[at];
        known.byte_count = if source.hash.is_empty() {
            known.byte_count.saturating_add(source.byte_count) // a stream: every piece brings new bytes
        } else {
            known.byte_count.max(source.byte_count) // a file read in pieces
        };
        known.row_count = known.row_count.saturating_add(source.row_count);
        known.unmapped_count = known.unmapped_count.max(source.unmapped_count);
        known.damaged |= source.damaged;
        SourceIdx(at as u32)
    }

    /// Brings the capture into canonical form: the same evidence gives the same capture, byte for byte, in whatever
    /// order it arrived. Exact duplicates of runs, settings and issues are dropped.
    pub fn canonicalize(&mut self) {
        let name_map = self.names.sort();
        let mut order: Vec<u32> = (0..self.manifest.sources.len() as u32).collect();
        let key = |at: u32| {
            let source = &self.manifest.sources[at as usize];
            (source.name.clone(), source.hash.clone(), source.format.clone())
        };
        order.sort_by_key(|&at| key(at));
        let mut source_map = vec![SourceIdx::default(); order.len()];
        let mut sources = Vec::with_capacity(order.len());
        for (new, &old) in order.iter().enumerate() {
            source_map[old as usize] = SourceIdx(new as u32);
            sources.push(std::mem::take(&mut self.manifest.sources[old as usize]));
        }
        self.manifest.sources = sources;
        self.manifest.clocks.sort_by(|a, b| (&a.source, &a.domain, a.offset_ns).cmp(&(&b.source, &b.domain, b.offset_ns)));
        self.manifest.clocks.dedup();
        self.tables.remap(&name_map, &source_map);
        self.tables.sort_canonical();
        dedup(&mut self.tables.runs, Runs::row, Runs::push);
        dedup(&mut self.tables.settings, Settings::row, Settings::push);
        dedup(&mut self.tables.issues, Issues::row, Issues::push);
        self.manifest.row_counts = self.tables.row_counts().into_iter().map(|(name, rows)| (name.to_string(), rows as u64)).collect();
    }
}

/// Drops rows equal to the one before; the table must be sorted.
fn dedup<T: Table, R: PartialEq>(table: &mut T, row: impl Fn(&T, usize) -> R, push: impl Fn(&mut T, R)) {
    let mut kept = T::default();
    let mut last: Option<usize> = None;
    for at in 0..table.row_count() {
        if last.is_none_or(|before| row(table, before) != row(table, at)) {
            push(&mut kept, row(table, at));
        }
        last = Some(at);
    }
    *table = kept;
}

/// Takes what the other subject knows and this one does not; on a conflict the smaller text wins, so that order does
/// not matter. Two fields have an order of their own: a seen process layout wins over an assumed one, and the provenance
/// that taints most wins.
fn merge_subject(into: &mut Subject, from: Subject) {
    let pick = |mine: &mut String, theirs: String| {
        let take = match (mine.is_empty(), theirs.is_empty()) {
            (_, true) => false,
            (true, false) => true,
            (false, false) => theirs.as_str().cmp(mine.as_str()) == Ordering::Less,
        };
        if take {
            *mine = theirs;
        }
    };
    merge_form(into, &from);
    pick(&mut into.engine, from.engine);
    pick(&mut into.engine_version, from.engine_version);
    pick(&mut into.engine_from, from.engine_from);
    pick(&mut into.model, from.model);
    pick(&mut into.device, from.device);
    pick(&mut into.stated_symptom, from.stated_symptom);
    pick(&mut into.stated_signal, from.stated_signal);
    if provenance_rank(&from.provenance) < provenance_rank(&into.provenance) {
        into.provenance = from.provenance;
    }
    into.device_count = into.device_count.max(from.device_count);
}

/// The process layout is taken whole, never mixed from two sources.
fn merge_form(into: &mut Subject, from: &Subject) {
    let key = |subject: &Subject| {
        let unknown = subject.engine_form.is_empty();
        let assumed = subject.engine_form_from == "assumed";
        let texts =
            [&subject.engine_form, &subject.engine_form_from, &subject.message_channel, &subject.scheduling_process].map(Clone::clone);
        (unknown, assumed, texts)
    };
    if key(from) < key(into) {
        into.engine_form.clone_from(&from.engine_form);
        into.engine_form_from.clone_from(&from.engine_form_from);
        into.message_channel.clone_from(&from.message_channel);
        into.scheduling_process.clone_from(&from.scheduling_process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(form: &str, from: &str, provenance: &str) -> Subject {
        Subject { engine_form: form.into(), engine_form_from: from.into(), provenance: provenance.into(), ..Subject::default() }
    }

    #[test]
    fn subjects_merge_alike_in_either_order() {
        let seen = subject("single process", "log prefixes", "recorded");
        let assumed = subject("api+core", "assumed", "simulated");
        let typed = subject("", "", "typed");
        for order in [[&seen, &assumed, &typed], [&typed, &assumed, &seen], [&assumed, &typed, &seen]] {
            let mut merged = Subject::default();
            for subject in order {
                merge_subject(&mut merged, subject.clone());
            }
            assert_eq!(merged, subject("single process", "log prefixes", "simulated"));
        }
    }
}
