//! Which of the metric names of a server are worth asking for.

use crate::engines::{ENGINES, web};
use crate::formats::prometheus_text::is_part_of;

use super::answer::{self, AnswerError};

/// What Prometheus itself notes of every scrape: whether it failed, and how long it took.
const OF_SCRAPES: [&str; 2] = ["up", "scrape_duration_seconds"];

/// Names of metrics, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredNames {
    /// Served by an engine only.
    pub engine: Vec<String>,
    /// Served by many things, worth asking for where an engine is served.
    pub shared: Vec<String>,
    /// Of an engine, without a signal here.
    pub unmapped_count: usize,
    /// All names of the answer.
    pub total_count: usize,
}

/// Reads an answer of `label/__name__/values`.
///
/// # Errors
/// When the answer says so or is something else.
pub fn read_names(body: &[u8]) -> Result<StoredNames, AnswerError> {
    let mut names = StoredNames::default();
    for name in answer::read_any(body)?.strings {
        names.total_count += 1;
        if is_engine_signal(&name) {
            names.engine.push(name);
        } else if is_of_engine(&name) {
            names.unmapped_count += usize::from(!name.ends_with("_created"));
        } else if OF_SCRAPES.contains(&name.as_str()) || web::METRICS.iter().any(|metric| is_part_of(metric, &name)) {
            names.shared.push(name);
        }
    }
    for list in [&mut names.engine, &mut names.shared] {
        list.sort_unstable();
        list.dedup();
    }
    Ok(names)
}

/// True when only an engine serves a metric of this name.
pub(super) fn is_of_engine(name: &str) -> bool {
    ENGINES.iter().any(|engine| engine.prefixes.iter().any(|prefix| name.starts_with(prefix)))
}

fn is_engine_signal(name: &str) -> bool {
    ENGINES.iter().any(|engine| {
        let bare = engine.prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
        bare.is_some_and(|bare| (engine.info)(bare, &[]).is_some() || engine.metrics.iter().any(|metric| is_part_of(metric, bare)))
    })
}
