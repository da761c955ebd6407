//! How past predictions came out: one entry per verified hypothesis, counted per check, engine and version.
//!
//! Pure: entries come in as lines and go out as a line; files, locks and clocks belong to the caller. A pair of runs
//! verified twice is one entry, whichever of its files it was read from: its key is the hash of what both runs hold.

use std::collections::BTreeMap;

use capture::Capture;
use capture::content_hash::sha256_of;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::{Outcome, Report, Status, TrackRecord, Verification};

/// Schema id of an [`Entry`].
pub const LEDGER_SCHEMA: &str = "inferoscope.ledger/1";

/// One verified hypothesis: a line of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Always [`LEDGER_SCHEMA`].
    pub schema: String,
    /// Hash of both runs and the hypothesis; the same pair verified twice has the same key.
    pub key: String,
    /// When it was verified, ns since the epoch.
    pub time_ns: i64,
    /// Failure mode that made the prediction.
    pub check: String,
    /// Hypothesis within the report of the first run.
    pub hypothesis: String,
    /// What was to be changed.
    pub change: String,
    /// Engine of the first run, empty when unknown.
    pub engine: String,
    /// Its version, empty when unknown.
    pub engine_version: String,
    /// Signal that decides.
    pub signal: String,
    /// Unit of `predicted`, `before` and `measured`.
    pub unit: String,
    /// Interval predicted for it; empty when only a direction was.
    pub predicted: Option<[f64; 2]>,
    /// Measured before the change.
    pub before: Option<f64>,
    /// Measured after the change.
    pub measured: Option<f64>,
    /// How the whole came out.
    pub outcome: Outcome,
}

impl Entry {
    /// Whether the measured value fell inside the predicted interval; empty where either is missing.
    pub fn is_inside(&self) -> Option<bool> {
        let [low, high] = self.predicted?;
        self.measured.map(|measured| measured >= low && measured <= high)
    }

    /// One line of the ledger, with its line break.
    pub fn line(&self) -> String {
        // Structs, strings and finite numbers cannot fail to serialize; a number that is not finite becomes null.
        format!("{}\n", serde_json::to_string(self).unwrap_or_default())
    }
}

/// The entry of a verification; `None` where the first run stated no hypothesis, so nothing was predicted.
pub fn entry(before: &Capture, after: &Capture, verification: &Verification, time_ns: i64) -> Option<Entry> {
    if verification.check.is_empty() {
        return None;
    }
    let decisive = verification.predictions.iter().find(|row| row.prediction.primary);
    let predicted = decisive.map(|row| &row.prediction);
    let subject = &before.manifest.subject;
    Some(Entry {
        schema: LEDGER_SCHEMA.into(),
        key: key(before, after, verification),
        time_ns,
        check: verification.check.clone(),
        hypothesis: verification.hypothesis.clone(),
        change: verification.change.clone(),
        engine: subject.engine.clone(),
        engine_version: subject.engine_version.clone(),
        signal: predicted.map(|prediction| prediction.signal.clone()).unwrap_or_default(),
        unit: predicted.map(|prediction| prediction.unit.clone()).unwrap_or_default(),
        predicted: predicted.and_then(|prediction| prediction.to),
        before: decisive.and_then(|row| row.before),
        measured: decisive.and_then(|row| row.after),
        outcome: verification.outcome,
    })
}

fn key(before: &Capture, after: &Capture, verification: &Verification) -> String {
    let mut key = sha256_of(&[&before.content_sha256(), &after.content_sha256(), &verification.check, &verification.hypothesis]);
    key.truncate(32);
    key
}

/// Entries of a ledger, and the lines that could not be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    /// One per pair and hypothesis, in the order of their first line; of several lines the last counts.
    pub entries: Vec<Entry>,
    /// Numbers of the damaged lines, the first is 1.
    pub damaged: Vec<usize>,
}

impl Ledger {
    /// Reads a ledger's bytes; empty lines are no damage.
    pub fn read(bytes: &[u8]) -> Self {
        let mut ledger = Self::default();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for (at, line) in bytes.split(|&byte| byte == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty()) {
            let entry = serde_json::from_slice::<Entry>(line).ok().filter(|entry| entry.schema == LEDGER_SCHEMA);
            let Some(entry) = entry else {
                ledger.damaged.push(at + 1);
                continue;
            };
            let slot = *known.entry(entry.key.clone()).or_insert(ledger.entries.len());
            if slot == ledger.entries.len() {
                ledger.entries.push(entry);
            } else {
                ledger.entries[slot] = entry;
            }
        }
        ledger
    }

