//! What a target is called: the label that alone tells all targets apart, as people know them.

use super::{TARGET_LABELS, TargetKey};

/// Labels in the order in which people name a server.
const BY_PREFERENCE: [&str; 3] = ["instance", "pod", "job"];

/// A replica for each target. One that stands alone has no name, as metrics in a file have none: what a log or a command
/// beside it tells is about the same server.
pub(super) fn of(keys: &[&TargetKey]) -> Vec<Option<String>> {
    if keys.len() < 2 {
        return vec![None; keys.len()];
    }
    for label in BY_PREFERENCE {
        let at = TARGET_LABELS.iter().position(|known| *known == label).expect("a preferred label is a label of targets");
        let mut values: Vec<&str> = keys.iter().map(|key| key[at].as_str()).collect();
        values.sort_unstable();
        values.dedup();
        if values.len() == keys.len() && !values.contains(&"") {
            return keys.iter().map(|key| Some(key[at].clone())).collect();
        }
    }
    keys.iter().map(|key| Some(joined(key))).collect()
}

fn joined(key: &TargetKey) -> String {
    let parts: Vec<&str> = key.iter().map(String::as_str).filter(|value| !value.is_empty()).collect();
    if parts.is_empty() { "0".to_string() } else { parts.join("/") }
}

/// `{job="vllm",instance="10.0.0.1:8000"}`, for the name of the source.
pub(super) fn place(key: &TargetKey) -> String {
    let pairs: Vec<(&str, &str)> =
        TARGET_LABELS.into_iter().zip(key.iter().map(String::as_str)).filter(|(_, value)| !value.is_empty()).collect();
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", capture::labels::canonical(&pairs)) }
}
