//! The one place that meets captures made before: on disk, or of a live window.

use std::collections::BTreeMap;
use std::path::Path;

use capture::{Capture, labels};

use crate::error::IngestError;

/// Scrapes before 2001 stand at the order in which they were found, not at a time.
pub(crate) const EARLIEST_NS: i64 = 1_000_000_000_000_000_000;

/// True when `path` is a capture directory.
pub(crate) fn is_capture(path: &Path) -> bool {
    capture::store::is_capture(path)
}

/// Reads a capture directory.
pub(crate) fn open(path: &Path) -> Result<Capture, IngestError> {
    capture::store::open(path).map_err(|error| IngestError::Capture { path: path.to_path_buf(), reason: error.to_string() })
}

/// What the scrapes of a run in a capture say about its clock: times covered, and starts of API processes by replica.
pub(crate) fn clock_facts(capture: &Capture, run_idx: u32) -> (Option<(i64, i64)>, BTreeMap<String, i64>) {
    let is_scraped: Vec<bool> = capture.manifest.sources.iter().map(|source| source.format.starts_with("prometheus_")).collect();
    let start = capture.names.find("server.start_time");
    let samples = &capture.tables.samples;
    let (mut span, mut starts) = (None, BTreeMap::new());
    for at in 0..samples.t_ns.len() {
        let source = samples.source_idx[at].0 as usize;
        let t_ns = samples.t_ns[at];
        if samples.run_idx[at] != run_idx || t_ns < EARLIEST_NS || !is_scraped.get(source).is_some_and(|is_scraped| *is_scraped) {
            continue;
        }
        let (from, to) = span.get_or_insert((t_ns, t_ns));
        (*from, *to) = ((*from).min(t_ns), (*to).max(t_ns));
        if Some(samples.signal[at]) == start {
            let pairs = labels::pairs(capture.text(samples.labels[at]));
            let replica = pairs.into_iter().find_map(|(key, value)| (key == "replica").then_some(value)).unwrap_or_default();
            starts.insert(replica, (samples.value[at] * 1e9) as i64);
        }
    }
    (span, starts)
}