    /// Counts per check, engine and version, in that order; `check` keeps only one.
    pub fn summary(&self, check: Option<&str>) -> Vec<TrackRecord> {
        let mut rows: BTreeMap<(&str, &str, &str), TrackRecord> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| check.is_none_or(|check| entry.check == check)) {
            let row = rows.entry((&entry.check, &entry.engine, &entry.engine_version)).or_insert_with(|| TrackRecord {
                check: entry.check.clone(),
                engine: entry.engine.clone(),
                engine_version: entry.engine_version.clone(),
                ..TrackRecord::default()
            });
            count(row, entry);
        }
        rows.into_values().collect()
    }

    /// What past predictions of the checks that this report leans on are worth, on this engine. Of the versions the ledger
    /// knows, each has its row.
    pub fn beside(&self, report: &Report) -> Vec<TrackRecord> {
        if report.verdict.status != Status::Localized {
            return Vec::new();
        }
        let leans_on = |check: &str| report.findings.iter().any(|finding| finding.check == check && !finding.hypotheses.is_empty());
        let rows = self.summary(None).into_iter();
        rows.filter(|row| leans_on(&row.check) && row.engine == report.subject.engine).collect()
    }
}

fn count(row: &mut TrackRecord, entry: &Entry) {
    row.verified += 1;
    match entry.outcome {
        Outcome::Confirmed => row.confirmed += 1,
        Outcome::Refuted => row.refuted += 1,
        Outcome::Inconclusive => row.inconclusive += 1,
        Outcome::NotComparable => row.not_comparable += 1,
    }
    // Runs that cannot be compared say nothing about an interval, whatever was measured.
    if let Some(inside) = entry.is_inside().filter(|_| entry.outcome != Outcome::NotComparable) {
        row.with_interval += 1;
        row.inside += u64::from(inside);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, check: &str, outcome: Outcome, measured: f64) -> Entry {
        Entry {
            schema: LEDGER_SCHEMA.into(),
            key: key.into(),
            time_ns: 1,
            check: check.into(),
            hypothesis: "h1".into(),
            change: String::new(),
            engine: "vllm".into(),
            engine_version: "0.33.0".into(),
            signal: "server.queue_time.mean".into(),
            unit: "s".into(),
            predicted: Some([0.0, 0.05]),
            before: Some(2.4),
            measured: Some(measured),
            outcome,
        }
    }

    #[test]
    fn a_pair_counts_once_and_a_damaged_line_is_told() {
        let lines = [
            entry("a", "batch_cap_reached", Outcome::Inconclusive, 0.2).line(),
            "{\"schema\":\"inferoscope.led".into(),
            entry("b", "batch_cap_reached", Outcome::Refuted, 1.9).line(),
            "\n".into(),
            entry("a", "batch_cap_reached", Outcome::Confirmed, 0.04).line(),
            entry("c", "kv_thrash", Outcome::Confirmed, 0.05).line(),
        ];
        // The damaged line has no line break of its own: it swallows the entry after it, and no more.
        let ledger = Ledger::read(lines.concat().as_bytes());
        assert_eq!((ledger.entries.len(), ledger.damaged.as_slice()), (2, [2].as_slice()));
        let rows = ledger.summary(Some("batch_cap_reached"));
        assert_eq!((rows.len(), rows[0].verified, rows[0].confirmed, rows[0].inside), (1, 1, 1, 1));
        assert_eq!(ledger.summary(None).len(), 2);
    }

    #[test]
    fn an_interval_holds_or_not() {
        assert_eq!(entry("a", "x", Outcome::Confirmed, 0.05).is_inside(), Some(true));
        assert_eq!(entry("a", "x", Outcome::Confirmed, 0.051).is_inside(), Some(false));
        assert_eq!(Entry { predicted: None, ..entry("a", "x", Outcome::Confirmed, 0.0) }.is_inside(), None);
        let apart = Ledger { entries: vec![entry("a", "x", Outcome::NotComparable, 0.01)], damaged: Vec::new() };
        assert_eq!((apart.summary(None)[0].with_interval, apart.summary(None)[0].not_comparable), (0, 1));
    }
}
